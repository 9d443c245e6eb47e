/** `rack run`: up, run to the end, report, down. */
import type { Command } from "commander";
import { rackDigest } from "../../fabric/partition/digest.ts";
import { EXIT } from "../../fabric/rack/build/run_file.ts";
import { type Packing, PACKINGS } from "../../fabric/rack/build/topology.ts";
import { type MethodName, PUT_METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { parseSize } from "../../fabric/rack/plan/units.ts";
import { formatTime } from "../../fabric/base/time.ts";
import { createRunDirectory } from "../../console/rack/run_directory.ts";
import { type NatsServer, startNatsServer, useExisting } from "../../console/rack/nats_server.ts";
import { importPrograms } from "../../nodes/files.ts";
import {
  captureFiles,
  fileName,
  type RecordedRun,
  scopeFor,
} from "../../console/captures/captures.ts";
import { prepare, type Prepared, type PrepareOptions } from "../../console/rack/prepare.ts";
import { checksOf } from "../../console/reports/run_checks.ts";
import { congestionRows, congestionTable } from "../../console/reports/congestion_report.ts";
import {
  type MethodRow,
  type Ran,
  reportTable,
  rowsOf,
  type RunReport,
} from "../../console/reports/report.ts";
import { type Outcome, runProcesses, runSimulated } from "../../console/rack/run_variant.ts";
import { programText } from "../../console/reports/program_report.ts";
import { stallText } from "../../console/rack/stall_text.ts";
import { isPutResult } from "../../console/checks/survival.ts";
import { readFaultLines } from "../../console/rack/fault_lines.ts";
import { checkProtocols, type ProtocolVerdict } from "../../console/reports/protocol_checks.ts";
import { deviceFaultRows, deviceFaultTable } from "../../console/reports/device_fault_report.ts";
import { faultRows, faultTable } from "../../console/reports/fault_report.ts";
import { verifiedTable } from "../../console/reports/verified_report.ts";
import { UsageError } from "../../console/rack/failure.ts";
import { leaveCaptures, makeRoomFor } from "../../console/captures/leave_captures.ts";
import { plainly, print, Progress, say } from "../../console/base/output.ts";
import { onInterrupt } from "../../console/base/interrupt.ts";

/** Options as commander gives them: text. */
export interface RunFlags {
  readonly input?: string;
  readonly method?: string;
  readonly ddio?: string;
  readonly size?: string;
  readonly depth?: string;
  readonly seed?: string;
  readonly pack: string;
  readonly nats?: string;
  readonly json?: boolean;
  readonly trace?: boolean;
  readonly pcap?: string;
  readonly perfetto?: string;
  readonly delay?: string;
  readonly faults?: string;
  readonly claims?: boolean;
}

export function addVariantOptions(command: Command): Command {
  return command
    .option("--input <file>", "the file that `put` writes")
    .option("--method <name>", `one of ${PUT_METHODS.join(", ")}; else as the scenario says`)
    .option("--ddio <on|off>", "else as the scenario says")
    .option("--size <bytes>", "bytes of a message, 64 to 1MiB")
    .option("--depth <n>", "messages outstanding, 1 to 256")
    .option("--seed <n>", "instead of the scenario's");
}

export const PCAP_HELP = "leave every frame at every port in this folder, for Wireshark";
export const PERFETTO_HELP = "leave a picture of who was busy when, for ui.perfetto.dev";

export function addRun(program: Command): void {
  addVariantOptions(program.command("run <scenario>"))
    .description("bring the rack up, run the scenario to its end, report, take it down")
    .option("--pack <how>", `nodes to processes: ${PACKINGS.join(", ")}`, "node")
    .option("--nats <url>", "use this nats-server instead of starting one")
    .option("--trace", "keep every step of every operation in the run's directory")
    .option("--pcap <dir>", PCAP_HELP)
    .option("--perfetto <file>", PERFETTO_HELP)
    .option("--delay <ms>", "let every process wait up to so long before each span (for tests)")
    .option("--faults <file>", "replay what a run's faults.jsonl recorded of power and cables")
    .option("--claims", "judge what methods claim as though it were promised")
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      "\nExample:\n  rack run scripts/scenarios/persist_pair.yaml --input ./data.bin",
    )
    .action(async (scenario: string, flags: RunFlags) => {
      Deno.exitCode = await run(scenario, flags);
    });
}

/** Checks and converts what stands on the command line. @throws UsageError */
export function prepareOptions(flags: Partial<RunFlags>, packing: Packing): PrepareOptions {
  const { input, method, ddio, size, depth, seed } = flags;
  if (method !== undefined && !(PUT_METHODS as readonly string[]).includes(method)) {
    throw new UsageError(`--method is "${method}": expected one of ${PUT_METHODS.join(", ")}`);
  }
  if (ddio !== undefined && ddio !== "on" && ddio !== "off") {
    throw new UsageError(`--ddio is "${ddio}": expected on or off`);
  }
  const bytes = size === undefined ? undefined : parseSize(size) ?? NaN;
  if (bytes !== undefined && !(bytes >= 64 && bytes <= 2 ** 20)) {
    throw new UsageError(`--size is "${size}": expected 64 to 1MiB, such as 4096 or 4KiB`);
  }
  return {
    packing,
    isTyped: true,
    ...(input !== undefined && { input }),
    ...(method !== undefined && { method: method as MethodName }),
    ...(ddio !== undefined && { ddio }),
    ...(bytes !== undefined && { size: bytes }),
    ...(depth !== undefined && { depth: whole("--depth", depth, { least: 1, most: 256 }) }),
    ...(seed !== undefined &&
      { seed: whole("--seed", seed, { least: 0, most: Number.MAX_SAFE_INTEGER }) }),
  };
}

