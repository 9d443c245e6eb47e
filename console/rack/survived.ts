/**
 * The content of a host's SCM after a run, whether its process is idle, has ended or was killed:
 * the content of its file, overlaid with the last span's record in `<file>.log`, which a running or
 * killed process has not merged into the content. See `nodes/host/store/scm_file.ts`.
 */
import { reportedAtDeath } from "../../nodes/files.ts";
import type { DurableWrite } from "../../fabric/node.ts";
import { SCM_BASE } from "../../nodes/host/memory/address_map.ts";
import type { HeldWrites } from "../../nodes/rnic/dma/journal.ts";
import { overlay } from "../../nodes/host/memory/sparse_bytes.ts";
import { decodeRecord, isReported } from "../../nodes/host/store/scm_record.ts";
import type { ImageView } from "../checks/run_record.ts";

/**
 * Writes that survived in a host's card: the host has missed them, and the card replays them at its
 * return (domain `wsp`, see `nodes/rnic/dma/journal.ts`). Empty for a host that has power.
 * @param reports of the run, oldest first.
 */
export function heldFor(
  host: string,
  reports: readonly { readonly topic: string; readonly value: unknown }[],
): DurableWrite[] {
  const held = reports.filter(({ topic, value }) =>
    topic === "held" && (value as HeldWrites).host === host
  );
  const last = held.at(-1)?.value as HeldWrites | undefined;
  return (last?.writes ?? []).map(({ address, data }) => {
    return { offset: address - SCM_BASE, data: Uint8Array.fromHex(data) };
  });
}

/** Bytes `[scmOffset, scmOffset + length)` of an SCM. */
export interface ScmRange {
  readonly scmOffset: number;
  readonly length: number;
}

/**
 * Reads what survived in the SCM of `host`.
 * @param directory of the run: `scm/<host>.scm`, and `faults.jsonl` where power failed.
 * @param of.held writes in its card, see {@link heldFor}.
 */
export async function readSurvived(
  directory: string,
  { host, range, held = [] }: {
    readonly host: string;
    readonly range: ScmRange;
    readonly held?: readonly DurableWrite[];
  },
): Promise<Uint8Array<ArrayBuffer>> {
  const path = `${directory}/scm/${host}.scm`;
  const survived = await readRange(path, range);
  const record = decodeRecord(await readIfThere(`${path}.log`));
  const reported = reportedAtDeath(`${directory}/faults.jsonl`).get(host) ?? "unknown";
  if (record !== undefined && isReported(record.span, reported)) {
    overlay(survived, range.scmOffset, record.writes);
  }
  overlay(survived, range.scmOffset, held);
  return survived;
}

/** Bytes that the view reads at a time. */
const BLOCK_BYTES = 2 ** 20;

/** The same as random access; undefined for a host that has no SCM file. */
export function survivedView(
  directory: string,
  host: string,
  { held = [] }: { readonly held?: readonly DurableWrite[] } = {},
): ImageView | undefined {
  const path = `${directory}/scm/${host}.scm`;
  const log = readIfThereSync(`${path}.log`);
  if (readIfThereSync(path, { from: 0, length: 1 }) === undefined) return undefined;
  const record = log && decodeRecord(log);
  const reported = reportedAtDeath(`${directory}/faults.jsonl`).get(host) ?? "unknown";
  const counts = record !== undefined && isReported(record.span, reported);
  let block = { from: 0, bytes: new Uint8Array(0) };
  const holds = (from: number, to: number) =>
    from >= block.from && to <= block.from + block.bytes.length;
  return {
    read(from, to) {
      if (!holds(from, to)) {
        const length = Math.max(BLOCK_BYTES, to - from);
        const bytes = readIfThereSync(path, { from, length }) ?? new Uint8Array(length);
        if (counts) overlay(bytes, from, record.writes);
        overlay(bytes, from, held);
        block = { from, bytes };
      }
      return block.bytes.subarray(from - block.from, to - block.from);
    },
  };
}

/** Undefined where there is no such file; zeros beyond its end. */
function readIfThereSync(
  path: string,
  range?: { readonly from: number; readonly length: number },
): Uint8Array<ArrayBuffer> | undefined {
  try {
    if (range === undefined) return Deno.readFileSync(path);
    using file = Deno.openSync(path);
    file.seekSync(range.from, Deno.SeekMode.Start);
    const bytes = new Uint8Array(range.length);
    for (let at = 0; at < bytes.length;) {
      const count = file.readSync(bytes.subarray(at));
      if (count === null) break;
      at += count;
    }
    return bytes;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
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
