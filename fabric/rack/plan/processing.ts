/** The minimum processing delay of a node, shared by the node and the lookahead. */
import type { HostTiming, NodePlan, RnicTiming, SwitchPlan } from "./plan.ts";
import type { Time } from "../../base/time.ts";

/** The shorter delay of a host's outputs: an uncached store, the completion of a DMA read. */
export function hostProcessingPs(timing: HostTiming): Time {
  return Math.min(timing.mmioPs, timing.dmaReadLlcPs);
}

/** How early an RNIC commits a frame to an idle transmitter. */
export const COMMIT_AHEAD_PS: Time = 500_000;

/** At least one module of an RNIC works before an output; the shortest delay of a module, in ps. */
export function rnicProcessingPs(timing: RnicTiming): Time {
  return Math.min(
    timing.receivePs,
    timing.schedulePs,
    timing.sendPs,
    timing.persistPs,
    timing.commandPs,
  );
}

/** A switch's forwarding latency, in ps. */
export function switchProcessingPs(plan: SwitchPlan): Time {
  return plan.latencyPs;
}

/** Minimum time from a cause to an output of the node, in ps. */
export function processingPs(node: NodePlan): Time {
  switch (node.kind) {
    case "host":
      return hostProcessingPs(node.config.timing);
    case "rnic":
      return rnicProcessingPs(node.config.timing);
    case "switch":
      return switchProcessingPs(node.config);
  }
}

/** Whether the node acts on the head of a frame, so that its cables deliver heads. */
export function actsOnHead(node: NodePlan): boolean {
  return node.kind === "switch" && node.config.mode === "cut-through";
}
