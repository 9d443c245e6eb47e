/**
 * A goal: a rack stops at it, or it is looked for in the past of a run. It is a time, or a step of a
 * device.
 *
 *     2ms                 a time: nothing happens at it or later
 *     S907, 4504          a step by its number in the documents, on any device
 *     b-rnic:S907         on this one
 *     b:persistence-ack   a word of `step_words.ts`
 *     b:/psn 7            a part of what the step says of itself
 *
 * Numbers of one step that several figures show mean the same: see {@link tracedAs}.
 */
import type { TraceStep } from "../node.ts";
import { formatTime, parseTime, type Time } from "../base/time.ts";
import { isWhole, wholeText } from "../base/whole_number.ts";
import { nearest, oneOf, type Problem, refusal } from "../rack/plan/problem.ts";
import { STEP_WORDS } from "./step_words.ts";
import { documentSteps, documentText, tracedAs } from "./trace_figures.ts";

export interface Predicate {
  /** A number of the documents, a word, or `/` and a part of the step's text. */
  readonly step: string;
  /** Absent: any. */
  readonly node?: string;
  /** Over all matching devices. Default: 1. */
  readonly count?: number;
}

export interface Goal {
  readonly breaks: readonly Predicate[];
  readonly time?: Time;
}

export const STEP_LETTERS_MAX = 100, COUNT_MAX = 1_000_000_000;
const COUNTS = { least: 1, most: COUNT_MAX };

/** As typed. */
export interface GoalTerms {
  /** For steps without one. */
  readonly node?: string | undefined;
  readonly count?: string | undefined;
}

/** `["b-rnic:S907", "10ms"]`. @throws Refusal */
export function parseGoal(words: readonly string[], { node, count = "" }: GoalTerms = {}): Goal {
  const given = words.map((word) => ({ word, time: timeIn(word) }));
  const times = given.flatMap(({ time }) => time ?? []);
  if (times.length > 1) throw refusal("", { found: `${times.length} times`, expected: "one" });
  const many = countIn(count);
  const breaks = given.filter(({ time }) => time === undefined).map(({ word }) => {
    const parsed = parsePredicate(word);
    if (parsed.node !== undefined && node && parsed.node !== node) {
      throw refusal("", { found: `"${word}" and device ${node}`, expected: "one device" });
    }
    const on = parsed.node ?? node;
    return { step: parsed.step, ...(on && { node: on }), ...(many > 1 && { count: many }) };
  });
  if (words.length === 0) throw refusal("", { found: "nothing", expected: GOAL_EXPECTED });
  if (many > 1 && breaks.length === 0) {
    throw refusal("", { found: `count ${many} of a time`, expected: "a count of a step" });
  }
  return { breaks, ...(times[0] !== undefined && { time: times[0] }) };
}

/** Understands `µ` and the spaces of a number copied from the page. */
function timeIn(text: string): Time | undefined {
  return parseTime(text.replaceAll("µ", "u").replaceAll(/[\s\u202f]/g, ""));
}

function countIn(text: string): number {
  if (text === "") return 1;
  const count = Number(text);
  if (isWhole(count, COUNTS)) return count;
  const expected = wholeText(COUNTS);
  throw refusal("The count", { found: `"${text}"`, expected });
}

/** `S907`, `b-rnic:S907`. @throws Refusal */
function parsePredicate(text: string): Predicate {
  const [, node, step = text] = /^([\w-]+):(.+)$/.exec(text) ?? [];
  const problem = stepProblem(step);
  if (problem === undefined) return { step, ...(node !== undefined && { node }) };
  throw refusal("", { found: `"${text}"`, expected: `${GOAL_EXPECTED}: ${problem.expected}` });
}

const GOAL_EXPECTED = "a time as 2ms, or a step of a device as b-rnic:S907";
const WORDS = Object.keys(STEP_WORDS), NUMBERS = documentSteps();

