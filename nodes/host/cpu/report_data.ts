/**
 * Reports: plain data that bus and JSON represent, of a size that fits a message; checked alike in
 * every packing.
 */
import { decode, DEPTH_MAX, encode } from "../../../fabric/bus/codec.ts";
import { OUTPUT_TOPIC } from "../../../fabric/node.ts";
import { LOG_TOPIC } from "./log_text.ts";

/** Messages wrap a report in lists and maps. */
const WRAPPING = 8;

/** Lengths are of the encoding, in bytes. */
export const REPORT_LIMITS = {
  depth: DEPTH_MAX - WRAPPING,
  bytes: 4 << 20,
  topicLength: 64,
} as const;

/** The run is judged by these topics of host, card and partition. */
export const RESERVED_TOPICS: readonly string[] = [
  LOG_TOPIC,
  "program-ended",
  "program-failed",
  "program-stopped",
  "shutdown",
  "shutdown-step",
  "unfinished",
  "rnic-event",
  "held",
];

/**
 * A report as it arrives over the bus: a copy, in every packing. An output file is neither copied nor limited in size.
 * @throws TypeError where it is not plain data, or its topic is reserved; RangeError beyond a limit.
 */
export function reported(topic: unknown, value: unknown): unknown {
  if (typeof topic !== "string" || topic === "" || topic.length > REPORT_LIMITS.topicLength) {
    const found = typeof topic === "string"
      ? JSON.stringify(topic.slice(0, 80))
      : `a ${typeof topic}`;
    const expected = `a text of 1 to ${REPORT_LIMITS.topicLength} characters`;
    throw new TypeError(`Cannot report: found ${found} as topic, expected ${expected}`);
  }
  if (RESERVED_TOPICS.includes(topic)) {
    const expected = `another topic: the host and its card report ${RESERVED_TOPICS.join(", ")}`;
    throw new TypeError(`Cannot report: found topic "${topic}", expected ${expected}`);
  }
  const found = value === undefined ? "undefined" : notPlain(value);
  if (found !== undefined) {
    throw new TypeError(`Cannot report "${topic}": found ${found}, expected plain data`);
  }
  if (topic === OUTPUT_TOPIC) return value;
  const bytes = encode(value);
  const { length } = bytes;
  if (length > REPORT_LIMITS.bytes) {
    const most = `at most ${REPORT_LIMITS.bytes} B; an output file may be larger`;
    throw new RangeError(`Cannot report "${topic}": found ${length} B, expected ${most}`);
  }
  return decode(bytes);
}

/**
 * @returns `a Map at .found[2]`, the first part that is not plain; undefined for plain data: numbers, bigints, strings, booleans, bytes, arrays and object literals.
 */
export function notPlain(value: unknown, path = "", depth = 0): string | undefined {
  if (typeof value === "function" || typeof value === "symbol") {
    return at(path, `a ${typeof value}`);
  }
  if (typeof value === "bigint") {
    return value === BigInt.asIntN(64, value) || value === BigInt.asUintN(64, value)
      ? undefined
      : at(path, "a bigint of more than 64 bits");
  }
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return undefined;
  // Deeper data is probably cyclic.
  if (depth === REPORT_LIMITS.depth) return `an object in an object more than ${depth} times`;
  if (Array.isArray(value)) {
    return firstOf(value.entries(), (i) => `${path}[${i}]`, depth);
  }
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== null && prototype !== Object.prototype) {
    return at(path, `a ${prototype.constructor?.name ?? "class"}`);
  }
  return firstOf(Object.entries(value), (key) => `${path}.${key}`, depth);
}

function firstOf<K>(
  entries: Iterable<readonly [K, unknown]>,
  pathOf: (key: K) => string,
  depth: number,
): string | undefined {
  for (const [key, each] of entries) {
    // Most elements are numbers or strings, so no path is made.
    if (typeof each === "number" || typeof each === "string") continue;
    const found = notPlain(each, pathOf(key), depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

function at(path: string, found: string): string {
  return path === "" ? found : `${found} at ${path}`;
}
