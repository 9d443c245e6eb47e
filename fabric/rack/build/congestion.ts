/**
 * Congestion control in the plans of switches and RNICs (`rocev2.md` §3.9): thresholds, headroom, rates.
 * `scenario/congestion.ts` reads the scenario's part of it.
 */
import { COMMIT_AHEAD_PS } from "../plan/processing.ts";
import { PS_PER_S, type Time, transferTime } from "../../base/time.ts";
import type {
  CablePlan,
  Endpoint,
  NodePlan,
  RackPlan,
  RnicCongestionPlan,
  RnicPlan,
  SwitchCongestionPlan,
  SwitchPlan,
} from "../plan/plan.ts";
import { type CongestionScenario, FRAME_OVERHEAD_BYTES } from "../scenario/congestion.ts";

const PFC_WIRE_BYTES = 84;
/** Source addresses of switches' own frames, by the switch's index in the plan. */
const SWITCH_MAC_BASE = 0x0200_ff00_0000;

/** Maximum time by which a node commits frames to its transmitter in advance, in ps. */
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
 * Bytes that may still arrive over a cable after a pause was requested (§3.9): until the request
 * has passed the frames already committed to the transmitter and has crossed the cable, until the
 * peer's transmitter has sent its committed frames, and until those have crossed the cable. One
 * frame is added on each side, as a started frame is never interrupted, and one for requests and
 * answers of other priorities ahead.
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

/** Adds congestion control to the plan's switches and RNICs. */
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
  // The factor 2 covers the bus overhead of a frame: packet headers, completions, other reads.
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
