/**
 * The plan of a rack, from which its processes start: plain data, times in ps. An absent optional
 * field means none, or the default.
 */
import type { Time } from "../../base/time.ts";
import type { PersistenceDomain } from "./persistence_domain.ts";
import type { QueueCachePlan, QueuePlan } from "./queue_plan.ts";
import type { HintPlan } from "./hint_plan.ts";
import type { HintWork } from "./hint_work.ts";
import type { LinkFaultPlan } from "./link_plan.ts";
import type { SharedRegion } from "./shared_region.ts";

/** The memories of a host; programs send their places in this list. */
export const MEMORIES = ["dram", "scm"] as const;
export type Memory = typeof MEMORIES[number];

export interface RackPlan {
  readonly scenario: string;
  readonly seed: number;
  /** Sorted by name; a node's index here identifies it everywhere (event keys). */
  readonly nodes: readonly NodePlan[];
  readonly cables: readonly CablePlan[];
  /** By time. */
  readonly faults: readonly FaultPlan[];
  /** Early write-backs, so that a power failure finds their bytes in SCM. */
  readonly writebacks?: readonly WritebackPlan[];
  /** Of cores and cards, in `rack explore`. */
  readonly stalls?: readonly StallPlan[];
  readonly linkFaults?: readonly LinkFaultPlan[];
  readonly until: Time | null;
  /**
   * IPv4 addresses by name. A host's name has its first RNIC's address; further RNICs have their
   * own names.
   */
  readonly addresses: Readonly<Record<string, number>>;
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

/** Full-duplex. Latency > 0: the clock's lookahead depends on it. */
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
 * Whole 8 B words of a host's SCM become durable at `at` with their value then: a cache may evict a
 * line, a buffer drain a write, sooner than the model does (P-04).
 */
export interface WritebackPlan {
  readonly at: Time;
  readonly node: string;
  readonly from: number;
  readonly to: number;
  /** Includes the first write in the I/O controller's buffer, part of which has drained. */
  readonly buffered: boolean;
  /** Durable bytes, hexadecimal, that a core stores only later in this instant. */
  readonly data?: string;
}

/**
 * Until `until` a program stops before an access to a shared region, or one of its stores stays in
 * its core's buffer: for `rack explore`.
 */
export interface HoldPlan {
  readonly node: string;
  readonly by: string;
  /**
   * An access to a line that does not end in a store buffer, or a store that is in one; counted
   * from 1.
   */
  readonly step: "access" | "store";
  readonly number: number;
  readonly until: Time;
}

/**
 * A core or a card stands still for `ps`, for `rack explore`: a core as if it were preempted, or a cache missed, once
 * its thread has come to its `number`-th rest; a card's DMA engine from its `number`-th message to the host on.
 */
export interface StallPlan {
  readonly node: string;
  /** Host, life and thread, as in notes; or card and life. */
  readonly by: string;
  /** Counted from 1. */
  readonly number: number;
  readonly ps: Time;
  /** When it begins, for readers: the number decides. */
  readonly at: Time;
}

/** Looks up the stalls of `by`, whose rests or messages it counts. Undefined: it has none. */
export function stallsOf(plan: Pick<RackPlan, "stalls">, by: string): (() => Time) | undefined {
  const own = plan.stalls?.filter((stall) => stall.by === by) ?? [];
  if (own.length === 0) return undefined;
  const lengths = new Map(own.map(({ number, ps }) => [number, ps]));
  let count = 0;
  return () => lengths.get(++count) ?? 0;
}

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
/** Which WQEs go along with their doorbell. */
export type BlueFlame = "on" | "inline" | "off";

/** A PCIe device, or on the processor's coherent bus (C-01). */
export const ATTACHMENTS = ["pcie", "coherent"] as const;

export type Architecture = "ddio" | "ddio+ns";

/** Across lines of shared regions: sequential consistency, or x86's total store order. */
export const MEMORY_MODELS = ["sc", "tso"] as const;

export interface ShutdownPlan {
  readonly at: Time;
  readonly offAt: Time;
}

export interface HostPlan {
  readonly rnics: readonly string[];
  readonly shutdowns?: readonly ShutdownPlan[];
  readonly attach?: "coherent";
  /** Absent: `sc`, a core waits for each store to a shared region. */
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
    /** Absent: `plru`, over a hashed index. */
    readonly evict?: Exclude<LlcEviction, "plru">;
  };
  readonly queues: number;
  readonly queuePlan?: QueuePlan;
  /** By default. */
  readonly completion: "poll" | "interrupt";
  readonly blueFlame: BlueFlame;
  readonly timing: HostTiming;
  readonly programs: readonly ProgramPlan[];
  /** On-demand paging, unless a program pins its region. */
  readonly pin?: false;
  readonly iommu?: { readonly iotlb: number };
  readonly pressure?: PressurePlan;
  readonly hintWork?: HintWork;
  /** V-08: cells of SCM with a constant value. */
  readonly stuckBits?: readonly StuckBit[];
  readonly shared?: readonly SharedRegion[];
  readonly holds?: readonly HoldPlan[];
}

