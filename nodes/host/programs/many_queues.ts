/**
 * Traffic over many queue pairs: `many-queues` makes them all, to `many-queues-server` on another host, and
 * writes small messages, each with its own doorbell, over the first 1, 16, 256 … of them. A row for each number has
 * the cost of doorbells at the card (DMA reads of queue information, hits, misses and evictions, stale pointers) and
 * of a message for the program.
 *
 * Queue pairs are made in chunks of numbers sent over one connection: a CM connection for each would cost three times
 * the frames. Each side takes receives from one shared queue, as applications of this size do.
 */
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_SEND_SIGNALED,
} from "../verbs/flags.ts";
import { NEVER, PS_PER_S, PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import { MANY_QUEUES_MAX, QUEUE_ORDERS } from "../../../fabric/rack/plan/vocabulary.ts";
import { connect } from "../cm/connect.ts";
import { bringUp, type Connection, disconnect, prepareQp, refused } from "../cm/connection.ts";
import {
  accept,
  type ConnectRequest,
  listen,
  type Listener,
  listening,
  nextEvent,
} from "../cm/listen.ts";
import type { CmDevice } from "../cm/gsi.ts";
import type { Cpu, Steps } from "../cpu/program.ts";
import { waitCompletion } from "../verbs/completion_queue.ts";
import { createCq } from "../verbs/create_cq.ts";
import { must, ProgramError } from "../verbs/device.ts";
import { allocPd, regMr } from "../verbs/memory_region.ts";
import type { Cq, Mr, Pd, Qp, Srq } from "../verbs/objects.ts";
import { postRecv, postSend, sge } from "../verbs/post.ts";
import { destroyQp } from "../verbs/queue_pair.ts";
import { createSrq } from "../verbs/shared_receive_queue.ts";
import { endsOf } from "./common/ends.ts";
import { countOption, type Options, textOption, wordOption } from "./common/options.ts";
import { type LatencySummary, outcomeOf, summarize } from "./common/summary.ts";
import type { ProgramContext } from "../program_context.ts";
import { flagsFor, SMALL_INLINE } from "./common/send_flags.ts";

const SERVICE = "manyqps";
const CHUNK = 1024;
const NUMBER_BYTES = 4, CHUNK_BYTES = CHUNK * NUMBER_BYTES;
/** Private data of a REP: VA 8 B, rkey 4 B, length 4 B. */
const PLACE_BYTES = 16;
const SRQ_DEPTH = 4;
/** Messages before a row is measured: one for each of its queue pairs, at most so many. */
const WARM_UP_MAX = 1024;
/** A row fails after this time without a completion. */
const IDLE_PS = 100_000 * PS_PER_US;
/** [choice] A silent peer is probed after this time. */
const SILENCE_PS = PS_PER_S;
/** As in YCSB (Cooper et al., SoCC'10). */
const ZIPF_EXPONENT = 0.99;

const COUNTERS = [
  "doorbells",
  "doorbellReads",
  "cacheHits",
  "cacheMisses",
  "cacheEvictions",
  "stalePointers",
] as const;
type CounterName = typeof COUNTERS[number];

export interface ManyQueuesRow {
  readonly qps: number;
  readonly messages: number;
  readonly messagesPerSecond: number;
  readonly latencyPs: LatencySummary;
  readonly dmaReadsPerDoorbell: number;
  readonly counters: Readonly<Partial<Record<CounterName, number>>>;
}

export interface ManyQueuesResult {
  readonly program: "many-queues";
  readonly status: "done" | "failed";
  readonly error?: string;
  readonly to: string;
  readonly toRnic?: string;
  readonly rnic?: string;
  readonly messageBytes: number;
  readonly depth: number;
  readonly order: typeof QUEUE_ORDERS[number];
  readonly rows: readonly ManyQueuesRow[];
}

interface Ends {
  readonly pd: Pd;
  readonly cq: Cq;
  readonly srq: Srq;
}

interface Control {
  readonly connection: Connection;
  readonly cq: Cq;
  readonly mr: Mr;
  isProbed: boolean;
}

/**
 * The service: one client after the other, so that none disturbs another's figures. A client that
 * has died with its host delays the next by a second and a requester's retries. Option: `bytes` of
 * the buffer that all write into (64 KiB).
 */
export function* manyQueuesServer({ cpu, device, options }: ProgramContext): Steps<void> {
  const bytes = countOption(options, "bytes", { least: 64, otherwise: 64 * 1024 });
  const listener = must(listen(device, SERVICE));
  const ends = yield* makeEnds(device, 16);
  const target = must(
    yield* regMr(ends.pd, cpu.allocate(bytes), {
      access: IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
    }),
  );
  const controlCq = must(yield* createCq(device, { entries: 64 }));
  const sessions = new Map<number, Session>();
  for (;;) {
    const deadline = askAt(sessions);
    const done = yield* waitCompletion(controlCq, { also: listening(listener), deadline });
    for (const { status, opcode, qpNum, byteLen } of done) {
      const session = sessions.get(qpNum);
      if (session === undefined) continue;
      if (status !== "SUCCESS") {
        yield* close(sessions, session);
        continue;
      }
      session.heardAt = cpu.now;
      if (opcode === "recv") session.asked = byteLen;
      if (opcode === "write") session.isProbed = false;
    }
    for (let event = nextEvent(listener); event; event = nextEvent(listener)) {
      if (event.kind === "request") {
        const session = yield* open(device, { ends, target, listener, controlCq }, event.request);
        if (session !== undefined) sessions.set(session.connection.qp.qpn, session);
      } else if (event.kind === "closed") {
        const closed = [...sessions.values()].find(({ connection }) =>
          connection.endpoint === event.endpoint
        );
        if (closed !== undefined) yield* close(sessions, closed);
      }
    }
    // Each client has this host for itself.
    const [first] = sessions.values();
    if (first !== undefined && first.asked > 0) yield* answerChunk(device, ends, first);
    else if (first !== undefined && cpu.now >= askAt(sessions)) yield* probe(first);
  }
}

/**
 * When the first client, for which others wait, has been silent for too long; NEVER where none
 * waits.
 */
function askAt(sessions: ReadonlyMap<number, Session>): Time {
  const [first, ...others] = sessions.values();
  const isWaitedFor = first !== undefined && !first.isProbed && others.length > 0;
  return isWaitedFor ? first.heardAt + SILENCE_PS : NEVER;
}

/**
 * A WRITE of no bytes, which needs no key (`rocev2.md` §3.4), fails where no peer acknowledges it.
 */
function* probe(control: Control): Steps<void> {
  control.isProbed = true;
  const remote = { va: 0, rkey: 0 };
  const sendFlags = IBV_SEND_SIGNALED;
  must(yield* postSend(control.connection.qp, { opcode: "write", sendFlags, sges: [], remote }));
}

interface Session extends Control {
  readonly made: Qp[];
  asked: number;
  heardAt: Time;
}

function* open(
  device: CmDevice,
  { ends, target, listener, controlCq }: {
    readonly ends: Ends;
    readonly target: Mr;
    readonly listener: Listener;
    readonly controlCq: Cq;
  },
  request: ConnectRequest,
): Steps<Session | undefined> {
  const mr = yield* controlMemory(device, ends.pd);
  const place = new DataView(new ArrayBuffer(PLACE_BYTES));
  place.setBigUint64(0, BigInt(target.address));
  place.setUint32(8, target.rkey);
  place.setUint32(12, target.length);
  const connection = yield* accept(listener, request, {
    qp: {
      pd: ends.pd,
      sendCq: controlCq,
      recvCq: controlCq,
      maxSendWr: 2,
      maxRecvWr: 2,
      ...SMALL_INLINE,
    },
    privateData: new Uint8Array(place.buffer),
    *prepare(qp: Qp) {
      must(yield* postRecv(qp, { sges: [sge(mr, 0, CHUNK_BYTES)] }));
    },
  });
  if (refused(connection)) return undefined;
  const cq = controlCq, heardAt = device.cpu.now;
  return { connection, cq, mr, made: [], asked: 0, heardAt, isProbed: false };
}

function* answerChunk(device: CmDevice, ends: Ends, session: Session): Steps<void> {
  const { connection, mr, made } = session;
  const theirs = readNumbers(device.cpu, mr, session.asked / NUMBER_BYTES);
  session.asked = 0;
  const ours: number[] = [];
  for (const qpn of theirs) {
    const qp = yield* makeQp(ends, 1);
    yield* bind(qp, { qpn, connection });
    made.push(qp);
    ours.push(qp.qpn);
  }
  must(yield* postRecv(connection.qp, { sges: [sge(mr, 0, CHUNK_BYTES)] }));
  yield* sendNumbers(session, ours);
}

function* close(sessions: Map<number, Session>, closed: Session): Steps<void> {
  const { connection, made } = closed;
  sessions.delete(connection.qp.qpn);
  for (const qp of made) yield* destroyQp(qp);
  yield* disconnect(connection);
  const [next] = sessions.values();
  if (next !== undefined) next.heardAt = connection.device.cpu.now;
}

/**
 * The program. Options: `to`; `qps`, a number of queue pairs or a list of them, each with a row; `size` of a
 * message (64 B), `messages` of a row (4096), `depth` of them outstanding over all queue pairs (16), `order` in
 * which queue pairs are used (round-robin, random, zipf). Reports `result`.
 */
export function* manyQueues({ cpu, device, options }: ProgramContext): Steps<void> {
  const job = jobOf(options);
  const rows: ManyQueuesRow[] = [];
  let error: string | undefined;
  let control: Control | undefined;
  try {
    const ends = yield* makeEnds(device, 2 * job.depth);
    control = yield* connectControl(device, ends.pd, job.to);
    const place = placeIn(control.connection.privateData);
    if (place.length < job.messageBytes) {
      throw new ProgramError(
        `${job.to} has ${place.length} B only: ${job.messageBytes} are needed`,
      );
    }
    const mr = must(yield* regMr(ends.pd, cpu.allocate(job.messageBytes), { access: 0 }));
    const qps: Qp[] = [];
    for (const count of job.qps) {
      yield* makeUpTo(device, { ends, control, depth: job.depth }, qps, count);
      rows.push(yield* measure(cpu, job, { qps: qps.slice(0, count), cq: ends.cq, mr, place }));
      cpu.report("progress", { written: rows.length / job.qps.length, messages: 1 });
    }
    for (const qp of qps) yield* destroyQp(qp);
  } catch (cause) {
    if (!(cause instanceof ProgramError)) throw cause;
    error = cause.message;
  }
  if (control !== undefined) yield* disconnect(control.connection);
  const { to, messageBytes, depth, order } = job;
  const result: ManyQueuesResult = {
    program: "many-queues",
    ...outcomeOf(error),
    ...endsOf(cpu, to),
    messageBytes,
    depth,
    order,
    rows,
  };
  cpu.report("result", result);
}

function jobOf(options: Options) {
  const given = options["qps"] ?? 1;
  const qps = (Array.isArray(given) ? given : [given]).map((each) =>
    countOption({ qps: each }, "qps", { least: 1, otherwise: 1 })
  ).sort((x, y) => x - y);
  const most = qps.at(-1);
  if (most === undefined || most > MANY_QUEUES_MAX) {
    throw new ProgramError(`qps must be 1 to ${MANY_QUEUES_MAX}: it is ${most ?? "an empty list"}`);
  }
  return {
    to: textOption(options, "to"),
    qps,
    messageBytes: countOption(options, "size", { least: 1, otherwise: 64 }),
    messages: countOption(options, "messages", { least: 1, otherwise: 4096 }),
    depth: countOption(options, "depth", { least: 1, otherwise: 16 }),
    order: wordOption(options, "order", { words: QUEUE_ORDERS, otherwise: "round-robin" }),
  };
}

type Job = Readonly<ReturnType<typeof jobOf>>;

function* makeEnds(device: CmDevice, entries: number): Steps<Ends> {
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries }));
  const srq = must(yield* createSrq(pd, { maxWr: SRQ_DEPTH }));
  return { pd, cq, srq };
}

