/**
 * Events between partitions on the bus: one batch per span and peer.
 *
 *     [incarnation of the sender, number of the first event, [event, …]]
 *     event: [time, kind, source, counter, target, sourceLife, targetLife, port, tailPs | up, body, hash | null]
 *
 * A frame's body is its bytes as Wireshark reads them; `hash` is for the digest. A bus message's
 * body is an array (`pcie_codec.ts`), without a hash; a link event's is null. An invalid batch is
 * refused whole.
 */
import { assert } from "../base/assert.ts";
import type { Input, Message } from "../node.ts";
import { type Format, type RowReader, type RowWriter, sealedBytesOf } from "../bus/row_codec.ts";
import { type Event, EVENT_KINDS } from "../partition/event_queue.ts";
import { hashMessage } from "../partition/message_hash.ts";
import { pcieFromArray, pcieToArray } from "../wire/host_bus/pcie_codec.ts";

export interface WireBatch {
  readonly incarnation: number;
  /** Events sent to this peer before the first of these. */
  readonly first: number;
  readonly events: readonly Event[];
}

const EVENT_FIELDS = 11;

const BATCH: Format<WireBatch> = {
  write(out, { incarnation, first, events }) {
    out.array(3);
    out.number(incarnation);
    out.number(first);
    out.array(events.length);
    for (const event of events) writeEvent(out, event);
  },
  read(row) {
    row.arrayOf(3);
    const incarnation = row.count(), first = row.count(), length = row.array();
    const events: Event[] = [];
    for (let i = 0; i < length && !row.isBad; i++) events.push(readEvent(row));
    return { incarnation, first, events };
  },
};

export const { toBytes: batchToBytes, fromBytes: batchFromBytes } = sealedBytesOf(BATCH);

function writeEvent(out: RowWriter, event: Event): void {
  const { input } = event;
  assert(
    input.kind === "message" || input.kind === "link",
    `Cannot send a ${input.kind} on a wire`,
  );
  out.array(EVENT_FIELDS);
  out.number(event.time);
  out.number(event.kind);
  out.number(event.source);
  out.number(event.counter);
  out.number(event.target);
  out.number(event.sourceLife);
  out.number(event.targetLife);
  out.number(input.port);
  if (input.kind === "link") {
    out.flag(input.up);
    out.nothing();
    out.nothing();
    return;
  }
  const { message, tailPs } = input;
  out.number(tailPs);
  if (message.kind === "frame") {
    out.bytes(message.bytes);
    out.number(hashMessage(message));
  } else {
    out.plain(pcieToArray(message));
    out.nothing();
  }
}

function readEvent(row: RowReader): Event {
  row.arrayOf(EVENT_FIELDS);
  const time = row.count(), kind = row.count(), source = row.count(), counter = row.count();
  const target = row.count(), sourceLife = row.count(), targetLife = row.count();
  const input = readInput(row, kind);
  return { time, kind, source, counter, target, sourceLife, targetLife, input };
}

function readInput(row: RowReader, kind: number): Input {
  const port = row.count();
  if (kind === EVENT_KINDS.link) {
    const up = row.flag();
    if (!row.nothing() || !row.nothing()) row.bad();
    return { kind: "link", port, up };
  }
  if (kind !== EVENT_KINDS.message) row.bad();
  const tailPs = row.count(), message = readMessage(row);
  if (message === undefined) row.bad();
  return { kind: "message", port, message: message!, tailPs };
}

function readMessage(row: RowReader): Message | undefined {
  const body = row.plain();
  if (!(body instanceof Uint8Array)) return row.nothing() ? pcieFromArray(body) : undefined;
  const hash = row.number();
  // A view of the received payload, which has no other user.
  const bytes = body as Uint8Array<ArrayBuffer>;
  return (hash | 0) === hash ? { kind: "frame", bytes, hash } : undefined;
}
