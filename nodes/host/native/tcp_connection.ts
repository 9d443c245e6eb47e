/**
 * One end of a TCP connection between native programs: its two byte streams, and the thread of its
 * host's kernel that carries them over an RC connection, as SMC-R does (RFC 7609).
 *
 * A segment is a SEND with immediate data of at most {@link SEGMENT_BYTES} of the stream, into a ring
 * of {@link RING} receives. The immediate has a FIN bit and credits: receives that were posted again
 * since the last segment. A segment with bytes or a FIN takes a credit and leaves one; the last one is
 * only for a segment that returns credits to the peer, so no SEND finds the ring empty (no RNR NAK), and
 * two ends that are both out of credits cannot wait for each other: that segment brings the peer at
 * least half a ring, and each segment of the peer returns what it owes.
 *
 * Receives are posted again while the socket's buffer has room: a program that does not read stops its
 * peer. A close sends what was written, then the FIN; when that is acknowledged the connection ends (DREQ).
 * A connection that ends without a FIN was reset. As Linux does, a close resets where the program has
 * not read all that has come, or where more comes.
 */
import { assert } from "../../../fabric/base/assert.ts";
import { NEVER, PS_PER_MS, type Time } from "../../../fabric/base/time.ts";
import {
  type Connection,
  type ConnectionQp,
  disconnect,
  isDisconnected,
  noteActivity,
  type Refusal,
} from "../cm/connection.ts";
import { endpointSignal } from "../cm/cm_state.ts";
import type { Cpu, Steps } from "../cpu/program.ts";
import type { Buffer } from "../memory/address_map.ts";
import type { OpenDevice } from "../open_device.ts";
import { waitCompletion } from "../verbs/completion_queue.ts";
import { createCq, destroyCq } from "../verbs/create_cq.ts";
import { allocated, failed } from "../verbs/device.ts";
import { IBV_ACCESS_LOCAL_WRITE } from "../verbs/flags.ts";
import { allocPd, deallocPd, deregMr, regMr } from "../verbs/memory_region.ts";
import type { Cq, Mr, Pd, Qp, SendRequest, WorkCompletion } from "../verbs/objects.ts";
import { postRecv, postSend, sge } from "../verbs/post.ts";
import { ByteQueue } from "./byte_queue.ts";

/** Errors of a connection, by their names in `errno.h`. */
export type TcpErrno =
  | "ECONNREFUSED"
  | "ECONNRESET"
  | "EHOSTUNREACH"
  | "ENOBUFS"
  | "ETIMEDOUT";

/** Receives of an end, and as many sends. [choice] 64 KiB under way: more than a rack's links hold. */
const RING = 16;
/** [choice] A page, and the payload of a packet at the largest MTU. */
const SEGMENT_BYTES = 4096;
/** Bytes of a direction that a host keeps for its program (Linux: the default of `tcp_rmem`). */
export const BUFFER_BYTES = 131_072;
/**
 * Credits are returned by a segment of their own when so many receives are owed. [choice] Half, as
 * a peer without credits then fills the other half meanwhile.
 */
const OWED_MOST = RING / 2;
/**
 * Window probes (RFC 9293 §3.8.6.1): while bytes wait for credits, a zero-length RDMA WRITE asks
 * whether the peer is there, each twice as long after the one before. [choice] Linux begins after
 * its retransmission time-out, 200 ms at least; time-outs of this rack are milliseconds. Five probes
 * in all: without an end the run of a program that never reads would have none.
 */
const PROBE_PS = 10 * PS_PER_MS, PROBES = 5;
/** Of the immediate data. */
const FIN = 1 << 16, CREDITS = FIN - 1;
/** The `wr_id` of a probe; others are slots. */
const PROBE_ID = 2 * RING;

