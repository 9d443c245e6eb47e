import { assert } from "../base/assert.ts";
import type { NodeDigest } from "./digest.ts";
import type { CableFaults } from "../link/fault.ts";
import type { Link } from "../link/link.ts";
import type { Node, Outputs } from "../node.ts";
import { cableEndsByNode, nodeIndexes } from "../rack/plan/cabling.ts";
import { linkTo, lookaheadPs } from "../rack/plan/lookahead.ts";
import type { RackPlan } from "../rack/plan/plan.ts";
import type { LinkChange } from "../clock/clock.ts";
import { type Event, EVENT_KINDS } from "./event_queue.ts";
import type { Time } from "../base/time.ts";

export interface LocalNode {
  readonly name: string;
  readonly index: number;
  readonly slot: number;
  readonly ports: readonly (Port | undefined)[];
  readonly outputs: Outputs;
  readonly digest: NodeDigest;
  /** Undefined while it has no power. */
  node: Node | undefined;
  /** Whether its wakes may be no events: see {@link Node.onlyLooked}. */
  mayLook: boolean;
  life: number;
  /** The last life that lost power; −1 before the first. */
  lifeCut: number;
  messages: number;
  wakes: number;
  /** Held frames. */
  releases: number;
}

export interface Port {
  readonly link: Link;
  /** Until the other end detects that this one lost or got power. */
  readonly noticePs: Time;
  readonly carrierPs: Time;
  readonly cable: number;
  readonly end: "a" | "b";
  readonly peerIndex: number;
  readonly peerPort: number;
  /** Undefined where the other end is in this partition. */
  readonly peerPartition: string | undefined;
  up: boolean;
  peerUp: boolean;
  cutBy: number | undefined;
  /** Undefined until the first. */
  faults: CableFaults | undefined;
  /** Of `peerUp`. */
  changedAt: Time;
  peerLife: number;
  /** Of a card's bus: counts its messages; undefined without a stall. */
  stallOfNext: (() => Time) | undefined;
}

export function portsOf(
  rack: {
    readonly plan: RackPlan;
    readonly partitionOf: ReadonlyMap<string, string>;
  },
  name: string,
): (Port | undefined)[] {
  const { plan, partitionOf } = rack;
  const own = partitionOf.get(name);
  const ports: (Port | undefined)[] = [];
  for (const { cable: index, end, near, far } of cableEndsByNode(plan.cables).get(name) ?? []) {
    const cable = plan.cables[index]!;
    const peerPartition = partitionOf.get(far.node)!;
    ports[near.port] = {
      link: linkTo(plan, cable, far),
      noticePs: lookaheadPs(plan, cable, { near, far }),
      carrierPs: lookaheadPs(plan, cable, { near: far, far: near }),
      cable: index,
      end,
      peerIndex: nodeIndexes(plan.nodes).get(far.node)!,
      peerPort: far.port,
      peerPartition: peerPartition === own ? undefined : peerPartition,
      up: true,
      peerUp: true,
      cutBy: undefined,
      faults: undefined,
      changedAt: 0,
      peerLife: 0,
      stallOfNext: undefined,
    };
  }
  return ports;
}

/** @returns whether the node receives the event. */
export function changeLink(localNode: LocalNode, event: Event): boolean {
  const { input, counter } = event;
  assert(input.kind === "link", "Only link events change links");
  const port = localNode.ports[input.port];
  if (port === undefined) return true;
  if (event.source !== event.target) {
    port.peerUp = input.up;
    port.changedAt = event.time;
    port.peerLife = event.sourceLife;
    noteCarrier(port);
    // Over a cut cable the node detects no change of the peer.
    return port.cutBy === undefined;
  }
  if (counter < CABLE_COUNTERS) return !port.up;
  // A cut while the link is down, or a heal that leaves it down, changes nothing for the node.
  const was = port.up;
  port.cutBy = input.up ? undefined : port.cutBy ?? faultOfCounter(counter);
  noteCarrier(port);
  return port.up !== was;
}

/** Held frames are lost when the link goes down. */
function noteCarrier(port: Port): void {
  port.up = port.peerUp && port.cutBy === undefined;
  if (!port.up && port.faults !== undefined) port.faults.leaving.held = [];
}

const CABLE_COUNTERS = 2 ** 16;

/** Of the begin of a fault or, for a heal, of its end. */
export function cableCounter(fault: number, port: number): number {
  return (fault + 1) * CABLE_COUNTERS + port;
}

function faultOfCounter(counter: number): number {
  return Math.floor(counter / CABLE_COUNTERS) - 1;
}

export function noticeOf(change: LinkChange): Event {
  const { at, source, target, sourceLife, port, up } = change;
  return {
    time: at,
    kind: EVENT_KINDS.link,
    source,
    // Unique among the link events that one life of a node causes.
    counter: (2 * sourceLife + (up ? 1 : 0)) * 2 ** 16 + port,
    target,
    sourceLife,
    targetLife: 0,
    input: { kind: "link", port, up },
  };
}
