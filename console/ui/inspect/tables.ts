/** A device's state as tables of texts, one shape for all of them: what a search looks through. */
import type { Device, Node, Why } from "../../api/rack.ts";
import type { DeviceState, ProgramState, QueueState } from "../../api/replay.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { bytes, count, counter, roughTime, sentence, time, wordsOfCounter } from "../figures.ts";

export interface Table {
  /** As one asks for it: `qps`. */
  readonly name: string;
  readonly title: string;
  readonly columns: readonly string[];
  /** Columns of figures, which stand on the right. */
  readonly figures: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** What stands in its place where it has no rows. */
  readonly none: string;
}

/** What is known of a device at one instant, of a rack that is up or by its replay. */
export interface Inspected {
  /** False: at 0, where devices have not booted. */
  readonly hasBegun?: boolean;
  readonly at: number;
  readonly hasPower: boolean;
  readonly counters: Readonly<Record<string, number>>;
  readonly rnic?: NonNullable<DeviceState["rnic"]> | undefined;
  readonly ports?: Device["ports"] | undefined;
  readonly queues?: readonly QueueState[] | undefined;
  readonly programs?: readonly Program[] | undefined;
}

interface Program extends Pick<ProgramState, "program" | "serves" | "waitsFor" | "since"> {
  readonly at?: string | undefined;
  readonly progress?: ProgramState["progress"] | undefined;
}

export const TABLE_NAMES = [
  "why",
  "programs",
  "queues",
  "qps",
  "regions",
  "ports",
  "warnings",
  "counters",
] as const;
export type TableName = typeof TABLE_NAMES[number];

/** Those that a device of the kind has. */
export function tablesOf({ kind }: Pick<Node, "kind">): readonly TableName[] {
  switch (kind) {
    case "host":
      return ["programs", "queues", "ports", "counters", "why"];
    case "rnic":
      return ["qps", "regions", "warnings", "ports", "counters", "why"];
    case "switch":
      return ["ports", "counters", "why"];
  }
}

const RIGHTS = Object.entries(ACCESS).map(([name, bit]) => [wordsOfCounter(name), bit] as const);

/** `local write, remote read`; each bit of it has a name, or its value. */
function rightsText(access: number): string {
  const named = RIGHTS.filter(([, bit]) => (access & bit) !== 0);
  const left = named.reduce((rest, [, bit]) => rest & ~bit, access) >>> 0;
  const words = [...named.map(([name]) => name), ...left === 0 ? [] : [`0x${left.toString(16)}`]];
  return words.join(", ") || "local read";
}

/** @param hosts by address, as a queue pair has its peer's. */
export function tableOf(
  name: TableName,
  { found, why, hosts }: {
    readonly found: Inspected;
    readonly why: Why | undefined;
    readonly hosts: ReadonlyMap<string, string>;
  },
): Table {
  switch (name) {
    case "why":
      return whyTable(why);
    case "programs":
      return {
        ...{ name, title: "Programs", figures: ["since"] },
        columns: ["program", "does", "waits for", "since", "line"],
        rows: (found.programs ?? []).map((each) => [
          each.program,
          each.serves
            ? "serves"
            : each.progress === undefined
            ? "works"
            : `${count(each.progress.done)} of ${count(each.progress.of)}`,
          each.waitsFor,
          time(each.since),
          each.at ?? "",
        ]),
        none: noneText(found, found.programs),
      };
    case "queues":
      return {
        ...{ name, title: "Queues, as its programs know them" },
        columns: ["queue", "number", "posted", "completed", "failed", "last"],
        figures: ["number", "posted", "completed", "failed"],
        rows: (found.queues ?? []).map((each) => [
          each.queue,
          String(each.qpn),
          ...[each.posted, each.completed, each.failed].map(count),
          each.lastStatus,
        ]),
        none: found.queues === undefined
          ? "The replay knows them, where time stands."
          : "None yet.",
      };
    case "qps":
      return {
        ...{ name, title: "Queue pairs" },
        columns: [
          ...["number", "type", "state", "peer", "next PSN", "unacknowledged", "expected PSN"],
          ...["outstanding", "unanswered", "retries", "RNR retries", "owes", "receives"],
        ],
        figures: [
          ...["number", "next PSN", "unacknowledged", "expected PSN", "outstanding", "unanswered"],
          ...["retries", "RNR retries", "owes", "receives"],
        ],
        rows: (found.rnic?.queuePairs ?? []).map((each) => [
          String(each.qpn),
          each.type.toUpperCase(),
          each.state.toUpperCase(),
          each.peer === undefined
            ? "–"
            : `${hosts.get(each.peer.address) ?? each.peer.address}:${each.peer.qpn}`,
          ...[each.nextPsn, each.unacknowledgedPsn, each.expectedPsn].map(String),
          ...[each.outstanding, each.unanswered, each.retriesLeft, each.rnrRetriesLeft].map(String),
          String(each.answersOwed),
          `${count(each.receivesFetched)}${
            each.receivesAwaited > 0 ? `, ${count(each.receivesAwaited)} awaited` : ""
          }`,
        ]),
        none: noneText(found, found.rnic),
      };
    case "regions":
      return {
        ...{ name, title: "Memory regions" },
        columns: ["key", "domain", "address", "size", "rights", "kind"],
        figures: ["key", "domain", "address", "size"],
        rows: (found.rnic?.regions ?? []).map((each) => [
          `0x${each.key.toString(16)}`,
          String(each.pd),
          `0x${each.va.toString(16)}`,
          bytes(each.bytes),
          rightsText(each.access),
          [each.isWindow ? "window" : "region", ...each.persistent ? ["persistent"] : []].join(
            ", ",
          ),
        ]),
        none: noneText(found, found.rnic),
      };
    case "warnings":
      return {
        ...{ name, title: "Requests that it has refused, sends that it has given up" },
        columns: ["at", "message"],
        figures: ["at"],
        rows: (found.rnic?.warnings ?? []).map(({ atPs, message }) => [time(atPs), message]),
        none: "None.",
      };
    case "ports":
      return portsTable(found);
    case "counters":
      return {
        ...{ name, title: "Counters since power-on" },
        columns: ["counter", "value", "name"],
        figures: ["value"],
        rows: Object.entries(found.counters).map(([key, value]) => [
          wordsOfCounter(key),
          counter(key, value),
          key,
        ]),
        none: "None.",
      };
  }
}

