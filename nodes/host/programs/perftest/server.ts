/**
 * perftest's server: answers the clients of other hosts, one test after the other. It takes part only in
 * a ping-pong, and where SENDs need receives.
 */
import type { Connection } from "../../connection.ts";
import { disconnect, refused } from "../../connection.ts";
import { type Cq, createCq, waitCompletion } from "../../completion_queue.ts";
import { type Device, must, ProgramError } from "../../device.ts";
import { accept, listen, type Listener, listening, nextEvent, reject } from "../../listen.ts";
import type { ConnectRequest } from "../../listen.ts";
import { postRecv } from "../../post.ts";
import type { ProgramContext, Steps } from "../../program.ts";
import { makeBuffer, recvPlace, recvSge, type TestBuffer } from "./buffer.ts";
import { IDLE_PS } from "./client.ts";
import { postFirstRecvs, runLatency } from "./ping_pong.ts";
import {
  decodePerftestTerms,
  encodePlace,
  type Memory,
  PERFTEST,
  type PerftestTerms,
  RX_DEPTH,
  SERVICE,
} from "./terms.ts";

/** Queue pairs that a client may have at once. */
const QPS_MAX = 128;

interface Server {
  readonly device: Device;
  readonly listener: Listener;
  readonly sendCq: Cq;
  readonly recvCq: Cq;
  /** The largest so far of each kind of memory: what was allocated is not given back. */
  readonly buffers: Map<Memory, TestBuffer & { readonly count: number }>;
  readonly sessions: Map<number, Session>;
}

interface Session {
  readonly connection: Connection;
  readonly terms: PerftestTerms;
  readonly buffer: TestBuffer;
}

/** The program: it has no options, and goes on as long as its host has power. */
export function* perftestServer({ device }: ProgramContext): Steps<void> {
  const server: Server = {
    device,
    listener: must(listen(device, SERVICE)),
    sendCq: must(yield* createCq(device, { entries: 2 * RX_DEPTH })),
    recvCq: must(yield* createCq(device, { entries: 8 * RX_DEPTH })),
    buffers: new Map(),
    sessions: new Map(),
  };
  for (;;) {
    const completions = yield* waitCompletion(server.recvCq, { also: listening(server.listener) });
    for (const { status, qpNum, wrId } of completions) {
      const session = server.sessions.get(qpNum);
      if (session === undefined || status !== "SUCCESS") continue;
      yield* postRecv(session.connection.qp, { wrId, sges: [recvSgeOf(session)] });
    }
    for (let event = nextEvent(server.listener); event; event = nextEvent(server.listener)) {
      if (event.kind === "request") yield* take(server, event.request);
      else if (event.kind === "closed") yield* close(server, event.endpoint);
    }
  }
}

function recvSgeOf({ buffer, terms }: Session) {
  return recvSge(buffer, terms.index, terms.bytes);
}

function* take(server: Server, request: ConnectRequest): Steps<void> {
  const { device, listener, sendCq, recvCq, sessions } = server;
  const terms = decodePerftestTerms(request.privateData);
  if (terms === undefined || terms.index >= QPS_MAX) return yield* reject(listener, request);
  const buffer = yield* bufferFor(server, terms);
  const kind = PERFTEST[terms.test];
  const { index, bytes } = terms;
  const connection = yield* accept(listener, request, {
    qp: { pd: buffer.pd, sendCq, recvCq, maxSendWr: RX_DEPTH, maxRecvWr: RX_DEPTH },
    privateData: encodePlace(recvPlace(buffer, index)),
    prepare: (qp) =>
      kind.verb === "send" ? postFirstRecvs(qp, { buffer, index, bytes }) : nothing(),
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
    // The client is gone or has failed: it says so itself, and the next one is served.
    if (!(error instanceof ProgramError)) throw error;
  }
}

function* nothing(): Steps<void> {}

function* bufferFor(server: Server, terms: PerftestTerms): Steps<TestBuffer> {
  const { device, buffers } = server;
  const { memory, bytes, index } = terms;
  const known = buffers.get(memory);
  if (known !== undefined && known.placeBytes >= bytes && known.count > index) return known;
  // Rather too much than again and again.
  const count = Math.max(known?.count ?? 1, index + 1 > 1 ? 2 * (index + 1) : 1);
  const most = Math.max(known?.placeBytes ?? 0, bytes);
  const buffer = { ...(yield* makeBuffer(device, { bytes: most, count, memory })), count };
  buffers.set(memory, buffer);
  return buffer;
}

function* close(server: Server, endpoint: Connection["endpoint"]): Steps<void> {
  for (const [qpn, { connection }] of server.sessions) {
    if (connection.endpoint !== endpoint) continue;
    server.sessions.delete(qpn);
    yield* disconnect(connection);
  }
}
