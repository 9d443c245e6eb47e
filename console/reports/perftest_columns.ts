/**
 * Each field of perftest's header and each column of a size's line once, for text and JSON
 * (linux-rdma/perftest: `ctx_print_test_info`, `write_test_info_to_file`, `RESULT_FMT…`,
 * `REPORT_FMT…`).
 */
import type {
  PerftestResult,
  PerftestRow,
  PerftestSettings,
} from "../../nodes/host/programs/perftest/client.ts";
import { PERFTEST, type PerftestName } from "../../nodes/host/programs/perftest/terms.ts";
import { left } from "./printf.ts";

export interface PerftestForm {
  readonly gbits?: boolean;
  /** `--output`: this figure alone, of each size. */
  readonly output?: PerftestOutput;
  /** `-H` and `-U`: every latency before its line, in order of size or of the messages. */
  readonly samples?: readonly ("sorted" | "unsorted")[];
  /** `-N`: no peak is wanted. */
  readonly noPeak?: boolean;
  /** `--report-both`: each end of a bidirectional test, too. */
  readonly reportBoth?: boolean;
}

export const PERFTEST_OUTPUTS = ["bandwidth", "message_rate", "latency"] as const;
export type PerftestOutput = typeof PERFTEST_OUTPUTS[number];

/** In the text behind its label, in the JSON by its key; null: not there. */
export type Field = readonly [
  label: string | null,
  key: string | null,
  value: string | number,
  behind?: string,
];

const DEVICE = "rackmesh0";
const POLL_BATCH = 64;
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

/** In perftest's order. Features that this rack does not have (memory of GPUs) are OFF. */
export function fieldsOf(result: PerftestResult): readonly Field[] {
  const { test, device = DEVICE, settings, pathMtu } = result, { verb, measures } = PERFTEST[test];
  const { connection, qps, depth, rxDepth, postList, cqModeration, bidirectional } = settings;
  const { trafficClass, mode, outstanding, inlineBytes } = settings;
  // Queue pairs are the connection manager's own: those of UD stand beside a connection.
  const isCm = connection !== "UD", hasTos = isCm && trafficClass !== 0;
  return [
    ...(mode === "interrupt"
      ? [
        [" Test with events. Using ", null, `${device}_comp0`],
        [null, "Test with events", `Using_${device}_comp0`],
      ] as const
      : []),
    [" Dual-port       : ", "Dual_port", "OFF", "\t\t"],
    ["Device         : ", "Device", device],
    [" Number of qps   : ", "Number_of_qps", qps, "\t\t"],
    ["Transport type : ", "Transport_type", "IB"],
    [" Connection type : ", "Connection_type", connection, "\t\t"],
    ["Using SRQ      : ", "Using_SRQ", "OFF"],
    [" PCIe relax order: ", "PCIe_relax_order", "OFF", "\t\t"],
    ["Lock-free      : ", null, "OFF"],
    [" ibv_wr* API     : ", "ibv_wr_API", "OFF", "\t\t"],
    ["Using Enhanced Reorder      : ", null, "OFF"],
    [" TX depth        : ", "TX_depth", depth],
    ...(postList > 1 ? [[" Post List       : ", "Post_List", postList] as const] : []),
    ...(verb === "send" && bidirectional
      ? [[" RX depth        : ", "RX_depth", rxDepth] as const]
      : []),
    ...(measures === "bandwidth"
      ? [
        [" CQ Moderation   : ", "CQ_Moderation", cqModeration],
        [" CQE Poll Batch  : ", null, POLL_BATCH],
      ] as const
      : []),
    [" Mtu             : ", "Mtu", pathMtu, "[B]\n"],
    [" Link type       : ", "Link_type", "Ethernet"],
    [" GID index       : ", "GID_index", 0],
    verb === "read" || verb === "atomic"
      ? [" Outstand reads  : ", "Outstand_reads", outstanding]
      : [" Max inline data : ", "Max_inline_data", inlineBytes, "[B]\n"],
    [" rdma_cm QPs\t : ", "rdma_cm_QPs", isCm ? "ON" : "OFF"],
    [null, "Use_ROCm_memory", "OFF"],
    [null, "Use_MUSA_memory", "OFF"],
    [" Data ex. method : ", "Data_ex_method", "rdma_cm", hasTos ? "" : "\n"],
    ...(hasTos ? [[" \tTOS    : ", "TOS", trafficClass] as const] : []),
  ];
}

type Column<Row> = readonly [
  title: string,
  key: string,
  before: string,
  figure: Figure<Row>,
];

interface Figure<Row> {
  readonly value: (row: Row) => number;
  readonly digits: number;
  readonly width: number;
}

type RowOf<Measures extends PerftestRow["measures"]> = Extract<PerftestRow, { measures: Measures }>;

const US = 1e6, MIB = 2 ** 20;

function us<Key extends string>(key: Key): Figure<Readonly<Record<Key, number>>> {
  return { value: (row) => row[key] / US, digits: 2, width: 7 };
}