/** Of a table without rows. @param of what its rows are made of. */
function noneText({ hasBegun }: Inspected, of: unknown): string {
  return of === undefined && hasBegun !== false ? "They are being worked out." : "None.";
}

function portsTable({ ports, counters }: Inspected): Table {
  // A switch counts by port; of a past instant that is all that is known.
  const counted = Object.keys(counters).flatMap((name) =>
    /^port(\d+)\.sentFrames$/.exec(name)?.[1] ?? []
  ).map((port) => ({ port: Number(port), peer: "", up: undefined, busyUntilPs: 0 }));
  const of = (port: number, name: string) => counters[`port${port}.${name}`];
  const figure = (value: number | undefined, text: (value: number) => string) =>
    value === undefined ? "" : text(value);
  const rows = (ports ?? counted).map(({ port, peer, up, busyUntilPs }) => [
    String(port),
    peer,
    up === undefined ? "" : up ? "up" : "down",
    busyUntilPs === 0 ? "" : time(busyUntilPs),
    figure(of(port, "sentFrames"), count),
    figure(of(port, "sentBytes"), bytes),
    figure(of(port, "queuedBytes"), bytes),
  ]);
  // A card does not count by port.
  const known = ["port", "to", "link", "busy until", "sent frames", "sent", "waiting"]
    .map((title, i) => ({ title, i })).filter(({ i }) => i === 0 || rows.some((row) => row[i]));
  const columns = known.map(({ title }) => title);
  return {
    ...{ name: "ports", title: "Ports" },
    columns,
    figures: columns.filter((title) => title !== "to" && title !== "link"),
    rows: rows.map((row) => known.map(({ i }) => row[i]!)),
    none: "They are known of a rack that is up.",
  };
}

function whyTable(why: Why | undefined): Table {
  const waiting = why?.clock.waiting ?? [];
  return {
    ...{
      name: "why",
      title: why === undefined ? "Why time does not move" : sentence(why.clock.why),
    },
    columns: ["process", "state", "for", "next event", "last event", "waits for"],
    figures: ["for", "next event", "last event"],
    rows: waiting.map(({ partition, status, forMs, nextPs, nowPs, heldBy }) => [
      partition,
      status,
      `${(forMs / 1_000).toFixed(1)}\u202fs`,
      nextPs === null ? "none" : roughTime(nextPs),
      roughTime(nowPs),
      heldBy,
    ]),
    none: why === undefined ? "It is known of a rack that is up, at the present." : "None.",
  };
}

/** Rows in which each word of the search stands somewhere. */
export function fitting({ rows }: Table, search: string): readonly (readonly string[])[] {
  const words = search.toLowerCase().split(/\s+/).filter((word) => word !== "");
  return rows.filter((row) => {
    const text = row.join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}
