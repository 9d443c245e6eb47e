/**
 * Plays a program (`program_testing.ts`) on the rig of two RNICs: lays out memory, posts work and
 * receives at the hosts' leisure, lets the CPUs of flow 2 flush, and collects what came of it.
 */
import { assert } from "../../fabric/assert.ts";
import { type Rng, rngFor } from "../../fabric/time/rng.ts";
import type { Time } from "../../fabric/time/time.ts";
import type { Cqe } from "../../fabric/wire/cqe.ts";
import { ACCESS } from "../../fabric/wire/rnic_command.ts";
import type { SendWqe, Sge } from "../../fabric/wire/wqe.ts";
import { wordOf } from "./atomic.ts";
import { EVERY_ACCESS } from "./pair_testing.ts";
import {
  areaBytes,
  isAnswered,
  isMessage,
  isPersistentWrite,
  type Line,
  type Op,
  packetsOfOp,
  type Program,
  SHARED_WORDS,
  slotBytes,
  tellsCpu,
} from "./program_testing.ts";
import { Rig, type RigMr, type RigQp, type RigSrq, type Side } from "./rnic_testing.ts";

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
  /** PSNs that the CPU has said to be persistent. */
  readonly flushed: Set<number>;
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

/** `hostSeed` is about the hosts' leisure only: it changes no outcome. */
export function prepare(program: Program, hostSeed = 0): Run {
  const { flow, cacheEntries } = program;
  const queueCache = { entries: cacheEntries, evict: "random", amount: 1 } as const;
  const rig = new Rig({
    seed: program.seed,
    persistence: { a: { flow: flow.a, noSnoop: false }, b: { flow: flow.b, noSnoop: false } },
    plans: { a: { queueCache }, b: { queueCache } },
  });
  const ends = createEnds(rig, program);
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

function createEnds(rig: Rig, program: Program): End[] {
  const { pathMtu, firstPsn, maxRdAtomic, retryCnt, timeout, policy } = program;
  const attributes = {
    accessFlags: EVERY_ACCESS | ACCESS.remoteWritePersistence,
    pathMtu,
    sqPsn: firstPsn,
    rqPsn: firstPsn,
    maxRdAtomic,
    maxDestRdAtomic: maxRdAtomic,
    retryCnt,
    timeout,
  };
  const options = { depth: 128, rqDepth: 64, persistCompletion: policy };
  const srqs = program.srq ? [rig.createSrq(rig.a), rig.createSrq(rig.b)] : [];
  const ends: End[] = [];
  for (let pair = 0; pair < program.pairs; pair++) {
    const [a, b] = [rig.a, rig.b].map((side, i): End => {
      const srq = srqs[i];
      const qp = rig.createQp(side, { ...options, ...(srq !== undefined && { srq }) });
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
        flushed: new Set(),
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
    const reply = rig.command(target.side, { op: "allocate-mw", type: 2, pd: 1 });
    assert(reply.status === "ok" && reply.op === "allocate-mw", "allocate-mw failed");
    const bind = {
      rkey: (reply.rkey & ~0xff) | ((reply.rkey + 1) & 0xff),
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

/** Longest virtual time that a program may take: far beyond all retries. */
const TIME_MAX: Time = 50_000_000_000;

/** Plays the program to the point where nothing will happen any more. */
export function play(run: Run): void {
  const { rig, rng, lines, ends } = run;
  const start = rig.now;
  for (;;) {
    for (const line of lines) if (rng.below(3) === 0) postSome(run, line);
    for (const end of ends) {
      for (let i = rng.below(4); i > 0 && end.posted < end.needed; i--) postRecv(run, end);
    }
    const isPosted = lines.every(({ posted, ops }) => posted === ops.length) &&
      ends.every(({ posted, needed }) => posted === needed);
    rig.runFor(isPosted ? 8_000_000 : rng.below(8) * 500_000);
    const isIdle = !collect(run);
    if (isPosted && isIdle && rig.isQuiet) return;
    assert(rig.now - start < TIME_MAX, "The program does not come to an end");
  }
}

function postSome(run: Run, line: RunLine): void {
  const { rig, rng } = run;
  const count = Math.min(line.ops.length - line.posted, 1 + rng.below(4));
  for (let i = 0; i < count; i++) postOp(run, line);
  if (count > 0) rig.ring(line.side, line.qp.sq, rng.below(2) === 0 ? "pointer" : "number");
}

function postOp({ rig, program }: Run, line: RunLine): void {
  const index = line.posted++;
  const op = line.ops[index]!;
  const { verb, length, operand, fence, signaled, solicited } = op;
  const place = placeOf(program, line, index);
  const key = place.mr.key;
  const remote = { va: BigInt(place.mr.va + place.at), rkey: key };
  const local = { address: line.source.va + index * slotBytes(program), length };
  const bytes = rig.bytes(line.side, line.source, index * slotBytes(program), length);
  const isSend = verb.startsWith("send");
  const wqe: Partial<SendWqe> & Pick<SendWqe, "opcode"> = {
    opcode: verb,
    fence,
    signaled,
    solicited,
    immediate: line.windows.get(index) ?? op.immediate,
    ...(!isSend && { remote }),
    ...(verb === "flush"
      ? { flush: { select: op.select, placement: op.placement, length } }
      : verb === "atomic-write"
      ? { inline: wordOf(operand) }
      : op.inline
      ? { inline: new Uint8Array(bytes) }
      : { sges: split({ ...local, lkey: line.source.key }, op.pieces) }),
    ...((verb === "fetch-add" || verb === "compare-swap") &&
      // What is compared with is right about every other time.
      { atomic: { swapAdd: operand, compare: operand - 1n } }),
  };
  line.positions.set(rig.enqueueSend(line.side, line.qp, wqe), index);
}

/** The op's remote memory. */
export function placeOf(
  program: Program,
  line: RunLine,
  index: number,
): { readonly mr: RigMr; readonly at: number } {
  const op = line.ops[index]!;
  if (op.verb === "write-persistence") return { mr: line.kept, at: index * slotBytes(program) };
  if (op.verb === "write-persist-address") return { mr: line.scm, at: index * slotBytes(program) };
  return { mr: op.shared ? line.shared : line.area, at: op.at };
}

/** The same memory in several elements, some of them empty. */
function split(whole: Sge, pieces: number): Sge[] {
  const sges: Sge[] = [];
  let left = whole;
  for (let i = pieces; i > 1; i--) {
    const length = Math.floor(left.length / i);
    sges.push({ ...left, length });
    left = { ...left, address: left.address + length, length: left.length - length };
  }
  return [...sges, left];
}

function postRecv(run: Run, end: End): void {
  const { rig, rng, program } = run;
  const inbox = run.inboxes.get(end)!;
  const slot = slotBytes(program);
  const address = inbox.mr.va + inbox.next * slot;
  const sges = split({ address, length: slot, lkey: inbox.mr.key }, 1 + rng.below(2));
  const bell = rng.below(2) === 0 ? "none" : "pointer";
  const index = end.srq === undefined
    ? rig.recv(end.side, end.qp, sges, bell)
    : rig.recvShared(end.side, end.srq, sges, bell);
  assert(index === inbox.next, "The n-th receive lands in the n-th slot");
  inbox.next++;
  end.posted++;
}

/** Takes all completions. @returns whether there was any. */
function collect(run: Run): boolean {
  const { rig, ends } = run;
  let any = false;
  for (const end of ends) {
    for (const cqe of rig.poll(end.side, end.qp.sendCq)) {
      any = true;
      if (cqe.opcode.startsWith("requester")) takeSend(run, end, cqe);
      else takeRecv(run, end, cqe);
    }
  }
  return any;
}

function takeSend(run: Run, end: End, cqe: Cqe): void {
  const line = run.lines.find(({ qp }) => qp === end.qp);
  const op = line?.positions.get(cqe.wqeIndex);
  if (op !== undefined) line!.completions.push({ op, cqe });
  // A CPU's own work fails with its queue pair, and only then.
  else if (cqe.status !== "WR_FLUSH_ERR") run.strays.push(cqe);
}

function takeRecv(run: Run, end: End, cqe: Cqe): void {
  const { rig, program, inboxes } = run;
  end.recvs.push(cqe);
  if (cqe.opcode === "responder-error") {
    if (cqe.status !== "WR_FLUSH_ERR") run.strays.push(cqe);
    return;
  }
  if (cqe.opcode !== "recv-persistence") {
    const { mr } = inboxes.get(end)!;
    const length = cqe.opcode === "recv-write-immediate" ? 0 : cqe.byteCount;
    const data = rig.bytes(end.side, mr, cqe.wqeIndex * slotBytes(program), length);
    end.messages.push({ cqe, data });
    return;
  }
  const isConfirmed = run.lines.some(({ qp, ops, firstPsns }) =>
    program.policy === "reception" && qp === end.qp &&
    ops.some((op, i) => isPersistentWrite(op) && lastPsn(op, firstPsns[i]!) === cqe.psn)
  );
  if (isConfirmed) {
    end.confirmed.push(cqe);
    return;
  }
  end.told.push(cqe);
  end.flushed.add(cqe.psn);
  rig.enqueueSend(end.side, end.qp, {
    opcode: "persistence-ack",
    immediate: cqe.psn,
    signaled: false,
  });
  rig.ring(end.side, end.qp.sq);

  function lastPsn(op: Op, first: number): number {
    return (first + packetsOfOp(op, program.pathMtu) - 1) & 0xff_ffff;
  }
}

/** What landed in the requester's memory for an op that is answered. */
export function answerOf(run: Run, line: RunLine, index: number): Uint8Array {
  const op = line.ops[index]!;
  const length = isAnswered(op) ? op.length : 0;
  return run.rig.bytes(line.side, line.source, index * slotBytes(run.program), length);
}