/** Undefined if {@link Predicate.step} is valid. */
export function stepProblem(step: string): Omit<Problem, "path"> | undefined {
  const isText = step.startsWith("/");
  if (isText && step.length > 1 && step.length <= STEP_LETTERS_MAX) return undefined;
  if (!isText && (documentText(step) !== undefined || Object.hasOwn(STEP_WORDS, step))) {
    return undefined;
  }
  const near = nearest(step, [...WORDS, ...NUMBERS]);
  const all = `${rangesText(NUMBERS)}, ${WORDS.join(", ")}, or / and a part of the step's text`;
  const found = `"${step.slice(0, STEP_LETTERS_MAX)}"`;
  return { found, expected: near === undefined ? `one of ${all}` : `${near} (one of ${all})` };
}

function rangesText(numbers: readonly string[]): string {
  const begins = (i: number) => figureOf(numbers[i - 1]) !== figureOf(numbers[i]);
  const firsts = numbers.filter((_, i) => begins(i)),
    lasts = numbers.filter((_, i) => begins(i + 1));
  return firsts.map((first, i) => `${first}–${lasts[i]}`).join(", ");
}

function figureOf(number: string | undefined): string | undefined {
  return number?.slice(0, -2);
}

/** Of a foreign value in a rack of these devices; undefined if it is valid. */
export function predicateProblem(
  value: unknown,
  nodes: readonly string[],
): Omit<Problem, "path"> | undefined {
  const { step, node, count } = Object(value) as Partial<Record<keyof Predicate, unknown>>;
  if (typeof step !== "string") return { found: `step ${typeof step}`, expected: "a step's name" };
  const problem = stepProblem(step);
  if (problem !== undefined) return problem;
  if (node !== undefined && !nodes.includes(node as string)) {
    return { found: `device "${node}"`, expected: oneOf(nodes, String(node)) };
  }
  if (count === undefined || isWhole(count, COUNTS)) return undefined;
  return { found: `count ${count}`, expected: wholeText(COUNTS) };
}

export function matcherOf(
  { step, node = "" }: Predicate,
): (on: string, done: Pick<TraceStep, "step" | "text" | "busy">) => boolean {
  const isOn = (on: string) => node === "" || node === on;
  if (step.startsWith("/")) {
    const part = step.slice(1);
    return (on, { text, busy }) => busy === undefined && isOn(on) && text.includes(part);
  }
  const names = new Set((STEP_WORDS[step]?.steps ?? [step]).flatMap(tracedAs));
  return (on, done) => names.has(done.step) && done.busy === undefined && isOn(on);
}

/** `b-rnic sends the persistence acknowledgement (S907), for the 20th time` */
export function predicateText({ step, node = "any device", count = 1 }: Predicate): string {
  const number = documentText(step);
  const what = step.startsWith("/")
    ? `a step of ${node} says "${step.slice(1)}"`
    : number !== undefined
    ? `${node} ${number} (${step})`
    : wordText(step, node);
  return what + occurrenceText(count);
}

function wordText(word: string, node: string): string {
  const { text, steps = [] } = STEP_WORDS[word] ?? { text: `@ takes ${word}` };
  const said = text.replace("@", node);
  return steps.length === 0 ? said : `${said} (${steps.join(" or ")})`;
}

export function occurrenceText(count: number): string {
  if (count === 1) return "";
  const isTeen = Math.floor(count / 10) % 10 === 1;
  const ending = isTeen ? "th" : ["th", "st", "nd", "rd"][count % 10] ?? "th";
  return `, for the ${count}${ending} time`;
}

/** `b-rnic:S907 or 10 ms`: as it is typed. */
export function goalText({ breaks, time }: Goal): string {
  const steps = breaks.map(({ step, node }) => node === undefined ? step : `${node}:${step}`);
  return [...steps, ...(time === undefined ? [] : [formatTime(time)])].join(" or ");
}
