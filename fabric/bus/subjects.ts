/**
 * The subjects of a rack's messages. A subject contains sender and receiver, so that the cabling
 * can be an access list: only `a` may publish `rack.<run>.wire.a.*`.
 */
import { assert } from "../base/assert.ts";

/** Matches any one token in a pattern. */
export const ANY = "*";

/** The tokens after `rack.<run>.<kind>.`, by kind. */
const FIELDS = {
  "wire": ["from", "to"],
  /** `asker` misses messages of `of` and requests them again. */
  "again": ["asker", "of"],
  /** Timekeeper → partition: how far it may run. */
  "clock.grant": ["partition"],
  /** Partition → timekeeper: how far it has come; a process has started; heartbeat. */
  "clock.report": ["partition"],
  "clock.join": ["partition"],
  "clock.alive": ["partition"],
  /** Timekeeper → the process that is meant, and the supervisor: a power failure or return. */
  "clock.order": ["partition"],
  /** Timekeeper → all: report your state. */
  "clock.ask": [],
  /** Lines of a node's ladder; progress and results of a node's programs. */
  "trace": ["node"],
  "report": ["node"],
  /** Requests to the run (pause, step, kill …), and the timekeeper's news of its end. */
  "control": ["verb"],
  /** The answer to a request: users of the broker, and a number that is the asker's own. */
  "answer": ["by", "asker", "number"],
} as const;
type Fields = typeof FIELDS;

/** A parsed subject. Every field is a token; in a pattern it may be {@link ANY}. */
export type RackSubject = {
  [Kind in keyof Fields]:
    & { readonly kind: Kind; readonly run: string }
    & { readonly [Field in Fields[Kind][number]]: string };
}[keyof Fields];

/** True where `text` is a valid token: 1 to 64 letters, digits, `-` and `_`. */
export function isToken(text: string): boolean {
  return /^[A-Za-z0-9_-]{1,64}$/.test(text);
}

/** True where `text` is a valid subject: tokens separated by dots, no wildcard. */
export function isSubject(text: string): boolean {
  return /^[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*$/.test(text);
}

/** True where `text` is a valid pattern: a subject with `*` for a token and `>` for the rest. */
export function isPattern(text: string): boolean {
  return /^(?:(?:[A-Za-z0-9_-]+|\*)\.)*(?:[A-Za-z0-9_-]+|\*|>)$/.test(text);
}

/** The subject to publish to. */
export function subjectOf(subject: RackSubject): string {
  const text = patternOf(subject);
  assert(isSubject(text), `Cannot publish to a pattern: ${text}`);
  return text;
}

/** The pattern to subscribe to: `patternOf({ kind: "wire", run, from: ANY, to: "b" })`. */
export function patternOf(subject: RackSubject): string {
  const fields: Readonly<Record<string, string>> = { ...subject };
  let text = `rack.${checkedToken(subject.run)}.${subject.kind}`;
  for (const field of FIELDS[subject.kind]) text += `.${checkedToken(fields[field]!)}`;
  return text;
}

/** All messages of a run, or of any where it is {@link ANY}. */
export function patternOfRun(run: string): string {
  return `rack.${checkedToken(run)}.>`;
}

/** Parses a subject; undefined where it is not one of a rack. */
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
