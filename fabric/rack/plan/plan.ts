/**
 * A rack as its processes are given it: every name resolved, every default filled, every time in
 * picoseconds. `topology.ts` makes it from a scenario; nothing in it needs checking again. Plain data
 * that survives JSON.
 */
import type { Time } from "../../base/time.ts";
import type { LinkFaultPlan } from "./link_plan.ts";

export interface RackPlan {
  readonly scenario: string;
  readonly seed: number;
  /** Sorted by name; a node's place in this list is its index everywhere (event keys). */
  readonly nodes: readonly NodePlan[];
  readonly cables: readonly CablePlan[];
  /** Scripted power failures and returns, by time. */
  readonly faults: readonly FaultPlan[];
  /** What caches give up early, so that a power failure finds it in SCM; absent: nothing. */
  readonly writebacks?: readonly WritebackPlan[];
  /** What cables do wrong; absent: nothing. */
  readonly linkFaults?: readonly LinkFaultPlan[];
  /** Stop here even if something would still happen. */
  readonly until: Time | null;
  /** IPv4 address of each host, as programs find each other by name. */
  readonly addresses: Readonly<Record<string, number>>;
}

export type NodePlan =
  | { readonly name: string; readonly kind: "host"; readonly config: HostPlan }
  | { readonly name: string; readonly kind: "rnic"; readonly config: RnicPlan }
  | { readonly name: string; readonly kind: "switch"; readonly config: SwitchPlan };

export interface Endpoint {
  readonly node: string;
  readonly port: number;
}

/** A full-duplex point-to-point cable. Latency > 0: it is the lookahead of the clock. */
export interface CablePlan {
  readonly kind: "bus" | "network";
  readonly a: Endpoint;
  readonly b: Endpoint;
  readonly latencyPs: Time;
  readonly bitsPerSecond: number;
}

export interface FaultPlan {
  readonly at: Time;
  readonly action: "kill" | "start";
  readonly node: string;
}

/**
 * Bytes [from, to) of a host's SCM, whole 8 B words, that are in SCM from `at` on as cores and devices see
 * them then: a cache may evict a line, and a buffer let go of a write, sooner than the model does (P-04).
 * Nothing else notices: the crash explorer names by it what a counterexample's power failure found.
 */
export interface WritebackPlan {
  readonly at: Time;
  readonly node: string;
  readonly from: number;
  readonly to: number;
  /** With what the first write in the I/O controller's buffer is about to bring: part of it got through. */
  readonly buffered: boolean;
  /**
   * These bytes, in hexadecimal digits, instead: what a core stores a moment later. Of what a core does at
   * one instant a power failure may find the first part only, and there is no instant within an instant.
   */
  readonly data?: string;
}

export type Architecture = "ddio" | "ddio+ns";
/** What the power that is left saves: the controllers' queues, the caches too, or all of the system. */
export type PersistenceDomain = "adr" | "eadr" | "wsp";

export interface HostPlan {
  readonly rnic: string;
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
    /** Which line of a full set makes room: the one least recently used, unless said. */
    readonly evict?: "random";
  };
  /** Queues that queue information is laid out for. */
  readonly queues: number;
  /** How programs learn of completions unless they say otherwise. */
  readonly completion: "poll" | "interrupt";
  readonly timing: HostTiming;
  readonly programs: readonly ProgramPlan[];
  /** V-08: cells of SCM that hold one value whatever is written to them; absent: none. */
  readonly stuckBits?: readonly StuckBit[];
}

/** A cell of SCM that has been broken since before the run: bit `bit` (0 the lowest) of a byte. */
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
  /** Services start again at every boot of the host, other programs only at its first. */
  readonly service: boolean;
  readonly options: Readonly<Record<string, unknown>>;
  /** Of a program that was started from outside: its number, which its results carry. */
  readonly order?: number;
}