function* controlMemory(device: CmDevice, pd: Pd): Steps<Mr> {
  const buffer = device.cpu.allocate(2 * CHUNK_BYTES);
  return must(yield* regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE }));
}

function* connectControl(device: CmDevice, pd: Pd, to: string): Steps<Control> {
  const mr = yield* controlMemory(device, pd);
  const cq = must(yield* createCq(device, { entries: 8 }));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 2, maxRecvWr: 2, ...SMALL_INLINE };
  const connection = yield* connect(device, { to, service: SERVICE, qp });
  if (refused(connection)) {
    throw new ProgramError(`connect: ${connection.refused}: ${connection.reason}`);
  }
  return { connection, cq, mr, isProbed: false };
}

function* makeQp({ pd, cq, srq }: Ends, maxSendWr: number): Steps<Qp> {
  const none = { maxRecvWr: 0, srq, ...SMALL_INLINE };
  return must(yield* prepareQp({ pd, sendCq: cq, recvCq: cq, maxSendWr, ...none }));
}

function* bind(
  qp: Qp,
  { qpn, connection: { peer } }: { readonly qpn: number; readonly connection: Connection },
): Steps<void> {
  const pathMtu = qp.device.state.mtu as 4096;
  const attributes = { destAddress: peer.address, destQpn: qpn, rqPsn: 0, sqPsn: 0, pathMtu };
  must(yield* bringUp(qp, attributes, undefined));
}

