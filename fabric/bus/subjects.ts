/**
 * A subject contains sender and receiver, so that the cabling can be an access list: only `a` may
 * publish `rack.<run>.wire.a.*`.
 */
import { assert } from "../base/assert.ts";

export const ANY = "*";

const FIELDS = {
  "wire": ["from", "to"],
  /** `asker` misses messages of `of`. */
  "again": ["asker", "of"],
  /** Timekeeper → partition. */
  "clock.grant": ["partition"],
  /** Partition → timekeeper: how far it has come; a process has started; heartbeat. */
  "clock.report": ["partition"],
  "clock.join": ["partition"],
  "clock.alive": ["partition"],
  /** Timekeeper → a process and the supervisor: a power failure or return. */
  "clock.order": ["partition"],
  /** Timekeeper → all: report your state. */
  "clock.ask": [],
  "trace": ["node"],
  "report": ["node"],
  /** Requests to the run (pause, step, kill …), and the news of its end. */
  "control": ["verb"],
  "answer": ["by", "asker", "number"],
} as const;
type Fields = typeof FIELDS;

/** Every field is a token; in a pattern it may be {@link ANY}. */
export type RackSubject = {
  [Kind in keyof Fields]:
    & { readonly kind: Kind; readonly run: string }
    & { readonly [Field in Fields[Kind][number]]: string };
}[keyof Fields];

/** 1 to 64 letters, digits, `-` and `_`. */
export function isToken(text: string): boolean {
  return /^[A-Za-z0-9_-]{1,64}$/.test(text);
}

export function isSubject(text: string): boolean {
  return /^[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*$/.test(text);
}

export function isPattern(text: string): boolean {
  return /^(?:(?:[A-Za-z0-9_-]+|\*)\.)*(?:[A-Za-z0-9_-]+|\*|>)$/.test(text);
}

export function subjectOf(subject: RackSubject): string {
  const text = patternOf(subject);
  assert(isSubject(text), `Cannot publish to a pattern: ${text}`);
  return text;
}

/** `patternOf({ kind: "wire", run, from: ANY, to: "b" })`. */
export function patternOf(subject: RackSubject): string {
  const fields: Readonly<Record<string, string>> = { ...subject };
  let text = `rack.${checkedToken(subject.run)}.${subject.kind}`;
  for (const field of FIELDS[subject.kind]) text += `.${checkedToken(fields[field]!)}`;
  return text;
}

/** `run` may be {@link ANY}. */
export function patternOfRun(run: string): string {
  return `rack.${checkedToken(run)}.>`;
}

/** Undefined where it is no rack's subject. */
export function parseSubject(text: string): RackSubject | undefined {
  const [rack, run, ...rest] = text.split(".");
  if (rack !== "rack" || run === undefined || !isSubject(text)) return undefined;
  const kind = rest[0] === "clock" ? `clock.${rest[1]}` : rest[0]!;
  if (!Object.hasOwn(FIELDS, kind)) return undefined;
  const fields = FIELDS[kind as RackSubject["kind"]];
  const tokens = rest.slice(rest[0] === "clock" ? 2 : 1);
  if (tokens.length !== fields.length) return undefined;
  const parsed: Record<string, string> = { kind, run };
  for (const [i, field] of fields.entries()) parsed[field] = tokens[i]!;
  return parsed as unknown as RackSubject;
}

function checkedToken(token: string): string {
  assert(
    token === ANY || isToken(token),
    `Cannot put "${token}" into a subject: expected 1 to 64 letters, digits, "-" or "_"`,
  );
  return token;
}