/** A whole number in a range. @throws UsageError */
export function whole(
  option: string,
  text: string,
  range: { least: number; most: number },
): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= range.least && value <= range.most) return value;
  throw new UsageError(
    `${option} is "${text}": expected a whole number from ${range.least} to ${range.most}`,
  );
}

async function run(scenario: string, flags: RunFlags): Promise<number> {
  const packing = flags.pack as Packing;
  if (!PACKINGS.includes(packing)) {
    throw new UsageError(`--pack is "${flags.pack}": expected one of ${PACKINGS.join(", ")}`);
  }
  const faults = flags.faults === undefined ? undefined : await readFaultLines(flags.faults);
  const prepared = await prepare(scenario, {
    ...prepareOptions(flags, packing),
    ...faults,
  });
  const nodes = new Set(prepared.flatMap(({ plan }) => plan.nodes.map(({ name }) => name)));
  const stranger = [...faults?.faults ?? [], ...faults?.writebacks ?? []]
    .find(({ node }) => !nodes.has(node));
  if (stranger !== undefined) {
    throw new UsageError(
      `${flags.faults}: found ${stranger.node}, expected a node of this rack (${[...nodes]})`,
    );
  }
  // What cannot be loaded is said at once, and of the command rather than of some process.
  for (const one of prepared) await importPrograms(one);
  const report = await runAll(prepared, { flags, packing });
  if (flags.json) print(JSON.stringify(report, plainly));
  else printReport(report, flags);
  return report.checks.every(({ holds }) => holds) ? EXIT.done : EXIT.failed;
}

/** A variant that has been run. */
interface Ended {
  readonly one: Prepared;
  readonly outcome: Outcome;
  readonly rows: MethodRow[];
  readonly protocols: readonly ProtocolVerdict[];
}

interface How {
  readonly flags: RunFlags;
  readonly packing: Packing;
}

async function runAll(prepared: readonly Prepared[], how: How): Promise<RunReport> {
  const { flags, packing } = how;
  const { variant } = prepared[0]!;
  const delayMsMax = whole("--delay", flags.delay ?? "0", { least: 0, most: 1_000 });
  const { id, path } = await createRunDirectory(variant.name);
  const say_ = flags.json ? () => {} : say;
  say_(`seed ${variant.seed}, run ${id}`);
  const { base } = prepared[0]!;
  const files = captureFiles({ flags, scenario: variant.capture, base, directory: path });
  await makeRoomFor(files);
  const server = packing === "all" ? undefined : await busFor(flags, path);
  const progress = new Progress({ quiet: flags.json === true });
  const outcomes: Ended[] = [];
  const observe = scopeFor(files);
  const recorded: RecordedRun[] = [];
  let captures: string[] = [];
  const began = performance.now();
  try {
    for (const [i, one] of prepared.entries()) {
      const directory = prepared.length === 1 ? path : `${path}/${fileName(one.label)}`;
      recorded.push({ label: one.label, plan: one.plan, directory });
      const options = {
        run: `${id}-${i}`,
        directory,
        trace: flags.trace === true,
        check: "wire" as const,
        ...(observe && { observe }),
        delayMsMax,
        onProgress: (_node: string, topic: string, value: unknown) => {
          if (topic === "progress") {
            progress.tell(one.label, (i + shareOf(value)) / prepared.length);
          }
        },
      };
      progress.tell(one.label, i / prepared.length);
      const outcome = server === undefined
        ? await runSimulated(one, options)
        : await runProcesses(one, {
          ...options,
          address: server.address,
          onEvent: (event) => {
            if (event.kind !== "stalled") return;
            progress.clear();
            say(stallText(event.why));
          },
          beforeStart: (supervisor) => onInterrupt("rack", () => supervisor.down()),
        });
      const { record } = outcome;
      const protocols = record === undefined ? [] : await checkProtocols(one, record);
      const judged = record && flags.claims ? { record: { ...record, claims: true } } : {};
      const rows = await rowsOf(one, outcome);
      outcomes.push({ one, outcome: { ...outcome, ...judged }, rows, protocols });
    }
  } finally {
    progress.clear();
    await server?.stop();
    // Also of a run that broke: that is when one wants to see.
    captures = await leaveCaptures(recorded, files);
  }
  const wallMs = performance.now() - began;
  // A method or DDIO by choice makes it another run than the one that the scenario expects something of.
  const isChosen = flags.method !== undefined || flags.ddio !== undefined;
  const expect = isChosen ? [] : variant.expect;
  const summary = summarise({ id, path, wallMs, outcomes, nats: server !== undefined, expect });
  const report = captures.length === 0 ? summary : { ...summary, captures };
  await Deno.writeTextFile(`${path}/report.json`, JSON.stringify(report, plainly, 2));
  return report;
}

