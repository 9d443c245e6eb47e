/** perftest's `--out_json`: the document that it writes, of one size. */
import type { PerftestResult, PerftestRow } from "../../nodes/host/programs/perftest/client.ts";
import { PERFTEST } from "../../nodes/host/programs/perftest/terms.ts";
import { DEVICE, inUnit, type PerftestForm, perftestTitle, usesCmQps } from "./perftest_table.ts";

/**
 * The document of the last size, as perftest leaves it: it writes the file anew with each size. Keys and their
 * order are perftest's (`write_test_info_to_file`, `REPORT_FMT_JSON`); what this rack does not have (memory of
 * GPUs) is OFF. Undefined where there is no row.
 */
export function perftestJson(result: PerftestResult, form: PerftestForm = {}): string | undefined {
  const row = result.rows.at(-1);
  if (row === undefined) return undefined;
  return JSON.stringify({ test_info: infoOf(result), results: resultsOf(row, form) }, null, 1);
}

function infoOf({ test, device = DEVICE, settings, pathMtu }: PerftestResult) {
  const { verb, measures } = PERFTEST[test];
  const { connection, qps, depth, rxDepth, postList, cqModeration, bidirectional } = settings;
  const isCm = usesCmQps(settings);
  return {
    test: perftestTitle(test, settings).replaceAll(" ", "_"),
    ...(settings.mode === "interrupt" && { "Test with events": `Using_${device}_comp0` }),
    Dual_port: "OFF",
    Device: device,
    Number_of_qps: qps,
    Transport_type: "IB",
    Connection_type: connection,
    Using_SRQ: "OFF",
    PCIe_relax_order: "OFF",
    ibv_wr_API: "OFF",
    TX_depth: depth,
    ...(postList > 1 && { Post_List: postList }),
    ...(verb === "send" && bidirectional && { RX_depth: rxDepth }),
    ...(measures === "bandwidth" && { CQ_Moderation: cqModeration }),
    Mtu: pathMtu,
    Link_type: "Ethernet",
    GID_index: 0,
    ...(verb === "read" || verb === "atomic"
      ? { Outstand_reads: settings.outstanding }
      : { Max_inline_data: settings.inlineBytes }),
    rdma_cm_QPs: isCm ? "ON" : "OFF",
    Use_ROCm_memory: "OFF",
    Use_MUSA_memory: "OFF",
    Data_ex_method: "rdma_cm",
    ...(isCm && settings.trafficClass !== 0 && { TOS: settings.trafficClass }),
  };
}

function resultsOf(row: PerftestRow, form: PerftestForm) {
  const rounded = (value: number, digits: number) => Number(value.toFixed(digits));
  const us = (ps: number) => rounded(ps / 1e6, 2);
  if (row.measures === "bandwidth") {
    const average = inUnit(row.averageBytesPerSecond, form);
    const rate = rounded(row.messagesPerSecond / 1e6, 6);
    if (form.output === "bandwidth") return { bw_avg: rounded(average, 6) };
    if (form.output === "message_rate") return { msgRate_avg: rate };
    const digits = average < 0.1 && form.gbits ? 6 : 2;
    return {
      MsgSize: row.bytes,
      n_iterations: row.iterations,
      BW_peak: rounded(inUnit(row.peakBytesPerSecond ?? 0, form), digits),
      BW_average: rounded(average, digits),
      MsgRate: rate,
    };
  }
  if (row.measures === "latency-rate") {
    if (form.output === "latency") return { t_avg: rounded(row.averagePs / 1e6, 6) };
    return {
      MsgSize: row.bytes,
      n_iterations: row.iterations,
      t_avg: us(row.averagePs),
      tps_average: rounded(row.transactionsPerSecond, 2),
    };
  }
  if (form.output === "latency") return { avg_lat: rounded(row.averagePs / 1e6, 6) };
  return {
    MsgSize: row.bytes,
    n_iterations: row.iterations,
    t_min: us(row.minPs),
    t_max: us(row.maxPs),
    t_typical: us(row.typicalPs),
    t_avg: us(row.averagePs),
    t_stdev: us(row.stdevPs),
    percentile_99: us(row.p99Ps),
    "percentile_99.9": us(row.p999Ps),
  };
}
