/**
 * The names that a scenario may use for what other folders hold: programs and their options, methods,
 * expectations. `tests/` holds these lists against the programs and the checkers themselves.
 */

/** How a program has its data made persistent; requirement numbers are persistence.md's. */
export const METHODS = [
  /** P-12: a plain WRITE, which promises nothing. */
  "write-only",
  /** P-10, P-51 (appliance): WRITE, then READ. */
  "write-read",
  /** P-51 (general purpose): the data in a SEND, the CPU stores and flushes it. */
  "send-flush",
  /** P-11: WRITE, then a SEND that has the CPU flush. */
  "write-send",
  /** P-50: WRITE and, behind it, the standard's FLUSH to persistence. */
  "write-flush",
  /** P-21: the write persistence operation code. */
  "persist-opcode",
  /** P-22: a WRITE into a region that persists. */
  "persist-address",
] as const;
export type MethodName = typeof METHODS[number];

/** P-29: when a persistent write completes at its requester. */
export const POLICIES = ["persistence", "reception", "auto"] as const;

/** What an option of a shipped program holds. `host` is another host's name, or `next`. */
export type OptionKind =
  | "host"
  | "method"
  | "policy"
  | "completion"
  | "switch"
  | "depth"
  | "message-bytes"
  | "bytes"
  | "count"
  | "microseconds"
  | "text";

/** An option as a scenario spells it: what it holds, and what the program calls it. */
export interface OptionWord {
  readonly kind: OptionKind;
  readonly required?: boolean;
  /** The program's own name for it, where it is another one. */
  readonly as?: string;
}

/** What every program has that talks to `persistd`. */
const CLIENT = {
  completion: { kind: "completion" },
  attempts: { kind: "count" },
  pause: { kind: "microseconds", as: "pauseUs" },
  idle: { kind: "microseconds", as: "idleUs" },
} as const;

/** Data in messages: bytes of each, and how many are outstanding. */
const TRANSFER = { depth: { kind: "depth" }, size: { kind: "message-bytes" } } as const;

/** Shipped programs, as `run:` names them, with their options. */
export const PROGRAMS: Readonly<Record<string, Readonly<Record<string, OptionWord>>>> = {
  /** Makes a file, or so many `bytes` of its own, persistent in another host's SCM under a name. */
  put: {
    to: { kind: "host", required: true },
    file: { kind: "text" },
    bytes: { kind: "bytes" },
    name: { kind: "text" },
    method: { kind: "method" },
    policy: { kind: "policy" },
    inline: { kind: "switch" },
    ...TRANSFER,
    ...CLIENT,
  },
  /** Fetches what was put under a name. */
  get: {
    from: { kind: "host", required: true },
    name: { kind: "text", required: true },
    ...TRANSFER,
    ...CLIENT,
  },
  /** Asks a host for the names it has. */
  list: { from: { kind: "host", required: true }, ...CLIENT },
  /** A latency or bandwidth test under its name in perftest, against a host with `perftest-server`. */
  perftest: {
    to: { kind: "host", required: true },
    test: { kind: "text", required: true },
    size: { kind: "bytes" },
    all: { kind: "switch" },
    iterations: { kind: "count" },
    depth: { kind: "count" },
    qps: { kind: "count" },
    mtu: { kind: "count" },
    memory: { kind: "text" },
    atomic: { kind: "text" },
    completion: { kind: "completion" },
  },
  "perftest-server": {},
  /** WRITEs for a while, into the buffer of a host with `sink`. */
  bulk: {
    to: { kind: "host", required: true },
    begin: { kind: "microseconds", as: "beginUs" },
    time: { kind: "microseconds", as: "timeUs" },
    ...TRANSFER,
  },
  sink: { bytes: { kind: "bytes" } },
};

/** What runs on every host unless it says `services: none`. */
export const SERVICES = ["persistd"] as const;

/** Promises that a run can be held to; the first part of P-41. */
export const EXPECTATIONS = ["survives-what-was-reported"] as const;
export type ExpectationName = typeof EXPECTATIONS[number];
