/**
 * A scenario file, read: YAML text in, every name and number checked, every default filled in, or all
 * that is wrong with it at once. Pure: a file named in it is somebody else's to open.
 *
 * Read `schema.ts` for the shape, `checks.ts` for what several values have to agree on, `variants.ts`
 * for what `all` and `both` stand for, `topology.ts` for what becomes of it.
 */
import type { z } from "zod";
import type { Architecture, FaultPlan, HostPlan, HostTiming, PersistenceDomain } from "./plan.ts";
import type { RnicPlan, RnicTiming, SwitchPlan } from "./plan.ts";
import type { Time } from "../time/time.ts";
import { checkScenario } from "./checks.ts";
import type { CongestionScenario } from "./congestion.ts";
import { resolveFabric, resolveHost } from "./defaults.ts";
import { cutSchema, LINK_KEYS, linkFaultSchema, powerFaultSchema } from "./fault_schema.ts";
import { type LinkFaultScenario, readLinkFault } from "./link_faults.ts";
import type { LeafSpine } from "./network.ts";
import { listOf, nearest, type Problem, ScenarioError, showFound } from "./problem.ts";
import { PROFILE_NAMES, type ProfileName, PROFILES } from "./profile.ts";
import {
  captureSchema,
  type CaptureSection,
  fabricSchema,
  hostSchema,
  type HostSection,
  knownKeys,
  OPTION_SCHEMAS,
  programSchema,
  SCENARIO_KEYS,
  SECTIONS,
} from "./schema.ts";
import { type ExpectationName, PROGRAMS } from "./vocabulary.ts";
import { formatPath, type Path, readYaml, type YamlSource } from "./yaml_source.ts";

/** A scenario in which `method` may still be several and `ddio` may still be both. Plain data. */
export interface Scenario {
  /** The name of the file, as messages give it. */
  readonly file: string;
  readonly name: string;
  readonly seed: number;
  readonly profile: ProfileName;
  readonly fabric: FabricScenario;
  /** Sorted by name. */
  readonly hosts: readonly HostScenario[];
  /** In the file's order, one for each host that runs it. */
  readonly programs: readonly ProgramScenario[];
  /** Power failures and returns, by time. */
  readonly faults: readonly FaultPlan[];
  /** What goes wrong with cables, in the file's order. */
  readonly linkFaults: readonly LinkFaultScenario[];
  readonly expect: readonly ExpectationName[];
  readonly until: Time | null;
  readonly capture: CaptureScenario;
}

/** Captures that every run is to leave: in its directory, or where a path says. */
export type CaptureScenario = CaptureSection;

export interface FabricScenario {
  readonly topology: "star" | "direct" | "leaf-spine";
  readonly leafSpine?: LeafSpine;
  readonly bitsPerSecond: number;
  /** Of each network cable. */
  readonly latencyPs: Time;
  readonly mtu: RnicPlan["mtu"];
  readonly switch: Pick<SwitchPlan, "mode" | "latencyPs" | "queueBytes" | "bufferBytes">;
  readonly bus: { readonly latencyPs: Time; readonly bitsPerSecond: number };
  /** ECN, PFC and DCQCN; absent where all of it is off. */
  readonly congestion?: CongestionScenario;
}

export interface HostScenario {
  readonly name: string;
  readonly ddio: "on" | "off" | "both";
  readonly architecture: Architecture;
  readonly domain: PersistenceDomain;
  readonly scmBytes: number;
  /** Named stretches of SCM, by where they begin. They do not overlap. */
  readonly regions: readonly RegionScenario[];
  readonly dramBytes: number;
  readonly cores: number;
  readonly completion: "poll" | "interrupt";
  readonly queues: number;
  readonly llc: HostPlan["llc"];
  readonly queueCache: RnicPlan["queueCache"];
  readonly services: readonly string[];
  /** Its switch in a leaf–spine network, from 1; absent: where the fewest hosts are. */
  readonly leaf?: number;
  readonly timing: { readonly host: HostTiming; readonly rnic: RnicTiming };
}

export interface RegionScenario {
  readonly name: string;
  readonly at: number;
  readonly bytes: number;
}

