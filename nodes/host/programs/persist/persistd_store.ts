/** Stores the data of SENDs, in the order that the requester needs, and sends answers. */
import { ACCESS } from "../../../../fabric/wire/host_bus/rnic_command.ts";
import { failed } from "../../verbs/device.ts";
import { postSend, sge } from "../../verbs/post.ts";
import type { Steps } from "../../cpu/program.ts";
import {
  CONTROL_BYTES,
  encodeMessage,
  HEADER_BYTES,
  type PersistMessage,
} from "../common/persist_protocol.ts";
import { storePersistent } from "./persistd_memory.ts";
import { dropClient } from "./persistd_client.ts";
import { type Word, wordTailBytes } from "../common/persist_tails.ts";
import type { Client, Server } from "./persistd_state.ts";

/** A message with a range, and the offset of its data in the receive buffer. */
interface Arrived {
  readonly id: number;
  readonly va: number;
  readonly length: number;
  readonly at: number;
}

/** Whether a requester's range is within the object that it has opened for writing. */
export function inRegion(
  client: Client,
  range: { readonly va: number; readonly length: number },
): boolean {
  const { region } = client;
  return region !== undefined && (region.access & ACCESS.localWrite) !== 0 &&
    range.va >= region.address && range.length >= 0 &&
    range.va + range.length <= region.address + region.length;
}

/** P-51, general purpose mode: the SEND itself contains the data. */
export function* storeData(
  server: Server,
  client: Client,
  message: Arrived,
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
  yield* storePersistent(server, va, data);
  if (cpu.tracing) {
    const { qp: { qpn }, label: connection } = client.connection;
    const keys = { qpn, connection, operation: id, wrId: id };
    cpu.trace({ step: "post-answer", text: "posts SEND: flushed", ...keys });
  }
  yield* answer(server, client, { type: "flushed", id });
}

/**
 * First the range, flushed or stored from the message's data; the word is written only when the
 * range is persistent, so that no eviction can write it to the medium earlier.
 */
export function* commit(
  server: Server,
  client: Client,
  message: Arrived & { readonly type: "commit" | "commit-data"; readonly then: Word },
): Steps<void> {
  const { cpu } = server;
  const { id, va, length, then, at } = message;
  const hasData = message.type === "commit-data";
  const room = client.memory.recvBytes - HEADER_BYTES - wordTailBytes(then.bytes.length);
  const word = { va: then.va, length: then.bytes.length };
  if (!inRegion(client, message) || !inRegion(client, word) || (hasData && length > room)) {
    return yield* answer(server, client, { type: "refused", id, why: "bad-request" });
  }
  const { qp: { qpn }, label: connection } = client.connection;
  const step = { qpn, connection, operation: id };
  const range = `${length} B at VA 0x${va.toString(16)}`;
  if (cpu.tracing) {
    cpu.trace({ step: "commit-first", text: `makes ${range} persistent`, ...step });
  }
  if (hasData) yield* storePersistent(server, va, cpu.load(at, length));
  else yield* cpu.flush(va, length);
  if (cpu.tracing) {
    const text = `stores ${word.length} B at VA 0x${
      then.va.toString(16)
    } and makes them persistent`;
    cpu.trace({ step: "commit-then", text, ...step });
  }
  yield* storePersistent(server, then.va, then.bytes);
  if (cpu.tracing) {
    cpu.trace({ step: "post-answer", text: "posts SEND: flushed", wrId: id, ...step });
  }
  yield* answer(server, client, { type: "flushed", id });
}

/** Sends an answer; disconnects a client to which it cannot be sent. */
export function* answer(
  server: Server,
  client: Client,
  message: PersistMessage,
): Steps<void> {
  const { memory, connection, sendMr } = client;
  const bytes = encodeMessage(message);
  const slot = client.nextSend;
  client.nextSend = (slot + 1) % memory.slots;
  // Names need more room than a slot has: one separate buffer, for one answer at a time.
  const offset = message.type === "names" ? memory.slots * CONTROL_BYTES : slot * CONTROL_BYTES;
  server.cpu.store(sendMr.address + offset, bytes);
  const sges = [sge(sendMr, offset, bytes.length)];
  if (failed(yield* postSend(connection.qp, { opcode: "send", sges, wrId: message.id }))) {
    yield* dropClient(server, client);
  }
}
