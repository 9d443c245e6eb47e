/**
 * A user's own protocol: rows that replace rows of the three tables. The file's names are checked when it
 * is loaded, and its rows' answers at each use, so that an error is reported by its table, state and event
 * and not by its consequences in the rack.
 *
 * States and messages are the protocol's: a row may be changed, added for a pair without one, or removed
 * (`null`).
 */
import { isMapping } from "../base/mapping.ts";
import { nearest, showFound } from "../rack/plan/problem.ts";
import { FAR_EVENTS, type FarEvent, type FarRow, type FarState } from "./far_card_table.ts";
import {
  DEMANDS,
  HOME_EVENTS,
  type HomeEvent,
  type HomeLine,
  type HomeMove,
  type HomePhase,
  type HomeRow,
  type HomeSend,
  type HomeState,
} from "./home_card_table.ts";
import {
  HOST_EVENTS,
  type HostEvent,
  type HostLine,
  type HostMove,
  type HostPhase,
  type HostRow,
} from "./host_agent_table.ts";
import { BUS_MESSAGES, type BusKind } from "../wire/host_bus/region_messages.ts";
import { type Data, LOST, type WireKind } from "../wire/roce/coherence_messages.ts";
import { TABLES, type Tables } from "./tables.ts";

/** Rows of a table by state and event; `null` removes a row. */
export type OwnRows<State extends string, Event extends string, Row> = {
  readonly [S in State]?: { readonly [E in Event]?: Row | null };
};

/** The default export of a protocol's file: rows that replace the tables'. */
export interface CoherenceProtocol {
  /** FC: of far cards, and of home's local cache. */
  readonly far?: OwnRows<FarState, FarEvent, FarRow>;
  /** HC: of the home card's directory. */
  readonly home?: OwnRows<HomeState, HomeEvent, HomeRow>;
  /** HA: of the host agent. */
  readonly host?: OwnRows<HostPhase, HostEvent, HostRow>;
}

/** A row of the user's protocol with an answer that no row may give. */
class WrongRow extends Error {
  override readonly name = "WrongRow";
}

const EVENTS = { far: FAR_EVENTS, home: HOME_EVENTS, host: HOST_EVENTS } as const;
type TableName = keyof typeof EVENTS;
const TABLE_NAMES = Object.keys(EVENTS) as TableName[];

/** Names of the user's rows: `home idle owned: GetS`, in the order of the file. */
export function rowNames(protocol: CoherenceProtocol): string[] {
  return Object.entries(protocol).flatMap(([table, states]) =>
    Object.entries(states as object).flatMap(([state, rows]) =>
      Object.keys(rows as object).map((event) => `${table} ${state}: ${event}`)
    )
  );
}

/**
 * Checks a file's default export.
 * @throws TypeError with each invalid table, state, event or row, and the valid ones.
 */
export function checkProtocol(found: unknown): asserts found is CoherenceProtocol {
  const problems = [...problemsOf(found)];
  if (problems.length === 0 && rowNames(found as CoherenceProtocol).length === 0) {
    problems.push("its default export has no row, expected one or more");
  }
  if (problems.length > 0) throw new TypeError(problems.join("; "));
}

/** The tables with these rows in them. */
export function tablesWith(protocol: CoherenceProtocol): Tables {
  return {
    far: merged(TABLES.far, protocol.far, (row) => row),
    home: merged(TABLES.home, protocol.home, checkedHomeRow),
    host: merged(TABLES.host, protocol.host, checkedHostRow),
  };
}

function merged<State extends string, Event extends string, Row>(
  table: Readonly<Record<State, Readonly<Partial<Record<Event, Row>>>>>,
  own: OwnRows<State, Event, Row> | undefined,
  checked: (row: Row, name: string, event: Event) => Row,
): Record<State, Partial<Record<Event, Row>>> {
  const all: Record<State, Partial<Record<Event, Row>>> = { ...table };
  for (const [state, rows] of Object.entries(own ?? {}) as [State, Record<Event, Row | null>][]) {
    const its: Partial<Record<Event, Row>> = { ...table[state] };
    for (const [event, row] of Object.entries(rows) as [Event, Row | null][]) {
      if (row === null) delete its[event];
      else its[event] = checked(row, `${state}: ${event}`, event);
    }
    all[state] = its;
  }
  return all;
}

// ── what the file names ──────────────────────────────────────────────────────────────────────────

