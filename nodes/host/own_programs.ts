/**
 * A user's own program. Each life of each host has an instance, so that module variables are that host's however the
 * rack is packed into processes.
 *
 * Parameters take the place of globals by which a run would depend on the machine (clock, chance, files, network). Each
 * throws a sentence that names the replacement, with the same verdict in every packing; the process's permissions are
 * the actual lock.
 */
import { checkProtocol, type CoherenceProtocol } from "../../fabric/coherence/own_rows.ts";
import { watchedRecovery } from "./calls/watched_recovery.ts";
import type { Check, Recover } from "./recovery/protocol.ts";
import type { Program } from "./program_context.ts";

export interface OwnProgram {
  readonly program: Program;
  readonly recover?: Recover;
  readonly check?: Check;
  /** Its file may have rows and no program. */
  readonly rows?: CoherenceProtocol;
}

/** Each instance has its own module variables. @throws errors of its top level. */
export type MakeProgram = () => OwnProgram;

/** Default export of a bundled program (`console/rack/own/bundle.ts`): runs its top level. */
export type Instantiate = (
  module: { exports: Record<string, unknown> },
  exports: Record<string, unknown>,
  shadows: Readonly<Record<string, unknown>>,
) => void;

const WAITS = "a program waits with cpu.sleep, in virtual time";
const YIELDS = "a program is a function*, without async, and waits with yield*, in virtual time";
const CLOCK = "a program reads virtual time as cpu.now";
const CHANCE = "a program draws with cpu.random()";
const TALKS = "a program talks to other hosts by device.verbs";
const READS = "a program has its options and cpu.input";
const ENDS = "a program ends by its return";
const MEMORY = "a program does not depend on when memory is collected";

const INSTEAD: Readonly<Record<string, string>> = {
  setTimeout: WAITS,
  setInterval: WAITS,
  setImmediate: WAITS,
  queueMicrotask: WAITS,
  Promise: YIELDS,
  Date: CLOCK,
  performance: CLOCK,
  Temporal: CLOCK,
  crypto: CHANCE,
  // Their methods return promises.
  Blob: YIELDS,
  File: YIELDS,
  ReadableStream: YIELDS,
  WritableStream: YIELDS,
  TransformStream: YIELDS,
  CompressionStream: YIELDS,
  DecompressionStream: YIELDS,
  WebAssembly: YIELDS,
  addEventListener: WAITS,
  dispatchEvent: WAITS,
  reportError: WAITS,
  fetch: TALKS,
  Request: TALKS,
  Response: TALKS,
  Worker: TALKS,
  WebSocket: TALKS,
  EventSource: TALKS,
  BroadcastChannel: TALKS,
  MessageChannel: TALKS,
  AbortSignal: WAITS,
  Deno: READS,
  process: READS,
  require: READS,
  navigator: READS,
  localStorage: READS,
  sessionStorage: READS,
  caches: READS,
  prompt: READS,
  confirm: READS,
  alert: READS,
  close: ENDS,
  WeakRef: MEMORY,
  FinalizationRegistry: MEMORY,
};

export const SHADOWED: readonly string[] = [
  ...Object.keys(INSTEAD),
  "Math",
  "console",
  "globalThis",
  "global",
  "self",
  "window",
];

export function hasHooks(make: MakeProgram): boolean {
  const { recover, check } = make();
  return recover !== undefined || check !== undefined;
}

export interface Surroundings {
  readonly globals: object;
  readonly print: (...values: unknown[]) => void;
}

/**
 * Must be called before any program is loaded: a program could replace a function that is called here, and so get the
 * real globals.
 * @param globals the process's. @param print receives values of `console.log` and its like.
 */
export function surroundings(
  globals: object,
  print: (...values: unknown[]) => void,
): Surroundings {
  const { get } = Reflect;
  const made: object = Object.create(null);
  for (const name of Object.getOwnPropertyNames(globals)) {
    if (SHADOWED.includes(name)) continue;
    Object.defineProperty(made, name, { get: () => get(globals, name) });
  }
  return { globals: made, print };
}

export function makerOf(instantiate: Instantiate, around: Surroundings): MakeProgram {
  return () => {
    const module: { exports: Record<string, unknown> } = { exports: {} };
    instantiate(module, module.exports, shadowsIn(around));
    const { default: program, recover, check } = Object(module.exports);
    if (typeof program === "object" && program !== null) {
      checkProtocol(program);
      return { program: noProgram, rows: program };
    }
    if (typeof program !== "function") {
      const expected = "expected a program, or rows of the coherent cards' protocol";
      throw new TypeError(`it has no default export that is a function: ${expected}`);
    }
    return {
      program: program as Program,
      ...(recover !== undefined &&
        { recover: watchedRecovery(hook("recover", recover) as Recover) }),
      ...(check !== undefined && { check: hook("check", check) as Check }),
    };
  };
}

// deno-lint-ignore require-yield -- it has the type of a program, and is never one
function* noProgram(): Generator<never, never> {
  throw new TypeError("its default export is rows of a protocol: expected a program");
}

function hook(name: string, value: unknown): unknown {
  if (typeof value === "function") return value;
  throw new TypeError(`it exports ${name} as a ${typeof value}: expected a function`);
}

const REFUSED = Object.fromEntries(
  Object.entries(INSTEAD).map(([name, instead]) => [name, refusing(name, instead)]),
);

function refusing(name: string, instead: string): unknown {
  function refuse(): never {
    throw new TypeError(`found ${name}: ${instead}`);
  }
  return new Proxy(refuse, {
    get: (_, key) => key === Symbol.hasInstance ? () => false : refuse(),
    set: refuse,
    has: refuse,
    apply: refuse,
    construct: refuse,
    ownKeys: refuse,
    getOwnPropertyDescriptor: refuse,
    defineProperty: refuse,
    deleteProperty: refuse,
  });
}

function shadowsIn({ globals, print }: Surroundings): Readonly<Record<string, unknown>> {
  const shadows: Record<string, unknown> = {
    ...REFUSED,
    Math: Object.defineProperties({}, {
      ...Object.getOwnPropertyDescriptors(Math),
      random: { value: refusing("Math.random", CHANCE) },
    }),
    console: new Proxy({}, { get: () => print }),
  };
  // Each instance has its own: other hosts do not see a program's additions.
  const world: object = Object.create(globals);
  const all = { ...shadows, globalThis: world, global: world, self: world, window: world };
  Object.defineProperties(world, Object.getOwnPropertyDescriptors(all));
  return all;
}
