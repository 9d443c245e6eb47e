/**
 * A partition of scripted nodes, for tests of single rules of it: each node does at each of its inputs
 * what the test scripts, and its inputs stand in a list. a – b – c are joined in a row; a and b are
 * the partition `ab`, c is elsewhere.
 */
import type { CablePlan, NodePlan, RackPlan } from "../rack/plan/plan.ts";
import type { Frame, Input, Outputs } from "../node.ts";
import { type Event, EVENT_KINDS } from "./event_queue.ts";
import { NEVER, type Time } from "../base/time.ts";
import type { NodeDigest } from "./digest.ts";
import { type CreateNode, Partition, type PartitionOptions } from "./partition.ts";

/** What a node learns of its fixed delay: they differ, so that no test takes one for another. */
export const PROCESSING_PS: Readonly<Record<string, Time>> = { a: 1_000, b: 2_000, c: 3_000 };
export const LATENCY_PS: Time = 5_000;
export const PARTITION_OF: ReadonlyMap<string, string> = new Map([
  ["a", "ab"],
  ["b", "ab"],
  ["c", "c"],
]);
/** A frame of the least size takes 1 ps at this rate. */
const BITS_PER_SECOND = 672e12;

/** Least time from a cause at `near` to its effect at the other end of its cable. */
export function leastPs(near: string): Time {
  return PROCESSING_PS[near]! + 1 + LATENCY_PS;
}

/** What is known to a node when something happens to it. */
export interface Moment {
  readonly now: Time;
  readonly life: number;
  readonly input: Input;
  readonly out: Outputs;
}

/** What a node does. @returns its next deadline, none where it answers nothing. */
export type Script = (moment: Moment) => Time | void;

export interface RigOptions extends Partial<Omit<PartitionOptions, "plan" | "create">> {
  readonly plan?: Partial<RackPlan>;
  /** What both cables have that is not as usual. */
  readonly cable?: Partial<CablePlan>;
  readonly scripts?: Readonly<Record<string, Script>>;
  /** Name/life → when it makes a byte persistent, whose offset is that instant (`Node.takeDurable`). */
  readonly durable?: Readonly<Record<string, readonly Time[]>>;
  /** In which life power comes on, and when; absent: in the first one, at 0. */
  readonly boot?: { readonly at: Time; readonly life: number; readonly digest?: NodeDigest };
}

/** A partition, and what its nodes have heard: `b/0 message:1 @7001` is b's first life, port 1. */
export interface Rig {
  readonly partition: Partition;
  readonly plan: RackPlan;
  readonly heard: string[];
  /** What each life of a node was given that its earlier ones made persistent: name/life → instants. */
  readonly unsaved: Map<string, number[]>;
}

export function threeInARow(options: Pick<RigOptions, "plan" | "cable"> = {}): RackPlan {
  const nodes = Object.entries(PROCESSING_PS).map(([name, latencyPs]): NodePlan => ({
    name,
    kind: "switch",
    config: { ports: 2, mode: "store-and-forward", latencyPs, queueBytes: 1, forwarding: [] },
  }));
  const cable = {
    kind: "network" as const,
    latencyPs: LATENCY_PS,
    bitsPerSecond: BITS_PER_SECOND,
    ...options.cable,
  };
  const cables: CablePlan[] = [
    { ...cable, a: { node: "a", port: 0 }, b: { node: "b", port: 0 } },
    { ...cable, a: { node: "b", port: 1 }, b: { node: "c", port: 0 } },
  ];
  return {
    scenario: "rules",
    seed: 1,
    nodes,
    cables,
    faults: [],
    until: null,
    addresses: {},
    ...options.plan,
  };
}

/** Nodes that follow scripts, and what they have heard and been given. */
export function scriptedNodes(
  options: Pick<RigOptions, "scripts" | "durable"> = {},
): Pick<Rig, "heard" | "unsaved"> & { readonly create: CreateNode } {
  const { scripts = {}, durable = {} } = options;
  const heard: string[] = [];
  const unsaved = new Map<string, number[]>();
  const create: CreateNode = (name, life, kept) => {
    unsaved.set(`${name}/${life}`, kept.map(({ offset }) => offset));
    let deadline: Time = NEVER;
    const makes = durable[`${name}/${life}`] ?? [];
    let saved: Time = 0;
    return {
      name,
      kind: "switch",
      processingPs: PROCESSING_PS[name]!,
      step(now, input, out) {
        heard.push(lineOf(`${name}/${life}`, now, input));
        deadline = scripts[name]?.({ now, life, input, out }) ?? NEVER;
      },
      wakeAt: () => deadline,
      statistics: () => ({}),
      nextDurableAt: () => Math.min(NEVER, ...makes.filter((at) => at >= saved)),
      takeDurable(before) {
        const due = makes.filter((at) => at >= saved && at < before);
        saved = Math.max(saved, before);
        return due.map((offset) => ({ offset, data: new Uint8Array(8) }));
      },
    };
  };
  return { heard, unsaved, create };
}

/** Builds the partition and applies power to it; nothing has happened yet. */
export function createRig(options: RigOptions = {}): Rig {
  const { plan: _, cable: __, scripts, durable, boot, ...rest } = options;
  const plan = threeInARow(options);
  const { heard, unsaved, create } = scriptedNodes({
    ...(scripts && { scripts }),
    ...(durable && { durable }),
  });
  const partition = new Partition({
    nodes: ["a", "b"],
    partitionOf: PARTITION_OF,
    scriptedFaults: true,
    returnDelay: () => NEVER,
    ...rest,
    plan,
    create,
  });
  const { at, ...start } = boot ?? { at: 0, life: 0 };
  partition.powerOn(at, new Map(["a", "b"].map((name) => [name, start])));
  return { partition, plan, heard, unsaved };
}

function lineOf(node: string, now: Time, input: Input): string {
  const port = input.kind === "message" || input.kind === "link" ? `:${input.port}` : "";
  const what = input.kind === "link" ? (input.up ? "up" : "down") : input.kind;
  return `${node} ${what}${port} @${now}`;
}

/** A script that sends a frame over each of `ports` when it gets power, at once. */
export function sendsAtPower(...ports: number[]): Script {
  return ({ now, input, out }) => {
    if (input.kind !== "power") return;
    for (const port of ports) out.send(port, frame(), now + PROCESSING_PS.b!);
  };
}

/** A frame that takes `1 + extra` ps on a cable of the rig's rate. */
export function frame(extra = 0): Frame {
  return { kind: "frame", bytes: new Uint8Array(60 + extra * 84) };
}

/** A frame from c to b: what another partition sends. */
export function messageFromC(time: Time, key: Partial<Event> = {}): Event {
  return {
    time,
    kind: EVENT_KINDS.message,
    source: 2,
    counter: time,
    target: 1,
    sourceLife: 0,
    targetLife: 0,
    input: { kind: "message", port: 1, message: frame(), tailPs: 0 },
    ...key,
  };
}

/** b notices that c's power is gone or back, for its life `sourceLife`. */
export function powerOfC(time: Time, change: { up: boolean; sourceLife: number }): Event {
  const { up, sourceLife } = change;
  return messageFromC(time, {
    kind: EVENT_KINDS.link,
    sourceLife,
    input: { kind: "link", port: 1, up },
  });
}
