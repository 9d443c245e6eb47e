/** The effect of operations on objects: the sequential specification of each type that a program may note. */
import { isMapping } from "../../../fabric/base/mapping.ts";
import type { OperationRecord } from "../../../fabric/audit.ts";
import { showFound } from "../../../fabric/rack/plan/problem.ts";

/**
 * Plain data: of a register its value, of a counter a number, of a map an object, of log and queue
 * an array.
 */
export type State = unknown;

interface Call extends Pick<OperationRecord, "key" | "value"> {
  /** Undefined: the operation has not ended, or not with a result. */
  readonly result: unknown;
}

type Step = (state: State, call: Call) => State | undefined;

interface ObjectType {
  readonly initial: State;
  readonly calls: Readonly<Record<string, Step>>;
  /** Absent: any state may become any other. Keeps searches short. */
  readonly mayBecome?: (state: State, later: State) => boolean;
}

function reading(answer: (state: State, call: Call) => unknown): Step {
  return (state, call) => isResult(call, answer(state, call)) ? state : undefined;
}

function isResult({ result }: Call, answer: unknown): boolean {
  return result === undefined || keyOf(result) === keyOf(answer);
}

const TYPES: Readonly<Record<OperationRecord["type"], ObjectType>> = {
  register: {
    initial: null,
    calls: { write: (_, { value }) => value, read: reading((state) => state) },
  },
  counter: {
    initial: 0,
    calls: {
      add: (state, { value = 1 }) => (state as number) + (value as number),
      read: reading((state) => state),
    },
  },
  map: {
    initial: {},
    calls: {
      put: (state, { key = "", value }) => ({ ...state as object, [key]: value }),
      remove: (state, { key = "" }) => {
        const { [key]: _, ...rest } = state as Record<string, unknown>;
        return rest;
      },
      get: reading((state, { key = "" }) => (state as Record<string, unknown>)[key] ?? null),
    },
  },
  log: {
    initial: [],
    calls: {
      append: (state, { value }) => [...state as unknown[], value],
      read: reading((state) => state),
    },
    mayBecome: (state, later) => Array.isArray(later) && isPrefix(state as unknown[], later),
  },
  queue: {
    initial: [],
    calls: {
      enqueue: (state, { value }) => [...state as unknown[], value],
      dequeue: (state, call) => {
        const [head = null, ...rest] = state as unknown[];
        return isResult(call, head) ? rest : undefined;
      },
    },
  },
};

function isPrefix(log: readonly unknown[], later: readonly unknown[]): boolean {
  return log.length <= later.length &&
    log.every((value, i) => keyOf(value) === keyOf(later[i]));
}

/** False: calls of this type cannot lead from `state` to `later`. */
export function mayBecome(state: State, later: State, { type }: OperationRecord): boolean {
  return TYPES[type].mayBecome?.(state, later) ?? true;
}

/** Why the call is refused; undefined where it is not. */
export function refuseCall({ type, call }: OperationRecord): string | undefined {
  if (!Object.hasOwn(TYPES, type)) {
    return `found type ${showFound(type)}, expected ${Object.keys(TYPES).join(", ")}`;
  }
  const { calls } = TYPES[type];
  if (Object.hasOwn(calls, call)) return undefined;
  return `found call ${showFound(call)} of a ${type}, expected ${Object.keys(calls).join(", ")}`;
}

export function initialOf({ type, initial }: OperationRecord): State {
  return initial ?? TYPES[type].initial;
}

/** Undefined where the operation's result does not fit. */
export function after(
  state: State,
  { type, call, key, value }: OperationRecord,
  { result }: Pick<Call, "result">,
): State | undefined {
  const step = TYPES[type].calls[call]!;
  return step(state, { ...(key !== undefined && { key }), value, result });
}

/** Equal for equal data, whatever the order of keys. */
export function keyOf(data: unknown): string {
  return JSON.stringify(data, (_, value) => {
    if (typeof value === "bigint") return `${value}n`;
    if (!isMapping(value)) return value;
    return Object.fromEntries(Object.entries(value).sort(([x], [y]) => x < y ? -1 : 1));
  }) ?? "null";
}
