/**
 * The content of a host's SCM after a run: its file, overlaid with the last span's record in
 * `<file>.log`, which a running or killed process has not merged. See
 * `nodes/host/store/scm_file.ts`.
 */
import { reportedAtDeath } from "../../nodes/files.ts";
import type { DurableWrite } from "../../fabric/node.ts";
import { SCM_BASE } from "../../nodes/host/memory/address_map.ts";
import type { HeldWrites } from "../../nodes/rnic/dma/journal.ts";
import { overlay } from "../../nodes/host/memory/sparse_bytes.ts";
import { decodeRecord, isReported } from "../../nodes/host/store/scm_record.ts";
import { isWritten } from "../../nodes/host/store/scm_sums.ts";
import { ifThere, isThere, readInto } from "../base/files.ts";
import type { ImageView } from "../checks/run_record.ts";

/**
 * Writes that the host has missed and each of its cards replays at its return (domain `wsp`, see
 * `nodes/rnic/dma/journal.ts`). Empty for a host that has power.
 * @param reports of the run, oldest first.
 */
export function heldFor(
  host: string,
  reports: readonly { readonly node: string; readonly topic: string; readonly value: unknown }[],
): DurableWrite[] {
  const last = new Map<string, HeldWrites>();
  for (const { node, topic, value } of reports) {
    if (topic === "held" && (value as HeldWrites).host === host) {
      last.set(node, value as HeldWrites);
    }
  }
  const cards = [...last].sort(([x], [y]) => x < y ? -1 : 1);
  return cards.flatMap(([, { writes }]) =>
    writes.map(({ address, data }) => {
      return { offset: address - SCM_BASE, data: Uint8Array.fromHex(data) };
    })
  );
}

export function withHeld(scm: ImageView, held: readonly DurableWrite[]): ImageView {
  return {
    read(from, to) {
      const bytes = scm.read(from, to);
      overlay(bytes, from, held);
      return bytes;
    },
  };
}

const BLOCK_BYTES = 2 ** 20;

function writtenIn(path: string): (from: number, to: number) => boolean {
  const sums = ifThere(() => Deno.readFileSync(`${path}.sums`));
  return sums === undefined ? () => true : (from, to) => isWritten(sums, { from, to });
}

/**
 * Undefined where the host has no SCM file.
 * @param directory of the run: `scm/<host>.scm`, and `faults.jsonl` where power failed.
 * @param options.held writes in its card, see {@link heldFor}.
 */
export function survivedView(
  directory: string,
  host: string,
  { held = [] }: { readonly held?: readonly DurableWrite[] } = {},
): ImageView | undefined {
  const path = `${directory}/scm/${host}.scm`;
  if (!isThere(path)) return undefined;
  const log = ifThere(() => Deno.readFileSync(`${path}.log`));
  const record = log && decodeRecord(log);
  const reported = reportedAtDeath(`${directory}/faults.jsonl`).get(host) ?? "unknown";
  const counts = record !== undefined && isReported(record.span, reported);
  let block = { from: 0, bytes: new Uint8Array(0) };
  const holds = (from: number, to: number) =>
    from >= block.from && to <= block.from + block.bytes.length;
  const over = [...(counts ? record.writes : []), ...held];
  let isInContent: ReturnType<typeof writtenIn> | undefined;
  return {
    touches(from, to) {
      isInContent ??= writtenIn(path);
      return isInContent(from, to) ||
        over.some(({ offset, data }) => offset < to && offset + data.length > from);
    },
    read(from, to) {
      if (!holds(from, to)) {
        const bytes = new Uint8Array(Math.max(BLOCK_BYTES, to - from));
        using file = Deno.openSync(path);
        file.seekSync(from, Deno.SeekMode.Start);
        // Zeros remain beyond the end of the file.
        readInto(file, bytes);
        overlay(bytes, from, over);
        block = { from, bytes };
      }
      return block.bytes.subarray(from - block.from, to - block.from);
    },
  };
}
