/** The end of a run that was recorded: its captures, of a run that broke as well. */
import type { CaptureFiles } from "../../fabric/rack/run_file.ts";
import { type RecordedRun, removeHalfWritten, scopeFor, writeCaptures } from "../captures.ts";
import { onInterrupt } from "./interrupt.ts";

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
