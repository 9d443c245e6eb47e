import { z } from "zod";
import { PACKINGS, PROCESS_PACKINGS } from "../../fabric/rack/assembly/topology.ts";
import { fromOrder } from "../../fabric/rack/plan/option_rows.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { CHOICES } from "../../fabric/rack/plan/vocabulary.ts";
import {
  BYTES_MAX,
  DEPTH_MAX,
  ITERATIONS_MAX,
  PERFTEST,
  type PerftestName,
  PERFTESTS,
  QPS_MAX,
} from "../../nodes/host/programs/perftest/terms.ts";
import { parseVary } from "../sweep/vary.ts";
import { inProject } from "./scenarios.ts";
import { label, name, orderFields, orNull, rule, scenarioYaml, seed, time } from "./common.ts";
import {
  CHAOS_OPTIONS,
  CLAIMS,
  EXPLORE_OPTIONS,
  refuseNothing,
  SWEEP_OPTIONS,
  VERDICTS,
} from "./options.ts";
import { ladderDocument } from "./operations.ts";
import { psPerSecond } from "./orders.ts";
import { report } from "./report.ts";

export const scenarioSource = z.union([
  z.strictObject({ shipped: name }),
  z.strictObject({
    text: scenarioYaml,
    ...inProject,
  }),
]).meta({ id: "ScenarioSource" });
export type ScenarioSource = z.infer<typeof scenarioSource>;

const choices = { scenario: scenarioSource, ...orderFields(CHOICES) };
const packing = z.enum(PACKINGS), processes = z.enum(PROCESS_PACKINGS);
const claims = orderFields({ claims: CLAIMS });

/** Refuses what a test of perftest has not. @throws Refusal */
function refuseMisfit(
  { test, from, to, ...given }: {
    readonly test: PerftestName;
    readonly from?: string | undefined;
    readonly to?: string | undefined;
    readonly size?: number | undefined;
    readonly all?: boolean | undefined;
    readonly iterations?: number | undefined;
    readonly depth?: number | undefined;
    readonly qps?: number | undefined;
  },
): void {
  const { measures, onlyBytes, qpsMost, iterationsLeast } = PERFTEST[test];
  const { size = onlyBytes, all = false, iterations = iterationsLeast, depth, qps = 1 } = given;
  if (from !== undefined && from === to) {
    throw refusal("to", { found: `"${to}", as is from`, expected: "another host" });
  }
  const refuse = (member: string, is: boolean, expected: string) => {
    if (is) {
      throw refusal(member, {
        found: `${given[member as keyof typeof given]} of ${test}`,
        expected,
      });
    }
  };
  if (onlyBytes !== undefined) {
    refuse("size", size !== onlyBytes, `${onlyBytes}, the only one`);
    refuse("all", all, "none: it has one size");
  }
  refuse("qps", qps > qpsMost, `at most ${qpsMost}`);
  refuse("iterations", iterations < iterationsLeast, `at least ${iterationsLeast}`);
  refuse("depth", depth !== undefined && measures === "latency", "none: a latency test has one");
}

