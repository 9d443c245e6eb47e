/**
 * Durable linearizability of what programs note as operations: after a power failure an object's recovered
 * state must be one that some order of its operations leaves. All that had ended are in the order; one that
 * was under way, or has failed, is in it or not; one that had ended before another began comes before it.
 */
import type { OperationRecord, TimedRecord } from "../../../fabric/audit.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { after, initialOf, keyOf, refuseCall, type State } from "./objects.ts";

/** An operation of an object, with its end if it had one. */
export interface NotedOperation {
  readonly call: OperationRecord;
  readonly beganAt: Time;
  /** Infinity: under way, or failed. */
  readonly endedAt: Time;
  readonly result: unknown;
  /** The program that noted it, and the places of begin and end among all notes: those of one are in their order. */
  readonly by: string;
  readonly begin: number;
  readonly end: number;
}

/** A noted object, and the host whose recovery answers for it. */
export interface NotedObject {
  readonly on: string;
  readonly object: string;
  readonly operations: readonly NotedOperation[];
}

/** States of the search after which it is given up. */
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

/** The calls that no object of their type has, in words, each once. */
export function wrongCalls({ on, object, operations }: NotedObject): readonly string[] {
  const found = operations.flatMap(({ call }) => refuseCall(call) ?? []);
  return [...new Set(found)].map((text) => `operations of ${object} on ${on}: ${text}`);
}

/** What is wrong with a recovered object, in words; undefined where some order leaves it so. */
export function wrongWith(
  { on, object, operations }: NotedObject,
  found: State,
): string | undefined {
  if (isLeftBy(operations, found)) return undefined;
  const ended = operations.filter(({ endedAt }) => endedAt !== Infinity).length;
  const open = operations.slice(-OPEN_SHOWN).filter(({ endedAt }) => endedAt === Infinity);
  const under = open.map(({ call }) => callText(call)).join(", ");
  const or = under === "" ? "" : `, with or without what was under way (${under}),`;
  return `${on} recovers ${object} as ${shortText(keyOf(found))}: no order of its ${ended} ended ` +
    `operations${or} leaves that`;
}

const OPEN_SHOWN = 4, TEXT_MAX = 80;

function shortText(text: string): string {
  return text.length <= TEXT_MAX ? text : `${text.slice(0, TEXT_MAX)}…`;
}

function callText({ call, key, value }: OperationRecord): string {
  const given = [key, value].filter((each) => each !== undefined).map((each) => keyOf(each));
  return shortText(`${call}(${given.join(", ")})`);
}

/** Whether one program has ended `earlier` at the instant at which it began the other one. */
function isJustBefore(earlier: NotedOperation, operation: NotedOperation): boolean {
  return earlier.endedAt === operation.beganAt && earlier.by === operation.by &&
    earlier.end < operation.begin;
}

/** @throws Error where so many are under way at once that no order is found in a bounded search. */
function isLeftBy(operations: readonly NotedOperation[], found: State): boolean {
  const sorted = operations.toSorted((x, y) => x.beganAt - y.beganAt);
  const wanted = keyOf(found);
  const known = new Set<string>();
  const start: State = sorted[0] === undefined ? null : initialOf(sorted[0].call);
  // Each entry: operations that are done (all before `first`, and `others`), and the state.
  const open: {
    readonly first: number;
    readonly others: readonly number[];
    readonly state: State;
  }[] = [
    { first: 0, others: [], state: start },
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
      if (left === undefined) continue;
      const done = [...others, i].sort((x, y) => x - y);
      let from = first;
      while (done[0] === from) {
        done.shift();
        from++;
      }
      const key = `${from} ${done} ${keyOf(left)}`;
      if (known.has(key)) continue;
      known.add(key);
      if (known.size > STATES_MAX) {
        throw new Error(
          `More than ${STATES_MAX} states of ${operation.call.object}: too many of its operations are under ` +
            "way at once to find an order of them",
        );
      }
      open.push({ first: from, others: done, state: left });
    }
  }
  return false;
}
