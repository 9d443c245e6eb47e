/** Explores each variant of a scenario, and keeps the faults that replay counterexamples. */
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { importPrograms } from "../../nodes/files.ts";
import { madeUpBytes } from "../../nodes/host/programs/common/made_up.ts";
import { optionWords, quoted } from "../base/command_line.ts";
import { fileName } from "../captures/captures.ts";
import {
  lacksInput,
  prepare,
  type Prepared,
  type PrepareOptions,
  readScenario,
} from "../rack/prepare.ts";
import { createRunDirectory } from "../rack/run_directory.ts";
import { faultLines } from "./counterexample.ts";
import { explore } from "./explore.ts";
import type { Explored } from "./report.ts";
import type { Cut, ExploredRack, ExploreOptions, Verdict } from "./types.ts";
import { EXPLORE_DEFAULTS } from "./types.ts";

export interface ExploreScenarioOptions {
  readonly prepare: PrepareOptions;
  /** `stopped` is called between variants, too: true ends with those that are known. */
  readonly explore: ExploreOptions;
  /** What is explored, and how much of all is done, in [0, 1]. */
  readonly onProgress?: (title: string, share: number) => void;
}

/** A variant that was explored, and which one it is. */
export interface ExploredVariant extends Explored {
  readonly variant: Prepared["variant"];
}

export interface ExploredScenario {
  readonly scenario: string;
  readonly seed: number;
  readonly explored: readonly ExploredVariant[];
  /** Whether all variants were explored, and not only the first ones. */
  readonly isWhole: boolean;
}

/** @throws Refusal; Error where a program keeps state from run to run. */
export async function exploreScenario(
  scenario: string,
  options: ExploreScenarioOptions,
): Promise<ExploredScenario> {
  const { onProgress } = options;
  const place = await placeOf(scenario, options.prepare.input);
  const { input = place.input } = options.prepare;
  const choices = { ...options.prepare, ...(input !== undefined && { input }) };
  const prepared = await prepare(scenario, choices);
  checkHost(prepared, options.explore.cut);
  const explored: ExploredVariant[] = [];
  for (const [i, one] of prepared.entries()) {
    if (options.explore.stopped?.()) break;
    const rack = await rackOf(one);
    const verdict = await explore(rack, options.explore, ({ share, crashPoints }) => {
      onProgress?.(`${one.label}: ${crashPoints} crash points`, (i + share) / prepared.length);
    });
    const command = await leave(verdict, { scenario, choices, options, one, place });
    explored.push({ label: one.label, verdict, command, variant: one.variant });
  }
  if (explored.every(({ command }) => command === null)) await place.remove();
  const { plan } = prepared[0]!;
  const isWhole = explored.length === prepared.length;
  return { scenario: plan.scenario, seed: plan.seed, explored, isWhole };
}

/** @throws Refusal where a file cannot be read, or is no program. */
async function rackOf(prepared: Prepared): Promise<ExploredRack> {
  const { plan } = prepared;
  const inputs: Record<string, Record<string, Uint8Array>> = {};
  for (const [host, files] of Object.entries(prepared.inputs)) {
    const read: Record<string, Uint8Array> = {};
    for (const [name, path] of Object.entries(files)) read[name] = await readInput(path);
    inputs[host] = read;
  }
  return { plan, inputs, ...await importPrograms(prepared) };
}

async function readInput(path: string): Promise<Uint8Array> {
  try {
    return await Deno.readFile(path);
  } catch (cause) {
    throw refusal("", { found: `Cannot read ${path}: ${(cause as Error).message}`, cause });
  }
}

function checkHost(prepared: readonly Prepared[], cut: Cut | undefined): void {
  if (typeof cut !== "object") return;
  const hosts = prepared[0]!.plan.nodes.filter(({ kind }) => kind === "host")
    .map(({ name }) => name);
  if (hosts.includes(cut.host)) return;
  const expected = `${hosts.join(", ")}, each or all`;
  throw refusal("--cut", { found: `"${cut.host}"`, expected });
}

/** Size of the input where neither scenario nor options have one: four messages. */
const MADE_UP_BYTES = 16 * 1024;

/** Directory of counterexamples, and of an input where one is missing. */
interface Place {
  readonly input: string | undefined;
  /** The directory; made when it is first asked for. */
  readonly path: () => Promise<string>;
  readonly remove: () => Promise<void>;
}

async function placeOf(scenario: string, given: PrepareOptions["input"]): Promise<Place> {
  const { name, programs } = await readScenario(scenario);
  let made: string | undefined;
  const path = async () => made ??= (await createRunDirectory(name)).path;
  const remove = async () => {
    if (made !== undefined) await Deno.remove(made, { recursive: true });
  };
  if (!programs.some((program) => lacksInput(program, given))) {
    return { input: undefined, path, remove };
  }
  const input = `${await path()}/made-up.bin`;
  await Deno.writeFile(input, madeUpBytes(MADE_UP_BYTES, "made-up"));
  return { input, path, remove };
}

/** Writes a counterexample's faults. @returns the command that replays it. */
async function leave(
  { counterexample }: Verdict,
  context: {
    readonly scenario: string;
    readonly choices: PrepareOptions;
    readonly options: ExploreScenarioOptions;
    readonly one: Prepared;
    readonly place: Place;
  },
): Promise<string | null> {
  if (counterexample === null) return null;
  const { scenario, choices, options, one, place } = context;
  const path = `${await place.path()}/${fileName(one.label)}.jsonl`;
  await Deno.writeTextFile(path, faultLines(counterexample).map((line) => `${line}\n`).join(""));
  const isOnly = one.label === one.variant.name;
  const { input, size, depth, seed } = choices;
  const words = optionWords({
    input: typeof input === "string" ? input : undefined,
    method: choices.method ?? (isOnly ? undefined : one.variant.method),
    ddio: choices.ddio ?? (isOnly ? undefined : one.variant.ddio),
    size,
    depth,
    seed,
  });
  if (options.explore.claims) words.push("--claims");
  const { atPs, isReplayable } = counterexample;
  if (isReplayable) words.push("--pack", "all", "--faults", quoted(path));
  else {
    words.push(...optionsAgain(options.explore), "--from", `${atPs}ps`, "--until", `${atPs + 1}ps`);
  }
  return [`rack ${isReplayable ? "run" : "explore"}`, quoted(scenario), ...words].join(" ");
}

/** The options that the same choices at that instant need. */
function optionsAgain({ cut, cuts, choices, tear }: ExploreOptions): string[] {
  const assumed: Readonly<Record<string, unknown>> = EXPLORE_DEFAULTS;
  const given = { cut: typeof cut === "object" ? cut.host : cut, cuts, choices, tear };
  const other = Object.entries(given).filter(([name, value]) => value !== assumed[name]);
  return optionWords(Object.fromEntries(other));
}
