/** `persistd`'s handlers of requests: open, list, flush, store. */
import { noteActivity } from "../../cm/connection.ts";
import { failed } from "../../verbs/device.ts";
import { deregMr, regMr } from "../../verbs/memory_region.ts";
import { flushRanges, persistRanges } from "../../verbs/persist_ranges.ts";
import { postSend } from "../../verbs/post.ts";
import type { Steps } from "../../cpu/program.ts";
import {
  accessFor,
  CONTROL_BYTES,
  decodeMessage,
  HEADER_BYTES,
  nameEntryBytes,
  NAMES_BYTES,
  type PersistMessage,
  type Terms,
} from "../common/persist_protocol.ts";
import { dropClient, dropOthers, reportServed } from "./persistd_client.ts";
import { ringPlace, takePendingMessage } from "./persistd_pending.ts";
import { answer, commit, inRegion, storeData } from "./persistd_store.ts";
import { wordTailBytes } from "../common/persist_tails.ts";
import { createObject, findObject, listObjects, type ScmObject } from "../common/scm_directory.ts";
import type { WorkCompletion } from "../../verbs/objects.ts";
import type { Buffer } from "../../memory/address_map.ts";
import type { Client, Server } from "./persistd_state.ts";

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
    const texts = ranges.map(({ va, length }) => `${length} B at VA 0x${va.toString(16)}`);
    const text = `takes the RECV's CQE, flushes ${texts.join(", ") || "nothing"}`;
    cpu.trace({ step: "S1008", text, ...step });
  }
  yield* flushRanges(cpu, ranges);
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

/** Address of a receive slot. */
function recvAt({ recvMr, memory }: Client, slot: number): number {
  return recvMr.address + slot * memory.recvBytes;
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

/**
 * Opens an object, registers its region with the access that the method needs, sends the region
 * (P-22).
 */
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
    ...(method === "send-read" && { ring: ringPlace(client, object) }),
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
