/**
 * The shape of a scenario file, section by section. A message of these schemas says what was expected
 * and nothing else: `scenario.ts` puts file, line, path and what was found in front. What needs a look
 * at more than one value is in `checks.ts`.
 */
import { z } from "zod";
import type { HostTiming, RnicTiming } from "../plan/plan.ts";
import { PS_PER_US, type Time } from "../../base/time.ts";
import { listOf, nearest } from "../plan/problem.ts";
import { PROFILE_NAMES, PROFILES } from "../plan/profile.ts";
import { VERIFY_LEVELS } from "../../wire/roce/verify_eth.ts";
import { formatSize, parseDuration, parseRate, parseSize } from "../plan/units.ts";
import {
  CRC_MAKERS,
  EXPECTATIONS,
  type MethodName,
  METHODS,
  type OptionKind,
  POLICIES,
  PUT_METHODS,
  SERVICES,
  UPDATES,
} from "../plan/vocabulary.ts";

/** A single value. `parse` answers undefined where the value is not what was `expected`. */
export function leaf<T>(expected: string, parse: (value: unknown) => T | undefined) {
  return z.unknown().transform((value, context): T => {
    const parsed = parse(value);
    if (parsed !== undefined) return parsed;
    context.addIssue({ code: "custom", message: expected });
    return z.NEVER;
  });
}

export function oneOf<const T extends string>(words: readonly T[]) {
  return leaf(listOf(words), (value) => words.find((word) => word === value));
}

/** A name out of a list too long to print whole where a near one exists. */
function nameOf<const T extends string>(words: readonly T[]) {
  return z.unknown().transform((value, context): T => {
    const found = words.find((word) => word === value);
    if (found !== undefined) return found;
    const near = typeof value === "string" ? nearest(value, words) : undefined;
    context.addIssue({ code: "custom", message: near ?? listOf(words) });
    return z.NEVER;
  });
}

export function integer(least: number, most: number) {
  return leaf(
    most === Number.MAX_SAFE_INTEGER
      ? `a whole number ≥ ${least}`
      : `a whole number from ${least} to ${most}`,
    (value) => Number.isSafeInteger(value) ? within(value as number, least, most) : undefined,
  );
}

export function parsePositiveDuration(value: unknown): Time | undefined {
  const ps = parseDuration(value);
  return ps === 0 ? undefined : ps;
}

function within(value: number | undefined, least: number, most: number): number | undefined {
  return value !== undefined && value >= least && value <= most ? value : undefined;
}

export function size(least: number, most: number, step = 1) {
  const steps = step === 1 ? "" : ` in steps of ${formatSize(step)}`;
  return leaf(
    `a size from ${formatSize(least)} to ${formatSize(most)}${steps}, like 64MiB`,
    (value) => {
      const bytes = within(parseSize(value), least, most);
      return bytes === undefined || bytes % step !== 0 ? undefined : bytes;
    },
  );
}

const duration = leaf("a time with its unit, like 300ns", parseDuration);
const latency = leaf(
  "a latency > 0 with its unit, like 300ns: it is the lookahead of the clock",
  parsePositiveDuration,
);
const rate = leaf(
  "a rate > 0 with its unit, like 100Gbps",
  (value) => within(parseRate(value), 1, 1e13),
);
export const text = leaf(
  "a text",
  (value) => typeof value === "string" && value !== "" ? value : undefined,
);

/** `on` for all defaults, `off` for null, or a mapping. */
function switchable<const Shape extends z.ZodRawShape>(shape: Shape) {
  return z.preprocess(
    (value) => value === "on" ? {} : value === "off" ? null : value,
    mapping(shape, "on, off or ").nullable(),
  );
}

/** Keys of a mapping in the message of its schema, so that a wrong one can be told from them. */
const KEYS = "keys:";

/** A mapping that has no other keys; `or` names what else may stand there. */
export function mapping<const Shape extends z.ZodRawShape>(shape: Shape, or = "") {
  const keys = Object.keys(shape);
  const expected = `${or}a mapping with ${listOf(keys.slice(0, 4))}${keys.length > 4 ? " …" : ""}`;
  const error = (issue: { readonly code: string }) =>
    issue.code === "unrecognized_keys" ? `${KEYS}${keys.join(" ")}` : expected;
  return z.strictObject(shape, { error });
}

/** The keys that a mapping has, from the message of its issue about one that it has not. */
export function knownKeys(message: string): readonly string[] {
  return message.startsWith(KEYS) ? message.slice(KEYS.length).split(" ") : [];
}

const KIB = 2 ** 10, MIB = 2 ** 20, GIB = 2 ** 30, PAGE = 4096;

/**
 * `receivePs` is `receive` in a scenario, `iioBitsPerSecond` is `iioRate`: units are written with the
 * value. Counts and sizes keep their names.
 */
function timingName(field: string): string {
  return field.replace(/Ps$/, "").replace(/BitsPerSecond$/, "Rate");
}

