/**
 * perftest's server, one test after the other. It is active only in a ping-pong, and where SENDs
 * need receives.
 */
import type { Memory } from "../../../../fabric/rack/plan/plan.ts";
import type { CmDevice } from "../../cm/gsi.ts";
import { type Connection, isDisconnected, refused } from "../../cm/connection.ts";
import { waitCompletion } from "../../verbs/completion_queue.ts";
import { createCq } from "../../verbs/create_cq.ts";
import { failed, must, ProgramError } from "../../verbs/device.ts";
import { GRH_BYTES, IBV_SEND_SIGNALED } from "../../verbs/flags.ts";
import {
  accept,
  type ConnectRequest,
  listen,
  type Listener,
  listening,
  nextEvent,
  reject,
} from "../../cm/listen.ts";
import { postRecv, postSend } from "../../verbs/post.ts";
import { destroyQp } from "../../verbs/queue_pair.ts";
import type { Steps } from "../../cpu/program.ts";
import { resizeCq } from "../../verbs/resize_cq.ts";
import { makeBuffer, recvPlace, sendSge, type TestBuffer } from "./buffer.ts";
import { closeLane, connectionOptions, IDLE_PS } from "./client_lane.ts";
import { bandwidthFigures, encodeFigures, FIGURES_BYTES, sampledBandwidth } from "./figures.ts";
import {
  type Lane,
  mustSucceed,
  openUdQp,
  postFirstRecvs,
  receivePlace,
  udDestination,
} from "./lane.ts";
import { runLatency } from "./ping_pong.ts";
import { runStream, type Stream, takeUntil } from "./stream.ts";
import {
  decodePerftestTerms,
  encodeAnswer,
  encodeReason,
  PERFTEST,
  type PerftestTerms,
  RX_DEPTH,
  SERVICE,
} from "./terms.ts";
import { NEVER } from "../../../../fabric/base/time.ts";
import type { Cq, Qp, VerbError } from "../../verbs/objects.ts";
import type { ProgramContext } from "../../program_context.ts";

interface Server {
  readonly device: CmDevice;
  readonly listener: Listener;
  readonly sendCq: Cq;
  readonly recvCq: Cq;
  readonly pingPongCq: Cq;
  duplex: { readonly cq: Cq; room: number } | undefined;
  /** Free entries of {@link recvCq}. */
  room: number;
  /** The largest buffer of each kind, which is never freed. */
  readonly buffers: Map<Memory, TestBuffer & { readonly count: number }>;
  readonly sessions: Map<number, Session>;
  readonly byEndpoint: Map<Connection["endpoint"], Session>;
}

interface Session {
  readonly lane: Lane;
  readonly connection: Connection;
  readonly terms: PerftestTerms;
  readonly buffer: TestBuffer;
  /** The client's RTU has come: it takes messages. */
  isEstablished: boolean;
}

/**
 * The program: it has no options, and runs until its host loses power. A failure of its card ends
 * all its objects.
 */
export function* perftestServer({ device }: ProgramContext): Steps<void> {
  const listener = must(listen(device, SERVICE));
  for (;;) {
    const server = yield* startServer(device, listener);
    if (server !== undefined) yield* serve(server);
    else yield* awaitReset(device, listener);
  }
}

function* startServer(device: CmDevice, listener: Listener): Steps<Server | undefined> {
  const cqs: Cq[] = [];
  for (const entries of [2 * RX_DEPTH, RX_DEPTH, 2 * RX_DEPTH]) {
    const cq = yield* createCq(device, { entries });
    if (failed(cq)) return undefined;
    cqs.push(cq);
  }
  const [sendCq, recvCq, pingPongCq] = cqs as [Cq, Cq, Cq];
  return {
    ...{ device, listener, sendCq, recvCq, pingPongCq },
    duplex: undefined,
    room: RX_DEPTH,
    buffers: new Map(),
    sessions: new Map(),
    byEndpoint: new Map(),
  };
}

function* awaitReset({ cpu }: CmDevice, listener: Listener): Steps<void> {
  for (;;) {
    for (let event = nextEvent(listener); event; event = nextEvent(listener)) {
      if (event.kind === "reset") return;
      if (event.kind === "request") yield* reject(listener, event.request);
    }
    yield* cpu.waitSignal(listening(listener).signal, NEVER);
  }
}

