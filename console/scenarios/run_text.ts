import { resolve } from "node:path";
import { CORE_SCHEMA, dump } from "js-yaml";
import { formatRate } from "../../fabric/rack/plan/units.ts";
import { formatExact, NEVER, parseTime, type Time } from "../../fabric/base/time.ts";
import { targetName } from "../../fabric/rack/plan/cable_names.ts";
import type { LinkFaultPlan } from "../../fabric/rack/plan/link_plan.ts";
import { hostOfRnic } from "../../fabric/rack/plan/names.ts";
import type { FaultPlan, RackPlan, ShutdownPlan } from "../../fabric/rack/plan/plan.ts";
import { SHUTDOWN_PS } from "../../fabric/rack/plan/power.ts";
import { isMapping } from "../../fabric/base/mapping.ts";
import type { ProgramScenario } from "../../fabric/rack/scenario/scenario.ts";
import {
  type ScenarioVariant,
  takenBy,
  takes,
  type VariantChoices,
  variants,
} from "../../fabric/rack/scenario/variants.ts";
import { readYaml } from "../../fabric/rack/scenario/yaml_source.ts";
import {
  isNative,
  isOwnProgram,
  parseScenario,
} from "../../fabric/rack/scenario/parse_scenario.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import type { ReplayedFaults } from "../rack/fault_lines.ts";
import { pathOf, type Reach } from "./read_door.ts";

type Mapping = Record<string, unknown>;

export type ChosenVariant = Pick<ScenarioVariant, "method" | "ddio" | "seed">;

export interface RunTextOptions extends VariantChoices, Reach {
  readonly variant: ChosenVariant;
  /** As in `PrepareOptions`: it is asked before the choices are made. */
  readonly change?: (program: ProgramScenario) => ProgramScenario | undefined;
}

/** The scenario of `text` with these choices made, its paths absolute. The text is valid. */
export function chosenText(text: string, options: RunTextOptions): string {
  const { variant, change } = options;
  const { capture: _, ...data } = readYaml(text, "").source.data as Mapping;
  const listed = listIn(data, "programs").flatMap((item) => changedProgram(item, change));
  const isVaried = listed.some(variesMethod);
  const method = options.method ?? (isVaried ? variant.method : undefined);
  const programs = listed.map((item) => {
    const isIts = !isVaried || variesMethod(item);
    return withChoices(item, { ...options, method: isIts ? method ?? undefined : undefined });
  });
  const ddio = options.ddio ?? (variesDdio(data) ? variant.ddio : undefined);
  const chosen = withAbsolutePaths({ ...data, seed: variant.seed, programs }, options);
  if (ddio) Object.assign(chosen, withDdio(chosen, ddio));
  if (method || ddio) delete chosen["expect"];
  return dumped(chosen);
}

/** A list of valid data, which may be absent. */
function listIn(data: Mapping, key: string): readonly Mapping[] {
  return (data[key] ?? []) as readonly Mapping[];
}

/** The text of a scenario's data. */
export function dumped(data: Mapping): string {
  return dump(data, {
    schema: CORE_SCHEMA,
    flowLevel: 2,
    flowBracketPadding: true,
    lineWidth: -1,
    noRefs: true,
  });
}

function programOf({ on, run, program, at: _, ...options }: Mapping): ProgramScenario {
  return { on: String(on), run: String(run ?? program), at: 0, options: options as never };
}

function changedProgram(item: Mapping, change: RunTextOptions["change"]): Mapping[] {
  if (change === undefined) return [item];
  const before = programOf(item), after = change(before);
  if (after === undefined) return [];
  return after === before ? [item] : [{ ...item, ...after.options }];
}

function variesMethod(item: Mapping): boolean {
  const { method } = item;
  const isSeveral = method === "all" || (Array.isArray(method) && method.length > 1);
  return isSeveral && takes(programOf(item), "method");
}

function withChoices(item: Mapping, choices: Parameters<typeof takenBy>[1]): Mapping {
  const taken = takenBy(programOf(item), choices);
  const made: Mapping = { ...item, ...taken };
  // A path of a command line begins in the current folder, not in the scenario's.
  if ("file" in taken) made["file"] = resolve(String(taken["file"]));
  return made;
}

