/** Omitted values: from the host's section, then from `defaults`, then from the profile. */
import type { PressurePlan, RnicPlan, VerifyHistoryPlan } from "../plan/plan.ts";
import {
  CACHED_QUEUES,
  QUEUE_PLAN,
  type QueueCachePlan,
  type QueuePlan,
} from "../plan/queue_plan.ts";
import type { Profile } from "../plan/profile.ts";
import type { FabricScenario, HostScenario, RegionScenario } from "./scenario.ts";
import type { QueuesSection } from "./queues_schema.ts";
import type { FabricSection, HostSection } from "./schema.ts";
import { PS_PER_US } from "../../base/time.ts";
import { SERVICES } from "../plan/vocabulary.ts";
import { longestFrame, resolveCongestion } from "./congestion.ts";
import { hintsOf } from "./hints.ts";

/** Memories are sparse, so an unused part costs nothing. */
const DEFAULT_SCM_BYTES = 64 * 2 ** 20;
const DEFAULT_DRAM_BYTES = 2 ** 30;
const DEFAULT_QUEUES = 1024;
/** A choice: between hardware failover and a routing protocol with fast timers. */
const CONVERGENCE_PS = 100 * PS_PER_US;
/** Neugebauer et al., SIGCOMM'18: misses begin beyond 256 KiB, 64 pages of 4 KiB. */
const IOMMU = { iotlb: 64 };
/** A choice. */
const PRESSURE: PressurePlan = { at: 0, everyPs: 100 * PS_PER_US, times: 10, pages: 1 };
/** A choice: one failure among the last 64 checks exceeds 1 in 1 000, so it stops the skipping. */
const VERIFY_HISTORY: VerifyHistoryPlan = { thresholdPpm: 999_000, samples: 64, sampleOneIn: 16 };

export function resolveFabric(profile: Profile, section: FabricSection): FabricScenario {
  const mtu = section.mtu ?? profile.mtu;
  const { queueBytes = profile.switch.queueBytes, reservedBytes } = section.switch ?? {};
  const isDivided = section.switch?.bufferBytes !== undefined || section.pfc;
  const switchOptions = {
    ...profile.switch,
    ...section.switch,
    // [choice] A frame: a group's own bytes let it proceed even if the pool is full.
    ...(isDivided && { reservedBytes: reservedBytes ?? longestFrame(mtu) }),
  };
  const congestion = resolveCongestion(section, { queueBytes, mtu });
  const bitsPerSecond = section.rate ?? profile.network.bitsPerSecond;
  const latencyPs = section.latency ?? profile.network.latencyPs;
  return {
    topology: section.topology ?? "star",
    ...shapeOf(section),
    bitsPerSecond,
    latencyPs,
    ...(section.uplinks !== undefined && {
      uplinks: { bitsPerSecond, latencyPs, ...section.uplinks },
    }),
    convergencePs: section.convergence ?? CONVERGENCE_PS,
    mtu,
    switch: switchOptions,
    bus: { ...profile.bus, ...section.bus },
    coherentBus: { ...profile.coherent.bus, ...section.coherentBus },
    ...(congestion !== undefined && { congestion }),
  };
}

function shapeOf(
  { topology, leaves = 2, spines = 2, k = 4, switches = [], cables }: FabricSection,
): Pick<FabricScenario, "leafSpine" | "fatTree" | "listed"> {
  const list = typeof cables === "object" ? cables : [];
  switch (topology) {
    case "leaf-spine":
      return { leafSpine: { leaves, spines, cables: typeof cables === "number" ? cables : 1 } };
    case "fat-tree":
      return { fatTree: { k } };
    case "explicit": {
      const all = list.flatMap((its, item) => its.map((cable) => ({ ...cable, item })));
      return { listed: { switches, cables: all } };
    }
    case "star":
    case "direct":
    case undefined:
      return {};
  }
}

