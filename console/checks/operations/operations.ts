/**
 * Durable linearizability: after a power failure an object's recovered state must be one that some
 * order of its operations leaves. All that had ended are in the order; one that was under way, or
 * has failed, is in it or not; one that had ended before another began comes before it.
 */
import { isMapping } from "../../../fabric/base/mapping.ts";
import type { OperationRecord, TimedRecord } from "../../../fabric/audit.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { countOf } from "../finding.ts";
import { after, initialOf, keyOf, mayBecome, refuseCall, type State } from "./objects.ts";

export interface NotedOperation {
  readonly call: OperationRecord;
  readonly beganAt: Time;
  /** Infinity: under way, or failed. */
  readonly endedAt: Time;
  readonly result: unknown;
  /** A program; `begin` and `end` are places among all notes. */
  readonly by: string;
  readonly begin: number;
  readonly end: number;
}

/** `on`: the host whose recovery answers for it. */
export interface NotedObject {
  readonly on: string;
  readonly object: string;
  readonly operations: readonly NotedOperation[];
}

const STATES_MAX = 100_000;

/** The objects of a run. @param at operations that begin later are left out. */
export function objectsIn(notes: readonly TimedRecord[], at = Infinity): NotedObject[] {
  const ends = new Map<string, Pick<NotedOperation, "endedAt" | "end" | "result">>();
  for (const [end, { time: endedAt, by, note }] of notes.entries()) {
    if (note.kind !== "operation-end" || note.failed === true) continue;
    ends.set(`${by} ${note.id}`, { endedAt, end, result: note.result });
  }
  const objects = new Map<string, NotedObject & { readonly operations: NotedOperation[] }>();
  for (const [begin, { time: beganAt, by, note: call }] of notes.entries()) {
    if (call.kind !== "operation" || beganAt > at) continue;
    const { on, object } = call;
    const key = JSON.stringify([on, object]);
    let known = objects.get(key);
    if (known === undefined) objects.set(key, known = { on, object, operations: [] });
    const ended = ends.get(`${by} ${call.id}`) ?? NOT_ENDED;
    known.operations.push({ call, beganAt, by, begin, ...ended });
  }
  return [...objects.values()];
}

const NOT_ENDED = { endedAt: Infinity, end: Infinity, result: undefined } as const;

/** Calls that no object of their type has, each once. */
export function wrongCalls({ on, object, operations }: NotedObject): readonly string[] {
  const found = operations.flatMap(({ call }) => refuseCall(call) ?? []);
  return [...new Set(found)].map((text) => `operations of ${object} on ${on}: ${text}`);
}

export interface ObjectVerdict {
  readonly wrong?: string;
  readonly unknown?: string;
}

/** Neither `wrong` nor `unknown` where some order of the operations leaves this state. */
export function judgeObject(
  { on, object, operations }: NotedObject,
  found: State,
): ObjectVerdict {
  const answers = partsOf(operations, found).map((part) => isLeftBy(part));
  if (answers.every((answer) => answer === true)) return {};
  const ended = operations.filter(({ endedAt }) => endedAt !== Infinity).length;
  const open = operations.slice(-OPEN_SHOWN).filter(({ endedAt }) => endedAt === Infinity);
  const what = `${on} recovers ${object} as ${shortText(keyOf(found))}`;
  if (answers.every((answer) => answer !== false)) {
    const under = countOf(operations.length - ended, "operation");
    const unknown = `${what}: whether its ${ended} ended operations and ${under} under way leave ` +
      `that is not known: more than ${STATES_MAX} states were tried`;
    return { unknown };
  }
  const under = open.map(({ call }) => callText(call)).join(", ");
  const or = under === "" ? "" : `, with or without what was under way (${under}),`;
  return { wrong: `${what}: no order of its ${ended} ended operations${or} leaves that` };
}

interface Part {
  readonly operations: readonly NotedOperation[];
  readonly initial: State;
  readonly found: State;
}

