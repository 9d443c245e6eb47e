/**
 * Racks of toy nodes for tests of the clock: nodes that chatter at random (seeded) over random
 * cables, run as one partition or as many over a forgetful bus. What the real nodes do with time,
 * these do more wildly.
 */
import { decodeSealed } from "../bus/codec.ts";
import type { Bus } from "../bus/bus.ts";
import { createMemoryBroker, type MemoryBroker } from "../bus/memory_bus_testing.ts";
import { ANY, patternOf } from "../bus/subjects.ts";
import { wallMs } from "../bus/wall_time.ts";
import type { Frame, Input, Node, Outputs } from "../node.ts";
import { crossings } from "../rack/plan/lookahead.ts";
import { delaysTo } from "../rack/plan/distances.ts";
import type { CablePlan, FaultPlan, NodePlan, RackPlan } from "../rack/plan/plan.ts";
import { Runner } from "./runner.ts";
import { ClockService } from "../clock/clock_service.ts";
import type { Timekeeper } from "../clock/timekeeper.ts";
import { type Rng, rngFor } from "../base/rng.ts";
import { NEVER, type Time } from "../base/time.ts";
import type { Recorded, Summary } from "../clock/record.ts";

const PROCESSING_PS = 1_000;
const TTL_OFFSET = 14;
/** The trace step of a toy that hears something. */
export const TOY_STEP = "hears";

/** A node that answers what it hears with more of it, until the frames' time to live is used up. */
export function createToy(
  name: string,
  options: { seed: number; life: number; ports: number },
): Node {
  const rng = rngFor(options.seed, `${name}/${options.life}`);
  let deadline = NEVER;
  let chatter = 3;
  function speak(now: Time, ttl: number, out: Outputs): void {
    const bytes = new Uint8Array(20 + rng.below(200));
    for (let i = 0; i < bytes.length; i++) bytes[i] = rng.next();
    bytes[TTL_OFFSET] = ttl;
    out.send(
      rng.below(options.ports),
      { kind: "frame", bytes },
      now + PROCESSING_PS + rng.below(3_000),
    );
  }
  return {
    name,
    kind: "switch",
    processingPs: PROCESSING_PS,
    step(now: Time, input: Input, out: Outputs) {
      if (input.kind === "power") deadline = now + rng.below(20_000);
      if (input.kind === "wake") {
        speak(now, 6, out);
        deadline = --chatter > 0 ? now + 1 + rng.below(200_000) : NEVER;
      }
      if (input.kind !== "message") return;
      if (out.tracing) out.trace({ step: TOY_STEP, text: "" });
      const ttl = (input.message as Frame).bytes[TTL_OFFSET]!;
      for (let i = rng.below(3); ttl > 0 && i > 0; i--) speak(now, ttl - 1, out);
    },
    wakeAt: () => deadline,
    statistics: () => ({}),
  };
}

/** A connected random rack of `count` toys. */
export function randomRack(seed: number, options: { count: number; faults?: boolean }): RackPlan {
  const rng = rngFor(seed, "rack");
  const names = Array.from({ length: options.count }, (_, i) => `n${String(i).padStart(2, "0")}`);
  const ports = new Map(names.map((name) => [name, 0]));
  const cables: CablePlan[] = [];
  function connect(a: string, b: string): void {
    const end = (node: string) => {
      const port = ports.get(node)!;
      ports.set(node, port + 1);
      return { node, port };
    };
    const latencyPs = 1_000 + rng.below(20_000);
    cables.push({ kind: "network", a: end(a), b: end(b), latencyPs, bitsPerSecond: 100e9 });
  }
  for (let i = 1; i < names.length; i++) connect(names[i]!, names[rng.below(i)]!);
  for (let i = rng.below(3); i > 0; i--) {
    const a = rng.below(names.length), b = rng.below(names.length);
    if (a !== b) connect(names[a]!, names[b]!);
  }
  const rack = toyRack(seed, {
    names,
    cables,
    mode: () => rng.below(2) === 0 ? "cut-through" : "store-and-forward",
  });
  return { ...rack, faults: options.faults ? randomFaults(rng, names) : [] };
}

