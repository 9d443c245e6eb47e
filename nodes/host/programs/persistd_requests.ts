/** What `persistd` does for a requester: open, list, flush, store, and say so. */
import { ACCESS } from "../../../fabric/wire/rnic_command.ts";
import type { WorkCompletion } from "../completion_queue.ts";
import { noteActivity } from "../connection.ts";
import { failed } from "../device.ts";
import { deregMr, regMr } from "../memory_region.ts";
import { postSend, sge } from "../post.ts";
import type { Buffer, Steps } from "../program.ts";
import {
  accessFor,
  CONTROL_BYTES,
  decodeMessage,
  encodeMessage,
  HEADER_BYTES,
  nameEntryBytes,
  NAMES_BYTES,
  type PersistMessage,
  type Terms,
} from "./persist_protocol.ts";
import { type Client, dropClient, reportServed, type Server } from "./persistd_client.ts";
import { createObject, findObject, listObjects, type ScmObject } from "./scm_directory.ts";

/** Whether a range that a requester names lies in the object it has opened for writing. */
function inRegion(client: Client, range: { va: number; length: number }): boolean {
  const { region } = client;
  return region !== undefined && (region.access & ACCESS.localWrite) !== 0 &&
    range.va >= region.address && range.length >= 0 &&
    range.va + range.length <= region.address + region.length;
}

/** P-26: the RNIC has consumed a RECV in the requester's name; flush the range and say its PSN. */
export function* persist(server: Server, client: Client, completion: WorkCompletion): Steps<void> {
  const { cpu } = server;
  const { va, byteLen, psn } = completion;
  const { qp, label: connection } = client.connection;
  const step = { qpn: qp.qpn, psn, inbound: true, connection } as const;
  if (cpu.tracing) {
    const text = `takes the RECV's CQE, flushes ${byteLen} B at VA 0x${va.toString(16)}`;
    cpu.trace({ step: "S1008", text, ...step });
  }
  yield* cpu.flush(va, byteLen);
  if (cpu.tracing) {
    cpu.trace({
      step: "S1014",
      text: `posts the SEND that says PSN ${psn} is persistent`,
      wrId: psn,
      ...step,
    });
  }
  const request = { opcode: "persistence-ack", immediate: psn, wrId: psn } as const;
  if (failed(yield* postSend(qp, request))) yield* dropClient(server, client);
}

export function* handleRecv(
  server: Server,
  client: Client,
  completion: WorkCompletion,
): Steps<void> {
  noteActivity(client.connection);
  const at = client.recvMr.address + completion.wrId * client.memory.recvBytes;
  const header = server.cpu.load(at, Math.min(completion.byteLen, CONTROL_BYTES));
  const message = decodeMessage(header);
  switch (message?.type) {
    case "open-write":
    case "open-read":
      return yield* open(server, client, message);
    case "list":
      return yield* list(server, client, message);
    case "persist-mark":
      return yield* flushMarked(server, client, message);
    case "data":
      return yield* storeData(server, client, { ...message, at: at + HEADER_BYTES });
    default:
      return yield* answer(server, client, { type: "refused", id: 0, why: "bad-request" });
  }
}

/** Opens an object, registers its region with the access that the method needs, tells it (P-22). */
function* open(
  server: Server,
  client: Client,
  message: Extract<PersistMessage, { type: "open-write" | "open-read" }>,
): Steps<void> {
  const { id, name } = message;
  const directory = server.directory!;
  const object = message.type === "open-read"
    ? findObject(directory, name)
    : message.length > 0
    ? yield* createObject(server.cpu, directory, { name, length: message.length })
    : undefined;
  if (object === undefined) {
    const why = message.type === "open-read" ? "not-found" : "no-space";
    return yield* answer(server, client, { type: "refused", id, why });
  }
  if (client.region !== undefined) yield* deregMr(client.region);
  const method = message.type === "open-read" ? "read" : client.terms.method;
  const region = yield* registerObject(server, object, method);
  if (failed(region)) return yield* dropClient(server, client);
  client.region = region;
  reportServed(server, client);
  yield* answer(server, client, {
    type: "region",
    id,
    va: region.address,
    length: object.length,
    rkey: region.rkey,
    access: region.access,
    flow: server.terms.flow,
    scmOffset: object.offset,
  });
  client.serving = { object: object.name, workPs: server.cpu.workPs };
}