/**
 * A map is judged key by key, as orders of the operations of each key make one of all
 * (linearizability is local: Herlihy and Wing, TOPLAS 1990): 32 puts under way are 32 short
 * searches, not one of 2³² states.
 */
function partsOf(operations: readonly NotedOperation[], found: State): Part[] {
  const [first] = operations;
  const initial = first === undefined ? null : initialOf(first.call);
  const isSplit = first?.call.type === "map" && isMapping(found) && isMapping(initial) &&
    !haveCommonTurn(operations);
  if (!isSplit) return [{ operations, initial, found }];
  const byKey = Map.groupBy(operations, ({ call: { key = "" } }) => key);
  const keys = new Set([...byKey.keys(), ...Object.keys(found), ...Object.keys(initial)]);
  return Array.from(keys, (key) => ({
    operations: byKey.get(key) ?? [],
    initial: only(initial, key),
    found: only(found, key),
  }));
}

/**
 * Two programs each end an operation and begin another at one instant. Then the order of their
 * notes is no order of intervals in time, for which alone orders of each key make one of all.
 */
function haveCommonTurn(operations: readonly NotedOperation[]): boolean {
  const ends = new Set(operations.map(({ by, endedAt }) => `${endedAt} ${by}`));
  const turns = new Map<Time, string>();
  return operations.some(({ by, beganAt }) => {
    if (!ends.has(`${beganAt} ${by}`)) return false;
    const other = turns.get(beganAt);
    turns.set(beganAt, by);
    return other !== undefined && other !== by;
  });
}

function only(map: Readonly<Record<string, unknown>>, key: string): State {
  return Object.hasOwn(map, key) ? { [key]: map[key] } : {};
}

const OPEN_SHOWN = 4, TEXT_MAX = 80;

function shortText(text: string): string {
  return text.length <= TEXT_MAX ? text : `${text.slice(0, TEXT_MAX)}…`;
}

function callText({ call, key, value }: OperationRecord): string {
  const given = [key, value].filter((each) => each !== undefined).map((each) => keyOf(each));
  return shortText(`${call}(${given.join(", ")})`);
}

function isJustBefore(earlier: NotedOperation, operation: NotedOperation): boolean {
  return earlier.endedAt === operation.beganAt && earlier.by === operation.by &&
    earlier.end < operation.begin;
}

/** Undefined: the search was given up, as so many operations are under way at once. */
function isLeftBy({ operations, initial, found }: Part): boolean | undefined {
  const sorted = operations.toSorted((x, y) => x.beganAt - y.beganAt);
  const wanted = keyOf(found);
  const known = new Set<string>();
  // Done: all before `first`, and `others`.
  const open: {
    readonly first: number;
    readonly others: readonly number[];
    readonly state: State;
  }[] = [
    { first: 0, others: [], state: initial },
  ];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { first, others, state } = next;
    const rest = [...sorted.keys()].slice(first).filter((i) => !others.includes(i));
    const due = Math.min(Infinity, ...rest.map((i) => sorted[i]!.endedAt));
    if (due === Infinity && keyOf(state) === wanted) return true;
    for (const i of rest.toReversed()) {
      const operation = sorted[i]!;
      // Another one has ended before it began, and comes first.
      if (operation.beganAt > due) continue;
      if (operation.beganAt === due && rest.some((j) => isJustBefore(sorted[j]!, operation))) {
        continue;
      }
      const left = after(state, operation.call, operation);
      if (left === undefined || !mayBecome(left, found, operation.call)) continue;
      const done = [...others, i].sort((x, y) => x - y);
      let from = first;
      while (done[0] === from) {
        done.shift();
        from++;
      }
      const key = `${from} ${done} ${keyOf(left)}`;
      if (known.has(key)) continue;
      known.add(key);
      if (known.size > STATES_MAX) return undefined;
      open.push({ first: from, others: done, state: left });
    }
  }
  return false;
}
