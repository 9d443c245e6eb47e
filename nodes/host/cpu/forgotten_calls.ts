/**
 * The calls of own programs, which see watched tables of functions; the shipped ones import theirs.
 * Arguments are checked by the tables' {@link CheckCall}s. Calls whose `yield*` is missing are found:
 * `cpu.sleep(1000);` makes a generator and begins nothing.
 */
import { siteIn } from "./wait_site.ts";

/**
 * A function's calls that have a stack each, counted anew after one that has not begun when the next is made. A stack
 * costs some 4 µs, as much as a few events; a loop whose every call has begun is taken to go on so.
 */
const STACKS = 256;

type Call = (...args: unknown[]) => unknown;

/**
 * Looks at the arguments of one call. @returns what is to be done instead of a call that cannot be made, undefined
 * for one that can; to be called at once, in the call's stack.
 */
export type CheckCall = (args: readonly unknown[]) => ((call: Call) => unknown) | undefined;

/** What the calls of one function share. */
interface Watched {
  readonly name: string;
  calls: number;
  stacksLeft: number;
}

/** A function of a table, and the check of its arguments. */
interface Checked {
  readonly table: object;
  readonly call: Call;
  readonly check: CheckCall | undefined;
}

export class CallWatch {
  readonly #stacks: number;
  /** The last call that was made; most have begun when the next is made. */
  #last: WatchedCall | undefined;
  /** Earlier calls that had not begun when the next was made; now and then without those that have. */
  #pending: WatchedCall[] = [];
  #pendingMost = STACKS;

  /** @param stacks of a function's calls that have one, before any is found that has not begun. */
  constructor(stacks: number = STACKS) {
    this.#stacks = stacks;
  }

  /**
   * The same table, whose functions' generators are watched until they begin.
   * @param checks of their arguments, by the functions' names.
   */
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

  /** The calls that did nothing so far, each place once, in one sentence; undefined without any. */
  forgotten(): string | undefined {
    const last = this.#last === undefined ? [] : [this.#last];
    const calls = new Set([...this.#pending, ...last].filter(isForgotten).map(textOf));
    if (calls.size === 0) return undefined;
    const were = calls.size === 1 ? "was" : "were";
    return `${[...calls].join(", ")} ${were} not awaited: write yield* in front of it`;
  }
}

/** Stands for a generator until that begins: `yield*` gets the generator itself. */
class WatchedCall {
  readonly watched: Watched;
  /** Which of the function's calls, from 1. */
  readonly number: number;
  /** Its stack is made into text only where the call was forgotten. */
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
// It has all else that a generator has, its name among it.
Object.setPrototypeOf(WatchedCall.prototype, GENERATOR);

function isForgotten({ hasBegun }: WatchedCall): boolean {
  return !hasBegun;
}

/** `the call of postSend at log.ts:12:5`. */
function textOf({ watched: { name }, number, made }: WatchedCall): string {
  if (made === undefined) return `call ${number} of ${name}`;
  const { line } = siteIn(made.stack ?? "");
  return line === undefined ? `the call of ${name}` : `the call of ${name} at ${line}`;
}

/** What is to be said of a value that is the steps of a call, and not their result; undefined of others. */
export function notAwaited(value: unknown): string | undefined {
  if (!isGenerator(value)) return undefined;
  const call = value instanceof WatchedCall ? textOf(value) : "a call";
  return `${call}, which was not awaited (write yield* in front of it)`;
}

/** The properties of an object and of its class. */
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
