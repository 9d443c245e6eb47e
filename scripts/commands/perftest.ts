/** `rack perftest`: perftest's tests, with its options and its table, on the rack of a scenario. */
import { type Command, Option } from "commander";
import { EXIT } from "../../fabric/rack/build/run_file.ts";
import { parseSize } from "../../fabric/rack/plan/units.ts";
import { type Packing, PACKINGS } from "../../fabric/rack/build/topology.ts";
import type { ProgramScenario, Scenario } from "../../fabric/rack/scenario/scenario.ts";
import type { PerftestResult } from "../../nodes/host/programs/perftest/client.ts";
import {
  BYTES_MAX,
  MEMORIES,
  PERFTEST,
  type PerftestName,
  PERFTESTS,
} from "../../nodes/host/programs/perftest/terms.ts";
import { createRunDirectory } from "../../console/rack/run_directory.ts";
import { startNatsServer, useExisting } from "../../console/rack/nats_server.ts";
import { captureFiles, scopeFor, unusedLabel } from "../../console/captures/captures.ts";
import { perftestText } from "../../console/reports/perftest_table.ts";
import { onlyOne, prepare, type Prepared, readScenario } from "../../console/rack/prepare.ts";
import { type Outcome, runProcesses, runSimulated } from "../../console/rack/run_variant.ts";
import { UsageError } from "../../console/rack/failure.ts";
import { onInterrupt } from "../../console/base/interrupt.ts";
import { leaveCaptures, makeRoomFor } from "../../console/captures/leave_captures.ts";
import { print, Progress, say } from "../../console/base/output.ts";
import { PCAP_HELP, PERFETTO_HELP, whole } from "./run.ts";

interface PerftestFlags {
  readonly size?: string;
  readonly iters?: string;
  readonly all?: boolean;
  readonly txDepth?: string;
  readonly qp?: string;
  readonly mtu?: string;
  readonly atomic_type: string;
  readonly events?: boolean;
  readonly report_gbits?: boolean;
  readonly memory: string;
  readonly from?: string;
  readonly to?: string;
  readonly ddio?: "on" | "off";
  readonly seed?: string;
  readonly pack: string;
  readonly nats?: string;
  readonly pcap?: string;
  readonly perfetto?: string;
  readonly json?: boolean;
}

const MTUS = ["256", "512", "1024", "2048", "4096"] as const;

export function addPerftest(program: Command): void {
  program.command("perftest <test> <scenario>")
    .description(`a latency or bandwidth test on a scenario's rack: ${PERFTESTS.join(", ")}`)
    .option("-s, --size <bytes>", "bytes of a message (latency 2, bandwidth 65536, atomic 8)")
    .option("-n, --iters <n>", "messages, on each queue pair (latency 1000, bandwidth 5000)")
    .option("-a, --all", "all sizes from 2 B to 8 MiB")
    .option("-t, --tx-depth <n>", "messages outstanding on a queue pair (bandwidth 128)")
    .option("-q, --qp <n>", "queue pairs (bandwidth)")
    .addOption(new Option("-m, --mtu <bytes>", "path MTU; else the port's").choices(MTUS))
    .option("-F, --CPU-freq", "taken and ignored: virtual time has one clock")
    .addOption(
      new Option("-A, --atomic_type <type>", "what an atomic does")
        .choices(["FETCH_AND_ADD", "CMP_AND_SWAP"]).default("FETCH_AND_ADD"),
    )
    .option("-e, --events", "sleep until a completion's interrupt instead of polling")
    .option("--report_gbits", "bandwidth in Gb/s")
    .addOption(
      new Option("--memory <kind>", "where the server's buffer lies").choices(MEMORIES)
        .default("dram"),
    )
    .option("--from <host>", "the client; else the first of the scenario")
    .option("--to <host>", "the server; else the next")
    .addOption(new Option("--ddio <how>", "where the scenario has both").choices(["on", "off"]))
    .option("--seed <n>", "instead of the scenario's")
    .addOption(new Option("--pack <how>", "nodes to processes").choices(PACKINGS).default("all"))
    .option("--nats <url>", "use this nats-server instead of starting one")
    .option("--pcap <dir>", PCAP_HELP)
    .option("--perfetto <file>", PERFETTO_HELP)
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      `
The scenario's programs and faults are left out; times are virtual, the same in any packing.

Example:
  rack perftest ib_write_lat scripts/scenarios/persist_pair.yaml -s 64 -n 1000
  rack perftest ib_write_bw scripts/scenarios/persist_pair.yaml -a -n 200 --report_gbits`,
    )
    .action(async (test: string, scenario: string, flags: PerftestFlags) => {
      Deno.exitCode = await perftest(test, scenario, flags);
    });
}

