import { resolve } from "node:path";
import {
  makePlan,
  type Packing,
  type PartitionPlan,
  partitionsOf,
} from "../../fabric/rack/assembly/topology.ts";
import { type BundleOptions, bundleProgram } from "./own/bundle.ts";
import { type Probed, probeProgram } from "./own/probe.ts";
import type { LinkFaultPlan } from "../../fabric/rack/plan/link_plan.ts";
import {
  type FaultPlan,
  type HoldPlan,
  type RackPlan,
  type StallPlan,
  withHolds,
  type WritebackPlan,
} from "../../fabric/rack/plan/plan.ts";
import type { NativeManner, RunFile } from "../../fabric/rack/assembly/run_file.ts";
import type { ProgramScenario, Scenario } from "../../fabric/rack/scenario/scenario.ts";
import {
  type ScenarioVariant,
  takes,
  type VariantChoices,
  variants,
} from "../../fabric/rack/scenario/variants.ts";
import { isObjectName, OBJECT_NAME_EXPECTED } from "../../fabric/rack/plan/names.ts";
import { valuesIn } from "../../fabric/rack/plan/option_rows.ts";
import { CHOICES, type MethodName, METHODS, PROGRAMS } from "../../fabric/rack/plan/vocabulary.ts";
import { formatSize } from "../../fabric/rack/plan/units.ts";
import { DIRECTORY_BYTES } from "../../nodes/host/programs/common/scm_directory.ts";
import {
  oneOf,
  optionRefusal,
  Refusal,
  refusal,
  showFound,
} from "../../fabric/rack/plan/problem.ts";
import { ifThere } from "../base/files.ts";
import { RackError } from "../base/rack_error.ts";
import { type NativeDoor, withBinaries } from "./native/native.ts";
import { admitFile, type Reach, refuseSecret } from "../scenarios/read_door.ts";
import type { ScenarioSource } from "../scenarios/scenario_source.ts";
import { isOwnProgram } from "../../fabric/rack/scenario/parse_scenario.ts";

export interface Prepared {
  readonly label: string;
  readonly variant: ScenarioVariant;
  readonly plan: RackPlan;
  readonly partitions: readonly PartitionPlan[];
  /** Of the scenario. */
  readonly reach: Reach;
  /** Host → name in the scenario → absolute path. */
  readonly inputs: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Name in the scenario → module text of an own program or protocol (`own/bundle.ts`). */
  readonly programs: Readonly<Record<string, string>>;
  readonly hooked: readonly string[];
  /** For its native programs; absent: it has none, or is only looked at. */
  readonly native?: NativeManner;
}

export interface PrepareOptions extends VariantChoices {
  readonly packing: Packing;
  /** See `RunOptions.inspect`. */
  readonly stops?: boolean;
  /** Ends the trial load of own programs. */
  readonly signal?: AbortSignal | undefined;
  /** Typed by the user: an option that no program reads is an error. */
  readonly isTyped?: boolean;
  readonly seed?: number;
  /** What becomes of native programs; absent: they are refused. */
  readonly native?: NativeDoor;
  /** Replaces the scenario's faults, for a replay. */
  readonly faults?: readonly FaultPlan[];
  readonly writebacks?: readonly WritebackPlan[];
  readonly holds?: readonly HoldPlan[];
  readonly stalls?: readonly StallPlan[];
  /** Besides the scenario's; `none`: no cable fault at all. */
  readonly linkFaults?: readonly LinkFaultPlan[] | "none";
  readonly programs?: readonly ProgramScenario[];
  /** Besides the scenario's; no choice changes them, and paths are absolute. */
  readonly morePrograms?: readonly ProgramScenario[];
  /** Undefined leaves the program out. */
  readonly change?: (program: ProgramScenario) => ProgramScenario | undefined;
}

/**
 * The runs of a scenario, with the paths of their files.
 * @throws Refusal for a missing file; the signal's reason.
 */
