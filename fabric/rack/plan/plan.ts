/**
 * The plan of a rack, from which its processes start: names resolved, defaults filled in, times in
 * ps. Plain data, checked by the scenario from which `topology.ts` makes it.
 */
import type { Time } from "../../base/time.ts";
import type { PersistenceDomain } from "./persistence_domain.ts";
import type { QueueCachePlan, QueuePlan } from "./queue_plan.ts";
import type { HintPlan } from "./hint_plan.ts";
import type { HintWork } from "./hint_work.ts";
import type { LinkFaultPlan } from "./link_plan.ts";
import type { SharedRegion } from "./shared_region.ts";

export interface RackPlan {
  readonly scenario: string;
  readonly seed: number;
  /** Sorted by name; a node's index in this list identifies it everywhere (event keys). */
  readonly nodes: readonly NodePlan[];
  readonly cables: readonly CablePlan[];
  /** Scripted power failures and returns, by time. */
  readonly faults: readonly FaultPlan[];
  /** Early write-backs, so that a power failure finds their bytes in SCM; absent: none. */
  readonly writebacks?: readonly WritebackPlan[];
  /** Faults of cables; absent: none. */
  readonly linkFaults?: readonly LinkFaultPlan[];
  /** The run ends at this time even if events are left. */
  readonly until: Time | null;
  /**
   * IPv4 addresses by which programs resolve names. A host's name has its first RNIC's address;
   * further RNICs have their own names.
   */
  readonly addresses: Readonly<Record<string, number>>;
  /**
   * The name of a file with rows that replace some of the coherent cards' protocol; absent: none.
   */
  readonly coherence?: string;
}

export type NodePlan =
  | { readonly name: string; readonly kind: "host"; readonly config: HostPlan }
  | { readonly name: string; readonly kind: "rnic"; readonly config: RnicPlan }
  | { readonly name: string; readonly kind: "switch"; readonly config: SwitchPlan };

export interface Endpoint {
  readonly node: string;
  readonly port: number;
}

/** A full-duplex point-to-point cable. Latency > 0: the clock's lookahead depends on it. */
export interface CablePlan {
  readonly kind: "bus" | "network";
  readonly a: Endpoint;
  readonly b: Endpoint;
  readonly latencyPs: Time;
  readonly bitsPerSecond: number;
  /** Absent: PCIe. */
  readonly attach?: "coherent";
}

export interface FaultPlan {
  readonly at: Time;
  readonly action: "kill" | "start";
  readonly node: string;
}

/**
 * Bytes [from, to) of a host's SCM, whole 8 B words, become durable at `at` with their value then: a
 * cache may evict a line, a buffer drain a write, sooner than the model does (P-04).
 */
export interface WritebackPlan {
  readonly at: Time;
  readonly node: string;
  readonly from: number;
  readonly to: number;
  /** Includes the first write in the I/O controller's buffer, part of which has drained. */
  readonly buffered: boolean;
  /** Durable bytes, in hexadecimal digits, that a core stores only later in this instant. */
  readonly data?: string;
}

/**
 * A program stops before an access to a shared region until `until`, or one of its stores stays in
 * its core's buffer. `rack explore` makes other interleavings of programs by it.
 */
export interface HoldPlan {
  readonly node: string;
  /** The program, as audit records name it: host, life and program. */
  readonly by: string;
  /**
   * An access to a line that does not end in a store buffer, or a store that is in one; counted
   * from 1.
   */
  readonly step: "access" | "store";
  readonly number: number;
  readonly until: Time;
}

/** The plan with these holds. */
export function withHolds(plan: RackPlan, holds: readonly HoldPlan[]): RackPlan {
  if (holds.length === 0) return plan;
  const nodes = plan.nodes.map((node) => {
    const own = holds.filter((hold) => hold.node === node.name);
    if (node.kind !== "host" || own.length === 0) return node;
    return { ...node, config: { ...node.config, holds: own } };
  });
  return { ...plan, nodes };
}

/**
 * Which WQE, posted alone, a driver sends along with its doorbell: one of up to 256 B (mlx5's
 * default), one with inline data (`MLX5_POST_SEND_PREFER_BF=0`), or none (`MLX5_SHUT_UP_BF=1`).
 */
