/**
 * Lays a program (`program_testing.ts`) out on the rig of two RNICs: queue pairs, memory, windows,
 * receives. `program_play_testing.ts` plays it.
 */
import type { HintPlan } from "../../../fabric/rack/plan/hint_plan.ts";
import type { PageFaultRule } from "../../../fabric/rack/plan/plan.ts";
import type { DemandOptions } from "./demand_testing.ts";
import { type Rng, rngFor } from "../../../fabric/base/rng.ts";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import type { Cqe } from "../../../fabric/wire/host_bus/cqe.ts";
import { ACCESS, type PersistencePlan } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { allocateMw, createSrq } from "./objects_testing.ts";
import { EVERY_ACCESS } from "./pair_testing.ts";
import {
  areaBytes,
  isMessage,
  isPersistentWrite,
  type Line,
  packetsOfOp,
  type Program,
  SHARED_WORDS,
  slotBytes,
  tellsCpu,
} from "./program_testing.ts";
import type { RigMr, RigQp, RigSrq, Side } from "./rig_parts_testing.ts";
import { Rig } from "./rnic_testing.ts";
import { VERIFIED_ACCESS } from "./verify_testing.ts";
import type { RnicCongestionPlan } from "../../../fabric/rack/plan/plan.ts";

/** Priority of DSCP 26. */
export const LOSSLESS_PRIORITY = 3;

/** A line with what it needs in the rig. */
export interface RunLine extends Line {
  readonly number: number;
  readonly side: Side;
  readonly peer: Side;
  readonly qp: RigQp;
  /** The pair's end at the peer. */
  readonly target: End;
  /** A slot of the requester's memory for each op: what it sends, or where its answer lands. */
  readonly source: RigMr;
  readonly area: RigMr;
  /** Where persistent WRITEs go, a slot each: by opcode (P-21), by address (P-22). */
  readonly kept: RigMr;
  readonly scm: RigMr;
  readonly shared: RigMr;
  /** Keys of the peer's windows, by op that invalidates one. */
  readonly windows: ReadonlyMap<number, number>;
  /** Op by ring position. */
  readonly positions: Map<number, number>;
  readonly firstPsns: readonly number[];
  posted: number;
  readonly completions: Completion[];
}

export interface Completion {
  readonly op: number;
  readonly cqe: Cqe;
}

/** A message that was received. */
export interface Received {
  readonly cqe: Cqe;
  readonly data: Uint8Array;
}

/** Host memory that a CPU has flushed. */
export interface Flushed {
  readonly va: number;
  readonly length: number;
}

/** One end of a pair, as a receiver. */
export interface End {
  readonly side: Side;
  readonly pair: number;
  readonly qp: RigQp;
  readonly srq: RigSrq | undefined;
  /** Receives that the program needs here, and how many are posted. */
  needed: number;
  posted: number;
  readonly messages: Received[];
  /** RECVs that were consumed for persistence: told (P-26), or confirmed (P-27). */
  readonly told: Cqe[];
  readonly confirmed: Cqe[];
  /** What the CPU has flushed, by the PSN of the message that it then said to be persistent. */
  readonly flushed: Map<number, readonly Flushed[]>;
  /** All receive completions in their order, flushed ones included. */
  readonly recvs: Cqe[];
}

/** Memory that receives of one queue land in. */
interface Inbox {
  readonly mr: RigMr;
  next: number;
}

export interface Run {
  readonly program: Program;
  readonly rig: Rig;
  readonly rng: Rng;
  readonly lines: readonly RunLine[];
  readonly ends: readonly End[];
  readonly inboxes: Map<End, Inbox>;
  /** Completions that no work of the program can have. */
  readonly strays: Cqe[];
}

/** Bytes of a fixed pattern: what memory holds at the start. */
export function pattern(bytes: number, seed: number): Uint8Array<ArrayBuffer> {
  const data = new Uint8Array(bytes);
  let x = Math.imul(seed + 1, 0x9e37_79b1) | 1;
  for (let i = 0; i < bytes; i++) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    data[i] = x;
  }
  return data;
}

/** Which of the line's memories has which pattern. */
export function sourcePattern(line: Line, program: Program): Uint8Array<ArrayBuffer> {
  const seed = 16 * line.pair + (line.from === "a" ? 1 : 2);
  return pattern(line.ops.length * slotBytes(program), seed);
}

export function areaPattern(line: Line, program: Program): Uint8Array<ArrayBuffer> {
  const seed = 16 * line.pair + (line.from === "a" ? 3 : 4);
  return pattern(areaBytes(program), seed);
}

