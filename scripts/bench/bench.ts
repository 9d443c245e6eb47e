import { Command } from "commander";
import { startNatsServer } from "../../console/rack/nats_server.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { measureHops, measureLargeRack, measureStartUp } from "./as_processes.ts";
import {
  type Figure,
  figureRow,
  figureTable,
  type Group,
  GROUPS,
  type Measured,
} from "./figure.ts";
import { cliffsTable, measureCliffs } from "./cliffs.ts";
import { measureChecks } from "./checks.ts";
import {
  type ConstantFigure,
  constants,
  constantsTable,
  measureConstants,
  sampleOf,
} from "./constants.ts";
import { measureJobs, measureMainJob } from "./commands.ts";
import { measureExplorer } from "./explore.ts";
import { measureHints } from "./hints.ts";
import { measureMessages } from "./messages.ts";
import { measureGrowth, measureOneProcess } from "./one_process.ts";
import { measureLine, measurePackets, measureQueuePairs } from "./packets.ts";
import { measureNative } from "./native.ts";
import { measureMethods, methodsTable } from "./methods.ts";
import { logFailureTable, logTable, measureLog, measureLogFailure } from "./replicated_log.ts";
import { measurePage } from "./console/page.ts";
import { measurePublished, publishedTable } from "./published.ts";
import { putText, writeTables } from "./put_table.ts";
import { measureQueues, queuesTable } from "./queues.ts";
import { measureServers } from "./servers.ts";
import { measureSharedRate, sharedTables } from "./shared.ts";
import { measureTimekeeper } from "./timekeeper.ts";
import { measureVerified, verifiedTable } from "./verified.ts";
import { measureWatching } from "./console/watching.ts";
import { explain } from "../../console/rack/failure.ts";
import { interruptedCode, onInterrupt } from "../commands/interrupt.ts";
import { print, say } from "../commands/output.ts";
import { whole } from "../commands/options.ts";

interface Flags {
  readonly quick?: true;
  readonly json?: true;
  readonly seed: string;
  readonly only?: string;
  readonly write?: true;
}

const WRITTEN: readonly Group[] = ["l", "m", "p", "q", "s", "u"];

/** @throws Refusal where a letter names no group. */
function groupsOf(letters: string): ReadonlySet<Group> {
  const isGroup = (letter: string): letter is Group => Object.hasOwn(GROUPS, letter);
  const groups = [...letters].filter(isGroup);
  if (groups.length === letters.length && groups.length > 0) return new Set(groups);
  const expected = `letters of ${Object.keys(GROUPS).join("")}`;
  throw refusal("--only", { found: `"${letters}"`, expected });
}

