/**
 * Some nodes of the rack, one event queue, and the ends of their cables. No clock, no I/O, no
 * async.
 */
import { assert, fail } from "../base/assert.ts";
import {
  observeArrival,
  observeCutOff,
  observedOutputs,
  type Observer,
} from "../capture/observation.ts";
import { digestEvent, emptyDigest, type NodeDigest } from "./digest.ts";
import { addFaultAt, cableChange, countsOf, foundAtPowerOn, recallChange } from "./faulty_cable.ts";
import { beginLife, countCutOff } from "../link/fault.ts";
import type {
  DurableWrite,
  HeldThing,
  Input,
  Node,
  Outputs,
  Sight,
  TraceStep,
  UnfinishedProgram,
} from "../node.ts";
import { type Departure, Outgoing } from "./outgoing.ts";
import { Quiet } from "./quiet.ts";
import { nodeIndexes } from "../rack/plan/cabling.ts";
import type { LinkFaultCount, LinkFaultPlan } from "../rack/plan/link_plan.ts";
import type { AuditRecord } from "../audit.ts";
import { type ProgramPlan, type RackPlan, stallsOf } from "../rack/plan/plan.ts";
import { changeLink, type LocalNode, type Port, portsOf } from "./local_node.ts";
import { scriptedPower, writebackEvents } from "./scripted_power.ts";
import { inspectNode, type InspectOptions, type PartitionInspection } from "./inspect.ts";
import { type Event, EVENT_KINDS, EventQueue, ownEvent } from "./event_queue.ts";
import { Deadlines } from "../base/deadlines.ts";
import { NEVER, type Time } from "../base/time.ts";

export type CreateNode = (name: string, life: number, unsaved: readonly DurableWrite[]) => Node;

export interface PartitionOptions {
  readonly plan: RackPlan;
  readonly nodes: readonly string[];
  readonly partitionOf: ReadonlyMap<string, string>;
  readonly create: CreateNode;
  readonly scriptedFaults: boolean;
  /** In ps from another partition back to this one, for the limit in `advance`. */
  readonly returnDelay: (partition: string) => Time;
  readonly onTrace?: (time: Time, node: string, step: TraceStep) => void;
  /** `onTrace` takes steps at the moment; default: always. It has no effect on the run. */
  readonly isTraced?: () => boolean;
  readonly onReport?: (time: Time, node: string, topic: string, value: unknown) => void;
  /** See `audit.ts`. */
  readonly onAudit?: OnAudit;
  readonly observer?: Observer;
}

export type OnAudit = (time: Time, node: string, by: string, note: AuditRecord) => void;

export interface Advance {
  readonly events: number;
  /** All events before this have happened: the horizon, or an earlier instant to stop at. */
  readonly reached: Time;
}

export interface AdvanceOptions {
  /**
   * Where it returns true, the instant is the last. With it, nothing happens from the arrival of
   * what was sent to another partition on: none that stops as soon is overtaken.
   */
  readonly stopOn?: ((node: string, step: TraceStep) => boolean) | undefined;
  readonly eventsMost?: number;
}

export interface UnfinishedReport {
  readonly time: Time;
  readonly node: string;
  readonly topic: "unfinished";
  readonly value: UnfinishedProgram;
}

