/**
 * (m) What a persistent write takes by each method, message by message: exact, as all of it is counted
 * in virtual time. The README's table is made of it, and a test makes it again and compares.
 */
import type { RackPlan } from "../../fabric/rack/plan.ts";
import { parseScenario } from "../../fabric/rack/scenario.ts";
import { makePlan } from "../../fabric/rack/topology.ts";
import { variants } from "../../fabric/rack/variants.ts";
import { type MethodName, METHODS } from "../../fabric/rack/vocabulary.ts";
import { Simulator } from "../../fabric/simulator.ts";
import { PS_PER_NS, PS_PER_US, type Time } from "../../fabric/time/time.ts";
import { formatSize } from "../../fabric/rack/units.ts";
import { nodeFactory } from "../../nodes/factory.ts";
import { table } from "../commands/output.ts";
import { isPutResult, type PutResult } from "../../tests/checkers/survival.ts";

export const METHOD_SIZES = [64, 256, 1024, 4096, 65_536] as const;

/** One method at one size. Figures are per message; times in ps. */
export interface MethodFigure {
  readonly method: MethodName;
  readonly ddio: "off" | "on";
  readonly size: number;
  readonly requests: number;
  readonly packets: number;
  /** Captured bytes on the requester's cable, both ways. */
  readonly bytes: number;
  /** Median, from the post to the completion that the method takes for persistence. */
  readonly latencyPs: Time;
  readonly requesterPs: Time;
  readonly responderPs: Time;
  /** Whether that completion promises persistence here. */
  readonly promises: boolean;
}

/** What a method is compared with: the document's baseline of the flow (P-10, P-11). */
export const BASELINES = { off: "write-read", on: "write-send" } as const;

/** How many messages a figure is of. */
export const MESSAGES = 16;

/** Every method at every size, with DDIO off and on: one message after the other. */
export function measureMethods(seed: number): MethodFigure[] {
  return (["off", "on"] as const).flatMap((ddio) =>
    METHODS.flatMap((method) =>
      METHOD_SIZES.map((size): MethodFigure => ({
        method,
        ddio,
        size,
        ...runPut(planOf({ method, ddio, size, seed }), method),
      }))
    )
  );
}

function planOf(
  of: { method: MethodName; ddio: "off" | "on"; size: number; seed: number },
): RackPlan {
  const { method, ddio, size, seed } = of;
  const put = `{ on: a, run: put, to: b, method: ${method}, depth: 1, size: ${size}, bytes: ${
    size * MESSAGES
  } }`;
  const text = [
    "name: methods",
    `seed: ${seed}`,
    "profile: clx-optane-cx5",
    // A SEND can persist only where the receive buffers do.
    `defaults: { ddio: ${ddio}, dram: 64MiB, receive: ${
      method === "send-read" ? "scm" : "dram"
    }, scm: { size: 16MiB } }`,
    "hosts: { a: {}, b: {} }",
    "programs:",
    `  - ${put}`,
  ].join("\n") + "\n";
  return makePlan(variants(parseScenario(text, "methods.yaml"))[0]!);
}

/** Figures of one message. */
export type PerMessage = Omit<MethodFigure, "method" | "ddio" | "size">;

/** Runs the one `put` of a plan. @throws Error where it does not end well. */
export function runPut(plan: RackPlan, method: string): PerMessage {
  let result: PutResult | undefined;
  let responderPs = 0;
  const simulator = new Simulator({
    plan,
    create: nodeFactory({ plan, image: () => undefined, inputs: () => ({}), programs: {} }),
    onReport(_time, node, topic, value) {
      if (topic === "program-failed") throw new Error(`${node}: ${JSON.stringify(value)}`);
      if (topic === "result" && isPutResult(value)) result = value;
      if (topic === "served") responderPs = (value as { cpuPs: Time }).cpuPs;
    },
  });
  simulator.run();
  if (result?.status !== "done") throw new Error(`put by ${method} ended: ${result?.error}`);
  const { requests: { recv: _recv, ...sent }, wire, latencyPs, cpuPs, promises } = result;
  const requests = Object.values(sent).reduce((sum, count) => sum + count, 0);
  return {
    requests: requests / MESSAGES,
    packets: (wire?.frames ?? 0) / MESSAGES,
    bytes: (wire?.bytes ?? 0) / MESSAGES,
    latencyPs: latencyPs?.median ?? 0,
    requesterPs: cpuPs / MESSAGES,
    responderPs: responderPs / MESSAGES,
    promises,
  };
}

/** The table between these lines of the README is made by `deno task bench --only m --write`. */
const BEGIN = "<!-- methods: made by deno task bench -->", END = "<!-- methods end -->";
const README = new URL("../../README.md", import.meta.url);

/** The README with this table of the methods in it. @throws Error where it has no place for one. */
export function withMethods(readme: string, figures: readonly MethodFigure[]): string {
  const from = readme.indexOf(BEGIN), to = readme.indexOf(END);
  if (from < 0 || to < from) throw new Error(`The README has no ${BEGIN} … ${END}`);
  const [header, ...rows] = methodRows(figures);
  const lines = [header!, header!.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`);
  return `${readme.slice(0, from)}${BEGIN}\n\n${lines.join("\n")}\n\n${readme.slice(to)}`;
}

/** Puts the table into the README. */
export async function writeMethods(figures: readonly MethodFigure[]): Promise<void> {
  await Deno.writeTextFile(README, withMethods(await Deno.readTextFile(README), figures));
}

/** The same table for a terminal. */
export function methodsText(figures: readonly MethodFigure[]): string {
  const [header, ...rows] = methodRows(figures);
  return table(header!, rows);
}

/** Header and rows, one for each method and size. */
function methodRows(figures: readonly MethodFigure[]): string[][] {
  const header = [
    "DDIO",
    "method",
    "size",
    "requests",
    "packets",
    "bytes",
    "latency",
    "of the baseline's",
    "CPU requester",
    "CPU responder",
    "promises",
  ];
  const rows = figures.map((figure) => {
    const { ddio, method, size, requests, packets, bytes, latencyPs, promises } = figure;
    const baseline = figures.find((other) =>
      other.ddio === ddio && other.size === size && other.method === BASELINES[ddio]
    )!;
    return [
      ddio,
      method,
      formatSize(size),
      short(requests),
      short(packets),
      bytes.toFixed(0),
      `${(latencyPs / PS_PER_US).toFixed(2)} µs`,
      (latencyPs / baseline.latencyPs).toFixed(2),
      nanoseconds(figure.requesterPs),
      nanoseconds(figure.responderPs),
      promises ? "persisted" : "nothing",
    ];
  });
  return [header, ...rows];
}

function nanoseconds(ps: Time): string {
  return `${Math.round(ps / PS_PER_NS)} ns`;
}

function short(value: number): string {
  return String(Number(value.toFixed(2)));
}