async function perftest(test: string, path: string, flags: PerftestFlags): Promise<number> {
  const name = PERFTESTS.find((each) => each === test);
  if (name === undefined) {
    throw new UsageError(`The test is "${test}": expected one of ${PERFTESTS.join(", ")}`);
  }
  const options = optionsOf(name, flags);
  const scenario = await readScenario(path);
  const ends = endsOf(scenario, flags);
  const ddio = flags.ddio ?? (isMixed(scenario) ? "on" : undefined);
  const prepared = onlyOne(
    await prepare(path, {
      packing: flags.pack as Packing,
      ...(ddio !== undefined && { ddio }),
      ...(flags.seed !== undefined && {
        seed: whole("--seed", flags.seed, { least: 0, most: Number.MAX_SAFE_INTEGER }),
      }),
      programs: programsOf(ends, { test: name, ...options }),
      faults: [],
      linkFaults: "none",
    }),
    path,
  );
  // Of another test, or with other options, it is another capture: it has a name of its own.
  const named = { ...prepared, label: `${name}, ${prepared.label}` };
  const { outcome, captures } = await runOne(named, flags);
  const result = resultOf(outcome);
  if (flags.json) {
    const { seed } = prepared.plan;
    const { digest, virtualPs } = outcome;
    const left = captures.length === 0 ? {} : { captures };
    print(JSON.stringify({ scenario: scenario.name, seed, digest, virtualPs, ...result, ...left }));
  } else {
    const { qps = 1, depth = PERFTEST[name].depth } = options;
    const mtu = result.pathMtu;
    const gbits = flags.report_gbits === true;
    print(perftestText(result, { qps, depth, mtu, gbits }));
    for (const file of captures) say(`capture ${file}`);
    say(`digest ${outcome.digest}, seed ${prepared.plan.seed}, kept in ${outcome.directory}`);
  }
  if (result.error !== undefined) say(`${name} failed: ${result.error}`);
  return result.status === "done" ? EXIT.done : EXIT.failed;
}

interface ProgramOptions {
  readonly size?: number;
  readonly all?: true;
  readonly iterations?: number;
  readonly depth?: number;
  readonly qps?: number;
  readonly mtu?: number;
  readonly memory: string;
  readonly atomic: string;
  readonly completion?: "interrupt";
}

/** Checks and converts what stands on the command line. @throws UsageError */
function optionsOf(test: PerftestName, flags: PerftestFlags): ProgramOptions {
  const kind = PERFTEST[test];
  const { size, iters, txDepth, qp, mtu } = flags;
  const bytes = size === undefined ? undefined : parseSize(size) ?? NaN;
  if (bytes !== undefined && !(bytes >= 1 && bytes <= BYTES_MAX)) {
    throw new UsageError(`--size is "${size}": expected 1 to 8MiB`);
  }
  if (kind.verb === "atomic" && (flags.all || (bytes ?? 8) !== 8)) {
    throw new UsageError(`${test} has messages of 8 B: expected neither --all nor another --size`);
  }
  if (kind.measures === "latency" && (qp ?? "1") !== "1") {
    throw new UsageError(`--qp is "${qp}": expected 1, as ${test} has one queue pair`);
  }
  const least = kind.measures === "latency" ? 2 : 1;
  return {
    ...(bytes !== undefined && { size: bytes }),
    ...(flags.all && { all: true }),
    ...(iters !== undefined &&
      { iterations: whole("--iters", iters, { least, most: 10_000_000 }) }),
    ...(txDepth !== undefined && { depth: whole("--tx-depth", txDepth, { least: 1, most: 8192 }) }),
    ...(qp !== undefined && { qps: whole("--qp", qp, { least: 1, most: 128 }) }),
    ...(mtu !== undefined && { mtu: Number(mtu) }),
    memory: flags.memory,
    atomic: flags.atomic_type === "CMP_AND_SWAP" ? "compare-swap" : "fetch-add",
    ...(flags.events && { completion: "interrupt" }),
  };
}

