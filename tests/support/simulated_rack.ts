/**
 * A rack in this process, made from the text of a scenario: what ran, what was reported, and what a
 * power failure at the end would leave in each host's SCM.
 */
import { AssertionError } from "node:assert/strict";
import type { Observer } from "../../fabric/capture/observation.ts";
import { teeOf } from "../../fabric/capture/tee.ts";
import type { TraceStep } from "../../fabric/node.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { Simulator } from "../../fabric/partition/simulator.ts";
import { NEVER, PS_PER_S, type Time } from "../../fabric/base/time.ts";
import { nodeFactory } from "../../nodes/factory.ts";
import { SCM_BASE } from "../../nodes/host/memory/address_map.ts";
import type { HeldWrites } from "../../nodes/rnic/dma/journal.ts";
import { type Watch, watchRun } from "../../console/rack/run_record.ts";
import type { RunRecord } from "../../console/checks/run_record.ts";
import { assertSound } from "./sound.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { livesOf } from "../../console/checks/lives.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import type { FactoryOptions } from "../../nodes/make_host.ts";

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
  /** Who is told what becomes of each host's SCM, and when. */
  readonly memoryLog?: FactoryOptions["memoryLog"];
  /** Starts its native programs: see `native_rack.ts`. */
  readonly native?: FactoryOptions["native"];
  /** Why this run is not held to the rack's promises (see {@link assertSound}): it breaks one. */
  readonly unsound?: string;
}

export class SimulatedRack {
  readonly plan: RackPlan;
  readonly reports: Reported[] = [];
  readonly traces: Traced[] = [];
  readonly simulator: Simulator;
  /** By host: SCM as a power failure now would leave it. */
  readonly scm = new Map<string, Uint8Array<ArrayBuffer>>();
  readonly #watch: Watch;
  readonly #unsound: string | undefined;

  /** The scenario's first variant. */
  constructor(scenario: string, options: RackOptions = {}) {
    const [variant] = variants(parseScenario(scenario, "test.yaml"));
    const made = makePlan(variant!);
    this.plan = options.change?.(made) ?? made;
    this.#watch = watchRun(this.plan);
    this.#unsound = options.unsound;
    const observer = teeOf([options.observer, this.#watch.observer]);
    for (const node of this.plan.nodes) {
      if (node.kind === "host") this.scm.set(node.name, new Uint8Array(node.config.scmBytes));
    }
    this.simulator = new Simulator({
      plan: this.plan,
      create: nodeFactory({
        plan: this.plan,
        image: (host) => (offset, length) => this.scm.get(host)!.slice(offset, offset + length),
        inputs: () => options.inputs ?? {},
        own: Object.fromEntries(
          Object.entries(options.programs ?? {}).map(([name, program]) => [
            name,
            () => ({ program }),
          ]),
        ),
        memoryLog: options.memoryLog ?? this.#watch.memoryLog,
        native: options.native,
      }),
      onDurable: (host, writes) => {
        for (const { offset, data } of writes) this.scm.get(host)!.set(data, offset);
      },
      onReport: (time, node, topic, value) => {
        this.reports.push({ time, node, topic, value: value as Reported["value"] });
      },
      onAudit: this.#watch.onAudit,
      ...(observer && { observer }),
      ...(options.trace && {
        onTrace: (time, node, step) => void this.traces.push({ time, node, step }),
      }),
    });
  }

  /**
   * Runs until nothing is left to happen, for ten virtual seconds at most.
   * @throws AssertionError where a promise of the rack is broken, unless `unsound` was said.
   */
  run(until: Time = 10 * PS_PER_S): this {
    this.simulator.run(until);
    for (const node of this.plan.nodes) if (node.kind === "rnic") this.#layHeld(node.name);
    if (this.#unsound === undefined) assertSound(this.record(until));
    const leaked = this.simulator.heldAtRest().filter(({ kind }) => kind === "leaked");
    if (leaked.length > 0) {
      const message = `At rest: ${leaked.map(({ text }) => text).join(", ")}`;
      throw new AssertionError({ message });
    }
    return this;
  }

  /** What checkers look at, of a run up to `until`. */
  record(until: Time): RunRecord {
    const { plan, reports, simulator } = this;
    const { notes, wire, durable } = this.#watch;
    return {
      plan,
      lives: livesOf(plan, plan.faults),
      reports,
      notes,
      wire,
      durable,
      ...(simulator.next !== NEVER && { until: Math.min(until, plan.until ?? until) }),
      scm: (host) => {
        const bytes = this.scm.get(host);
        return bytes && { read: (from, to) => bytes.subarray(from, to) };
      },
    };
  }

  /** What a card holds for a host that is off is as good as in its memory (domain `wsp`). */
  #layHeld(rnic: string): void {
    const held = this.reported("held", rnic).at(-1);
    if (held === undefined) return;
    const { host, writes } = held as unknown as HeldWrites;
    for (const { address, data } of writes) {
      this.scm.get(host)!.set(Uint8Array.fromHex(data), address - SCM_BASE);
    }
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
