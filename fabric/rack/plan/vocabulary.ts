/** A scenario's words. Tests in `tests/` compare the implementations' lists with them. */
import type { OptionRow, ValueKind } from "./option_rows.ts";

/** How a program makes its data persistent; requirement numbers are persistence.md's. */
export const METHODS = [
  "write-only",
  /** P-10, P-51 (appliance): WRITE, then READ. */
  "write-read",
  /** P-51 (general purpose): the data in a SEND; the CPU stores and flushes it. */
  "send-flush",
  /** P-11: WRITE, then a SEND that makes the CPU flush. */
  "write-send",
  "write-flush",
  /** P-21: the write persistence operation code. */
  "persist-opcode",
  "persist-address",
  /** P-10, P-51: a SEND into receive buffers, then a READ: persistent if the buffers are. */
  "send-read",
  /** librpma's appliance mode: WRITE and READ posted together, one round trip. */
  "librpma-apm",
  /** An emulated FLUSH: a READ behind each WRITE, awaited before anything that must come after. */
  "emulated-flush",
  /** WRITE WITH IMMEDIATE: the CPU learns of it and answers, but flushes nothing. */
  "write-imm",
  "write-imm-flush",
  /** librpma's general purpose mode: WRITE and SEND posted together; the CPU flushes and answers. */
  "librpma-gpspm",
  /** The same, and worker threads flush and answer. */
  "write-send-workers",
] as const;

/** How `put` verifies that its data has arrived (V-01). */
export const VERIFY_METHODS = [
  /** V-10, the baseline: a WRITE, and a READ of all data, which the program compares. */
  "write-compare",
  "write-verify",
  "verify-persist",
  /** V-10: the persistent write, then a READ of all data. */
  "persist-compare",
] as const;

/** Of `put`; `all` denotes {@link METHODS}. */
export const PUT_METHODS = [...METHODS, ...VERIFY_METHODS] as const;
export type MethodName = typeof PUT_METHODS[number];

/** V-02: of a verified write's CRC. */
export const CRC_MAKERS = ["card", "program"] as const;

/** P-29: when a persistent write completes at its requester. */
export const POLICIES = ["persistence", "reception", "auto"] as const;

/** How `append` makes a compound update; all but the first are deliberately wrong. */
export const UPDATES = ["ordered", "pipelined", "one-flush", "tail-first"] as const;

/** Of `many-queues`. */
export const QUEUE_ORDERS = ["round-robin", "random", "zipf"] as const;
export const MANY_QUEUES_MAX = 65_536;

const MANY = Number.MAX_SAFE_INTEGER;

export const VALUE_KINDS = {
  "crc-maker": { type: "word", words: CRC_MAKERS },
  "policy": { type: "word", words: POLICIES },
  "update": { type: "word", words: UPDATES },
  "completion": { type: "word", words: ["poll", "interrupt"] },
  "order": { type: "word", words: QUEUE_ORDERS },
  "switch": { type: "switch" },
  "depth": { type: "whole", least: 1, most: 256 },
  "message-bytes": { type: "size", least: 8, most: 2 ** 20 },
  "bytes": { type: "size", least: 1, most: 2 ** 30 },
  "count": { type: "whole", least: 1, most: MANY },
  "whole": { type: "whole", least: 0, most: MANY },
} as const satisfies Readonly<Record<string, ValueKind>>;

export type OptionKind =
  | keyof typeof VALUE_KINDS
  | "host"
  | "hosts"
  | "method"
  | "put-method"
  | "verify-level"
  | "queue-pairs"
  | "microseconds"
  | "object"
  | "text";

export interface OptionWord {
  readonly kind: OptionKind;
  readonly required?: boolean;
  readonly as?: string;
}

const CLIENT = {
  completion: { kind: "completion" },
  attempts: { kind: "count" },
  pause: { kind: "microseconds", as: "pauseUs" },
  idle: { kind: "microseconds", as: "idleUs" },
} as const;

const TRANSFER = {
  depth: { kind: "depth", what: "messages outstanding" },
  size: { kind: "message-bytes", what: "bytes of a message" },
} as const satisfies Readonly<
  Record<string, { readonly kind: keyof typeof VALUE_KINDS; readonly what: string }>
>;

type Transfer = typeof TRANSFER;
export const TRANSFER_CHOICES = Object.fromEntries(
  Object.entries(TRANSFER).map(([name, { kind, what }]) => [name, { ...VALUE_KINDS[kind], what }]),
) as {
  readonly [Name in keyof Transfer]:
    & typeof VALUE_KINDS[Transfer[Name]["kind"]]
    & Pick<Transfer[Name], "what">;
};