/** One end, as its program's calls and its thread share it. */
export interface Tcp {
  readonly localPort: number;
  readonly peer: { readonly address: number; readonly port: number };
  /** Raised when there may be bytes, room, an end or an error. */
  readonly signal: string;
  /** `over`: the connection has ended, by either end or an error. */
  state: "connecting" | "open" | "over";
  /** SO_ERROR, until a call has returned it. */
  error: TcpErrno | undefined;
  /** The peer's bytes that the program has not read, and whether nothing follows them. */
  readonly received: ByteQueue;
  isReceivedAll: boolean;
  /** The program's bytes that no segment has taken, and whether nothing follows them. */
  readonly unsent: ByteQueue;
  isUnsentAll: boolean;
  /** shutdown(SHUT_RD): the peer's bytes are dropped. */
  isDeaf: boolean;
  /** The program has closed it. */
  isClosed: boolean;
  /** To end without a FIN. */
  isReset: boolean;
  /** Wakes the thread, once it runs; `isStirred`: it has to look. */
  threadSignal: string | undefined;
  isStirred: boolean;
}

export function makeTcp(
  ends: Pick<Tcp, "localPort" | "peer" | "signal">,
): Tcp {
  return {
    ...ends,
    state: "connecting",
    error: undefined,
    received: new ByteQueue(),
    isReceivedAll: false,
    unsent: new ByteQueue(),
    isUnsentAll: false,
    isDeaf: false,
    isClosed: false,
    isReset: false,
    threadSignal: undefined,
    isStirred: false,
  };
}

/** Lets the connection's thread see what a call has changed. */
export function stir(cpu: Cpu, tcp: Tcp): void {
  tcp.isStirred = true;
  if (tcp.threadSignal !== undefined) cpu.signal(tcp.threadSignal);
}

/** The program closes its end: what it has written is sent, unless it has left bytes unread. */
export function closeTcp(cpu: Cpu, tcp: Tcp): void {
  if (tcp.received.length > 0) tcp.isReset = true;
  tcp.received.clear();
  tcp.isClosed = true;
  tcp.isUnsentAll = true;
  stir(cpu, tcp);
  cpu.signal(tcp.signal);
}

/** Memory and queues of an end. */
export interface Lane {
  readonly device: OpenDevice;
  readonly pd: Pd;
  readonly cq: Cq;
  readonly mr: Mr;
  readonly memory: Buffer;
}

/** Makes them at the cost of the calling thread; undefined where the host or its card has no room. */
export function* openLane(device: OpenDevice): Steps<Lane | undefined> {
  const memory = allocated(() => device.cpu.allocate(2 * RING * SEGMENT_BYTES));
  if (failed(memory)) return undefined;
  const pd = allocPd(device);
  const mr = yield* regMr(pd, memory, { access: IBV_ACCESS_LOCAL_WRITE, pin: true });
  const cq = failed(mr) ? mr : yield* createCq(device, { entries: 2 * RING });
  if (!failed(mr) && !failed(cq)) return { device, pd, cq, mr, memory };
  if (!failed(mr)) yield* deregMr(mr);
  deallocPd(pd);
  device.cpu.free(memory);
  return undefined;
}

export function* closeLane({ device, pd, cq, mr, memory }: Lane): Steps<void> {
  yield* destroyCq(cq);
  yield* deregMr(mr);
  deallocPd(pd);
  device.cpu.free(memory);
}

/** Options of the queue pair that `connect` and `accept` make. */
export function queuePairOf({ pd, cq }: Lane): ConnectionQp {
  // A probe takes a send, too, and only while all others are free.
  const depths = { maxSendWr: RING, maxRecvWr: RING };
  return { pd, sendCq: cq, recvCq: cq, ...depths, sqSigAll: true };
}

/** Posts the whole ring, before the peer can send. */
export function* postRing({ device, mr }: Lane, qp: Qp): Steps<void> {
  yield* postSlots({ ...qp, device }, mr, Array.from({ length: RING }, (_, slot) => slot));
}

function postSlots(qp: Qp, mr: Mr, slots: readonly number[]) {
  const requests = slots.map((slot) => ({
    wrId: slot,
    sges: [sge(mr, slot * SEGMENT_BYTES, SEGMENT_BYTES)],
  }));
  return postRecv(qp, requests);
}

/** Why there is no connection, as `connect` says it. */
export function errnoOf({ refused }: Refusal): TcpErrno {
  switch (refused) {
    case "no-service":
    case "rejected":
      return "ECONNREFUSED";
    case "timeout":
      return "ETIMEDOUT";
    case "unknown-host":
      return "EHOSTUNREACH";
    case "mtu":
    case "local":
      return "ENOBUFS";
  }
}