/** What a cache gives up for a new line. */
export const LLC_EVICTIONS = ["plru", "lru", "random"] as const;
export type LlcEviction = typeof LLC_EVICTIONS[number];

/** From `at` after boot on, `times` times: the pages mapped longest are taken back. */
export interface PressurePlan {
  readonly at: Time;
  readonly everyPs: Time;
  readonly times: number;
  readonly pages: number;
}

/** Broken from the start of the run: bit `bit` (0 the lowest) of a byte of SCM. */
export interface StuckBit {
  readonly offset: number;
  readonly bit: number;
  readonly value: 0 | 1;
}

/** A shipped program by name, or the user's own by path (`./my_protocol.ts`). */
export interface ProgramPlan {
  readonly run: string;
  readonly at: Time;
  /** Of the host's RNICs, from 0; absent: the first one. */
  readonly rnic?: number;
  /** Services start at every boot of the host, other programs only at its first. */
  readonly service: boolean;
  readonly serves?: true;
  /**
   * It may do what a kernel asks CAP_NET_RAW for: controlled Q_Keys, a trusted group of hints
   * (H-08).
   */
  readonly privileged?: true;
  /** Share of the line beside others of the host, 1 to 255; absent: 1. */
  readonly weight?: number;
  readonly options: Readonly<Record<string, unknown>>;
  /** A binary of the machine that the rack runs on; {@link run} is its name as given. */
  readonly native?: NativePlan;
  /** The number of the order that started the program from outside; its results carry it. */
  readonly order?: number;
}

/** How a native program is started. */
export interface NativePlan {
  /** As in the scenario: the name, and the arguments. */
  readonly argv: readonly string[];
  /** The binary's absolute path. */
  readonly file: string;
  /** Its whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** What brings its host's SCM in order after a power failure, with the same environment. */
  readonly recover?: Pick<NativePlan, "argv" | "file">;
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
  /** To the coherent bus, of this rate; absent: PCIe. */
  readonly attach?: { readonly bitsPerSecond: number };
  readonly address: number;
  readonly mac: number;
  readonly mtu: 256 | 512 | 1024 | 2048 | 4096;
  /** Of its network port, and of the internal path to its own address. */
  readonly bitsPerSecond: number;
  readonly queueCache: QueueCachePlan;
  readonly queuePlan?: QueuePlan;
  readonly translations: { readonly entries: number; readonly evict: "lru" | "fifo" };
  readonly pageFault: PageFaultRule;
  readonly timing: RnicTiming;
  readonly hints?: HintPlan;
  readonly congestion?: RnicCongestionPlan;
  /**
   * Under `wsp` the card keeps writes into persistent memory that may still be on the bus when it
   * detects its host's power failure.
   */
  readonly flushOnFail?: { readonly busLatencyPs: Time; readonly noticePs: Time };
  /** V-08: damage inside this card. */
  readonly flips?: readonly FlipPlan[];
  /** V-05; absent: every verified write is read back. */
  readonly verifyHistory?: VerifyHistoryPlan;
  readonly shared?: readonly SharedRegion[];
  /** C-01: InfiniBand's network layer, not UDP and IP. Absent: RoCEv2. */
  readonly roce?: "v1";
}

/**
 * An RC responder's reaction while the page is fetched. `rnr`: RNR NAK, the requester repeats.
 * `drop`: silence, and a NAK (sequence error) when the page is there; a SEND gets an RNR NAK.
 * `pause`: the card keeps the request and all behind it.
 */
