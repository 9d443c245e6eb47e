/** Reads and checks the settings of a section by the table of options. */
import { listOf, type Problem, showFound } from "../../fabric/rack/plan/problem.ts";
import type { BlockSizes, Direction, Extent } from "../../nodes/host/programs/fio/job.ts";
import { type JobFileWorld, knownOption, type Setting, substituted } from "./job_file.ts";
import {
  ALIASES,
  ASKS_NOTHING,
  IDLE,
  KNOWN,
  type OptionName,
  type OptionRow,
  REFUSED,
  USED,
  WARNED,
} from "./options.ts";
import {
  bytesValue,
  flagValue,
  percentilesValue,
  percentValue,
  rangeValue,
  timeValue,
} from "./values.ts";

export interface Value {
  readonly value: unknown;
  readonly setting: Setting;
}

/** By their first names; `aliases` are resolved. */
export type Options = Map<OptionName, Value>;

export interface Said {
  readonly problems: Problem[];
  readonly notes: Set<string>;
}

const NUMBER = "a number of bytes such as 4096, 4k or 4KiB";

/** Adds to the options that the section has from `[global]`. */
export function addSettings(
  options: Options,
  settings: readonly Setting[],
  { world, said }: { readonly world: Pick<JobFileWorld, "variable">; readonly said: Said },
): void {
  const ready = settings.map((setting) => substituted(setting, world));
  // All numbers depend on `kb_base`, which fio reads first, too.
  const first = ready.filter(({ name }) => name === "kb_base");
  for (const setting of [...first, ...ready.filter(({ name }) => name !== "kb_base")]) {
    for (const name of setting.unset) {
      said.notes.add(`${at(setting)}: the variable ${name} is not set: fio takes it as empty`);
    }
    addSetting(options, setting, said);
  }
}

/** In the place of a file: settings of the command line. */
export const COMMAND = "--set";

function at({ file, line }: Setting): string {
  return file === COMMAND ? file : `${file}:${line}`;
}

export function nameOf(name: string): string {
  return ALIASES[name] ?? name;
}

function addSetting(options: Options, setting: Setting, said: Said): void {
  const name = nameOf(setting.name);
  const place = { file: setting.file, line: setting.line, path: setting.name };
  if (Object.hasOwn(USED, name)) {
    const value = valueOf(name as OptionName, setting, kbBaseOf(options));
    if ("expected" in value) said.problems.push({ ...place, ...value });
    else options.set(name as OptionName, { value: together(options, name, value.value), setting });
    noteUnits(name as OptionName, setting, { kbBase: kbBaseOf(options), said });
    return;
  }
  if (IDLE.has(name)) return;
  if (Object.hasOwn(WARNED, name)) {
    said.notes.add(`${at(setting)}: ${setting.name} has no effect here: ${WARNED[name]}`);
    return;
  }
  const found = setting.value === undefined ? "it" : showFound(setting.value);
  if (REFUSED.has(name)) {
    if (ASKS_NOTHING.has(setting.value ?? "")) return;
    said.problems.push({
      ...place,
      found,
      expected: "none: the rack's jobs do not have this option of fio",
    });
    return;
  }
  said.problems.push({ ...place, found, expected: knownOption(setting.name, KNOWN) });
}

/** Sizes of one direction stand beside those that the other has from an earlier line. */
function together(options: Options, name: string, value: unknown): unknown {
  if (name !== "bs" && name !== "bsrange") return value;
  return { ...Object(options.get(name)?.value), ...Object(value) };
}

/** Default: 1024. */
export function kbBaseOf(options: Options): 1000 | 1024 {
  return options.get("kb_base")?.value === "1000" ? 1000 : 1024;
}

/** fio's default takes KiB for 1000 B, which surprises: it is said where it happens. */
function noteUnits(
  name: OptionName,
  setting: Setting,
  { kbBase, said }: { readonly kbBase: 1000 | 1024; readonly said: Said },
): void {
  const unit = /\d\s*([kmgtp]ib)/i.exec(setting.value ?? "")?.[1];
  const { kind } = USED[name];
  if (kbBase === 1000 || unit === undefined) return;
  if (!["bytes", "extent", "sizes", "ranges", "count"].includes(kind as string)) return;
  const power = "kmgtp".indexOf(unit[0]!.toLowerCase()) + 1;
  said.notes.add(
    `${at(setting)}: ${setting.name}=${setting.value}: 1 ${unit} is ${1000 ** power} B, ` +
      "as kb_base is 1024 (kb_base=1000 makes it a power of 1024)",
  );
}

