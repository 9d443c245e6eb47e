/** `persistd`'s requesters. */
import { ACCESS } from "../../../../fabric/wire/host_bus/rnic_command.ts";
import { accept, type ConnectRequest, reject } from "../../cm/listen.ts";
import { refused } from "../../cm/connection.ts";
import { failed } from "../../verbs/device.ts";
import { deregMr, regMr } from "../../verbs/memory_region.ts";
import { nextRecvs, postRecv, postSend, sge } from "../../verbs/post.ts";
import type { Steps } from "../../cpu/program.ts";
import { destroyQp } from "../../verbs/queue_pair.ts";
import {
  decodeTerms,
  encodeServerTerms,
  isPersistentWrite,
  type Terms,
} from "../common/persist_protocol.ts";
import {
  type Client,
  type ClientMemory,
  freeMemory,
  memoryFor,
  regRecvs,
  type Server,
} from "./persistd_memory.ts";
import { areaOf } from "../common/recv_ring.ts";
import type { Cq, Qp, RecvRequest } from "../../verbs/objects.ts";
import { SMALL_INLINE } from "../common/send_flags.ts";
import { IBV_SEND_SIGNALED } from "../../verbs/flags.ts";

/**
 * The requester chooses the policy; `auto` is resolved to the RECV's notification where the CPU
 * flushes.
 */
export function* handleRequest(server: Server, request: ConnectRequest): Steps<void> {
  const terms = decodeTerms(request.privateData);
  const privateData = encodeServerTerms(server.terms);
  const otherPolicy = terms?.policy === "auto" && server.terms.flush === "cpu";
  const memory = terms === undefined || otherPolicy ? undefined : yield* memoryFor(server, terms);
  if (memory !== undefined) yield* dropOthers(server, areaOf(memory.ring));
  if (terms === undefined || memory === undefined || server.cq === undefined) {
    if (memory !== undefined) server.freeMemory.push(memory);
    else if (!otherPolicy) yield* probe(server);
    return void (yield* reject(server.listener, request, { privateData }));
  }
  const client = yield* admit(server, request, { terms, memory, cq: server.cq, privateData });
  if (client === undefined) {
    server.freeMemory.push(memory);
    return;
  }
  server.roomLeft -= 2 * memory.ring.slots;
  server.clients.set(client.connection.qp.qpn, client);
}

function* admit(
  server: Server,
  request: ConnectRequest,
  place: {
    readonly terms: Terms;
    readonly memory: ClientMemory;
    readonly cq: Cq;
    readonly privateData: Uint8Array;
  },
): Steps<Client | undefined> {
  const { terms, memory, cq, privateData } = place;
  const { pd } = server;
  const { slots } = memory.ring;
  const recvMr = yield* regRecvs(pd, memory, terms.method);
  const sendMr = yield* regMr(pd, memory.sendBuffer, { access: 0 });
  if (failed(recvMr) || failed(sendMr)) {
    yield* reject(server.listener, request, { privateData });
    return undefined;
  }
  const slotList = { recvMr, memory };
  const connection = yield* accept(server.listener, request, {
    privateData,
    qp: { pd, sendCq: cq, recvCq: cq, maxSendWr: slots, maxRecvWr: slots, ...SMALL_INLINE },
    prepare: (qp) => postFirstRecvs(server, qp, { ...slotList, method: terms.method }),
  });
  if (refused(connection)) {
    yield* deregMr(recvMr);
    yield* deregMr(sendMr);
    return undefined;
  }
  return {
    connection,
    terms,
    memory,
    recvMr,
    sendMr,
    region: undefined,
    replacement: undefined,
    serving: undefined,
    emptied: [],
    nextSend: 0,
    isProbed: false,
    gone: false,
  };
}

type Slots = Pick<Client, "recvMr" | "memory">;

function recvRequest({ recvMr, memory }: Slots, slot: number): RecvRequest {
  const { slotBytes } = memory.ring;
  return { wrId: slot, sges: [sge(recvMr, slot * slotBytes, slotBytes)] };
}

