/**
 * Random programs of RC work for the property tests: what each queue pair of two RNICs posts, in which
 * environment, and what it must come to when it is executed in order. A program has one outcome only:
 * what would depend on chance (a READ overtaken by a later WRITE, §3.7) has a fence.
 *
 * `program_play_testing.ts` plays programs, `program_check_testing.ts` judges what came of them.
 */
import { type Rng, rngFor } from "../../../fabric/base/rng.ts";
import { FLUSH_PLACEMENT, FLUSH_SELECT } from "../../../fabric/wire/roce/feth.ts";
import { VERIFY_LEVELS, type VerifyLevel } from "../../../fabric/wire/roce/verify_eth.ts";
import { MAX_INLINE_BYTES } from "../../../fabric/wire/host_bus/wqe.ts";
import type { WqeOpcode } from "../../../fabric/wire/host_bus/wqe_opcode.ts";

/** What a program posts: all that crosses the wire on an RC queue pair. */
export const VERBS = [
  "write",
  "write-immediate",
  "read",
  "send",
  "send-immediate",
  "send-invalidate",
  "fetch-add",
  "compare-swap",
  "flush",
  "atomic-write",
  "write-persistence",
  "write-persist-address",
  "write-verify",
] as const satisfies readonly WqeOpcode[];
export type Verb = typeof VERBS[number];

export interface Op {
  readonly verb: Verb;
  /** Bytes of the message; of a READ, what it asks for; of a FLUSH, its range. */
  readonly length: number;
  /** Place in the line's area of the peer's memory; persistent WRITEs have a place each. */
  readonly at: number;
  /** An atomic's: on the words that all lines share instead. */
  readonly shared: boolean;
  readonly operand: bigint;
  readonly immediate: number;
  readonly inline: boolean;
  readonly fence: boolean;
  readonly signaled: boolean;
  readonly solicited: boolean;
  /** Elements that local memory is split into. */
  readonly pieces: number;
  /** FLUSH: bits of FLUSH_PLACEMENT, FLUSH_SELECT. */
  readonly placement: number;
  readonly select: number;
  /** A verified write: what is checked (V-04), and whether it is persisted too (V-09). */
  readonly level: VerifyLevel;
  readonly persist: boolean;
}

/** What one end of a connected pair posts to the other. */
export interface Line {
  readonly from: "a" | "b";
  readonly pair: number;
  readonly ops: readonly Op[];
}

export interface Program {
  readonly seed: number;
  readonly flow: { readonly a: 1 | 2; readonly b: 1 | 2 };
  readonly policy: "persistence" | "reception";
  readonly pathMtu: 256 | 512 | 1024 | 2048 | 4096;
  /** Packets of the largest message: mostly three, now and then more than are sent without an ACK. */
  readonly packetsMax: number;
  readonly firstPsn: number;
  readonly maxRdAtomic: number;
  readonly retryCnt: number;
  readonly timeout: number;
  readonly cacheEntries: number;
  /** Whether DCQCN and PFC are on, and switches mark and pause. */
  readonly congested: boolean;
  /** Whether the receives of all pairs come from shared queues. */
  readonly srq: boolean;
  readonly pairs: number;
  readonly lines: readonly Line[];
}

/** Each line has an area of its peer's memory: first words for atomics, then plain bytes. */
export const WORDS_BYTES = 64;
/** Words on which the lines of all pairs add, at the end of an area's memory. */
export const SHARED_WORDS = 2;

/** Sizes that a program's memory is laid out by. */
export type Sizes = Pick<Program, "pathMtu" | "packetsMax">;

/** Bytes of a program's largest message. */
export function slotBytes({ pathMtu, packetsMax }: Sizes): number {
  return packetsMax * pathMtu;
}

/** Bytes of a line's area. */
export function areaBytes(program: Sizes): number {
  return WORDS_BYTES + 2 * slotBytes(program);
}

export function isPersistentWrite({ verb }: Op): boolean {
  return verb === "write-persistence" || verb === "write-persist-address";
}