function* makeUpTo(
  device: CmDevice,
  { ends, control, depth }: {
    readonly ends: Ends;
    readonly control: Control;
    readonly depth: number;
  },
  qps: Qp[],
  count: number,
): Steps<void> {
  const { connection, mr } = control;
  while (qps.length < count) {
    const chunk: Qp[] = [];
    const size = Math.min(CHUNK, count - qps.length);
    while (chunk.length < size) chunk.push(yield* makeQp(ends, depth));
    must(yield* postRecv(connection.qp, { sges: [sge(mr, 0, CHUNK_BYTES)] }));
    yield* sendNumbers(control, chunk.map(({ qpn }) => qpn));
    const made = (yield* answered(control)) / NUMBER_BYTES;
    if (made !== size) throw new ProgramError(`${made} queue pairs were made: not ${size}`);
    const theirs = readNumbers(device.cpu, mr, size);
    for (const [i, qp] of chunk.entries()) yield* bind(qp, { qpn: theirs[i]!, connection });
    qps.push(...chunk);
  }
}

function* answered(control: Control): Steps<number> {
  const { cq, connection: { device: { cpu } } } = control;
  for (;;) {
    const done = yield* waitCompletion(cq, { deadline: cpu.now + SILENCE_PS });
    if (done.length === 0 && !control.isProbed) yield* probe(control);
    for (const { status, opcode, byteLen } of done) {
      if (status !== "SUCCESS") throw new ProgramError(`Setting up ended with ${status}`);
      if (opcode === "recv") return byteLen;
      if (opcode === "write") control.isProbed = false;
    }
  }
}

