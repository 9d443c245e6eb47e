import type { HostLoss, OperationFigures, RnicInspection } from "../inspection.ts";
import type { NodeKind, UnfinishedProgram } from "../node.ts";
import type { RackPlan } from "../rack/plan/plan.ts";
import type { Time } from "../base/time.ts";
import type { LocalNode } from "./local_node.ts";

/** The answer to `control.inspect-<partition>`. */
export interface PartitionInspection {
  /** Every event before this has happened, and none later. */
  readonly reachedPs: Time;
  readonly devices: readonly DeviceInspection[];
}

/** A device without power has only its name, life and cables. */
export interface DeviceInspection {
  readonly node: string;
  readonly kind: NodeKind;
  readonly life: number;
  readonly hasPower: boolean;
  readonly counters: Readonly<Record<string, number>>;
  readonly ports: readonly PortInspection[];
  readonly programs: readonly UnfinishedProgram[];
  /** With power. */
  readonly rnic?: RnicInspection;
  readonly operations?: readonly OperationFigures[];
  /** If requested. */
  readonly loss?: HostLoss;
}

export interface PortInspection {
  readonly port: number;
  readonly peer: string;
  readonly up: boolean;
  readonly busyUntilPs: Time;
}

export interface InspectOptions {
  readonly node?: string;
  readonly loss?: boolean;
}

export function inspectNode(
  { name, index, node, life, ports }: LocalNode,
  { plan, loss }: { readonly plan: RackPlan; readonly loss: boolean },
): DeviceInspection {
  const rnic = node?.inspect?.(), operations = node?.operations?.();
  const lost = loss ? node?.loss?.() : undefined;
  return {
    node: name,
    kind: plan.nodes[index]!.kind,
    life,
    hasPower: node !== undefined,
    counters: node?.statistics() ?? {},
    ports: ports.flatMap((end, port) => {
      if (end === undefined) return [];
      const { peerIndex, up, link } = end;
      return [{ port, peer: plan.nodes[peerIndex]!.name, up, busyUntilPs: link.freeAt }];
    }),
    programs: node?.unfinished?.() ?? [],
    ...(rnic !== undefined && { rnic }),
    ...(operations !== undefined && { operations }),
    ...(lost !== undefined && { loss: lost }),
  };
}