export const PAGE_FAULT_RULES = ["drop", "rnr", "pause"] as const;
export type PageFaultRule = typeof PAGE_FAULT_RULES[number];

/** Where a write's data is damaged: sender's bus, receive buffer before or after its check, bus. */
export const FLIP_PLACES = ["fetch", "buffer", "checked", "bus"] as const;
export type FlipPlace = typeof FLIP_PLACES[number];

/** Flips one bit of a write's data (V-08). */
export interface FlipPlan {
  readonly id: number;
  readonly where: FlipPlace;
  readonly at: Time;
  readonly until?: Time;
  /** Probability for each data segment, 0 to 1; absent: 1. */
  readonly share?: number;
  /** Only the nth segment since `at`, from 1. */
  readonly nth?: number;
  readonly count?: number;
}

/**
 * V-05: a read-back is skipped if more than the threshold of the sender's last `samples` checks
 * succeeded, except for one in `sampleOneIn` writes.
 */
export interface VerifyHistoryPlan {
  /** Successes per million that must be exceeded. */
  readonly thresholdPpm: number;
  readonly samples: number;
  readonly sampleOneIn: number;
}

export interface SwitchPlan {
  readonly ports: number;
  /** Of each port's cable, in bit/s; 0 without a cable. Absent: all have one rate. */
  readonly portRates?: readonly number[];
  readonly mode: "cut-through" | "store-and-forward";
  readonly latencyPs: Time;
  /** Most lossy bytes queued at one port. */
  readonly queueBytes: number;
  /** Absent: the sum of every port's queue, the groups' reserved bytes and all headroom. */
  readonly bufferBytes?: number;
  /**
   * For each lossless priority of an input port, and for each output port's lossy frames. Absent:
   * 0.
   */
  readonly reservedBytes?: number;
  /** Limit of lossy bytes at one port, as a share of the pool's free bytes. */
  readonly alpha?: number;
  readonly congestion?: SwitchCongestionPlan;
  /** Output port of every RNIC of the rack that has a single path. */
  readonly forwarding: ReadonlyArray<readonly [mac: number, port: number]>;
  readonly multipath?: ReadonlyArray<readonly [macs: readonly number[], ports: readonly number[]]>;
  /** From a neighbour's loss of its last path to an address until this switch reroutes. */
  readonly convergencePs?: Time;
  /** Ports for flooded frames: a spanning tree over all switches. Absent: every port. */
  readonly flood?: readonly number[];
}

/** In ps, rates in bit/s. `profile.ts` has the sources. */
export interface HostTiming {
  readonly llcHitPs: Time;
  readonly dramLoadPs: Time;
  /** A load of a line of SCM that its module has buffered, and what the medium takes beyond. */
  readonly scmLoadPs: Time;
  readonly scmMediumPs: Time;
  readonly storePs: Time;
  /** `memory: tso`: entries, and a store's minimum time in the buffer. */
  readonly storeBufferEntries: number;
  readonly storeBufferPs: Time;
  /** `clwb` of one line; `fencePs`: the wait of `sfence` until the iMC has accepted the last. */
  readonly flushIssuePs: Time;
  readonly fencePs: Time;
  /** Rates of one core to the iMC: non-temporal stores, `clwb` of lines that cores stored, and that a device wrote. */
  readonly ntStoreBitsPerSecond: number;
  readonly clwbStoredBitsPerSecond: number;
  readonly clwbDeviceBitsPerSecond: number;
  /** Builds and posts one work request, without memory accesses. */
  readonly postPs: Time;
  readonly pollPs: Time;
  /** An uncached store to the RNIC's BAR, as the core sees it. */
  readonly mmioPs: Time;
  /** From the interrupt message to the program's first instruction. */
  readonly interruptPs: Time;
  readonly dmaReadLlcPs: Time;
  readonly dmaReadDramPs: Time;
  /** Of a line that the module has buffered; {@link scmMediumPs} beyond. */
  readonly dmaReadScmPs: Time;
  /** Of further lines of one DMA read. */
  readonly dmaReadBitsPerSecond: number;
  /** Of a posted write in the IIO before it drains. */
  readonly iioPs: Time;
  readonly iioBitsPerSecond: number;
  readonly iioDrainBytes: number;
  /** Each has a module of DRAM and one of SCM, with a write pending queue of so many lines before each. */
  readonly memoryChannels: number;
  readonly wpqLines: number;
  /** Consecutive bytes of one channel. */
  readonly dramInterleaveBytes: number;
  readonly scmInterleaveBytes: number;
  /** Of one module's medium. */
  readonly scmReadBitsPerSecond: number;
  readonly scmWriteBitsPerSecond: number;
  readonly dramWriteBitsPerSecond: number;
  /** A line from the queue to its module of SCM. */
  readonly scmLinePs: Time;
  readonly commandPs: Time;
  /** Kernel: a fault of a page in memory; `majorFaultPs`: of one that has to be brought in. */
  readonly minorFaultPs: Time;
  readonly majorFaultPs: Time;
  /** Kernel: each further page of a range that is brought in, or looked up, at once. */
  readonly rangePagePs: Time;
  /** A load of one line of memory that is plugged into the node. */
  readonly pluggedLoadPs: Time;
  readonly iotlbMissPs: Time;
  /** From power to the first program's first instruction. */
  readonly bootPs: Time;
}

