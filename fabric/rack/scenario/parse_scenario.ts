/** Every value checked, every default filled in, or all problems at once. */
import type { Draft, DraftProgram, HostScenario, ProgramScenario, Scenario } from "./scenario.ts";
import { formatPath, type Path, readYaml, type YamlSource } from "./yaml_source.ts";
import { nearest, type Problem, Refusal, showFound } from "../plan/problem.ts";
import { isMapping } from "../../base/mapping.ts";
import {
  checkKeys,
  isOfRange,
  read,
  type Reading,
  readList,
  type Report,
  valueAt,
} from "./reading.ts";
import {
  expectationSchema,
  type FabricSection,
  hostSchema,
  type HostSection,
  nativeSchema,
  OPTION_SCHEMAS,
  programSchema,
  SECTIONS,
} from "./schema.ts";
import { PROFILE_NAMES, type ProfileName, PROFILES } from "../plan/profile.ts";
import { resolveFabric, resolveHost } from "./defaults.ts";
import { readShared } from "./shared_regions.ts";
import { readFaults } from "./fault_reading.ts";
import { checkScenario } from "./checks.ts";
import { namesInRange } from "../plan/names.ts";
import { PROGRAMS } from "../plan/vocabulary.ts";
import { isOwnFile } from "./values.ts";

/** `file` is its name in messages. @throws {Refusal} with all problems. */
export function parseScenario(text: string, file: string): Scenario {
  return readScenarioOf(text, file).scenario;
}

export function readScenarioOf(
  text: string,
  file: string,
): { readonly scenario: Scenario; readonly yaml: YamlSource } {
  const { source, problems: syntax } = readYaml(text, file);
  const problems: Problem[] = [...syntax];
  if (source.data === undefined && problems.length > 0) throw new Refusal(problems);
  const ranges = new Map<string, OfRange>();
  const report: Report = (path, { found, expected, key }) => {
    const at = formatPath(path), kind = kindOf({ path: at, found, expected });
    const range = ranges.get(kind);
    if (range !== undefined) {
      range.more++;
      return;
    }
    if (isOfRange(source.data, path)) ranges.set(kind, { place: problems.length, more: 0 });
    const position = key ? source.locateKey(path) : source.locate(path);
    problems.push({ file, ...position, path: at, found, expected });
  };
  const scenario = readSections({ source, report }, file);
  for (const { place, more } of ranges.values()) {
    const problem = problems[place]!;
    const found = `${problem.found}, and ${more} more of its range`;
    if (more > 0) problems[place] = { ...problem, found };
  }
  if (problems.length > 0 || scenario === undefined) throw new Refusal(problems);
  return { scenario, yaml: source };
}

/** Problems at one place that differ in numbers alone, as for names of a range, are of one kind. */
function kindOf({ path, found, expected }: Pick<Problem, "path" | "found" | "expected">): string {
  return [path, ...[found, expected].map((text) => text.replaceAll(/\d+/g, "0"))].join("\n");
}

interface OfRange {
  readonly place: number;
  more: number;
}

function readSections(reading: Reading, file: string): Scenario | undefined {
  const { source, report } = reading;
  const { data } = source;
  if (!isMapping(data)) {
    report([], { found: showFound(data), expected: "a mapping with name and hosts" });
    return undefined;
  }
  checkKeys(reading, [], { found: Object.keys(data), known: Object.keys(SECTIONS) });
  const name = read(reading, ["name"], SECTIONS.name);
  const profile = read(reading, ["profile"], SECTIONS.profile) ?? PROFILE_NAMES[0]!;
  const fabricSection = read(reading, ["fabric"], SECTIONS.fabric) ?? {};
  const fabric = resolveFabric(PROFILES[profile], fabricSection);
  const until = read(reading, ["until"], SECTIONS.until) ?? null;
  const { paths, hosts } = readHosts(reading, profile, fabricSection.roce);
  const names = [...paths.keys()];
  const draft: Draft = {
    data,
    hostNames: names,
    hostPaths: paths,
    fabric,
    fabricSection,
    hosts,
    programs: readPrograms(reading),
    ...readFaults(reading),
    shared: readShared(reading),
    coherence: read(reading, ["coherence"], SECTIONS.coherence),
    until,
  };
  if (names.length > 0 || isMapping(data.hosts)) checkScenario(draft, report);
  const programs = draft.programs.flatMap(({ program }) => expand(program, names));
  return {
    file,
    name: name ?? "",
    seed: read(reading, ["seed"], SECTIONS.seed) ?? 1,
    profile,
    fabric,
    hosts: withoutServices(hosts, programs).toSorted((x, y) => x.name < y.name ? -1 : 1),
    programs,
    faults: draft.faults.map(({ fault }) => fault).toSorted((x, y) => x.at - y.at),
    linkFaults: draft.linkFaults.map(({ fault }) => fault),
    deviceFaults: draft.deviceFaults.map(({ fault }) => fault),
    expect: readList(reading, ["expect"]).flatMap(({ path }) =>
      read(reading, path, expectationSchema) ?? []
    ),
    until,
    shared: draft.shared.map(({ region }) => region),
    ...(draft.coherence !== undefined && { coherence: draft.coherence }),
    capture: read(reading, ["capture"], SECTIONS.capture) ?? {},
  };
}

