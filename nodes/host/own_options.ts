/**
 * Options with units for a user's own program, read as the shipped programs read theirs. Scenario
 * values arrive as written, `64KiB` as a text. Own programs are bundled with this file.
 */
import type { Time } from "../../fabric/base/time.ts";
import { parseDuration, parseSize } from "../../fabric/rack/plan/units.ts";

type Options = Readonly<Record<string, unknown>>;

/**
 * Bytes of a size: `64KiB`, or a whole number.
 * @param otherwise the value of an option that is not given.
 * @throws TypeError where it is no size.
 *
 * @example Options with defaults
 * ```ts
 * import { type ProgramContext, sizeOption, type Steps, timeOption } from "rackmesh";
 *
 * export default function* options({ cpu, options }: ProgramContext): Steps<void> {
 *   const size = sizeOption(options, "size", 4096), every = timeOption(options, "every", 10_000_000);
 *   cpu.report("result", { size, every });
 * }
 * ```
 */
export function sizeOption(options: Options, name: string, otherwise?: number): number {
  const value = options[name] ?? otherwise;
  return parseSize(value) ?? refuse(name, "a size, like 64KiB", value);
}

/**
 * Picoseconds of a time: `10us`, or 0.
 * @param otherwise the value of an option that is not given, in ps.
 * @throws TypeError where it is no time.
 */
export function timeOption(options: Options, name: string, otherwise?: Time): Time {
  const value = options[name];
  if (value === undefined && otherwise !== undefined) return otherwise;
  return parseDuration(value) ?? refuse(name, "a time, like 10us", value);
}

function refuse(name: string, expected: string, found: unknown): never {
  const what = found === undefined ? "not given" : JSON.stringify(found);
  throw new TypeError(`Option ${name} must be ${expected}: it is ${what}`);
}