export const jobOrder = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("run"),
    ...choices,
    packing: packing.default("node"),
    ...claims,
    trace: z.boolean().optional(),
    captures: z.boolean().optional().describe("pcapng files and a Perfetto trace"),
    counterexample: z.strictObject({ job: name, variant: label }).optional()
      .describe("run with the faults by which an exploration of this console found it"),
  }),
  z.strictObject({
    kind: z.literal("up"),
    ...choices,
    packing: packing.default("node"),
    trace: z.boolean().optional(),
    paused: z.boolean().optional().describe("time stands at 0 until it is let run"),
    psPerSecond: psPerSecond.optional(),
  }),
  z.strictObject({
    kind: z.literal("resume"),
    run: name.describe("a run: a rack of processes comes up as it stood"),
    variant: name.optional(),
    at: z.union([time, name.describe("of a checkpoint of the run")]).describe("an instant of it"),
    go: z.boolean().optional().describe("let time run; else the rack is paused there"),
    trace: z.boolean().optional(),
  }),
  z.strictObject({
    kind: z.literal("explore"),
    ...choices,
    ...orderFields(EXPLORE_OPTIONS),
  }).superRefine(rule((order) => refuseNothing(fromOrder(EXPLORE_OPTIONS, order)))),
  z.strictObject({
    kind: z.literal("cut"),
    run: name.describe("a run, also of a rack that is up: it is not touched"),
    variant: name.optional(),
    host: name.describe("whose power is cut"),
    atPs: time.describe("before everything that happens then"),
    ...claims,
  }),
  z.strictObject({
    kind: z.literal("matrix"),
    ...orderFields({ jobs: EXPLORE_OPTIONS.jobs }),
  }).describe("every method on every kind of responder"),
  z.strictObject({
    kind: z.literal("chaos"),
    ...choices,
    ...orderFields(CHAOS_OPTIONS),
    packing: processes.optional(),
  }),
  z.strictObject({
    kind: z.literal("perftest"),
    scenario: scenarioSource,
    test: z.enum(PERFTESTS),
    packing: packing.default("all"),
    from: name.optional(),
    to: name.optional(),
    ...orderFields({ ddio: CHOICES.ddio, seed: CHOICES.seed }),
    size: z.number().int().min(1).max(BYTES_MAX).optional(),
    all: z.boolean().optional(),
    iterations: z.number().int().min(1).max(ITERATIONS_MAX).optional(),
    depth: z.number().int().min(1).max(DEPTH_MAX).optional(),
    qps: z.number().int().min(1).max(QPS_MAX).optional(),
  }).superRefine(rule(refuseMisfit)),
  z.strictObject({
    kind: z.literal("sweep"),
    scenario: scenarioSource,
    vary: z.array(z.string().max(100_000)).min(1)
      .describe("a word of the scenario and its values each: depth=1,4,16"),
    ...orderFields({ jobs: SWEEP_OPTIONS.jobs }),
    limitMs: z.number().int().min(1_000 * SWEEP_OPTIONS.limit.least)
      .max(1_000 * SWEEP_OPTIONS.limit.most).optional().describe("of a combination"),
    x: label.optional().describe("of the picture; else as rack sweep chooses"),
    y: label.optional(),
    by: z.array(label).optional(),
  }).superRefine(rule(({ vary }) => void parseVary(vary)))
    .describe("every combination of values, each in a process of its own"),
]).meta({ id: "JobOrder" });
export type JobOrder = z.infer<typeof jobOrder>;
/** As sent: defaults may be left out. */
export type JobOrderInput = z.input<typeof jobOrder>;

export const job = z.object({
  id: z.string(),
  kind: z.enum(jobOrder.options.map(({ shape }) => shape.kind.value)),
  scenario: z.string(),
  state: z.enum(["running", "ending", "done", "failed", "cancelled"]),
  title: z.string().describe("the present task"),
  share: z.number().min(0).max(1),
  startedAt: z.string().describe("wall time, ISO 8601"),
  wallMs: z.number(),
  run: z.string().nullable().describe("the run that it makes, as soon as that is known"),
  verdict: z.string().describe("one or a few words; empty while it runs"),
  error: z.string().describe("why it failed; else empty"),
  notes: z.array(z.string()).describe("what was said on the way: rounds, hosts left out …"),
}).meta({ id: "Job" });
export type Job = z.infer<typeof job>;

export const jobs = z.object({ jobs: z.array(job) }).meta({ id: "Jobs" });

const span = z.object({
  host: name,
  from: z.number(),
  to: z.number(),
  place: z.enum(["not there yet", "local cache", "bus", "iio", "llc", "memory"]),
  survived: z.boolean(),
  node: name,
  by: z.string(),
  id: z.number(),
});