export async function prepare(
  source: ScenarioSource,
  options: PrepareOptions,
): Promise<Prepared[]> {
  const { path, base, allowRead, isReadOnly = false, scenario: read } = source;
  if (options.isTyped) refuseUnused(read, { path, options });
  const { programs, native } = await withBinaries(options.programs ?? read.programs, {
    reach: source,
    door: options.native,
  });
  const scenario = {
    ...read,
    ...(options.seed !== undefined && { seed: options.seed }),
    programs: options.change === undefined
      ? programs
      : programs.flatMap((program) => options.change!(program) ?? []),
  };
  const bundled = new Map<string, Promise<OwnText>>();
  const prepared: Prepared[] = [];
  for (const { programs, ...rest } of variants(scenario, options)) {
    const variant = { ...rest, programs: [...programs, ...options.morePrograms ?? []] };
    checkMethods(variant);
    checkApart(variant, options.packing);
    const plan = withFaults(makePlan(variant), options);
    prepared.push({
      label: variant.label,
      variant,
      plan,
      partitions: partitionsOf(plan, options.packing),
      reach: { base, allowRead, isReadOnly },
      inputs: await findInputs(plan, source, options.input),
      ...(native && { native }),
      ...await findPrograms(variant, {
        reach: source,
        bundled,
        stops: options.stops,
        signal: options.signal,
      }),
    });
  }
  return prepared;
}

function refuseUnused(
  { programs }: Scenario,
  { path, options }: { path: string; options: VariantChoices },
): void {
  const isOfPrograms = (option: string) =>
    Object.values(PROGRAMS).some((words) => Object.hasOwn(words, option));
  for (const [option, value] of Object.entries(valuesIn(CHOICES, options))) {
    if (!isOfPrograms(option) || programs.some((each) => takes(each, option))) continue;
    const found = `"${value}", and no program of ${path} has a ${option}`;
    const expected = "none (the scenario has the options of a user's own program)";
    throw refusal((named) => named(option), { found, expected });
  }
}

function checkMethods({ programs }: ScenarioVariant): void {
  for (const { on, run, options } of programs) {
    const { method } = options;
    const persistsOnly = !isOwnProgram(run) && PROGRAMS[run]?.["method"]?.kind === "method";
    if (!persistsOnly || method === undefined) continue;
    if ((METHODS as readonly MethodName[]).includes(method as MethodName)) continue;
    const found = `${showFound(method)}, which program ${run} on ${on} has not`;
    throw refusal((named) => named("method"), { found, expected: oneOf(METHODS, String(method)) });
  }
}

/** Programs of one's own run with few rights, and native ones need more. @throws Refusal */
function checkApart({ programs, shared, coherence }: ScenarioVariant, packing: Packing): void {
  const native = programs.find((program) => program.native !== undefined);
  const own = programs.filter(({ run }) => isOwnProgram(run));
  const rules = shared.flatMap(({ judge }) => judge?.rule ?? []);
  const first = own[0]?.run ?? rules[0] ?? coherence;
  if (native === undefined || first === undefined) return;
  const at = `${native.run} on ${native.on}`;
  if (packing === "all") {
    const found = `all, and native program ${at} in one process with ${first}`;
    throw refusal("--pack", { found, expected: "node or machine: they have different rights" });
  }
  const beside = programs.find((each) =>
    each.native !== undefined && own.some(({ on }) => on === each.on)
  );
  if (beside === undefined && rules.length === 0 && coherence === undefined) return;
  const { run, on } = beside ?? native;
  const other = own.find((each) => beside?.on === each.on)?.run ?? rules[0] ?? coherence;
  const found = `Native program ${run} and ${other} are in the process of ${on}`;
  const where = beside === undefined ? "one of them" : "hosts of their own";
  throw refusal("", { found, expected: `${where}: they have different rights` });
}

function withFaults(plan: RackPlan, options: PrepareOptions): RackPlan {
  const { faults, writebacks = [], holds = [], stalls = [], linkFaults } = options;
  const { linkFaults: planned = [], ...rest } = withHolds(plan, holds);
  const all = linkFaults === "none" ? [] : [...planned, ...linkFaults ?? []];
  return {
    ...rest,
    faults: faults ?? plan.faults,
    ...(writebacks.length > 0 && { writebacks }),
    ...(stalls.length > 0 && { stalls }),
    ...(all.length > 0 && { linkFaults: all }),
  };
}

/** A `put` that has neither a file nor generated bytes to write. */
export function lacksInput({ run, options }: ProgramScenario, input: string | undefined): boolean {
  return run === "put" && input === undefined && options["file"] === undefined &&
    options["bytes"] === undefined;
}

