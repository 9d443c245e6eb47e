/**
 * A malicious peer's hints, for tests (H-24): a victim with memory of several owners, queue pairs that may bring hints
 * in every way, and frames that are built as hints are, but for what their fields say.
 */
import { type Rng, rngFor } from "../../../fabric/base/rng.ts";
import { HINT_PLAN, type HintPlan } from "../../../fabric/rack/plan/hint_plan.ts";
import { PAGE_FAULT_RULES } from "../../../fabric/rack/plan/plan.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { MULTICAST_QPN } from "../../../fabric/wire/roce/bth.ts";
import {
  attachHint,
  attachRange,
  encodeHint,
  type HintEntry,
  type HintGroup,
  type HintMessage,
  hintParts,
} from "../../../fabric/wire/roce/hint.ts";
import {
  HINT_ETH_FIELDS,
  HINT_KINDS,
  HINT_OPERATIONS,
  HINT_REASONS,
  HINT_TYPES,
  type HintEth,
} from "../../../fabric/wire/roce/hint_eth.ts";
import { macOfAddress } from "../../../fabric/wire/roce/neighbour.ts";
import { OPCODE } from "../../../fabric/wire/roce/opcode.ts";
import { encodePacket, type RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { DemandDriver } from "./demand_testing.ts";
import { changed, EVERY_ACCESS, type Pair, PAIR_BYTES, post } from "./pair_testing.ts";
import { type RigMr, type RigQp, stepsToRts } from "./rig_parts_testing.ts";
import { Rig } from "./rnic_testing.ts";
import { connectUc, createUd, packetsFrom } from "./unreliable_testing.ts";

export const PAGE = 4096;
export const QUOTA = 3;
export const ATTRIBUTES = { accessFlags: EVERY_ACCESS, timeout: 9 } as const;

/** Address of a third machine, which is nothing but its frames. */
const STRANGER = 0x0a00_0063;
const GROUP = 0xe000_0a01, Q_KEY = 7;
/** Chips of the victim: small, so that a flood would put all out that is of others. */
const LINES = 8, CONTEXTS = 16;
const TRANSPORTS = ["carrier", "multicast", "trusted"] as const;

export type Ends = { readonly a: Pick<RigQp, "qpn">; readonly b: RigQp };

/** Machine `a` has an honest queue pair and those of an attacker; `b` has memory of several owners. */
export interface World {
  readonly rig: Rig;
  readonly driver: DemandDriver;
  readonly honest: Pair;
  /** Of the attacker: with its own hints, with those of all, RC and UC without, and for other encodings. */
  readonly own: Ends;
  readonly carrier: Ends;
  readonly member: Ends;
  readonly uc: Ends;
  readonly spare: Ends;
  /** Its peer may take part in no hints. */
  readonly off: Ends;
  /** Members of the group of hints. */
  readonly group: Ends;
  /** Queue pairs of `b` whose peer is the third machine, the first of them a carrier. */
  readonly strangers: readonly Ends[];
  /** What that may access: many pages, none of which is there. */
  readonly theirs: RigMr;
  /** Regions of `b` that `a` has no right to: of another domain, without remote rights. */
  readonly closed: readonly RigMr[];
}

export interface WorldOptions {
  readonly seed: number;
  readonly b?: Partial<HintPlan>;
  /** The host takes a page back at one in so many DMA requests. */
  readonly takeOneIn?: number;
  /** Queue pairs of the third machine. */
  readonly strangers?: number;
}

export function createWorld({ seed, b, takeOneIn = 0, strangers = 6 }: WorldOptions): World {
  const transport = TRANSPORTS[Math.floor(seed / 3) % TRANSPORTS.length]!;
  const kinds = HINT_PLAN.kinds | HINT_KINDS.atomic;
  const hints = { ...HINT_PLAN, kinds, batch: 1, quota: QUOTA, transport };
  const common = {
    pageFault: PAGE_FAULT_RULES[seed % PAGE_FAULT_RULES.length]!,
    translations: { entries: 8 * LINES, evict: "lru" as const },
    queueCache: { entries: CONTEXTS, evict: "oldest" as const, amount: 1 },
  };
  const rig = new Rig({
    seed,
    plans: { a: { ...common, hints }, b: { ...common, hints: { ...hints, ...b } } },
  });
  const driver = new DemandDriver(rig, rig.b, { rng: rngFor(seed, "pressure"), takeOneIn });
  const from = rig.register(rig.a, { length: PAIR_BYTES, access: EVERY_ACCESS });
  const to = driver.register({ length: PAIR_BYTES, access: EVERY_ACCESS });
  const [theirs, ...closed] = [
    { va: 0x4_0000_0000, access: EVERY_ACCESS, pd: 3, length: 96 * PAGE },
    { va: 0x5_0000_0000, access: EVERY_ACCESS, pd: 2 },
    { va: 0x6_0000_0000, access: ACCESS.localWrite, pd: 1 },
  ].map((region) => driver.register({ length: 4 * PAGE, ...region })) as [RigMr, ...RigMr[]];
  rig.fill(rig.a, from, (i) => i * 7 + (i >> 8));
  for (const region of [to, theirs, ...closed]) rig.fill(rig.b, region, (i) => 0x55 ^ i);
  const connect = (hints?: "carrier" | "off") =>
    rig.connect({ attributes: ATTRIBUTES, ...(hints && { hints }) });
  const honest = { rig, ...connect(), from, to };
  const attackers = { own: connect(), carrier: connect("carrier"), member: connect() };
  const others = { uc: connectUc(rig), spare: connect(), off: connect("off") };
  const [a, ofB] = [rig.a, rig.b].map((side) => {
    const qp = createUd(rig, side, {
      hints: "group",
      privileged: true,
      qKey: Q_KEY,
      depth: 4,
      rqDepth: 4,
    });
    const reply = rig.command(side, { op: "attach-mcast", qpn: qp.qpn, group: GROUP });
    if (reply.status !== "ok") throw new Error(reply.reason);
    return qp;
  }) as [RigQp, RigQp];
  const third = Array.from({ length: strangers }, (_, i) => connectStranger(rig, i));
  rig.run();
  const group = { a, b: ofB };
  return { rig, driver, honest, ...attackers, ...others, group, strangers: third, theirs, closed };
}

/** A queue pair of `b` with the third machine, whose numbers are as real ones. */
function connectStranger(rig: Rig, i: number): Ends {
  const qpn = 0x700 + i;
  const small = { depth: 4, rqDepth: 4, pd: 3, ...(i === 0 && { hints: "carrier" as const }) };
  const b = rig.createQp(rig.b, small);
  for (const step of stepsToRts(STRANGER, { qpn, attributes: ATTRIBUTES })) {
    const reply = rig.modify(rig.b, b, step);
    if (reply.status !== "ok") throw new Error(reply.reason);
  }
  return { a: { qpn }, b };
}

/** One of these, or anything of so many bits. */
function odd(rng: Rng, bits: number, values: readonly number[]): number {
  const choice = rng.below(values.length + 1);
  return choice < values.length ? values[choice]! : rng.next() % 2 ** bits;
}

/** Queue pairs, and regions whose right keys the attacker has. */
interface Known {
  readonly ends: readonly Ends[];
  readonly regions: readonly RigMr[];
}

function knownTo({ honest, own, carrier, member, uc, spare, off, ...world }: World): Known {
  const { strangers, closed } = world;
  return {
    ends: [honest, own, carrier, member, uc, spare, off, ...strangers],
    regions: [honest.to, honest.to, honest.to, world.theirs, ...closed],
  };
}

/** A message as it could be, but for what its fields say. */
function randomMessage(rng: Rng, { ends, regions }: Known): HintMessage {
  const { prefetch, warmUp, receive, atomic } = HINT_KINDS;
  const entry = (): HintEntry => {
    const region = regions[rng.below(regions.length)]!;
    const place = odd(rng, 16, [0, 0, PAGE, region.length - 1, region.length, -1]);
    return {
      kinds: odd(rng, 8, [prefetch, warmUp, receive, prefetch | atomic, 0xff, 0, receive]),
      operation: HINT_OPERATIONS[rng.below(HINT_OPERATIONS.length)]!,
      messages: odd(rng, 16, [0, 1, 0xffff]),
      sequence: odd(rng, 24, [0, 0xff_ffff]),
      // Some keys are right, else nothing is ever begun.
      rkey: odd(rng, 32, [region.key, region.key, region.key, 0, region.key + 1]),
      length: odd(rng, 32, [
        0,
        1,
        64,
        PAGE,
        region.length,
        region.length + 1,
        2 ** 31,
        2 ** 32 - 1,
      ]),
      va: rng.below(8) === 0 ? 2n ** 64n - 1n : BigInt(region.va + place),
      objects: Array.from({ length: rng.below(3) }, () => BigInt(rng.next())),
    };
  };
  const group = (): HintGroup => {
    const { a, b } = ends[rng.below(ends.length)]!;
    return {
      sourceQpn: odd(rng, 24, [a.qpn, a.qpn, a.qpn, b.qpn]),
      destQpn: odd(rng, 24, [b.qpn, b.qpn, b.qpn, 0, 1]),
      entries: Array.from({ length: rng.below(5) }, entry),
    };
  };
  return {
    // Announcements mostly.
    type: rng.below(2) === 0 ? "announce" : HINT_TYPES[rng.below(HINT_TYPES.length)]!,
    kinds: odd(rng, 8, [0, 0xff]),
    reason: HINT_REASONS[rng.below(HINT_REASONS.length)]!,
    sequence: odd(rng, 32, [0, 1, 2, 3, 4, 5]),
    answer: rng.below(2) === 0,
    groups: Array.from({ length: rng.below(4) }, group),
  };
}

/** Nothing but elements that are in order, of as many pages, lines and contexts as there are: more than any quota. */
function flood(rng: Rng, { ends, regions }: Known): HintMessage {
  const { prefetch, warmUp, atomic } = HINT_KINDS;
  const kinds = [prefetch, warmUp, prefetch | warmUp, atomic, prefetch | warmUp | atomic];
  const groups = Array.from({ length: 1 + rng.below(6) }, (): HintGroup => {
    const { a, b } = ends[rng.below(ends.length)]!;
    const entries = Array.from({ length: 1 + rng.below(8) }, (): HintEntry => {
      const region = regions[rng.below(regions.length)]!;
      const page = rng.below(Math.floor(region.length / PAGE));
      // Pages that lie together are one page request.
      const pages = rng.below(4) > 0 ? 1 : 1 + rng.below(Math.floor(region.length / PAGE) - page);
      const operation = rng.below(2) === 0 ? "write" : "fetch-add";
      const length = operation === "write" ? pages * PAGE : 8;
      const place = { rkey: region.key, va: BigInt(region.va + page * PAGE), length };
      const rest = { messages: 1, sequence: rng.below(2 ** 24), objects: [] };
      return { kinds: kinds[rng.below(kinds.length)]!, operation, ...place, ...rest };
    });
    return { sourceQpn: a.qpn, destQpn: b.qpn, entries };
  });
  const answer = rng.below(2) === 0, sequence = rng.below(64);
  return { type: "announce", kinds: 0, reason: "none", sequence, answer, groups };
}

/** Damage that a sender would do on purpose: any header field, bytes anywhere, too short, too long. */
function damaged(
  rng: Rng,
  message: HintMessage,
): Required<Pick<RocePacket, "hintEth" | "payload">> {
  let { hintEth, payload }: { hintEth: HintEth; payload: Uint8Array<ArrayBuffer> } = hintParts(
    message,
  );
  const fate = rng.below(8);
  if (fate === 0) {
    const [name, bits] = HINT_ETH_FIELDS[rng.below(HINT_ETH_FIELDS.length)]!;
    const value = rng.next() % 2 ** bits;
    hintEth = { ...hintEth, [name]: bits === 1 ? value === 1 : value };
  } else if (fate === 1 && payload.length > 0) {
    payload = payload.slice();
    for (let i = rng.below(4); i >= 0; i--) payload[rng.below(payload.length)] = rng.below(256);
  } else if (fate === 2 || fate === 3) {
    payload = resized(rng, payload);
    // With its size made right again, or as it was.
    if (rng.below(2) === 0) hintEth = { ...hintEth, bytes: encodeHint(message).length };
  }
  return { hintEth, payload };
}

function resized(rng: Rng, payload: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const length = rng.below(2) === 0
    ? rng.below(payload.length + 1)
    : payload.length + rng.below(64);
  const other = new Uint8Array(length);
  other.set(payload.subarray(0, length));
  return other;
}

/** A packet of the honest machine, with a code of hints: what is on it beside its fields is right. */
export function templateOf({ rig }: World, to: "a" | "b"): RocePacket {
  return packetsFrom(rig, to === "b" ? "a" : "b").find(({ hintEth }) => hintEth)!;
}

/** A frame to `b`, or, with made-up answers, to `a`: by any queue pair and in any encoding. */
export function hostileFrame(rng: Rng, world: World, to: "a" | "b"): Uint8Array<ArrayBuffer> {
  const known = knownTo(world);
  const message = rng.below(6) === 0 ? flood(rng, known) : randomMessage(rng, known);
  const template = templateOf(world, to);
  const way = rng.below(10);
  if (way < 2) return inOtherEncoding(rng, { world, template, to, message });
  if (way < 4) return datagram(rng, { world, template, to, message });
  const { honest, own, carrier, member, uc, off, strangers } = world;
  const ways = [own, own, carrier, carrier, member, honest, uc, off];
  // One that never names a wrong key is listened to until the end.
  if (to === "b" && way === 4) return strangersFlood(rng, world);
  if (to === "b" && way === 5) {
    // The number of a queue pair that has another peer opens nothing.
    const qps = [...strangers.slice(1), honest, carrier];
    const qp = qps[rng.below(qps.length)]!;
    return strangersFrame(rng, { template, qp, message, isDamaged: true });
  }
  const { qpn } = ways[rng.below(ways.length)]![to];
  const { hintEth, payload } = damaged(rng, message);
  const destQpn = rng.below(16) === 0 ? rng.below(2 ** 24) : qpn;
  const bth = { destQpn, psn: rng.below(2 ** 24), padCount: -payload.length & 3 };
  return encodePacket(changed(template, { hintEth, payload, bth }));
}

interface Sending {
  readonly world: World;
  readonly template: RocePacket;
  readonly to: "a" | "b";
  readonly message: HintMessage;
}

/** H-07: as a header or payload of a SEND, or as the flag of a READ or WRITE of no bytes. */
function inOtherEncoding(
  rng: Rng,
  { world, template, to, message }: Sending,
): Uint8Array<ArrayBuffer> {
  const psn = (0xff_fffe + rng.below(6)) & 0xff_ffff;
  const { hintEth: _, ...plain } = template;
  const payload = new Uint8Array();
  const bth = { ...template.bth, destQpn: world.spare[to].qpn, psn, padCount: 0, ackReq: true };
  const form = rng.below(4);
  if (form < 2) {
    const send = { ...plain, payload, bth: { ...bth, opcode: OPCODE["RC SEND ONLY"] } };
    return encodePacket(attachHint(send, { form: form === 0 ? "header" : "payload", message }));
  }
  const { va, rkey, length } = message.groups[0]?.entries[0] ?? { va: 0n, rkey: 0, length: 1 };
  const opcode = OPCODE[form === 2 ? "RC RDMA READ REQUEST" : "RC RDMA WRITE ONLY"];
  const reth = { va, rkey, length: 0 };
  const packet = { ...plain, payload, reth, bth: { ...bth, opcode } };
  return encodePacket(attachRange(packet, 1 + length % 2 ** 31));
}

/** H-08, figure 9: to the group, or straight to its member; of the honest machine's address or another one. */
function datagram(rng: Rng, { world, template, to, message }: Sending): Uint8Array<ArrayBuffer> {
  const { group, own } = world;
  let payload = encodeHint(message);
  if (rng.below(4) === 0) payload = resized(rng, payload);
  const isDirect = rng.below(4) === 0;
  const destQpn = isDirect ? odd(rng, 24, [group[to].qpn, own[to].qpn]) : MULTICAST_QPN;
  const packet = asDatagram(template, { payload, qKey: odd(rng, 32, [Q_KEY, Q_KEY, Q_KEY, 0]) });
  const { destinationAddress, destinationMac } = isDirect ? template : packet;
  const sourceAddress = rng.below(3) === 0 ? STRANGER : template.sourceAddress;
  const place = { sourceAddress, destinationAddress, destinationMac };
  return encodePacket(changed(packet, { ...place, bth: { destQpn, psn: rng.below(2 ** 24) } }));
}

/** A datagram to the group of hints, of the machine that the template is of. */
export function asDatagram(
  { hintEth: _, ...template }: RocePacket,
  { payload, qKey = Q_KEY }: {
    readonly payload: Uint8Array<ArrayBuffer>;
    readonly qKey?: number;
  },
): RocePacket {
  const deth = { qKey, reserved: 0, sourceQpn: 0x700 };
  const toGroup = { destinationAddress: GROUP, destinationMac: macOfAddress(GROUP) };
  const opcode = OPCODE["UD SEND ONLY"], padCount = -payload.length & 3;
  const bth = { ...template.bth, opcode, destQpn: MULTICAST_QPN, padCount };
  return { ...template, ...toGroup, bth, deth, payload };
}

/** A frame of the third machine, by one of its own queue pairs. */
export function strangersFrame(
  rng: Rng,
  { template, qp, message, isDamaged }: {
    readonly template: RocePacket;
    readonly qp: Ends;
    readonly message: HintMessage;
    readonly isDamaged: boolean;
  },
): Uint8Array<ArrayBuffer> {
  const { hintEth, payload } = isDamaged ? damaged(rng, message) : hintParts(message);
  const bth = { destQpn: qp.b.qpn, psn: rng.below(2 ** 24), padCount: -payload.length & 3 };
  return encodePacket(changed(template, { sourceAddress: STRANGER, hintEth, payload, bth }));
}

/**
 * The worst that a third machine can do with rights of its own: all that it asks for is granted, as far as its quota
 * goes, and it asks for more than there is room for.
 */
export function strangersFlood(rng: Rng, world: World): Uint8Array<ArrayBuffer> {
  const { strangers: ends, theirs } = world;
  const message = flood(rng, { ends, regions: [theirs] });
  const template = templateOf(world, "b");
  // By its carrier, so that it may speak of all its queue pairs.
  return strangersFrame(rng, { template, qp: ends[0]!, message, isDamaged: false });
}

/** WRITEs, READs, atomics and SENDs of the honest queue pair, whose result is known. */
export function honestWork({ rig, honest }: World, round: number): void {
  for (let i = 0; i < 3; i++) post(honest, "write", { at: i * PAGE + round * 64, length: 64 });
  post(honest, "read", { at: 3 * PAGE, length: 64 });
  const atomic = { swapAdd: 1n, compare: 0n };
  post(honest, "fetch-add", { at: 4 * PAGE, length: 8, atomic });
  const address = honest.to.va + 5 * PAGE + round * 64;
  rig.recv(rig.b, honest.b, [{ address, length: 64, lkey: honest.to.key }], "pointer");
  post(honest, "send", { at: 5 * PAGE, length: 64 });
  rig.ring(rig.a, honest.a.sq);
}
