/**
 * How soon a node can answer: the fixed part of its processing, from its plan alone. The one
 * definition, used by the nodes (as `Node.processingPs`) and by `topology.ts` for the lookahead, so
 * that a clock never grants more than a node keeps to.
 */
import type { HostTiming, NodePlan, RnicTiming, SwitchPlan } from "./plan.ts";
import type { Time } from "../../base/time.ts";

/** A host speaks by an uncached store or by completing a DMA read; the faster of the two, in ps. */
export function hostProcessingPs(timing: HostTiming): Time {
  return Math.min(timing.mmioPs, timing.dmaReadLlcPs);
}

/** How far ahead of the wire an RNIC commits a frame to its transmitter, where nothing else waits. */
export const COMMIT_AHEAD_PS: Time = 500_000;

/** An RNIC speaks after at least one of its modules has worked; the fastest of them, in ps. */
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

/** No output of the node departs sooner than this after its cause, in ps. */
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

/** Whether the node acts on the head of a frame, so that cables into it deliver heads. */
export function actsOnHead(node: NodePlan): boolean {
  return node.kind === "switch" && node.config.mode === "cut-through";
}
