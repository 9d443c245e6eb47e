/**
 * The process of a partition: `main.ts RUN_FILE PARTITION [INSTANCE [LANES_FILE]]`. Connects the
 * pure nodes with bus, SCM files, inputs, outputs, traces. With a file of lanes it may take up
 * further racks (`fabric/lanes.ts`).
 */
import { reportToBytes } from "../fabric/rack/assembly/report_message.ts";
import { orderFromBytes } from "../fabric/clock/clock.ts";
import { finalVerb, inspectVerb, STEPS_VERB } from "../fabric/bus/access.ts";
import { ForgeryError } from "../fabric/bus/refusals.ts";
import { answerLanes, type Lane, type LanesFile } from "../fabric/lanes.ts";
import { decode, encode } from "../fabric/bus/codec.ts";
import type { Bus, Subscription } from "../fabric/bus/bus.ts";
import { patternOf, subjectOf } from "../fabric/bus/subjects.ts";
import { block, wallMs } from "../fabric/bus/wall_time.ts";
import { EXIT } from "../fabric/base/exit.ts";
import {
  type FinalPage,
  type FinalReply,
  nodesOf,
  programsFor,
  type RunFile,
} from "../fabric/rack/assembly/run_file.ts";
import { delaysTo } from "../fabric/rack/plan/distances.ts";
import { nativeIn } from "../fabric/rack/plan/plan.ts";
import { Refusal, refusal } from "../fabric/rack/plan/problem.ts";
import { exitWith, runOnBus } from "../fabric/process.ts";
import { Runner } from "../fabric/runner/runner.ts";
import { StepFeed } from "../fabric/runner/step_feed.ts";
import { RunEndingError } from "../fabric/base/run_ending_error.ts";
import { rngFor } from "../fabric/base/rng.ts";
import type { CreateNode } from "../fabric/partition/partition.ts";
import {
  giveUpRights,
  observationWriter,
  openStores,
  printer,
  readInputs,
  traceWriter,
  writeOutput,
} from "./files.ts";
import { loadOwnPrograms } from "./load_own_programs.ts";
import { type ScmFile, ScmFileError } from "./host/store/scm_file.ts";
import { loadModule, loadPrograms } from "./load.ts";
import type { MakeProgram } from "./host/own_programs.ts";
import type { Program } from "./host/program_context.ts";
import type { FactoryOptions } from "./make_host.ts";
import { LOG_TOPIC, logLineText } from "./host/cpu/log_text.ts";
import { ownTables, withOwnRows } from "./own_tables.ts";
import { createKeptReports } from "./kept_reports.ts";
import { OUTPUT_TOPIC } from "../fabric/node.ts";

const FINAL_PAGE_BYTES = 2 << 20;
/** Programs that orders start; they cannot be loaded later, without the right to read. */
const ORDERED = ["put", "get", "list", "remove"];
/** As shells and containers report SIGKILL. */
const EXIT_KILLED = 128 + 9;

interface Arguments {
  readonly runFilePath: string;
  readonly partition: string;
  readonly instance: string;
  readonly lanesPath: string | undefined;
}

async function main({ runFilePath, partition, instance, lanesPath }: Arguments): Promise<void> {
  const set = lanesPath === undefined ? undefined : readJson<LanesFile>(lanesPath);
  const prepared = new Map<string, PreparedRack>();
  const prepare = async (path: string) => {
    const rack = await prepareRack(readJson(path), {
      partition,
      instance,
      isLane: set !== undefined,
    });
    prepared.set(path, rack);
    return rack;
  };
  const first = await prepare(runFilePath);
  await runOnBus(
    { run: set?.run ?? first.runFile.run, name: partition, title: partition },
    async (bus) => {
      if (hasOwnPrograms(first)) {
        // The process has no rights to open what further racks need behind this.
        for (const path of set?.runFiles ?? []) if (!prepared.has(path)) await prepare(path);
        await loadConfined([...prepared.values()]);
      }
      const open = async (path: string, instance: string) => {
        const rack = prepared.get(path) ?? await prepare(path);
        prepared.delete(path);
        return startRack(rack, { bus, partition, instance });
      };
      return answerLanes(bus, {
        first: { run: first.runFile.run, lane: await open(runFilePath, instance) },
        set,
        name: partition,
        open,
        onFatal: fail,
      });
    },
  );
}