export function withAbsolutePaths(data: Mapping, reach: Reach): Mapping {
  const { programs, shared, coherence } = data;
  const each = (items: readonly unknown[], change: (item: Mapping, reach: Reach) => Mapping) =>
    items.map((item) => isMapping(item) ? change(item, reach) : item);
  return {
    ...data,
    ...(typeof coherence === "string" && { coherence: absolute(coherence, reach) }),
    ...(Array.isArray(shared) && { shared: each(shared, withRulePath) }),
    ...(Array.isArray(programs) && { programs: each(programs, withProgramPaths) }),
  };
}

function withProgramPaths(item: Mapping, reach: Reach): Mapping {
  if (isNative(item) && Array.isArray(item["native"])) {
    const commands = Object.entries(item).flatMap(([key, value]) => {
      if ((key !== "native" && key !== "recover") || !Array.isArray(value)) return [];
      const [run, ...words] = value;
      return [[key, String(run).includes("/") ? [absolute(run, reach), ...words] : value]];
    });
    return { ...item, ...Object.fromEntries(commands) };
  }
  const { run, options } = programOf(item);
  const key = "run" in item ? "run" : "program", { file } = options;
  return {
    ...item,
    ...(isOwnProgram(run) && { [key]: absolute(run, reach) }),
    ...(typeof file === "string" && { file: absolute(file, reach) }),
  };
}

function withRulePath(item: Mapping, reach: Reach): Mapping {
  const { judge } = item;
  if (typeof judge === "string") return { ...item, judge: absolute(judge, reach) };
  if (!isMapping(judge) || judge["rule"] === undefined) return item;
  return { ...item, judge: { ...judge, rule: absolute(judge["rule"], reach) } };
}

function absolute(path: unknown, reach: Reach): string {
  return pathOf(String(path), reach);
}

function isBoth(host: unknown): boolean {
  return isMapping(host) && host["ddio"] === "both";
}

function variesDdio({ defaults, hosts }: Mapping): boolean {
  return isBoth(defaults) || Object.values(isMapping(hosts) ? hosts : {}).some(isBoth);
}

function withDdio(data: Mapping, ddio: string): Mapping {
  const { defaults, hosts } = data, isVaried = variesDdio(data);
  const all = isMapping(defaults) ? defaults : {};
  const chosen = (host: unknown) =>
    isMapping(host) && "ddio" in host && (!isVaried || isBoth(host)) ? { ...host, ddio } : host;
  return {
    ...(isBoth(all) || !isVaried) && { defaults: { ...all, ddio } },
    hosts: Object.fromEntries(
      Object.entries(hosts as Mapping).map(([name, host]) => [name, chosen(host)]),
    ),
  };
}

interface HostShutdown extends ShutdownPlan {
  readonly host: string;
}

export interface ByHand extends ReplayedFaults {
  /** Failures and returns of power of these devices are all on record, up to `before`. */
  readonly onRecord: { readonly nodes: readonly string[]; readonly before: Time };
  readonly programs: readonly { readonly host: string; readonly run: string }[];
  readonly shutdowns: readonly HostShutdown[];
  readonly inexact: readonly string[];
}

export interface RunText {
  readonly text: string;
  readonly faults: number;
  /** Sentences on events that the text cannot express. */
  readonly notes: readonly string[];
}

