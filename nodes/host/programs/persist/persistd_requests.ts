/**
 * `persistd`'s handlers of requests. Data of SENDs is stored in the order that the requester needs;
 * a pending message (`send-read`) when it arrives, as no requester waits.
 */
import { ACCESS } from "../../../../fabric/wire/host_bus/rnic_command.ts";
import { noteActivity } from "../../cm/connection.ts";
import type { Cpu, Steps } from "../../cpu/program.ts";
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
  type ListedObject,
  nameEntryBytes,
  NAMES_BYTES,
  partOfImmediate,
  type PersistMessage,
  type Word,
  wordTailBytes,
} from "../common/persist_protocol.ts";
import { recordApplied, storePendingMessage } from "../common/recv_ring.ts";
import {
  createObject,
  type Entry,
  findObject,
  hasRoomWithout,
  listObjects,
  publishReplacement,
  type Replacement,
  reserveReplacement,
  type ScmDirectory,
  type ScmObject,
  withdrawObject,
} from "../common/scm_directory.ts";
import { METHOD_ROWS } from "./put_methods.ts";
import { dispatch } from "./persistd_workers.ts";
import { dropClient, dropOthers, probe, reportServed } from "./persistd_client.ts";
import {
  abandon,
  type Client,
  type Server,
  storePersistent,
  storingOf,
} from "./persistd_memory.ts";
import { IBV_SEND_SIGNALED } from "../../verbs/flags.ts";
import { flagsFor } from "../common/send_flags.ts";

/**
 * Bytes of a replaced object that are kept: the next client finds an earlier client's claim, even
 * if the client that replaced the object died at once.
 */
const KEPT_BYTES = 64;

/**
 * P-26: for a consumed RECV, flushes the message's range and earlier plain writes (P-31), and sends
 * the PSN back.
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
  const sendFlags = IBV_SEND_SIGNALED;
  const request = { opcode: "persistence-ack", sendFlags, immediate: psn, wrId: psn } as const;
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
      if (!workersFlush(client)) return yield* flushMarked(server, client, message);
      return dispatch(server.workers, (cpu) => flushMarked(server, client, message, cpu));
    case "data":
      return yield* storeData(server, client, { ...message, at: at + HEADER_BYTES });
    case "commit":
    case "commit-data": {
      const data = at + HEADER_BYTES + wordTailBytes(message.then.bytes.length);
      const all = { ...message, at: data };
      if (!workersFlush(client)) return yield* commit(server, client, all);
      // A word may replace that of an earlier commit of the connection.
      const lane = client.connection.qp.qpn;
      return dispatch(server.workers, (cpu) => commit(server, client, all, cpu), lane);
    }
    case "publish":
      return yield* publish(server, client, message);
    case "remove":
      return yield* remove(server, client, message);
    case "deposit":
      return yield* takePendingMessage(server, client, { at, bytes: completion.byteLen });
    default:
      return yield* answer(server, client, { type: "refused", id: 0, why: "bad-request" });
  }
}

function workersFlush({ terms: { method } }: Client): boolean {
  return method !== "read" && METHOD_ROWS[method].responder === "workers flush";
}

/** For a WRITE WITH IMMEDIATE: flushes what it has written, if that is the method, and answers. */
export function* handleWritten(
  server: Server,
  client: Client,
  { immData }: WorkCompletion,
): Steps<void> {
  noteActivity(client.connection);
  const { terms: { method, messageBytes, headBytes = 0 }, region } = client;
  const responder = method === "read" ? undefined : METHOD_ROWS[method].responder;
  if (region === undefined || (responder !== "answers" && responder !== "flushes")) return;
  const { message: id, isHead } = partOfImmediate(immData);
  const from = isHead ? 0 : headBytes + id * messageBytes;
  const length = Math.min(isHead ? headBytes : messageBytes, region.length - from);
  if (length <= 0) {
    return yield* answer(server, client, { type: "refused", id, why: "bad-request" });
  }
  if (responder === "answers") return yield* answer(server, client, { type: "flushed", id });
  yield* flushMarked(server, client, { id, va: region.address + from, length });
}

type Open = Extract<PersistMessage, { type: "open-write" | "open-read" }>;

/** P-22. */
function* open(server: Server, client: Client, message: Open): Steps<void> {
  const { id, name } = message;
  yield* abandon(server, client);
  const opened = yield* objectFor(server, client, message);
  if (typeof opened === "string") {
    return yield* answer(server, client, { type: "refused", id, why: opened });
  }
  const { object, withdrawn } = opened;
  const { offset, length } = object;
  const { scm } = server.cpu;
  if (message.type === "open-write") {
    const alone = message.alone === true || Object.hasOwn(server.directory!.regions, name);
    yield* dropOthers(server, { address: scm.address + offset, length, name, alone }, client);
  }
  if (client.region !== undefined) yield* deregMr(client.region);
  const method = message.type === "open-read" ? "read" : client.terms.method;
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
    ...(withdrawn && { withdrawn }),
    ...(method === "read" && object.state === "incomplete" && { incomplete: true }),
    ...(method === "send-read" && { ring: { ...recvPlace, generation: object.generation } }),
  });
  client.serving = { object: object.name, workPs: server.cpu.workPs };
}

