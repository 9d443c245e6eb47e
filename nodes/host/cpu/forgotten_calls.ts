/**
 * Finds the calls of a program whose `yield*` is missing: `cpu.sleep(1000);` makes a generator and
 * begins nothing. Own programs see watched tables of functions; the shipped ones import theirs.
 */
import { siteIn } from "./wait_site.ts";

interface Call {
  readonly name: string;
  /** Its stack is made into text only where the call was forgotten. */
  readonly made: Error;
}

export class CallWatch {
  readonly #pending = new Map<object, Call>();

  /** The same table, whose functions' generators are watched until they begin. */
  watched<T extends object>(table: T): T {
    const made: Record<string, unknown> = {};
    for (const [key, { get, value }] of propertiesOf(table)) {
      if (get !== undefined) Object.defineProperty(made, key, { get: () => get.call(table) });
      else made[key] = typeof value === "function" ? this.#watch(key, value.bind(table)) : value;
    }
    return made as T;
  }

  #watch(name: string, call: (...args: unknown[]) => unknown): typeof call {
    return (...args) => {
      const result = call(...args);
      if (!isGenerator(result)) return result;
      this.#pending.set(result, { name, made: new Error() });
      const begin = (): Generator => {
        this.#pending.delete(result);
        delete (result as Partial<Generator>).next;
        return result;
      };
      return Object.defineProperties(result, {
        [Symbol.iterator]: { value: begin },
        next: { value: (wake: unknown) => begin().next(wake), configurable: true },
      });
    };
  }

  /** The calls that did nothing so far, in one sentence; undefined without any. */
  forgotten(): string | undefined {
    const calls = [...this.#pending.values()].map(({ name, made }) => {
      const { line } = siteIn(made.stack ?? "");
      return line === undefined ? name : `${name} at ${line}`;
    });
    if (calls.length === 0) return undefined;
    return `${calls.join(", ")} did nothing: found no yield* in front of it`;
  }
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
    Object.prototype.toString.call(value) === "[object Generator]";
}