function endsOf(scenario: Scenario, flags: PerftestFlags): { from: string; to: string } {
  const names = scenario.hosts.map(({ name }) => name);
  for (const [option, name] of [["--from", flags.from], ["--to", flags.to]] as const) {
    if (name !== undefined && !names.includes(name)) {
      throw new UsageError(`${option} is "${name}": expected one of ${names.join(", ")}`);
    }
  }
  const from = flags.from ?? names.find((name) => name !== flags.to)!;
  const to = flags.to ?? names.find((name) => name !== from);
  if (to === undefined || to === from) {
    throw new UsageError(
      names.length < 2
        ? `perftest needs two hosts: the scenario has ${names.join(", ")}`
        : `--from and --to are both "${from}": expected two of ${names.join(", ")}`,
    );
  }
  return { from, to };
}

function isMixed(scenario: Scenario): boolean {
  return scenario.hosts.some(({ ddio }) => ddio === "both");
}

function programsOf(
  ends: { readonly from: string; readonly to: string },
  options: Readonly<Record<string, unknown>>,
): ProgramScenario[] {
  return [
    { on: ends.to, run: "perftest-server", at: 0, options: {} },
    { on: ends.from, run: "perftest", at: 0, options: { to: ends.to, ...options } },
  ];
}

/** An outcome, and the captures that were asked for. */
interface Captured {
  readonly outcome: Outcome;
  readonly captures: readonly string[];
}

async function runOne(prepared: Prepared, flags: PerftestFlags): Promise<Captured> {
  const { variant, base, plan, label } = prepared;
  const { id, path } = await createRunDirectory(plan.scenario);
  const files = captureFiles({ flags, scenario: variant.capture, base, directory: path });
  await makeRoomFor(files);
  let outcome: Outcome;
  let captures: string[] = [];
  try {
    outcome = await runIn({ id, path, observe: scopeFor(files) }, prepared, flags);
  } finally {
    const unused = unusedLabel(label, files);
    captures = await leaveCaptures([{ label: unused, plan, directory: path }], files);
  }
  return { outcome, captures };
}

interface Place {
  readonly id: string;
  readonly path: string;
  readonly observe: ReturnType<typeof scopeFor>;
}

async function runIn(
  { id, path, observe }: Place,
  prepared: Prepared,
  flags: PerftestFlags,
): Promise<Outcome> {
  const progress = new Progress({ quiet: flags.json === true });
  const options = {
    run: id,
    directory: path,
    trace: false,
    ...(observe && { observe }),
    delayMsMax: 0,
    onProgress: (_node: string, topic: string, value: unknown) => {
      if (topic === "progress") progress.tell("perftest", (value as { written: number }).written);
    },
  };
  try {
    if (flags.pack === "all") return await runSimulated(prepared, options);
    if (flags.nats !== undefined) {
      return await asProcesses(prepared, { ...options, address: useExisting(flags.nats) });
    }
    const server = await startNatsServer({
      dir: path,
      keepUp: true,
      beforeStart: (starting) => onInterrupt("nats", () => starting.stop()),
    });
    try {
      return await asProcesses(prepared, { ...options, address: server.address });
    } finally {
      await server.stop();
    }
  } finally {
    progress.clear();
  }
}

function asProcesses(
  prepared: Prepared,
  options: Parameters<typeof runProcesses>[1],
): Promise<Outcome> {
  return runProcesses(prepared, {
    ...options,
    beforeStart: (supervisor) => onInterrupt("rack", () => supervisor.down()),
  });
}

function resultOf(outcome: Outcome): PerftestResult {
  const reports = outcome.finals.flatMap((final) => final.reports);
  for (const { topic, value } of reports) {
    const { program } = value as { program?: unknown };
    if (topic === "result" && program === "perftest") return value as PerftestResult;
  }
  const failure = reports.find(({ topic }) => topic === "program-failed");
  const why = failure === undefined
    ? "it said nothing"
    : String((failure.value as { message?: unknown }).message);
  throw new UsageError(`perftest gave no result: ${why}`);
}