interface Opened {
  readonly object: ScmObject;
  readonly withdrawn?: true;
}

function* objectFor(
  server: Server,
  client: Client,
  message: Open,
): Steps<Opened | Extract<PersistMessage, { type: "refused" }>["why"]> {
  const { name } = message;
  const directory = server.directory!;
  if (message.type === "open-read") {
    const object = findObject(directory, name);
    if (object === undefined) return "not-found";
    return object.state === "incomplete" && message.partial !== true ? "incomplete" : { object };
  }
  const { length, alone, replaces } = message;
  if (length === 0) return "no-space";
  const opened = replaces
    ? yield* replacementFor(server, client, { name, length })
    : yield* createdFor(server, { name, length, ...(alone && { keeps: KEPT_BYTES }) });
  // A requester that is gone may hold space.
  if (opened === undefined) yield* probe(server);
  return opened ?? "no-space";
}

function* createdFor(
  { cpu, directory }: Server,
  wanted: Parameters<typeof createObject>[2],
): Steps<Opened | undefined> {
  const object = yield* createObject(cpu, directory!, wanted);
  return object && { object };
}

/**
 * The new object lies beside the old one. Where there is no room for both, the old one is removed
 * first, so a failure leaves neither, never a mixture.
 */
function* replacementFor(
  server: Server,
  client: Client,
  { name, length }: Pick<Replacement, "name" | "length">,
): Steps<Opened | undefined> {
  const { cpu } = server;
  const directory = server.directory!;
  const wanted = () => ({ name, length, inUse: spansInUse(server, client) });
  let entry = yield* reserveReplacement(cpu, directory, wanted());
  let withdrawn = false;
  const old = directory.entries.get(name);
  if (entry === undefined && old !== undefined && hasRoomWithout(directory, old, wanted())) {
    withdrawn = true;
    yield* dropOthers(server, placeOf(directory, old), client);
    if (cpu.auditing) {
      const { offset: at } = old;
      cpu.note({ kind: "object", state: "withdrawn", name, at, length: old.length });
    }
    yield* withdrawObject(cpu, directory, name);
    entry = yield* reserveReplacement(cpu, directory, wanted());
  }
  if (entry === undefined) return undefined;
  client.replacement = entry;
  return { object: entry, ...(withdrawn && { withdrawn }) };
}

/** A replaced object may still be read. */
function spansInUse({ clients, cpu }: Server, client: Client) {
  return [...clients.values()].flatMap(({ region }) =>
    region === undefined || region === client.region
      ? []
      : [{ offset: region.address - cpu.scm.address, length: region.length }]
  );
}

function placeOf({ scm }: ScmDirectory, { offset, length }: ScmObject) {
  return { address: scm.address + offset, length };
}

/**
 * Answers when the object is persistent. From then on the requester cannot write it; requesters
 * that write the old object in place are disconnected.
 */
function* publish(
  server: Server,
  client: Client,
  message: Extract<PersistMessage, { type: "publish" }>,
): Steps<void> {
  const { cpu } = server;
  const { id, complete } = message;
  const directory = server.directory!;
  const entry: Entry | undefined = client.replacement;
  if (entry === undefined || client.region === undefined) {
    return yield* answer(server, client, { type: "refused", id, why: "bad-request" });
  }
  reportServed(server, client);
  yield* deregMr(client.region);
  client.region = undefined;
  client.replacement = undefined;
  const old = directory.entries.get(entry.name);
  if (old !== undefined && old !== entry) {
    yield* dropOthers(server, { ...placeOf(directory, old), readersStay: true }, client);
  }
  const state = complete ? "complete" : "incomplete";
  if (cpu.tracing) {
    const text = `makes ${entry.name} the object of its name, ${state}: ${entry.length} B`;
    cpu.trace({ step: "publish", text, ...keysOf(client, id) });
  }
  yield* publishReplacement(cpu, directory, { entry, state });
  yield* answer(server, client, message);
}

/** Answers when the removal is persistent. Readers may continue, writers are disconnected. */
function* remove(
  server: Server,
  client: Client,
  message: Extract<PersistMessage, { type: "remove" }>,
): Steps<void> {
  const { cpu } = server;
  const { id, name } = message;
  const directory = server.directory!;
  yield* probe(server);
  const object = findObject(directory, name);
  // A region exists also without an object.
  if (object === undefined || object.generation === 0) {
    return yield* answer(server, client, { type: "refused", id, why: "not-found" });
  }
  yield* dropOthers(server, { ...placeOf(directory, object), readersStay: true }, client);
  if (cpu.tracing) {
    const text = `removes ${name} from the directory: ${object.length} B`;
    cpu.trace({ step: "remove", text, ...keysOf(client, id) });
  }
  yield* withdrawObject(cpu, directory, name);
  yield* answer(server, client, message);
}

