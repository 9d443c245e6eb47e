/**
 * The process of a partition: `main.ts RUN_FILE PARTITION [INSTANCE]`. It connects the pure nodes
 * with the outside: the bus, the SCM files, inputs, outputs, traces.
 */
import { finalVerb, inspectVerb, STEPS_VERB } from "../fabric/bus/access.ts";
import { ForgeryError } from "../fabric/bus/refusals.ts";
import { decode, decodeSealed, encode } from "../fabric/bus/codec.ts";
import type { Bus } from "../fabric/bus/bus.ts";
import { patternOf, subjectOf } from "../fabric/bus/subjects.ts";
import { block, wallMs } from "../fabric/bus/wall_time.ts";
import {
  EXIT,
  type FinalPage,
  type FinalReply,
  type RunFile,
} from "../fabric/rack/build/run_file.ts";
import { delaysTo } from "../fabric/rack/plan/distances.ts";
import { Refusal, refusal } from "../fabric/rack/plan/problem.ts";
import { exitWith, runOnBus } from "../fabric/process.ts";
import { Runner } from "../fabric/runner/runner.ts";
import { StepFeed } from "../fabric/runner/step_feed.ts";
import { rngFor } from "../fabric/base/rng.ts";
import type { CreateNode } from "../fabric/partition/partition.ts";
import {
  giveUpRights,
  loadOwnPrograms,
  observationWriter,
  openStores,
  OutputError,
  readInputs,
  traceWriter,
  writeOutput,
} from "./files.ts";
import { ScmFileError } from "./host/store/scm_file.ts";
import { loadModule, loadPrograms } from "./load.ts";
import type { MakeProgram } from "./host/own_programs.ts";
import type { Program } from "./host/program_context.ts";
import type { FactoryOptions } from "./make_host.ts";
import { LOG_TOPIC, logLineText } from "./host/cpu/log_text.ts";
import { createKeptReports } from "./kept_reports.ts";
import { OUTPUT_TOPIC } from "../fabric/node.ts";

/** Of a final reply: with the longest report behind it, it is still one message of the bus. */
const FINAL_PAGE_BYTES = 2 << 20;
/** The shipped programs that orders start; without the right to read they cannot be loaded later. */
const ORDERED = ["put", "get", "list", "remove"];
/** Exit code of a process ended by SIGKILL, as shells and containers report it. */
const EXIT_KILLED = 128 + 9;

interface Arguments {
  readonly runFile: RunFile;
  readonly partition: string;
  readonly instance: string;
}

async function main({ runFile, partition, instance }: Arguments): Promise<void> {
  const { run, plan, partitions } = runFile;
  const nodes = partitions.find(({ name }) => name === partition)?.nodes;
  if (nodes === undefined) {
    const known = partitions.map(({ name }) => name).join(", ");
    throw refusal("", {
      found: `No partition ${partition} in this run`,
      expected: `one of ${known}`,
    });
  }
  const stores = openStores(runFile, nodes);
  const inputs = readInputs(runFile, nodes);
  const kept = createKeptReports();
  const traces = runFile.trace
    ? traceWriter(`${runFile.directory}/trace/${partition}.ndjson`)
    : undefined;
  const observer = runFile.observe &&
    observationWriter(
      `${runFile.directory}/observed/${partition}.${instance}.seen`,
      runFile.observe,
    );
  const rng = rngFor(plan.seed, `delay/${instance}`);
  await runOnBus({ run, name: partition, title: partition }, async (bus) => {
    const own: Record<string, MakeProgram> = {};
    const factory = await factoryFor(nodes, {
      plan,
      image: (host) => {
        const store = stores.get(host);
        return store && ((offset, length) => store.readImage(offset, length));
      },
      inputs: (host) => inputs.get(host) ?? {},
      own,
    });
    const programs = ownProgramsOf(runFile, nodes);
    if (Object.keys(programs).length > 0) {
      await factory.load?.(ORDERED);
      await giveUpRights(runFile.directory);
      Object.assign(own, await loadOwnPrograms({ programs }));
    }
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
        traces?.(time, node, step);
        if (feed.isWanted) feed.take(time, node, step);
      },
      isTraced: () => traces !== undefined || feed.isWanted,
      afterSpan: (span) => feed.commit(span),
      ...(observer && { observer }),
      onReport: (time, node, topic, value) => {
        if (topic === OUTPUT_TOPIC) return writeOutput(runFile, value);
        // On the bus as well, for the command that runs the rack: there, lines of all hosts are in order.
        if (topic === LOG_TOPIC) console.error(logLineText(node, value));
        kept.keep({ time, node, topic, value });
        bus.publish(subjectOf({ kind: "report", run, node }), encode([topic, value, time]));
      },
      onFatal: (error) => fail(error),
      ...(runFile.delayMsMax > 0 && {
        delay: () =>
          new Promise((resolve) => setTimeout(resolve, rng.below(runFile.delayMsMax + 1))),
        // At random: a process killed during the wait has written a span and not reported it.
        hesitate: () => rng.below(4) === 0 && block(rng.below(runFile.delayMsMax + 1)),
      }),
    });
    answerFinal(bus, { run, partition, runner, reports: kept.reports });
    answerInspect(bus, { run, partition, runner });
    obeyKill(bus, { run, partition, instance });
    const steps = subjectOf({ kind: "control", run, verb: STEPS_VERB });
    bus.subscribe(steps, (payload) => {
      if (!feed.renew(decode(payload))) runner.refusals.note(steps);
    });
    runner.start();
    return () => runner.stop();
  });
}

