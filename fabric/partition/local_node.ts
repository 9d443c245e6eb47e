/** A node where it runs: its lives, its counters, and its ends of cables. */
import { assert } from "../base/assert.ts";
import type { NodeDigest } from "./digest.ts";
import type { CableFaults } from "../link/fault.ts";
import type { Link } from "../link/link.ts";
import type { Node, Outputs } from "../node.ts";
import { linkTo, lookaheadPs } from "../rack/plan/cabling.ts";
import type { RackPlan } from "../rack/plan/plan.ts";
import type { LinkChange } from "../clock/clock.ts";
import { type Event, EVENT_KINDS } from "./event_queue.ts";
import type { Time } from "../base/time.ts";

/** What is known of a node that runs here. */
export interface LocalNode {
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
  /** Frames that were held back. */
  releases: number;
}

/** This end of a cable. */
export interface Port {
  readonly link: Link;
  /** How long the other end takes to notice that this one lost or got power. */
  readonly noticePs: Time;
  /** How long this end takes to notice that the cable is cut or whole again. */
  readonly carrierPs: Time;
  /** Place of the cable in the plan, and which of its ends this is. */
  readonly cable: number;
  readonly end: "a" | "b";
  readonly peerIndex: number;
  readonly peerPort: number;
  /** Undefined where the other end is in this partition. */
  readonly peerPartition: string | undefined;
  /** Whether what is sent gets anywhere: the other end has power and the cable is whole. */
  up: boolean;
  peerUp: boolean;
  /** The fault that cut the cable, as far as this end has noticed. */
  cutBy: number | undefined;
  /** What the cable does wrong, once anything does. */
  faults: CableFaults | undefined;
  /** When `peerUp` was last told to have changed. */
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
  for (const [index, cable] of plan.cables.entries()) {
    for (const [end, near, far] of [["a", cable.a, cable.b], ["b", cable.b, cable.a]] as const) {
      if (near.node !== name) continue;
      ports[near.port] = {
        link: linkTo(plan, cable, far),
        noticePs: lookaheadPs(plan, cable, { near, far }),
        carrierPs: lookaheadPs(plan, cable, { near: far, far: near }),
        cable: index,
        end,
        peerIndex: plan.nodes.findIndex((node) => node.name === far.node),
        peerPort: far.port,
        peerPartition: nodes.includes(far.node) ? undefined : partitionOf.get(far.node)!,
        up: true,
        peerUp: true,
        cutBy: undefined,
        faults: undefined,
        changedAt: 0,
        peerLife: 0,
      };
    }
  }
  return ports;
}

/**
 * Takes up what a link event says of the other end, or (where it comes from the node itself) of the
 * cable. @returns whether the node is to be told.
 */
export function changeLink(localNode: LocalNode, event: Event): boolean {
  assert(event.input.kind === "link", "Only link events change links");
  const port = localNode.ports[event.input.port];
  if (port === undefined) return true;
  if (event.source === event.target) return changeCable(port, event);
  port.peerUp = event.input.up;
  port.changedAt = event.time;
  port.peerLife = event.sourceLife;
  noteCarrier(port);
  // Over a cable that is cut nobody notices anything.
  return port.cutBy === undefined;
}

/** A cut that finds the link down, or leaves it down when it ends, changes nothing for the node. */
function changeCable(port: Port, { input, counter }: Event): boolean {
  assert(input.kind === "link", "Only link events change links");
  // What it finds when it gets power.
  if (counter < CABLE_COUNTERS) return !port.up;
  const was = port.up;
  port.cutBy = input.up ? undefined : port.cutBy ?? faultOfCounter(counter);
  noteCarrier(port);
  return port.up !== was;
}

/** Whether the link is up, after a change. What it held back for others to overtake goes down with it. */
function noteCarrier(port: Port): void {
  port.up = port.peerUp && port.cutBy === undefined;
  if (!port.up && port.faults !== undefined) port.faults.leaving.held = [];
}

const CABLE_COUNTERS = 2 ** 16;

/** Counter of the event by which a node notices that a fault began or, by a heal, ended. */
export function cableCounter(fault: number, port: number): number {
  return (fault + 1) * CABLE_COUNTERS + port;
}

function faultOfCounter(counter: number): number {
  return Math.floor(counter / CABLE_COUNTERS) - 1;
}

/** The event by which one end of a cable learns that the other end lost or got power. */
export function noticeOf(change: LinkChange): Event {
  const { at, source, target, sourceLife, port, up } = change;
  return {
    time: at,
    kind: EVENT_KINDS.link,
    source,
    counter: linkCounter(sourceLife, port, up),
    target,
    sourceLife,
    targetLife: 0,
    input: { kind: "link", port, up },
  };
}

/** Unique among the link events that one life of a node causes. */
function linkCounter(life: number, port: number, up: boolean): number {
  return (2 * life + (up ? 1 : 0)) * 2 ** 16 + port;
}

/** An event of which only the fields of a wake change: one serves for all wakes of a partition. */
export function createWake(): { -readonly [Field in keyof Event]: Event[Field] } {
  return {
    time: 0,
    kind: EVENT_KINDS.wake,
    source: 0,
    counter: 0,
    target: 0,
    sourceLife: 0,
    targetLife: 0,
    input: { kind: "wake" },
  };
}
