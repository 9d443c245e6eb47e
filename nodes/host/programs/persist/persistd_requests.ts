/**
 * `persistd`'s handlers of requests: open, list, flush, store. Data of SENDs is stored in the order
 * that the requester needs; a pending message (`send-read`) when it arrives, as no requester waits.
 */
import { ACCESS } from "../../../../fabric/wire/host_bus/rnic_command.ts";
import { noteActivity } from "../../cm/connection.ts";
import type { Steps } from "../../cpu/program.ts";
import { failed } from "../../verbs/device.ts";
import { deregMr, regMr } from "../../verbs/memory_region.ts";
import type { WorkCompletion } from "../../verbs/objects.ts";
import { flushRanges, persistRanges } from "../../verbs/persist_ranges.ts";
import { postSend, sge } from "../../verbs/post.ts";
import {
  accessFor,
  CONTROL_BYTES,
  decodeMessage,
  decodePendingMessage,
  encodeMessage,
  HEADER_BYTES,
  nameEntryBytes,
  NAMES_BYTES,
  type PersistMessage,
  type Word,
  wordTailBytes,
} from "../common/persist_protocol.ts";
import { recordApplied, storePendingMessage } from "../common/recv_ring.ts";
import { createObject, findObject, listObjects, type ScmObject } from "../common/scm_directory.ts";
import { dropClient, dropOthers, reportServed } from "./persistd_client.ts";
import { type Client, type Server, storePersistent, storingOf } from "./persistd_memory.ts";

/**
 * Bytes kept at the beginning of a replaced object that is opened exclusively: a line. So the next
 * client finds an earlier client's claim, even if the client that replaced the object died at once.
 */
const KEPT_BYTES = 64;

/**
 * P-26: the RNIC has consumed a RECV for the requester: flushes the message's range and earlier
 * plain writes (P-31), and sends the PSN back.
 */
export function* persist(server: Server, client: Client, completion: WorkCompletion): Steps<void> {
  const { cpu } = server;
  const { psn, wrId } = completion;
  const { qp, label: connection } = client.connection;
  const step = { qpn: qp.qpn, psn, inbound: true, connection } as const;
  const ranges = persistRanges(cpu, completion, recvAt(client, wrId));
  if (cpu.tracing) {
    const text = `takes the RECV's CQE, flushes ${ranges.map(rangeText).join(", ") || "nothing"}`;
    cpu.trace({ step: "S1008", text, ...step });
  }
  yield* flushRanges(cpu, ranges);
  if (cpu.tracing) {
    const text = `posts the SEND that says PSN ${psn} is persistent`;
    cpu.trace({ step: "S1014", text, wrId: psn, ...step });
  }
  const request = { opcode: "persistence-ack", immediate: psn, wrId: psn } as const;
  if (failed(yield* postSend(qp, request))) yield* dropClient(server, client);
}

function recvAt({ recvMr, memory }: Client, slot: number): number {
  return recvMr.address + slot * memory.ring.slotBytes;
}

export function* handleRecv(
  server: Server,
  client: Client,
  completion: WorkCompletion,
): Steps<void> {
  noteActivity(client.connection);
  const at = recvAt(client, completion.wrId);
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
    case "commit":
    case "commit-data": {
      const data = at + HEADER_BYTES + wordTailBytes(message.then.bytes.length);
      return yield* commit(server, client, { ...message, at: data });
    }
    case "deposit":
      return yield* takePendingMessage(server, client, { at, bytes: completion.byteLen });
    default:
      return yield* answer(server, client, { type: "refused", id: 0, why: "bad-request" });
  }
}

/** Opens an object, registers its region with the method's access, sends the region (P-22). */
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
    ? yield* createObject(server.cpu, directory, {
      name,
      length: message.length,
      ...(message.alone && { keeps: KEPT_BYTES }),
    })
    : undefined;
  if (object === undefined) {
    const why = message.type === "open-read" ? "not-found" : "no-space";
    return yield* answer(server, client, { type: "refused", id, why });
  }
  if (message.type === "open-write") {
    const place = { address: server.cpu.scm.address + object.offset, length: object.length };
    yield* dropOthers(server, { ...place, name, alone: message.alone === true }, client);
  }
  if (client.region !== undefined) yield* deregMr(client.region);
  const method = message.type === "open-read" ? "read" : client.terms.method;
  const { offset, length } = object;
  const { scm } = server.cpu;
  const region = yield* regMr(server.pd, scm, { offset, length, access: accessFor(method) });
  if (failed(region)) return yield* dropClient(server, client);
  client.region = region;
  reportServed(server, client);
  const { recvMr, memory: { ring: { epoch } } } = client;
  const recvPlace = { va: recvMr.address, rkey: recvMr.rkey, epoch };
  yield* answer(server, client, {
    type: "region",
    id,
    va: region.address,
    length,
    rkey: region.rkey,
    access: region.access,
    flow: server.terms.flow,
    scmOffset: offset,
    ...(method === "send-read" && { ring: { ...recvPlace, generation: object.generation } }),
  });
  client.serving = { object: object.name, workPs: server.cpu.workPs };
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
  message: { readonly id: number; readonly va: number; readonly length: number },
): Steps<void> {
  const { cpu } = server;
  const { id, va, length } = message;
  if (!inRegion(client, message)) {
    return yield* answer(server, client, { type: "refused", id, why: "bad-request" });
  }
  if (cpu.tracing) {
    const keys = keysOf(client, id), range = rangeText(message);
    cpu.trace({ step: "S319", text: `takes the RECV's CQE: ${range} to be persisted`, ...keys });
    cpu.trace({ step: "S320", text: `flushes ${range} from the LLC`, ...keys });
  }
  yield* cpu.flush(va, length);
  yield* answerFlushed(server, client, { id, step: "S321" });
}