export const BLUE_FLAME = ["on", "inline", "off"] as const;
/** Which WQEs of a host or a queue pair go along with their doorbell. */
export type BlueFlame = "on" | "inline" | "off";

/** How a host's RNIC is attached: as a PCIe device, or to the processor's coherent bus (C-01). */
export const ATTACHMENTS = ["pcie", "coherent"] as const;

export type Architecture = "ddio" | "ddio+ns";

/**
 * Guarantees across lines of shared regions: sequential consistency, or x86's total store order.
 */
export const MEMORY_MODELS = ["sc", "tso"] as const;

/** An orderly shutdown of a host, by the clock of the rack. */
export interface ShutdownPlan {
  readonly at: Time;
  /** The host's power goes off then, even if the shutdown is not complete. */
  readonly offAt: Time;
}

export interface HostPlan {
  /** Its RNICs, by the ports of their buses. */
  readonly rnics: readonly string[];
  /** Orderly shutdowns, by time; absent: none. Its power goes off by {@link FaultPlan}. */
  readonly shutdowns?: readonly ShutdownPlan[];
  /** Absent: PCIe. */
  readonly attach?: "coherent";
  /**
   * Stores to shared regions wait in store buffers of the cores; absent: `sc`, a core waits for
   * each.
   */
  readonly memory?: "tso";
  readonly cores: number;
  readonly architecture: Architecture;
  readonly ddio: boolean;
  readonly domain: PersistenceDomain;
  readonly dramBytes: number;
  readonly scmBytes: number;
  readonly llc: {
    readonly bytes: number;
    readonly ways: number;
    readonly ddioWays: number;
    /** The replacement policy of a full set; absent: least recently used. */
    readonly evict?: "random";
  };
  /** Queues that the queue information has room for. */
  readonly queues: number;
  /** Absent: the defaults. */
  readonly queuePlan?: QueuePlan;
  /** How programs wait for completions by default. */
  readonly completion: "poll" | "interrupt";
  readonly blueFlame: BlueFlame;
  readonly timing: HostTiming;
  readonly programs: readonly ProgramPlan[];
  /** Regions are registered for on-demand paging unless their program pins them; absent: pinned. */
  readonly pin?: false;
  /** An IOMMU whose cache holds `iotlb` translations; absent: none. */
  readonly iommu?: { readonly iotlb: number };
  /** Memory pressure: pages of on-demand regions are taken back; absent: none. */
  readonly pressure?: PressurePlan;
  /** As its card's: the share of the hints' work that is done here. */
  readonly hintWork?: HintWork;
  /** V-08: cells of SCM with a constant value; absent: none. */
  readonly stuckBits?: readonly StuckBit[];
  /** Shared regions that this host takes part in, in the scenario's order; absent: none (C-03). */
  readonly shared?: readonly SharedRegion[];
  /** Of this host's programs; absent: none. */
  readonly holds?: readonly HoldPlan[];
}

/** From `at` after boot on, `times` times, every `everyPs`: takes back the pages mapped longest. */
export interface PressurePlan {
  readonly at: Time;
  readonly everyPs: Time;
  readonly times: number;
  readonly pages: number;
}

/** A cell of SCM that is broken from the start of the run: bit `bit` (0 the lowest) of a byte. */
export interface StuckBit {
  readonly offset: number;
  readonly bit: number;
  readonly value: 0 | 1;
}

/** A program on a core: a shipped one by name, or the user's own by path (`./my_protocol.ts`). */
export interface ProgramPlan {
  readonly run: string;
  /** When it starts, in ps after the host's boot. */
  readonly at: Time;
  /** Which RNIC of the host its device is, from 0; absent: the first one. */
  readonly rnic?: number;
  /** Services start at every boot of the host, other programs only at its first. */
  readonly service: boolean;
  /** The program only serves others and need not end. */
  readonly serves?: true;
  /**
   * It may do what a kernel asks CAP_NET_RAW for: controlled Q_Keys, a trusted group of hints
   * (H-08).
   */
  readonly privileged?: true;
  /** Share of the line that its queue pairs get beside others of the host, 1 to 255; absent: 1. */
  readonly weight?: number;
  readonly options: Readonly<Record<string, unknown>>;
  /** A binary of the machine that the rack runs on; {@link run} is its name as given. */
  readonly native?: NativePlan;
  /** The number of the order that started the program from outside; its results carry it. */
  readonly order?: number;
}