/** The server of a run: its own, or one that is there. */
async function busFor(
  flags: RunFlags,
  path: string,
): Promise<Pick<NatsServer, "address" | "stop">> {
  if (flags.nats !== undefined) {
    return { address: useExisting(flags.nats), stop: () => Promise.resolve() };
  }
  return await startNatsServer({
    dir: path,
    keepUp: true,
    beforeStart: (server) => onInterrupt("nats", () => server.stop()),
  });
}

/** The report on a scenario's runs. */
export function summarise(
  of: {
    id: string;
    path: string;
    wallMs: number;
    nats: boolean;
    /** Checks that have to be about something. */
    expect?: readonly string[];
    outcomes: readonly (Omit<Ended, "one"> & { readonly one: Ran })[];
  },
): RunReport {
  const { id, path, wallMs, outcomes, expect = [] } = of;
  const { plan } = outcomes[0]!.one;
  const methods = outcomes.flatMap(({ rows }) => rows);
  const digests = outcomes.map(({ one, outcome }) => [one.label, outcome.digest] as const);
  return {
    run: id,
    scenario: plan.scenario,
    seed: plan.seed,
    digest: digests.length === 1 ? digests[0]![1] : rackDigest(digests),
    virtualPs: outcomes.reduce((sum, { outcome }) => sum + outcome.virtualPs, 0),
    wallMs: Math.round(wallMs),
    processes: Math.max(...outcomes.map(({ outcome }) => outcome.processes)) + (of.nats ? 1 : 0),
    events: outcomes.reduce((sum, { outcome }) => sum + outcome.events, 0),
    directory: path,
    methods,
    congestion: outcomes.flatMap(({ one, outcome }) => congestionRows(one.label, outcome)),
    faults: outcomes.flatMap(({ one, outcome }) =>
      faultRows(one.label, { plan: one.plan, finals: outcome.finals })
    ),
    deviceFaults: outcomes.flatMap(({ one, outcome }) =>
      deviceFaultRows(one.label, { plan: one.plan, finals: outcome.finals })
    ),
    results: otherResults(outcomes),
    checks: checksOf(outcomes, { expect }),
  };
}

function otherResults(
  outcomes: readonly { one: Ran; outcome: Outcome }[],
): RunReport["results"] {
  return outcomes.flatMap(({ one, outcome }) =>
    outcome.finals.flatMap(({ reports }) =>
      reports.filter(({ topic, value }) =>
        topic === "program-failed" || (topic === "result" && !isPutResult(value))
      ).map(({ node, value }) => ({ node, variant: one.label, value }))
    )
  );
}

function printReport(report: RunReport, flags: RunFlags): void {
  if (report.methods.length > 0) print(reportTable(report.methods));
  for (const { error, method, ddio, confirmed, messages } of report.methods) {
    if (error !== null) {
      print(`${method}, ddio ${ddio}: ${error}; ${confirmed} of ${messages} messages confirmed`);
    }
  }
  if (report.congestion.length > 0) print(congestionTable(report.congestion));
  if (report.faults.length > 0) print(faultTable(report.faults));
  if (report.deviceFaults.length > 0) print(deviceFaultTable(report.deviceFaults));
  if (report.methods.some(({ verified }) => verified !== undefined)) {
    print(verifiedTable(report.methods));
  }
  for (const text of programText(report.results)) print(text);
  for (const { name, holds, detail, looked } of report.checks) {
    const says = holds ? lookedText(looked) : `: ${detail}`;
    print(`${holds ? "ok  " : "FAIL"} ${name}${says}`);
  }
  print(
    `${formatTime(report.virtualPs)} of virtual time in ${(report.wallMs / 1_000).toFixed(2)} s, ` +
      `${count(report.processes, "process", "processes")}, ${count(report.events, "event")}`,
  );
  for (const path of report.captures ?? []) print(`capture ${path}`);
  if (flags.trace) print(`traced: rack trace --run ${report.run} shows an operation step by step`);
  print(`digest ${report.digest}, seed ${report.seed}, kept in ${report.directory}`);
}

/** How much a check has looked at: of one variant, or of the first and how many more. */
function lookedText([first, ...more]: readonly string[]): string {
  if (first === undefined) return "";
  const others = count(more.length, "more variant");
  return more.length === 0 ? ` (${first})` : ` (${first}; ${others})`;
}

function count(what: number, one: string, many = `${one}s`): string {
  return `${what} ${what === 1 ? one : many}`;
}

function shareOf(progress: unknown): number {
  const { written, messages } = progress as { written?: unknown; messages?: unknown };
  return typeof written === "number" && typeof messages === "number" ? written / messages : 0;
}