/** {@link chosenText}, with faults made by hand on a rack of its `plan` as `faults:`. */
export function withByHand(
  chosen: string,
  { run, plan, byHand, folder }: {
    readonly run: string;
    readonly plan: RackPlan;
    readonly byHand: ByHand;
    readonly folder?: string;
  },
): RunText {
  const data = readYaml(chosen, "").source.data as Mapping;
  const power = newPowerFaults(plan, byHand.faults);
  const planned = listIn(data, "faults").filter((item) => hasHappened(item, byHand));
  // The place of a cable's fault in the list is its number, which names its random streams.
  const links = byHand.linkFaults.toSorted((x, y) => x.id - y.id);
  const begun = [...byHand.shutdowns, ...plannedShutdowns(plan)];
  const added = [
    ...power.map((fault) => shutdownItem(fault, begun) ?? powerItem(fault)),
    ...byHand.shutdowns.filter((each) => !hasEnded(each, byHand.faults)).map(itemOfShutdown),
    ...links.map((fault) => linkItem(plan, fault)),
  ];
  const programs = [
    ...listIn(data, "programs"),
    ...byHand.morePrograms.map(programItem),
  ];
  const { faults: _, ...rest } = data;
  const textWith = (faults: readonly Mapping[]) => {
    const dump = dumped({ ...rest, programs, ...(faults.length > 0 && { faults }) });
    return folder === undefined ? dump : dump.replaceAll(`${folder}/`, "./");
  };
  const faults = [...planned, ...added];
  const known = [...byHand.faults, ...plan.faults];
  const text = textWith(cardsLeftOff(faults, { text: textWith(faults), known }));
  const notes = [...notesOn(byHand), ...unsaid(text, { plan, recorded: byHand.faults })];
  const what = `What was done to ${run}, as faults`;
  const head = [
    notes.length === 0 ? `${what}: a run of this comes to the same digest.` : `${what}.`,
    ...notes,
  ];
  return {
    text: `${head.map((line) => `# ${line}\n`).join("")}${text}`,
    faults: added.length,
    notes,
  };
}

/** By default the card of a started host comes back, too: these stayed dead in the run. */
function cardsLeftOff(
  faults: readonly Mapping[],
  { text, known }: { readonly text: string; readonly known: readonly FaultPlan[] },
): readonly Mapping[] {
  const said = powerIn(text);
  if (said === undefined) return faults;
  const stays = said.filter(({ action, node, at }) =>
    action === "start" && hostOfRnic(node) !== undefined &&
    !known.some((each) => each.action === action && each.node === node && each.at === at)
  );
  return faults.map((item) =>
    stays.some(({ node, at }) =>
        item["start"] === hostOfRnic(node) && parseTime(String(item["at"])) === at
      )
      ? { ...item, card: "off" }
      : item
  );
}

function powerIn(text: string): readonly FaultPlan[] | undefined {
  try {
    return makePlan(variants(parseScenario(text, ""))[0]!).faults;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return undefined;
  }
}

function unsaid(
  text: string,
  { plan, recorded }: { readonly plan: RackPlan; readonly recorded: readonly FaultPlan[] },
): string[] {
  const keyOf = ({ at, action, node }: FaultPlan) => `${action} ${node} at ${formatExact(at)}`;
  try {
    const said = makePlan(variants(parseScenario(text, ""))[0]!);
    const power = said.faults.map(keyOf), programs = ownNames(said);
    const happened = recorded.map(keyOf), known = [...happened, ...plan.faults.map(keyOf)];
    return [
      ...happened.filter((key) => !power.includes(key)).map((key) => `NOT in it: ${key}`),
      ...power.filter((key) => !known.includes(key)).map((key) =>
        `In it, and did not happen: ${key}`
      ),
      ...ownNames(plan).filter((name) => !programs.includes(name)).map((name) =>
        `${name} has another path in it, after which its random numbers are named`
      ),
    ].map((note) => `${note}, so the digest is another.`);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return [`It cannot be run: ${error.message.replaceAll("\n", "; ")}.`];
  }
}

function ownNames({ nodes }: RackPlan): string[] {
  const programs = nodes.flatMap((node) => node.kind === "host" ? node.config.programs : []);
  return [...new Set(programs.map(({ run }) => run).filter(isOwnProgram))];
}

function notesOn({ programs, shutdowns, writebacks, stalls, inexact }: ByHand): string[] {
  const names = [...new Set(programs.map(({ run, host }) => `${run} on ${host}`))];
  const hosts = [...new Set(shutdowns.map(({ host }) => host))];
  return [
    ...(hosts.length > 0
      ? [
        `The order by which ${
          hosts.join(" and ")
        } was shut down is an event of the run, and none as a fault, so the digest is another.`,
      ]
      : []),
    ...(names.length > 0
      ? [
        `NOT in it: ${programs.length} started by order (${
          names.join(", ")
        }), which faults: cannot say, so the digest is another.`,
      ]
      : []),
    ...(writebacks.length > 0
      ? [`NOT in it: ${writebacks.length} early write-backs of caches, so the digest is another.`]
      : []),
    ...(stalls.length > 0
      ? [`NOT in it: ${stalls.length} stalls of cores or cards, so the digest is another.`]
      : []),
    ...inexact.map((why) => `The run cannot be replayed exactly: ${why}.`),
  ];
}