/** The user's own programs that hosts among `nodes` run. */
function ownProgramsOf(
  { plan, programs }: RunFile,
  nodes: readonly string[],
): Record<string, string> {
  const hosts = plan.nodes.filter(({ name }) => nodes.includes(name));
  const runs = hosts.flatMap((node) => node.kind === "host" ? node.config.programs : [])
    .map(({ run }) => run);
  return Object.fromEntries(Object.entries(programs).filter(([name]) => runs.includes(name)));
}

/** Creates a partition's nodes, and loads a program before an order starts it. */
interface Factory {
  readonly create: CreateNode;
  readonly load?: (programs: readonly string[]) => Promise<void>;
}

/** One node of a device's process, which loads only its kind; or several of any kind. */
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
      return { create: (name) => createRnic(name, node.config, { seed: options.plan.seed }) };
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
): void {
  bus.subscribe(
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

/** What the devices are doing: `{ node?, loss? }`. It is recorded nowhere, and no event sees it. */
function answerInspect(
  bus: Bus,
  { run, partition, runner }: { run: string; partition: string; runner: Runner },
): void {
  const subject = patternOf({ kind: "control", run, verb: inspectVerb(partition) });
  bus.subscribe(subject, (payload, _, reply) => {
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

/** Reports from number `after` on, as many as one message carries: one at least, where there is one. */
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
 * The plan's power failure of this process: it ends as by `kill -9`, here where there may be no
 * supervisor (containers).
 */
function obeyKill(
  bus: Bus,
  process: { run: string; partition: string; instance: string },
): void {
  const { run, partition } = process;
  bus.subscribe(patternOf({ kind: "clock.order", run, partition }), (payload) => {
    const order = decodeSealed(payload);
    const [verb, , , instance] = Array.isArray(order) ? order as unknown[] : [];
    if (verb !== "kill" || instance !== process.instance) return;
    Deno.kill(Deno.pid, "SIGKILL");
    // The kernel does not deliver SIGKILL from process 1 of a container to itself.
    Deno.exit(EXIT_KILLED);
  });
}

/** The only place where a failure ends this process. */
function fail(error: unknown): never {
  if (
    error instanceof ScmFileError || error instanceof Refusal || error instanceof OutputError ||
    error instanceof ForgeryError
  ) {
    console.error(error.message);
    Deno.exit(error instanceof Refusal ? EXIT.usage : EXIT.unclear);
  }
  exitWith(error);
}

if (import.meta.main) {
  const [path, partition, instance] = Deno.args;
  if (path === undefined || partition === undefined) {
    console.error("Usage: main.ts RUN_FILE PARTITION [INSTANCE]");
    Deno.exit(EXIT.usage);
  }
  try {
    const runFile: RunFile = JSON.parse(Deno.readTextFileSync(path));
    await main({ runFile, partition, instance: instance ?? crypto.randomUUID() });
  } catch (error) {
    fail(error);
  }
}