function* problemsOf(found: unknown): Generator<string> {
  if (!isMapping(found)) {
    yield `its default export is ${showFound(found)}, expected rows of ${listed(TABLE_NAMES)}`;
    return;
  }
  for (const [table, states] of Object.entries(found)) {
    if (!isOneOf(table, TABLE_NAMES)) {
      yield unknown(table, "table", TABLE_NAMES);
    } else if (!isMapping(states)) {
      yield `${table} is ${showFound(states)}, expected rows by state`;
    } else {
      yield* stateProblems(table, states);
    }
  }
}

function* stateProblems(table: TableName, states: Mapping): Generator<string> {
  const known = Object.keys(TABLES[table]);
  for (const [state, rows] of Object.entries(states)) {
    if (!known.includes(state)) {
      yield `${table}: ${unknown(state, "state", known)}`;
    } else if (!isMapping(rows)) {
      yield `${table} ${state} is ${showFound(rows)}, expected rows by message or event`;
    } else {
      for (const [event, row] of Object.entries(rows)) {
        const name = `${table} ${state}`;
        if (!isOneOf(event, EVENTS[table])) {
          yield `${name}: ${unknown(event, "message or event", EVENTS[table])}`;
        } else if (row !== null) {
          yield* rowProblems(table, row, `${name}: ${event}`);
        } else if (TABLES[table][state as never]?.[event as never] === undefined) {
          yield `${name}: ${event} is null, and the table has no such row to take out`;
        }
      }
    }
  }
}

function* rowProblems(table: TableName, row: unknown, name: string): Generator<string> {
  if (table !== "far") {
    if (typeof row !== "function") {
      yield `${name} is ${showFound(row)}, expected a function (line, message) or null`;
    }
    return;
  }
  if (!isMapping(row)) {
    yield `${name} is ${showFound(row)}, expected { next, send?, serves?, loses? } or null`;
    return;
  }
  const { next, send, serves, loses, ...rest } = row;
  const states = Object.keys(TABLES.far), up = UP;
  if (!isOneOf(next, states)) yield `${name}: next: ${unknown(next, "state", states)}`;
  if (send !== undefined && !isOneOf(send, up)) {
    yield `${name}: send: ${unknown(send, "message of a far card", up)}`;
  }
  for (const [key, flag] of Object.entries({ serves, loses })) {
    if (flag !== undefined && flag !== true) {
      yield `${name}: ${key} is ${showFound(flag)}, expected true, or none`;
    }
  }
  for (const key of Object.keys(rest)) {
    yield `${name}: ${unknown(key, "field", ["next", "send", "serves", "loses"])}`;
  }
}

/** Messages that a far card's row may send: requests that the tables have, and answers. */
const UP: readonly WireKind[] = [
  "GetS",
  "GetM",
  "Put",
  "Flush",
  "InvAck",
  "RecIData",
  "RecSData",
  "Complete",
  "Dirty",
];
/** Messages that a home card's row may send to a card. */
const DOWN: readonly WireKind[] = ["Inv", "RecI", "RecS", "DataS", "DataE", "WbAck", "FlushAck"];

function unknown(found: unknown, what: string, known: readonly string[]): string {
  const near = typeof found === "string" ? nearest(found, known) : undefined;
  const all = `one of ${known.join(", ")}`;
  const expected = near === undefined ? all : `"${near}" (${all})`;
  return `found ${showFound(found)}, which is no ${what}, expected ${expected}`;
}