/** A rack of toys over these cables, whose ports are numbered from 0 for each node. */
export function toyRack(
  seed: number,
  of: {
    readonly names: readonly string[];
    readonly cables: readonly CablePlan[];
    readonly mode?: (name: string) => "cut-through" | "store-and-forward";
  },
): RackPlan {
  const { names, cables, mode = () => "store-and-forward" } = of;
  const ends = cables.flatMap(({ a, b }) => [a, b]);
  const nodes = names.map((name): NodePlan => ({
    name,
    kind: "switch",
    config: {
      ports: ends.filter(({ node }) => node === name).length,
      mode: mode(name),
      latencyPs: PROCESSING_PS,
      queueBytes: 1,
      forwarding: [],
    },
  }));
  return { scenario: "toys", seed, nodes, cables, faults: [], until: null, addresses: {} };
}

/** A recorded power failure or return, with a line's node each: to replay it. */
export function faultsOf({ at, action, nodes }: Recorded): FaultPlan[] {
  return action === "link" ? [] : nodes.map((node) => ({ at, action, node }));
}

function randomFaults(rng: Rng, names: readonly string[]): FaultPlan[] {
  const faults: FaultPlan[] = [];
  for (const node of names) {
    if (rng.below(3) !== 0) continue;
    const at = 5_000 + rng.below(300_000);
    faults.push({ at, action: "kill", node });
    // Power may be back at the instant at which it went.
    const back = Math.max(0, rng.below(250_000) - 50_000);
    if (rng.below(2) === 0) faults.push({ at: at + back, action: "start", node });
  }
  return faults.sort((x, y) => x.at - y.at);
}

/** Makes toys for a plan. */
export function toyFactory(plan: RackPlan): (name: string, life: number) => Node {
  return (name, life) => {
    const node = plan.nodes.find((n) => n.name === name)!;
    const ports = node.kind === "switch" ? node.config.ports : 1;
    return createToy(name, { seed: plan.seed, life, ports });
  };
}

export interface PartitionPlan {
  readonly name: string;
  readonly nodes: readonly string[];
}

/** Nodes dealt out to `count` partitions in turn. */
export function dealOut(plan: RackPlan, count: number): PartitionPlan[] {
  const partitions = Array.from(
    { length: count },
    (_, i) => ({ name: `p${i}`, nodes: [] as string[] }),
  );
  plan.nodes.forEach(({ name }, i) => partitions[i % count]!.nodes.push(name));
  return partitions;
}

export interface BusRunOptions {
  readonly plan: RackPlan;
  readonly partitions: readonly PartitionPlan[];
  readonly broker?: MemoryBroker;
  readonly delay?: () => Promise<void>;
  /** Begin paused. */
  readonly paused?: boolean;
  readonly onRecord?: (fault: Recorded) => void;
  /** Called with the running rack, to break it. */
  readonly during?: (rack: BusRack) => void | Promise<void>;
}

/** A rack of runners over a memory bus, in one process. */
export interface BusRack {
  readonly broker: MemoryBroker;
  /** Whether every partition has joined: before that, to be killed is not to be switched on. */
  readonly isUp: boolean;
  /**
   * Whether the timekeeper has heard of every process what is so: that it is here, or that it is dead.
   * A power failure before that is survived and cannot be replayed (see `fabric/README.md`, Limits).
   */
  readonly isSettled: boolean;
  /** What is done to it from then on is no part of the run. */
  readonly finished: boolean;
  readonly timekeeper: Timekeeper;
  /** Kills the timekeeper and starts another, which knows only what is on record. */
  restartTimekeeper(): void;
  /** Stops a partition's runner for good, as SIGKILL would, and reports the death until it is on record. */
  kill(partition: string): void;
  start(partition: string): void;
}