function* sendNumbers({ connection, mr }: Control, numbers: readonly number[]): Steps<void> {
  const bytes = new Uint8Array(numbers.length * NUMBER_BYTES);
  const view = new DataView(bytes.buffer);
  for (const [i, each] of numbers.entries()) view.setUint32(i * NUMBER_BYTES, each);
  connection.device.cpu.store(mr.address + CHUNK_BYTES, bytes);
  const sges = [sge(mr, CHUNK_BYTES, bytes.length)];
  const sendFlags = flagsFor(bytes.length);
  must(yield* postSend(connection.qp, { opcode: "send", sendFlags, sges }));
}

function readNumbers(cpu: Cpu, mr: Mr, count: number): number[] {
  const bytes = cpu.load(mr.address, count * NUMBER_BYTES);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  return Array.from({ length: count }, (_, i) => view.getUint32(i * NUMBER_BYTES));
}

function placeIn(privateData: Uint8Array) {
  const view = new DataView(privateData.buffer, privateData.byteOffset);
  return {
    va: Number(view.getBigUint64(0)),
    rkey: view.getUint32(8),
    length: view.getUint32(12),
  };
}

interface Over {
  readonly qps: readonly Qp[];
  readonly cq: Cq;
  readonly mr: Mr;
  readonly place: { readonly va: number; readonly rkey: number };
}