/**
 * Kills come before starts of one instant, as a scenario takes them. The power of a host is that of
 * its card where both return.
 */
function newPowerFaults(
  { faults: planned, nodes }: RackPlan,
  faults: readonly FaultPlan[],
): readonly FaultPlan[] {
  // Of several RNICs some may stay off: each has a start of its own.
  const isOnly = (host: string) =>
    nodes.some(({ name, kind, config }) =>
      name === host && kind === "host" && config.rnics.length === 1
    );
  const has = (all: readonly FaultPlan[], { at, action, node }: FaultPlan) =>
    all.some((each) => each.at === at && each.action === action && each.node === node);
  return faults.filter((fault) => {
    const host = hostOfRnic(fault.node);
    const isWithHost = host !== undefined && isOnly(host) && fault.action === "start" &&
      has(faults, { ...fault, node: host });
    return !has(planned, fault) && !isWithHost;
  }).sort((x, y) => x.at - y.at || Number(x.action === "start") - Number(y.action === "start"));
}

function plannedShutdowns({ nodes }: RackPlan): HostShutdown[] {
  return nodes.flatMap((node) =>
    node.kind === "host"
      ? (node.config.shutdowns ?? []).map((each) => ({ ...each, host: node.name }))
      : []
  );
}

/** A power failure ends a shutdown, or cuts it short. */
function shutdownItem(
  { at, action, node }: FaultPlan,
  begun: readonly HostShutdown[],
): Mapping | undefined {
  const ended = begun.find((each) =>
    action === "kill" && each.host === node && each.at < at && at <= each.offAt
  );
  return ended && itemOfShutdown({ ...ended, offAt: at });
}

function itemOfShutdown({ host, at, offAt }: HostShutdown): Mapping {
  return { at: formatExact(at), shutdown: host, within: formatExact(offAt - at) };
}

function hasEnded({ host, at, offAt }: HostShutdown, faults: readonly FaultPlan[]): boolean {
  return faults.some((each) =>
    each.action === "kill" && each.node === host && each.at > at && each.at <= offAt
  );
}

function powerItem({ at, action, node }: FaultPlan): Mapping {
  return { at: formatExact(at), [action]: node };
}

function hasHappened(
  { at, kill, start, shutdown, within }: Mapping,
  { faults, onRecord }: ByHand,
): boolean {
  const node = kill ?? start ?? shutdown;
  const lasts = shutdown === undefined ? 0 : parseTime(String(within)) ?? SHUTDOWN_PS;
  const time = (parseTime(String(at)) ?? NEVER) + lasts;
  if (!onRecord.nodes.includes(String(node)) || time >= onRecord.before) return true;
  const action = start === undefined ? "kill" : "start";
  return faults.some((each) => each.at === time && each.node === node && each.action === action);
}

function programItem({ on, run, at, options }: ProgramScenario): Mapping {
  return { on, run, ...(at > 0 && { at: formatExact(at) }), ...options };
}

function linkItem(plan: RackPlan, fault: LinkFaultPlan): Mapping {
  const { action, at, until, share, nth, count, only, delayPs, jitterPs } = fault;
  const { overtakenBy, holdPs, sealed } = fault;
  const target = targetName(plan, fault);
  if (action === "cut" || action === "heal") return { at: formatExact(at), [action]: target };
  return {
    link: target,
    ...(action === "delay"
      ? { delay: formatExact(delayPs ?? 0), ...(share !== undefined && { share }) }
      : { [action]: action === "rate" ? formatRate(fault.bitsPerSecond!) : share ?? "all" }),
    from: formatExact(at),
    ...(until !== undefined && { until: formatExact(until) }),
    ...(nth !== undefined && { nth }),
    ...(count !== undefined && { count }),
    ...(only !== undefined && { only }),
    ...(jitterPs !== undefined && { jitter: formatExact(jitterPs) }),
    ...(overtakenBy !== undefined && { by: overtakenBy }),
    ...(holdPs !== undefined && { hold: formatExact(holdPs) }),
    ...(sealed && { past: "icrc" }),
  };
}