/** The connection and its counts, which only its thread changes. */
interface Carrier {
  readonly lane: Lane;
  readonly connection: Connection;
  /** Segments that the peer has receives for. */
  credits: number;
  /** Receives that were posted again, of which the peer does not know. */
  owed: number;
  /** Slots of receives to post again: at once, and when the program has read. */
  readonly spent: number[];
  readonly held: number[];
  /** Slots of sends that are free; the others are not acknowledged. */
  readonly free: number[];
  isFinSent: boolean;
  probes: number;
  isProbing: boolean;
}

/**
 * Runs a connection to its end, and ends it: the thread's steps.
 * @param onOpen called once, when both ends stand.
 */
export function* carry(
  lane: Lane,
  tcp: Tcp,
  { connection, onOpen }: { readonly connection: Connection; readonly onOpen: () => void },
): Steps<void> {
  const { cpu } = lane.device;
  const carrier: Carrier = {
    lane,
    connection,
    credits: RING,
    owed: 0,
    spent: [],
    held: [],
    free: Array.from({ length: RING }, (_, i) => RING + i),
    isFinSent: false,
    probes: 0,
    isProbing: false,
  };
  const { endpoint } = connection, signal = endpointSignal(endpoint);
  tcp.threadSignal = signal;
  // The passive end stands with the RTU, or with the peer's first segment.
  const stands = () => tcp.state === "connecting" && endpoint.phase === "established";
  const ready = () => tcp.isStirred || stands() || isDisconnected(connection);
  while (tcp.state !== "over") {
    if (stands()) {
      tcp.state = "open";
      onOpen();
      cpu.signal(tcp.signal);
    }
    yield* postAgain(carrier, tcp);
    yield* sendSegments(carrier, tcp);
    if (isDone(carrier, tcp)) break;
    if (tcp.isStirred) {
      tcp.isStirred = false;
      continue;
    }
    const deadline = probeAt(carrier, tcp);
    const completions = yield* waitCompletion(lane.cq, {
      mode: "interrupt",
      deadline,
      also: { signal, ready },
    });
    if (completions.length > 0) take(carrier, tcp, completions);
    // All that came before the end has been taken.
    else if (isDisconnected(connection)) {
      end(tcp, cpu, tcp.isReceivedAll ? undefined : "ECONNRESET");
    } else if (cpu.now >= deadline) yield* probe(carrier);
  }
  end(tcp, cpu, undefined);
  yield* disconnect(connection);
  yield* closeLane(lane);
}

/** The connection is over: its calls return what has come, then the error or the end. */
export function end(tcp: Tcp, cpu: Cpu, error: TcpErrno | undefined): void {
  if (tcp.state === "over") return;
  tcp.state = "over";
  tcp.error ??= error;
  tcp.unsent.clear();
  cpu.signal(tcp.signal);
}

/** A closed end has nothing more to do. */
function isDone({ isFinSent, free }: Carrier, tcp: Tcp): boolean {
  return tcp.isClosed && (tcp.isReset || (isFinSent && free.length === RING));
}

function* postAgain(carrier: Carrier, tcp: Tcp): Steps<void> {
  const { spent, held, lane, connection } = carrier;
  const slots = spent.splice(0);
  if (tcp.received.length < BUFFER_BYTES) slots.push(...held.splice(0));
  if (slots.length === 0) return;
  const wrong = yield* postSlots(connection.qp, lane.mr, slots);
  if (wrong !== undefined) return end(tcp, lane.device.cpu, "ECONNRESET");
  carrier.owed += slots.length;
}

function* sendSegments(carrier: Carrier, tcp: Tcp): Steps<void> {
  // Before its RTU the active end may not be ready to receive.
  if (tcp.state !== "open") return;
  const { lane: { device: { cpu } }, connection, free } = carrier;
  while (free.length > 0) {
    const requests: SendRequest[] = [];
    while (free.length > 0) {
      const request = nextSegment(carrier, tcp);
      if (request === undefined) break;
      requests.push(request);
    }
    if (requests.length === 0) return;
    cpu.signal(tcp.signal);
    const wrong = yield* postSend(connection.qp, requests);
    if (wrong !== undefined) return end(tcp, cpu, "ECONNRESET");
  }
}