export interface ProgramScenario {
  readonly on: string;
  readonly run: string;
  /** After the host's boot. */
  readonly at: Time;
  /** By the scenario's words; `method` of a shipped program is a list. */
  readonly options: Readonly<Record<string, unknown>>;
}

/** What was read so far, for the checks: each part with its place in the file. */
export interface Draft {
  /** Every name in the file's order, also of hosts whose options are wrong. */
  readonly hostNames: readonly string[];
  /** Where the file says it. */
  readonly hostPaths: ReadonlyMap<string, Path>;
  readonly fabric: FabricScenario;
  readonly hasSwitchOptions: boolean;
  /** Keys of `fabric` that only a leaf–spine network has. */
  readonly leafSpineKeys: readonly string[];
  readonly hosts: readonly HostScenario[];
  readonly programs: readonly { readonly path: Path; readonly program: DraftProgram }[];
  readonly faults: readonly { readonly path: Path; readonly fault: FaultPlan }[];
  readonly linkFaults: readonly DraftLinkFault[];
  readonly until: Time | null;
}

export interface DraftLinkFault {
  readonly path: Path;
  readonly fault: LinkFaultScenario;
}

export interface DraftProgram extends Omit<ProgramScenario, "on"> {
  readonly on: readonly string[];
}

/** Says that the value (or, with `key`, the key) at `path` is wrong. */
export type Report = (
  path: Path,
  problem: { readonly found: string; readonly expected: string; readonly key?: boolean },
) => void;

interface Reading {
  readonly source: YamlSource;
  readonly report: Report;
}

/**
 * Reads a scenario.
 * @param file its name, for messages.
 * @throws {ScenarioError} with all problems.
 */
export function parseScenario(text: string, file: string): Scenario {
  const { source, problems: syntax } = readYaml(text, file);
  const problems: Problem[] = [...syntax];
  if (source.data === undefined && problems.length > 0) throw new ScenarioError(problems);
  const report: Report = (path, { found, expected, key }) => {
    const position = key ? source.locateKey(path) : source.locate(path);
    problems.push({ file, ...position, path: formatPath(path), found, expected });
  };
  const scenario = readSections({ source, report }, file);
  if (problems.length > 0 || scenario === undefined) throw new ScenarioError(problems);
  return scenario;
}

function readSections(reading: Reading, file: string): Scenario | undefined {
  const { source, report } = reading;
  const { data } = source;
  if (!isMapping(data)) {
    report([], { found: showFound(data), expected: "a mapping with name and hosts" });
    return undefined;
  }
  checkKeys(reading, [], { found: Object.keys(data), known: SCENARIO_KEYS });
  const name = read(reading, ["name"], SECTIONS.name);
  const profile = read(reading, ["profile"], SECTIONS.profile) ?? PROFILE_NAMES[0]!;
  const fabricSection = read(reading, ["fabric"], fabricSchema.nullish()) ?? {};
  const fabric = resolveFabric(PROFILES[profile], fabricSection);
  const until = read(reading, ["until"], SECTIONS.until) ?? null;
  const { paths, hosts } = readHosts(reading, profile);
  const names = [...paths.keys()];
  const draft: Draft = {
    hostNames: names,
    hostPaths: paths,
    fabric,
    hasSwitchOptions: fabricSection.switch !== undefined,
    leafSpineKeys: (["leaves", "spines", "cables", "convergence"] as const).filter((key) =>
      fabricSection[key] !== undefined
    ),
    hosts,
    programs: readPrograms(reading),
    ...readFaults(reading),
    until,
  };
  if (names.length > 0 || isMapping(data.hosts)) checkScenario(draft, report);
  return {
    file,
    name: name ?? "",
    seed: read(reading, ["seed"], SECTIONS.seed) ?? 1,
    profile,
    fabric,
    hosts: hosts.toSorted((x, y) => x.name < y.name ? -1 : 1),
    programs: draft.programs.flatMap(({ program }) => expand(program, names)),
    faults: draft.faults.map(({ fault }) => fault).toSorted((x, y) => x.at - y.at),
    linkFaults: draft.linkFaults.map(({ fault }) => fault),
    expect: readList(reading, ["expect"]).flatMap(({ path }) =>
      read(reading, path, SECTIONS.expectation) ?? []
    ),
    until,
    capture: read(reading, ["capture"], captureSchema.nullish()) ?? {},
  };
}