function* measure(cpu: Cpu, job: Job, over: Over): Steps<ManyQueuesRow> {
  const { qps } = over;
  const inTurn = (i: number) => i % qps.length;
  yield* write(cpu, { ...job, messages: Math.min(qps.length, WARM_UP_MAX) }, over, inTurn);
  const before = yield* counted(cpu);
  const began = cpu.now;
  const latencies = yield* write(cpu, job, over, nextOf(cpu, job.order, qps.length));
  const seconds = (cpu.now - began) / PS_PER_S;
  const after = yield* counted(cpu);
  const counters = Object.fromEntries(
    COUNTERS.flatMap((name) =>
      after[name] === undefined ? [] : [[name, after[name] - (before[name] ?? 0)]]
    ),
  ) as ManyQueuesRow["counters"];
  const { doorbells = 0, doorbellReads = 0 } = counters;
  return {
    qps: qps.length,
    messages: job.messages,
    messagesPerSecond: Math.round(job.messages / seconds),
    latencyPs: summarize(latencies)!,
    dmaReadsPerDoorbell: doorbells === 0 ? 0 : doorbellReads / doorbells,
    counters,
  };
}

function* counted(cpu: Cpu): Steps<Readonly<Record<string, number>>> {
  const reply = yield* cpu.command({ op: "query-statistics" });
  if (reply.status === "ok" && reply.op === "query-statistics") return reply.counters;
  throw new ProgramError(`The card does not say what it has counted: ${JSON.stringify(reply)}`);
}

function nextOf(cpu: Cpu, order: Job["order"], count: number): (i: number) => number {
  if (order === "round-robin") return (i) => i % count;
  if (order === "random") return () => Math.floor(cpu.random() * count);
  const sums = new Float64Array(count);
  let sum = 0;
  for (let rank = 0; rank < count; rank++) {
    sum += 1 / (rank + 1) ** ZIPF_EXPONENT;
    sums[rank] = sum;
  }
  return () => firstAbove(sums, cpu.random() * sum);
}

function firstAbove(sums: Float64Array, value: number): number {
  let from = 0, end = sums.length - 1;
  while (from < end) {
    const middle = (from + end) >> 1;
    if (sums[middle]! > value) end = middle;
    else from = middle + 1;
  }
  return from;
}

function* write(
  cpu: Cpu,
  { messages, depth, messageBytes }: Pick<Job, "messages" | "depth" | "messageBytes">,
  { qps, cq, mr, place: remote }: Over,
  next: (i: number) => number,
): Steps<Float64Array> {
  const sges = [sge(mr, 0, messageBytes)], sendFlags = flagsFor(messageBytes);
  const latencies = new Float64Array(messages);
  const postedAt: Time[] = [];
  let completed = 0;
  while (completed < messages) {
    while (postedAt.length < messages && postedAt.length - completed < depth) {
      const wrId = postedAt.length;
      const qp = qps[next(wrId)]!;
      postedAt.push(cpu.now);
      must(yield* postSend(qp, { opcode: "write", sendFlags, wrId, sges, remote }));
    }
    const done = yield* waitCompletion(cq, { deadline: cpu.now + IDLE_PS });
    if (done.length === 0) throw new ProgramError(`Nothing has completed for ${IDLE_PS / 1e6} us`);
    for (const { status, wrId } of done) {
      if (status !== "SUCCESS") throw new ProgramError(`Completed with ${status}`);
      latencies[wrId] = cpu.now - postedAt[wrId]!;
      completed++;
    }
  }
  return latencies;
}
