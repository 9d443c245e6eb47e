import { PS_PER_US, type Time } from "../../../../fabric/base/time.ts";
import { wholeText } from "../../../../fabric/base/whole_number.ts";
import { ProgramError } from "../../verbs/device.ts";
import type { Device } from "../../verbs/objects.ts";

export type Options = Readonly<Record<string, unknown>>;

function wrong(name: string, expected: string, found: unknown): never {
  throw new ProgramError(`Option ${name} must be ${expected}: it is ${JSON.stringify(found)}`);
}

export function textOption(options: Options, name: string, otherwise?: string): string {
  const value = options[name] ?? otherwise;
  return typeof value === "string" && value !== "" ? value : wrong(name, "a text", value);
}

const SIZE_UNITS: Readonly<Record<string, number>> = {
  "": 1,
  B: 1,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
};

/** A number, or a size such as `4KiB`, of at least `least`. */
export function countOption(
  options: Options,
  name: string,
  bounds: { readonly least: number; readonly otherwise: number },
): number {
  const value = options[name] ?? bounds.otherwise;
  const match = typeof value === "string" ? /^(\d+)\s*([KMG]iB|B|)$/.exec(value) : null;
  const count = match === null ? value : Number(match[1]) * SIZE_UNITS[match[2]!]!;
  if (typeof count === "number" && Number.isSafeInteger(count) && count >= bounds.least) {
    return count;
  }
  return wrong(name, wholeText({ least: bounds.least, most: Number.MAX_SAFE_INTEGER }), value);
}

/** In ps. */
export function microsecondsOption(options: Options, name: string, otherwise: number): Time {
  const value = options[name] ?? otherwise;
  if (typeof value === "number" && value >= 0) return Math.round(value * PS_PER_US);
  return wrong(name, "a number of microseconds", value);
}

export function wordOption<Word extends string>(
  options: Options,
  name: string,
  { words, otherwise }: { readonly words: readonly Word[]; readonly otherwise?: Word },
): Word {
  const value = options[name] ?? otherwise;
  const word = words.find((each) => each === value);
  return word ?? wrong(name, `one of ${words.join(", ")}`, value);
}

/** How a program waits for completions; default: the host's setting. */
export function completionOption(
  options: Options,
  { state }: Pick<Device, "state">,
): "poll" | "interrupt" {
  const { completion: otherwise } = state;
  return wordOption(options, "completion", { words: ["poll", "interrupt"], otherwise });
}
