/**
 * perftest's server: serves the clients of other hosts, one test after the other. It is active only
 * in a ping-pong, and where SENDs need receives.
 */
import type { CmDevice } from "../../cm/gsi.ts";
import { type Connection, disconnect, refused } from "../../cm/connection.ts";
import { waitCompletion } from "../../verbs/completion_queue.ts";
import { createCq } from "../../verbs/create_cq.ts";
import { failed, must, ProgramError } from "../../verbs/device.ts";
import {
  accept,
  type ConnectRequest,
  listen,
  type Listener,
  listening,
  nextEvent,
  reject,
} from "../../cm/listen.ts";
import { postRecv } from "../../verbs/post.ts";
import type { Steps } from "../../cpu/program.ts";
import { resizeCq } from "../../verbs/resize_cq.ts";
import { makeBuffer, recvPlace, recvSge, type TestBuffer } from "./buffer.ts";
import { IDLE_PS } from "./client.ts";
import { postFirstRecvs, runLatency } from "./ping_pong.ts";
import {
  decodePerftestTerms,
  encodePlace,
  encodeReason,
  type Memory,
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
  /** For streams of SENDs, also of several clients at once. */
  readonly recvCq: Cq;
  /** For the current ping-pong: one runs at a time. */
  readonly pingPongCq: Cq;
  /** Free entries of {@link recvCq}. */
  room: number;
  /** The largest buffer so far of each kind of memory: it is never freed. */
  readonly buffers: Map<Memory, TestBuffer & { readonly count: number }>;
  readonly sessions: Map<number, Session>;
}

interface Session {
  readonly connection: Connection;
  readonly terms: PerftestTerms;
  readonly buffer: TestBuffer;
}

/** The program: it has no options, and runs until its host loses power. What it has made goes with its card. */
export function* perftestServer({ device }: ProgramContext): Steps<void> {
  const listener = must(listen(device, SERVICE));
  for (;;) {
    const server = yield* startServer(device, listener);
    if (server !== undefined) yield* serve(server);
    else yield* awaitReset(device, listener);
  }
}

/** Undefined where the RNIC has failed: a reset event follows. */
function* startServer(device: CmDevice, listener: Listener): Steps<Server | undefined> {
  const cqs: Cq[] = [];
  for (const entries of [2 * RX_DEPTH, RX_DEPTH, 2 * RX_DEPTH]) {
    const cq = yield* createCq(device, { entries });
    if (failed(cq)) return undefined;
    cqs.push(cq);
  }
  const [sendCq, recvCq, pingPongCq] = cqs as [Cq, Cq, Cq];
  const none = { room: RX_DEPTH, buffers: new Map(), sessions: new Map() };
  return { device, listener, sendCq, recvCq, pingPongCq, ...none };
}

/** What clients ask meanwhile is refused. */
function* awaitReset({ cpu }: CmDevice, listener: Listener): Steps<void> {
  for (;;) {
    for (let event = nextEvent(listener); event; event = nextEvent(listener)) {
      if (event.kind === "reset") return;
      if (event.kind === "request") yield* reject(listener, event.request);
    }
    yield* cpu.waitSignal(listening(listener).signal, NEVER);
  }
}

/** Serves until the RNIC has failed and is there again. */
function* serve(server: Server): Steps<void> {
  for (;;) {
    const completions = yield* waitCompletion(server.recvCq, { also: listening(server.listener) });
    for (const { status, qpNum, wrId } of completions) {
      const session = server.sessions.get(qpNum);
      if (session === undefined || status !== "SUCCESS") continue;
      const { connection, buffer, terms: { index, bytes } } = session;
      yield* postRecv(connection.qp, { wrId, sges: [recvSge(buffer, index, bytes)] });
    }
    for (let event = nextEvent(server.listener); event; event = nextEvent(server.listener)) {
      if (event.kind === "reset") return;
      if (event.kind === "request") yield* take(server, event.request);
      else if (event.kind === "closed") yield* close(server, event.endpoint);
    }
  }
}

function* take(server: Server, request: ConnectRequest): Steps<void> {
  const { device, listener, sessions } = server;
  const terms = decodePerftestTerms(request.privateData);
  if (terms === undefined) return void (yield* reject(listener, request));
  const buffer = yield* bufferFor(server, terms);
  if (failed(buffer)) {
    return void (yield* reject(listener, request, { privateData: encodeReason(buffer.reason) }));
  }
  const kind = PERFTEST[terms.test];
  const { index, bytes } = terms;
  if (!kind.pingPong && kind.verb === "send") yield* makeRoom(server);
  const { sendCq } = server;
  const recvCq = kind.pingPong ? server.pingPongCq : server.recvCq;
  const connection = yield* accept(listener, request, {
    qp: {
      pd: buffer.pd,
      sendCq,
      recvCq,
      maxSendWr: RX_DEPTH,
      maxRecvWr: RX_DEPTH,
      maxInlineData: kind.inlineBytes,
    },
    privateData: encodePlace(recvPlace(buffer, index)),
    ...(kind.verb === "send" && {
      prepare: (qp: Qp) => postFirstRecvs(qp, { buffer, index, bytes }),
    }),
  });
  if (refused(connection)) return;
  sessions.set(connection.qp.qpn, { connection, terms, buffer });
  if (!kind.pingPong) return;
  try {
    yield* runLatency({
      ...terms,
      qp: connection.qp,
      sendCq,
      recvCq,
      buffer,
      remote: terms.place,
      mode: device.state.completion,
      idlePs: IDLE_PS,
    }, "server");
  } catch (error) {
    // The client is gone or has failed, which the client reports; the server continues.
    if (!(error instanceof ProgramError)) throw error;
  }
}

/** Makes room for the completions of another queue pair: perftest's rx-depth for each. */
function* makeRoom(server: Server): Steps<void> {
  const wanted = (server.sessions.size + 1) * RX_DEPTH;
  if (wanted <= server.room) return;
  must(yield* resizeCq(server.recvCq, 2 * wanted));
  server.room = 2 * wanted;
}

function* bufferFor(server: Server, terms: PerftestTerms): Steps<TestBuffer | VerbError> {
  const { device, buffers } = server;
  const { memory, bytes, qps } = terms;
  const known = buffers.get(memory);
  if (known !== undefined && known.placeBytes >= bytes && known.count >= qps) return known;
  const made = yield* makeBuffer(device, { bytes, count: qps, memory });
  if (!failed(made)) buffers.set(memory, { ...made, count: qps });
  return made;
}

function* close(server: Server, endpoint: Connection["endpoint"]): Steps<void> {
  for (const [qpn, { connection }] of server.sessions) {
    if (connection.endpoint !== endpoint) continue;
    server.sessions.delete(qpn);
    yield* disconnect(connection);
  }
}
