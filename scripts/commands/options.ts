/** Options shared by several commands, and the parsing of their values. */
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
import { CHOICES } from "../../fabric/rack/plan/vocabulary.ts";
import { type Packing, PACKINGS } from "../../fabric/rack/assembly/topology.ts";
import { jobsRow, SWEEP_OPTIONS } from "../../console/api/options.ts";
import { workersFor } from "../../console/base/workers.ts";
import {
  type ExistingNats,
  existingNats,
  type NatsFlags,
} from "../../console/rack/existing_nats.ts";
import { LIVENESS_ELSEWHERE_MS, LIVENESS_RANGE } from "../../console/rack/elsewhere.ts";
import { LANES, SET_MAX } from "../../console/rack/side_by_side.ts";
import { NO_CHECK } from "../../console/base/no_check.ts";
import type { CheckedTypes } from "../../console/rack/own/types/check_types.ts";
import type { PrepareOptions } from "../../console/rack/prepare.ts";
import { readScenario, type ScenarioSource } from "../../console/scenarios/scenario_source.ts";
import { say } from "./output.ts";

export interface LiveFlags {
  readonly run?: string;
  readonly json?: boolean;
}

export function addLiveOptions(command: Command): Command {
  return addRunOption(command).option("--json", "one JSON document on stdout");
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

export interface AllowReadFlag {
  readonly allowRead?: readonly string[];
}

/** A scenario reads below its own folder, and below these. */
export function addAllowRead(command: Command): Command {
  return command.option(
    "--allow-read <folder>",
    "let the scenario read files below this folder, too; may be given several times",
    (folder: string, before: readonly string[] = []) => [...before, folder],
  );
}

export interface VariantFlags extends FlagsOf<typeof CHOICES>, AllowReadFlag {
  readonly input?: string;
}

export function addVariantOptions(command: Command): Command {
  const choosing = addAllowRead(
    command.option("--input <file>", "the file that `put` writes"),
  );
  return addTable(choosing, CHOICES, "; else as the scenario says");
}

const RACK_CHOICES = { ddio: CHOICES.ddio, seed: CHOICES.seed };
export interface RackChoiceFlags extends FlagsOf<typeof RACK_CHOICES>, WorldFlags, AllowReadFlag {
  readonly pack: string;
}

export function addRackChoices(command: Command): Command {
  const choosing = addTable(command, RACK_CHOICES, "; else as the scenario says");
  return addOutputOptions(addPackOption(addAllowRead(choosing), { normal: "all" }));
}

/** @throws Refusal */
export function rackChoicesOf(flags: RackChoiceFlags) {
  return { packing: wordOf("--pack", flags.pack, PACKINGS), ...readTable(RACK_CHOICES, flags) };
}

/**
 * @param how.normal where it is not given; absent: something else holds, as `how.otherwise` says.
 */
export function addPackOption(
  command: Command,
  { words = PACKINGS, normal, what = "nodes to processes", otherwise = "" }: {
    readonly words?: readonly Packing[];
    readonly normal?: Packing;
    readonly what?: string;
    readonly otherwise?: string;
  },
): Command {
  const about = `${what}: ${words.join(", ")}${otherwise}`;
  return command.addOption(wordOption("--pack <how>", about, words).default(normal));
}

export interface RackFlags extends VariantFlags, WorldFlags {
  readonly pack: string;
  readonly trace?: boolean;
  readonly json?: boolean;
}

/** @param written when the captures are written; default: at the end of the command. */
export function addRackOptions(command: Command, written = ""): Command {
  addPackOption(addVariantOptions(command), { normal: "node" })
    .option("--trace", "keep every step of every operation in the run's directory");
  return addOutputOptions(command, written);
}

function addOutputOptions(command: Command, written = ""): Command {
  return addCaptureOptions(command, written).option("--json", "one JSON document on stdout");
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

/** @param urls as `--nats` takes them. @throws Refusal */
export function natsOf(urls: string, flags: NatsCredentialFlags): ExistingNats {
  return existingNats({ ...flags, nats: urls })!;
}

/** @throws Refusal */
export function mannerOf(flags: RackFlags) {
  const prepare = prepareOptions(flags, wordOf("--pack", flags.pack, PACKINGS));
  return { prepare, trace: flags.trace ?? false, ...worldOf(flags) };
}

/** @throws Refusal */
export function worldOf(flags: WorldFlags) {
  const { pcap, perfetto } = flags;
  return given({ nats: existingNats(flags), pcap, perfetto });
}

/** @throws Refusal */
export function prepareOptions(flags: VariantFlags, packing: Packing): PrepareOptions {
  return { packing, isTyped: true, ...given({ input: flags.input }), ...readTable(CHOICES, flags) };
}

export interface AtOnceFlags extends JobsFlags {
  readonly lanes?: string;
}

/** Racks in one process each, or as processes. @param what they are. */
export function addAtOnceOptions(command: Command, what: string): Command {
  return addJobsOption(command, `with --pack all: ${what}`).option(
    "--lanes <n>",
    `as processes: ${what} at a time in one set of them, 1 to ${SET_MAX} (${LANES})`,
  );
}

/** `jobs` of racks in one process each, `lanes` of racks of processes. @throws Refusal */
export function atOnceOf(
  flags: AtOnceFlags,
  packing: Packing,
): { readonly jobs?: number; readonly lanes?: number } {
  const { jobs, lanes } = flags;
  const found = `together with --pack ${packing}`;
  if (packing === "all") {
    if (lanes === undefined) return { jobs: jobsOf(flags) };
    throw refusal("--lanes", { found, expected: "--jobs, or --pack node or machine" });
  }
  if (jobs !== undefined) throw refusal("--jobs", { found, expected: "--lanes, or --pack all" });
  return given({
    lanes: lanes === undefined ? undefined : whole("--lanes", lanes, { least: 1, most: SET_MAX }),
  });
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

export interface ElsewhereFlags {
  readonly elsewhere?: string;
  readonly liveness?: string;
}

export function addElsewhereOption(command: Command): Command {
  const about = "devices that rack node starts on other machines, separated by commas";
  const silent = "of those: one that is silent for so long is dead";
  return command.option("--elsewhere <devices>", about)
    .option("--liveness <ms>", `${silent} (${LIVENESS_ELSEWHERE_MS})`);
}

/** For those that have not come yet, it says what to type there. */
export function elsewhereOf({ elsewhere, liveness, nats, json }:
  & ElsewhereFlags
  & WorldFlags
  & { readonly json?: boolean }) {
  if (elsewhere === undefined) {
    if (liveness === undefined) return {};
    throw refusal("--liveness", { found: "no --elsewhere", expected: "devices that it holds for" });
  }
  const place = nats?.replaceAll(/[^,/]*@/g, "");
  const onMissing = (run: string, devices: readonly string[]) => {
    if (json === true || devices.length === 0) return;
    const command = `rack node ${place ?? run} ${devices.join(" ")}`;
    const which = place === undefined ? "" : ` --run ${run}`;
    say(`${run} waits for ${devices.join(", ")}: ${command}${which}`);
  };
  return {
    elsewhere: elsewhere.split(",").map((name) => name.trim()),
    ...(liveness !== undefined && { livenessMs: whole("--liveness", liveness, LIVENESS_RANGE) }),
    onMissing,
  };
}

export interface CheckFlags {
  /** False with `--no-check`. */
  readonly check?: boolean;
}

export function addCheckOption(command: Command): Command {
  return command.option("--no-check", "do not check the types of your own programs first");
}

/** Checks the types of its own programs first, as {@link checkTypesFirst} does. @throws Refusal */
export async function checkedScenario(
  path: string,
  flags: Parameters<typeof checkTypesFirst>[1] & AllowReadFlag,
  more?: readonly string[],
): Promise<ScenarioSource> {
  const source = await readScenario(path, flags);
  await checkTypesFirst(source, flags, more);
  return source;
}

/**
 * Of a scenario's own programs, or of one program by its path. @param more programs beside the
 * scenario's. @throws Refusal with all that is wrong.
 */
export async function checkTypesFirst(
  scenario: ScenarioSource | string,
  { check = true, json = false }: CheckFlags & { readonly json?: boolean | undefined },
  more?: readonly string[],
): Promise<void> {
  if (check && !Deno.env.get(NO_CHECK)) await typesOf(scenario, { json, ...(more && { more }) });
}

/** @returns undefined where there is no program of one's own. @throws Refusal */
export async function typesOf(
  scenario: ScenarioSource | string,
  { json = false, more = [] }: { readonly json?: boolean; readonly more?: readonly string[] } = {},
): Promise<CheckedTypes | undefined> {
  // Most scenarios need nothing of it.
  const { checkScenarioTypes } = await import("../../console/rack/own/types/check_scenario.ts");
  return await checkScenarioTypes(scenario, {
    more,
    onBegin: () => {
      if (!json) say("checking types");
    },
  });
}

const JOBS = { jobs: SWEEP_OPTIONS.jobs };

export interface JobsFlags {
  readonly jobs?: string;
}

/** @param what is done by several processes, each of them several one after the other. */
export function addJobsOption(command: Command, what: string): Command {
  return addTable(command, { jobs: jobsRow(what) });
}

/** Fewer than are asked for where memory does not suffice. @throws Refusal */
export function jobsOf(flags: JobsFlags): number {
  return workersFor({ ...readTable(JOBS, flags), onFewer: say });
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
