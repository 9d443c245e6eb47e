/**
 * The subjects of a rack's messages. A subject contains sender and receiver, so that the cabling
 * can be an access list: only `a` may publish `rack.<run>.wire.a.*`.
 *
 *     rack.<run>.wire.<from>.<to>           messages of a cable, from node to node
 *     rack.<run>.again.<asker>.<of>         `asker` misses messages of `of` and requests them again
 *     rack.<run>.clock.grant.<partition>    timekeeper → partition: how far it may run
 *     rack.<run>.clock.report.<partition>   partition → timekeeper: how far it has come
 *     rack.<run>.clock.join.<partition>     partition → timekeeper: a process has started
 *     rack.<run>.clock.alive.<partition>    partition → timekeeper: heartbeat
 *     rack.<run>.clock.ask                  timekeeper → all: report your state
 *     rack.<run>.trace.<node>               lines of a node's ladder
 *     rack.<run>.report.<node>              progress and results of a node's programs
 *     rack.<run>.control.<verb>             orders to the run: pause, step, kill …
 */
import { assert } from "../base/assert.ts";

/** A parsed subject. Every field is a token; in a pattern it may be {@link ANY}. */
export type RackSubject =
  | { readonly kind: "wire"; readonly run: string; readonly from: string; readonly to: string }
  | { readonly kind: "again"; readonly run: string; readonly asker: string; readonly of: string }
  | {
    readonly kind: "clock.grant" | "clock.report" | "clock.join" | "clock.alive";
    readonly run: string;
    readonly partition: string;
  }
  | { readonly kind: "clock.ask"; readonly run: string }
  | { readonly kind: "trace" | "report"; readonly run: string; readonly node: string }
  | { readonly kind: "control"; readonly run: string; readonly verb: string };

/** Matches any one token in a pattern. */
export const ANY = "*";

/** The tokens after `rack.<run>.<kind>.`, by kind. */
const FIELDS: Readonly<Record<RackSubject["kind"], readonly string[]>> = {
  "wire": ["from", "to"],
  "again": ["asker", "of"],
  "clock.grant": ["partition"],
  "clock.report": ["partition"],
  "clock.join": ["partition"],
  "clock.alive": ["partition"],
  "clock.ask": [],
  "trace": ["node"],
  "report": ["node"],
  "control": ["verb"],
};

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

/** All messages of a run. */
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

/** True where a subscription to `pattern` receives what is published to `subject`. */
export function matches(pattern: string, subject: string): boolean {
  if (pattern === subject) return true;
  const wanted = pattern.split(".");
  const tokens = subject.split(".");
  for (const [i, want] of wanted.entries()) {
    if (want === ">") return tokens.length > i;
    if (i >= tokens.length || (want !== "*" && want !== tokens[i])) return false;
  }
  return wanted.length === tokens.length;
}

function checkedToken(token: string): string {
  assert(
    token === ANY || isToken(token),
    `Cannot put "${token}" into a subject: expected 1 to 64 letters, digits, "-" or "_"`,
  );
  return token;
}