export interface RnicPlan {
  readonly host: string;
  readonly address: number;
  /** 48 bits. */
  readonly mac: number;
  /** Path MTU in bytes of payload. */
  readonly mtu: 256 | 512 | 1024 | 2048 | 4096;
  readonly queueCache: {
    readonly entries: number;
    readonly evict: "oldest" | "several-oldest" | "older-than" | "random";
    /** `several-oldest` and `random`: how many at once. `older-than`: the age in ps. */
    readonly amount: number;
  };
  readonly timing: RnicTiming;
  readonly congestion?: RnicCongestionPlan;
  /**
   * The card's writes into persistent memory survive a power failure of its host (domain `wsp`): it
   * keeps those that may be on the bus, of which it knows the latency, and how much later than it
   * happens it notices the failure. Absent: they are lost.
   */
  readonly flushOnFail?: { readonly busLatencyPs: Time; readonly noticePs: Time };
  /** V-08: damage inside this card; absent: none. */
  readonly flips?: readonly FlipPlan[];
  /** V-05: absent: every verified write is read back. */
  readonly verifyHistory?: VerifyHistoryPlan;
}

/**
 * Where in an RNIC a write's data is damaged: on the bus from memory as its sender fetches it; at the other
 * end in the receive buffer before its CRC is checked, there afterwards, or on the bus to memory.
 */
export const FLIP_PLACES = ["fetch", "buffer", "checked", "bus"] as const;
export type FlipPlace = typeof FLIP_PLACES[number];

/** A fault inside an RNIC that turns over one bit of a write's data on its way from memory to memory (V-08). */
export interface FlipPlan {
  /** Its place among the scenario's faults: counters and random streams are named after it. */
  readonly id: number;
  readonly where: FlipPlace;
  readonly at: Time;
  readonly until?: Time;
  /** Probability for each piece of data, 0 to 1; absent: every one. */
  readonly share?: number;
  /** Only the nth piece since `at`, counted from 1. */
  readonly nth?: number;
  /** At most so many pieces. */
  readonly count?: number;
}

/**
 * V-05: when a sender's past stands for a read-back: of its last `samples` checks a share above the
 * threshold succeeded. One in `sampleOneIn` writes is read back all the same.
 */
export interface VerifyHistoryPlan {
  /** Successes per million that must be exceeded. */
  readonly thresholdPpm: number;
  readonly samples: number;
  readonly sampleOneIn: number;
}

export interface SwitchPlan {
  readonly ports: number;
  readonly mode: "cut-through" | "store-and-forward";
  readonly latencyPs: Time;
  /** Bytes that may wait for one output port. */
  readonly queueBytes: number;
  /** Bytes that may wait for all ports together; absent: each port has its own. */
  readonly bufferBytes?: number;
  readonly congestion?: SwitchCongestionPlan;
  /** MAC address → output port, for every RNIC of the rack that there is one way to. */
  readonly forwarding: ReadonlyArray<readonly [mac: number, port: number]>;
  /** MAC addresses that several ports lead to equally well. */
  readonly multipath?: ReadonlyArray<readonly [macs: readonly number[], ports: readonly number[]]>;
  /** How long after a neighbour has lost its last way to an address this switch acts on the news. */
  readonly convergencePs?: Time;
  /** Ports that frames for all are sent on: a tree over all switches. Absent: every port. */
  readonly flood?: readonly number[];
}

