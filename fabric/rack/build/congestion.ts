/**
 * Congestion control of a rack (`rocev2.md` §3.9): what a scenario says of ECN, PFC and DCQCN, and what
 * becomes of it in the plans of switches and RNICs. All of it is off unless the scenario says so.
 *
 * Sources: DCQCN = Zhu et al., SIGCOMM'15, whose names the parameters have; §3.9 = `rocev2.md`.
 */
import { COMMIT_AHEAD_PS } from "../plan/processing.ts";
import { PS_PER_S, PS_PER_US, type Time, transferTime } from "../../base/time.ts";
import { priorityOfDscp } from "../../wire/roce/pfc.ts";
import type {
  CablePlan,
  Endpoint,
  NodePlan,
  RackPlan,
  RnicPlan,
  SwitchPlan,
} from "../plan/plan.ts";
import type { Report } from "../scenario/reading.ts";
import type { FabricSection } from "../scenario/schema.ts";
import { formatSize } from "../plan/units.ts";

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

export interface CongestionScenario {
  readonly ecn: EcnParameters | null;
  readonly pfc: { readonly xoffBytes: number; readonly xonBytes: number } | null;
  readonly dcqcn: DcqcnParameters | null;
  /** Of all that RNICs send, and of their notifications. */
  readonly dscp: number;
  readonly cnpDscp: number;
  /** Priorities for which PFC is on. */
  readonly lossless: readonly number[];
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

/** [choice] Between §3.9's thresholds for 25 Gb/s (100 KB, 400 KB, 0.2, from memory) and 100 Gb/s
 * (four times that, more than a port's 1 MiB here): those that leave a port room for the first burst. */
const ECN: EcnParameters = { kminBytes: 100 * 1024, kmaxBytes: 400 * 1024, pmax: 0.2 };

const DCQCN: DcqcnParameters = {
  // DCQCN, table 14 and text: g = 1/256, N = 50 us, K = T = 55 us, B = 10 MB, F = 5, R_AI = 40 Mb/s.
  g: 1 / 256,
  cnpIntervalPs: 50 * PS_PER_US,
  alphaTimerPs: 55 * PS_PER_US,
  rateTimerPs: 55 * PS_PER_US,
  byteCounterBytes: 10_000_000,
  fastRecovery: 5,
  additiveBps: 40e6,
  // [choice] Ten times R_AI, as 50 is to 5 Mb/s in §3.9.
  hyperBps: 400e6,
  // [choice] ns-3's least rate.
  minBps: 100e6,
  // §3.9: 4 us (ns-3).
  decreaseIntervalPs: 4 * PS_PER_US,
};

/** [choice] The class that RoCE is usually given: DSCP 26, priority 3; notifications 48, priority 6. */
const DSCP = 26, CNP_DSCP = 48;
/** [choice] Part of a port's buffer that one cable may fill before it is paused. */
const XOFF_SHARE = 8;
/** Ethernet to ICRC of the longest frame beside its payload, rounded up; FCS, preamble and gap. */
const FRAME_OVERHEAD_BYTES = 128 + 24;
const PFC_WIRE_BYTES = 84;
/** Source addresses of switches' own frames, by the switch's place in the plan. */
const SWITCH_MAC_BASE = 0x0200_ff00_0000;

/** The scenario's word, defaults filled in; undefined where it asks for none of it. */
export function resolveCongestion(
  section: FabricSection,
  from: { readonly queueBytes: number; readonly mtu: number },
): CongestionScenario | undefined {
  const { ecn, pfc, dcqcn, priorities } = section;
  if (!ecn && !pfc && !dcqcn && !priorities) return undefined;
  const xoffBytes = pfc?.xoff ?? Math.floor(from.queueBytes / XOFF_SHARE);
  const dscp = priorities?.dscp ?? DSCP;
  return {
    ecn: ecn
      ? {
        kminBytes: ecn.kmin ?? ECN.kminBytes,
        kmaxBytes: ecn.kmax ?? ECN.kmaxBytes,
        pmax: ecn.pmax ?? ECN.pmax,
      }
      : null,
    pfc: pfc
      ? {
        xoffBytes,
        // [choice] Two frames below, so that one that leaves does not end a pause at once.
        xonBytes: pfc.xon ?? Math.max(0, xoffBytes - 2 * (from.mtu + FRAME_OVERHEAD_BYTES)),
      }
      : null,
    dcqcn: dcqcn
      ? {
        g: dcqcn.g ?? DCQCN.g,
        cnpIntervalPs: dcqcn.cnpInterval ?? DCQCN.cnpIntervalPs,
        alphaTimerPs: dcqcn.alphaTimer ?? DCQCN.alphaTimerPs,
        rateTimerPs: dcqcn.rateTimer ?? DCQCN.rateTimerPs,
        byteCounterBytes: dcqcn.byteCounter ?? DCQCN.byteCounterBytes,
        fastRecovery: dcqcn.fastRecovery ?? DCQCN.fastRecovery,
        additiveBps: dcqcn.additive ?? DCQCN.additiveBps,
        hyperBps: dcqcn.hyper ?? DCQCN.hyperBps,
        minBps: dcqcn.minRate ?? DCQCN.minBps,
        decreaseIntervalPs: dcqcn.decreaseInterval ?? DCQCN.decreaseIntervalPs,
      }
      : null,
    dscp,
    cnpDscp: priorities?.cnp ?? CNP_DSCP,
    lossless: priorities?.lossless ?? [priorityOfDscp(dscp)],
  };
}

/** What the thresholds have to agree on. */
export function checkCongestion({ ecn, pfc }: CongestionScenario, report: Report): void {
  if (ecn !== null && ecn.kmaxBytes < ecn.kminBytes) {
    const expected = `at least kmin, ${formatSize(ecn.kminBytes)}`;
    report(["fabric", "ecn", "kmax"], { found: formatSize(ecn.kmaxBytes), expected });
  }
  if (pfc !== null && pfc.xonBytes > pfc.xoffBytes) {
    const expected = `at most xoff, ${formatSize(pfc.xoffBytes)}`;
    report(["fabric", "pfc", "xon"], { found: formatSize(pfc.xonBytes), expected });
  }
}

/** How far ahead of the wire a node has promised frames to its transmitter, in ps. */
function committedPs(node: NodePlan): Time {
  switch (node.kind) {
    case "switch":
      return node.config.latencyPs;
    case "rnic": {
      const { receivePs, schedulePs, sendPs } = node.config.timing;
      return COMMIT_AHEAD_PS + receivePs + schedulePs + sendPs;
    }
    case "host":
      return 0;
  }
}

/**
 * Bytes that may still arrive over a cable after a pause was asked for: until the request has left
 * behind what was promised to the transmitter, has crossed the cable, has been obeyed by a
 * transmitter with frames promised to it, and until what left before that has crossed (§3.9). One
 * frame is added on each side, as a frame that has begun is never interrupted, and one for requests
 * and answers of other priorities ahead.
 */
export function headroomBytes(
  cable: CablePlan,
  ends: { readonly near: NodePlan; readonly far: NodePlan; readonly mtu: number },
): number {
  const { bitsPerSecond, latencyPs } = cable;
  const framePs = transferTime(ends.mtu + FRAME_OVERHEAD_BYTES, bitsPerSecond);
  const requestPs = transferTime(PFC_WIRE_BYTES, bitsPerSecond);
  const ps = committedPs(ends.near) + requestPs + committedPs(ends.far) + 2 * latencyPs +
    3 * framePs;
  return Math.ceil(ps * bitsPerSecond / 8 / PS_PER_S);
}

function bitMask(priorities: readonly number[]): number {
  return priorities.reduce((mask, priority) => mask | (1 << priority), 0);
}

/** The plan with congestion control in its switches and RNICs. */
export function withCongestion(
  plan: RackPlan,
  congestion: CongestionScenario | undefined,
): RackPlan {
  if (congestion === undefined) return plan;
  const byName = new Map(plan.nodes.map((node) => [node.name, node]));
  const network = plan.cables.filter(({ kind }) => kind === "network");
  /** A node's cables, each with the near end's port and the node at the far end. */
  const cablesOf = (name: string) =>
    network.flatMap((cable) =>
      ([[cable.a, cable.b], [cable.b, cable.a]] as const)
        .filter(([near]) => near.node === name)
        .map(([near, far]) => ({ cable, near, far: byName.get(far.node)! }))
    );
  const nodes = plan.nodes.map((node, index): NodePlan => {
    if (node.kind === "host") return node;
    const cables = cablesOf(node.name);
    if (node.kind === "rnic") {
      const { mtu } = node.config;
      const config = {
        ...node.config,
        congestion: rnicCongestion(node, { cables, congestion, mtu, plan }),
      };
      return { ...node, config };
    }
    const config = {
      ...node.config,
      congestion: switchCongestion(node, { cables, congestion, index, mtu: mtuOf(plan) }),
    };
    return { ...node, config };
  });
  return { ...plan, nodes };
}

interface NearCable {
  readonly cable: CablePlan;
  readonly near: Endpoint;
  readonly far: NodePlan;
}

function mtuOf(plan: RackPlan): number {
  return plan.nodes.reduce(
    (most, node) => node.kind === "rnic" ? Math.max(most, node.config.mtu) : most,
    0,
  );
}

function rnicCongestion(
  node: NodePlan & { readonly config: RnicPlan },
  of: {
    readonly cables: readonly NearCable[];
    readonly congestion: CongestionScenario;
    readonly mtu: number;
    readonly plan: RackPlan;
  },
): RnicCongestionPlan {
  const { cables, congestion, mtu, plan } = of;
  const { pfc, dcqcn, dscp, cnpDscp, lossless } = congestion;
  const bus = plan.cables.find(({ kind, a, b }) =>
    kind === "bus" && (a.node === node.name || b.node === node.name)
  )!;
  const headroom = cables.map(({ cable, far }) => headroomBytes(cable, { near: node, far, mtu }));
  // Twice, as a frame costs the bus more than its bytes: packet overhead, completions, other reads.
  const headroomPs = transferTime(2 * Math.max(0, ...headroom), bus.bitsPerSecond);
  return {
    dscp,
    cnpDscp,
    bitsPerSecond: cables[0]?.cable.bitsPerSecond ?? bus.bitsPerSecond,
    pfc: pfc === null ? null : { lossless: bitMask(lossless), headroomPs },
    dcqcn,
  };
}

function switchCongestion(
  node: NodePlan & { readonly config: SwitchPlan },
  of: {
    readonly cables: readonly NearCable[];
    readonly congestion: CongestionScenario;
    readonly index: number;
    readonly mtu: number;
  },
): SwitchCongestionPlan {
  const { cables, congestion, index, mtu } = of;
  const { ecn, pfc, lossless } = congestion;
  const { ports } = node.config;
  const limits = Array.from({ length: ports }, (_, port) => {
    const found = cables.find(({ near }) => near.port === port);
    if (found === undefined) return { bitsPerSecond: 1, headroomBytes: 0 };
    const { cable, far } = found;
    return {
      bitsPerSecond: cable.bitsPerSecond,
      headroomBytes: headroomBytes(cable, { near: node, far, mtu }),
    };
  });
  return {
    ecn,
    pfc: pfc === null
      ? null
      : { ...pfc, lossless: bitMask(lossless), mac: SWITCH_MAC_BASE + index, ports: limits },
  };
}