/** In ps. `profile.ts` has the sources. */
export interface RnicTiming {
  readonly receivePs: Time;
  readonly schedulePs: Time;
  readonly sendPs: Time;
  /**
   * To read data by a key (payload of requests, a READ's data, an atomic's word), beyond bus and
   * host. Such reads overlap, but READs of one queue pair begin this long after each other.
   */
  readonly dataReadPs: Time;
  readonly persistPs: Time;
  readonly commandPs: Time;
  /** Firmware: from an access to an absent page to the event at the driver. */
  readonly pageFaultPs: Time;
  /** longest lock of a queue's space 2. */
  readonly space2LockPs: Time;
  readonly wqeFetchUnits: number;
  /** Most bytes of one DMA read for a peer (a READ's data); `dmaReadsMax`: outstanding ones. */
  readonly dmaReadBytes: number;
  readonly dmaReadsMax: number;
  /** The RNIC's own fetches: payload of requests, WQEs, queues. */
  readonly gatherReadBytes: number;
  readonly gatherReadsMax: number;
  /** Coherent bus: from a DMA request to the bus's messages (C-01). */
  readonly convertPs: Time;
  /** Coherent card: a line in a cache or the directory. */
  readonly lookUpPs: Time;
  /** Coherent bus: credits of the host's agent, in lines, for reads and for writes each. */
  readonly busLinesMax: number;
}

/** RED at a switch's output queue: from `kmin` on by chance, from `kmax` on always. */
export interface EcnParameters {
  readonly kminBytes: number;
  readonly kmaxBytes: number;
  readonly pmax: number;
}

/** With the names of DCQCN's paper. */
export interface DcqcnParameters {
  /** Of the newest sample in alpha. */
  readonly g: number;
  /** N: minimum time between two notifications for one queue pair, at the notification point. */
  readonly cnpIntervalPs: Time;
  /** K: between alpha updates. */
  readonly alphaTimerPs: Time;
  /** T and B trigger rate increases. */
  readonly rateTimerPs: Time;
  readonly byteCounterBytes: number;
  /** F: steps. */
  readonly fastRecovery: number;
  /** R_AI and R_HAI. */
  readonly additiveBps: number;
  readonly hyperBps: number;
  readonly minBps: number;
  readonly decreaseIntervalPs: Time;
}

export interface RnicCongestionPlan {
  readonly dscp: number;
  readonly cnpDscp: number;
  readonly bitsPerSecond: number;
  readonly pfc: {
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
    readonly mac: number;
    readonly ports: readonly PortLimits[];
  } | null;
}

/** When a switch asks a sender to pause and to resume (`nodes/switch/shared_buffer.ts`). */
export type PauseThreshold =
  | { readonly kind: "static"; readonly xoffBytes: number; readonly xonBytes: number }
  /** A share of the pool's free bytes; the sender resumes `xonOffsetBytes` below it. */
  | { readonly kind: "dynamic"; readonly alpha: number; readonly xonOffsetBytes: number };

/** PFC's limits. */
export interface PortLimits {
  readonly bitsPerSecond: number;
  readonly headroomBytes: number;
  /** Where the scenario sets another headroom. */
  readonly neededBytes?: number;
  readonly peer?: string;
}