export function resolveHost(
  name: string,
  from: {
    readonly profile: Profile;
    readonly defaults: HostSection;
    readonly own: HostSection;
    readonly roce: FabricSection["roce"];
  },
): HostScenario {
  const { profile, defaults, own } = from;
  const scm = { ...defaults.scm, ...own.scm };
  const { evict, ...llc } = { ...profile.llc, ...defaults.llc, ...own.llc };
  const queues = { ...defaults.queues, ...own.queues };
  const services = own.services ?? defaults.services ?? SERVICES[0];
  const leaf = own.leaf ?? defaults.leaf, nics = own.nics ?? defaults.nics ?? 1;
  const isCoherent = (own.attach ?? defaults.attach) === "coherent";
  const roce = own.roce ?? defaults.roce ?? from.roce;
  const iommu = own.iommu === undefined ? defaults.iommu : own.iommu;
  const pressure = own.pressure ?? defaults.pressure;
  const hints = own.hints === undefined ? defaults.hints : own.hints;
  const verifyHistory = own.verifyHistory === undefined
    ? defaults.verifyHistory
    : own.verifyHistory;
  return {
    name,
    ...(isCoherent && { attach: "coherent" as const }),
    ...((own.memory ?? defaults.memory) === "tso" && { memory: "tso" as const }),
    ddio: own.ddio ?? defaults.ddio ?? "on",
    architecture: own.architecture ?? defaults.architecture ?? "ddio",
    domain: own.domain ?? defaults.domain ?? "adr",
    receive: own.receive ?? defaults.receive ?? "dram",
    scmBytes: scm.size ?? DEFAULT_SCM_BYTES,
    regions: regionsOf(scm),
    dramBytes: own.dram ?? defaults.dram ?? DEFAULT_DRAM_BYTES,
    cores: own.cores ?? defaults.cores ?? profile.cores,
    completion: own.completion ?? defaults.completion ?? "poll",
    blueFlame: own.blueFlame ?? defaults.blueFlame ?? profile.blueFlame,
    queues: queues.count ?? DEFAULT_QUEUES,
    ...queuePlanOf(queues),
    llc: { ...llc, ...(evict !== undefined && evict !== "plru" && { evict }) },
    queueCache: queueCacheOf(queues.cache),
    translations: translationsOf(profile, {
      ...defaults.translationCache,
      ...own.translationCache,
    }),
    pageFault: own.fault ?? defaults.fault ?? "drop",
    ...((own.pin ?? defaults.pin) === false && { pin: false as const }),
    ...(iommu && { iommu: { ...IOMMU, ...iommu } }),
    ...(pressure && { pressure: { ...PRESSURE, ...pressure } }),
    ...(hints && { hints: hintsOf(hints) }),
    ...(verifyHistory && { verifyHistory: { ...VERIFY_HISTORY, ...verifyHistory } }),
    services: services === "none" ? [] : [services],
    ...(nics > 1 && { nics }),
    ...(leaf !== undefined && { leaf }),
    ...(roce === "v1" && { roce }),
    timing: {
      host: {
        ...profile.host,
        ...(isCoherent && profile.coherent.host),
        ...defaults.timing?.host,
        ...own.timing?.host,
      },
      rnic: { ...profile.rnic, ...defaults.timing?.rnic, ...own.timing?.rnic },
    },
  };
}

function regionsOf(scm: NonNullable<HostSection["scm"]>): RegionScenario[] {
  const regions = Object.entries(scm.regions ?? {}).map(([name, { at, size }]) => ({
    name,
    at,
    bytes: size,
  }));
  return regions.sort((x, y) => x.at - y.at || (x.name < y.name ? -1 : 1));
}

function translationsOf(
  { translations }: Profile,
  { entries = translations.entries, evict = "lru" }: NonNullable<HostSection["translationCache"]>,
): RnicPlan["translations"] {
  return { entries, evict };
}

/** Absent if all is default, so that plans of other scenarios do not change. */
function queuePlanOf(section: QueuesSection): { readonly queuePlan?: QueuePlan } {
  const { scheme = QUEUE_PLAN.scheme, store = "host" } = section;
  const queuePlan: QueuePlan = {
    scheme,
    ...(store !== "host" && { store }),
    placement: section.placement ?? QUEUE_PLAN.placement,
    layout: section.layout ?? QUEUE_PLAN.layout,
    readPointer: section.readPointer ?? QUEUE_PLAN.readPointer,
    lockAnswer: section.lockAnswer ?? QUEUE_PLAN.lockAnswer,
    doorbell: {
      ...QUEUE_PLAN.doorbell,
      ...(scheme === "classic" && { carries: "number" as const }),
      ...section.doorbell,
    },
    ...(section.arm === "next" && { arm: "next" as const }),
    ...(section.events === "queue" && { events: "queue" as const }),
  };
  // A host that names its scheme is to be compared: its card reports the number of stale pointers,
  // even 0.
  const isDefault = JSON.stringify(queuePlan) === JSON.stringify(QUEUE_PLAN);
  return isDefault && section.scheme === undefined ? {} : { queuePlan };
}

function queueCacheOf(
  { entries = CACHED_QUEUES, evict }: NonNullable<QueuesSection["cache"]> = {},
): QueueCachePlan {
  return { entries, ...(evict ?? { evict: "oldest", amount: 1 }) };
}
