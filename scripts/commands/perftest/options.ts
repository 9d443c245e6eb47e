import { PS_PER_US } from "../../../fabric/base/time.ts";
import { RD_ATOMIC_MAX } from "../../../fabric/wire/host_bus/qp_life_cycle.ts";
import { MAX_INLINE_BYTES } from "../../../fabric/wire/host_bus/wqe.ts";
import type { PerftestRow } from "../../../nodes/host/programs/perftest/client.ts";
import {
  BYTES_MAX,
  DEPTH_MAX,
  ITERATIONS_MAX,
  PERFTEST,
  type PerftestName,
  QPS_MAX,
} from "../../../nodes/host/programs/perftest/terms.ts";
import {
  inUnit,
  PERFTEST_OUTPUTS,
  type PerftestForm,
} from "../../../console/reports/perftest_columns.ts";
import { bytesOf, given, timeOf, whole, wordOf } from "../options.ts";
import type { CheckFlags, RackChoiceFlags } from "../rack_options.ts";
import type { Problems } from "./line.ts";
import { WHY_NO_SL } from "./refused.ts";

export interface PerftestFlags extends CheckFlags, RackChoiceFlags {
  readonly size?: string;
  readonly iters?: string;
  readonly duration?: string;
  readonly margin?: string;
  readonly all?: boolean;
  readonly connection?: string;
  readonly bidirectional?: boolean;
  readonly txDepth?: string;
  readonly rxDepth?: string;
  readonly qp?: string;
  readonly post_list?: string;
  readonly cqMod?: string;
  readonly inline_size?: string;
  readonly outs?: string;
  readonly mtu?: string;
  readonly sl?: string;
  readonly tclass?: string;
  readonly tos?: string;
  readonly hop_limit?: string;
  readonly qpTimeout?: string;
  readonly retry_count?: string;
  readonly rdma_cm?: boolean;
  readonly atomic_type: string;
  readonly events?: boolean;
  readonly noPeak?: boolean;
  readonly reportHistogram?: boolean;
  readonly reportHistogrm?: boolean;
  readonly reportUnsorted?: boolean;
  readonly reportBoth?: boolean;
  readonly report_gbits?: boolean;
  readonly output?: string;
  readonly limit_bw?: string;
  readonly limit_msgrate?: string;
  readonly out_json?: boolean;
  readonly out_json_file: string;
  readonly memory: string;
  readonly ibDev?: string;
  readonly from?: string;
  readonly to?: string;
  readonly json?: boolean;
}

type Refuse = (option: string, why: string, expected: string) => void;

function refuseTo(problems: Problems): Refuse {
  return (option, why, expected) => problems.add("", { found: `${option} ${why}`, expected });
}

export function formOf(
  test: PerftestName,
  flags: PerftestFlags,
  problems: Problems,
): PerftestForm {
  const refuse = refuseTo(problems);
  const { measures } = PERFTEST[test];
  const isLatency = measures === "latency";
  const { report_gbits: gbits, reportBoth, noPeak } = flags;
  const histogram = flags.reportHistogram ?? flags.reportHistogrm;
  const only = (option: string, is: boolean, expected: string) => {
    if (is) refuse(option, `of ${test}, a ${measures} test`, expected);
  };
  const isList = histogram === true || flags.reportUnsorted === true;
  only(
    histogram ? "--report-histogram" : "--report-unsorted",
    isList && !isLatency,
    "one of latency",
  );
  if (isList && flags.duration !== undefined) {
    const option = histogram ? "--report-histogram" : "--report-unsorted";
    refuse(option, "beside -D, of which no latency is kept", "-n");
  }
  only("--report_gbits", gbits === true && isLatency, "one of bandwidth");
  if (reportBoth && !flags.bidirectional) {
    refuse("--report-both", "of a test of one direction", "-b");
  }
  const output = flags.output === undefined
    ? undefined
    : problems.of(() => wordOf("--output", flags.output!, PERFTEST_OUTPUTS));
  if (output !== undefined && isLatency !== (output === "latency")) {
    const expected = isLatency ? "latency" : "bandwidth or message_rate";
    problems.add("--output", { found: `"${output}" of ${test}`, expected });
  }
  const samples = [
    ...(flags.reportUnsorted ? ["unsorted"] as const : []),
    ...(histogram ? ["sorted"] as const : []),
  ];
  return given({ gbits, noPeak, reportBoth, output, samples });
}

