/**
 * What is in a host's SCM when a run is over, whether its process is idle, has ended or was killed: the
 * content of its file, and on top the record of the last span in `<file>.log`, which a process that was
 * killed, or is still there, has not put into the content. See `nodes/host/scm_store.ts`.
 */
import { reportedAtDeath } from "../nodes/files.ts";
import { decodeRecord, isReported, overlay } from "../nodes/host/scm_store.ts";

/** Bytes `[scmOffset, scmOffset + length)` of an SCM. */
export interface ScmRange {
  readonly scmOffset: number;
  readonly length: number;
}

/**
 * Reads what survived in the SCM of `host`.
 * @param directory of the run: `scm/<host>.scm`, and `faults.jsonl` where power failed.
 */
export async function readSurvived(
  directory: string,
  { host, range }: { readonly host: string; readonly range: ScmRange },
): Promise<Uint8Array<ArrayBuffer>> {
  const path = `${directory}/scm/${host}.scm`;
  const survived = await readRange(path, range);
  const record = decodeRecord(await readIfThere(`${path}.log`));
  const reported = reportedAtDeath(`${directory}/faults.jsonl`).get(host) ?? "unknown";
  if (record !== undefined && isReported(record.span, reported)) {
    overlay(survived, range.scmOffset, record);
  }
  return survived;
}

async function readRange(path: string, range: ScmRange): Promise<Uint8Array<ArrayBuffer>> {
  using file = await Deno.open(path);
  await file.seek(range.scmOffset, Deno.SeekMode.Start);
  const bytes = new Uint8Array(range.length);
  for (let at = 0; at < bytes.length;) {
    const count = await file.read(bytes.subarray(at));
    if (count === null) break;
    at += count;
  }
  return bytes;
}

async function readIfThere(path: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return await Deno.readFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return new Uint8Array(0);
    throw error;
  }
}