const { host, rnic } = PROFILES["clx-optane-cx5"];
const HOST_TIMING_FIELDS = Object.keys(host) as (keyof HostTiming)[];
const RNIC_TIMING_FIELDS = Object.keys(rnic) as (keyof RnicTiming)[];

function timing<Field extends keyof HostTiming | keyof RnicTiming>(fields: readonly Field[]) {
  const shape: Record<string, z.ZodType<number | undefined>> = {};
  for (const field of fields) {
    const schema = field.endsWith("Ps")
      ? duration
      : field.endsWith("BitsPerSecond")
      ? rate
      : field.endsWith("Bytes")
      ? size(64, MIB, 8)
      : integer(1, PAGE);
    shape[timingName(field)] = schema.optional();
  }
  return mapping(shape).transform((values): Partial<Record<Field, number>> => {
    const given: Partial<Record<Field, number>> = {};
    for (const field of fields) {
      const value = values[timingName(field)];
      if (value !== undefined) given[field] = value;
    }
    return given;
  });
}

const region = mapping({ at: size(0, 64 * GIB, 64), size: size(64, 64 * GIB, 64) });
const scmSize = size(0, 64 * GIB, PAGE);
const scmMapping = mapping({
  size: scmSize.optional(),
  regions: z.record(z.string(), region, { error: "a mapping of names to regions" }).optional(),
});

/** `99.9%`, in successes per million: whole numbers, as something is decided by them (V-05). */
const successRate = leaf("a share below 100%, like 99.9%", (value) => {
  const match = typeof value === "string"
    ? /^(\d{1,2})(?:\.(\d{1,4}))? ?%$/.exec(value.trim())
    : null;
  return match === null ? undefined : Number(match[1]! + (match[2] ?? "").padEnd(4, "0"));
});

/** A host's options; `defaults` has the same for all hosts. */
export const hostSchema = mapping({
  ddio: oneOf(["on", "off", "both"]).optional(),
  architecture: oneOf(["ddio", "ddio+ns"]).optional(),
  domain: oneOf(["adr", "eadr", "wsp"]).optional(),
  receive: oneOf(["dram", "scm"]).optional(),
  scm: scmMapping.optional(),
  dram: size(MIB, 64 * GIB, PAGE).optional(),
  cores: integer(1, 64).optional(),
  completion: oneOf(["poll", "interrupt"]).optional(),
  queues: integer(8, 2 ** 18).optional(),
  llc: mapping({
    size: size(4 * KIB, GIB).optional(),
    ways: integer(1, 64).optional(),
    ddioWays: integer(1, 64).optional(),
    evict: oneOf(["lru", "random"]).optional(),
  }).optional(),
  queueCache: mapping({
    entries: integer(1, 2 ** 18).optional(),
    evict: oneOf(["oldest", "several-oldest", "older-than", "random"]).optional(),
    count: integer(1, 2 ** 18).optional(),
    age: duration.optional(),
  }).optional(),
  verifyHistory: switchable({
    threshold: successRate.optional(),
    samples: integer(1, 65_536).optional(),
    sample: integer(1, 1_000_000).optional(),
  }).optional(),
  services: oneOf([...SERVICES, "none"]).optional(),
  leaf: integer(1, 64).optional(),
  timing: mapping({
    host: timing(HOST_TIMING_FIELDS).optional(),
    rnic: timing(RNIC_TIMING_FIELDS).optional(),
  }).optional(),
});
export type HostSection = z.infer<typeof hostSchema>;

const probability = leaf(
  "a number from 0 to 1",
  (value) => typeof value === "number" ? within(value, 0, 1) : undefined,
);

export const fabricSchema = mapping({
  topology: oneOf(["star", "direct", "leaf-spine"]).optional(),
  leaves: integer(1, 64).optional(),
  spines: integer(1, 64).optional(),
  cables: integer(1, 16).optional(),
  convergence: duration.optional(),
  rate: rate.optional(),
  latency: latency.optional(),
  mtu: leaf(
    "256, 512, 1024, 2048 or 4096",
    (value) => ([256, 512, 1024, 2048, 4096] as const).find((mtu) => mtu === value),
  ).optional(),
  switch: mapping({
    mode: oneOf(["cut-through", "store-and-forward"]).optional(),
    latency: latency.optional(),
    queue: size(0, GIB).optional(),
    buffer: size(0, GIB).optional(),
  }).optional(),
  ecn: switchable({
    kmin: size(0, GIB).optional(),
    kmax: size(0, GIB).optional(),
    pmax: probability.optional(),
  }).optional(),
  pfc: switchable({ xoff: size(0, GIB).optional(), xon: size(0, GIB).optional() }).optional(),
  dcqcn: switchable({
    g: probability.optional(),
    cnpInterval: duration.optional(),
    alphaTimer: latency.optional(),
    rateTimer: latency.optional(),
    byteCounter: size(1, GIB).optional(),
    fastRecovery: integer(1, 100).optional(),
    additive: rate.optional(),
    hyper: rate.optional(),
    minRate: rate.optional(),
    decreaseInterval: duration.optional(),
  }).optional(),
  priorities: mapping({
    dscp: integer(0, 63).optional(),
    cnp: integer(0, 63).optional(),
    lossless: z.array(integer(0, 7), { error: "a list of priorities from 0 to 7" }).optional(),
  }).optional(),
  bus: mapping({ latency: latency.optional(), rate: rate.optional() }).optional(),
});
export type FabricSection = z.infer<typeof fabricSchema>;