/** Whether it goes where persistent WRITEs go, each to a place of its own. */
export function isKept(op: Op): boolean {
  return op.verb === "write-persistence" || (op.verb === "write-verify" && op.persist);
}

/** Whether the operation ends in a receive completion of a message. */
export function isMessage({ verb }: Op): boolean {
  return verb.startsWith("send") || verb === "write-immediate";
}

export function isAnswered({ verb }: Op): boolean {
  return verb === "read" || verb === "fetch-add" || verb === "compare-swap";
}

/** Whether the responder's CPU is told in flow 2 (P-26). */
export function tellsCpu(op: Op): boolean {
  if (isPersistentWrite(op) || isKept(op)) return true;
  if (op.verb !== "flush" || (op.placement & FLUSH_PLACEMENT.persistence) === 0) return false;
  return op.select === FLUSH_SELECT.region || op.length > 0;
}

/** PSNs that the operation's request takes (`rocev2.md` §3.1). */
export function packetsOfOp({ verb, length }: Op, pathMtu: number): number {
  const isLong = verb === "read" || verb.startsWith("write") || verb.startsWith("send");
  return isLong ? Math.max(1, Math.ceil(length / pathMtu)) : 1;
}

const PLAIN_OP: Op = {
  verb: "write",
  length: 0,
  at: WORDS_BYTES,
  shared: false,
  operand: 1n,
  immediate: 0,
  inline: false,
  fence: false,
  signaled: true,
  solicited: false,
  pieces: 1,
  placement: FLUSH_PLACEMENT.persistence,
  select: FLUSH_SELECT.range,
  level: "verify",
  persist: false,
};

/** An operation with what it needs, for programs that are written down. */
export function opOf(verb: Verb, more: Partial<Op> = {}): Op {
  const at = verb === "fetch-add" || verb === "compare-swap" || verb === "atomic-write"
    ? 0
    : WORDS_BYTES;
  return { ...PLAIN_OP, verb, at, length: isWord(verb) ? 8 : 0, ...more };
}

/** A program of one pair, whose ops are all posted by `a`. */
export function programOf(ops: readonly Op[], more: Partial<Program> = {}): Program {
  return {
    seed: 1,
    flow: { a: 1, b: 1 },
    policy: "persistence",
    pathMtu: 256,
    packetsMax: 3,
    firstPsn: 0xff_fffe,
    maxRdAtomic: 4,
    retryCnt: 7,
    timeout: 4,
    cacheEntries: 16,
    congested: false,
    srq: false,
    pairs: 1,
    lines: [{ from: "a", pair: 0, ops }],
    ...more,
  };
}

function isWord(verb: Verb): boolean {
  return verb === "fetch-add" || verb === "compare-swap" || verb === "atomic-write";
}

/** What there was before verified writes: for seeds that were found then, whose programs shall stay. */
export const UNVERIFIED_VERBS: readonly Verb[] = VERBS.filter((verb) => verb !== "write-verify");

