/**
 * Two connected queue pairs on the rig, with memory at both ends, and what tests of the transport do
 * with them: post, run, look at packets and completions, meddle with frames.
 */
import { assert } from "../../../fabric/base/assert.ts";
import { OPCODE, type OpcodeName, opcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import {
  decodePacket,
  encodePacket,
  isRefusal,
  type RocePacket,
} from "../../../fabric/wire/roce/packet.ts";
import { ACCESS, type RegionPlan } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { SendWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import { DemandDriver } from "./demand_testing.ts";
import type { FrameFate, RigMr, RigQp } from "./rig_parts_testing.ts";
import { Rig } from "./rnic_testing.ts";

/** Everything that a peer may be allowed to do. */
export const EVERY_ACCESS = ACCESS.localWrite | ACCESS.remoteWrite | ACCESS.remoteRead |
  ACCESS.remoteAtomic | ACCESS.flushGlobal | ACCESS.flushPersistent;

export interface Pair {
  readonly rig: Rig;
  readonly a: RigQp;
  readonly b: RigQp;
  /** Memory of `a`: filled with a pattern. */
  readonly from: RigMr;
  /** Memory of `b`: filled with 0xEE. */
  readonly to: RigMr;
}

export const PAIR_BYTES = 32_768;
/** First PSN of both directions, unless a test chooses: the wrap is three packets away. */
export const FIRST_PSN = 0xff_fffe;

/** A pair with every right, unless `qp` or `access` (of the target region) says less. */
export function pair(
  options: ConstructorParameters<typeof Rig>[0] = {},
  qp: Parameters<Rig["connect"]>[0] = {},
  access = EVERY_ACCESS,
): Pair {
  const rig = new Rig(options);
  const from = rig.register(rig.a, { length: PAIR_BYTES, access: EVERY_ACCESS });
  const to = rig.register(rig.b, { length: PAIR_BYTES, access });
  rig.fill(rig.a, from, (i) => i * 7 + (i >> 8));
  rig.fill(rig.b, to, () => 0xee);
  const attributes = { accessFlags: EVERY_ACCESS, ...qp.attributes };
  return { rig, ...rig.connect({ ...qp, attributes }), from, to };
}

export interface ColdOptions {
  readonly pinned?: boolean;
  /** Whether the host gives pages to be written. */
  readonly writable?: boolean;
  readonly objects?: RegionPlan["objects"];
}

/** Memory as a {@link pair} has it; the target's pages have to be asked for, unless it is pinned. */
export function coldMemory(
  rig: Rig,
  { pinned = false, writable = true, objects }: ColdOptions = {},
): Pick<Pair, "from" | "to"> & { readonly driver: DemandDriver } {
  const from = rig.register(rig.a, { length: PAIR_BYTES, access: EVERY_ACCESS });
  const driver = new DemandDriver(rig, rig.b, { writable });
  const target = { length: PAIR_BYTES, access: EVERY_ACCESS, ...(objects && { objects }) };
  const to = pinned ? rig.register(rig.b, target) : driver.register(target);
  rig.fill(rig.a, from, (i) => i * 7 + (i >> 8));
  rig.fill(rig.b, to, () => 0xee);
  return { from, to, driver };
}

type Wqe = Partial<SendWqe> & Pick<SendWqe, "opcode">;

/** Posts work of `a` at offset `at` of both memories. @returns its ring position. */
export function post(
  p: Pair,
  opcode: SendWqe["opcode"],
  work: { readonly at?: number; readonly length?: number } & Partial<SendWqe> = {},
): number {
  const { at = 0, length = 0, ...more } = work;
  const wqe: Wqe = {
    opcode,
    sges: length === 0 ? [] : [{ address: p.from.va + at, length, lkey: p.from.key }],
    remote: { va: BigInt(p.to.va + at), rkey: p.to.key },
    ...more,
  };
  return p.rig.enqueueSend(p.rig.a, p.a, opcode.startsWith("send") ? withoutRemote(wqe) : wqe);
}

function withoutRemote({ remote: _remote, ...wqe }: Wqe): Wqe {
  return wqe;
}

/** Rings, and runs until nothing happens any more. */
export function go(p: Pair): void {
  p.rig.ring(p.rig.a, p.a.sq);
  p.rig.run();
}

/** Where receives go: the second half of the target. */
export const RECV_AT = PAIR_BYTES / 2;

/** Posts receives of `length` bytes each at `b`, all of the same memory. */
export function recvs(
  p: Pair,
  count: number,
  options: { readonly length?: number; readonly bell?: "pointer" | "none" } = {},
): void {
  const { length = 4096, bell = "none" } = options;
  for (let i = 0; i < count; i++) {
    p.rig.recv(p.rig.b, p.b, [{ address: p.to.va + RECV_AT, length, lkey: p.to.key }], bell);
  }
}

export function packetOf(bytes: Uint8Array<ArrayBuffer>): RocePacket {
  const packet = decodePacket(bytes);
  assert(!isRefusal(packet), "Every frame that is sent can be decoded");
  return packet;
}

/** Packets that a side has sent, in order. */
export function packets(p: Pair, from: "a" | "b"): RocePacket[] {
  return p.rig.frames.filter((frame) => frame.from === from).map(({ bytes }) => packetOf(bytes));
}

export function names(p: Pair, from: "a" | "b"): string[] {
  return packets(p, from).map(({ bth }) => opcodeRow(bth.opcode)!.name);
}

/** Statuses of what has completed at `a`, in order. */
export function statuses(p: Pair): string[] {
  return p.rig.poll(p.rig.a, p.a.sendCq).map(({ status }) => status);
}

export function counter(p: Pair, side: "a" | "b", name: string): number {
  return p.rig[side].rnic.statistics()[name] ?? 0;
}

/** Loses the first `count` frames of this opcode. */
export function losing(opcode: OpcodeName, count = 1): Rig["fate"] {
  let lost = 0;
  return (_from, frame): FrameFate =>
    packetOf(frame.bytes).bth.opcode === OPCODE[opcode] && lost++ < count ? "drop" : "pass";
}

/** Puts a packet of the peer on the wire to a side, made from one that was sent. */
export function inject(
  p: Pair,
  to: "a" | "b",
  packet: RocePacket & { readonly bth: RocePacket["bth"] },
): void {
  p.rig.inject(p.rig[to], encodePacket(packet));
}

/** A packet with other fields; `bth` only those that change. */
export function changed(
  packet: RocePacket,
  change: Partial<Omit<RocePacket, "bth">> & { readonly bth?: Partial<RocePacket["bth"]> },
): RocePacket {
  return { ...packet, ...change, bth: { ...packet.bth, ...change.bth } };
}

/** A word of `b`'s target memory in host order. */
export function word(p: Pair, at: number): bigint {
  return new DataView(p.rig.b.host.memory.buffer, p.to.address + at, 8).getBigUint64(0, true);
}

export function setWord(p: Pair, at: number, value: bigint): void {
  new DataView(p.rig.b.host.memory.buffer, p.to.address + at, 8).setBigUint64(0, value, true);
}

/** A word of `a`'s memory in host order: where an atomic's answer lands. */
export function answerAt(p: Pair, at: number): bigint {
  return new DataView(p.rig.a.host.memory.buffer, p.from.address + at, 8).getBigUint64(0, true);
}