export class Partition {
  readonly #queue = new EventQueue();
  readonly #outgoing: Outgoing;
  readonly #deadlines: Deadlines;
  readonly #localNodes = new Map<number, LocalNode>();
  readonly #bySlot: LocalNode[] = [];
  readonly #options: PartitionOptions;
  readonly #observer: Observer | undefined;
  readonly #indexOf: ReadonlyMap<string, number>;
  readonly #cableHistory = new Map<Port, Event[]>();
  /** Wakes are never queued, so all share one event object. */
  readonly #wakeEvent: { -readonly [Field in keyof Event]: Event[Field] } = ownEvent(0, 0, {
    time: 0,
    kind: EVENT_KINDS.wake,
    counter: 0,
    input: { kind: "wake" },
  });
  #bootAt: Time = 0;
  readonly #unsaved = new Map<string, DurableWrite[]>();
  #reached: Time = 0;
  #horizon: Time = 0;
  readonly #quiet: Quiet;
  #stopOn: ((node: string, step: TraceStep) => boolean) | undefined;
  #events = 0;

  constructor(options: PartitionOptions) {
    this.#options = options;
    this.#observer = options.observer;
    this.#outgoing = new Outgoing({ queue: this.#queue, returnDelay: options.returnDelay });
    this.#indexOf = nodeIndexes(options.plan.nodes);
    this.#deadlines = new Deadlines(options.nodes.length);
    this.#quiet = new Quiet(options.plan);
    for (const name of options.nodes) {
      const index = this.#indexOf.get(name);
      assert(index !== undefined, `Node ${name} is not in the plan`);
      const localNode = this.#localNode(name, index);
      this.#bySlot.push(localNode);
      this.#localNodes.set(index, localNode);
    }
  }

  get now(): Time {
    return this.#outgoing.now;
  }

  get ran(): Time {
    return Math.max(this.#outgoing.now, this.#queue.now);
  }

  /** The next time at which the partition's state changes, even without an event; or NEVER. */
  get next(): Time {
    let next = Math.min(this.#queue.nextTime, this.#deadlines.earliest);
    for (const { node } of this.#bySlot) {
      if (node?.nextDurableAt !== undefined) next = Math.min(next, node.nextDurableAt());
    }
    return next;
  }

  get events(): number {
    return this.#events;
  }

  powerOn(time: Time, lives: ReadonlyMap<string, { life: number; digest?: NodeDigest }>): void {
    this.#bootAt = time;
    const { nodes, plan, scriptedFaults } = this.#options;
    const { faults, linkFaults = [], writebacks = [] } = plan;
    for (const fault of linkFaults) this.addLinkFault(fault);
    if (scriptedFaults) {
      const own = faults.filter(({ node }) => nodes.includes(node));
      const start = { indexOf: this.#indexOf, bootAt: time, begun: lives };
      for (const event of scriptedPower(own, start)) this.#queue.push(event);
    }
    for (const localNode of this.#localNodes.values()) {
      const start = lives.get(localNode.name);
      if (start?.digest !== undefined) Object.assign(localNode.digest, start.digest);
      // Orders that arrive before power-on are for this life.
      localNode.life = start?.life ?? 0;
      const { index, life } = localNode;
      const input: Input = { kind: "power" };
      const on = ownEvent(index, life, { time, kind: EVENT_KINDS.powerOn, counter: life, input });
      this.#queue.push(on);
    }
    const own = writebacks.filter(({ node, at }) => at >= time && nodes.includes(node));
    for (const event of writebackEvents(own, this.#indexOf)) this.#queue.push(event);
  }

  noteLink(event: Event): void {
    const localNode = this.#localNodes.get(event.target);
    const port = event.input.kind === "link" ? localNode?.ports[event.input.port] : undefined;
    if (port !== undefined && event.time > port.changedAt) changeLink(localNode!, event);
  }

  accept(event: Event): void {
    this.#queue.push(event);
  }

  /** At its ends here, once; its instant must not have been processed. */
  addLinkFault(fault: LinkFaultPlan): void {
    for (const localNode of this.#localNodes.values()) {
      for (const [number, port] of localNode.ports.entries()) {
        if (port === undefined || port.cable !== fault.cable) continue;
        addFaultAt(this.#options.plan, { localNode, port }, fault);
        const end = { localNode, number };
        const change = cableChange(end, fault);
        if (change === undefined) continue;
        // A node finds earlier changes at power-on.
        if (change.time < this.#bootAt) recallChange(this.#cableHistory, end, change);
        else this.#queue.push(change);
      }
    }
  }

  linkFaultCounts(): LinkFaultCount[] {
    return [...this.#localNodes.values()].flatMap((localNode) =>
      localNode.node === undefined ? [] : countsOf(localNode)
    );
  }

  /** `counter` is unique in the run. @param order.life of the host; absent: its present one. */
  run(
    host: string,
    order: { time: Time; counter: number; program: ProgramPlan; life?: number },
  ): void {
    const index = this.#indexOf.get(host)!;
    const { time, counter, program, life = this.#localNodes.get(index)!.life } = order;
    const input: Input = { kind: "run", program };
    this.#queue.push(ownEvent(index, life, { time, kind: EVENT_KINDS.run, counter, input }));
  }

  /**
   * Up to the first instant at which a peer could answer a message sent meanwhile, or including the
   * instant of a trace step that satisfies `stopOn`.
   * @param options.eventsMost also stops at the first instant after this many events.
   */
  advance(horizon: Time, { stopOn, eventsMost = Infinity }: AdvanceOptions = {}): Advance {
    const outgoing = this.#outgoing;
    outgoing.limit = NEVER;
    this.#horizon = horizon;
    outgoing.isNarrow = stopOn !== undefined;
    this.#stopOn = stopOn;
    let left = eventsMost, last = -1;
    const before = this.#events;
    const queue = this.#queue;
    const deadlines = this.#deadlines;
    for (;;) {
      const messageAt = queue.nextTime;
      const wakeAt = deadlines.earliest;
      // A message precedes a deadline of the same instant (see EVENT_KINDS).
      const time = wakeAt < messageAt ? wakeAt : messageAt;
      if (time >= horizon || time >= outgoing.limit) break;
      if (left-- <= 0 && time > last) {
        outgoing.limit = time;
        break;
      }
      last = time;
      if (wakeAt < messageAt) this.#wake(this.#bySlot[deadlines.slot]!, wakeAt);
      else this.#deliver(queue.pop());
    }
    this.#stopOn = undefined;
    this.#reached = Math.min(horizon, outgoing.limit);
    return { events: this.#events - before, reached: this.#reached };
  }

  takeDepartures(): Departure[] {
    return this.#outgoing.takeDepartures();
  }

  takeDurable(visit: (host: string, writes: DurableWrite[]) => void): void {
    for (const localNode of this.#localNodes.values()) this.#saveDurable(localNode, this.#reached);
    for (const [host, writes] of this.#unsaved) visit(host, writes);
    this.#unsaved.clear();
  }

  #saveDurable({ name, node }: LocalNode, before: Time): void {
    const writes = node?.takeDurable?.(before);
    if (writes === undefined || writes.length === 0) return;
    const unsaved = this.#unsaved.get(name);
    if (unsaved === undefined) this.#unsaved.set(name, writes);
    else for (const write of writes) unsaved.push(write);
  }

  digestStates(): [name: string, digest: NodeDigest][] {
    return [...this.#localNodes.values()].map(({ name, digest }) => [name, { ...digest }]);
  }

  statistics(): Record<string, Record<string, number>> {
    const all: Record<string, Record<string, number>> = {};
    for (const { name, node } of this.#localNodes.values()) {
      if (node !== undefined) all[name] = node.statistics();
    }
    return all;
  }

  /** At {@link Advance.reached}. Has no effect on the run. */
  inspect({ node, loss = false }: InspectOptions = {}): PartitionInspection {
    const { plan } = this.#options;
    const chosen = [...this.#localNodes.values()].filter(({ name }) => name === (node ?? name));
    const devices = chosen.map((localNode) => inspectNode(localNode, { plan, loss }));
    return { reachedPs: this.#reached, devices };
  }

  unfinished(): UnfinishedReport[] {
    return [...this.#localNodes.values()].flatMap(({ name, node }) =>
      (node?.unfinished?.() ?? []).map((value) => ({
        time: value.since,
        node: name,
        topic: "unfinished" as const,
        value,
      }))
    );
  }

  /** When no event is left: see {@link Node.heldAtRest}. Texts begin with the device's name. */
  heldAtRest(): HeldThing[] {
    return [...this.#localNodes.values()].flatMap(({ name, node }) =>
      (node?.heldAtRest?.() ?? []).map(({ kind, text }) => ({ kind, text: `${name}: ${text}` }))
    );
  }

  #deliver(event: Event): void {
    const localNode = this.#localNodes.get(event.target);
    if (localNode === undefined) fail(`Event for node ${event.target}, which does not live here`);
    if (event.kind === EVENT_KINDS.powerOn) return this.#applyPower(localNode, event);
    if (event.kind === EVENT_KINDS.powerOff) return this.#cutPower(localNode, event);
    // Also for a node without power, which finds the state at power-on.
    if (event.input.kind === "link") {
      if (!changeLink(localNode, event)) return;
    } else if (event.targetLife !== localNode.life && event.kind !== EVENT_KINDS.writeback) return;
    if (event.kind === EVENT_KINDS.release) return this.#outgoing.release(localNode, event);
    if (event.kind === EVENT_KINDS.writeback) this.#wakeAllAt(event.time);
    const { node } = localNode;
    if (node === undefined) return;
    if (event.input.kind === "message") {
      const port = localNode.ports[event.input.port];
      if (port === undefined || port.peerLife !== event.sourceLife) return;
      if (!port.up) {
        if (port.cutBy === undefined) return;
        countCutOff(port.faults!.arriving, port.cutBy);
        this.#observe(observeCutOff, event, port);
        return;
      }
      this.#observe(observeArrival, event, port);
    }
    this.#step(localNode, node, event);
  }

  #observe(report: typeof observeArrival, { time, target, input }: Event, { link }: Port): void {
    if (this.#observer === undefined || input.kind !== "message") return;
    const { port, message, tailPs } = input;
    const seen = { time, node: target, event: this.#events + 1, port, message, tailPs };
    // Both directions of a cable have the same rate.
    report(this.#observer, seen, link.bitsPerSecond);
  }

  #wakeAllAt(time: Time): void {
    const deadlines = this.#deadlines;
    while (deadlines.earliest <= time) this.#wake(this.#bySlot[deadlines.slot]!, time);
  }

  #wake(localNode: LocalNode, time: Time): void {
    const { index, life } = localNode;
    const event = this.#wakeEvent;
    event.time = time;
    event.source = index;
    event.counter = localNode.wakes++;
    event.target = index;
    event.sourceLife = life;
    event.targetLife = life;
    const node = localNode.node!;
    if (!localNode.mayLook) return this.#step(localNode, node, event);
    const digest = { ...localNode.digest };
    this.#step(localNode, node, event);
    if (node.onlyLooked !== true) return;
    Object.assign(localNode.digest, digest);
    localNode.wakes--;
    this.#events--;
  }

  #step(localNode: LocalNode, node: Node, event: Event): void {
    this.#outgoing.now = event.time;
    this.#events++;
    digestEvent(localNode.digest, event);
    node.step(event.time, event.input, localNode.outputs);
    const wake = node.wakeAt();
    if (!(wake >= event.time)) fail(`${localNode.name} wants to wake at ${wake} ps, before now`);
    this.#deadlines.set(localNode.slot, wake);
  }

  #applyPower(localNode: LocalNode, event: Event): void {
    if (event.targetLife <= localNode.lifeCut) return;
    assert(localNode.node === undefined, `Cannot start ${localNode.name} as it has power`);
    localNode.life = event.targetLife;
    localNode.messages = 0;
    localNode.wakes = 0;
    localNode.releases = 0;
    const { plan } = this.#options;
    for (const port of localNode.ports) {
      if (port === undefined) continue;
      const { link, faults } = port;
      link.freeAt = 0;
      if (plan.cables[port.cable]!.kind === "bus") {
        port.stallOfNext = stallsOf(plan, `${localNode.name}/${localNode.life}`);
      }
      if (faults !== undefined) beginLife(faults.leaving, localNode.life);
      faults?.arriving.cutOff.clear();
    }
    const unsaved = this.#unsaved.get(localNode.name) ?? [];
    const node = this.#options.create(localNode.name, localNode.life, unsaved);
    localNode.node = node;
    localNode.mayLook = node.onlyLooked !== undefined;
    if (localNode.life > 0) this.#outgoing.announce(localNode, event.time, true);
    for (const found of foundAtPowerOn(localNode, event.time)) this.#queue.push(found);
    this.#step(localNode, node, event);
  }

  #cutPower(localNode: LocalNode, event: Event): void {
    this.#outgoing.now = event.time;
    localNode.life = event.targetLife;
    localNode.lifeCut = event.targetLife;
    this.#events++;
    digestEvent(localNode.digest, event);
    this.#saveDurable(localNode, event.time);
    localNode.node?.end?.();
    localNode.node = undefined;
    this.#deadlines.set(localNode.slot, NEVER);
    this.#outgoing.announce(localNode, event.time, false);
  }

  #quietUntil(node: number, sight: Sight): Time {
    return this.#quiet.until(node, {
      sight,
      queue: this.#queue,
      deadlines: this.#deadlines,
      slots: this.#bySlot,
      limit: Math.min(this.#horizon, this.#outgoing.limit),
    });
  }

  #localNode(name: string, index: number): LocalNode {
    const outgoing = this.#outgoing;
    const { onTrace, onReport, onAudit } = this.#options;
    const isTraced = this.#options.isTraced ?? (() => onTrace !== undefined);
    const stops = () => this.#stopOn !== undefined;
    const outputs: Outputs = {
      send: (port, message, departAt) => outgoing.send(localNode, port, message, departAt),
      quietUntil: (sight) => this.#quietUntil(index, sight),
      // `stopOn` needs the steps even if no observer takes them.
      get tracing() {
        return isTraced() || stops();
      },
      trace: (step) => {
        onTrace?.(this.#outgoing.now, name, step);
        if (this.#stopOn?.(name, step)) {
          this.#outgoing.limit = Math.min(this.#outgoing.limit, this.#outgoing.now + 1);
        }
      },
      report: (topic, value) => onReport?.(this.#outgoing.now, name, topic, value),
      auditing: onAudit !== undefined,
      audit: (by, note) => onAudit?.(this.#outgoing.now, name, by, note),
    };
    const observer = this.#observer;
    const localNode: LocalNode = {
      name,
      index,
      slot: this.#bySlot.length,
      ports: portsOf(this.#options, name),
      digest: emptyDigest(),
      node: undefined,
      mayLook: false,
      life: 0,
      lifeCut: -1,
      messages: 0,
      wakes: 0,
      releases: 0,
      outputs: observer === undefined ? outputs : observedOutputs(outputs, observer, {
        node: index,
        ports: (port) => localNode.ports[port]!,
        time: () => this.#outgoing.now,
        event: () => this.#events,
      }),
    };
    return localNode;
  }
}
