/**
 * A rack in this process, made from the text of a scenario: what ran, what was reported, and what a
 * power failure at the end would leave in each host's SCM.
 */
import type { Observer } from "../../fabric/capture/observation.ts";
import type { TraceStep } from "../../fabric/node.ts";
import type { RackPlan } from "../../fabric/rack/plan.ts";
import { parseScenario } from "../../fabric/rack/scenario.ts";
import { makePlan } from "../../fabric/rack/topology.ts";
import { variants } from "../../fabric/rack/variants.ts";
import { Simulator } from "../../fabric/simulator.ts";
import { PS_PER_S, type Time } from "../../fabric/time/time.ts";
import { nodeFactory } from "../../nodes/factory.ts";
import type { Program } from "../../nodes/host/program.ts";

export interface Reported {
  readonly time: Time;
  readonly node: string;
  readonly topic: string;
  readonly value: Readonly<Record<string, unknown>>;
}

export interface Traced {
  readonly time: Time;
  readonly node: string;
  readonly step: TraceStep;
}

export interface RackOptions {
  readonly inputs?: Readonly<Record<string, Uint8Array>>;
  readonly programs?: Readonly<Record<string, Program>>;
  readonly trace?: boolean;
  /** Told of every frame, as a capture would be. */
  readonly observer?: Observer;
  /** Changes the plan before anything runs: what a scenario cannot say. */
  readonly change?: (plan: RackPlan) => RackPlan;
}

export class SimulatedRack {
  readonly plan: RackPlan;
  readonly reports: Reported[] = [];
  readonly traces: Traced[] = [];
  readonly simulator: Simulator;
  /** By host: SCM as a power failure now would leave it. */
  readonly scm = new Map<string, Uint8Array<ArrayBuffer>>();

  /** The scenario's first variant. */
  constructor(scenario: string, options: RackOptions = {}) {
    const [variant] = variants(parseScenario(scenario, "test.yaml"));
    const made = makePlan(variant!);
    this.plan = options.change?.(made) ?? made;
    for (const node of this.plan.nodes) {
      if (node.kind === "host") this.scm.set(node.name, new Uint8Array(node.config.scmBytes));
    }
    this.simulator = new Simulator({
      plan: this.plan,
      create: nodeFactory({
        plan: this.plan,
        image: (host) => (offset, length) => this.scm.get(host)!.slice(offset, offset + length),
        inputs: () => options.inputs ?? {},
        programs: options.programs ?? {},
      }),
      onDurable: (host, writes) => {
        for (const { offset, data } of writes) this.scm.get(host)!.set(data, offset);
      },
      onReport: (time, node, topic, value) => {
        this.reports.push({ time, node, topic, value: value as Reported["value"] });
      },
      ...(options.observer && { observer: options.observer }),
      ...(options.trace && {
        onTrace: (time, node, step) => void this.traces.push({ time, node, step }),
      }),
    });
  }

  /** Runs until nothing is left to happen, for ten virtual seconds at most. */
  run(until: Time = 10 * PS_PER_S): this {
    this.simulator.run(until);
    return this;
  }

  /** Values reported under a topic by a node, oldest first. */
  reported(topic: string, node?: string): Reported["value"][] {
    return this.reports.filter((each) => each.topic === topic && (node ?? each.node) === each.node)
      .map(({ value }) => value);
  }

  /** Names of a node's traced steps, in order. */
  steps(node: string): string[] {
    return this.traces.filter((each) => each.node === node).map(({ step }) => step.step);
  }
}