function readJson<T>(path: string): T {
  return JSON.parse(Deno.readTextFileSync(path));
}

/** All is open and loaded, except for programs of a user. */
interface PreparedRack {
  readonly runFile: RunFile;
  readonly nodes: readonly string[];
  readonly stores: ReadonlyMap<string, ScmFile>;
  readonly factory: Factory;
  /** Of records of native programs. */
  readonly flush: (() => void) | undefined;
  readonly programs: Readonly<Record<string, string>>;
  readonly own: Record<string, MakeProgram>;
  readonly trace: ReturnType<typeof traceWriter> | undefined;
  readonly observer: ReturnType<typeof observationWriter> | undefined;
  readonly output: Pick<ReturnType<typeof printer>, "print" | "close">;
}

const OWN_OUTPUT = { print: console.error, close: () => {} };

async function prepareRack(
  runFile: RunFile,
  { partition, instance, isLane }: {
    readonly partition: string;
    readonly instance: string;
    readonly isLane: boolean;
  },
): Promise<PreparedRack> {
  const { plan, partitions, directory } = runFile;
  const nodes = nodesOf(runFile, partition);
  if (nodes === undefined) {
    const known = partitions.map(({ name }) => name).join(", ");
    throw refusal("", {
      found: `No partition ${partition} in this run`,
      expected: `one of ${known}`,
    });
  }
  const stores = openStores(runFile, nodes);
  const inputs = readInputs(runFile, nodes);
  const own: Record<string, MakeProgram> = {};
  const native = nativeIn(plan, nodes).length === 0
    ? undefined
    : (await loadModule<typeof import("./native_ports.ts")>("./native_ports.ts")).nativePorts(
      runFile,
    );
  const factory = await factoryFor(nodes, {
    plan,
    native: native?.port,
    image: (host) => {
      const store = stores.get(host);
      return store && ((offset, length) => store.readImage(offset, length));
    },
    inputs: (host) => inputs.get(host) ?? {},
    own,
  });
  const observed = `${directory}/observed/${partition}.${instance}.seen`;
  return {
    runFile,
    nodes,
    stores,
    factory,
    flush: native?.flush,
    programs: programsFor(runFile, nodes),
    own,
    trace: runFile.trace ? traceWriter(`${directory}/trace/${partition}.ndjson`) : undefined,
    observer: runFile.observe && observationWriter(observed, runFile.observe),
    output: isLane ? printer(`${directory}/logs/${partition}.log`) : OWN_OUTPUT,
  };
}

function hasOwnPrograms({ programs }: PreparedRack): boolean {
  return Object.keys(programs).length > 0;
}

/** The process then has only the rights that such programs may have. */
async function loadConfined(racks: readonly PreparedRack[]): Promise<void> {
  for (const { factory } of racks) await factory.load?.(ORDERED);
  await giveUpRights(racks.map(({ runFile }) => runFile.directory));
  for (const { programs, own, output: { print } } of racks) {
    Object.assign(own, await loadOwnPrograms({ programs, print }));
  }
}