/** DCQCN and PFC. No rate is so low that time-outs run out, and the line rate is soon back: all gets quiet. */
export const CONGESTION: RnicCongestionPlan = {
  dscp: 26,
  cnpDscp: 48,
  bitsPerSecond: 100e9,
  pfc: { lossless: 1 << LOSSLESS_PRIORITY, headroomPs: 5 * PS_PER_US },
  dcqcn: {
    g: 1 / 16,
    cnpIntervalPs: 10 * PS_PER_US,
    alphaTimerPs: 55 * PS_PER_US,
    rateTimerPs: 55 * PS_PER_US,
    byteCounterBytes: 10_000_000,
    fastRecovery: 5,
    additiveBps: 10e9,
    hyperBps: 20e9,
    minBps: 20e9,
    decreaseIntervalPs: 4 * PS_PER_US,
  },
};

/** A run whose memory is on demand, or whose translations do not all fit on the chip. */
export interface Paged {
  readonly rule: PageFaultRule;
  readonly entries: number;
  readonly demand?: DemandOptions;
  /** Both cards send hints and take them. */
  readonly hints?: HintPlan;
  /** The first pair of queue pairs carries the hints of all. */
  readonly carrier?: boolean;
}

/** `hostSeed` is about the hosts' leisure only: it changes no outcome. */
export function prepare(program: Program, hostSeed = 0, paged?: Paged): Run {
  const { flow, cacheEntries } = program;
  const queueCache = { entries: cacheEntries, evict: "random", amount: 1 } as const;
  const plan = {
    queueCache,
    ...(program.congested && { congestion: CONGESTION }),
    ...(paged !== undefined && {
      pageFault: paged.rule,
      translations: { entries: paged.entries, evict: "lru" as const },
      ...(paged.hints && { hints: paged.hints }),
    }),
  };
  const rig = new Rig({
    seed: program.seed,
    persistence: { a: planOf(flow.a), b: planOf(flow.b) },
    plans: { a: plan, b: plan },
    memoryBytes: memoryBytes(program),
    ...(paged?.demand && { demand: paged.demand }),
  });
  const ends = createEnds(rig, program, paged?.carrier);
  const inboxes = new Map<End, Inbox>();
  const shared = {
    a: rig.register(rig.a, { length: 8 * SHARED_WORDS, access: EVERY_ACCESS, va: 0x7_0000_0000 }),
    b: rig.register(rig.b, { length: 8 * SHARED_WORDS, access: EVERY_ACCESS, va: 0x7_0000_0000 }),
  };
  const lines = program.lines.map((line, number) =>
    createLine(rig, { program, line, number, ends, shared: shared[line.from === "a" ? "b" : "a"] })
  );
  const run: Run = {
    program,
    rig,
    rng: rngFor(program.seed, `hosts/${hostSeed}`),
    lines,
    ends,
    inboxes,
    strays: [],
  };
  for (const end of ends) {
    end.needed = recvsNeeded(run, end);
    const first = ends.find((other) => other.side === end.side)!;
    const inbox = end.srq === undefined || first === end
      ? { mr: createInbox(run, end), next: 0 }
      : inboxes.get(first)!;
    inboxes.set(end, inbox);
  }
  return run;
}

function planOf(flow: 1 | 2): PersistencePlan {
  return { flow, flush: flow === 1 ? "read" : "cpu", noSnoop: false };
}

/** Enough for either host: rings and queue information, and the memory of all lines. */
function memoryBytes(program: Program): number {
  const slot = slotBytes(program);
  const page = 4096;
  let bytes = 128 * page + 16 * page * program.pairs;
  for (const { ops } of program.lines) {
    // Source, or area and what persists; a slot to receive in for each, and to confirm in.
    bytes += areaBytes(program) + 4 * ops.length * slot + 8 * page;
  }
  return bytes;
}

function createEnds(rig: Rig, program: Program, carrier = false): End[] {
  const { pathMtu, firstPsn, maxRdAtomic, retryCnt, timeout, policy } = program;
  const attributes = {
    accessFlags: VERIFIED_ACCESS,
    pathMtu,
    sqPsn: firstPsn,
    rqPsn: firstPsn,
    maxRdAtomic,
    maxDestRdAtomic: maxRdAtomic,
    retryCnt,
    timeout,
  };
  const options = { depth: 128, rqDepth: 64, persistCompletion: policy };
  const srqs = program.srq ? [rig.a, rig.b].map((side) => createSrq(rig, side, { depth: 64 })) : [];
  const ends: End[] = [];
  for (let pair = 0; pair < program.pairs; pair++) {
    const [a, b] = [rig.a, rig.b].map((side, i): End => {
      const srq = srqs[i];
      const qp = rig.createQp(side, {
        ...options,
        ...(srq !== undefined && { srq }),
        ...(carrier && pair === 0 && { hints: "carrier" }),
      });
      return {
        side,
        pair,
        qp,
        srq,
        needed: 0,
        posted: 0,
        messages: [],
        told: [],
        confirmed: [],
        flushed: new Map(),
        recvs: [],
      };
    }) as [End, End];
    rig.bringUp(rig.a, a.qp, { qpn: b.qp.qpn, attributes });
    rig.bringUp(rig.b, b.qp, { qpn: a.qp.qpn, attributes });
    ends.push(a, b);
  }
  return ends;
}