/** The value at `path` by its schema; undefined where it is wrong, which is reported. */
function read<T>(reading: Reading, path: Path, schema: z.ZodType<T>): T | undefined {
  const result = schema.safeParse(valueAt(reading.source.data, path));
  if (result.success) return result.data;
  for (const issue of result.error.issues) {
    const at = [...path, ...issue.path.map((part) => typeof part === "symbol" ? "" : part)];
    if (issue.code === "unrecognized_keys") {
      checkKeys(reading, at, { found: issue.keys, known: knownKeys(issue.message) });
    } else {
      const found = showFound(valueAt(reading.source.data, at));
      reading.report(at, { found, expected: issue.message });
    }
  }
  return undefined;
}

/** Reports the keys that are not known, each with the one that was probably meant. */
function checkKeys(
  { report }: Reading,
  path: Path,
  keys: { readonly found: readonly string[]; readonly known: readonly string[] },
): void {
  for (const key of keys.found) {
    if (keys.known.includes(key)) continue;
    const expected = nearest(key, keys.known) ?? listOf(keys.known);
    report([...path, key], { found: "an unknown key", expected, key: true });
  }
}

function readHosts(
  reading: Reading,
  profile: ProfileName,
): { paths: Map<string, Path>; hosts: HostScenario[] } {
  const defaults: HostSection = read(reading, ["defaults"], hostSchema.nullish()) ?? {};
  const paths = new Map<string, Path>();
  const hosts: HostScenario[] = [];
  const section = valueAt(reading.source.data, ["hosts"]);
  if (!isMapping(section)) {
    const expected = "a mapping of at least one name to a host's options";
    reading.report(["hosts"], { found: showFound(section), expected });
    return { paths, hosts };
  }
  for (const key of Object.keys(section)) {
    const path = ["hosts", key];
    const own = read(reading, path, hostSchema.nullish());
    const wrong = own === undefined && section[key] !== null && section[key] !== undefined;
    for (const name of namesOf(key)) {
      if (paths.has(name)) {
        const problem = { found: `${name} a second time`, expected: "each host once", key: true };
        reading.report(path, problem);
        continue;
      }
      paths.set(name, path);
      if (wrong) continue;
      hosts.push(resolveHost(name, { profile: PROFILES[profile], defaults, own: own ?? {} }));
    }
  }
  return { paths, hosts };
}

/** `h08..h11` is h08, h09, h10 and h11; anything else is one name, right or wrong. */
function namesOf(key: string): string[] {
  const range = /^(.*?)(\d{1,3})\.\.(.*?)(\d{1,3})$/.exec(key);
  if (range === null || range[1] !== range[3]) return [key];
  const [, prefix, from, , to] = range as unknown as [string, string, string, string, string];
  const first = Number(from), last = Number(to);
  if (last < first) return [key];
  return Array.from(
    { length: last - first + 1 },
    (_, i) => prefix + String(first + i).padStart(from.length, "0"),
  );
}

function readPrograms(reading: Reading): Draft["programs"] {
  return readList(reading, ["programs"]).flatMap(({ path }) => {
    const section = read(reading, path, programSchema);
    if (section === undefined) return [];
    const { on, run, at, ...options } = section;
    const checked = readOptions(reading, path, { run, options });
    return [{ path, program: { on, run, at: at ?? 0, options: checked } }];
  });
}

/** Options of a shipped program by its vocabulary; those of any other as they stand. */
function readOptions(
  reading: Reading,
  path: Path,
  program: { readonly run: string; readonly options: Readonly<Record<string, unknown>> },
): Record<string, unknown> {
  const { run, options } = program;
  if (isOwnProgram(run)) return { ...options };
  const words = Object.hasOwn(PROGRAMS, run) ? PROGRAMS[run] : undefined;
  if (words === undefined) {
    const names = Object.keys(PROGRAMS);
    const expected = nearest(run, names) ?? `${names.join(", ")} or a path like ./my_program.ts`;
    reading.report([...path, "run"], { found: showFound(run), expected });
    return { ...options };
  }
  checkKeys(reading, path, {
    found: Object.keys(options),
    known: ["on", "run", "at", ...Object.keys(words)],
  });
  const checked: Record<string, unknown> = {};
  for (const [key, { kind, required }] of Object.entries(words)) {
    if (!Object.hasOwn(options, key) && required !== true) continue;
    const value = read(reading, [...path, key], OPTION_SCHEMAS[kind]);
    if (value !== undefined) checked[key] = value;
  }
  return checked;
}