type Read = { readonly value: unknown } | { readonly found: string; readonly expected: string };

function valueOf(name: OptionName, { value: text }: Setting, kbBase: 1000 | 1024): Read {
  const row: OptionRow = USED[name];
  const { kind } = row;
  if (typeof kind !== "string") return wordOf(name, text, kind);
  if (kind === "flag") return read(text, flagValue(text), "nothing, 0 or 1");
  if (text === undefined) return { found: "no value", expected: `${name}=…` };
  switch (kind) {
    case "text":
      return { value: text };
    case "count":
      return within(text, { value: bytesValue(text, kbBase), row, expected: "a whole number" });
    case "bytes":
      return within(text, { value: bytesValue(text, kbBase), row, expected: NUMBER });
    case "extent":
      return read(text, extentOf(text, kbBase), `${NUMBER}, or a percentage such as 50%`);
    case "seconds":
      return read(text, timeValue(text, "s"), "a time such as 60, 10ms or 500us");
    case "milliseconds":
      return read(text, timeValue(text, "ms"), "a time such as 500 (milliseconds) or 500us");
    case "sizes":
      return read(text, sizesOf(text, { kbBase, isRange: false }), `${NUMBER}, or read,write`);
    case "ranges":
      return read(text, sizesOf(text, { kbBase, isRange: true }), "a range such as 4k-16k");
    case "percentiles":
      return read(
        text,
        percentilesValue(text),
        "up to 20 numbers above 0 and at most 100, 99:99.9",
      );
    case "sync":
      return syncOf(text);
  }
}

function read(text: string | undefined, value: unknown, expected: string): Read {
  return value === undefined ? { found: showFound(text), expected } : { value };
}

/** fio's words, but `trim` and sequencers get their own answer. */
function wordOf(name: OptionName, text: string | undefined, words: readonly string[]): Read {
  const expected = listOf(words);
  if (text !== undefined && words.includes(text)) return { value: text };
  if (name === "rw" && text !== undefined && text.includes("trim")) {
    return { found: showFound(text), expected: `${expected}, as these engines do not trim` };
  }
  return { found: showFound(text), expected };
}

function within(
  text: string,
  { value, row: { least = 0, most = Number.MAX_SAFE_INTEGER }, expected }: {
    readonly value: number | undefined;
    readonly row: OptionRow;
    readonly expected: string;
  },
): Read {
  if (value !== undefined && value >= least && value <= most) return { value };
  const limits = most === Number.MAX_SAFE_INTEGER ? `at least ${least}` : `${least} to ${most}`;
  return { found: showFound(text), expected: `${expected}, ${limits}` };
}

function extentOf(text: string, kbBase: 1000 | 1024): Extent | undefined {
  const percent = percentValue(text);
  if (percent !== undefined) return { percent };
  const bytes = bytesValue(text, kbBase);
  return bytes === undefined || bytes < 1 ? undefined : { bytes };
}

/**
 * `read,write,trim`, as str_bs_cb has it: one behind the last is as the last; one that is empty
 * keeps what it has from an earlier line (`bs=,8k`).
 */
function sizesOf(
  text: string,
  { kbBase, isRange }: { readonly kbBase: 1000 | 1024; readonly isRange: boolean },
): Partial<Record<Direction, BlockSizes>> | undefined {
  const parts = text.split(",").map((part) => part.trim());
  if (parts.length > 3 || parts.every((part) => part === "")) return undefined;
  const sizes = parts.map((part) =>
    part === "" ? "kept" : isRange ? rangeValue(part, kbBase) : oneSize(part, kbBase)
  );
  const [read, write = read] = sizes;
  if (read === undefined || write === undefined || sizes.includes(undefined)) return undefined;
  return { ...(read !== "kept" && { read }), ...(write !== "kept" && { write }) };
}

function oneSize(text: string, kbBase: 1000 | 1024): BlockSizes | undefined {
  const bytes = bytesValue(text, kbBase);
  return bytes === undefined || bytes < 1 ? undefined : { least: bytes, most: bytes };
}

/** O_SYNC and O_DSYNC are one to the librpma engines. */
function syncOf(text: string): Read {
  if (["0", "none"].includes(text)) return { value: false };
  if (["1", "sync", "dsync"].includes(text)) return { value: true };
  return { found: showFound(text), expected: "none, 0, sync, 1 or dsync" };
}
