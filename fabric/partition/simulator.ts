/**
 * A whole rack in one process, without a bus: for tests, sweeps and `--pack all`. The digest equals
 * that of a run with fifty processes.
 */
import { digestText, rackDigest } from "./digest.ts";
import type { DurableWrite, HeldThing } from "../node.ts";
import { Partition, type PartitionOptions, type UnfinishedReport } from "./partition.ts";
import type { DeviceInspection } from "./inspect.ts";
import type { ProgramPlan } from "../rack/plan/plan.ts";
import type { LinkFaultCount } from "../rack/plan/link_plan.ts";
import { NEVER, PS_PER_US, type Time } from "../base/time.ts";

export interface SimulatorOptions extends
  Pick<
    PartitionOptions,
    "plan" | "create" | "onTrace" | "onReport" | "onAudit" | "observer"
  > {
  /** In order. */
  readonly onDurable?: (host: string, writes: DurableWrite[]) => void;
  readonly orders?: readonly SimulatedOrder[];
}

export interface SimulatedOrder {
  readonly time: Time;
  readonly host: string;
  readonly life: number;
  readonly counter: number;
  readonly program: ProgramPlan;
}

const ALL = "all";

/** Durable bytes are collected so often that they do not accumulate. */
const SLICE_PS = 100 * PS_PER_US;

export class Simulator {
  readonly #options: SimulatorOptions;
  readonly #partition: Partition;
  #slices = 0;

  constructor(options: SimulatorOptions) {
    this.#options = options;
    const nodes = options.plan.nodes.map(({ name }) => name);
    this.#partition = new Partition({
      ...options,
      nodes,
      partitionOf: new Map(nodes.map((name) => [name, ALL])),
      scriptedFaults: true,
      returnDelay: () => NEVER,
    });
    this.#partition.powerOn(0, new Map());
    for (const order of options.orders ?? []) this.order(order);
  }

  order({ host, ...order }: SimulatedOrder): void {
    this.#partition.run(host, order);
  }

  /** Up to `until` and the plan's own end. @returns the number of events. */
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

  get digest(): string {
    return rackDigest(this.nodes());
  }

  nodes(): [name: string, digest: string][] {
    return this.#partition.digestStates().map(([name, state]) => [name, digestText(state)]);
  }

  digests(): [name: string, digest: string, events: number][] {
    return this.#partition.digestStates().map(([name, state]) => {
      return [name, digestText(state), state.events];
    });
  }

  statistics(): Record<string, Record<string, number>> {
    return this.#partition.statistics();
  }

  inspect(): readonly DeviceInspection[] {
    return this.#partition.inspect().devices;
  }

  /** See `Node.unfinished`. */
  unfinished(): UnfinishedReport[] {
    return this.#partition.unfinished();
  }

  /** As {@link Partition.heldAtRest}; none while an event is left. */
  heldAtRest(): HeldThing[] {
    return this.next === NEVER ? this.#partition.heldAtRest() : [];
  }

  linkFaultCounts(): LinkFaultCount[] {
    return this.#partition.linkFaultCounts();
  }
}