/** The SCM of a host with native programs is theirs, from its first byte: no service stores there. */
function withoutServices(
  hosts: readonly HostScenario[],
  programs: Scenario["programs"],
): HostScenario[] {
  const natives = new Set(programs.flatMap(({ on, native }) => native === undefined ? [] : [on]));
  return hosts.map((host) => natives.has(host.name) ? { ...host, services: [] } : host);
}

function readHosts(
  reading: Reading,
  profile: ProfileName,
  roce: FabricSection["roce"],
): { paths: Map<string, Path>; hosts: HostScenario[] } {
  const defaults: HostSection = read(reading, ["defaults"], SECTIONS.defaults) ?? {};
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
    for (const name of namesInRange(key)) {
      if (paths.has(name)) {
        const problem = { found: `${name} a second time`, expected: "each host once", key: true };
        reading.report(path, problem);
        continue;
      }
      paths.set(name, path);
      if (wrong) continue;
      const from = { profile: PROFILES[profile], defaults, own: own ?? {}, roce };
      hosts.push(resolveHost(name, from));
    }
  }
  return { paths, hosts };
}

function readPrograms(reading: Reading): Draft["programs"] {
  return readList(reading, ["programs"]).flatMap(({ path }) => {
    if (isNative(valueAt(reading.source.data, path))) return readNative(reading, path);
    const section = read(reading, path, programSchema);
    if (section === undefined) return [];
    const { on, run, at, restart, service, privileged, weight, nic, ...options } = section;
    const checked = readOptions(reading, path, { run, options });
    const given = {
      ...givenOf({ restart, service, privileged, weight }),
      ...(nic !== undefined && { nic }),
    };
    return [{ path, program: { on, run, at: at ?? 0, ...given, options: checked } }];
  });
}

/** An item of `programs` with a command in the place of a program's name. */
export function isNative(item: unknown): boolean {
  return isMapping(item) && "native" in item && !("run" in item) && !("program" in item);
}

function readNative(reading: Reading, path: Path): Draft["programs"] {
  const section = read(reading, path, nativeSchema);
  if (section === undefined) return [];
  const { on, native: argv, recover, env = {}, at, ...rest } = section;
  const native = { argv, env, ...(recover && { recover: { argv: recover } }) };
  const program = { on, run: argv[0]!, at: at ?? 0, ...givenOf(rest), options: {}, native };
  return [{ path, program }];
}

/** Keys of any program, without those that say what holds anyway. */
function givenOf({ restart, service, privileged, weight }:
  & {
    readonly [Key in "restart" | "service" | "privileged"]?: boolean | undefined;
  }
  & { readonly weight?: number | undefined }
): Pick<DraftProgram, "restart" | "service" | "privileged" | "weight"> {
  return {
    ...(restart && { restart }),
    ...(service && { service }),
    ...(privileged && { privileged }),
    ...(weight !== undefined && { weight }),
  };
}

const PROGRAM_KEYS = ["on", "run", "at", "restart", "service", "privileged", "weight", "nic"];

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
    known: [...PROGRAM_KEYS, ...Object.keys(words)],
  });
  const checked: Record<string, unknown> = {};
  for (const [key, { kind, required }] of Object.entries(words)) {
    if (!Object.hasOwn(options, key) && required !== true) continue;
    const value = read(reading, [...path, key], OPTION_SCHEMAS[kind]);
    if (value !== undefined) checked[key] = value;
  }
  return checked;
}

export function isOwnProgram(run: string): boolean {
  return isOwnFile(run);
}

/** One for each of its hosts; `next` is the next host by name, cyclically. */
function expand(program: DraftProgram, names: readonly string[]): ProgramScenario[] {
  const sorted = names.toSorted();
  const { on, run, at, nic, options, native } = program;
  const hosts = on.length === 1 && on[0] === "all" ? sorted : on;
  return hosts.map((host) => {
    const next = sorted[(sorted.indexOf(host) + 1) % sorted.length];
    const resolved = Object.entries(options).map(([key, value]) =>
      [key, value === "next" && (key === "to" || key === "from") ? next : value] as const
    );
    return {
      on: host,
      run,
      at,
      ...givenOf(program),
      ...(nic !== undefined && { nic }),
      options: Object.fromEntries(resolved),
      ...(native !== undefined && { native }),
    };
  });
}