async function bench(flags: Flags): Promise<void> {
  const seed = whole("--seed", flags.seed, { least: 0, most: Number.MAX_SAFE_INTEGER });
  const quick = flags.quick === true;
  if (quick && flags.write) {
    throw refusal("--write", {
      found: "with --quick",
      expected: "whole tables, which --quick does not make",
    });
  }
  const wanted = groupsOf(flags.only ?? Object.keys(GROUPS).join(""));
  const machine = machineNow();
  const { cores, loadAverage, memoryGiB, deno } = machine;
  say(
    `seed ${seed}; ${cores} cores, ${memoryGiB} GiB, load ${loadAverage} before the start; Deno ${deno}`,
  );
  const figures: Figure[] = [];
  if (wanted.has("a")) figures.push(...measureOneProcess({ seed, quick }));
  if ((["b", "c", "k", "t"] as const).some((group) => wanted.has(group))) {
    figures.push(...await measureProcesses(wanted, { seed, quick }));
  }
  if (wanted.has("d")) figures.push(...measureGrowth({ seed, quick }));
  if (wanted.has("e") || wanted.has("f")) figures.push(...measurePackets({ seed, quick }));
  if (wanted.has("g")) figures.push(...measureLine({ seed, quick }));
  if (wanted.has("h")) figures.push(...measureQueuePairs({ seed, quick }));
  if (wanted.has("i")) figures.push(...await measureExplorer({ seed, quick }));
  if (wanted.has("j")) figures.push(...measureTimekeeper({ seed, quick }));
  if (wanted.has("n")) figures.push(...await measureWatching({ seed, quick }));
  if (wanted.has("o")) figures.push(...await measurePage({ seed, quick }));
  if (wanted.has("r")) figures.push(...await measureHints({ seed, quick }));
  if (wanted.has("s")) figures.push(...measureSharedRate({ seed, quick }));
  if (wanted.has("v")) figures.push(...await measureMainJob({ seed, quick }));
  if (wanted.has("w")) figures.push(...await measureJobs({ seed, quick }));
  if (wanted.has("x")) figures.push(...measureChecks({ seed, quick }));
  if (wanted.has("y")) figures.push(...await measureNative({ seed, quick }));
  if (wanted.has("z")) figures.push(...await measureServers({ seed, quick }));
  const methods = wanted.has("m") ? measureMethods(seed) : [];
  const verified = wanted.has("m") ? measureVerified(seed) : [];
  const log = wanted.has("l") ? measureLog(seed) : [];
  const logFailure = wanted.has("l") ? measureLogFailure(seed) : [];
  const cliffs = wanted.has("p") ? measureCliffs({ seed, quick }) : [];
  const queues = wanted.has("q") ? measureQueues({ seed, quick }) : [];
  const shared = wanted.has("s") ? sharedTables(seed) : [];
  const published = wanted.has("u") ? measurePublished(seed) : [];
  const swept = wanted.has("u") ? sweepConstants({ seed, quick }) : [];
  const tables = [
    ...(wanted.has("m") ? [methodsTable(methods), verifiedTable(verified)] : []),
    ...(wanted.has("l") ? [logTable(log), logFailureTable(logFailure)] : []),
    ...(wanted.has("p") ? [cliffsTable(cliffs)] : []),
    ...(wanted.has("q") ? [queuesTable(queues)] : []),
    ...shared,
    ...(wanted.has("u") ? [publishedTable(published), constantsTable(swept)] : []),
  ];
  if (flags.write) await writeTables(tables);
  if (flags.json) {
    const exact = {
      ...{ methods, verified, log, logFailure, cliffs, queues, shared },
      ...{ published, constants: swept },
    };
    print(
      JSON.stringify({ seed, quick, machine, figures: figures.map(figureRow), ...exact }),
    );
    return;
  }
  if (figures.length > 0) print(figureTable(figures));
  for (const each of tables) print(putText(each));
}

function sweepConstants({ seed, quick }: Measured): ConstantFigure[] {
  const all = constants(), of = quick ? sampleOf(all) : all;
  if (quick) say(`--quick: a sample of the profile's ${all.length} constants`);
  return measureConstants(seed, of);
}

async function measureProcesses(
  wanted: ReadonlySet<Group>,
  options: Measured,
): Promise<Figure[]> {
  const directory = await Deno.makeTempDir({ prefix: "rackmesh-bench-" });
  const signal = onInterrupt("ending the bench");
  const server = await startNatsServer({ dir: directory, signal });
  const place = { ...options, broker: server, directory };
  try {
    return [
      ...(wanted.has("t") ? await measureMessages(place) : []),
      ...(wanted.has("b") ? await measureHops(place) : []),
      ...(wanted.has("c") ? await measureStartUp(place) : []),
      ...(wanted.has("k") ? await measureLargeRack(place) : []),
    ];
  } finally {
    await server.stop();
    await Deno.remove(directory, { recursive: true });
  }
}

function machineNow() {
  return {
    cores: navigator.hardwareConcurrency,
    memoryGiB: Math.round(Deno.systemMemoryInfo().total / 2 ** 30),
    loadAverage: Number(Deno.loadavg()[0]!.toFixed(2)),
    system: `${Deno.build.os} ${Deno.osRelease()} ${Deno.build.arch}`,
    deno: Deno.version.deno,
    v8: Deno.version.v8,
  };
}

const EXPLAINED = Object.entries(GROUPS).map(([letter, what]) => `${letter} (${what})`);

const command = new Command("bench")
  .description("Measures the product against its targets; a missed one fails nothing.")
  .option("--quick", "fewer and smaller runs: faster, less precise")
  .option("--json", "one JSON document on stdout")
  .option("--seed <n>", "of every rack", "7")
  .option(
    "--write",
    `put the tables of ${WRITTEN.join(", ")} into the documents, with --only ${WRITTEN.join("")}`,
  )
  .option(
    "--only <letters>",
    `some of ${EXPLAINED.join(", ")}: ad`,
  )
  .addHelpText("after", "\nExample:\n  deno task bench --quick --only ab")
  .action(bench);

try {
  await command.parseAsync(Deno.args, { from: "user" });
} catch (error) {
  const interrupted = interruptedCode();
  if (interrupted !== undefined) Deno.exit(interrupted);
  const { message, code } = explain(error);
  say(message);
  Deno.exit(code);
}
Deno.exit(interruptedCode() ?? EXIT.done);
