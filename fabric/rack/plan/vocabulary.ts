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
  /** P-10, P-51: a SEND into receive buffers, then a READ: persistent where those survive. */
  "send-read",
] as const;

/** How a program has it checked that its data has arrived (V-01); of a `put`, besides {@link METHODS}. */
export const VERIFY_METHODS = [
  /** V-10, the baseline: a WRITE and a READ of all of it, which the program compares. */
  "write-compare",
  /** V-01: a verified write. */
  "write-verify",
  /** V-09: one that is persistent, too. */
  "verify-persist",
  /** V-10, the baseline of that: the write that persists and a READ of all of it, which the program compares. */
  "persist-compare",
] as const;

/** What a `put` may do: {@link METHODS}, which `all` stands for, and {@link VERIFY_METHODS}. */
export const PUT_METHODS = [...METHODS, ...VERIFY_METHODS] as const;
export type MethodName = typeof PUT_METHODS[number];

/** V-02: who computes a verified write's CRC: the sender's card as the data leaves, or the program itself. */
export const CRC_MAKERS = ["card", "program"] as const;

/** P-29: when a persistent write completes at its requester. */
export const POLICIES = ["persistence", "reception", "auto"] as const;

/** How `append` makes a compound update; all but the first are wrong on purpose. */
export const UPDATES = ["ordered", "pipelined", "one-flush", "tail-first"] as const;

/**
 * What an option of a shipped program holds. `host` is another host's name, or `next`; `hosts` a list of
 * other hosts' names.
 */
export type OptionKind =
  | "host"
  | "hosts"
  | "method"
  | "put-method"
  | "verify-level"
  | "crc-maker"
  | "policy"
  | "update"
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
    method: { kind: "put-method" },
    policy: { kind: "policy" },
    level: { kind: "verify-level" },
    crc: { kind: "crc-maker" },
    rewrites: { kind: "count" },
    inline: { kind: "switch" },
    ...TRANSFER,
    ...CLIENT,
  },
  /** Appends records to a log in another host's SCM: each a record, then the tail that counts it. */
  append: {
    to: { kind: "host", required: true },
    name: { kind: "text" },
    records: { kind: "count" },
    method: { kind: "method" },
    update: { kind: "update" },
    policy: { kind: "policy" },
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
  /** Appends a file, or so many `bytes` of its own, record by record to a log that hosts keep together. */
  log: {
    to: { kind: "hosts", required: true },
    quorum: { kind: "count" },
    file: { kind: "text" },
    bytes: { kind: "bytes" },
    name: { kind: "text" },
    record: { kind: "bytes" },
    anew: { kind: "switch" },
    method: { kind: "method" },
    depth: { kind: "depth" },
    patience: { kind: "microseconds", as: "patienceUs" },
    linger: { kind: "microseconds", as: "lingerUs" },
    ...CLIENT,
  },
  /** Reads such a log back. */
  "log-read": {
    from: { kind: "hosts", required: true },
    quorum: { kind: "count" },
    name: { kind: "text" },
    record: { kind: "bytes" },
    ...CLIENT,
  },
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

/** Promises that every run is held to: the parts of P-41, as `console/checks/all.ts` checks them. */
export const EXPECTATIONS = [
  "survives-what-was-reported",
  "completes-once-in-order",
  "frames-are-conserved",
  "silent-without-power",
  "durable-records-are-kept",
  "answers-in-order",
  "ports-keep-their-rate",
] as const;
export type ExpectationName = typeof EXPECTATIONS[number];