function startRack(
  { runFile, nodes, stores, factory, flush, trace, observer, output }: PreparedRack,
  { bus, partition, instance }: {
    readonly bus: Bus;
    readonly partition: string;
    readonly instance: string;
  },
): Lane {
  const { run, plan, partitions } = runFile;
  const kept = createKeptReports();
  const rng = rngFor(plan.seed, `delay/${instance}`);
  const feed = new StepFeed({
    nodes,
    wallMs,
    publish: (node, block) => bus.publish(subjectOf({ kind: "trace", run, node }), encode(block)),
  });
  const runner = new Runner({
    run,
    partition,
    nodes,
    plan,
    partitionOf: new Map(
      partitions.flatMap(({ name, nodes }) => nodes.map((node) => [node, name])),
    ),
    returnDelay: delaysTo(partition, runFile),
    instance,
    bus,
    ...factory,
    stores,
    onTrace: (time, node, step) => {
      trace?.write(time, node, step);
      if (feed.isWanted) feed.take(time, node, step);
    },
    isTraced: () => trace !== undefined || feed.isWanted,
    ...(flush && { beforePublish: flush }),
    afterSpan: (span) => feed.commit(span),
    ...(observer && { observer }),
    onReport: (time, node, topic, value) => {
      if (topic === OUTPUT_TOPIC) return writeOutput(runFile, value);
      // The command that runs the rack gets lines of all hosts in order, by the bus.
      if (topic === LOG_TOPIC) output.print(logLineText(node, value));
      kept.keep({ time, node, topic, value });
      bus.publish(subjectOf({ kind: "report", run, node }), reportToBytes({ topic, value, time }));
    },
    onFatal: (error) => fail(error),
    ...(runFile.delayMsMax > 0 && {
      delay: () => new Promise((resolve) => setTimeout(resolve, rng.below(runFile.delayMsMax + 1))),
      // A process killed during the random wait has written a span and not reported it.
      hesitate: () => rng.below(4) === 0 && block(rng.below(runFile.delayMsMax + 1)),
    }),
  });
  const steps = subjectOf({ kind: "control", run, verb: STEPS_VERB });
  const subscriptions = [
    answerFinal(bus, { run, partition, runner, reports: kept.reports }),
    answerInspect(bus, { run, partition, runner }),
    obeyKill(bus, { run, partition, instance }),
    bus.subscribe(steps, (payload) => {
      if (!feed.renew(decode(payload))) runner.refusals.note(steps);
    }),
  ];
  runner.start();
  return {
    close() {
      for (const subscription of subscriptions) subscription.close();
      runner.stop();
      trace?.close();
      observer?.close();
      output.close();
    },
  };
}

interface Factory {
  readonly create: CreateNode;
  readonly load?: (programs: readonly string[]) => Promise<void>;
}

async function factoryFor(nodes: readonly string[], options: FactoryOptions): Promise<Factory> {
  const node = options.plan.nodes.find(({ name }) => name === nodes[0]);
  if (nodes.length > 1 || node === undefined) {
    const { nodeFactory } = await loadModule<typeof import("./factory.ts")>("./factory.ts");
    return { create: nodeFactory(options) };
  }
  switch (node.kind) {
    case "host": {
      const { makeHost, SERVICES } = await loadModule<typeof import("./make_host.ts")>(
        "./make_host.ts",
      );
      const { config } = node;
      const programs: Record<string, Program> = {};
      const load = (names: readonly string[]) => loadPrograms(names, programs);
      await load([...SERVICES, ...config.programs.map(({ run }) => run)]);
      const all = { ...options, programs };
      return {
        create: (name, life, unsaved) => makeHost({ name, life, unsaved, config }, all),
        load,
      };
    }
    case "rnic": {
      const { createRnic } = await loadModule<typeof import("./rnic/rnic.ts")>("./rnic/rnic.ts");
      const { plan, own = {} } = options;
      return {
        create: (name) => {
          const tables = ownTables(plan, own);
          return withOwnRows(createRnic(name, node.config, { seed: plan.seed, tables }), plan);
        },
      };
    }
    case "switch": {
      const { createSwitch } = await loadModule<typeof import("./switch/switch.ts")>(
        "./switch/switch.ts",
      );
      return { create: (name) => createSwitch(name, node.config, { seed: options.plan.seed }) };
    }
  }
}

