/**
 * Captures of a recorded run: makes their folders before the run and writes them after it, failed
 * runs included.
 */
import type { CaptureFiles } from "../../fabric/rack/build/run_file.ts";
import { type RecordedRun, writeCaptures } from "./captures.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";

/**
 * Makes the folders before the run, so that a long run does not fail at its end. @throws Refusal
 */
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
 * Writes the requested captures, also after a run that failed or was interrupted. An interrupt
 * during the writing leaves no partial file. @returns the paths.
 */
export async function leaveCaptures(
  recorded: readonly RecordedRun[],
  files: CaptureFiles,
  signal?: AbortSignal,
): Promise<string[]> {
  return await writeCaptures(recorded, files, signal?.aborted ? undefined : signal);
}