const counterexample = z.object({
  hosts: z.array(name),
  atPs: time,
  writebacks: z.array(z.record(z.string(), z.unknown())),
  holds: z.array(z.record(z.string(), z.unknown())).optional().describe(
    "programs that are stopped, of an interleaving: `hosts` is empty then",
  ),
  stalls: z.array(z.object({
    node: name,
    by: z.string().describe("host, life and thread, or card and life"),
    number: z.number(),
    ps: z.number(),
    at: time,
  })).optional().describe(
    "the core or card that stands still in the run",
  ),
  linkFaults: z.array(z.looseObject({
    action: z.string(),
    at: time,
    nth: z.number().optional(),
    delayPs: z.number().optional(),
  })).optional().describe(
    "what happens to a frame in the run, beside the scenario's faults",
  ),
  faults: z.array(z.record(z.string(), z.unknown())),
  isReplayable: z.boolean(),
  places: z.array(span),
  promised: z.array(z.string()),
  checker: z.string(),
  found: z.string(),
  again: z.number().optional(),
  printed: z.array(z.string()).optional().describe("lines of a native recovery"),
  ladder: z.string(),
  operation: orNull(ladderDocument).describe("the ladder as data, without frames"),
}).meta({ id: "Counterexample" });
export type Counterexample = z.infer<typeof counterexample>;

const runsTried = z.object({
  tried: z.number(),
  places: z.number().describe("of the run, at which it may happen"),
  orders: z.number().describe("new ones, whose power failures were judged"),
  ps: z.number().describe("length of a stall, or of a frame's delay"),
  instants: z.number(),
  crashPoints: z.number(),
});

const covered = z.object({
  instants: z.number(),
  cells: z.number(),
  unit: z.enum(["words", "lines", "pieces"]),
  strength: z.union([z.literal(0), z.literal(1), z.literal(2), z.literal(3), z.literal(4)])
    .describe("any so many of them in every combination of their contents"),
  inOrder: z.boolean().describe("the first and the last ones in the order of arrival"),
  aside: z.union([z.literal(0), z.literal(1), z.literal(2)])
    .describe("any so many of them alone there, and alone missing"),
}).meta({ id: "CoveredChoices" });

export const exploreResult = z.object({
  scenario: z.string(),
  seed,
  runs: z.array(z.object({
    variant: z.string(),
    method: z.enum(CHOICES.method.words).nullable(),
    ddio: z.enum(CHOICES.ddio.words).nullable(),
    verdict: z.enum(VERDICTS),
    why: z.string().optional(),
    hosts: z.array(name),
    instants: z.number(),
    crashPoints: z.number(),
    continuations: z.number(),
    paths: z.number().describe("ways in which recoveries and checks have found memory"),
    bounded: z.number().describe("instants with more choices than were tried"),
    covered: z.array(covered),
    again: z.object({ recoveries: z.number(), cut: z.number(), ways: z.number() })
      .describe("recoveries that wrote, and during how many the power failed again"),
    exhaustive: z.boolean(),
    native: z.object({
      images: z.number().describe("distinct contents of SCM: a recovery ran on each"),
      steps: z.number().describe("in which a program has stored into several cache lines"),
      flushes: z.number().describe("instructions of their code that flush unseen, at most"),
    }).optional().describe("native programs, of one run"),
    interleavings: z.object({
      runs: z.number(),
      orders: z.number(),
      preemptions: z.number(),
      stallPs: z.number().optional(),
      untried: z.number(),
    }).optional().describe("of programs' accesses to shared regions, without power failures"),
    stalls: runsTried.optional().describe(
      "runs in which a core or card stands still; absent: the verdict leans on one timing",
    ),
    frames: runsTried.optional().describe("runs in which a frame is lost, late or overtaken"),
    slack: z.object({
      ps: z.number(),
      by: z.string(),
      id: z.number(),
      on: name,
      durablePs: z.number(),
      promisedPs: z.number(),
    }).optional().describe("the least time from a write's being in memory to its promise"),
    judgedBy: z.array(z.enum(["promises", "check", "operations", "robustness", "recovery"])),
    writes: z.number(),
    promises: z.number(),
    wallMs: z.number(),
    perSecond: z.number(),
    counterexample: orNull(counterexample),
    command: z.string().nullable().describe("replays the counterexample"),
    faults: z.string().nullable().describe("the file of faults that the command reads"),
  })),
  input: z.string().optional().describe("the file of data that programs read"),
}).meta({ id: "ExploreResult" });
export type ExploreResult = z.infer<typeof exploreResult>;

