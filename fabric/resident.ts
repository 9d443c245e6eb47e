/** A node where it runs: its lives, its counters, and its ends of cables. */
import { assert } from "./assert.ts";
import type { NodeDigest } from "./digest.ts";
import type { Link } from "./link/link.ts";
import type { Node, Outputs } from "./node.ts";
import { leastEffectPs, linkTo } from "./rack/cabling.ts";
import type { RackPlan } from "./rack/plan.ts";
import type { Event } from "./time/event_queue.ts";
import type { Time } from "./time/time.ts";

/** What is known of a node that runs here. */
export interface Resident {
  readonly name: string;
  readonly index: number;
  /** Place among this partition's deadlines. */
  readonly slot: number;
  readonly ports: Port[];
  readonly outputs: Outputs;
  readonly digest: NodeDigest;
  /** Undefined while it has no power. */
  node: Node | undefined;
  life: number;
  /** The last life that power was cut from, −1 before the first. */
  lifeCut: number;
  messages: number;
  wakes: number;
}

/** This end of a cable. */
export interface Port {
  readonly link: Link;
  /** How long the other end takes to notice that this one lost or got power. */
  readonly noticePs: Time;
  readonly peerIndex: number;
  readonly peerPort: number;
  /** Undefined where the other end is in this partition. */
  readonly peerPartition: string | undefined;
  up: boolean;
  /** When `up` was last told to have changed. */
  changedAt: Time;
  /** Which life of the node at the other end this end talks to. */
  peerLife: number;
}

/** The ends of a node's cables, by port number. */
export function portsOf(
  rack: {
    readonly plan: RackPlan;
    /** Nodes that live in the same partition. */
    readonly nodes: readonly string[];
    readonly partitionOf: ReadonlyMap<string, string>;
  },
  name: string,
): Port[] {
  const { plan, nodes, partitionOf } = rack;
  const ports: Port[] = [];
  for (const cable of plan.cables) {
    for (const [near, far] of [[cable.a, cable.b], [cable.b, cable.a]] as const) {
      if (near.node !== name) continue;
      ports[near.port] = {
        link: linkTo(plan, cable, far),
        noticePs: leastEffectPs(plan, cable, { near, far }),
        peerIndex: plan.nodes.findIndex((node) => node.name === far.node),
        peerPort: far.port,
        peerPartition: nodes.includes(far.node) ? undefined : partitionOf.get(far.node)!,
        up: true,
        changedAt: 0,
        peerLife: 0,
      };
    }
  }
  return ports;
}

/** Takes up what a link event tells the node at this end. */
export function changeLink(resident: Resident, event: Event): void {
  assert(event.input.kind === "link", "Only link events change links");
  const port = resident.ports[event.input.port];
  if (port === undefined) return;
  port.up = event.input.up;
  port.changedAt = event.time;
  if (event.input.up) port.peerLife = event.sourceLife;
}

/** Unique among the link events that one life of a node causes. */
export function linkCounter(life: number, port: number, up: boolean): number {
  return (2 * life + (up ? 1 : 0)) * 2 ** 16 + port;
}
