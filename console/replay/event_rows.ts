import { EVENTS } from "../api/replay_terms.ts";
import type { TimedRecord } from "../../fabric/audit.ts";
import { matcherOf } from "../../fabric/trace/predicate.ts";
import { plainly } from "../reports/json.ts";
import { countBefore } from "./log_arrays.ts";
import type { Recording } from "./recording.ts";
import type {
  EventRow,
  Events,
  EventsQuery,
  FaultTick,
  FindQuery,
  OrderTick,
} from "../api/replay.ts";
import type { Time } from "../../fabric/base/time.ts";

export interface Ticks {
  readonly faults: readonly FaultTick[];
  readonly orders: readonly OrderTick[];
}

interface Placed {
  readonly order: number;
  readonly row: EventRow;
}

export function eventsAround(recording: Recording, ticks: Ticks, query: EventsQuery): Events {
  const { at, node, kinds, text } = query, { detailFrom, reached } = recording;
  const searched = text?.toLowerCase();
  const before = Math.min(EVENTS.most, query.before ?? EVENTS.usual),
    after = Math.min(EVENTS.most, query.after ?? EVENTS.usual);
  const isWanted = (row: EventRow) =>
    row.time >= detailFrom && (node === undefined || row.node === node) &&
    (kinds === undefined || kinds.includes(row.kind)) &&
    (searched === undefined || `${row.name} ${row.text}`.toLowerCase().includes(searched));
  const earlier: Placed[] = [], later: Placed[] = [], isWhole = text !== undefined;
  for (const source of sourcesOf(recording, ticks)) {
    const split = source.countBefore(at), common = { isWanted, isWhole };
    take(source, { ...common, from: split - 1, by: -1, most: before, into: earlier });
    take(source, { ...common, from: split, by: 1, most: after, into: later });
  }
  const inOrder = (x: Placed, y: Placed) => x.row.time - y.row.time || x.order - y.order;
  const first = chosen(earlier.sort(inOrder).reverse(), before, isWhole).reverse();
  const next = chosen(later.sort(inOrder), after, isWhole);
  return {
    rows: [...first, ...next].map(({ row }) => row),
    split: first.length,
    fromPs: earlier.length < before ? detailFrom : first[0]?.row.time ?? at,
    toPs: later.length < after
      ? reached
      : next.at(-1) === undefined
      ? at
      : next.at(-1)!.row.time + 1,
  };
}

/** @param isWhole with all rows of the last one's instant: a search goes on behind it. */
function chosen(placed: readonly Placed[], most: number, isWhole: boolean): Placed[] {
  const last = most === 0 ? undefined : placed[most - 1];
  return placed.filter(({ row }, i) =>
    i < most || (isWhole && last !== undefined && row.time === last.row.time)
  );
}

/** Counts steps in the order in which they happened, up to the one that is looked for. */
export class StepFinder {
  readonly #isMeant: ReturnType<typeof matcherOf>;
  readonly #to: Time;
  #left: number;

  constructor({ atPs = Infinity, ...predicate }: FindQuery) {
    this.#isMeant = matcherOf(predicate);
    this.#to = atPs;
    this.#left = predicate.count ?? 1;
  }