/** Runs a plan of toys to its end over a bus. */
export function runOverBus(options: BusRunOptions): Promise<Summary> {
  const { plan, partitions } = options;
  const broker = options.broker ?? createMemoryBroker({ seed: plan.seed });
  const partitionOf = new Map(partitions.flatMap(({ name, nodes }) => nodes.map((n) => [n, name])));
  const done = Promise.withResolvers<Summary>();
  const fatal = (error: unknown) => done.reject(error);
  const buses: Bus[] = [];
  const connect = () => {
    const bus = broker.connect({ onError: fatal });
    buses.push(bus);
    return bus;
  };
  const runners = new Map<string, { runner: Runner; instance: string }>();
  const records: Recorded[] = [];
  let deaths: { name: string; instance: string }[] = [];
  let term = 0, inexact = false, finished = false;
  let clock: ClockService | undefined;
  let starts = 0;
  function startClock(): void {
    clock = new ClockService({
      run: "toys",
      bus: connect(),
      plan,
      partitions,
      crossings: crossings(plan, partitions),
      term: term++,
      recorded: records,
      inexact,
      stayUp: false,
      livenessMs: 0,
      wallMs,
      ...(options.paused !== undefined && { paused: options.paused }),
      onRecord: (fault) => {
        records.push(fault);
        options.onRecord?.(fault);
      },
      onInexact: () => inexact = true,
      onFinished: (summary) => {
        finished = true;
        done.resolve(summary);
      },
    });
  }
  function start(name: string): void {
    const { nodes } = partitions.find((p) => p.name === name)!;
    const instance = `${name}-${starts++}`;
    const runner = new Runner({
      run: "toys",
      partition: name,
      nodes,
      plan,
      partitionOf,
      returnDelay: delaysTo(name, { plan, partitions }),
      instance,
      bus: connect(),
      create: toyFactory(plan),
      stores: new Map(),
      onFatal: fatal,
      ...(options.delay && { delay: options.delay }),
    });
    runners.set(name, { runner, instance });
    runner.start();
  }
  function kill(name: string): void {
    const victim = runners.get(name);
    if (victim === undefined) return;
    victim.runner.stop();
    runners.delete(name);
    deaths.push({ name, instance: victim.instance });
    tellDeaths();
  }
  function tellDeaths(): void {
    deaths = deaths.filter(({ name, instance }) => clock?.timekeeper.died(name, instance) !== true);
  }
  const orders = connect();
  orders.subscribe(patternOf({ kind: "clock.order", run: "toys", partition: ANY }), (payload) => {
    obey(payload);
  });
  function obey(payload: Uint8Array): void {
    const [verb, name, , instance] = decodeOrder(payload);
    if (verb === "kill" && runners.get(name)?.instance === instance) kill(name);
    if (verb === "start" && !runners.has(name)) start(name);
  }
  startClock();
  for (const { name } of partitions) start(name);
  const during = options.during?.({
    broker,
    get isUp() {
      return clock!.timekeeper.why().every(({ status }) => status !== "absent");
    },
    get isSettled() {
      return clock!.timekeeper.why().every(({ partition, status }) =>
        runners.has(partition) ? status === "idle" || status === "running" : status === "dead"
      );
    },
    get finished() {
      return finished;
    },
    get timekeeper() {
      return clock!.timekeeper;
    },
    kill,
    start,
    restartTimekeeper() {
      clock?.stop();
      startClock();
      tellDeaths();
    },
  });
  Promise.resolve(during).catch(fatal);
  return done.promise.finally(async () => {
    await during;
    clock?.stop();
    for (const { runner } of runners.values()) runner.stop();
    await Promise.all(buses.map((bus) => bus.close()));
  });
}

function decodeOrder(payload: Uint8Array): [string, string, number, string] {
  return decodeSealed(payload) as [string, string, number, string];
}
