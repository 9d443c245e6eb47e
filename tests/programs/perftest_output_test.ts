/**
 * perftest's output, as people read it: regular expressions of scripts around perftest, its heads and formats
 * character by character, its JSON, and command lines that are refused with a reason.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { Command } from "commander";
import { perftestJson } from "../../console/reports/perftest_json.ts";
import type { PerftestForm } from "../../console/reports/perftest_columns.ts";
import { perftestText } from "../../console/reports/perftest_table.ts";
import { shortest } from "../../console/reports/printf.ts";
import type { PerftestResult } from "../../nodes/host/programs/perftest/client.ts";
import type { PerftestName } from "../../nodes/host/programs/perftest/terms.ts";
import { addPerftest } from "../../scripts/commands/perftest/perftest.ts";
import { inFlags } from "../../console/rack/perftest.ts";
import { optionsOf, type PerftestFlags } from "../../scripts/commands/perftest/options.ts";
import { Line, Problems } from "../../scripts/commands/perftest/line.ts";
import { IDLE, REFUSED } from "../../scripts/commands/perftest/refused.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

function run(test: PerftestName, options: string): PerftestResult {
  const rack = new SimulatedRack(`
name: perftest-output
fabric: { mtu: 4096 }
hosts: { a: {}, b: {} }
programs:
  - { on: b, run: perftest-server }
  - { on: a, run: perftest, to: b, test: ${test}, ${options} }
`).run();
  const [result] = rack.reported("result", "a") as unknown as PerftestResult[];
  assert.equal(result?.status, "done", result?.error);
  return result!;
}

function linesOf(result: PerftestResult, form: PerftestForm = {}): string[] {
  return perftestText(result, form).split("\n");
}

const RULE = "-".repeat(87);

describe("The output of a bandwidth test", () => {
  const result = run("ib_write_bw", "iterations: 20, size: 4KiB");

  it("has perftest's header, ends and head, line by line", () => {
    const lines = linesOf(result);
    assert.deepEqual(lines.slice(0, 16), [
      RULE,
      "                    RDMA_Write BW Test",
      " Dual-port       : OFF\t\tDevice         : rackmesh0",
      " Number of qps   : 1\t\tTransport type : IB",
      " Connection type : RC\t\tUsing SRQ      : OFF",
      " PCIe relax order: OFF\t\tLock-free      : OFF",
      " ibv_wr* API     : OFF\t\tUsing Enhanced Reorder      : OFF",
      " TX depth        : 20",
      " CQ Moderation   : 20",
      " CQE Poll Batch  : 64",
      " Mtu             : 4096[B]",
      " Link type       : Ethernet",
      " GID index       : 0",
      " Max inline data : 0[B]",
      " rdma_cm QPs\t : ON",
      " Data ex. method : rdma_cm",
    ]);
    assert.equal(lines[16], RULE);
    const end =
      /^ (local|remote) address: LID 0000 QPN 0x\w{4} PSN 0x\w{4,6} RKey 0x\w{6} VAddr 0x\w{14}$/;
    assert.equal(end.exec(lines[17]!)?.[1], "local");
    assert.equal(lines[18], " GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:00:00:01");
    assert.equal(end.exec(lines[19]!)?.[1], "remote");
    assert.equal(lines[20], " GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:00:00:02");
    assert.equal(lines[21], RULE);
    assert.equal(
      lines[22],
      " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]",
    );
    assert.match(
      lines[23]!,
      /^ 4096 {7}20 {15}\d+\.\d\d +\d+\.\d\d\t\t {5}\d\.\d{6}$/,
    );
    assert.deepEqual(lines.slice(24), [RULE]);
  });

  it("is read by the expression of scripts: size, iterations, peak, average, rate", () => {
    const found = [
      ...perftestText(result).matchAll(
        /^\s*(\d+)\s+(\d+)\s+(\d+\.\d+)\s+(\d+\.\d+)\s+(\d+\.\d+)\s*$/gm,
      ),
    ];
    assert.equal(found.length, 1);
    const [, bytes, iterations, peak, average, rate] = found[0]!.map(Number);
    assert.deepEqual([bytes, iterations], [4096, 20]);
    const [row] = result.rows;
    assert.ok(row?.measures === "bandwidth");
    assert.ok(Math.abs(average! * 2 ** 20 / row.averageBytesPerSecond - 1) < 1e-4);
    assert.ok(Math.abs(peak! * 2 ** 20 / row.peakBytesPerSecond! - 1) < 1e-4);
    assert.ok(Math.abs(rate! * 1e6 * 4096 / row.averageBytesPerSecond - 1) < 1e-4);
  });

  it("--report_gbits: Gb/sec, also in the head; six decimals below 0.1", () => {
    const lines = linesOf(result, { gbits: true });
    assert.match(lines.at(-3)!, /BW peak\[Gb\/sec\] {4}BW average\[Gb\/sec\]/);
    const [row] = result.rows;
    assert.ok(row?.measures === "bandwidth");
    const average = Number(lines.at(-2)!.trim().split(/\s+/)[3]);
    assert.ok(Math.abs(average - row.averageBytesPerSecond * 8 / 1e9) < 0.005);
    const few = linesOf(run("ib_atomic_bw", "iterations: 10"), { gbits: true });
    assert.match(
      few.at(-2)!,
      /^ 8 {10}10 {11}0\.0\d{5} {12}0\.0\d{5} {12}\d\.\d{6}$/,
    );
  });

  it("--output: nothing but a figure of each size", () => {
    const [row] = result.rows;
    assert.ok(row?.measures === "bandwidth");
    const average = perftestText(result, { output: "bandwidth" });
    assert.equal(average, (row.averageBytesPerSecond / 2 ** 20).toFixed(6));
    const rate = perftestText(result, { output: "message_rate" });
    assert.equal(rate, (row.messagesPerSecond / 1e6).toFixed(6));
  });

  it("without a peak (-N, -D) says 0.00, and perftest's warning where it was not asked for", () => {
    const warning = " WARNING: BW peak won't be measured in this run.";
    const rows = [["noPeak: true, iterations: 20", true, RULE], [
      "duration: 100us",
      false,
      warning,
    ]];
    for (const [options, noPeak, first] of rows as [string, boolean, string][]) {
      const lines = linesOf(run("ib_write_bw", `${options}, size: 4KiB`), { noPeak });
      assert.match(lines.at(-2)!, /^ 4096 +\d+ +0\.00 +\d{4,}\.\d\d\t\t/);
      assert.equal(lines[0], first);
    }
  });

  it("of many queue pairs has the ends of each: first all local ones, then all remote ones", () => {
    const text = perftestText(run("ib_read_bw", "qps: 3, iterations: 5, outstanding: 4"));
    const ends = [...text.matchAll(/^ (local|remote) address: .* OUT (0x\w\w) RKey/gm)];
    assert.deepEqual(ends.map(([, side]) => side), [
      ...["local", "local", "local"],
      ...["remote", "remote", "remote"],
    ]);
    assert.deepEqual(new Set(ends.map(([, , outs]) => outs)), new Set(["0x04"]));
    assert.match(text, /^ Number of qps {3}: 3\t/m);
    assert.match(text, /^ Outstand reads {2}: 4$/m);
  });

  it("names direction, list and receives in the header; UD's queue pairs are not rdma_cm's", () => {
    const options =
      "bidirectional: true, postList: 5, iterations: 20, size: 2KiB, trafficClass: 106";
    const text = perftestText(run("ib_send_bw", options));
    assert.match(text, /^ {20}Send Bidirectional Post List BW Test$/m);
    assert.match(text, /^ Post List {7}: 5$/m);
    assert.match(text, /^ RX depth {8}: 20$/m);
    assert.match(text, /^ Data ex\. method : rdma_cm \tTOS {4}: 106$/m);
    assert.match(text, /^ local address: LID 0000 QPN 0x\w{4} PSN 0x\w{4,6}$/m);
    const ud = perftestText(run("ib_send_bw", "connection: UD, iterations: 5"));
    assert.match(ud, /^ Connection type : UD\t/m);
    assert.match(ud, /^ rdma_cm QPs\t : OFF$/m);
  });

  it("--report-both: each direction by itself behind the sum", () => {
    const both = run("ib_write_bw", "bidirectional: true, iterations: 20, size: 4KiB");
    const averages = linesOf(both, { reportBoth: true }).filter((line) => /^ 4096 /.test(line))
      .map((line) => Number(line.trim().split(/\s+/)[3]));
    assert.equal(averages.length, 3);
    assert.ok(Math.abs(averages[0]! - averages[1]! - averages[2]!) < 0.02, averages.join());
    assert.match(perftestText(both, { reportBoth: true }), /\n Local results: \n-+\n #bytes/);
  });
});

describe("The output of a latency test", () => {
  const result = run("ib_send_lat", "iterations: 12, size: 64, samples: true");

  it("has perftest's head and nine figures under it", () => {
    const lines = linesOf(result);
    assert.equal(
      lines.at(-3),
      " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   " +
        "99% percentile[usec]   99.9% percentile[usec] ",
    );
    const two = String.raw`\d+\.\d\d +`;
    const line = new RegExp(
      String
        .raw`^ 64      12          ${two}${two}${two}\t       ${two}\t\d+\.\d\d +\t\t${two}\t\t${two}$`,
    );
    assert.match(lines.at(-2)!, line);
    const values = lines.at(-2)!.trim().split(/\s+/).map(Number);
    const [row] = result.rows;
    assert.ok(row?.measures === "latency");
    const { minPs, maxPs, typicalPs, averagePs, stdevPs, p99Ps, p999Ps } = row;
    const figures = [minPs, maxPs, typicalPs, averagePs, stdevPs, p99Ps, p999Ps];
    assert.deepEqual(values, [64, 12, ...figures.map((ps) => Number((ps / 1e6).toFixed(2)))]);
  });

  it("-U: every latency in the order of the messages, as %g; -H: in order of size, without the longest two", () => {
    const listed = (samples: "sorted" | "unsorted") => {
      const lines = linesOf(result, { samples: [samples] });
      const at = lines.indexOf("#, usec");
      assert.ok(at > 0);
      const end = lines.indexOf(RULE, at);
      assert.match(lines[end + 1]!, /^ #bytes #iterations/);
      return lines.slice(at + 1, end).map((line, i) => {
        const [number, value] = line.split(", ");
        assert.equal(number, String(i + 1));
        return Number(value);
      });
    };
    const [row] = result.rows;
    assert.ok(row?.measures === "latency" && row.samplesPs);
    const all = row.samplesPs.map((ps) => Number((ps / 1e6).toPrecision(6)));
    assert.equal(all.length, 11);
    assert.deepEqual(listed("unsorted"), all);
    assert.deepEqual(listed("sorted"), all.toSorted((x, y) => x - y).slice(0, 9));
    assert.ok(!perftestText(result).includes("#, usec"));
  });

  it("-D: mean and transactions", () => {
    const lines = linesOf(run("ib_write_lat", "duration: 60us"));
    assert.equal(lines.at(-3), " #bytes        #iterations       t_avg[usec]    tps average");
    assert.match(lines.at(-2)!, /^ 2 {13}\d+ {12}0\.\d\d {11}\d{6}\.\d\d *$/);
  });

  it("of an atomic names it; -e names the completion vector", () => {
    const text = perftestText(
      run("ib_atomic_lat", "atomic: compare-swap, iterations: 5, completion: interrupt"),
    );
    assert.match(
      text,
      /^ {20}Atomic CMP_AND_SWAP Latency Test\n Test with events\. Using rackmesh0_comp0$/m,
    );
  });
});

describe("shortest", () => {
  it("is printf's %g", () => {
    // By printf(1): printf '%g\n' 1.5880900 0.0000123456 1234567 100000 1e100 0
    const values = [1.58809, 0.0000123456, 1234567, 100000, 1e100, 0, 999999.5];
    const texts = ["1.58809", "1.23456e-05", "1.23457e+06", "100000", "1e+100", "0", "1e+06"];
    assert.deepEqual(values.map(shortest), texts);
  });
});

describe("perftest's JSON (--out_json)", () => {
  it("has its keys in their order, and the figures of the table", () => {
    const result = run("ib_write_bw", "iterations: 20, size: 4KiB, postList: 5");
    const json = JSON.parse(perftestJson(result)!);
    assert.deepEqual(Object.keys(json), ["test_info", "results"]);
    assert.deepEqual(Object.keys(json.results), [
      "MsgSize",
      "n_iterations",
      "BW_peak",
      "BW_average",
      "MsgRate",
    ]);
    assert.equal(json.test_info.test, "RDMA_Write_Post_List_BW_Test");
    assert.equal(json.test_info.CQ_Moderation, 5);
    const [, , peak, average, rate] = linesOf(result).at(-2)!.trim().split(/\s+/).map(Number);
    const { BW_peak, BW_average, MsgRate } = json.results;
    assert.deepEqual([BW_peak, BW_average, MsgRate], [peak, average, rate]);
  });

  it("of a latency test has its figures; of -a the last size", () => {
    const json = JSON.parse(perftestJson(run("ib_read_lat", "iterations: 10"))!);
    assert.deepEqual(Object.keys(json.results), [
      ...["MsgSize", "n_iterations", "t_min", "t_max", "t_typical", "t_avg", "t_stdev"],
      ...["percentile_99", "percentile_99.9"],
    ]);
    const all = run("ib_send_bw", "all: true, connection: UD, iterations: 5");
    assert.equal(JSON.parse(perftestJson(all)!).results.MsgSize, 4096);
  });
});

/** The refusal of a command line; it is found before any scenario is read. */
async function refusalOf(...args: string[]): Promise<string> {
  const program = new Command().exitOverride().configureOutput({ writeErr: () => {} });
  addPerftest(program);
  for (const command of program.commands) command.exitOverride();
  try {
    await program.parseAsync(["perftest", ...args], { from: "user" });
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error(`${args.join(" ")} was taken`);
}

describe("inFlags", () => {
  it("has perftest's options in the place of a scenario's", () => {
    const cases = [
      [
        "postList must be a multiple of cqModeration, 4: it is 10",
        "--post_list must be a multiple of --cq-mod, 4: it is 10",
      ],
      [
        "postList must be at most the depth, 8: it is 10",
        "--post_list must be at most --tx-depth, 8: it is 10",
      ],
      [
        "margin goes with a duration: there is none",
        "--margin goes with a duration: there is none",
      ],
      ["An atomic has 8 B: not 16", "An atomic has 8 B: not 16"],
    ] as const;
    for (const [text, expected] of cases) assert.equal(inFlags(text), expected);
  });
});

describe("optionsOf", () => {
  const flags = {
    memory: "dram",
    atomic_type: "FETCH_AND_ADD",
    out_json_file: "x",
    pack: "all",
    check: true,
  } as const;

  /** Bytes of a message. @throws Refusal */
  function sizeOf(given: Pick<PerftestFlags, "size" | "all">): number | undefined {
    const problems = new Problems();
    const { size } = optionsOf("ib_send_bw", { ...flags, ...given }, problems);
    problems.refuse();
    return size;
  }

  it("--size has perftest's K and M beside the rack's units", () => {
    for (const size of ["8192", "8K", "8KiB"]) assert.equal(sizeOf({ size }), 8192, size);
    assert.equal(sizeOf({ size: "1M" }), 2 ** 20);
    for (const size of ["8k", "16M", "0", "K"]) {
      assert.throws(() => sizeOf({ size }), /64K or 64KiB/, size);
    }
  });

  it("--all has its own sizes, whatever --size says", () => {
    assert.equal(sizeOf({ size: "8192", all: true }), undefined);
  });
});

describe("a line as people paste it", () => {
  let line: Line, taken: { args: string[]; flags: Record<string, unknown> } | undefined;

  function parse(...words: string[]): void {
    const command = new Command("perftest").argument("<test>").argument("[server]").exitOverride()
      .option("-q, --qp <n>").option("--report_gbits").option("--report-both").option(
        "--output <x>",
      );
    line = new Line(command);
    command.action((test: string, server: string, flags: Record<string, unknown>) => {
      taken = { args: [test, server], flags };
    });
    command.parse(words, { from: "user" });
  }

  it("may shorten long options as getopt_long does, and says what has no effect", () => {
    parse(..."t -d mlx5_0 -i 1 -x 3 -p 18515 --qp=4 --report_gbit --out bw -F SERVER".split(" "));
    assert.deepEqual(taken, {
      args: ["t", "SERVER"],
      flags: { ...taken!.flags, qp: "4", report_gbits: true, output: "bw" },
    });
    assert.equal(
      line.note,
      "No effect here: --ib-dev (a host's cards are rackmesh0, and rackmesh1 and so on where the scenario gives it more), --ib-port (a card has one port, 1), " +
        "--gid-index (a port has one GID; RoCE's version is `roce:` of the scenario), " +
        "--port (the two ends find each other by their hosts' names), --CPU-freq (virtual time has one clock)",
    );
  });

  it("takes each option that means nothing here", () => {
    for (const { flags, only, why } of IDLE) {
      for (const flag of flags.replace(/ <.*/, "").split(", ")) {
        parse("t", flag, ...(flags.includes("<") ? [only ?? "1"] : []));
        line.checkWords();
        line.problems.refuse();
        assert.equal(line.note, `No effect here: ${/--[\w-]+/.exec(flags)![0]} (${why})`);
      }
    }
  });

  it("has no note where all has an effect", () => {
    parse("t", "-q", "2");
    assert.equal(line.note, undefined);
  });
});

describe("rack perftest refuses", () => {
  it("each option of perftest's that is not here, by its name and with the reason", async () => {
    assert.ok(REFUSED.length > 50);
    for (const [flags, why] of REFUSED) {
      for (const flag of flags.replace(/ <.*/, "").split(", ")) {
        const value = flags.includes("<") ? ["1"] : [];
        const text = await refusalOf("ib_write_bw", "no.yaml", flag, ...value);
        const long = /--[\w-]+/.exec(flags)![0];
        assert.equal(text, `${long} is perftest's, and not here: ${why}`);
      }
    }
  });

  it("all that is wrong with a line at once, unknown options too", async () => {
    const line = "--odp -q 0 -c XRC -I 4 -O --unheard-of 7 --report_gbits --report 3 -i 2";
    const text = await refusalOf("ib_read_bw", "no.yaml", ...line.split(" "));
    const all = [
      /^--odp is perftest's, and not here: .*$/m,
      /^--dualport is perftest's, and not here: a card has one port$/m,
      /^--ib-port is "2": expected 1: a card has one port, 1$/m,
      /^--unheard-of is no option of perftest's: expected one of rack perftest --help$/m,
      /^--report is no option of perftest's: expected --report-histogram, .* or --report-histogrm$/m,
      /^--connection is "XRC": expected/m,
      /^--qp is "0": expected a whole number from 1 to 16384$/m,
      /^--inline_size of ib_read_bw, which sends no data: expected a WRITE or SEND$/m,
    ];
    for (const each of all) assert.match(text, each);
    assert.equal(text.split("\n").length, all.length, text);
  });

  it("words too many", async () => {
    const text = await refusalOf("ib_read_bw", "no.yaml", "b", "c");
    assert.equal(text, '"c" is a word too many: expected a test, a scenario, and at most a server');
  });

  for (
    const [args, message] of [
      [
        ["ib_write_lat", "-b"],
        /^--bidirectional of ib_write_lat, a latency test: expected one of bandwidth$/,
      ],
      [["ib_write_lat", "-t", "4"], /--tx-depth.*latency test/],
      [["ib_read_bw", "-I", "64"], /--inline_size.*a WRITE or SEND/],
      [
        ["ib_write_bw", "-I", "221"],
        /--inline_size is "221": expected a whole number from 0 to 220/,
      ],
      [["ib_write_bw", "-o", "4"], /--outs.*a READ or an atomic/],
      [["ib_read_bw", "-o", "17"], /from 1 to 16/],
      [["ib_write_bw", "-r", "4"], /--rx-depth.*a SEND/],
      [
        ["ib_write_bw", "-e"],
        /^--events of ib_write_bw: expected a SEND, a READ or an atomic, as with perftest$/,
      ],
      [
        ["ib_send_bw", "-D", "1", "-n", "5"],
        /^--duration beside --iters: expected one of the two$/,
      ],
      [["ib_send_bw", "-D", "soon"], /--duration is "soon": expected seconds/],
      [["ib_send_bw", "-c", "XRC"], /--connection is "XRC": expected .*RC, UC, UD/],
      [["ib_read_bw", "-c", "UC"], /--connection is "UC"/],
      [
        ["ib_send_bw", "-T", "8"],
        /^--tos without --rdma_cm: expected -R beside it, or --tclass in its place$/,
      ],
      [
        ["ib_send_bw", "--tclass", "256"],
        /--tclass is "256": expected a whole number from 0 to 255/,
      ],
      [["ib_send_bw", "-S", "3"], /--sl is 3: expected 0/],
      [["ib_send_bw", "-S", "16"], /--sl is "16": .* 0 to 15/],
      [["ib_send_bw", "-T", "8", "-R", "--tclass", "8"], /^--tos beside --tclass: expected one/],
      [["ib_send_bw", "-L", "0"], /--hop_limit is "0": expected a whole number from 1 to 255/],
      [
        ["ib_send_bw", "--out_json_file", "no/such/x"],
        /--out_json_file is "no\/such\/x": expected a file in a folder that is there/,
      ],
      [
        ["ib_write_bw", "-H"],
        /^--report-histogram of ib_write_bw, a bandwidth test: expected one of latency$/,
      ],
      [["ib_send_lat", "-U", "-D", "1ms"], /--report-unsorted.*-n/],
      [["ib_send_bw", "--output", "latency"], /--output.*bandwidth or message_rate/],
      [["ib_send_bw", "--report-both"], /--report-both.*-b/],
      [["ib_send_lat", "-w", "3"], /--limit_bw.*latency test/],
      [["ib_send_bw", "-w", "much"], /--limit_bw is "much": expected a number of MiB\/s/],
    ] as const
  ) {
    it(args.join(" "), async () => {
      const [test, ...rest] = args;
      assert.match(await refusalOf(test, "no.yaml", ...rest), message);
    });
  }
});
