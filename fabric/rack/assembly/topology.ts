import { PORTS } from "../../node.ts";
import { leastDelay } from "../../link/link.ts";
import { withCongestion } from "./congestion.ts";
import { resolveLinkFaults } from "./link_faults.ts";
import { machineOf, rnicNames } from "../plan/names.ts";
import { addressOf, busEnds, macOf, type Network, networkOf, rnicsOf } from "./network.ts";
import type { SwitchShape } from "./routes.ts";
import type {
  CablePlan,
  FaultPlan,
  HostPlan,
  NativePlan,
  NodePlan,
  ProgramPlan,
  RackPlan,
  RnicPlan,
  SwitchPlan,
} from "../plan/plan.ts";
import { cardsKeepWrites } from "../plan/persistence_domain.ts";
import { createPowerTracker } from "../plan/power.ts";
import { hostProcessingPs } from "../plan/processing.ts";
import { flipsOf, stuckBitsOf } from "./device_faults.ts";
import type { NativeScenario, ProgramScenario } from "../scenario/scenario.ts";
import type { HostVariant, ScenarioVariant } from "../scenario/variants.ts";
import { PROGRAMS } from "../plan/vocabulary.ts";
import { regionsOf, type SharedRegion } from "../plan/shared_region.ts";
import { sharedRegions } from "./shared_regions.ts";

/** Equal variants give equal plans, byte for byte. */
export function makePlan(variant: ScenarioVariant): RackPlan {
  const { hosts, fabric } = variant;
  const rnics = rnicsOf(hosts);
  const addresses = Object.fromEntries(
    rnics.map(({ name, host, index }, i) => [index === 0 ? host : name, addressOf(i)]),
  );
  const shared = sharedRegions(variant, (host) => addresses[host]!);
  const network = networkOf(fabric, hosts);
  const rates = portRates(network);
  const nodes: NodePlan[] = [];
  const byName = new Map(hosts.map((host) => [host.name, host]));
  for (const host of hosts) {
    const config = { ...hostPlan(host, variant), ...sharedPart(host.name, shared) };
    nodes.push({ name: host.name, kind: "host", config });
  }
  for (const [i, { name, host }] of rnics.entries()) {
    const bitsPerSecond = rates.get(name)?.[PORTS.rnicNetwork] ?? fabric.bitsPerSecond;
    const card = rnicPlan(byName.get(host)!, { variant, name, i, bitsPerSecond });
    nodes.push({ name, kind: "rnic", config: { ...card, ...sharedPart(host, shared) } });
  }
  for (const shape of network.switches) {
    const config = switchPlan(shape, { variant, rates: rates.get(shape.name) ?? [] });
    nodes.push({ name: shape.name, kind: "switch", config });
  }
  const cables = [
    ...rnics.map((rnic): CablePlan => ({
      kind: "bus",
      ...busEnds(rnic),
      ...busOf(byName.get(rnic.host)!.attach, fabric),
    })),
    ...network.cables.map((cable): CablePlan => ({ kind: "network", ...cable })),
  ];
  const linkFaults = resolveLinkFaults({ cables }, variant.linkFaults);
  return withCongestion({
    scenario: variant.name,
    seed: variant.seed,
    nodes: nodes.sort((x, y) => x.name < y.name ? -1 : 1),
    cables,
    faults: faultsOf(variant),
    ...(linkFaults.length > 0 && { linkFaults }),
    until: variant.until,
    addresses,
    ...(variant.coherence !== undefined && { coherence: variant.coherence }),
  }, fabric.congestion);
}

function sharedPart(host: string, shared: readonly SharedRegion[]): Pick<HostPlan, "shared"> {
  const its = regionsOf(shared, host);
  return its.length > 0 ? { shared: its } : {};
}

function busOf(
  attach: HostVariant["attach"],
  { bus, coherentBus }: ScenarioVariant["fabric"],
): Pick<CablePlan, "latencyPs" | "bitsPerSecond" | "attach"> {
  return attach === undefined ? bus : { ...coherentBus, attach };
}

function hostPlan(host: HostVariant, variant: ScenarioVariant): HostPlan {
  const { name, architecture, ddio, domain, dramBytes, scmBytes, cores, completion, queues } = host;
  const regions = host.regions.length === 0 ? {} : {
    regions: Object.fromEntries(host.regions.map(({ name, at, bytes }) => [name, { at, bytes }])),
  };
  const rnics = rnicNames(name, host.nics ?? 1);
  // Each RNIC has a service of its own, as connections are each RNIC's.
  const services = host.services.flatMap((run) =>
    rnics.map((_, rnic): ProgramPlan => ({
      run,
      at: 0,
      ...(rnic > 0 && { rnic }),
      service: true,
      serves: true,
      options: { ...regions, ...(host.receive === "scm" && { receive: host.receive }) },
    }))
  );
  const programs = variant.programs.filter(({ on }) => on === name).map((program): ProgramPlan => ({
    run: program.run,
    at: program.at,
    service: program.restart === true,
    ...(program.nic !== undefined && program.nic > 1 && { rnic: program.nic - 1 }),
    ...(program.service === true && { serves: true }),
    ...(program.privileged === true && { privileged: true }),
    ...(program.weight !== undefined && { weight: program.weight }),
    options: { ...regions, ...inItsOwnWords(program) },
    ...(program.native && { native: nativePlan(program.native) }),
  }));
  const shutdowns = variant.faults.flatMap(({ node, at, shutDownAt }) =>
    node === name && shutDownAt !== undefined ? [{ at: shutDownAt, offAt: at }] : []
  );
  return {
    rnics,
    ...(shutdowns.length > 0 && { shutdowns }),
    ...(host.attach && { attach: host.attach }),
    ...(host.memory === "tso" && { memory: host.memory }),
    cores,
    architecture,
    ddio,
    domain,
    dramBytes,
    scmBytes,
    llc: host.llc,
    queues,
    ...(host.queuePlan && { queuePlan: host.queuePlan }),
    completion,
    blueFlame: host.blueFlame,
    timing: host.timing.host,
    ...(host.pin === false && { pin: false as const }),
    ...(host.iommu && { iommu: host.iommu }),
    ...(host.pressure && { pressure: host.pressure }),
    ...(host.hints?.work && { hintWork: host.hints.work }),
    ...stuckBitsOf(variant.deviceFaults, name),
    programs: [...services, ...programs],
  };
}