function* list(
  server: Server,
  client: Client,
  message: Extract<PersistMessage, { type: "list" }>,
): Steps<void> {
  yield* probe(server);
  const all = listObjects(server.directory!);
  const objects: ListedObject[] = [];
  let bytes = HEADER_BYTES;
  let next = message.next;
  while (next < all.length && bytes + nameEntryBytes(all[next]!.name) <= NAMES_BYTES) {
    bytes += nameEntryBytes(all[next]!.name);
    const { name, length, state } = all[next]!;
    objects.push({ name, length, ...(state === "incomplete" && { incomplete: true }) });
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
  cpu: Cpu = server.cpu,
): Steps<void> {
  const { id, va, length } = message;
  if (client.gone) return;
  if (!inRegion(client, message)) {
    return yield* answer(server, client, { type: "refused", id, why: "bad-request" });
  }
  if (cpu.tracing) {
    const keys = keysOf(client, id), range = rangeText(message);
    cpu.trace({ step: "S319", text: `takes the RECV's CQE: ${range} to be persisted`, ...keys });
    cpu.trace({ step: "S320", text: `flushes ${range} from the LLC`, ...keys });
  }
  yield* cpu.flush(va, length);
  yield* answerFlushed(server, client, { id, step: "S321" }, cpu);
}

interface Arrived {
  readonly id: number;
  readonly va: number;
  readonly length: number;
  readonly at: number;
}

function inRegion(
  client: Client,
  range: { readonly va: number; readonly length: number },
): boolean {
  const { region } = client;
  return region !== undefined && (region.access & ACCESS.localWrite) !== 0 &&
    range.va >= region.address && range.length >= 0 &&
    range.va + range.length <= region.address + region.length;
}

/** P-51, general purpose mode: the SEND has the data. */
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
 * The word is written only when the range is persistent, so that no eviction can write it earlier.
 */
function* commit(
  server: Server,
  client: Client,
  message: Arrived & { readonly type: "commit" | "commit-data"; readonly then: Word },
  cpu: Cpu = server.cpu,
): Steps<void> {
  if (client.gone) return;
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
  const storing = { cpu, copy: server.copy };
  if (hasData) yield* storePersistent(storing, va, cpu.load(at, length));
  else yield* cpu.flush(va, length);
  // Of a worker: the requester may have been replaced meanwhile, and its object with it.
  if (client.gone) return;
  if (cpu.tracing) {
    const text = `stores ${rangeText(word)} and makes them persistent`;
    cpu.trace({ step: "commit-then", text, ...keys });
  }
  yield* storePersistent(storing, then.va, then.bytes);
  yield* answerFlushed(server, client, { id, step: "post-answer" }, cpu);
}

/** S321. */
function* answerFlushed(
  server: Server,
  client: Client,
  { id, step }: { readonly id: number; readonly step: string },
  cpu: Cpu = server.cpu,
): Steps<void> {
  const keys = keysOf(client, id);
  if (cpu.tracing) cpu.trace({ step, text: "posts SEND: flushed", wrId: id, ...keys });
  if (!client.gone) yield* answer(server, client, { type: "flushed", id }, cpu);
}

function keysOf({ connection: { qp, label } }: Client, operation: number) {
  return { qpn: qp.qpn, connection: label, operation };
}

function rangeText({ va, length }: { readonly va: number; readonly length: number }): string {
  return `${length} B at VA 0x${va.toString(16)}`;
}

function* answer(
  server: Server,
  client: Client,
  message: PersistMessage,
  cpu: Cpu = server.cpu,
): Steps<void> {
  const { memory, connection, sendMr } = client;
  const bytes = encodeMessage(message);
  const slot = client.nextSend;
  client.nextSend = (slot + 1) % memory.ring.slots;
  // Names have a buffer of their own, for one answer at a time.
  const offset = message.type === "names"
    ? memory.ring.slots * CONTROL_BYTES
    : slot * CONTROL_BYTES;
  cpu.store(sendMr.address + offset, bytes);
  const sges = [sge(sendMr, offset, bytes.length)];
  const sendFlags = flagsFor(bytes.length);
  const request = { opcode: "send", sendFlags, sges, wrId: message.id } as const;
  if (failed(yield* postSend(connection.qp, request))) {
    yield* dropClient(server, client);
  }
}

/**
 * Stores the message and records that, before its slot may be reused. An invalid message, or one
 * out of order, disconnects: the protocol has no error answer.
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