/** Durations of a host's parts in ps, rates in bit/s. Sources stand in `profile.ts`. */
export interface HostTiming {
  /** A core's load that hits the LLC / goes to DRAM / goes to SCM, per line. */
  readonly llcHitPs: Time;
  readonly dramLoadPs: Time;
  readonly scmLoadPs: Time;
  /** A core's store of one line into the LLC. */
  readonly storePs: Time;
  /** `clwb` of one line: issue, and the wait of `sfence` until the iMC has accepted the last. */
  readonly flushIssuePs: Time;
  readonly fencePs: Time;
  /** Rate at which one core can flush or stream lines to the iMC. */
  readonly coreFlushBitsPerSecond: number;
  /** Build and post one work request, without memory accesses. */
  readonly postPs: Time;
  /** One look at a completion queue. */
  readonly pollPs: Time;
  /** An uncached store to the RNIC's BAR, as the core sees it. */
  readonly mmioPs: Time;
  /** From the interrupt message to the program's first instruction. */
  readonly interruptPs: Time;
  /** Part of a DMA read that the host takes (the bus apart): line in LLC / DRAM / SCM. */
  readonly dmaReadLlcPs: Time;
  readonly dmaReadDramPs: Time;
  readonly dmaReadScmPs: Time;
  /** Rate at which later lines of one DMA read follow. */
  readonly dmaReadBitsPerSecond: number;
  /** How long a posted write waits in the IIO before it moves on, and how fast the buffer drains. */
  readonly iioPs: Time;
  readonly iioBitsPerSecond: number;
  /** Bytes moved at once from the IIO buffer. */
  readonly iioDrainBytes: number;
  /** Write pending queue: lines it holds, and how fast SCM and DRAM empty it. */
  readonly wpqLines: number;
  readonly scmWriteBitsPerSecond: number;
  readonly dramWriteBitsPerSecond: number;
  /** Handling of a control command by driver and kernel. */
  readonly commandPs: Time;
  /** From power to the first instruction of the first program. */
  readonly bootPs: Time;
}

/** Durations of an RNIC's parts in ps. Sources stand in `profile.ts`. */
export interface RnicTiming {
  /** Receiving module: a frame's parse and look-up. */
  readonly receivePs: Time;
  /** Scheduling module: a doorbell or a WQE. */
  readonly schedulePs: Time;
  /** Sending module: build one frame. */
  readonly sendPs: Time;
  /** PM module: a decision. */
  readonly persistPs: Time;
  /** Firmware: one control command. */
  readonly commandPs: Time;
  /** WQE units fetched by one DMA read. */
  readonly wqeFetchUnits: number;
  /**
   * Most bytes of one DMA read for a peer (a READ's data), and how many of the bus's read requests are
   * outstanding at most.
   */
  readonly dmaReadBytes: number;
  readonly dmaReadsMax: number;
  /** The same of what the RNIC fetches on its own account: payload of requests, WQEs, queues. */
  readonly gatherReadBytes: number;
  readonly gatherReadsMax: number;
}

/** Marking at a switch's output queue (RED): from `kmin` on, always from `kmax` on. */
export interface EcnParameters {
  readonly kminBytes: number;
  readonly kmaxBytes: number;
  /** Probability of a mark just below `kmax`. */
  readonly pmax: number;
}

/** DCQCN, by the names of the paper. */
export interface DcqcnParameters {
  /** Weight of the newest sample in alpha. */
  readonly g: number;
  /** N: least time between two notifications for one queue pair, at the notification point. */
  readonly cnpIntervalPs: Time;
  /** K: how often alpha is updated. */
  readonly alphaTimerPs: Time;
  /** T and B: what drives the rate up, a timer and a byte counter. */
  readonly rateTimerPs: Time;
  readonly byteCounterBytes: number;
  /** F: steps of fast recovery. */
  readonly fastRecovery: number;
  /** R_AI and R_HAI. */
  readonly additiveBps: number;
  readonly hyperBps: number;
  readonly minBps: number;
  /** A queue pair's rate is cut at most once in this time. */
  readonly decreaseIntervalPs: Time;
}

export interface RnicCongestionPlan {
  readonly dscp: number;
  readonly cnpDscp: number;
  readonly bitsPerSecond: number;
  readonly pfc: {
    /** Bit mask of priorities. */
    readonly lossless: number;
    /** What the bus needs to take what may still come after a pause was asked for. */
    readonly headroomPs: Time;
  } | null;
  readonly dcqcn: DcqcnParameters | null;
}

export interface SwitchCongestionPlan {
  readonly ecn: EcnParameters | null;
  readonly pfc: {
    readonly lossless: number;
    readonly xoffBytes: number;
    readonly xonBytes: number;
    /** Source address of the switch's pause frames. */
    readonly mac: number;
    readonly ports: readonly { readonly bitsPerSecond: number; readonly headroomBytes: number }[];
  } | null;
}