function listed(words: readonly string[]): string {
  return `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

// ── what rows answer ─────────────────────────────────────────────────────────────────────────────

function checkedHomeRow(row: HomeRow, name: string, event: HomeEvent): HomeRow {
  const who = `home ${name}`;
  return (line, message) => {
    const own = frozenLine(line), its = Object.freeze({ ...message });
    const contents = [line.data, message.data];
    const move = homeMove(row(own, its), { who, contents });
    const again = homeMove(row(own, its), { who, contents });
    if (!isSameMove(move, again)) throw twoAnswers(who);
    const { phase, snoop } = move.line;
    const isSnoop = event === "SnpInv" || event === "SnpData";
    if (isSnoop && phase === "idle" && snoop !== null && !snoop.isServed) {
      throw wrong(who, "it defers the snoop of an idle line", "one that is served, or answered");
    }
    return move;
  };
}

function checkedHostRow(row: HostRow, name: string): HostRow {
  const who = `host ${name}`;
  return (line, message) => {
    const own = Object.freeze({ ...line }), its = Object.freeze({ ...message });
    const contents = [line.cached, line.memory, message.data];
    const move = hostMove(row(own, its), { who, contents });
    const again = hostMove(row(own, its), { who, contents });
    if (!isSameMove(move, again)) throw twoAnswers(who);
    return move;
  };
}

interface Checked {
  /** The row's owner, in messages. */
  readonly who: string;
  /** Content that the row has been given: it creates none. */
  readonly contents: readonly unknown[];
}

function homeMove(found: unknown, its: Checked): HomeMove {
  const { line, send, ...rest } = fieldsOf(found, its.who, "{ line, send? }");
  refuseRest(rest, its.who, "line and send");
  const sends = send === undefined ? [] : send;
  if (!Array.isArray(sends)) {
    throw wrong(its.who, `send is ${showFound(send)}`, "a list of messages");
  }
  return {
    line: homeLineOf(line, its),
    ...(send !== undefined && { send: sends.map((each) => homeSend(each, its)) }),
  };
}

function homeLineOf(found: unknown, its: Checked): HomeLine {
  const line = fieldsOf(found, its.who, "the line as it is from now on");
  const { right, sharers, owner, dirty, phase, serving, waiting, snoop, data, ...rest } = line;
  refuseRest(rest, its.who, "a line's fields alone");
  return {
    right: named(right, ["I", "S", "X"], { ...its, field: "line.right" }),
    sharers: whole(sharers, 0, { ...its, field: "line.sharers" }),
    owner: whole(owner, -1, { ...its, field: "line.owner" }),
    dirty: flag(dirty, { ...its, field: "line.dirty" }),
    phase: named<HomePhase>(phase, ["idle", "P0", "P1", "P2", "P3"], {
      ...its,
      field: "line.phase",
    }),
    serving: serving === null ? null : servingOf(serving, its),
    waiting: whole(waiting, 0, { ...its, field: "line.waiting" }),
    snoop: snoop === null ? null : snoopOf(snoop, its),
    data: content(data, { ...its, field: "line.data" }),
  };
}

function servingOf(found: unknown, its: Checked): NonNullable<HomeLine["serving"]> {
  const { kind, agent, life } = fieldsOf(found, its.who, "line.serving as { kind, agent, life }");
  return {
    kind: named(kind, DEMANDS, { ...its, field: "line.serving.kind" }),
    agent: whole(agent, -1, { ...its, field: "line.serving.agent" }),
    life: whole(life, 0, { ...its, field: "line.serving.life" }),
  };
}

function snoopOf(found: unknown, its: Checked): NonNullable<HomeLine["snoop"]> {
  const { kind, isServed } = fieldsOf(found, its.who, "line.snoop as { kind, isServed }");
  return {
    kind: named(kind, ["SnpInv", "SnpData"], { ...its, field: "line.snoop.kind" }),
    isServed: flag(isServed, { ...its, field: "line.snoop.isServed" }),
  };
}

const TO_HOST = (Object.keys(BUS_MESSAGES) as BusKind[]).filter((kind) =>
  ["request", "response"].includes(BUS_MESSAGES[kind].class)
);
const TO_CARD = (Object.keys(BUS_MESSAGES) as BusKind[]).filter((kind) =>
  ["grant", "snoop"].includes(BUS_MESSAGES[kind].class)
);

function homeSend(found: unknown, its: Checked): HomeSend {
  const { to, kind, data, life, ...rest } = fieldsOf(found, its.who, "a message of send");
  refuseRest(rest, its.who, "a message's to, kind, data and life");
  const of = content(data, { ...its, field: "send.data" });
  if (to === "bus") {
    return { to, kind: named(kind, TO_HOST, { ...its, field: "send.kind" }), data: of };
  }
  if (!Number.isInteger(to) || (to as number) < 0) {
    throw wrong(its.who, `send.to is ${showFound(to)}`, `"bus", or an agent's number from 0 on`);
  }
  return {
    to: to as number,
    kind: named(kind, DOWN, { ...its, field: "send.kind" }),
    data: of,
    ...(life !== undefined && { life: whole(life, 0, { ...its, field: "send.life" }) }),
  };
}

