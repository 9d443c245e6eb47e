/**
 * Finds the calls of a program whose `yield*` is missing: `cpu.sleep(1000);` makes a generator and
 * begins nothing. Own programs see watched tables of functions; the shipped ones import theirs.
 */
import { siteIn } from "./wait_site.ts";

/**
 * A function's calls that have a stack each, counted anew after one that has not begun when the next is made. A stack
 * costs some 4 µs, as much as a few events; a loop whose every call has begun is taken to go on so.
 */
const STACKS = 256;

/** What the calls of one function share. */
interface Watched {
  readonly name: string;
  calls: number;
  stacksLeft: number;
}

export class CallWatch {
  /** The last call that was made; most have begun when the next is made. */
  #last: WatchedCall | undefined;
  /** Earlier calls that had not begun when the next was made; now and then without those that have. */
  #pending: WatchedCall[] = [];
  #pendingMost = STACKS;

  /** The same table, whose functions' generators are watched until they begin. */
  watched<T extends object>(table: T): T {
    const made: Record<string, unknown> = {};
    for (const [key, { get, value }] of propertiesOf(table)) {
      if (get !== undefined) Object.defineProperty(made, key, { get: () => get.call(table) });
      else made[key] = typeof value === "function" ? this.#watch(key, table, value) : value;
    }
    return made as T;
  }

  #watch(name: string, table: object, call: (...args: unknown[]) => unknown): typeof call {
    const watched: Watched = { name, calls: 0, stacksLeft: STACKS };
    return (...args) => {
      const result = call.apply(table, args);
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
    return `${[...calls].join(", ")} did nothing: found no yield* in front of it`;
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

function textOf({ watched: { name }, number, made }: WatchedCall): string {
  if (made === undefined) return `call ${number} of ${name}`;
  const { line } = siteIn(made.stack ?? "");
  return line === undefined ? name : `${name} at ${line}`;
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
