/**
 * perftest's output, column by column: its header, both ends of each queue pair, a line for each size
 * (linux-rdma/perftest: `ctx_print_test_info`, `ctx_print_pingpong_data`, `RESULT_FMT…`, `REPORT_FMT…`).
 */
import type {
  PerftestEnd,
  PerftestResult,
  PerftestRow,
  PerftestSettings,
} from "../../nodes/host/programs/perftest/client.ts";
import { PERFTEST, type PerftestName } from "../../nodes/host/programs/perftest/terms.ts";
import { left, shortest } from "./printf.ts";

/** What is printed of a result. */
export interface PerftestForm {
  /** `--report_gbits` */
  readonly gbits?: boolean;
  /** `--output`: of each size this figure alone. */
  readonly output?: PerftestOutput;
  /** `-H` and `-U`: every latency before its line, in order of size or of the messages. */
  readonly samples?: readonly ("sorted" | "unsorted")[];
  /** `-N`: there is no peak because none is wanted. */
  readonly noPeak?: boolean;
  /** `--report-both`: each end of a bidirectional test for itself, too. */
  readonly reportBoth?: boolean;
}

export const PERFTEST_OUTPUTS = ["bandwidth", "message_rate", "latency"] as const;
export type PerftestOutput = typeof PERFTEST_OUTPUTS[number];

/** `getDeviceList` has it. */
export const DEVICE = "rackmesh0";
const RULE = "-".repeat(87);
/** In front of all, of a test by time or with too many messages (`force_dependecies`). */
const NO_PEAK = " WARNING: BW peak won't be measured in this run.";
const US = 1e6;
const MIB = 2 ** 20;
/** `waitCompletion` takes so many at once. */
const POLL_BATCH = 64;

const LATENCY_COLUMNS =
  " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   " +
  "99% percentile[usec]   99.9% percentile[usec] ";
const RATE_COLUMNS = " #bytes        #iterations       t_avg[usec]    tps average";

function bandwidthColumns({ gbits = false }: PerftestForm): string {
  const unit = gbits ? "Gb/sec" : "MiB/sec";
  return ` #bytes     #iterations    BW peak[${unit}]    BW average[${unit}]   MsgRate[Mpps]`;
}

/** The whole output of a test. */
export function perftestText(result: PerftestResult, form: PerftestForm = {}): string {
  const { rows, ends, settings, test } = result;
  if (form.output !== undefined) {
    return rows.map((row) => `${figureOf(row, form).toFixed(6)}`).join("\n");
  }
  const { measures } = PERFTEST[test];
  const titles = measures === "bandwidth"
    ? bandwidthColumns(form)
    : settings.isTimed
    ? RATE_COLUMNS
    : LATENCY_COLUMNS;
  const side = (name: "local" | "remote") =>
    ends[name].flatMap((end) => endLines(end, name, result));
  const isPeakMissing = rows.some((row) =>
    row.measures === "bandwidth" && row.peakBytesPerSecond === null
  );
  return [
    ...(isPeakMissing && !form.noPeak ? [NO_PEAK] : []),
    RULE,
    ...headerLines(result),
    RULE,
    ...side("local"),
    ...side("remote"),
    RULE,
    titles,
    ...rows.flatMap((row) => [...sampleLines(row, { form, titles }), line(row, form)]),
    ...(form.reportBoth ? bothEnds(rows, titles, form) : []),
    RULE,
  ].join("\n");
}

const ATOMIC_TYPES = { "fetch-add": "FETCH_AND_ADD", "compare-swap": "CMP_AND_SWAP" } as const;

/** `RDMA_Write Bidirectional BW Test`; with `_` for a space in perftest's JSON. */
export function perftestTitle(test: PerftestName, settings: PerftestSettings): string {
  const { title, verb, measures } = PERFTEST[test];
  return [
    title,
    ...(verb === "atomic" ? [ATOMIC_TYPES[settings.atomic]] : []),
    ...(settings.bidirectional ? ["Bidirectional"] : []),
    ...(settings.postList > 1 ? ["Post List"] : []),
    measures === "bandwidth" ? "BW" : "Latency",
    "Test",
  ].join(" ");
}

/** Whether queue pairs are the connection manager's own: those of UD stand beside a connection. */
export function usesCmQps({ connection }: PerftestSettings): boolean {
  return connection !== "UD";
}

function headerLines(
  { test, device = DEVICE, settings, pathMtu }: PerftestResult,
): string[] {
  const { verb, measures } = PERFTEST[test];
  const { connection, qps, depth, rxDepth, postList, cqModeration, bidirectional } = settings;
  const { trafficClass, mode, outstanding, inlineBytes } = settings;
  const isCm = usesCmQps(settings);
  const tos = isCm && trafficClass !== 0 ? ` \tTOS    : ${trafficClass}` : "";
  return [
    `                    ${perftestTitle(test, settings)}`,
    ...(mode === "interrupt" ? [` Test with events. Using ${device}_comp0`] : []),
    ` Dual-port       : OFF\t\tDevice         : ${device}`,
    ` Number of qps   : ${qps}\t\tTransport type : IB`,
    ` Connection type : ${connection}\t\tUsing SRQ      : OFF`,
    ` PCIe relax order: OFF\t\tLock-free      : OFF`,
    ` ibv_wr* API     : OFF\t\tUsing Enhanced Reorder      : OFF`,
    ` TX depth        : ${depth}`,
    ...(postList > 1 ? [` Post List       : ${postList}`] : []),
    ...(verb === "send" && bidirectional ? [` RX depth        : ${rxDepth}`] : []),
    ...(measures === "bandwidth"
      ? [` CQ Moderation   : ${cqModeration}`, ` CQE Poll Batch  : ${POLL_BATCH}`]
      : []),
    ` Mtu             : ${pathMtu}[B]`,
    ` Link type       : Ethernet`,
    ` GID index       : 0`,
    verb === "read" || verb === "atomic"
      ? ` Outstand reads  : ${outstanding}`
      : ` Max inline data : ${inlineBytes}[B]`,
    ` rdma_cm QPs\t : ${isCm ? "ON" : "OFF"}`,
    ` Data ex. method : rdma_cm${tos}`,
  ];
}