/** A message with a range, and the offset of its data in the receive buffer. */
interface Arrived {
  readonly id: number;
  readonly va: number;
  readonly length: number;
  readonly at: number;
}

/** Whether a requester's range is within the object that it has opened for writing. */
function inRegion(
  client: Client,
  range: { readonly va: number; readonly length: number },
): boolean {
  const { region } = client;
  return region !== undefined && (region.access & ACCESS.localWrite) !== 0 &&
    range.va >= region.address && range.length >= 0 &&
    range.va + range.length <= region.address + region.length;
}

/** P-51, general purpose mode: the SEND itself contains the data. */
function* storeData(
  server: Server,
  client: Client,
  message: Arrived,
): Steps<void> {
  const { cpu } = server;
  const { id, va, length } = message;
  if (!inRegion(client, message) || HEADER_BYTES + length > client.memory.ring.slotBytes) {
    return yield* answer(server, client, { type: "refused", id, why: "bad-request" });
  }
  const data = cpu.load(message.at, length);
  if (cpu.tracing) {
    const text = `copies ${length} B to VA 0x${va.toString(16)} and makes them persistent`;
    cpu.trace({ step: "copy-flush", text, ...keysOf(client, id) });
  }
  yield* storePersistent(server, va, data);
  yield* answerFlushed(server, client, { id, step: "post-answer" });
}

/**
 * First the range, flushed or stored from the message's data; the word is written only when the
 * range is persistent, so that no eviction can write it to the medium earlier.
 */
function* commit(
  server: Server,
  client: Client,
  message: Arrived & { readonly type: "commit" | "commit-data"; readonly then: Word },
): Steps<void> {
  const { cpu } = server;
  const { id, va, length, then, at } = message;
  const hasData = message.type === "commit-data";
  const room = client.memory.ring.slotBytes - HEADER_BYTES - wordTailBytes(then.bytes.length);
  const word = { va: then.va, length: then.bytes.length };
  if (!inRegion(client, message) || !inRegion(client, word) || (hasData && length > room)) {
    return yield* answer(server, client, { type: "refused", id, why: "bad-request" });
  }
  const keys = keysOf(client, id);
  if (cpu.tracing) {
    cpu.trace({ step: "commit-first", text: `makes ${rangeText(message)} persistent`, ...keys });
  }
  if (hasData) yield* storePersistent(server, va, cpu.load(at, length));
  else yield* cpu.flush(va, length);
  if (cpu.tracing) {
    const text = `stores ${rangeText(word)} and makes them persistent`;
    cpu.trace({ step: "commit-then", text, ...keys });
  }
  yield* storePersistent(server, then.va, then.bytes);
  yield* answerFlushed(server, client, { id, step: "post-answer" });
}

/** S321: sends that the range of request `id` is persistent. */
function* answerFlushed(
  server: Server,
  client: Client,
  { id, step }: { readonly id: number; readonly step: string },
): Steps<void> {
  const { cpu } = server;
  const keys = keysOf(client, id);
  if (cpu.tracing) cpu.trace({ step, text: "posts SEND: flushed", wrId: id, ...keys });
  yield* answer(server, client, { type: "flushed", id });
}

function keysOf({ connection: { qp, label } }: Client, operation: number) {
  return { qpn: qp.qpn, connection: label, operation };
}

function rangeText({ va, length }: { readonly va: number; readonly length: number }): string {
  return `${length} B at VA 0x${va.toString(16)}`;
}

/** Sends an answer; disconnects a client to which it cannot be sent. */
function* answer(
  server: Server,
  client: Client,
  message: PersistMessage,
): Steps<void> {
  const { memory, connection, sendMr } = client;
  const bytes = encodeMessage(message);
  const slot = client.nextSend;
  client.nextSend = (slot + 1) % memory.ring.slots;
  // Names need more room than a slot has: one separate buffer, for one answer at a time.
  const offset = message.type === "names"
    ? memory.ring.slots * CONTROL_BYTES
    : slot * CONTROL_BYTES;
  server.cpu.store(sendMr.address + offset, bytes);
  const sges = [sge(sendMr, offset, bytes.length)];
  if (failed(yield* postSend(connection.qp, { opcode: "send", sges, wrId: message.id }))) {
    yield* dropClient(server, client);
  }
}

/**
 * Stores a pending message, and records that, before its slot may be reused. A requester that sends
 * an invalid message, or one out of order, is disconnected: the protocol has no error answer.
 */
function* takePendingMessage(
  server: Server,
  client: Client,
  { at, bytes }: { readonly at: number; readonly bytes: number },
): Steps<void> {
  const { cpu } = server;
  const { ring } = client.memory;
  const arrived = decodePendingMessage(cpu.load(at, bytes));
  const isNext = arrived !== undefined && arrived.pending.sequence === ring.applied + 1 &&
    arrived.pending.epoch === ring.epoch;
  if (!isNext) return yield* dropClient(server, client);
  const { id, length, scmOffset } = arrived.pending;
  const range = { va: cpu.scm.address + scmOffset, length };
  if (!inRegion(client, range)) return yield* dropClient(server, client);
  if (cpu.tracing) {
    const text = `stores ${length} B of deposit ${id} and makes them persistent`;
    const scm = [scmOffset, scmOffset + length] as const;
    cpu.trace({ step: "store-deposit", text, ...keysOf(client, id), scm });
  }
  yield* storePendingMessage(storingOf(server), arrived);
  yield* recordApplied(cpu, ring, arrived.pending.sequence);
}
