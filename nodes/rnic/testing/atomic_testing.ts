/** Atomics on the rig: posts, where their answers land, and how one is refused. */
import assert from "node:assert/strict";
import type { SendWqe, Sge } from "../../../fabric/wire/host_bus/wqe.ts";
import { go, type Pair, PAIR_BYTES, post, statuses } from "./pair_testing.ts";

/** Posts a FETCH & ADD to the word at offset `at`. @returns its ring position. */
export function fetchAdd(p: Pair, at: number, add: bigint, more: Partial<SendWqe> = {}): number {
  return post(p, "fetch-add", { at, length: 8, atomic: { swapAdd: add, compare: 0n }, ...more });
}

/** Eight bytes of the memory of `a`: where an answer lands. */
export function sge(p: Pair, at: number): Sge {
  return { address: p.from.va + at, length: 8, lkey: p.from.key };
}

/** The work fails with this status, and nothing of the target has changed. */
export function refused(p: Pair, status: string, act: (p: Pair) => void): void {
  act(p);
  go(p);
  assert.deepEqual(statuses(p), [status]);
  assert.deepEqual(p.rig.bytes(p.rig.b, p.to), new Uint8Array(PAIR_BYTES).fill(0xee));
}
