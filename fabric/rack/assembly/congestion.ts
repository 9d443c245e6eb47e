/** Congestion control in plans (`rocev2.md` §3.9): thresholds, headroom, rates. */
import { COMMIT_AHEAD_PS } from "../plan/processing.ts";
import { PS_PER_S, type Time, transferTime } from "../../base/time.ts";
import { cableEndsByNode } from "../plan/cabling.ts";
import type {
  CablePlan,
  NodePlan,
  PortLimits,
  RackPlan,
  RnicCongestionPlan,
  RnicTiming,
  SwitchCongestionPlan,
} from "../plan/plan.ts";
import { type CongestionScenario, longestFrame } from "../scenario/congestion.ts";

const PFC_WIRE_BYTES = 84;
/** By the switch's index in the plan. */
const SWITCH_MAC_BASE = 0x0200_ff00_0000;

export type Transmitter =
  | { readonly kind: "host" }
  | { readonly kind: "rnic"; readonly config: { readonly timing: RnicTiming } }
  | { readonly kind: "switch"; readonly config: { readonly latencyPs: Time } };

/** The longest time by which a node commits frames to its transmitter in advance. */
function committedPs(node: Transmitter): Time {
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
 * Bytes that may still arrive after a pause was requested (§3.9): those committed to the near
 * transmitter, the request, those committed to the far one, twice the latency; a frame more on each
 * side, as a started one is never interrupted, and one for other priorities.
 */
export function headroomBytes(
  cable: Pick<CablePlan, "bitsPerSecond" | "latencyPs">,
  ends: { readonly near: Transmitter; readonly far: Transmitter; readonly mtu: number },
): number {
  const { bitsPerSecond, latencyPs } = cable;
  const framePs = transferTime(longestFrame(ends.mtu), bitsPerSecond);
  const requestPs = transferTime(PFC_WIRE_BYTES, bitsPerSecond);
  const ps = committedPs(ends.near) + requestPs + committedPs(ends.far) + 2 * latencyPs +
    3 * framePs;
  return Math.ceil(ps * bitsPerSecond / 8 / PS_PER_S);
}

function bitMask(priorities: readonly number[]): number {
  return priorities.reduce((mask, priority) => mask | (1 << priority), 0);
}

interface CableEnd {
  readonly cable: CablePlan;
  readonly port: number;
  readonly peer: string;
  readonly headroomBytes: number;
}

function endsOf(
  name: string,
  { cables, byName, mtu }: {
    readonly cables: readonly CablePlan[];
    readonly byName: ReadonlyMap<string, Transmitter>;
    readonly mtu: number;
  },
): CableEnd[] {
  const near = byName.get(name)!;
  return (cableEndsByNode(cables).get(name) ?? []).map(({ cable: index, near: end, far }) => {
    const cable = cables[index]!;
    const bytes = headroomBytes(cable, { near, far: byName.get(far.node)!, mtu });
    return { cable, port: end.port, peer: far.node, headroomBytes: bytes };
  });
}

export function withCongestion(
  plan: RackPlan,
  congestion: CongestionScenario | undefined,
): RackPlan {
  if (congestion === undefined) return plan;
  const { cables } = plan;
  const byName = new Map(plan.nodes.map((node) => [node.name, node]));
  const mtu = plan.nodes.reduce(
    (most, node) => node.kind === "rnic" ? Math.max(most, node.config.mtu) : most,
    0,
  );
  const nodes = plan.nodes.map((node, index): NodePlan => {
    if (node.kind === "host") return node;
    if (node.kind === "rnic") {
      const ends = endsOf(node.name, { cables, byName, mtu });
      return { ...node, config: { ...node.config, congestion: rnicCongestion(ends, congestion) } };
    }
    const { ports } = node.config;
    const limits = portLimits(node.name, { ports, cables, byName, mtu }, congestion);
    const config = { ...node.config, congestion: switchCongestion(congestion, { index, limits }) };
    return { ...node, config };
  });
  return { ...plan, nodes };
}

function rnicCongestion(
  ends: readonly CableEnd[],
  { pfc, dcqcn, dscp, cnpDscp, lossless }: CongestionScenario,
): RnicCongestionPlan {
  const bus = ends.find(({ cable }) => cable.kind === "bus")!;
  const network = ends.filter(({ cable }) => cable.kind === "network");
  const headroom = Math.max(0, ...network.map((end) => end.headroomBytes));
  // The factor 2 covers a frame's bus overhead: packet headers, completions, other reads.
  const headroomPs = transferTime(2 * headroom, bus.cable.bitsPerSecond);
  return {
    dscp,
    cnpDscp,
    bitsPerSecond: (network[0] ?? bus).cable.bitsPerSecond,
    pfc: pfc && { lossless: bitMask(lossless), headroomPs },
    dcqcn,
  };
}

export function portLimits(
  name: string,
  rack: {
    readonly ports: number;
    readonly cables: readonly CablePlan[];
    readonly byName: ReadonlyMap<string, Transmitter>;
    readonly mtu: number;
  },
  { pfc }: Pick<CongestionScenario, "pfc">,
): PortLimits[] {
  const byPort = new Map(endsOf(name, rack).map((end) => [end.port, end]));
  return Array.from({ length: rack.ports }, (_, port): PortLimits => {
    const end = byPort.get(port);
    if (end === undefined) return { bitsPerSecond: 1, headroomBytes: 0 };
    const { cable: { bitsPerSecond }, headroomBytes: neededBytes, peer } = end;
    const given = pfc?.headroom;
    if (given === undefined) return { bitsPerSecond, headroomBytes: neededBytes, peer };
    if (given.kind === "bytes") {
      return { bitsPerSecond, headroomBytes: given.bytes, neededBytes, peer };
    }
    const assumed = { bitsPerSecond, latencyPs: given.latencyPs };
    const near = rack.byName.get(name)!, far = rack.byName.get(peer)!;
    const bytes = headroomBytes(assumed, { near, far, mtu: rack.mtu });
    return { bitsPerSecond, headroomBytes: bytes, neededBytes, peer };
  });
}

export function switchCongestion(
  { ecn, pfc, lossless }: Pick<CongestionScenario, "ecn" | "pfc" | "lossless">,
  at: { readonly index: number; readonly limits: readonly PortLimits[] },
): SwitchCongestionPlan {
  if (pfc === null) return { ecn, pfc };
  const { threshold, headroomPoolBytes } = pfc;
  return {
    ecn,
    pfc: {
      lossless: bitMask(lossless),
      threshold,
      ...(headroomPoolBytes !== undefined && { headroomPoolBytes }),
      mac: SWITCH_MAC_BASE + at.index,
      ports: at.limits,
    },
  };
}
