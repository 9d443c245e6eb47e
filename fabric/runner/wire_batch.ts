/**
 * Events between partitions as they stand on the bus: one batch per span and peer.
 *
 *     [incarnation of the sender, number of the first event, [event, …]]
 *     event: [time, kind, source, counter, target, sourceLife, targetLife, port, tailPs | up, body, hash?]
 *
 * The body of a frame is its bytes as Wireshark reads them, and the hash is its own, which the digest takes up; the
 * body of a bus message is an array (`pcie_codec.ts`). What comes in is checked here; what does not fit is refused whole.
 */
import type { Input, Message } from "../node.ts";
import { type Event, EVENT_KINDS } from "../partition/event_queue.ts";
import { hashMessage } from "../partition/message_hash.ts";
import { pcieFromArray, pcieToArray } from "../wire/host_bus/pcie_codec.ts";

/** A number of events from one incarnation of one partition, in the order of sending. */
export interface WireBatch {
  readonly incarnation: number;
  /** Events sent to this peer before the first of these. */
  readonly first: number;
  readonly events: readonly Event[];
}

export function eventToRow(event: Event): unknown[] {
  const { input } = event;
  const row: unknown[] = [
    event.time,
    event.kind,
    event.source,
    event.counter,
    event.target,
    event.sourceLife,
    event.targetLife,
  ];
  if (input.kind === "message") row.push(input.port, input.tailPs, ...bodyOf(input.message));
  else if (input.kind === "link") row.push(input.port, input.up, null);
  return row;
}

function bodyOf(message: Message): unknown[] {
  if (message.kind === "frame") return [message.bytes, hashMessage(message)];
  return [pcieToArray(message)];
}

/** Reads a batch; undefined where it is none, or where any event in it is none. */
export function batchFromValue(value: unknown): WireBatch | undefined {
  if (!Array.isArray(value) || value.length !== 3) return undefined;
  const [incarnation, first, rows] = value as unknown[];
  if (!isCount(incarnation) || !isCount(first) || !Array.isArray(rows)) return undefined;
  const events: Event[] = [];
  for (const row of rows) {
    const event = eventFromRow(row);
    if (event === undefined) return undefined;
    events.push(event);
  }
  return { incarnation, first, events };
}

function eventFromRow(row: unknown): Event | undefined {
  if (!Array.isArray(row) || row.length < 10 || row.length > 11) return undefined;
  for (let i = 0; i < 8; i++) if (!isCount(row[i])) return undefined;
  const [time, kind, source, counter, target, sourceLife, targetLife, port, extra, ...body] = row;
  const input = inputFrom(kind, { port, extra, body });
  if (input === undefined) return undefined;
  return { time, kind, source, counter, target, sourceLife, targetLife, input };
}

function inputFrom(
  kind: number,
  { port, extra, body }: { port: number; extra: unknown; body: unknown[] },
): Input | undefined {
  if (kind === EVENT_KINDS.link) {
    return typeof extra === "boolean" ? { kind: "link", port, up: extra } : undefined;
  }
  if (kind !== EVENT_KINDS.message || !isCount(extra)) return undefined;
  const message = messageFrom(body);
  return message && { kind: "message", port, message, tailPs: extra };
}

function messageFrom([body, hash]: unknown[]): Message | undefined {
  if (!(body instanceof Uint8Array)) return hash === undefined ? pcieFromArray(body) : undefined;
  if (!isHash(hash)) return undefined;
  // cbor-x answers a view into the received payload, which has no other user.
  return { kind: "frame", bytes: body as Uint8Array<ArrayBuffer>, hash };
}

function isHash(value: unknown): value is number {
  return typeof value === "number" && (value | 0) === value;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