function hostMove(found: unknown, its: Checked): HostMove {
  const { line, send, serves, resumes, ...rest } = fieldsOf(
    found,
    its.who,
    "{ line, send?, serves?, resumes? }",
  );
  refuseRest(rest, its.who, "line, send, serves and resumes");
  for (const [key, value] of Object.entries({ serves, resumes })) {
    if (value !== undefined && value !== true) {
      throw wrong(its.who, `${key} is ${showFound(value)}`, "true, or none");
    }
  }
  return {
    line: hostLineOf(line, its),
    ...(send !== undefined && { send: named(send, TO_CARD, { ...its, field: "send" }) }),
    ...(serves === true && { serves }),
    ...(resumes === true && { resumes }),
  };
}

const QUEUED = ["RdData", "RdInvOwn", "BusFlush"] as const;

function hostLineOf(found: unknown, its: Checked): HostLine {
  const line = fieldsOf(found, its.who, "the line as it is from now on");
  const { phase, llc, cached, memory, queued, ...rest } = line;
  refuseRest(rest, its.who, "a line's fields alone");
  return {
    phase: named(phase, Object.keys(TABLES.host) as HostPhase[], { ...its, field: "line.phase" }),
    llc: named(llc, ["I", "S", "E", "M"], { ...its, field: "line.llc" }),
    cached: contentOf(cached, { ...its, field: "line.cached" }),
    memory: contentOf(memory, { ...its, field: "line.memory" }),
    queued: queued === null ? null : named(queued, QUEUED, { ...its, field: "line.queued" }),
  };
}

// ── values ───────────────────────────────────────────────────────────────────────────────────────

type Mapping = Readonly<Record<string, unknown>>;
interface Field extends Checked {
  readonly field: string;
}

function isOneOf<Word extends string>(value: unknown, words: readonly Word[]): value is Word {
  return (words as readonly unknown[]).includes(value);
}

function wrong(who: string, found: string, expected: string): WrongRow {
  return new WrongRow(`${who}: found that ${found}, expected ${expected}`);
}

function twoAnswers(who: string): WrongRow {
  const found = "it answers the same line and message differently the second time";
  return wrong(who, found, "a row that depends on nothing else");
}

function fieldsOf(found: unknown, who: string, expected: string): Mapping {
  if (isMapping(found)) return found;
  throw wrong(who, `it answers ${showFound(found)}`, expected);
}

function refuseRest(rest: Mapping, who: string, expected: string): void {
  const [key] = Object.keys(rest);
  if (key !== undefined) throw wrong(who, `it answers ${key}, too`, expected);
}

function named<Word extends string>(found: unknown, words: readonly Word[], its: Field): Word {
  if (isOneOf(found, words)) return found;
  const near = typeof found === "string" ? nearest(found, words) : undefined;
  const all = `one of ${words.join(", ")}`;
  throw wrong(
    its.who,
    `${its.field} is ${showFound(found)}`,
    near === undefined ? all : `"${near}" (${all})`,
  );
}

function whole(found: unknown, least: number, its: Field): number {
  if (Number.isSafeInteger(found) && (found as number) >= least) return found as number;
  throw wrong(its.who, `${its.field} is ${showFound(found)}`, `a whole number from ${least} on`);
}

function flag(found: unknown, its: Field): boolean {
  if (typeof found === "boolean") return found;
  throw wrong(its.who, `${its.field} is ${showFound(found)}`, "true or false");
}

function content(found: unknown, its: Field): Data | undefined {
  return found === undefined ? found : contentOf(found, its);
}

function contentOf(found: unknown, its: Field): Data {
  const isGiven = found !== undefined && its.contents.includes(found);
  if (found === LOST || isGiven) return found as Data;
  const expected = "content that the row was given: of its line, or of its message";
  throw wrong(its.who, `${its.field} is ${showFound(found)}`, expected);
}

/** A row must not change the line in place: other states of an exploration share the record. */
function frozenLine(line: HomeLine): HomeLine {
  const { serving, snoop } = line;
  return Object.freeze({
    ...line,
    serving: serving === null ? null : Object.freeze({ ...serving }),
    snoop: snoop === null ? null : Object.freeze({ ...snoop }),
  });
}

/** Content is compared by identity. */
function isSameMove(a: unknown, b: unknown): boolean {
  if (!isMapping(a) || !isMapping(b) || a instanceof Uint8Array) {
    if (!Array.isArray(a) || !Array.isArray(b)) return a === b;
    return a.length === b.length && a.every((each, at) => isSameMove(each, b[at]));
  }
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => isSameMove(a[key], b[key]));
}
