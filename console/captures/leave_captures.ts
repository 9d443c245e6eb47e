/** The captures of a run that is recorded: room for them before it, and they at its end, also where it broke. */
import type { CaptureFiles } from "../../fabric/rack/build/run_file.ts";
import { type RecordedRun, writeCaptures } from "./captures.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";

/** Makes the folders, so that a run of hours does not fail for them at its end. @throws Refusal */
export async function makeRoomFor({ pcap, perfetto }: CaptureFiles): Promise<void> {
  const folders = { pcap, perfetto: perfetto?.replace(/\/[^/]*$/, "/") };
  for (const [option, folder] of Object.entries(folders)) {
    if (folder === undefined) continue;
    try {
      await Deno.mkdir(folder, { recursive: true });
      await Deno.remove(await Deno.makeTempFile({ dir: folder }));
    } catch (cause) {
      const why = (cause as Error).message;
      const found = `Cannot write what ${option} asks for to ${folder}: ${why}`;
      throw refusal("", { found, cause });
    }
  }
}

/**
 * Writes what was asked for, also of a run that broke or was interrupted; one that is interrupted over
 * writing them leaves no half of a file. @returns the paths.
 */
export async function leaveCaptures(
  recorded: readonly RecordedRun[],
  files: CaptureFiles,
  signal?: AbortSignal,
): Promise<string[]> {
  return await writeCaptures(recorded, files, signal?.aborted ? undefined : signal);
}
