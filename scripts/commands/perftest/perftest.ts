import { MEMORIES } from "../../../fabric/rack/plan/plan.ts";
import { type Command, Option } from "commander";
import { EXIT } from "../../../fabric/base/exit.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { REJECT_REASON, rejectText } from "../../../fabric/wire/roce/cm.ts";
import type { PerftestResult } from "../../../nodes/host/programs/perftest/client.ts";
import { CONNECTIONS, PERFTESTS } from "../../../nodes/host/programs/perftest/terms.ts";
import { runPerftest } from "../../../console/rack/perftest.ts";
import { readScenario, type ScenarioSource } from "../../../console/scenarios/scenario_source.ts";
import { perftestJson } from "../../../console/reports/perftest_json.ts";
import { perftestText } from "../../../console/reports/perftest_table.ts";
import { PERFTEST_OUTPUTS, type PerftestForm } from "../../../console/reports/perftest_columns.ts";
import { onInterrupt } from "../interrupt.ts";
import { checkWritable, given, wordOf } from "../options.ts";
import {
  addCheckOption,
  addRackChoices,
  checkTypesFirst,
  rackChoicesOf,
  worldOf,
} from "../rack_options.ts";
import { print, Progress, say } from "../output.ts";
import { formOf, limitsOf, optionsOf, type PerftestFlags } from "./options.ts";
import { Line } from "./line.ts";
import { DEVICE_NAME } from "./refused.ts";

const MTUS = ["256", "512", "1024", "2048", "4096"] as const;
/** perftest's own. */
const JSON_FILE = "perftest_out.json";

export function addPerftest(program: Command): void {
  const command = program.command("perftest <test> <scenario> [server]")
    .description(`a latency or bandwidth test on a scenario's rack: ${PERFTESTS.join(", ")}`)
    .option(
      "-s, --size <bytes>",
      "bytes of a message, or 64K, 1M (latency 2, bandwidth 65536, atomic 8)",
    )
    .option("-n, --iters <n>", "messages, on each queue pair (1000, ib_write_bw 5000)")
    .option("-D, --duration <time>", "instead of -n: seconds of virtual time, or 500us, 2ms")
    .option("-f, --margin <time>", "of -D, not counted at its begin and end (a quarter of it)")
    .option("-a, --all", "all sizes from 2 B to 8 MiB (UD: to the path MTU)")
    .option("-c, --connection <type>", `${CONNECTIONS.join(", ")} (RC)`)
    .option("-b, --bidirectional", "both ends send at once (bandwidth)")
    .option("-t, --tx-depth <n>", "messages outstanding on a queue pair (bandwidth 128)")
    .option("-r, --rx-depth <n>", "receives posted on a queue pair (SEND 512)")
    .option("-q, --qp <n>", "queue pairs (bandwidth)")
    .option("-l, --post_list <n>", "messages in a post, with one doorbell (bandwidth 1)")
    .option("-Q, --cq-mod <n>", "a completion every so many messages (100; above 8 KiB 1)")
    .option("-I, --inline_size <bytes>", "largest inline message (latency 220, bandwidth 0)")
    .option("-o, --outs <n>", "READs and atomics outstanding on a queue pair (16)")
    .addOption(new Option("-m, --mtu <bytes>", "path MTU; else the port's").choices(MTUS))
    .option("-S, --sl <sl>", "service level: 0, as RoCEv2 has no other")
    .option("--tclass <value>", "traffic class, whose upper six bits are DSCP (0)")
    .option("-T, --tos <value>", "the same, of queue pairs by rdma_cm: with -R")
    .option("-L, --hop_limit <n>", "time to live of packets (64)")
    .option("-u, --qp-timeout <code>", "4.096 us * 2^code until a packet is sent again (8)")
    .option("--retry_count <n>", "how often (7)")
    .option("-R, --rdma_cm", "queue pairs of the connection manager, as RC and UC always are")
    .option("-z, --comm_rdma_cm", "exchange of data by the connection manager, as it always is")
    .addOption(
      new Option("-A, --atomic_type <type>", "what an atomic does")
        .choices(["FETCH_AND_ADD", "CMP_AND_SWAP"]).default("FETCH_AND_ADD"),
    )
    .option("-e, --events", "sleep until a completion's interrupt instead of polling")
    .option("-N, --noPeak", "without the peak (always so with -D or more than 20000 messages)")
    .option("-H, --report-histogram", "all latencies, in order of size")
    .option("-U, --report-unsorted", "all latencies, in order of the messages")
    .option("--report-both", "each end of a bidirectional test by itself, too")
    .option("--report_gbits", "bandwidth in Gb/s instead of MiB/s")
    .addOption(
      new Option("--output <figure>", "nothing but this figure").choices(PERFTEST_OUTPUTS),
    )
    .option(
      "-w, --limit_bw <value>",
      "exit code 1 below this average bandwidth, in the table's unit",
    )
    .option("-y, --limit_msgrate <value>", "exit code 1 below this message rate, in Mpps")
    .option("--out_json", `perftest's JSON, in ${JSON_FILE}`)
    .option("--out_json_file <file>", "or in this file", JSON_FILE)
    .addOption(
      new Option("--memory <kind>", "where the server's buffer lies").choices(MEMORIES)
        .default("dram"),
    )
    .option("--from <host>", "the client; else the first of the scenario")
    .option("--to <host>", "the server; else the next")
    .addHelpText(
      "after",
      `
The scenario's programs and faults are left out; times are virtual, the same in any packing. A line of perftest's may
be pasted: a server that is a host is --to's; long options may be shortened; -d rackmesh1 takes both ends' second
RNICs, and what else chooses a lab's devices and ports has no effect, which is said; options that measure something else are refused, each with the reason. A UC or UD
message that finds no receive is lost without a sign: the client's bandwidth is that of its sends. --json has more
than --out_json: both ends, figures in ps and bytes.

Example:
  rack perftest ib_write_lat scripts/scenarios/persist_pair.yaml -s 64 -n 1000
  rack perftest ib_write_bw scripts/scenarios/persist_pair.yaml -a -n 200 --report_gbits
  rack perftest ib_send_bw scripts/scenarios/persist_pair.yaml -b -D 1ms --tclass 106`,
    );
  const line = new Line(command);
  command.action((test: string, path: string, server: string | undefined, flags: PerftestFlags) =>
    perftest(test, path, { server, flags, line })
  );
  // perftest's own table of options spells it so.
  command.addOption(new Option("--report-histogrm").hideHelp());
  addCheckOption(command);
  addRackChoices(command);
}

