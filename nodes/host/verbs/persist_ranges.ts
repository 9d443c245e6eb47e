/** P-26, flow 2: ranges that the CPU must flush when the RNIC has consumed a RECV. */
import { assert } from "../../../fabric/base/assert.ts";
import {
  decodePersistRanges,
  PERSIST_RANGE_BYTES,
} from "../../../fabric/wire/host_bus/persist_ranges.ts";
import type { Cpu, Steps } from "../cpu/program.ts";
import type { WorkCompletion, WrId } from "./objects.ts";

/** A range of memory that a peer has written. */
export interface DirtyRange {
  /**
   * Address of the first byte in the region's addresses: with `iova` not the program's own address.
   */
  readonly va: number;
  /** In bytes. */
  readonly length: number;
}

/**
 * The ranges of a `recv-persistence` completion: the peer's earlier plain writes, which are listed
 * in the RECV's memory at `recv`, then the message's own (P-31). All must be flushed before
 * `persistence-ack` is posted with the completion's `psn`.
 */
export function persistRanges(
  cpu: Pick<Cpu, "load">,
  completion: Pick<WorkCompletion<WrId>, "opcode" | "va" | "byteLen" | "immData">,
  recv: number,
): DirtyRange[] {
  const { opcode, va, byteLen, immData: more } = completion;
  assert(opcode === "recv-persistence", `A completion of ${opcode} names no range to be flushed`);
  const listed = more === 0 ? new Uint8Array(0) : cpu.load(recv, more * PERSIST_RANGE_BYTES);
  const ranges = decodePersistRanges(listed).map(({ va, length }) => {
    return { va: Number(va), length: Number(length) };
  });
  return byteLen === 0 ? ranges : [...ranges, { va, length: byteLen }];
}

/** Flushes all these ranges with one fence: they are persistent when this returns. */
export function* flushRanges(
  cpu: Pick<Cpu, "clwb" | "flush">,
  ranges: readonly DirtyRange[],
): Steps<void> {
  const last = ranges.at(-1);
  if (last === undefined) return;
  for (const { va, length } of ranges.slice(0, -1)) cpu.clwb(va, length);
  yield* cpu.flush(last.va, last.length);
}
