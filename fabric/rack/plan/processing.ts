/** Least processing delays, shared by nodes and lookahead, in ps. */
import type { HostTiming, NodePlan, RnicTiming, SwitchPlan } from "./plan.ts";
import type { Time } from "../../base/time.ts";

/** An uncached store, or the completion of a DMA read. */
export function hostProcessingPs(timing: HostTiming): Time {
  return Math.min(timing.mmioPs, timing.dmaReadLlcPs);
}

/** How early an RNIC commits a frame to an idle transmitter. */
export const COMMIT_AHEAD_PS: Time = 500_000;

/** At least one module of an RNIC works before an output. */
export function rnicProcessingPs(timing: RnicTiming): Time {
  return Math.min(
    timing.receivePs,
    timing.schedulePs,
    timing.sendPs,
    timing.persistPs,
    timing.commandPs,
  );
}

export function switchProcessingPs(plan: SwitchPlan): Time {
  return plan.latencyPs;
}

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

export function actsOnHead(node: NodePlan): boolean {
  return node.kind === "switch" && node.config.mode === "cut-through";
}