/** How a native program is started. */
export interface NativePlan {
  /** With the name that the program sees first. */
  readonly argv: readonly string[];
  /** The binary's absolute path. */
  readonly file: string;
  /** Its whole environment. */
  readonly env: Readonly<Record<string, string>>;
}

/** The native programs of those hosts of a plan that are among `nodes`; absent: of all. */
export function nativeIn(
  { nodes }: Pick<RackPlan, "nodes">,
  among?: readonly string[],
): { readonly host: string; readonly program: ProgramPlan & { readonly native: NativePlan } }[] {
  return nodes.flatMap((node) => {
    if (node.kind !== "host" || among?.includes(node.name) === false) return [];
    return node.config.programs.flatMap(({ native, ...program }) =>
      native === undefined ? [] : [{ host: node.name, program: { ...program, native } }]
    );
  });
}

export interface RnicPlan {
  readonly host: string;
  /** As its host's: to the coherent bus, of this rate; absent: PCIe. */
  readonly attach?: { readonly bitsPerSecond: number };
  readonly address: number;
  readonly mac: number;
  readonly mtu: 256 | 512 | 1024 | 2048 | 4096;
  /** Of its network port, and of the internal path by which frames to its own address return. */
  readonly bitsPerSecond: number;
  readonly queueCache: QueueCachePlan;
  /** As its host's. */
  readonly queuePlan?: QueuePlan;
  /** Translations (MTT entries, one for each page) that the chip has room for; which go first. */
  readonly translations: { readonly entries: number; readonly evict: "lru" | "fifo" };
  /** The response to a request for an absent page. */
  readonly pageFault: PageFaultRule;
  readonly timing: RnicTiming;
  /** Absent: the card neither sends nor takes hints. */
  readonly hints?: HintPlan;
  readonly congestion?: RnicCongestionPlan;
  /**
   * The card's writes into persistent memory survive a power failure of its host (domain `wsp`): it
   * keeps those that may still be on the bus when it detects the failure. Absent: they are lost.
   */
  readonly flushOnFail?: { readonly busLatencyPs: Time; readonly noticePs: Time };
  /** V-08: damage inside this card; absent: none. */
  readonly flips?: readonly FlipPlan[];
  /** V-05; absent: every verified write is read back. */
  readonly verifyHistory?: VerifyHistoryPlan;
  /** As its host's. */
  readonly shared?: readonly SharedRegion[];
  /** C-01: the card's build: InfiniBand's network layer, not UDP and IP. Absent: RoCEv2. */
  readonly roce?: "v1";
}

/**
 * The reaction of an RC responder to a request whose page is being fetched. `rnr`: RNR NAK, the
 * requester repeats. `drop`: silence, and a NAK (sequence error) when the page is there; a SEND
 * gets an RNR NAK. `pause`: the card keeps the request and all behind it until the page is there.
 */
export const PAGE_FAULT_RULES = ["drop", "rnr", "pause"] as const;
export type PageFaultRule = typeof PAGE_FAULT_RULES[number];

/** Where a write's data is damaged: sender's bus, receive buffer before or after its check, bus. */
export const FLIP_PLACES = ["fetch", "buffer", "checked", "bus"] as const;
export type FlipPlace = typeof FLIP_PLACES[number];

/** A fault of an RNIC: it flips one bit of a write's data on its way (V-08). */
export interface FlipPlan {
  /** Its index among the scenario's faults: part of the names of counters and random streams. */
  readonly id: number;
  readonly where: FlipPlace;
  readonly at: Time;
  readonly until?: Time;
  /** Probability for each data segment, 0 to 1; absent: 1. */
  readonly share?: number;
  /** Only the nth segment since `at`, counted from 1. */
  readonly nth?: number;
  readonly count?: number;
}

/**
 * V-05: a read-back is skipped if more than the threshold of the sender's last `samples` checks
 * succeeded. One in `sampleOneIn` writes is still read back.
 */
export interface VerifyHistoryPlan {
  /** Successes per million that must be exceeded. */
  readonly thresholdPpm: number;
  readonly samples: number;
  readonly sampleOneIn: number;
}