function answerFinal(
  bus: Bus,
  { run, partition, runner, reports }: {
    run: string;
    partition: string;
    runner: Runner;
    reports: FinalReply["reports"];
  },
): Subscription {
  return bus.subscribe(
    patternOf({ kind: "control", run, verb: finalVerb(partition) }),
    (payload, _, reply) => {
      const { after = 0 } = Object(decode(payload)) as { readonly after?: unknown };
      if (typeof after !== "number") return;
      const page = pageOf([...reports, ...runner.partition?.unfinished() ?? []], after);
      const final: FinalPage = {
        partition,
        statistics: runner.partition?.statistics() ?? {},
        linkFaults: runner.partition?.linkFaultCounts() ?? [],
        ...page,
        refused: runner.refusals.total,
        refusedOn: runner.refusals.rows(),
        sent: runner.sent,
        residentBytes: Deno.memoryUsage().rss,
      };
      reply?.(encode(final));
    },
  );
}

/** Answers `{ node?, loss? }`. The answer is recorded nowhere, and no event sees it. */
function answerInspect(
  bus: Bus,
  { run, partition, runner }: { run: string; partition: string; runner: Runner },
): Subscription {
  const subject = patternOf({ kind: "control", run, verb: inspectVerb(partition) });
  return bus.subscribe(subject, (payload, _, reply) => {
    const { node, loss = false } = Object(decode(payload)) as Readonly<Record<string, unknown>>;
    const isOne = (node === undefined || typeof node === "string") && typeof loss === "boolean";
    if (!isOne) {
      runner.refusals.note(subject);
      return reply?.(encode({ error: "malformed request" }));
    }
    const inspection = runner.partition?.inspect({ loss, ...(node !== undefined && { node }) });
    if (inspection === undefined) return reply?.(encode({ error: "it has no power yet" }));
    const answer = encode(inspection);
    const { length } = answer, most = bus.maxPayload;
    const tooLong = { error: `${length} B are to be said: the bus takes ${most} B at once` };
    reply?.(length <= most ? answer : encode(tooLong));
  });
}

function pageOf(
  reports: FinalReply["reports"],
  after: number,
): Pick<FinalPage, "reports" | "reportsLeft"> {
  let bytes = 0, end = after;
  while (end < reports.length && bytes < FINAL_PAGE_BYTES) {
    bytes += encode(reports[end]).length;
    end++;
  }
  return { reports: reports.slice(after, end), reportsLeft: Math.max(0, reports.length - end) };
}

/**
 * The plan's power failure of this process, as by `kill -9`, where there may be no supervisor
 * (containers).
 */
function obeyKill(
  bus: Bus,
  process: { run: string; partition: string; instance: string },
): Subscription {
  const { run, partition } = process;
  return bus.subscribe(patternOf({ kind: "clock.order", run, partition }), (payload) => {
    const [verb, , , instance] = orderFromBytes(payload) ?? [];
    if (verb !== "kill" || instance !== process.instance) return;
    Deno.kill(Deno.pid, "SIGKILL");
    // The kernel delivers no SIGKILL from process 1 of a container to itself.
    Deno.exit(EXIT_KILLED);
  });
}

/** The only place where a failure ends this process. */
function fail(error: unknown): never {
  if (
    error instanceof ScmFileError || error instanceof Refusal || error instanceof RunEndingError ||
    error instanceof ForgeryError
  ) {
    console.error(error.message);
    Deno.exit(error instanceof Refusal ? EXIT.usage : EXIT.unclear);
  }
  exitWith(error);
}

if (import.meta.main) {
  const [runFilePath, partition, instance, lanesPath] = Deno.args;
  if (runFilePath === undefined || partition === undefined) {
    console.error("Usage: main.ts RUN_FILE PARTITION [INSTANCE [LANES_FILE]]");
    Deno.exit(EXIT.usage);
  }
  try {
    await main({ runFilePath, partition, instance: instance ?? crypto.randomUUID(), lanesPath });
  } catch (error) {
    fail(error);
  }
}
