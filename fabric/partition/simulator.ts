/**
 * The rack in one process, with no bus: for tests, sweeps and `--pack all`. The same nodes, the same
 * order of events, so the same digest as fifty processes.
 */
import type { Observer } from "../capture/observation.ts";
import { rackDigest } from "./digest.ts";
import type { DurableWrite, TraceStep } from "../node.ts";
import { type CreateNode, type OnNote, Partition } from "./partition.ts";
import type { LinkFaultCount } from "../rack/plan/link_plan.ts";
import type { RackPlan } from "../rack/plan/plan.ts";
import { NEVER, PS_PER_US, type Time } from "../base/time.ts";

export interface SimulatorOptions {
  readonly plan: RackPlan;
  readonly create: CreateNode;
  readonly onTrace?: (time: Time, node: string, step: TraceStep) => void;
  readonly onReport?: (time: Time, node: string, topic: string, value: unknown) => void;
  /** Told what programs were told, at once: see `audit.ts`. */
  readonly onNote?: OnNote;
  /** Where what becomes persistent on a host goes, in order. */
  readonly onDurable?: (host: string, writes: DurableWrite[]) => void;
  /** Told of what is to be captured; its spans are slices of the run, counted from 0. */
  readonly observer?: Observer;
}

/** The name of the partition that holds everything. */
const ALL = "all";

/** Persistent bytes are handed over this often, so that they do not pile up. */
const SLICE_PS = 100 * PS_PER_US;

export class Simulator {
  readonly #options: SimulatorOptions;
  readonly #partition: Partition;
  #slices = 0;

  constructor(options: SimulatorOptions) {
    this.#options = options;
    const { plan, create, onTrace, onReport, onNote, observer } = options;
    const nodes = plan.nodes.map(({ name }) => name);
    this.#partition = new Partition({
      plan,
      nodes,
      partitionOf: new Map(nodes.map((name) => [name, ALL])),
      create,
      scriptedFaults: true,
      returnDelay: () => NEVER,
      ...(onTrace && { onTrace }),
      ...(onReport && { onReport }),
      ...(onNote && { onNote }),
      ...(observer && { observer }),
    });
    this.#partition.powerOn(0, new Map());
  }

  /** Lets happen what happens before `until` (and the plan's own end). @returns events. */
  run(until: Time = NEVER): number {
    const end = Math.min(until, this.#options.plan.until ?? NEVER);
    const { onDurable, observer } = this.#options;
    let events = 0;
    while (this.#partition.next < end) {
      const slice = Math.min(end, this.#partition.next + SLICE_PS);
      events += this.#partition.advance(slice).events;
      this.#partition.takeDurable(onDurable ?? (() => {}));
      observer?.commit(this.#slices++);
    }
    return events;
  }

  get now(): Time {
    return this.#partition.now;
  }

  get next(): Time {
    return this.#partition.next;
  }

  get events(): number {
    return this.#partition.events;
  }

  /** The digest of the run so far. */
  get digest(): string {
    return rackDigest(this.#partition.digests());
  }

  /** Name and digest of every node. */
  nodes(): [name: string, digest: string][] {
    return this.#partition.digests();
  }

  statistics(): Record<string, Record<string, number>> {
    return this.#partition.statistics();
  }

  /** What cables have done wrong, by fault and direction. */
  linkFaultCounts(): LinkFaultCount[] {
    return this.#partition.linkFaultCounts();
  }
}
