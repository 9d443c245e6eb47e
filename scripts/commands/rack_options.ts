/**
 * Options of commands that run or prepare a rack. They load what a run is made of, which commands to a rack that is up
 * do without: see `options.ts`.
 */
import type { Command } from "commander";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { CHOICES } from "../../fabric/rack/plan/vocabulary.ts";
import { type Packing, PACKINGS } from "../../fabric/rack/assembly/topology.ts";
import { jobsRow, SWEEP_OPTIONS } from "../../console/api/options.ts";
import { workersFor } from "../../console/base/workers.ts";
import { type ExistingNats, existingNats } from "../../console/rack/existing_nats.ts";
import { LIVENESS_ELSEWHERE_MS, LIVENESS_RANGE } from "../../console/rack/elsewhere.ts";
import { LANES, SET_MAX } from "../../console/rack/side_by_side.ts";
import { NO_CHECK } from "../../console/base/no_check.ts";
import type { CheckedTypes } from "../../console/rack/own/types/check_types.ts";
import type { PrepareOptions } from "../../console/rack/prepare.ts";
import { readScenario, type ScenarioSource } from "../../console/scenarios/scenario_source.ts";
import {
  addCaptureOptions,
  addTable,
  type FlagsOf,
  given,
  type NatsCredentialFlags,
  readTable,
  whole,
  wordOf,
  wordOption,
  type WorldFlags,
} from "./options.ts";
import { say } from "./output.ts";

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
  return workersFor({ ...given({ jobs: jobsOfAll() }), ...readTable(JOBS, flags), onFewer: say });
}

/** In the environment: `--jobs` of commands that are not told. */
const JOBS_OF_ALL = "RACKMESH_JOBS";

/** @throws Refusal */
function jobsOfAll(): number | undefined {
  const text = Deno.env.get(JOBS_OF_ALL);
  if (!text) return undefined;
  const { least, most } = JOBS.jobs;
  return whole(JOBS_OF_ALL, text, { least, most });
}
