/**
 * Watches the calls of own programs, which get watched tables of functions; shipped programs import
 * theirs. Arguments are checked by the tables' {@link CheckCall}s. Calls whose `yield*` is missing
 * are found: `cpu.sleep(1000);` makes a generator and begins nothing.
 */
import { siteIn } from "./wait_site.ts";

/**
 * Calls of a function that record a stack, counted anew when one is found that has not begun. A
 * stack costs some 4 µs; a loop whose calls have all begun is assumed to continue so.
 */
const STACKS = 256;

type Call = (...args: unknown[]) => unknown;

/** @returns undefined for a valid call; else a function to call instead, in the call's stack. */
export type CheckCall = (args: readonly unknown[]) => ((call: Call) => unknown) | undefined;

interface Watched {
  readonly name: string;
  calls: number;
  stacksLeft: number;
}

interface Checked {
  readonly table: object;
  readonly call: Call;
  readonly check: CheckCall | undefined;
}

export class CallWatch {
  readonly #stacks: number;
  /** Most calls have begun when the next is made. */
  #last: WatchedCall | undefined;
  #pending: WatchedCall[] = [];
  #pendingMost = STACKS;

  constructor(stacks: number = STACKS) {
    this.#stacks = stacks;
  }

  /** Generators are watched until they begin. @param checks of arguments, by function. */
  watched<T extends object>(table: T, checks: Readonly<Record<string, CheckCall>> = {}): T {
    const made: Record<string, unknown> = {};
    for (const [key, { get, value }] of propertiesOf(table)) {
      if (get !== undefined || typeof value !== "function") {
        Object.defineProperty(made, key, { get: () => Reflect.get(table, key), enumerable: true });
      } else made[key] = this.#watch(key, { table, call: value, check: checks[key] });
    }
    return made as T;
  }

  #watch(name: string, { table, call, check }: Checked): Call {
    const watched: Watched = { name, calls: 0, stacksLeft: this.#stacks };
    return (...args) => {
      const refuse = check?.(args);
      const result = refuse === undefined
        ? call.apply(table, args)
        : refuse((...others) => call.apply(table, others));
      return isGenerator(result) ? this.#noted(result, watched) : result;
    };
  }

  #noted(steps: Generator, watched: Watched): WatchedCall {
    if (this.#last?.hasBegun === false) this.#suspect(this.#last);
    watched.calls++;
    const made = watched.stacksLeft > 0 ? new Error() : undefined;
    if (made !== undefined) watched.stacksLeft--;
    this.#last = new WatchedCall(steps, { watched, number: watched.calls, made });
    return this.#last;
  }

  #suspect(call: WatchedCall): void {
    call.watched.stacksLeft = STACKS;
    if (this.#pending.length >= this.#pendingMost) {
      this.#pending = this.#pending.filter(isForgotten);
      this.#pendingMost = Math.max(STACKS, 2 * this.#pending.length);
    }
    this.#pending.push(call);
  }

  forgotten(): string | undefined {
    const last = this.#last === undefined ? [] : [this.#last];
    const calls = new Set([...this.#pending, ...last].filter(isForgotten).map(textOf));
    if (calls.size === 0) return undefined;
    const were = calls.size === 1 ? "was" : "were";
    return `${[...calls].join(", ")} ${were} not awaited: write yield* in front of it`;
  }
}

/** Stands for a generator until it begins: `yield*` gets the generator itself. */
class WatchedCall {
  readonly watched: Watched;
  readonly number: number;
  /** Becomes text only for a forgotten call. */
  readonly made: Error | undefined;
  hasBegun = false;
  readonly #steps: Generator;

  constructor(steps: Generator, call: Pick<WatchedCall, "watched" | "number" | "made">) {
    this.#steps = steps;
    this.watched = call.watched;
    this.number = call.number;
    this.made = call.made;
  }

  [Symbol.iterator](): Generator {
    this.hasBegun = true;
    return this.#steps;
  }

  next(wake: unknown): IteratorResult<unknown> {
    return this[Symbol.iterator]().next(wake);
  }

  throw(error: unknown): IteratorResult<unknown> {
    return this.#steps.throw(error);
  }

  return(value: unknown): IteratorResult<unknown> {
    return this.#steps.return(value);
  }
}

const GENERATOR: object = Object.getPrototypeOf(function* () {}).prototype;
Object.setPrototypeOf(WatchedCall.prototype, GENERATOR);

function isForgotten({ hasBegun }: WatchedCall): boolean {
  return !hasBegun;
}

function textOf({ watched: { name }, number, made }: WatchedCall): string {
  if (made === undefined) return `call ${number} of ${name}`;
  const { line } = siteIn(made.stack ?? "");
  return line === undefined ? `the call of ${name}` : `the call of ${name} at ${line}`;
}

/** @returns undefined for other values than steps. */
export function notAwaited(value: unknown): string | undefined {
  if (!isGenerator(value)) return undefined;
  const call = value instanceof WatchedCall ? textOf(value) : "a call";
  return `${call}, which was not awaited (write yield* in front of it)`;
}

function propertiesOf(table: object): [string, PropertyDescriptor][] {
  const prototype = Object.getPrototypeOf(table);
  const inherited = prototype === Object.prototype
    ? []
    : Object.entries(Object.getOwnPropertyDescriptors(prototype));
  const own = Object.entries(Object.getOwnPropertyDescriptors(table));
  return [...inherited, ...own].filter(([key]) => key !== "constructor");
}

function isGenerator(value: unknown): value is Generator {
  return typeof value === "object" && value !== null &&
    Object.prototype.isPrototypeOf.call(GENERATOR, value);
}
