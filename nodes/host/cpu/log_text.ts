/** Lines of `cpu.log`, for people. */
import { formatTime, type Time } from "../../../fabric/base/time.ts";

export const LOG_TOPIC = "log";

export interface LogLine {
  readonly program: string;
  readonly at: Time;
  readonly text: string;
}

const CHARACTERS_MAX = 16_384;

/** Texts stay as they are, other values become literals, as `console.log` has it. */
export function logText(values: readonly unknown[]): string {
  const text = values.map((value) => typeof value === "string" ? value : shown(value, [])).join(
    " ",
  );
  return text.length <= CHARACTERS_MAX ? text : `${text.slice(0, CHARACTERS_MAX)}…`;
}

/** A thrown value's properties may run a user's code, and throw. */
export function readableText(read: () => unknown): string {
  try {
    return logText([read()]);
  } catch {
    return "what was thrown cannot be read: a getter of it, or its toString, throws";
  }
}

/** `[a 12.345 us] text`. @param value as it was reported. */
export function logLineText(host: string, value: unknown): string {
  const { at, text } = value as LogLine;
  return `[${host} ${formatTime(at)}] ${text}`;
}

function shown(value: unknown, around: readonly unknown[]): string {
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "function") return `function ${value.name}`;
  if (typeof value !== "object" || value === null) return String(value);
  if (value instanceof Error) return value.stack ?? String(value);
  if (value instanceof Uint8Array) return `${value.length} B ${hex(value)}`;
  if (around.includes(value)) return "[circular]";
  const inside = [...around, value];
  if (Array.isArray(value)) return `[${value.map((each) => shown(each, inside)).join(", ")}]`;
  if (value instanceof Map || value instanceof Set) return shown([...value], inside);
  const fields = Object.entries(value).map(([name, each]) => `${name}: ${shown(each, inside)}`);
  return fields.length === 0 ? "{}" : `{ ${fields.join(", ")} }`;
}

const BYTES_MAX = 64;

function hex(bytes: Uint8Array): string {
  const digits = [...bytes.subarray(0, BYTES_MAX)].map((byte) =>
    byte.toString(16).padStart(2, "0")
  );
  return digits.join("") + (bytes.length > BYTES_MAX ? "…" : "");
}