function* postFirstRecvs(
  server: Server,
  qp: Qp,
  client: Slots & { readonly method: Terms["method"] },
): Steps<void> {
  const { memory, method } = client;
  const requests = Array.from(
    { length: memory.ring.slots },
    (_, slot) => recvRequest(client, slot),
  );
  traceRecvs(server, qp, { count: requests.length, method });
  yield* postRecv(qp, requests);
}

/** S311, S1005: for persistent writes. */
function traceRecvs(
  server: Server,
  qp: Qp,
  posted: { readonly count: number; readonly method: Terms["method"] },
): void {
  if (!server.cpu.tracing) return;
  const { count, method } = posted;
  const byRnic = isPersistentWrite(method) || method === "persist-compare" ||
    method === "write-flush";
  const step = method === "write-send"
    ? "S311"
    : byRnic && server.terms.flush === "cpu"
    ? "S1005"
    : "post-recv";
  const recvs = nextRecvs(qp, count);
  server.cpu.trace({ step, text: `posts ${count} RECV`, qpn: qp.qpn, recvs });
}

/** The CPU time includes that of other clients, if there are several. */
export function reportServed({ cpu }: Server, client: Client): void {
  const { serving } = client;
  if (serving === undefined) return;
  client.serving = undefined;
  cpu.report("served", { object: serving.object, cpuPs: cpu.workPs - serving.workPs });
}

export function* dropClient(server: Server, client: Client): Steps<void> {
  if (client.gone) return;
  client.gone = true;
  const { qp } = client.connection;
  reportServed(server, client);
  server.clients.delete(qp.qpn);
  yield* destroyQp(qp);
  for (const mr of [client.region, client.recvMr, client.sendMr]) {
    if (mr !== undefined) yield* deregMr(mr);
  }
  yield* freeMemory(server, client);
  server.roomLeft += 2 * client.memory.ring.slots;
}

/**
 * WRITEs of no bytes, which need no key: a requester that only writes by RDMA may be gone without a
 * sign; then the WRITE fails after some ms, and its resources are freed. Only at a request, so that
 * an idle rack stays idle.
 */
export function* probe({ clients }: Server): Steps<void> {
  for (const client of clients.values()) {
    if (client.isProbed) continue;
    client.isProbed = true;
    const remote = { va: 0, rkey: 0 }, sendFlags = IBV_SEND_SIGNALED;
    const request = { opcode: "write", sendFlags, sges: [], remote } as const;
    // Refused where its queue is full: another request will fail then.
    yield* postSend(client.connection.qp, request);
  }
}

interface Given {
  readonly address: number;
  readonly length: number;
  readonly name?: string;
  /** No other requester may write the object, nor another object of its name. */
  readonly alone?: boolean;
  readonly readersStay?: boolean;
}

/**
 * Disconnects requesters with a region there under another name, as that object was replaced, and,
 * for an exclusive assignment, those with write access. Late packets of a failed requester then
 * find no queue pair, so they cannot overwrite later data.
 */
export function* dropOthers(server: Server, given: Given, client?: Client): Steps<void> {
  for (const [its, other] of clientsOfAll(server)) {
    if (other !== client && isInTheWay(other, given)) yield* dropClient(its, other);
  }
}

function clientsOfAll({ store }: Server): [Server, Client][] {
  return store.servers.flatMap((its) =>
    [...its.clients.values()].map((client): [Server, Client] => [its, client])
  );
}

function isInTheWay({ region, serving }: Client, given: Given): boolean {
  if (region === undefined) return false;
  if (given.readersStay === true && (region.access & ACCESS.localWrite) === 0) return false;
  if (serving !== undefined && serving.object === given.name) {
    return given.alone === true && (region.access & ACCESS.localWrite) !== 0;
  }
  return region.address < given.address + given.length &&
    given.address < region.address + region.length;
}

export function* replenish(server: Server, client: Client): Steps<void> {
  const { qp } = client.connection;
  const requests = client.emptied.map((slot) => recvRequest(client, slot));
  client.emptied.length = 0;
  traceRecvs(server, qp, { count: requests.length, method: client.terms.method });
  yield* postRecv(qp, requests);
}
