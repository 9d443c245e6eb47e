/** perftest's output: header, both ends, and a line for each size. */
import type {
  PerftestEnd,
  PerftestResult,
  PerftestRow,
} from "../../nodes/host/programs/perftest/client.ts";
import { PERFTEST, type PerftestKind } from "../../nodes/host/programs/perftest/terms.ts";

export interface PerftestHeader {
  readonly qps: number;
  readonly depth: number;
  readonly mtu: number;
  readonly gbits: boolean;
}

const RULE = "-".repeat(87);
const US = 1e6;
const MIB = 2 ** 20;

/** The whole output of a test. */
export function perftestText(result: PerftestResult, header: PerftestHeader): string {
  const kind = PERFTEST[result.test];
  return [
    RULE,
    ...headerLines(kind, header),
    RULE,
    ...result.ends.map((end, i) => endLines(end, i === 0 ? "local" : "remote")).flat(),
    RULE,
    columns(kind, header),
    ...result.rows.map((row) => line(row, header)),
    RULE,
  ].join("\n");
}

function headerLines(kind: PerftestKind, { qps, depth, mtu }: PerftestHeader): string[] {
  const pair = (left: [string, string], right?: [string, string]) =>
    ` ${left[0].padEnd(16)}: ${left[1]}` + (right ? `\t\t${right[0].padEnd(15)}: ${right[1]}` : "");
  return [
    `                    ${kind.title}`,
    pair(["Dual-port", "OFF"], ["Device", "rackmesh"]),
    pair(["Number of qps", String(qps)], ["Transport type", "IB"]),
    pair(["Connection type", "RC"], ["Using SRQ", "OFF"]),
    ...(kind.verb === "read" || kind.verb === "atomic" ? [] : [pair(["TX depth", String(depth)])]),
    ...(kind.measures === "bandwidth"
      ? [pair(["CQ Moderation", String(Math.min(100, depth))])]
      : []),
    pair(["Mtu", `${mtu}[B]`]),
    pair(["Link type", "Ethernet"]),
    ...(kind.verb === "read" || kind.verb === "atomic" ? [pair(["Outstand reads", "16"])] : []),
    pair(["Max inline data", `${kind.inlineBytes}[B]`]),
    pair(["rdma_cm QPs", "ON"]),
    pair(["Data ex. method", "rdma_cm"]),
  ];
}

function endLines({ address, qpn, rkey, va }: PerftestEnd, side: string): string[] {
  const hex = (value: number, digits: number) => `0x${value.toString(16).padStart(digits, "0")}`;
  const bytes = [24, 16, 8, 0].map((shift) => (address >>> shift) & 0xff);
  const gid = [...new Array<string>(10).fill("00"), "255", "255", ...bytes.map(String)].map((b) =>
    b.padStart(2, "0")
  );
  return [
    ` ${side} address: LID 0000 QPN ${hex(qpn, 4)} RKey ${hex(rkey, 6)} VAddr ${hex(va, 16)}`,
    ` GID: ${gid.join(":")}`,
  ];
}

const LATENCY_COLUMNS = [
  "#bytes",
  "#iterations",
  "t_min[usec]",
  "t_max[usec]",
  "t_typical[usec]",
  "t_avg[usec]",
  "t_stdev[usec]",
  "99% percentile[usec]",
  "99.9% percentile[usec]",
];

function bandwidthColumns({ gbits }: PerftestHeader): string[] {
  const unit = gbits ? "Gb/sec" : "MB/sec";
  return ["#bytes", "#iterations", `BW peak[${unit}]`, `BW average[${unit}]`, "MsgRate[Mpps]"];
}

function cells(titles: readonly string[], values: readonly string[]): string {
  return " " + titles.map((title, i) => values[i]!.padEnd(title.length)).join("    ").trimEnd();
}

function columns(kind: PerftestKind, header: PerftestHeader): string {
  const titles = kind.measures === "latency" ? LATENCY_COLUMNS : bandwidthColumns(header);
  return cells(titles, titles);
}

function line(row: PerftestRow, header: PerftestHeader): string {
  const head = [String(row.bytes), String(row.iterations)];
  if (row.measures === "latency") {
    const { minPs, maxPs, typicalPs, averagePs, stdevPs, p99Ps, p999Ps } = row;
    const times = [minPs, maxPs, typicalPs, averagePs, stdevPs, p99Ps, p999Ps];
    return cells(LATENCY_COLUMNS, [...head, ...times.map((ps) => (ps / US).toFixed(2))]);
  }
  const { peakBytesPerSecond, averageBytesPerSecond, messagesPerSecond } = row;
  const rate = (bytes: number) => (header.gbits ? bytes * 8 / 1e9 : bytes / MIB).toFixed(2);
  return cells(bandwidthColumns(header), [
    ...head,
    rate(peakBytesPerSecond ?? 0),
    rate(averageBytesPerSecond),
    (messagesPerSecond / 1e6).toFixed(6),
  ]);
}
