/**
 * Congestion control in the plans of switches and RNICs (`rocev2.md` §3.9): thresholds, headroom, rates.
 * `scenario/congestion.ts` reads the scenario's part of it.
 */
import { COMMIT_AHEAD_PS } from "../plan/processing.ts";
import { PS_PER_S, type Time, transferTime } from "../../base/time.ts";
import type {
  CablePlan,
  NodePlan,
  RackPlan,
  RnicCongestionPlan,
  SwitchCongestionPlan,
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
 * Bytes that may still arrive over a cable after a pause was requested (§3.9): what is committed to
 * the near transmitter, the request, what is committed to the far one, twice the latency. One frame
 * is added on each side, as a started frame is never interrupted, and one for other priorities.
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

/** A node's end of a cable, with the headroom that PFC needs there. */
interface CableEnd {
  readonly cable: CablePlan;
  readonly port: number;
  readonly headroomBytes: number;
}

export function withCongestion(
  plan: RackPlan,
  congestion: CongestionScenario | undefined,
): RackPlan {
  if (congestion === undefined) return plan;
  const byName = new Map(plan.nodes.map((node) => [node.name, node]));
  const mtus = plan.nodes.map((node) => node.kind === "rnic" ? node.config.mtu : 0);
  const nodes = plan.nodes.map((node, index): NodePlan => {
    if (node.kind === "host") return node;
    const mtu = node.kind === "rnic" ? node.config.mtu : Math.max(...mtus);
    const ends = plan.cables.flatMap((cable) =>
      ([[cable.a, cable.b], [cable.b, cable.a]] as const)
        .filter(([near]) => near.node === node.name)
        .map(([{ port }, far]): CableEnd => ({
          cable,
          port,
          headroomBytes: headroomBytes(cable, { near: node, far: byName.get(far.node)!, mtu }),
        }))
    );
    return node.kind === "rnic"
      ? { ...node, config: { ...node.config, congestion: rnicCongestion(ends, congestion) } }
      : {
        ...node,
        config: {
          ...node.config,
          congestion: switchCongestion(ends, congestion, { index, ports: node.config.ports }),
        },
      };
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
  // The factor 2 covers the bus overhead of a frame: packet headers, completions, other reads.
  const headroomPs = transferTime(2 * headroom, bus.cable.bitsPerSecond);
  return {
    dscp,
    cnpDscp,
    bitsPerSecond: (network[0] ?? bus).cable.bitsPerSecond,
    pfc: pfc && { lossless: bitMask(lossless), headroomPs },
    dcqcn,
  };
}

function switchCongestion(
  ends: readonly CableEnd[],
  { ecn, pfc, lossless }: CongestionScenario,
  { index, ports }: { readonly index: number; readonly ports: number },
): SwitchCongestionPlan {
  const limits = Array.from({ length: ports }, (_, port) => {
    const end = ends.find((each) => each.port === port);
    if (end === undefined) return { bitsPerSecond: 1, headroomBytes: 0 };
    return { bitsPerSecond: end.cable.bitsPerSecond, headroomBytes: end.headroomBytes };
  });
  const mac = SWITCH_MAC_BASE + index;
  return { ecn, pfc: pfc && { ...pfc, lossless: bitMask(lossless), mac, ports: limits } };
}