interface PerftestLine {
  readonly server: string | undefined;
  readonly flags: PerftestFlags;
  readonly line: Line;
}

async function perftest(
  test: string,
  path: string,
  { server, flags, line }: PerftestLine,
): Promise<void> {
  const name = wordOf("The test", test, PERFTESTS);
  const { problems } = line;
  line.checkWords();
  const options = optionsOf(name, flags, problems);
  const form = formOf(name, flags, problems);
  const limits = limitsOf(name, flags, problems);
  problems.refuse();
  const { from, json, ibDev = "" } = flags;
  const chosen = rackChoicesOf(flags);
  const rnic = Number(DEVICE_NAME.exec(ibDev)?.[1] ?? 0);
  const leavesJson = flags.out_json || flags.out_json_file !== JSON_FILE;
  if (leavesJson) await checkWritable("--out_json_file", flags.out_json_file);
  if (flags.all && flags.size !== undefined) line.addIdle("--size", "--all has its own sizes");
  if (flags.rdma_cm && options.connection === "UD") {
    line.addIdle("--rdma_cm", "UD queue pairs learn of each other by a connection in any case");
  }
  const scenario = await readScenario(path, flags);
  const to = serverOf(scenario, { server, to: flags.to, line });
  if (line.note !== undefined) say(line.note);
  await checkTypesFirst(scenario, flags);
  const progress = new Progress({ quiet: json === true });
  const run = await runPerftest(name, scenario, {
    options,
    ...(rnic > 0 && { rnic }),
    ...given({ from, to }),
    ...worldOf(flags),
    ...chosen,
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
    print(perftestText(result, form));
    for (const file of captures) say(`capture ${file}`);
    say(`digest ${digest}, seed ${run.seed}, kept in ${directory}`);
  }
  if (leavesJson) leaveJson(flags.out_json_file, result, form);
  if (result.error !== undefined) say(`${name} failed: ${result.error}`);
  if (result.error?.includes(rejectText(REJECT_REASON.noQueuePair))) {
    say("`queues:` of a host bounds them: a queue pair has two");
  }
  const missed = limits.filter(({ isBelow }) => result.rows.some((row) => isBelow(row)));
  for (const { option } of missed) say(`${name} is below ${option}`);
  if (result.status !== "done" || missed.length > 0) Deno.exitCode = EXIT.failed;
}

/** As `--to`, where it is a host; else it has no effect. @throws Refusal of the scenario */
function serverOf(
  { scenario: { hosts } }: ScenarioSource,
  { server, to, line }: Pick<PerftestLine, "server" | "line"> & { readonly to: string | undefined },
): string | undefined {
  if (server === undefined || server === to) return to;
  if (to === undefined && hosts.some(({ name }) => name === server)) return server;
  line.addIdle(server, "--to names the server, a host of the scenario");
  return to;
}

/** @throws Refusal of a file that cannot be written. */
function leaveJson(file: string, result: PerftestResult, form: PerftestForm): void {
  const text = perftestJson(result, form);
  if (text === undefined) return;
  try {
    Deno.writeTextFileSync(file, `${text}\n`);
  } catch (error) {
    throw refusal("--out_json_file", { found: `${file}: ${(error as Error).message}` });
  }
}