export interface SwitchPlan {
  readonly ports: number;
  /** The rate of each port's cable, in bit/s; 0 without a cable. Absent: all have one rate. */
  readonly portRates?: readonly number[];
  readonly mode: "cut-through" | "store-and-forward";
  readonly latencyPs: Time;
  /** Maximum of lossy bytes queued at one port. */
  readonly queueBytes: number;
  /** The switch's memory; absent: the sum of every port's queue, the groups' reserved bytes and all headroom. */
  readonly bufferBytes?: number;
  /**
   * For each lossless priority of an input port, and for each output port's lossy frames. Absent:
   * 0.
   */
  readonly reservedBytes?: number;
  /** Limit of lossy bytes at one port, as a share of the pool's free bytes. Absent: none. */
  readonly alpha?: number;
  readonly congestion?: SwitchCongestionPlan;
  /** MAC address → output port, for every RNIC of the rack that has a single path. */
  readonly forwarding: ReadonlyArray<readonly [mac: number, port: number]>;
  readonly multipath?: ReadonlyArray<readonly [macs: readonly number[], ports: readonly number[]]>;
  /** Delay from a neighbour's loss of its last path to an address until this switch reroutes. */
  readonly convergencePs?: Time;
  /** Ports for flooded frames: a spanning tree over all switches. Absent: every port. */
  readonly flood?: readonly number[];
}

/** Durations of a host's parts in ps, rates in bit/s. `profile.ts` has the sources. */
export interface HostTiming {
  /** Latency of a core's load of one line: LLC hit / DRAM / SCM. */
  readonly llcHitPs: Time;
  readonly dramLoadPs: Time;
  readonly scmLoadPs: Time;
  readonly storePs: Time;
  /** A core's store buffer (`memory: tso`): its entries, and a store's minimum time in it. */
  readonly storeBufferEntries: number;
  readonly storeBufferPs: Time;
  /** `clwb` of one line: issue; the wait of `sfence` until the iMC has accepted the last. */
  readonly flushIssuePs: Time;
  readonly fencePs: Time;
  /** Rate at which one core can flush or stream lines to the iMC. */
  readonly coreFlushBitsPerSecond: number;
  /** Build and post one work request, without memory accesses. */
  readonly postPs: Time;
  readonly pollPs: Time;
  /** An uncached store to the RNIC's BAR, as the core sees it. */
  readonly mmioPs: Time;
  /** From the interrupt message to the program's first instruction. */
  readonly interruptPs: Time;
  /** The host's part of a DMA read (without the bus): line in LLC / DRAM / SCM. */
  readonly dmaReadLlcPs: Time;
  readonly dmaReadDramPs: Time;
  readonly dmaReadScmPs: Time;
  /** Rate of the further lines of one DMA read. */
  readonly dmaReadBitsPerSecond: number;
  /** Time of a posted write in the IIO before it drains, and the drain rate. */
  readonly iioPs: Time;
  readonly iioBitsPerSecond: number;
  readonly iioDrainBytes: number;
  /** Write pending queue: its capacity in lines, and the drain rates to SCM and DRAM. */
  readonly wpqLines: number;
  readonly scmWriteBitsPerSecond: number;
  readonly dramWriteBitsPerSecond: number;
  /** Handling of a control command by driver and kernel. */
  readonly commandPs: Time;
  /** Kernel: a fault of a page in memory, and of one that has to be brought in. */
  readonly minorFaultPs: Time;
  readonly majorFaultPs: Time;
  /** Kernel: each further page of a range that is brought in, or looked up, at once. */
  readonly rangePagePs: Time;
  /** Latency of a core's load of one line of memory that is plugged into the node. */
  readonly pluggedLoadPs: Time;
  /** IOMMU: a walk of its page table. */
  readonly iotlbMissPs: Time;
  /** From power to the first instruction of the first program. */
  readonly bootPs: Time;
}