/** Letters, digits and '-': a name becomes part of a subject, of a file name and of a process name. */
export const NAME_PATTERN = /^[A-Za-z0-9][A-Za-z0-9-]{0,39}$/;
export const NAME_EXPECTED = "a name of letters, digits and '-', at most 40";
const name = leaf(
  NAME_EXPECTED,
  (value) => typeof value === "string" && NAME_PATTERN.test(value) ? value : undefined,
);
const hostNames = leaf("a host's name, a list of them, or all", (value) => {
  if (typeof value === "string") return [value];
  const isList = Array.isArray(value) && value.length > 0;
  return isList && value.every((each) => typeof each === "string") ? value as string[] : undefined;
});

/** One method, several, or all, which are those that persist: always a list of at least one. */
const methodsOf = (names: readonly MethodName[]) =>
  z.unknown().transform((value, context): readonly MethodName[] => {
    const method = nameOf(names);
    if (value === "all") return METHODS;
    const list: readonly unknown[] = Array.isArray(value) ? value : [value];
    if (list.length === 0 || new Set(list).size < list.length) {
      context.addIssue({ code: "custom", message: "a method, a list of different ones, or all" });
      return z.NEVER;
    }
    return list.map((each, i) => {
      const parsed = method.safeParse(each);
      if (parsed.success) return parsed.data;
      const path = Array.isArray(value) ? [i] : [];
      context.addIssue({ code: "custom", message: parsed.error.issues[0]!.message, path });
      return z.NEVER;
    });
  });

/** What an option of a shipped program may be. */
export const OPTION_SCHEMAS: Readonly<Record<OptionKind, z.ZodType>> = {
  "host": text,
  "hosts": leaf("a list of different hosts' names", (value) => {
    const list: readonly unknown[] = Array.isArray(value) ? value : [value];
    const isRight = list.length > 0 && new Set(list).size === list.length;
    return isRight && list.every((each) => typeof each === "string") ? list : undefined;
  }),
  "method": methodsOf(METHODS),
  "put-method": methodsOf(PUT_METHODS),
  "verify-level": oneOf(VERIFY_LEVELS),
  "crc-maker": oneOf(CRC_MAKERS),
  "policy": oneOf(POLICIES),
  "update": oneOf(UPDATES),
  "completion": oneOf(["poll", "interrupt"]),
  "switch": leaf("true or false", (value) => typeof value === "boolean" ? value : undefined),
  "depth": integer(1, 256),
  "message-bytes": size(8, MIB),
  "bytes": size(1, GIB),
  "count": integer(1, Number.MAX_SAFE_INTEGER),
  "microseconds": leaf("a time with its unit, like 200us", (value) => {
    const ps = parseDuration(value);
    return ps === undefined ? undefined : ps / PS_PER_US;
  }),
  "text": text,
};

/** What every program has; options are the program's own. */
export const programSchema = z.preprocess(
  // `program: ./my_protocol.ts` reads better than `run:` for a file of one's own; both are the same.
  (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    const { program, ...rest } = value as Record<string, unknown>;
    return program === undefined || "run" in rest ? value : { run: program, ...rest };
  },
  z.looseObject({
    on: hostNames,
    run: text,
    at: duration.optional(),
    restart: leaf("true or false", (value) => typeof value === "boolean" ? value : undefined)
      .optional(),
  }, { error: "a mapping with on and run" }),
);

/** `true` is the run's own directory. */
const captureTarget = leaf(
  "true, or a path",
  (value) => value === true || (typeof value === "string" && value !== "") ? value : undefined,
);
export const captureSchema = mapping({
  pcap: captureTarget.optional(),
  perfetto: captureTarget.optional(),
});
export type CaptureSection = z.infer<typeof captureSchema>;

export const SECTIONS = {
  name,
  seed: integer(0, Number.MAX_SAFE_INTEGER).optional(),
  profile: nameOf(PROFILE_NAMES).optional(),
  until: leaf("a time > 0 with its unit, like 1ms", parsePositiveDuration).optional(),
  expectation: nameOf(EXPECTATIONS),
} as const;

/** Keys of the file itself. */
export const SCENARIO_KEYS = [
  "name",
  "seed",
  "profile",
  "fabric",
  "defaults",
  "hosts",
  "programs",
  "faults",
  "expect",
  "until",
  "capture",
] as const;