function registerObject(server: Server, object: ScmObject, method: Terms["method"]) {
  const scm: Buffer = server.cpu.scm;
  const { offset, length } = object;
  return regMr(server.pd, scm, { offset, length, access: accessFor(method) });
}

function* list(
  server: Server,
  client: Client,
  message: Extract<PersistMessage, { type: "list" }>,
): Steps<void> {
  const all = listObjects(server.directory!);
  const objects: ScmObject[] = [];
  let bytes = HEADER_BYTES;
  let next = message.next;
  while (next < all.length && bytes + nameEntryBytes(all[next]!.name) <= NAMES_BYTES) {
    bytes += nameEntryBytes(all[next]!.name);
    objects.push(all[next]!);
    next++;
  }
  const more = next < all.length ? next : 0;
  yield* answer(server, client, { type: "names", id: message.id, next: more, objects });
}

/** P-11: S319 to S321. */
function* flushMarked(
  server: Server,
  client: Client,
  message: Extract<PersistMessage, { type: "persist-mark" }>,
): Steps<void> {
  const { cpu } = server;
  const { id, va, length } = message;
  if (!inRegion(client, message)) {
    return yield* answer(server, client, { type: "refused", id, why: "bad-request" });
  }
  const { qp, label: connection } = client.connection;
  const step = { qpn: qp.qpn, connection, operation: id };
  const range = `${length} B at VA 0x${va.toString(16)}`;
  if (cpu.tracing) {
    cpu.trace({ step: "S319", text: `takes the RECV's CQE: ${range} to be persisted`, ...step });
    cpu.trace({ step: "S320", text: `flushes ${range} from the LLC`, ...step });
  }
  yield* cpu.flush(va, length);
  if (cpu.tracing) cpu.trace({ step: "S321", text: "posts SEND: flushed", wrId: id, ...step });
  yield* answer(server, client, { type: "flushed", id });
}

/** P-51, general purpose mode: the data came in the SEND itself. */
function* storeData(
  server: Server,
  client: Client,
  message: {
    readonly id: number;
    readonly va: number;
    readonly length: number;
    readonly at: number;
  },
): Steps<void> {
  const { cpu } = server;
  const { id, va, length } = message;
  if (!inRegion(client, message) || HEADER_BYTES + length > client.memory.recvBytes) {
    return yield* answer(server, client, { type: "refused", id, why: "bad-request" });
  }
  const data = cpu.load(message.at, length);
  if (cpu.tracing) {
    const { qp: { qpn }, label: connection } = client.connection;
    const text = `copies ${length} B to VA 0x${va.toString(16)} and makes them persistent`;
    cpu.trace({ step: "copy-flush", text, qpn, connection, operation: id });
  }
  if (server.copy === "nt-store") {
    yield* cpu.ntStore(va, data);
  } else {
    cpu.store(va, data);
    yield* cpu.flush(va, length);
  }
  if (cpu.tracing) {
    const { qp: { qpn }, label: connection } = client.connection;
    const keys = { qpn, connection, operation: id, wrId: id };
    cpu.trace({ step: "post-answer", text: "posts SEND: flushed", ...keys });
  }
  yield* answer(server, client, { type: "flushed", id });
}

/** SENDs an answer; a client that cannot be answered any more is dropped. */
function* answer(server: Server, client: Client, message: PersistMessage): Steps<void> {
  const { memory, connection, sendMr } = client;
  const bytes = encodeMessage(message);
  const slot = client.nextSend;
  client.nextSend = (slot + 1) % memory.slots;
  // Names need more room than a slot has: they have a place of their own, for one at a time.
  const offset = message.type === "names" ? memory.slots * CONTROL_BYTES : slot * CONTROL_BYTES;
  server.cpu.store(sendMr.address + offset, bytes);
  const sges = [sge(sendMr, offset, bytes.length)];
  if (failed(yield* postSend(connection.qp, { opcode: "send", sges, wrId: message.id }))) {
    yield* dropClient(server, client);
  }
}
