/** Options shared by several commands, and the parsing of their values. Those of racks: `rack_options.ts`. */
import { type Command, Option } from "commander";
import { parseTime, type Time } from "../../fabric/base/time.ts";
import { isWhole, type WholeRange, wholeText } from "../../fabric/base/whole_number.ts";
import { oneOf, refusal } from "../../fabric/rack/plan/problem.ts";
import { parseSize } from "../../fabric/rack/plan/units.ts";
import {
  expectedOf,
  helpOf,
  type OptionRow,
  type OptionTable,
  readTyped,
  valuesIn,
  type ValuesOf,
  WORDS_LISTED,
} from "../../fabric/rack/plan/option_rows.ts";
import type { NatsFlags } from "../../console/rack/existing_nats.ts";
import { OVERRIDE_LOCK } from "../../console/rack/live/lock.ts";

export interface LiveFlags {
  readonly run?: string;
  readonly json?: boolean;
}

export function addLiveOptions(command: Command): Command {
  return addRunOption(command).option("--json", "one JSON document on stdout");
}

/** Of a command that gives orders to a rack that is up. */
export interface OrderFlags extends LiveFlags {
  readonly overrideLock?: boolean;
}

export function addOrderOptions(command: Command): Command {
  return addLockOption(addLiveOptions(command));
}

export function addLockOption(command: Command): Command {
  return command.option(
    OVERRIDE_LOCK,
    "give the order though a user of a console has locked the rack",
  );
}

export function addRunOption(command: Command): Command {
  return command.option("--run <id>", "which run, or how its name begins; else the one that is up");
}

/** Of commands that look into a run. */
export const VARIANT_OPTION = [
  "--variant <name>",
  "of a run with several: its name, or its number from 1",
] as const;

export type FlagsOf<Table extends OptionTable> = {
  readonly [Name in keyof Table]?: Table[Name] extends { readonly type: "switch" } ? boolean
    : string;
};

const PLACEHOLDERS = {
  whole: "n",
  size: "bytes",
  time: "time",
  "wall-time": "time",
  host: "host",
} as const;

function flagOf(name: string, row: OptionRow): string {
  if (row.type === "switch") return `--${name}`;
  if (row.type !== "word") return `--${name} <${PLACEHOLDERS[row.type]}>`;
  return `--${name} <${row.words.length > WORDS_LISTED ? "name" : row.words.join("|")}>`;
}

/** The words that it accepts, for completion: commander's own choices would stand a second time in the help. */
export type WordOption = Option & { readonly words?: readonly string[] };

export function wordOption(flags: string, about: string, words: readonly string[]): WordOption {
  return Object.assign(new Option(flags, about), { words });
}

/** @param otherwise behind the help of each: what holds where it is not given. */
export function addTable(command: Command, table: OptionTable, otherwise = ""): Command {
  for (const [name, row] of Object.entries(table)) {
    const flags = flagOf(name, row), about = `${helpOf(row)}${otherwise}`;
    if (row.type === "word") command.addOption(wordOption(flags, about, row.words));
    else command.option(flags, about);
  }
  return command;
}

/** Those that were typed. @throws Refusal */
export function readTable<Table extends OptionTable>(
  table: Table,
  flags: FlagsOf<Table>,
): ValuesOf<Table> {
  const given: Readonly<Record<string, string | boolean | undefined>> = flags;
  const values = Object.entries(table).map(([name, row]) => {
    const typed = given[name];
    if (typeof typed !== "string") return [name, typed];
    const value = readTyped(row, typed);
    if (value !== undefined) return [name, value];
    throw refusal(`--${name}`, { found: `"${typed}"`, expected: expectedOf(row, typed) });
  });
  return valuesIn(table, Object.fromEntries(values));
}

export interface WorldFlags extends NatsFlags {
  readonly pcap?: string;
  readonly perfetto?: string;
}

/** What a run has of the world: the server that carries it, and the captures that it leaves. */
export function addCaptureOptions(command: Command, written = ""): Command {
  const urls = "use this nats-server, or a cluster's, instead of starting one";
  return addNatsOptions(command.option("--nats <urls>", urls))
    .option(
      "--pcap <dir>",
      `leave every frame at every port in this folder, for Wireshark${written}`,
    )
    .option(
      "--perfetto <file>",
      `write a timeline of the busy devices to this file, for ui.perfetto.dev${written}`,
    );
}

export type NatsCredentialFlags = Omit<NatsFlags, "nats">;

/** For a nats-server of another owner. */
export function addNatsOptions(command: Command): Command {
  return command
    .option("--nats-users <file>", "its users of this rack, as rack nats-config writes them")
    .option("--nats-creds <file>", "a credentials file of NATS (JWT and key)")
    .option("--nats-ca <file>", "certificates in PEM that sign those of the server");
}

export function wordOf<Word extends string>(
  option: string,
  text: string,
  words: readonly Word[],
): Word {
  const word = words.find((each) => each === text);
  if (word !== undefined) return word;
  throw refusal(option, { found: `"${text}"`, expected: oneOf(words, text) });
}

export function bytesOf(
  option: string,
  text: string,
  { least, most, expected }: {
    readonly least: number;
    readonly most: number;
    readonly expected: string;
  },
): number {
  const bytes = parseSize(text);
  if (bytes !== undefined && bytes >= least && bytes <= most) return bytes;
  throw refusal(option, { found: `"${text}"`, expected });
}

export function whole(
  option: string,
  text: string,
  range: WholeRange,
): number {
  const value = /^-?\d+$/.test(text) ? Number(text) : NaN;
  if (isWhole(value, range)) return value;
  throw refusal(option, { found: `"${text}"`, expected: wholeText(range) });
}

export function timeOf(
  option: string,
  text: string,
  { least = 0, expected = "a time such as 40us or 2.5ms" }: {
    readonly least?: Time;
    readonly expected?: string;
  } = {},
): Time {
  const time = parseTime(text);
  if (time !== undefined && time >= least) return time;
  throw refusal(option, { found: `"${text}"`, expected });
}

export function given<T extends object>(options: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: Exclude<T[K], undefined> };
}

export function addJunitOption(command: Command): Command {
  return command.option("--junit <file>", "write the verdicts as JUnit XML, for a CI");
}

/** Could not be written when the run is over. @throws Refusal */
export async function checkWritable(option: string, path: string): Promise<void> {
  const folder = path.replace(/[^/]*$/, "") || ".";
  const isFolder = await Deno.stat(path).then((each) => each.isDirectory, () => false);
  const isThere = await Deno.stat(folder).then((each) => each.isDirectory, () => false);
  if (isThere && !isFolder) return;
  throw refusal(option, { found: `"${path}"`, expected: "a file in a folder that is there" });
}