function* serve(server: Server): Steps<void> {
  for (;;) {
    const completions = yield* waitCompletion(server.recvCq, { also: listening(server.listener) });
    for (const { status, qpNum, wrId } of completions) {
      const session = server.sessions.get(qpNum);
      if (session === undefined || status !== "SUCCESS") continue;
      const { lane: { qp, index }, buffer, terms } = session;
      yield* postRecv(qp, { wrId, sges: [receivePlace(buffer, index, terms)] });
    }
    for (let event = nextEvent(server.listener); event; event = nextEvent(server.listener)) {
      if (event.kind === "reset") return;
      if (event.kind === "request") yield* take(server, event.request);
      else if (event.kind === "closed") yield* close(server, event.endpoint);
      else if (event.kind === "established") yield* establish(server, event.endpoint);
    }
  }
}

function* take(server: Server, request: ConnectRequest): Steps<void> {
  const { listener, sessions, byEndpoint } = server;
  const terms = decodePerftestTerms(request.privateData);
  if (terms === undefined) return void (yield* reject(listener, request));
  const buffer = yield* bufferFor(server, terms);
  if (failed(buffer)) {
    return void (yield* reject(listener, request, { privateData: encodeReason(buffer.reason) }));
  }
  const kind = PERFTEST[terms.test];
  const { index, place: remote } = terms;
  const cqs = yield* queuesFor(server, terms);
  const isUd = terms.connection === "UD";
  const first = function* (qp: Qp): Steps<void> {
    if (kind.verb === "send") yield* postFirstRecvs(qp, { buffer, index, terms });
  };
  const ud = isUd ? yield* openUdQp(buffer, { terms, ...cqs }) : undefined;
  if (ud !== undefined) yield* first(ud.qp);
  const { qp, ...common } = connectionOptions(terms);
  const connection = yield* accept(listener, request, {
    qp: { ...qp, pd: buffer.pd, ...cqs },
    ...common,
    privateData: encodeAnswer({
      place: recvPlace(buffer, index),
      udQpn: ud?.qp.qpn ?? 0,
      udPsn: ud?.psn ?? 0,
    }),
    ...(!isUd && { prepare: first }),
  });
  if (refused(connection)) {
    if (ud !== undefined) yield* destroyQp(ud.qp);
    return;
  }
  const at = { address: connection.peer.address, qpn: terms.udQpn };
  const lane: Lane = ud === undefined
    ? { qp: connection.qp, remote, index }
    : { qp: ud.qp, remote, index, ud: udDestination(buffer, at, terms) };
  const session: Session = { lane, connection, terms, buffer, isEstablished: false };
  sessions.set(lane.qp.qpn, session);
  byEndpoint.set(connection.endpoint, session);
  if (!kind.pingPong) return;
  const { mode, idlePs } = manner(server);
  const end = { ...terms, ...lane, ...cqs, buffer, client: connection, mode, idlePs };
  yield* endWithClient(runLatency(end, "server"));
}

function* endWithClient(part: Steps<unknown>): Steps<void> {
  try {
    yield* part;
  } catch (error) {
    if (!(error instanceof ProgramError)) throw error;
  }
}

/** The last of a client's queue pairs begins a bidirectional test. */
function* establish(server: Server, endpoint: Connection["endpoint"]): Steps<void> {
  const session = server.byEndpoint.get(endpoint);
  if (session === undefined) return;
  session.isEstablished = true;
  const { terms: { bidirectional, qps, reportVa }, connection: { peer } } = session;
  if (!bidirectional || server.sessions.size < qps) return;
  const own = [...server.sessions.values()].filter((each) =>
    each.connection.peer.host === peer.host && each.terms.bidirectional &&
    each.terms.reportVa === reportVa
  );
  // A client that died midway had the same indices.
  const latest = new Map(own.map((each) => [each.lane.index, each]));
  const sessions = [...latest.values()];
  if (sessions.length !== qps || !sessions.every(({ isEstablished }) => isEstablished)) return;
  yield* endWithClient(runDuplex(server, sessions));
}