/** Durations of an RNIC's parts in ps. `profile.ts` has the sources. */
export interface RnicTiming {
  /** Receiving module: parsing and look-up of a frame. */
  readonly receivePs: Time;
  /** Scheduling module: a doorbell or a WQE. */
  readonly schedulePs: Time;
  /** Sending module: building one frame. */
  readonly sendPs: Time;
  /**
   * The RNIC's own time to read data by a key (payload of requests, a READ's data, an atomic's
   * word), beyond bus and host. Such reads overlap, but READs of one queue pair begin this long
   * after each other.
   */
  readonly dataReadPs: Time;
  /** PM module: a decision. */
  readonly persistPs: Time;
  /** Firmware: one control command. */
  readonly commandPs: Time;
  /** Firmware: from an access to a page that is not there to the event at the driver. */
  readonly pageFaultPs: Time;
  /** the longest time that a host may hold the lock of a queue's space 2. */
  readonly space2LockPs: Time;
  /** WQE units fetched by one DMA read. */
  readonly wqeFetchUnits: number;
  /**
   * Maximum bytes of one DMA read for a peer (a READ's data), and number of such reads outstanding.
   */
  readonly dmaReadBytes: number;
  readonly dmaReadsMax: number;
  /** The same for the RNIC's own fetches: payload of requests, WQEs, queues. */
  readonly gatherReadBytes: number;
  readonly gatherReadsMax: number;
  /** Coherent bus: protocol conversion, from a DMA request to the bus's messages (C-01). */
  readonly convertPs: Time;
  /** Coherent card: looking a line up in a cache or the directory, on the chip. */
  readonly lookUpPs: Time;
  /**
   * Coherent bus: credits of the host's agent, in lines, for reads under way and for writes each.
   */
  readonly busLinesMax: number;
}

/** Marking at a switch's output queue (RED): from `kmin` on by chance, from `kmax` on always. */
export interface EcnParameters {
  readonly kminBytes: number;
  readonly kmaxBytes: number;
  /** Probability of a mark just below `kmax`. */
  readonly pmax: number;
}

/** DCQCN, with the names of the paper. */
export interface DcqcnParameters {
  /** Weight of the newest sample in alpha. */
  readonly g: number;
  /** N: minimum time between two notifications for one queue pair, at the notification point. */
  readonly cnpIntervalPs: Time;
  /** K: the interval of alpha updates. */
  readonly alphaTimerPs: Time;
  /** T and B: the timer and the byte counter that trigger rate increases. */
  readonly rateTimerPs: Time;
  readonly byteCounterBytes: number;
  /** F: steps of fast recovery. */
  readonly fastRecovery: number;
  /** R_AI and R_HAI. */
  readonly additiveBps: number;
  readonly hyperBps: number;
  readonly minBps: number;
  /** Minimum time between two rate decreases of a queue pair. */
  readonly decreaseIntervalPs: Time;
}

export interface RnicCongestionPlan {
  readonly dscp: number;
  readonly cnpDscp: number;
  readonly bitsPerSecond: number;
  readonly pfc: {
    /** Bit mask of priorities. */
    readonly lossless: number;
    /** Time that the bus needs to drain the headroom after a pause was requested. */
    readonly headroomPs: Time;
  } | null;
  readonly dcqcn: DcqcnParameters | null;
}

export interface SwitchCongestionPlan {
  readonly ecn: EcnParameters | null;
  readonly pfc: {
    readonly lossless: number;
    readonly threshold: PauseThreshold;
    /** Limit of all headroom in use (shared headroom pool). Absent: each port's is its own. */
    readonly headroomPoolBytes?: number;
    /** Source address of the switch's pause frames. */
    readonly mac: number;
    readonly ports: readonly PortLimits[];
  } | null;
}

/**
 * Thresholds at which a switch asks a sender to pause and to resume
 * (`nodes/switch/shared_buffer.ts`).
 */
export type PauseThreshold =
  | { readonly kind: "static"; readonly xoffBytes: number; readonly xonBytes: number }
  /** A share of the pool's free bytes; the sender resumes `xonOffsetBytes` below it. */
  | { readonly kind: "dynamic"; readonly alpha: number; readonly xonOffsetBytes: number };

/** PFC's limits of a switch's port. */
export interface PortLimits {
  readonly bitsPerSecond: number;
  /** Of each lossless priority. */
  readonly headroomBytes: number;
  /** Headroom that the cable needs, where the scenario sets another. */
  readonly neededBytes?: number;
  /** The node at the cable's other end, for messages. */
  readonly peer?: string;
}