export const matrixCell = z.object({
  method: z.string(),
  update: z.string(),
  arch: z.string(),
  ddio: z.enum(["off", "on"]),
  domain: z.string(),
  receiveBuffer: z.string(),
  safe: z.boolean(),
  crashPoints: z.number(),
  counterexample: orNull(counterexample),
}).meta({ id: "MatrixCell" });
export type MatrixCell = z.infer<typeof matrixCell>;

export const matrixResult = z.object({
  cells: z.array(matrixCell).describe("those that are done"),
  count: z.number().int().describe("of all"),
}).meta({ id: "MatrixResult" });
export type MatrixResult = z.infer<typeof matrixResult>;

const round = z.object({
  round: z.number(),
  what: z.string(),
  outcome: z.enum(["held", "broken", "untold"]),
  command: z.string(),
  directory: z.string().nullable(),
  saved: z.string().nullable().describe("the file of its scenario, of a command that saves"),
  unsaved: z.string().nullable().describe("why no scenario does the same again"),
  blows: z.array(z.object({ what: z.string(), wallMs: z.number(), hit: z.boolean() })),
  findings: z.array(z.object({ check: z.string(), text: z.string() })),
  untold: z.string().nullable(),
  replay: z.enum(["same", "different", "inexact", "missing", "none"]),
  replayShows: z.boolean().nullable(),
  digest: z.string().nullable(),
  fired: z.array(z.string()),
  wallMs: z.number(),
}).meta({ id: "ChaosRound" });

export const chaosResult = z.object({
  scenario: z.string(),
  seed,
  wallMs: z.number(),
  rounds: z.array(round).describe("the latest ones"),
  count: z.number(),
  held: z.number(),
  broken: z.number(),
  untold: z.number(),
  goals: z.record(z.string(), z.number()),
}).meta({ id: "ChaosResult" });
export type ChaosResult = z.infer<typeof chaosResult>;

export const sweepResult = z.object({
  run: name.describe("the sweep's name among the kept runs"),
  scenario: z.string(),
  seed,
  commit: z.string().nullable(),
  command: z.string().describe("makes it again"),
  varied: z.array(z.object({
    name: z.string(),
    places: z.array(z.string()).describe("paths in the scenario"),
    values: z.array(z.string()),
  })),
  combinations: z.array(z.object({
    number: z.number().int(),
    values: z.record(z.string(), z.string()),
    state: z.enum(["done", "unchecked", "failed", "interrupted", "not run"]),
    error: z.string().describe("why it is not done; else empty"),
    report: orNull(report),
    scenario: z.string(),
    directory: z.string().nullable(),
  })),
  directory: z.string(),
  wallMs: z.number(),
}).meta({ id: "SweepResult" });
export type SweepResult = z.infer<typeof sweepResult>;

export const jobResult = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("run"), report }),
  z.object({ kind: z.literal("up"), run: z.string() }),
  z.object({
    kind: z.literal("resume"),
    run: z.string(),
    from: z.string(),
    atPs: time,
    digest: z.string().describe("of the rack at that instant, the same as in the run"),
  }),
  z.object({ kind: z.literal("explore"), explored: exploreResult }),
  z.object({ kind: z.literal("cut"), explored: exploreResult }),
  z.object({ kind: z.literal("matrix"), matrix: matrixResult }),
  z.object({ kind: z.literal("chaos"), campaign: chaosResult }),
  z.object({ kind: z.literal("perftest"), result: z.record(z.string(), z.unknown()) }),
  z.object({
    kind: z.literal("sweep"),
    sweep: sweepResult,
    svg: z.string().describe("the picture; empty where no combination has an end"),
  }),
]).meta({ id: "JobResult" });
export type JobResult = z.infer<typeof jobResult>;

export const jobDetail = z.object({
  job,
  order: jobOrder,
  result: orNull(jobResult).describe("null: none yet"),
}).meta({ id: "JobDetail" });
export type JobDetail = z.infer<typeof jobDetail>;
