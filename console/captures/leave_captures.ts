/** The captures of a run that is recorded: room for them before it, and they at its end, also where it broke. */
import type { CaptureFiles } from "../../fabric/rack/build/run_file.ts";
import { type RecordedRun, removeHalfWritten, scopeFor, writeCaptures } from "./captures.ts";
import { UsageError } from "../rack/failure.ts";
import { onInterrupt } from "../base/interrupt.ts";

/** Makes the folders, so that a run of hours does not fail for them at its end. @throws UsageError */
export async function makeRoomFor({ pcap, perfetto }: CaptureFiles): Promise<void> {
  const folders = { pcap, perfetto: perfetto?.replace(/\/[^/]*$/, "/") };
  for (const [option, folder] of Object.entries(folders)) {
    if (folder === undefined) continue;
    try {
      await Deno.mkdir(folder, { recursive: true });
      await Deno.remove(await Deno.makeTempFile({ dir: folder }));
    } catch (cause) {
      const why = (cause as Error).message;
      throw new UsageError(`Cannot write what ${option} asks for to ${folder}: ${why}`, { cause });
    }
  }
}

/** Writes what was asked for; interrupted, it leaves no half of a file. @returns the paths. */
export async function leaveCaptures(
  recorded: readonly RecordedRun[],
  files: CaptureFiles,
): Promise<string[]> {
  if (scopeFor(files) !== undefined) {
    const leave = () => Promise.resolve(removeHalfWritten(recorded, files));
    onInterrupt("captures", leave, { says: "leaving the captures" });
  }
  return await writeCaptures(recorded, files);
}