/** A user's program is named by its path. */
export function isOwnProgram(run: string): boolean {
  return /^(\.{0,2}\/).*\.[jt]s$/.test(run);
}

function readFaults(reading: Reading): Pick<Draft, "faults" | "linkFaults"> {
  const faults: Draft["faults"][number][] = [], linkFaults: DraftLinkFault[] = [];
  for (const { path } of readList(reading, ["faults"])) {
    const item = valueAt(reading.source.data, path);
    const has = (keys: readonly string[]) =>
      isMapping(item) && keys.some((key) => Object.hasOwn(item, key));
    if (has(LINK_KEYS) || has(["cut", "heal"])) {
      const fault = has(LINK_KEYS) ? readImpairment(reading, path) : readCut(reading, path);
      if (fault !== undefined) linkFaults.push({ path, fault });
    } else {
      const fault = readPowerFault(reading, path);
      if (fault !== undefined) faults.push({ path, fault });
    }
  }
  return { faults, linkFaults };
}

function readPowerFault(reading: Reading, path: Path): FaultPlan | undefined {
  const section = read(reading, path, powerFaultSchema);
  if (section === undefined) return undefined;
  const { at, kill, start } = section;
  if ((kill === undefined) === (start === undefined)) {
    const found = kill === undefined ? "no fault" : "both kill and start";
    const expected = kill === undefined
      ? "one of kill, start, cut and heal, or link"
      : "one of kill and start";
    reading.report(path, { found, expected });
    return undefined;
  }
  return kill !== undefined
    ? { at, action: "kill", node: kill }
    : { at, action: "start", node: start! };
}

function readCut(reading: Reading, path: Path): LinkFaultScenario | undefined {
  const section = read(reading, path, cutSchema);
  if (section === undefined) return undefined;
  const { at, cut, heal } = section;
  if (cut !== undefined && heal !== undefined) {
    reading.report(path, { found: "both cut and heal", expected: "one of cut and heal" });
    return undefined;
  }
  return cut !== undefined
    ? { target: cut, action: "cut", at }
    : { target: heal!, action: "heal", at };
}

function readImpairment(reading: Reading, path: Path): LinkFaultScenario | undefined {
  const section = read(reading, path, linkFaultSchema);
  if (section === undefined) return undefined;
  const fault = readLinkFault(section);
  if (!("found" in fault)) return fault;
  const { key, found, expected } = fault;
  reading.report(key === undefined ? path : [...path, key], {
    found,
    expected,
    ...(key !== undefined && { key: true }),
  });
  return undefined;
}

/** Paths of the items of a list that may be left out. */
function readList(reading: Reading, path: Path): { path: Path }[] {
  const value = valueAt(reading.source.data, path);
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return value.map((_, i) => ({ path: [...path, i] }));
  reading.report(path, { found: showFound(value), expected: "a list" });
  return [];
}

/** One program for each of its hosts; `next` is the host after it, by name and around. */
function expand(program: DraftProgram, names: readonly string[]): ProgramScenario[] {
  const sorted = names.toSorted();
  const { on, run, at, options } = program;
  const hosts = on.length === 1 && on[0] === "all" ? sorted : on;
  return hosts.map((host) => {
    const next = sorted[(sorted.indexOf(host) + 1) % sorted.length];
    const resolved = Object.entries(options).map(([key, value]) =>
      [key, value === "next" && (key === "to" || key === "from") ? next : value] as const
    );
    return { on: host, run, at, options: Object.fromEntries(resolved) };
  });
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function valueAt(data: unknown, path: Path): unknown {
  let value = data;
  for (const part of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) {
      return undefined;
    }
    value = (value as Record<string | number, unknown>)[part];
  }
  return value;
}
