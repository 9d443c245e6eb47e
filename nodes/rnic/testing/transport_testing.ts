/**
 * A connected pair whose own memory lies in pages in reverse order, so that translation matters, and
 * WRITEs and READs over it.
 */
import { type Pair, PAIR_BYTES } from "./pair_testing.ts";
import type { RigMr } from "./rig_parts_testing.ts";
import { Rig } from "./rnic_testing.ts";

/** The memory of `a` is scattered and filled with a pattern, that of `b` with 0xEE. */
export function scatteredPair(
  options: ConstructorParameters<typeof Rig>[0] = {},
  qp: Parameters<Rig["connect"]>[0] = {},
): Pair {
  const rig = new Rig(options);
  const from = rig.register(rig.a, { length: PAIR_BYTES, scattered: true });
  const to = rig.register(rig.b, { length: PAIR_BYTES });
  rig.fill(rig.b, to, () => 0xee);
  for (let i = 0; i < PAIR_BYTES; i++) {
    rig.a.host.memory[physical(from, i)] = (i * 7 + (i >> 8)) & 0xff;
  }
  return { rig, ...rig.connect(qp), from, to };
}

/** Scattered pages lie in reverse order. */
function physical(mr: RigMr, at: number): number {
  const page = Math.floor(at / 4096);
  return mr.address - page * 4096 + (at % 4096);
}

/** What lies in the memory of `a`, in the order of its virtual addresses. */
export function source({ rig, from }: Pair, at: number, length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => rig.a.host.memory[physical(from, at + i)]!);
}

/** Posts a WRITE of one element, also where it is empty. @returns its ring position. */
export function write(
  { rig, a, from, to }: Pair,
  length: number,
  more: { readonly at?: number; readonly signaled?: boolean } = {},
): number {
  const { at = 0, signaled = true } = more;
  return rig.enqueueSend(rig.a, a, {
    opcode: "write",
    signaled,
    remote: { va: BigInt(to.va + at), rkey: to.key },
    sges: [{ address: from.va + at, length, lkey: from.key }],
  });
}

/** Posts a READ into one element, also where it is empty. @returns its ring position. */
export function read({ rig, a, from, to }: Pair, length: number, at = 0): number {
  return rig.enqueueSend(rig.a, a, {
    opcode: "read",
    remote: { va: BigInt(to.va + at), rkey: to.key },
    sges: [{ address: from.va + at, length, lkey: from.key }],
  });
}