/** A plan that only shows the rack has no binary's path yet. */
function nativePlan({ argv, file = "", env, recover }: NativeScenario): NativePlan {
  return { argv, file, env, ...(recover && { recover: { file: "", ...recover } }) };
}

function inItsOwnWords({ run, options }: ProgramScenario): Record<string, unknown> {
  const words = Object.hasOwn(PROGRAMS, run) ? PROGRAMS[run]! : {};
  return Object.fromEntries(
    Object.entries(options).map(([key, value]) => [words[key]?.as ?? key, value]),
  );
}

/** A card's buffers survive its host's power failure: the bus between them. */
function flushOnFail(
  host: HostVariant,
  fabric: ScenarioVariant["fabric"],
): NonNullable<RnicPlan["flushOnFail"]> {
  const bus = busOf(host.attach, fabric);
  const delayPs = leastDelay({ ...bus, kind: "bus", headOnly: false });
  return {
    busLatencyPs: bus.latencyPs,
    // `lookaheadPs` of this cable.
    noticePs: hostProcessingPs(host.timing.host) + delayPs,
  };
}

function rnicPlan(
  host: HostVariant,
  at: { variant: ScenarioVariant; name: string; i: number; bitsPerSecond: number },
): RnicPlan {
  const { fabric } = at.variant;
  return {
    host: host.name,
    ...(host.attach && { attach: { bitsPerSecond: fabric.coherentBus.bitsPerSecond } }),
    address: addressOf(at.i),
    mac: macOf(at.i),
    mtu: fabric.mtu,
    bitsPerSecond: at.bitsPerSecond,
    queueCache: host.queueCache,
    ...(host.queuePlan && { queuePlan: host.queuePlan }),
    translations: host.translations,
    pageFault: host.pageFault,
    ...(host.hints && { hints: host.hints }),
    timing: host.timing.rnic,
    ...flipsOf(at.variant.deviceFaults, at.name),
    ...(host.verifyHistory && { verifyHistory: host.verifyHistory }),
    ...(host.roce && { roce: host.roce }),
    ...(cardsKeepWrites(host.domain) && { flushOnFail: flushOnFail(host, fabric) }),
  };
}

function portRates({ cables }: Network): Map<string, number[]> {
  const ends = cables.flatMap(({ a, b, bitsPerSecond }) => [
    { ...a, bitsPerSecond },
    { ...b, bitsPerSecond },
  ]);
  const byNode = Map.groupBy(ends, ({ node }) => node);
  return new Map(
    [...byNode].map(([node, its]) => {
      const rates: number[] = [];
      for (const { port, bitsPerSecond } of its) rates[port] = bitsPerSecond;
      return [node, rates];
    }),
  );
}

function switchPlan(
  shape: SwitchShape,
  of: { readonly variant: ScenarioVariant; readonly rates: readonly number[] },
): SwitchPlan {
  const { fabric } = of.variant;
  const { ports, forwarding, multipath, flood, convergencePs } = shape;
  const portRates = Array.from({ length: ports }, (_, port) => of.rates[port] ?? 0);
  const isMixed = new Set(portRates.filter((rate) => rate > 0)).size > 1;
  return {
    ports,
    ...(isMixed && { portRates }),
    ...fabric.switch,
    forwarding,
    ...(multipath !== undefined && { multipath }),
    ...(flood !== undefined && { flood }),
    ...(convergencePs !== undefined && { convergencePs }),
  };
}

function faultsOf({ faults }: ScenarioVariant): FaultPlan[] {
  const power = createPowerTracker(faults);
  return faults.flatMap((fault) => power.apply(fault));
}

export interface PartitionPlan {
  readonly name: string;
  readonly nodes: readonly string[];
}

export const PROCESS_PACKINGS = ["node", "machine"] as const;
export const PACKINGS = [...PROCESS_PACKINGS, "all"] as const;
export type Packing = typeof PACKINGS[number];

/** Sorted by name. */
export function partitionsOf(plan: RackPlan, packing: Packing): PartitionPlan[] {
  const partitions = Map.groupBy(plan.nodes, ({ name, kind }) => {
    if (packing === "all") return "all";
    return packing === "machine" && kind === "rnic" ? machineOf(name) : name;
  });
  return [...partitions].map(([name, nodes]) => ({ name, nodes: nodes.map((node) => node.name) }))
    .sort((x, y) => x.name < y.name ? -1 : 1);
}