/** `-w`, `-y`: results must not be below. */
export function limitsOf(
  test: PerftestName,
  { limit_bw, limit_msgrate, report_gbits: gbits = false }: PerftestFlags,
  problems: Problems,
) {
  const unit = gbits ? "Gb/s" : "MiB/s";
  const limits = [
    {
      option: "--limit_bw",
      text: limit_bw,
      unit,
      of: (row: Bandwidth) => inUnit(row.averageBytesPerSecond, { gbits }),
    },
    {
      option: "--limit_msgrate",
      text: limit_msgrate,
      unit: "Mpps",
      of: (row: Bandwidth) => row.messagesPerSecond / 1e6,
    },
  ];
  return limits.flatMap(({ option, text, unit, of }) => {
    if (text === undefined) return [];
    const least = /^\d+(\.\d+)?$/.test(text) ? Number(text) : NaN;
    if (Number.isNaN(least)) {
      problems.add(option, { found: `"${text}"`, expected: `a number of ${unit}` });
    }
    if (PERFTEST[test].measures === "latency") {
      refuseTo(problems)(option, `of ${test}, a latency test`, "one of bandwidth");
    }
    const isBelow = (row: PerftestRow) => row.measures === "bandwidth" && of(row) < least;
    return [{ option: `${option} ${text}`, isBelow }];
  });
}

type Bandwidth = Extract<PerftestRow, { measures: "bandwidth" }>;

/** Of `-D`, in seconds as perftest's, or with a unit. @throws Refusal */
function secondsOf(option: string, text: string): number {
  const expected = "seconds of virtual time, or a time such as 500us or 2ms";
  const time = timeOf(option, /^\d+(\.\d+)?$/.test(text) ? `${text}s` : text, { expected });
  return time / PS_PER_US;
}

function checkOfTest(test: PerftestName, flags: PerftestFlags, problems: Problems): void {
  const refuse = refuseTo(problems);
  const { verb, measures } = PERFTEST[test];
  const isLatency = measures === "latency";
  if (isLatency && (flags.qp ?? "1") !== "1") {
    const expected = `1, as ${test} has one queue pair`;
    problems.add("--qp", { found: `"${flags.qp}"`, expected });
  }
  const bandwidthAlone = {
    "--bidirectional": flags.bidirectional,
    "--tx-depth": flags.txDepth,
    "--post_list": flags.post_list,
    "--cq-mod": flags.cqMod,
    "--noPeak": flags.noPeak,
  };
  for (const [option, value] of Object.entries(bandwidthAlone)) {
    if (!isLatency || value === undefined) continue;
    refuse(option, `of ${test}, a latency test`, "one of bandwidth");
  }
  const isReading = verb === "read" || verb === "atomic";
  if (flags.inline_size !== undefined && isReading) {
    refuse("--inline_size", `of ${test}, which sends no data`, "a WRITE or SEND");
  }
  if (flags.outs !== undefined && !isReading) {
    refuse("--outs", `of ${test}, which has no reads`, "a READ or an atomic");
  }
  if (flags.rxDepth !== undefined && verb !== "send") {
    refuse("--rx-depth", `of ${test}, which takes no receives`, "a SEND");
  }
  if (flags.events && verb === "write") {
    refuse("--events", `of ${test}`, "a SEND, a READ or an atomic, as with perftest");
  }
}

