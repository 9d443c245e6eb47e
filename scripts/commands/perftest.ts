/** `rack perftest`: perftest's tests, with its options and its table, on the rack of a scenario. */
import { type Command, Option } from "commander";
import { EXIT } from "../../fabric/rack/build/run_file.ts";
import { type Packing, PACKINGS } from "../../fabric/rack/build/topology.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import {
  BYTES_MAX,
  MEMORIES,
  PERFTEST,
  type PerftestName,
  PERFTESTS,
} from "../../nodes/host/programs/perftest/terms.ts";
import { runPerftest } from "../../console/rack/perftest.ts";
import { perftestText } from "../../console/reports/perftest_table.ts";
import { onInterrupt } from "./interrupt.ts";
import { addOutputOptions, bytesOf, given, seedOf, whole, wordOf } from "./options.ts";
import { print, Progress, say } from "./output.ts";

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
  readonly pack: Packing;
  readonly nats?: string;
  readonly pcap?: string;
  readonly perfetto?: string;
  readonly json?: boolean;
}

const MTUS = ["256", "512", "1024", "2048", "4096"] as const;

export function addPerftest(program: Command): void {
  const command = program.command("perftest <test> <scenario>")
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
    .addHelpText(
      "after",
      `
The scenario's programs and faults are left out; times are virtual, the same in any packing.

Example:
  rack perftest ib_write_lat scripts/scenarios/persist_pair.yaml -s 64 -n 1000
  rack perftest ib_write_bw scripts/scenarios/persist_pair.yaml -a -n 200 --report_gbits`,
    )
    .action(perftest);
  addOutputOptions(command);
}

async function perftest(test: string, path: string, flags: PerftestFlags): Promise<void> {
  const name = wordOf("The test", test, PERFTESTS);
  const options = optionsOf(name, flags);
  const { from, to, ddio, nats, pcap, perfetto, seed, json } = flags;
  const progress = new Progress({ quiet: json === true });
  const run = await runPerftest(name, path, {
    options,
    packing: flags.pack,
    ...given({ from, to, ddio, nats, pcap, perfetto }),
    ...(seed !== undefined && { seed: seedOf(seed) }),
    signal: onInterrupt(flags.pack === "all" ? "ending the run" : "taking the rack down"),
    onProgress: (title, share) => progress.show(title, share),
    onCapturing: () => void onInterrupt("leaving the captures"),
  }).finally(() => progress.clear());
  const { result, captures, outcome: { digest, virtualPs, directory } } = run;
  if (json) {
    const left = captures.length === 0 ? {} : { captures };
    const { scenario, seed } = run;
    print(JSON.stringify({ scenario, seed, digest, virtualPs, ...result, ...left }));
  } else {
    const { qps = 1, depth = PERFTEST[name].depth } = options;
    const gbits = flags.report_gbits === true;
    print(perftestText(result, { qps, depth, mtu: result.pathMtu, gbits }));
    for (const file of captures) say(`capture ${file}`);
    say(`digest ${digest}, seed ${run.seed}, kept in ${directory}`);
  }
  if (result.error !== undefined) say(`${name} failed: ${result.error}`);
  if (result.status !== "done") Deno.exitCode = EXIT.failed;
}

/** Checks and converts the options. @throws Refusal */
function optionsOf(test: PerftestName, flags: PerftestFlags) {
  const kind = PERFTEST[test];
  const { size, iters, txDepth, qp, mtu } = flags;
  const range = { least: 1, most: BYTES_MAX, expected: "1 to 8MiB" };
  const bytes = size === undefined ? undefined : bytesOf("--size", size, range);
  if (kind.verb === "atomic" && (flags.all || (bytes ?? 8) !== 8)) {
    const found = `${test} has messages of 8 B`;
    throw refusal("", { found, expected: "neither --all nor another --size" });
  }
  if (kind.measures === "latency" && (qp ?? "1") !== "1") {
    const expected = `1, as ${test} has one queue pair`;
    throw refusal("--qp", { found: `"${qp}"`, expected });
  }
  const least = kind.measures === "latency" ? 2 : 1;
  const number = (
    option: string,
    text: string | undefined,
    range: { least: number; most: number },
  ) => text === undefined ? undefined : whole(option, text, range);
  return given({
    size: bytes,
    all: flags.all,
    iterations: number("--iters", iters, { least, most: 10_000_000 }),
    depth: number("--tx-depth", txDepth, { least: 1, most: 8192 }),
    qps: number("--qp", qp, { least: 1, most: 128 }),
    mtu: mtu === undefined ? undefined : Number(mtu),
    memory: flags.memory,
    atomic: flags.atomic_type === "CMP_AND_SWAP" ? "compare-swap" : "fetch-add",
    completion: flags.events ? "interrupt" : undefined,
  });
}
