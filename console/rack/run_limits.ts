/**
 * Runs that the user keeps count for nothing here and never go; those that have processes count,
 * and stay.
 */
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { parseSize } from "../../fabric/rack/plan/units.ts";

export interface RunLimits {
  readonly runs: number;
  readonly bytes: number;
}

/** A choice: weeks of work on one machine, and little of a disk. */
const DEFAULT: RunLimits = { runs: 50, bytes: 2 * 2 ** 30 };

export type LimitTexts = { readonly [limit in keyof RunLimits]?: string | undefined };

/**
 * `none` is no limit.
 * @param named the names of the two in messages.
 * @param otherwise the limits that a text does not give.
 * @throws Refusal
 */
export function readLimits(
  texts: LimitTexts,
  named: Readonly<Record<keyof RunLimits, string>>,
  otherwise: RunLimits = DEFAULT,
): RunLimits {
  const limitOf = (
    key: keyof RunLimits,
    { parse, expected }: { parse: (text: string) => number | undefined; expected: string },
  ) => {
    const text = texts[key];
    if (text === undefined || text === "") return otherwise[key];
    const limit = text === "none" ? Infinity : parse(text);
    if (limit !== undefined) return limit;
    throw refusal(named[key], { found: `"${text}"`, expected: `${expected}, or none` });
  };
  return {
    runs: limitOf("runs", { parse: wholeNumber, expected: "a whole number" }),
    bytes: limitOf("bytes", { parse: parseSize, expected: "a size like 2GiB" }),
  };
}

function wholeNumber(text: string): number | undefined {
  return /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}

const VARIABLES = { runs: "RACKMESH_RUNS_MAX", bytes: "RACKMESH_RUNS_BYTES_MAX" } as const;

/** Of the environment, else {@link DEFAULT}. @throws Refusal */
export function limitsHere(): RunLimits {
  const { runs, bytes } = VARIABLES;
  return readLimits({ runs: Deno.env.get(runs), bytes: Deno.env.get(bytes) }, VARIABLES);
}

export interface Removable {
  readonly id: string;
  readonly started: string;
  readonly bytes: number;
}

/**
 * The oldest first. Of two runs of one millisecond the names decide, so that the newest is the same
 * one for every caller.
 */
export function byAge(
  x: Pick<Removable, "id" | "started">,
  y: Pick<Removable, "id" | "started">,
): number {
  if (x.started !== y.started) return x.started < y.started ? -1 : 1;
  return x.id < y.id ? -1 : x.id > y.id ? 1 : 0;
}

/** Runs that have to go, the oldest first. */
export function beyondLimits<Run extends Removable>(
  runs: readonly Run[],
  limits: RunLimits,
): Run[] {
  const oldestFirst = runs.toSorted(byAge);
  let bytes = runs.reduce((sum, run) => sum + run.bytes, 0);
  const gone: Run[] = [];
  for (const run of oldestFirst) {
    if (runs.length - gone.length <= limits.runs && bytes <= limits.bytes) break;
    gone.push(run);
    bytes -= run.bytes;
  }
  return gone;
}
