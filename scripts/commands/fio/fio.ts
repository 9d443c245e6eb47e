import { MEMORIES, type Memory } from "../../../fabric/rack/plan/plan.ts";
import { type Command, Option } from "commander";
import { EXIT } from "../../../fabric/base/exit.ts";
import { oneOf, refusal } from "../../../fabric/rack/plan/problem.ts";
import { version } from "../../../console/base/version.ts";
import { fioJson } from "../../../console/fio/output/json.ts";
import { fioText } from "../../../console/fio/output/text.ts";
import { type FioRun, hasNoIo, runFio } from "../../../console/fio/run_fio.ts";
import { plainly } from "../../../console/reports/json.ts";
import { readScenario } from "../../../console/scenarios/scenario_source.ts";
import { onInterrupt } from "../interrupt.ts";
import { checkWritable, given } from "../options.ts";
import { addRackChoices, type RackChoiceFlags, rackChoicesOf, worldOf } from "../rack_options.ts";
import { print, Progress, say } from "../output.ts";

interface FioFlags extends RackChoiceFlags {
  readonly output?: string;
  readonly outputFormat?: string;
  readonly set: readonly string[];
  readonly section: readonly string[];
  readonly from?: string;
  readonly to?: string;
  readonly memory: Memory;
  readonly json?: boolean;
}

/** Whose options and output these are: tools that plot ask for it. */
const FIO = "fio-3.38";
const FORMATS = ["normal", "json", "json+"] as const;
type Format = typeof FORMATS[number];

export function addFio(program: Command): void {
  const command = program.command("fio <scenario> <file...>")
    .description("fio's job files (librpma_apm, librpma_gpspm, rdma) on a scenario's rack")
    .option("--output <file>", "write the results to this file instead of stdout")
    .option("--output-format <formats>", `${FORMATS.join(", ")}, or several with commas`)
    .option("--set <option=value>", "in the place of the files' (repeatable)", collect, [])
    .option("--section <name>", "run this section alone, beside [global] (repeatable)", collect, [])
    .option("--from <host>", "the clients' host; else the first that has no server")
    .option("--to <host>", "the servers' host, where a file names none of the scenario")
    .addOption(
      new Option("--memory <kind>", "where the workspace of a server without a file lies")
        .choices(MEMORIES).default("dram"),
    )
    .addHelpText(
      "after",
      `
Files of servers and clients run together; a server without a file is assumed, and said. Hosts are meant by
name or address (serverip=b). All times are virtual: of runtime=60s each second has some 200000 blocks, and
--set runtime=10ms is enough for most questions. The scenario's programs and faults are left out.

Example:
  rack fio scripts/scenarios/persist_pair.yaml server.fio client.fio --set runtime=5ms --set ramp_time=1ms
  rack fio scripts/scenarios/persist_pair.yaml librpma_apm-client.fio --to b --set runtime=5ms --output-format=json`,
    )
    .action(fio);
  addRackChoices(command);
}

function collect(text: string, before: readonly string[]): string[] {
  return [...before, text];
}

async function fio(path: string, files: string[], flags: FioFlags): Promise<void> {
  const formats = formatsOf(flags);
  if (flags.output !== undefined) await checkWritable("--output", flags.output);
  const { from, to, memory, output } = flags;
  const chosen = rackChoicesOf(flags);
  const scenario = await readScenario(path, flags);
  const progress = new Progress({ quiet: flags.json === true });
  const run = await runFio(scenario, {
    files,
    set: flags.set,
    only: flags.section,
    world: { read: readText, variable: (name) => Deno.env.get(name) },
    memory,
    ...given({ from, to }),
    ...worldOf(flags),
    ...chosen,
    signal: onInterrupt(flags.pack === "all" ? "ending the run" : "taking the rack down"),
    onNotes: (notes) => notes.forEach((note) => say(note)),
    onProgress: (title, share) => progress.show(title, share),
    onCapturing: () => void onInterrupt("leaving the captures"),
  }).finally(() => progress.clear());
  const text = formats.map((format) => formatted(run, format)).join("\n");
  if (output === undefined) print(text);
  else await Deno.writeTextFile(output, `${text}\n`);
  sayOutcome(run);
}

/** @throws Refusal */
function formatsOf({ json, outputFormat }: FioFlags): Format[] {
  if (json && outputFormat !== undefined && !outputFormat.startsWith("json")) {
    throw refusal("--output-format", { found: `"${outputFormat}"`, expected: "json with --json" });
  }
  const words = (outputFormat ?? (json ? "json" : "normal")).split(",");
  return words.map((word) => {
    const format = FORMATS.find((each) => each === word);
    if (format !== undefined) return format;
    throw refusal("--output-format", { found: `"${word}"`, expected: oneOf(FORMATS, word) });
  });
}

function formatted(run: FioRun, format: Format): string {
  const context = { version: `${FIO}-rackmesh-${version()}`, now: new Date() };
  if (format === "normal") return fioText(run.threads, context);
  const document = fioJson(run, { ...context, withBins: format === "json+" });
  return JSON.stringify(document, plainly, 2);
}

async function readText(path: string): Promise<string> {
  if (path !== "-") return await Deno.readTextFile(path);
  return await new Response(Deno.stdin.readable).text();
}

function sayOutcome({ report, threads, captures, seed }: FioRun): void {
  for (const { text, node } of report.warnings ?? []) say(`${node}: ${text}`);
  for (const thread of threads) {
    const { host, job, result } = thread;
    if (hasNoIo(thread)) say(`${job.name} on ${host} has done no I/O`);
    if (result === undefined) say(`${job.name} on ${host} has not ended`);
    else if (result.error !== undefined) say(`${job.name} on ${host}: ${result.error.text}`);
  }
  for (const { name, holds, detail } of report.checks) if (!holds) say(`FAIL ${name}: ${detail}`);
  for (const file of captures) say(`capture ${file}`);
  say(`digest ${report.digest}, seed ${seed}, kept in ${report.directory}`);
  const isDone = threads.every(({ result }) => result !== undefined && result.error === undefined);
  if (!isDone || threads.some(hasNoIo) || report.checks.some(({ holds }) => !holds)) {
    Deno.exitCode = EXIT.failed;
  }
}