function checkTogether(
  { duration, events, all, iters, rdma_cm, tos, tclass }: PerftestFlags,
  problems: Problems,
): void {
  const refuse = refuseTo(problems);
  const besides = { "--events": events, "--all": all, "--iters": iters };
  const [beside] = Object.entries(besides).find(([, value]) => value !== undefined) ?? [];
  if (duration !== undefined && beside !== undefined) {
    refuse("--duration", `beside ${beside}`, "one of the two");
  }
  if (tos !== undefined && tclass !== undefined) {
    refuse("--tos", "beside --tclass", "one of the two");
  }
  if (tos !== undefined && !rdma_cm) {
    refuse("--tos", "without --rdma_cm", "-R beside it, or --tclass in its place");
  }
}

export function optionsOf(test: PerftestName, flags: PerftestFlags, problems: Problems) {
  const kind = PERFTEST[test];
  const { size, iters, mtu, duration, margin, all } = flags;
  const connection = flags.connection === undefined
    ? undefined
    : problems.of(() => wordOf("--connection", flags.connection!, kind.connections));
  const range = { least: 1, most: BYTES_MAX, expected: "1 to 8MiB, such as 65536, 64K or 64KiB" };
  // perftest's own units, powers of 1024; a small k is none to it.
  const bytes = size === undefined
    ? undefined
    : problems.of(() => bytesOf("--size", size.replace(/^(\d+)([KM])$/, "$1$2iB"), range));
  const { onlyBytes } = kind;
  if (onlyBytes !== undefined && (all || (bytes ?? onlyBytes) !== onlyBytes)) {
    const found = `${test} has messages of ${onlyBytes} B`;
    problems.add("", { found, expected: "neither --all nor another --size" });
  }
  checkOfTest(test, flags, problems);
  checkTogether(flags, problems);
  const number = (
    option: string,
    text: string | undefined,
    range: { least?: number; most: number },
  ) =>
    text === undefined ? undefined : problems.of(() => whole(option, text, { least: 1, ...range }));
  const seconds = (option: string, text: string | undefined) =>
    text === undefined ? undefined : problems.of(() => secondsOf(option, text));
  const sl = number("--sl", flags.sl, { least: 0, most: 15 });
  if ((sl ?? 0) !== 0) problems.add("--sl", { found: `${sl}`, expected: WHY_NO_SL });
  return given({
    // As perftest has it: RUN_ALL has its own sizes.
    size: all ? undefined : bytes,
    all,
    iterations: number("--iters", iters, {
      least: kind.iterationsLeast,
      most: ITERATIONS_MAX,
    }),
    durationUs: seconds("--duration", duration),
    marginUs: seconds("--margin", margin),
    connection,
    bidirectional: flags.bidirectional,
    depth: number("--tx-depth", flags.txDepth, { most: DEPTH_MAX }),
    rxDepth: number("--rx-depth", flags.rxDepth, { most: 16_384 }),
    qps: number("--qp", flags.qp, { most: QPS_MAX }),
    postList: number("--post_list", flags.post_list, { most: 8192 }),
    cqModeration: number("--cq-mod", flags.cqMod, { most: 1024 }),
    inlineBytes: number("--inline_size", flags.inline_size, { least: 0, most: MAX_INLINE_BYTES }),
    outstanding: number("--outs", flags.outs, { most: RD_ATOMIC_MAX }),
    trafficClass: number("--tclass", flags.tclass, { least: 0, most: 255 }) ??
      number("--tos", flags.tos, { least: 0, most: 255 }),
    hopLimit: number("--hop_limit", flags.hop_limit, { most: 255 }),
    timeout: number("--qp-timeout", flags.qpTimeout, { least: 0, most: 31 }),
    retryCount: number("--retry_count", flags.retry_count, { least: 0, most: 7 }),
    mtu: mtu === undefined ? undefined : Number(mtu),
    memory: flags.memory,
    atomic: flags.atomic_type === "CMP_AND_SWAP" ? "compare-swap" : "fetch-add",
    completion: flags.events ? "interrupt" : undefined,
    noPeak: flags.noPeak,
    samples: flags.reportHistogram || flags.reportHistogrm || flags.reportUnsorted
      ? true
      : undefined,
  });
}