  findIn({ steps }: Recording, from: Time): EventRow | null {
    const end = steps.countBefore(this.#to);
    for (let i = steps.countBefore(from); i < end; i++) {
      const line = steps.at(i), { time, node, step: name, text } = line;
      if (!this.#isMeant(node, line) || --this.#left > 0) continue;
      return { time, node, kind: "step", name, text };
    }
    return null;
  }
}

interface Source {
  readonly length: number;
  countBefore(at: Time): number;
  at(index: number): Placed;
}

function take(
  source: Source,
  { from, by, most, isWhole, isWanted, into }: {
    readonly from: number;
    readonly by: 1 | -1;
    readonly most: number;
    readonly isWhole: boolean;
    readonly isWanted: (row: EventRow) => boolean;
    readonly into: Placed[];
  },
): void {
  let count = 0, last: Time | undefined;
  for (let i = from; i >= 0 && i < source.length && most > 0; i += by) {
    if (count >= most && !isWhole) break;
    const placed = source.at(i);
    if (count >= most && placed.row.time !== last) break;
    if (!isWanted(placed.row)) continue;
    into.push(placed);
    last = placed.row.time;
    count++;
  }
}

function sourcesOf(recording: Recording, { faults, orders }: Ticks): Source[] {
  const { steps, notes, reports, wire } = recording;
  return [
    {
      length: steps.length,
      countBefore: (at) => steps.countBefore(at),
      at(index) {
        const { time, node, step, text, order } = steps.at(index);
        return { order, row: { time, node, kind: "step", name: step, text } };
      },
    },
    sourceOf(notes, ({ order, ...record }) => ({ order, row: noteRow(record) })),
    sourceOf(reports, ({ time, node, topic, value, order }) => {
      return { order, row: { time, node, kind: "report", name: topic, text: textOfValue(value) } };
    }),
    sourceOf(faults.map((fault) => ({ ...fault, time: fault.at })), (fault) => {
      return { order: -1, row: faultRow(fault) };
    }),
    sourceOf(orders.map((order) => ({ ...order, time: order.at })), (order) => {
      const { at: time, host: node, program, options } = order;
      return {
        order: -1,
        row: { time, node, kind: "order", name: program, text: textOfValue(options) },
      };
    }),
    ...wire.directions.filter(({ plan }) => plan.kind === "network").map((direction): Source => ({
      length: direction.startPs.length,
      countBefore: (at) => direction.startPs.countBelow(at),
      at(index) {
        const head = wire.head(direction, index).toHex();
        const text = wire.text(direction, index);
        const frame = { cable: direction.cable, bytes: direction.bytes.at(index), head };
        const place = { time: direction.startPs.at(index), node: direction.from };
        const row = { ...place, kind: "frame-sent", name: "frame", text, frame } as const;
        return { order: direction.order.at(index), row };
      },
    })),
  ];
}

function sourceOf<Row extends { readonly time: Time }>(
  rows: readonly Row[],
  placed: (row: Row) => Placed,
): Source {
  return {
    length: rows.length,
    countBefore: (at) => countBefore(rows, at),
    at: (index) => placed(rows[index]!),
  };
}

function faultRow({ at, action, nodes, cable }: FaultTick): EventRow {
  const isPower = action === "kill" || action === "start";
  const ends = nodes.join(isPower ? ", " : "–");
  const text = isPower
    ? `${ends} ${action === "kill" ? "loses" : "gets"} power`
    : `${action} on the cable ${ends}`;
  return {
    ...{ time: at, node: nodes[0] ?? "", text },
    kind: cable === undefined ? "power" : "cable",
    name: action,
  };
}

function noteRow({ time, node, by, note }: TimedRecord): EventRow {
  return { time, node, kind: "note", name: note.kind, text: `${by}: ${noteText(note)}` };
}

function noteText(note: TimedRecord["note"]): string {
  switch (note.kind) {
    case "writes":
      return `write ${note.id}: ${note.bytes.length} B at 0x${note.at.toString(16)} of ${note.on}`;
    case "visible":
      return `write ${note.id} is visible`;
    case "persistent":
      return `write ${note.id} is ${note.promised ? "promised" : "claimed"} to be persistent`;
    case "posted":
      return `work request ${note.wrId} at ${note.wqe} of ${note.queue} queue ${note.qpn}`;
    case "completed":
      return `work request ${note.wrId} of ${note.queue} queue ${note.qpn}: ${note.status}`;
    case "moved":
      return `${note.queue} queue ${note.qpn} goes on in another ring`;
    case "emptied":
      return `${note.queue} ${note.qpn} is reset`;
    case "connects":
      return `queue pair ${note.qpn} expects PSN ${note.rqPsn} from now on`;
    case "resumed":
      return `send queue ${note.qpn} goes on`;
    case "log":
      return `${note.durable} records of log ${note.log} are durable`;
    case "object":
      return `object ${note.name} is ${note.state}`;
    case "freed":
      return `${note.length} B at 0x${note.at.toString(16)} are given back`;
    case "refused":
      return `no connection to ${note.to}: ${note.reason}`;
    case "operation":
      return `operation ${note.id}: ${note.call} of ${note.type} ${note.object} on ${note.on}`;
    case "operation-end":
      return `operation ${note.id} has ${note.failed === true ? "failed" : "ended"}`;
    case "region":
      return `region ${note.region} of ${note.home}, ${note.bytes} B`;
    case "access":
      return `${note.op} ${note.id}: ${note.length} B at 0x${
        note.offset.toString(16)
      } of ${note.region}`;
    case "buffered":
      return `store ${note.id} is in the buffer of core ${note.core}: ${note.length} B at 0x${
        note.offset.toString(16)
      } of ${note.region}`;
    case "store-fence":
      return `the store buffer of core ${note.core} is empty at a fence`;
    case "accessed":
      return `access ${note.id} is ${note.result}`;
    case "region-lost":
      return `${note.ranges.length} ranges of ${note.region} are lost`;
    case "line-state":
      return `line ${note.line} of ${note.region} is ${note.state} in the ${note.cache} cache`;
    case "line-turn":
      return `${note.request} of agent ${note.agent} for line ${note.line} of ${note.region} is ${note.step}`;
  }
}

const TEXT_MOST = 300;

/** JSON with bytes as their number; more than `most` characters are cut off with an ellipsis. */
export function textOfValue(value: unknown, most = TEXT_MOST): string {
  const text = JSON.stringify(value, (name, each) => {
    return each instanceof Uint8Array ? `${each.length} B` : plainly(name, each);
  }) ?? "";
  return text.length > most ? `${text.slice(0, most)}…` : text;
}