/** @throws Refusal with the choices, if there are several. */
export function onlyOne(all: readonly Prepared[], scenario: string): Prepared {
  if (all.length === 1) return all[0]!;
  const methods = [...new Set(all.map(({ variant }) => variant.method))];
  const ddios = [...new Set(all.map(({ variant }) => variant.ddio))];
  const found = `${scenario} stands for ${all.length} runs, of which one is wanted`;
  throw optionRefusal((named) => {
    const choices = [
      ...(methods.length > 1 ? [`${named("method")} ${methods.join("|")}`] : []),
      ...(ddios.length > 1 ? [`${named("ddio")} ${ddios.join("|")}`] : []),
    ];
    return { path: "", found: `${found}: choose ${choices.join(" and ")}` };
  });
}

/** For copies of a run's inputs, as for the content of its orders. */
export const INPUT_BYTES_MAX = 1 << 30;

/**
 * Copies input files to `<directory>/inputs`, each once, for the owner alone: the run can be
 * replayed, and a process of it started again, after the user has changed or removed a file. Files
 * beyond `most` bytes in all stay in place: the replay then needs them there, unchanged.
 * @throws Refusal where a file cannot be copied.
 */
export async function keepInputs<Variant extends Pick<Prepared, "inputs">>(
  variants: readonly Variant[],
  directory: string,
  { most = INPUT_BYTES_MAX }: { readonly most?: number } = {},
): Promise<Variant[]> {
  const kept = new Map<string, string>();
  const paths = new Set(
    variants.flatMap(({ inputs }) =>
      Object.values(inputs).flatMap((files) => Object.values(files))
    ),
  );
  let left = most;
  for (const path of paths) {
    const { size } = await Deno.stat(path);
    if (size > left) continue;
    left -= size;
    const name = path.replace(/.*\//, "").replaceAll(/[^\w.-]/g, "_");
    const to = `${directory}/inputs/${kept.size}-${name}`;
    await copyFile(path, to);
    kept.set(path, to);
  }
  return variants.map((variant) => ({ ...variant, inputs: atCopies(variant.inputs, kept) }));
}

async function copyFile(from: string, to: string): Promise<void> {
  try {
    await Deno.mkdir(to.replace(/\/[^/]*$/, ""), { recursive: true, mode: 0o700 });
    await Deno.copyFile(from, to);
    await Deno.chmod(to, 0o600);
  } catch (cause) {
    const why = (cause as Error).message;
    throw new RackError(`Cannot keep a copy of ${from} with the run: ${why}`);
  }
}

function atCopies(inputs: Prepared["inputs"], kept: ReadonlyMap<string, string>) {
  return Object.fromEntries(
    Object.entries(inputs).map(([host, files]) => {
      const entries = Object.entries(files).map(([name, path]) => [name, kept.get(path) ?? path]);
      return [host, Object.fromEntries(entries)];
    }),
  );
}

export function runFileOf(
  prepared: Prepared,
  { observe, ...options }:
    & Pick<RunFile, "run" | "directory">
    & Partial<Omit<RunFile, "observe">>
    & {
      readonly observe?: RunFile["observe"] | undefined;
    },
): RunFile {
  const { plan, partitions, inputs, programs, native } = prepared;
  return {
    stayUp: false,
    livenessMs: 0,
    trace: false,
    delayMsMax: 0,
    ...options,
    ...(observe && { observe }),
    ...(native && { native }),
    plan,
    partitions,
    inputs,
    programs,
  };
}

/** @param given by the command line, which may name any file. */
async function findInputs(
  plan: RackPlan,
  reach: Reach,
  given: string | undefined,
): Promise<Record<string, Record<string, string>>> {
  const inputs: Record<string, Record<string, string>> = {};
  for (const node of plan.nodes) {
    if (node.kind !== "host") continue;
    for (const { run, options } of node.config.programs) {
      const file = options["file"];
      if (run !== "put" && run !== "log" && !isOwnProgram(run)) continue;
      // `bytes` asks for generated data of that size.
      if (run === "put" && file === undefined && options["bytes"] === undefined) {
        throw optionRefusal((named) => ({
          path: "",
          found: `Program put on ${node.name} has no input`,
          expected: `${named("input")} FILE, or "file:" or "bytes:" in the scenario`,
        }));
      }
      if (typeof file !== "string") continue;
      const role = `Input of ${run} on ${node.name}`;
      const found = file === given ? await findGiven(file, role) : admitFile(file, reach, role);
      const base = file.split("/").at(-1)!;
      if (run === "put" && options["name"] === undefined && !isObjectName(base)) {
        const named = `${JSON.stringify(base)} cannot name an object`;
        throw refusal("", { found: named, expected: `name: or a file of ${OBJECT_NAME_EXPECTED}` });
      }
      if (run === "put") await checkRoom(plan, { path: found, to: String(options["to"]) });
      (inputs[node.name] ??= {})[file] = found;
    }
  }
  return inputs;
}

async function checkRoom(plan: RackPlan, put: { path: string; to: string }): Promise<void> {
  const { size } = await Deno.stat(put.path);
  if (size === 0) {
    throw refusal("", { found: `${put.path} is empty`, expected: "a file with something in it" });
  }
  const host = plan.nodes.find(({ name }) => name === put.to);
  if (host?.kind !== "host" || size <= host.config.scmBytes - DIRECTORY_BYTES) return;
  const expected = `at most ${host.config.scmBytes - DIRECTORY_BYTES}, what ` +
    `host ${put.to} has room for with scm.size ${formatSize(host.config.scmBytes)}`;
  throw refusal("", { found: `${put.path} has ${size} B`, expected });
}

interface FindOptions extends Omit<BundleOptions, "reach"> {
  readonly signal?: AbortSignal | undefined;
}

async function findPrograms(
  variant: ScenarioVariant,
  { reach, bundled, ...options }: FindOptions & {
    readonly reach: Reach;
    readonly bundled: Map<string, Promise<OwnText>>;
  },
): Promise<Pick<Prepared, "programs" | "hooked">> {
  const programs: Record<string, string> = {};
  const hooked = new Set<string>();
  const load = (file: string) => {
    if (!bundled.has(file)) bundled.set(file, findProgram(file, reach, options));
    return bundled.get(file)!;
  };
  const rules = variant.shared.flatMap(({ judge }) => judge?.rule ?? []);
  for (const run of [...variant.programs.map(({ run }) => run), ...rules]) {
    if (!isOwnProgram(run)) continue;
    const { text, isHooked, isProtocol } = await load(run);
    if (isProtocol) throw misplaced(run, "rows of a protocol", "a program, or coherence: for it");
    programs[run] = text;
    if (isHooked) hooked.add(run);
  }
  const { coherence } = variant;
  if (coherence !== undefined) {
    const { text, isProtocol } = await load(coherence);
    if (!isProtocol) {
      throw misplaced(coherence, "a program", "rows of the coherent cards' protocol");
    }
    programs[coherence] = text;
  }
  return { programs, hooked: [...hooked] };
}

/** A file of one kind where another is meant. */
export function misplaced(file: string, what: string, expected: string): Refusal {
  return refusal("", { found: `The default export of ${file} is ${what}`, expected });
}

interface OwnText extends Omit<Probed, "why"> {
  readonly text: string;
}

/**
 * The module text of a user's program, which has been loaded once.
 * @throws Refusal; the signal's reason.
 */
export async function findProgram(
  run: string,
  reach: Reach,
  { signal, ...options }: FindOptions = {},
): Promise<OwnText> {
  const path = findProgramFile(run, reach);
  const text = await bundleProgram(path, { ...options, reach });
  const { isHooked, isProtocol } = await probeProgram(text, { path, signal });
  return { text, isHooked, isProtocol };
}

/** Of a program that the command line names, wherever it is: its own folder is its reach. */
export function reachOfProgram(file: string): Reach {
  const real = ifThere(() => Deno.realPathSync(file)) ?? resolve(file);
  return { base: Deno.cwd(), allowRead: [real.replace(/\/[^/]*$/, "") || "/"] };
}

/** @throws Refusal where there is no such file, or the scenario may not read it. */
export function findProgramFile(run: string, reach: Reach): string {
  return admitFile(run, reach, `Program ${run}`);
}

async function findGiven(path: string, role: string): Promise<string> {
  try {
    const real = await Deno.realPath(path);
    refuseSecret(real, role);
    if ((await Deno.stat(real)).isFile) return real;
  } catch (cause) {
    if (cause instanceof Refusal) throw cause;
    const expected = "a file that can be read";
    throw refusal("", { found: `${role}: cannot find ${path}`, expected, cause });
  }
  throw refusal("", { found: `${role}: ${path} is not a file`, expected: "one" });
}