function createLine(
  rig: Rig,
  of: {
    readonly program: Program;
    readonly line: Line;
    readonly number: number;
    readonly ends: readonly End[];
    readonly shared: RigMr;
  },
): RunLine {
  const { program, line, number, ends, shared } = of;
  const { from, pair, ops } = line;
  const [side, peer] = from === "a" ? [rig.a, rig.b] : [rig.b, rig.a];
  const end = ends.find((each) => each.side === side && each.pair === pair)!;
  const target = ends.find((each) => each.side === peer && each.pair === pair)!;
  const length = Math.max(8, ops.length * slotBytes(program));
  const access = EVERY_ACCESS | ACCESS.mwBind;
  const va = 0x1_0000_0000 * (1 + number);
  const persistent = ACCESS.localWrite | ACCESS.remoteWrite | ACCESS.remoteWritePersistence;
  const registered = {
    source: rig.register(side, { length, access, va }),
    area: rig.register(peer, { length: areaBytes(program), access, va: va + 0x1000_0000 }),
    kept: rig.register(peer, { length, access, va: va + 0x2000_0000 }),
    scm: rig.register(peer, { length, access: persistent, va: va + 0x3000_0000 }),
  };
  side.host.memory.set(sourcePattern(line, program), registered.source.address);
  peer.host.memory.set(areaPattern(line, program), registered.area.address);
  const firstPsns: number[] = [];
  let psn = program.firstPsn;
  for (const op of ops) {
    firstPsns.push(psn);
    psn = (psn + packetsOfOp(op, program.pathMtu)) & 0xff_ffff;
  }
  return {
    ...line,
    ...registered,
    number,
    side,
    peer,
    qp: end.qp,
    target,
    shared,
    windows: bindWindows(rig, { line, target, area: registered.area }),
    positions: new Map(),
    firstPsns,
    posted: 0,
    completions: [],
  };
}

/** A window of type 2 for each SEND WITH INVALIDATE, bound by the end that receives it. */
function bindWindows(
  rig: Rig,
  of: { readonly line: Line; readonly target: End; readonly area: RigMr },
): Map<number, number> {
  const { line, target, area } = of;
  const windows = new Map<number, number>();
  line.ops.forEach(({ verb }, i) => {
    if (verb !== "send-invalidate") return;
    const key = allocateMw(rig, target.side, 2);
    const bind = {
      rkey: (key & ~0xff) | ((key + 1) & 0xff),
      lkey: area.key,
      va: BigInt(area.va),
      length: 8,
      access: ACCESS.remoteRead,
    };
    rig.send(target.side, target.qp, { opcode: "bind-mw", bind, signaled: false });
    windows.set(i, bind.rkey >>> 0);
  });
  rig.run();
  return windows;
}

function createInbox({ rig, program, ends }: Run, end: End): RigMr {
  const sharing = ends.filter((each) =>
    each === end || (end.srq !== undefined && each.srq === end.srq)
  );
  // The receives of all who share it; what the first needs is known before what the others do.
  const count = sharing.reduce((sum, each) => sum + recvsNeededOf(program, each), 0);
  const length = Math.max(1, count) * slotBytes(program);
  return rig.register(end.side, { length, va: 0x100_0000_0000 + 0x1000_0000 * end.pair });
}

function recvsNeeded({ program }: Run, end: End): number {
  return recvsNeededOf(program, end);
}

/** Receives that end up consumed here: messages, and what persistence takes (P-26, P-27). */
function recvsNeededOf(program: Program, { side: { name }, pair }: End): number {
  let count = 0;
  for (const line of program.lines) {
    if (line.pair !== pair) continue;
    const isSender = line.from === name;
    for (const op of line.ops) {
      if (isSender) {
        if (program.policy === "reception" && isPersistentWrite(op)) count++;
      } else if (isMessage(op) || (program.flow[name] === 2 && tellsCpu(op))) count++;
    }
  }
  return count;
}