/** Takes the next segment's bytes into a slot; undefined where there is nothing to send now. */
function nextSegment(carrier: Carrier, tcp: Tcp): SendRequest | undefined {
  const { lane: { device: { cpu }, mr }, free } = carrier;
  const hasBytes = tcp.unsent.length > 0;
  const wantsFin = tcp.isUnsentAll && !carrier.isFinSent;
  const isOfStream = carrier.credits >= 2 && (hasBytes || wantsFin);
  if (tcp.isReset) return undefined;
  if (!isOfStream && !(carrier.credits >= 1 && carrier.owed >= OWED_MOST)) return undefined;
  const slot = free.shift()!, at = slot * SEGMENT_BYTES;
  const bytes = isOfStream ? tcp.unsent.take(SEGMENT_BYTES) : tcp.unsent.take(0);
  if (bytes.length > 0) cpu.store(mr.address + at, bytes);
  const isLast = isOfStream && wantsFin && tcp.unsent.length === 0;
  if (isLast) carrier.isFinSent = true;
  const immediate = carrier.owed | (isLast ? FIN : 0);
  carrier.owed = 0;
  carrier.credits--;
  const sges = bytes.length > 0 ? [sge(mr, at, bytes.length)] : [];
  return { opcode: "send-immediate", wrId: slot, immediate, sges };
}

function take(carrier: Carrier, tcp: Tcp, completions: readonly WorkCompletion[]): void {
  const { lane: { device: { cpu } }, connection } = carrier;
  const bad = completions.filter(({ status }) => status !== "SUCCESS");
  for (const completion of completions) if (completion.status === "SUCCESS") takeOne(completion);
  if (bad.length > 0) {
    const isSilent = bad.some(({ status }) => status === "RETRY_EXC_ERR");
    end(tcp, cpu, isSilent ? "ETIMEDOUT" : "ECONNRESET");
  }

  function takeOne({ wrId, opcode, byteLen, immData }: WorkCompletion): void {
    if (wrId === PROBE_ID) carrier.isProbing = false;
    else if (wrId >= RING) carrier.free.push(wrId);
    else {
      carrier.probes = 0;
      assert(opcode === "recv-immediate", "A segment has immediate data");
      noteActivity(connection);
      receive(carrier, tcp, { slot: wrId, byteLen, immData });
      cpu.signal(tcp.signal);
    }
  }
}

function receive(
  carrier: Carrier,
  tcp: Tcp,
  segment: { readonly slot: number; readonly byteLen: number; readonly immData: number },
): void {
  const { slot, byteLen, immData } = segment;
  const { lane: { device: { cpu }, mr } } = carrier;
  carrier.credits += immData & CREDITS;
  // A segment without bytes may have the peer's last credit: its slot never waits for the program.
  (byteLen > 0 ? carrier.held : carrier.spent).push(slot);
  if (byteLen > 0) {
    const bytes = cpu.load(mr.address + slot * SEGMENT_BYTES, byteLen);
    if (tcp.isClosed) tcp.isReset = true;
    else if (!tcp.isDeaf) tcp.received.push(bytes);
  }
  if ((immData & FIN) !== 0) tcp.isReceivedAll = true;
}

/** The time at which the peer is asked for a sign of life. */
function probeAt(carrier: Carrier, tcp: Tcp): Time {
  const { credits, free, probes, isProbing, isFinSent, lane: { device: { cpu } } } = carrier;
  const waits = tcp.unsent.length > 0 || (tcp.isUnsentAll && !isFinSent);
  const isStopped = tcp.state === "open" && waits && credits < 2 && free.length === RING;
  if (!isStopped || isProbing || probes >= PROBES) return NEVER;
  return cpu.now + PROBE_PS * 2 ** probes;
}

function* probe(carrier: Carrier): Steps<void> {
  const probes = carrier.probes + 1;
  const remote = { va: 0, rkey: 0 };
  carrier.isProbing = true;
  yield* postSend(carrier.connection.qp, { opcode: "write", wrId: PROBE_ID, sges: [], remote });
  carrier.probes = probes;
}