function* queuesFor(
  server: Server,
  { test, bidirectional, qps, depth, rxDepth }: PerftestTerms,
): Steps<{ readonly sendCq: Cq; readonly recvCq: Cq }> {
  const { sendCq, recvCq, pingPongCq } = server;
  const { pingPong, verb } = PERFTEST[test];
  if (bidirectional) {
    const cq = yield* duplexCq(server, { qps, each: depth + 1 + rxDepth });
    return { sendCq: cq, recvCq: cq };
  }
  if (!pingPong && verb === "send") yield* makeRoom(server, rxDepth);
  return { sendCq, recvCq: pingPong ? pingPongCq : recvCq };
}

/** Room for another queue pair, besides completions of dead clients. */
function* duplexCq(
  server: Server,
  { qps, each }: { readonly qps: number; readonly each: number },
): Steps<Cq> {
  const { sessions, device } = server;
  if (server.duplex === undefined) {
    const room = qps * each;
    server.duplex = { cq: must(yield* createCq(device, { entries: room })), room };
  }
  const { duplex } = server;
  const taken = [...sessions.values()].filter(({ terms }) => terms.bidirectional)
    .reduce((sum, { terms: { depth, rxDepth } }) => sum + depth + 1 + rxDepth, 0);
  const wanted = taken + each;
  if (wanted > duplex.room) {
    must(yield* resizeCq(duplex.cq, 2 * wanted));
    duplex.room = 2 * wanted;
  }
  return duplex.cq;
}

function manner({ device }: Server) {
  return { mode: device.state.completion, idlePs: IDLE_PS };
}

function* runDuplex(server: Server, sessions: readonly Session[]): Steps<void> {
  const { connection, terms, buffer, lane: { qp: { sendCq }, index } } = sessions.at(-1)!;
  const { cpu } = server.device;
  const lanes = sessions.map(({ lane }) => lane);
  const { duration, bytes, iterations } = terms;
  const idlePs = IDLE_PS + (duration?.ps ?? 0);
  const own = { buffer, sendCq, mode: manner(server).mode, idlePs };
  const stream: Stream = { ...terms, ...own, lanes, onProgress: () => {} };
  const ended = yield* runStream(cpu, stream);
  const isTimed = "count" in ended;
  const figures = isTimed ? sampledBandwidth(ended, bytes) : bandwidthFigures(ended, bytes);
  const messages = isTimed ? ended.count : iterations * lanes.length;
  const place = sendSge(buffer, index, FIGURES_BYTES);
  cpu.store(place.address, encodeFigures(figures, messages));
  // The connection beside UD queue pairs writes.
  must(
    yield* postSend(connection.qp, {
      opcode: "write",
      sendFlags: IBV_SEND_SIGNALED,
      sges: [place],
      remote: { va: terms.reportVa, rkey: terms.place.rkey },
    }),
  );
  if (PERFTEST[terms.test].verb === "send") {
    return yield* takeUntil(stream, () => isDisconnected(connection));
  }
  for (const completion of yield* waitCompletion(sendCq, { deadline: cpu.now + IDLE_PS })) {
    mustSucceed(completion);
  }
}

function* makeRoom(server: Server, rxDepth: number): Steps<void> {
  const taken = [...server.sessions.values()].reduce((sum, { terms }) => sum + terms.rxDepth, 0);
  const wanted = taken + rxDepth;
  if (wanted <= server.room) return;
  must(yield* resizeCq(server.recvCq, 2 * wanted));
  server.room = 2 * wanted;
}

function* bufferFor(server: Server, terms: PerftestTerms): Steps<TestBuffer | VerbError> {
  const { device, buffers } = server;
  const { memory, qps } = terms;
  const bytes = terms.bytes + (terms.connection === "UD" ? GRH_BYTES : 0);
  const known = buffers.get(memory);
  if (known !== undefined && known.placeBytes >= bytes && known.count >= qps) return known;
  const made = yield* makeBuffer(device, { bytes, count: qps, memory });
  if (!failed(made)) buffers.set(memory, { ...made, count: qps });
  return made;
}

function* close(server: Server, endpoint: Connection["endpoint"]): Steps<void> {
  const session = server.byEndpoint.get(endpoint);
  if (session === undefined) return;
  const { lane, connection } = session;
  server.byEndpoint.delete(endpoint);
  server.sessions.delete(lane.qp.qpn);
  yield* closeLane({ ...lane, connection });
}