function endLines(end: PerftestEnd, side: string, { test, settings }: PerftestResult): string[] {
  const { address, qpn, psn, rkey, va } = end;
  // As printf's `%#06x`: the digits with their `0x`.
  const hex = (value: number, width: number) => `0x${value.toString(16).padStart(width - 2, "0")}`;
  const { verb } = PERFTEST[test];
  const reads = verb === "read" ? ` OUT ${hex(settings.outstanding, 4)}` : "";
  const place = verb === "read" || verb === "write"
    ? ` RKey ${hex(rkey, 8)} VAddr ${hex(va, 16)}`
    : "";
  const bytes = [24, 16, 8, 0].map((shift) => (address >>> shift) & 0xff);
  const gid = [...new Array<number>(10).fill(0), 255, 255, ...bytes].map((byte) =>
    String(byte).padStart(2, "0")
  );
  return [
    ` ${side} address: LID 0000 QPN ${hex(qpn, 6)} PSN ${hex(psn, 6)}${reads}${place}`,
    ` GID: ${gid.join(":")}`,
  ];
}

/** Every latency, and the columns' titles again, as perftest does it. */
function sampleLines(
  row: PerftestRow,
  { form, titles }: { readonly form: PerftestForm; readonly titles: string },
): string[] {
  if (row.measures !== "latency" || row.samplesPs === undefined) return [];
  const wanted = form.samples ?? [];
  const all = row.samplesPs;
  const lists = wanted.map((order) => {
    // perftest leaves the two longest out of the sorted list.
    const list = order === "unsorted" ? all : all.toSorted((x, y) => x - y).slice(0, -2);
    return ["#, usec", ...list.map((ps, i) => `${i + 1}, ${shortest(ps / US)}`)];
  });
  return lists.length === 0 ? [] : [...lists.flat(), RULE, titles];
}

function bothEnds(rows: readonly PerftestRow[], titles: string, form: PerftestForm): string[] {
  return (["local", "remote"] as const).flatMap((side) => [
    RULE,
    "",
    ` ${side === "local" ? "Local" : "Remote"} results: `,
    RULE,
    titles,
    ...rows.flatMap((row) =>
      row.measures === "bandwidth" && row[side] ? [line({ ...row, ...row[side] }, form)] : []
    ),
  ]);
}

/** Bytes a second in the unit of the columns: MiB or 10⁹ bits. */
export function inUnit(bytesPerSecond: number, { gbits = false }: PerftestForm): number {
  return gbits ? bytesPerSecond * 8 / 1e9 : bytesPerSecond / MIB;
}

/** The figure of `--output`. */
function figureOf(row: PerftestRow, form: PerftestForm): number {
  if (row.measures !== "bandwidth") return row.averagePs / US;
  if (form.output === "message_rate") return row.messagesPerSecond / 1e6;
  return inUnit(row.averageBytesPerSecond, form);
}

/** `REPORT_FMT`, `REPORT_FMT_EXT`, `REPORT_FMT_LAT`, `REPORT_FMT_LAT_DUR`. */
function line(row: PerftestRow, form: PerftestForm): string {
  const bytes = left(row.bytes, 7), us = (ps: number) => left((ps / US).toFixed(2), 7);
  if (row.measures === "latency-rate") {
    const tps = left(row.transactionsPerSecond.toFixed(2), 7);
    return ` ${bytes}       ${row.iterations}            ${us(row.averagePs)}        ${tps}`;
  }
  if (row.measures === "latency") {
    const { minPs, maxPs, typicalPs, averagePs, stdevPs, p99Ps, p999Ps } = row;
    return ` ${bytes} ${row.iterations}          ${us(minPs)}        ${us(maxPs)}      ` +
      `${us(typicalPs)}  \t       ${us(averagePs)}     \t${us(stdevPs)}\t\t${us(p99Ps)} \t\t${
        us(p999Ps)
      }`;
  }
  const average = inUnit(row.averageBytesPerSecond, form);
  const peak = inUnit(row.peakBytesPerSecond ?? 0, form);
  const rate = left((row.messagesPerSecond / 1e6).toFixed(6), 7);
  if (average < 0.1 && form.gbits) {
    const [peakText, averageText] = [peak, average].map((each) => left(each.toFixed(6), 7));
    return ` ${bytes}    ${row.iterations}           ${peakText}            ${averageText}            ${rate}`;
  }
  const [peakText, averageText] = [peak, average].map((each) => left(each.toFixed(2), 7));
  return ` ${bytes}    ${
    left(row.iterations, 10)
  }       ${peakText}            ${averageText}\t\t     ${rate}`;
}