const BYTES: Figure<PerftestRow> = { value: ({ bytes }) => bytes, digits: 0, width: 7 };
const ITERATIONS: Figure<PerftestRow> = {
  value: ({ iterations }) => iterations,
  digits: 0,
  width: 0,
};

/** `REPORT_FMT_LAT` */
const LATENCY: readonly Column<RowOf<"latency">>[] = [
  [" #bytes", "MsgSize", " ", BYTES],
  [" #iterations", "n_iterations", " ", ITERATIONS],
  ["    t_min[usec]", "t_min", "          ", us("minPs")],
  ["    t_max[usec]", "t_max", "        ", us("maxPs")],
  ["  t_typical[usec]", "t_typical", "      ", us("typicalPs")],
  ["    t_avg[usec]", "t_avg", "  \t       ", us("averagePs")],
  ["    t_stdev[usec]", "t_stdev", "     \t", us("stdevPs")],
  ["   99% percentile[usec]", "percentile_99", "\t\t", us("p99Ps")],
  ["   99.9% percentile[usec] ", "percentile_99.9", " \t\t", us("p999Ps")],
];

const TRANSACTIONS: Figure<RowOf<"latency-rate">> = {
  value: ({ transactionsPerSecond }) => transactionsPerSecond,
  digits: 2,
  width: 7,
};

/** `REPORT_FMT_LAT_DUR` */
const LATENCY_RATE: readonly Column<RowOf<"latency-rate">>[] = [
  [" #bytes", "MsgSize", " ", BYTES],
  ["        #iterations", "n_iterations", "       ", ITERATIONS],
  ["       t_avg[usec]", "t_avg", "            ", us("averagePs")],
  ["    tps average", "tps_average", "        ", TRANSACTIONS],
];

/** `REPORT_FMT`, or `REPORT_FMT_EXT` for what two digits do not show. */
function bandwidthColumns(
  form: PerftestForm,
  isSmall: boolean,
): readonly Column<RowOf<"bandwidth">>[] {
  const unit = form.gbits ? "Gb/sec" : "MiB/sec";
  const iterations = isSmall ? ITERATIONS : { ...ITERATIONS, width: 10 };
  const rate = (value: Figure<RowOf<"bandwidth">>["value"]) => ({
    value: (row: RowOf<"bandwidth">) => inUnit(value(row), form),
    digits: isSmall ? 6 : 2,
    width: 7,
  });
  const peak = rate((row) => row.peakBytesPerSecond ?? 0);
  const average = rate((row) => row.averageBytesPerSecond);
  const messages = { value: messageRate, digits: 6, width: 7 };
  return [
    [" #bytes", "MsgSize", " ", BYTES],
    ["     #iterations", "n_iterations", "    ", iterations],
    [`    BW peak[${unit}]`, "BW_peak", isSmall ? "           " : "       ", peak],
    [`    BW average[${unit}]`, "BW_average", "            ", average],
    ["   MsgRate[Mpps]", "MsgRate", isSmall ? "            " : "\t\t     ", messages],
  ];
}

function messageRate({ messagesPerSecond }: RowOf<"bandwidth">): number {
  return messagesPerSecond / 1e6;
}

export function titlesOf({ test, settings }: PerftestResult, form: PerftestForm): string {
  const columns = PERFTEST[test].measures === "bandwidth"
    ? bandwidthColumns(form, false)
    : settings.isTimed
    ? LATENCY_RATE
    : LATENCY;
  return columns.map(([title]) => title).join("");
}

export interface Cell {
  readonly key: string;
  readonly text: string;
  readonly padded: string;
}

export function cellsOf(row: PerftestRow, form: PerftestForm): readonly Cell[] {
  switch (row.measures) {
    case "latency":
      return cells(LATENCY, row);
    case "latency-rate":
      return cells(LATENCY_RATE, row);
    case "bandwidth": {
      const isSmall = form.gbits === true && inUnit(row.averageBytesPerSecond, form) < 0.1;
      return cells(bandwidthColumns(form, isSmall), row);
    }
  }
}

export function lineOf(row: PerftestRow, form: PerftestForm): string {
  return cellsOf(row, form).map(({ padded }) => padded).join("");
}

function cells<Row>(columns: readonly Column<Row>[], row: Row): readonly Cell[] {
  return columns.map(([, key, before, { value, digits, width }]) => {
    const text = value(row).toFixed(digits);
    return { key, text, padded: before + left(text, width) };
  });
}

/** The one figure of `--output`, with its key in the JSON. */
export function outputOf(
  row: PerftestRow,
  form: PerftestForm,
): { readonly key: string; readonly value: number } {
  if (row.measures === "latency") return { key: "avg_lat", value: row.averagePs / US };
  if (row.measures === "latency-rate") return { key: "t_avg", value: row.averagePs / US };
  if (form.output === "message_rate") {
    return { key: "msgRate_avg", value: messageRate(row) };
  }
  return { key: "bw_avg", value: inUnit(row.averageBytesPerSecond, form) };
}

/** MiB or 10⁹ bits a second. */
export function inUnit(bytesPerSecond: number, { gbits = false }: PerftestForm): number {
  return gbits ? bytesPerSecond * 8 / 1e9 : bytesPerSecond / MIB;
}