/** The program of a seed. */
export function randomProgram(seed: number, verbs: readonly Verb[] = VERBS): Program {
  const rng = rngFor(seed, "program");
  const isLong = rng.below(16) === 0;
  const pathMtu = isLong ? 256 : pick(rng, [256, 256, 256, 512, 1024, 2048, 4096] as const);
  const packetsMax = isLong ? 100 : 3;
  const sizes = { pathMtu, packetsMax, verbs };
  const pairs = isLong ? 1 : 1 + rng.below(3);
  const policy = rng.below(3) === 0 ? "reception" : "persistence";
  const lines: Line[] = [];
  // Small programs find as much, and more of them can be tried.
  const most = isLong ? 4 : pathMtu > 1024 ? 5 : 10;
  for (let pair = 0; pair < pairs; pair++) {
    lines.push({ from: "a", pair, ops: randomOps(rng, 1 + rng.below(most), sizes) });
    if (rng.below(3) > 0) continue;
    const ops = randomOps(rng, 1 + rng.below(most >> 1), sizes);
    // A RECV that confirms (P-27) cannot be told from one that asks where both ends persist.
    const kept = ops.filter((op) => policy === "persistence" || !tellsCpu(op));
    lines.push({ from: "b", pair, ops: kept });
  }
  const flow = { a: pick(rng, [1, 2] as const), b: pick(rng, [1, 2] as const) };
  return {
    seed,
    flow,
    policy,
    pathMtu,
    packetsMax,
    firstPsn: pick(rng, [0, 1, 0x7f_fffe, 0xff_fff0, 0xff_fffa, 0xff_ffff]),
    maxRdAtomic: 1 + rng.below(4),
    retryCnt: 7,
    // A CPU is slower than a card: what it is waited for must not cost all retries.
    timeout: pick(rng, flow.a === 1 && flow.b === 1 ? [3, 4, 5] : [4, 5]),
    cacheEntries: 4 + rng.below(8),
    congested: rng.below(4) === 0,
    srq: rng.below(3) === 0,
    pairs,
    lines: lines.map((line) => ({ ...line, ops: lastSignaled(line.ops) })),
  };
}

/** How a test knows that a line is done. */
function lastSignaled(ops: readonly Op[]): Op[] {
  return ops.map((op, i) => i === ops.length - 1 ? { ...op, signaled: true } : op);
}

export function pick<T>(rng: Rng, values: readonly T[]): T {
  return values[rng.below(values.length)]!;
}

/** What random operations are made of. */
type Parts = Sizes & { readonly verbs: readonly Verb[] };

function randomOps(rng: Rng, count: number, parts: Parts): Op[] {
  const ops: Op[] = [];
  for (let i = 0; i < count; i++) {
    const op = randomOp(rng, parts);
    const fence = op.fence || ops.some((earlier) => isReadOf(earlier, op));
    ops.push({ ...op, fence });
  }
  return ops;
}

function randomOp(rng: Rng, parts: Parts): Op {
  const { pathMtu, packetsMax, verbs } = parts;
  const verb = pick(rng, verbs);
  const slot = slotBytes(parts);
  const isAtomic = isWord(verb);
  // Lengths around whole packets are where mistakes live.
  const near = pathMtu * rng.below(packetsMax + 1) + rng.below(3) - 1;
  const length = isAtomic
    ? 8
    : Math.max(0, Math.min(slot, rng.below(2) === 0 ? near : rng.below(slot + 1)));
  const mayInline = verb.startsWith("write") || verb.startsWith("send");
  const shared = verb === "fetch-add" && rng.below(2) === 0;
  // READs and WRITEs are about the words of atomics, too.
  const words = shared ? SHARED_WORDS : WORDS_BYTES / 8;
  const at = isAtomic || rng.below(2) === 0
    ? 8 * rng.below(words)
    : WORDS_BYTES + 8 * rng.below(slot / 8);
  return {
    verb,
    length,
    at,
    shared,
    operand: BigInt(1 + rng.below(4)),
    immediate: rng.next(),
    inline: verb === "atomic-write" ||
      (mayInline && length <= MAX_INLINE_BYTES && rng.below(2) === 0),
    fence: rng.below(8) === 0,
    signaled: rng.below(4) > 0,
    solicited: rng.below(4) === 0,
    pieces: isAtomic ? 1 : 1 + rng.below(3),
    placement: 1 + rng.below(3),
    select: rng.below(2),
    level: verb === "write-verify" ? pick(rng, VERIFY_LEVELS) : "none",
    persist: verb === "write-verify" && rng.below(2) === 0,
  };
}

/** Whether `earlier` reads what `later` changes: it may be served again after it (§3.5). */
function isReadOf(earlier: Op, later: Op): boolean {
  if (earlier.verb !== "read" || later.shared) return false;
  const changes = later.verb === "write" || later.verb === "write-immediate" ||
    (later.verb === "write-verify" && !later.persist) || isWord(later.verb);
  return changes &&
    earlier.at < later.at + later.length && later.at < earlier.at + earlier.length;
}