export const CHOICES = {
  method: { type: "word", words: PUT_METHODS, what: "how programs make their data persistent" },
  ddio: {
    type: "word",
    words: ["on", "off"],
    label: "DDIO",
    what: "whether inbound DMA goes into the cache",
  },
  ...TRANSFER_CHOICES,
  seed: { ...VALUE_KINDS.whole, what: "of all that is drawn by chance" },
} as const satisfies Readonly<Record<string, OptionRow>>;

export const PROGRAMS: Readonly<Record<string, Readonly<Record<string, OptionWord>>>> = {
  put: {
    to: { kind: "host", required: true },
    file: { kind: "text" },
    bytes: { kind: "bytes" },
    name: { kind: "object" },
    method: { kind: "put-method" },
    policy: { kind: "policy" },
    level: { kind: "verify-level" },
    crc: { kind: "crc-maker" },
    rewrites: { kind: "count" },
    inline: { kind: "switch" },
    claims: { kind: "switch" },
    ...TRANSFER,
    ...CLIENT,
  },
  append: {
    to: { kind: "host", required: true },
    name: { kind: "object" },
    records: { kind: "count" },
    method: { kind: "method" },
    update: { kind: "update" },
    policy: { kind: "policy" },
    ...TRANSFER,
    ...CLIENT,
  },
  get: {
    from: { kind: "host", required: true },
    name: { kind: "object", required: true },
    partial: { kind: "switch" },
    ...TRANSFER,
    ...CLIENT,
  },
  list: { from: { kind: "host", required: true }, ...CLIENT },
  remove: {
    from: { kind: "host", required: true },
    name: { kind: "object", required: true },
    ...CLIENT,
  },
  log: {
    to: { kind: "hosts", required: true },
    quorum: { kind: "count" },
    file: { kind: "text" },
    bytes: { kind: "bytes" },
    name: { kind: "object" },
    record: { kind: "bytes" },
    anew: { kind: "switch" },
    method: { kind: "method" },
    depth: { kind: "depth" },
    patience: { kind: "microseconds", as: "patienceUs" },
    linger: { kind: "microseconds", as: "lingerUs" },
    ...CLIENT,
  },
  "log-read": {
    from: { kind: "hosts", required: true },
    quorum: { kind: "count" },
    name: { kind: "object" },
    record: { kind: "bytes" },
    ...CLIENT,
  },
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
    connection: { kind: "text" },
    bidirectional: { kind: "switch" },
    duration: { kind: "microseconds", as: "durationUs" },
    margin: { kind: "microseconds", as: "marginUs" },
    rxDepth: { kind: "count" },
    postList: { kind: "count" },
    cqModeration: { kind: "count" },
    inlineBytes: { kind: "whole" },
    outstanding: { kind: "count" },
    trafficClass: { kind: "whole" },
    hopLimit: { kind: "count" },
    timeout: { kind: "whole" },
    retryCount: { kind: "whole" },
    noPeak: { kind: "switch" },
    samples: { kind: "switch" },
  },
  "perftest-server": {},
  bulk: {
    to: { kind: "host", required: true },
    begin: { kind: "microseconds", as: "beginUs" },
    time: { kind: "microseconds", as: "timeUs" },
    scatter: { kind: "switch" },
    ...TRANSFER,
  },
  sink: { bytes: { kind: "bytes" } },
  /**
   * WRITEs over many queue pairs to a host with `many-queues-server`, and their cost for the
   * card.
   */
  "many-queues": {
    to: { kind: "host", required: true },
    qps: { kind: "queue-pairs" },
    messages: { kind: "count" },
    order: { kind: "order" },
    ...TRANSFER,
  },
  "many-queues-server": { bytes: { kind: "bytes" } },
};

/** Of every host without `services: none`. */
export const SERVICES = ["persistd"] as const;

/** What asks the service of each host that it names by `to` or `from`. */
const ASKING_PERSISTD = ["put", "get", "list", "remove", "append", "log", "log-read"];

/** Whether hosts that a program names have to have the service. */
export function asksService(run: string): boolean {
  return ASKING_PERSISTD.includes(run);
}

/** What a host without it is not, for refusals; @param why it has none. */
export function serviceExpected(host: string, why: string): string {
  return `a host with the service ${SERVICES[0]}, which ${host} has not${why}`;
}

export const SHUTDOWN = "shutdown";

/** P-41: promises that every run must keep, as `console/checks/all.ts` checks them. */
export const EXPECTATIONS = [
  "survives-what-was-reported",
  "completes-once-in-order",
  "frames-are-conserved",
  "silent-without-power",
  "durable-records-are-kept",
  "answers-in-order",
  "ports-keep-their-rate",
  "objects-are-whole",
  "loads-return-the-last-store",
  "single-writer-or-readers",
  "every-access-is-answered",
  "requests-are-served-in-turn",
  "shutdowns-end-in-time",
] as const;
export type ExpectationName = typeof EXPECTATIONS[number];
