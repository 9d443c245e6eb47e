/** fio's `--output-format=json` and `json+` (`stat.c`: show_thread_status_json, add_ddir_status_json). */
import { type Direction, DIRECTIONS } from "../../../nodes/host/programs/fio/job.ts";
import { valueOf } from "../../../nodes/host/programs/fio/histogram.ts";
import {
  CLASS_BOUNDS,
  type DirectionStats,
  type Latency,
} from "../../../nodes/host/programs/fio/stats.ts";
import type { FioRun } from "../run_fio.ts";
import { ctime } from "./ctime.ts";
import {
  deviationOf,
  type GroupDirection,
  groupsOf,
  iopsOf,
  millisecondsOf,
  percentilesOf,
  rateOf,
  type Row,
  rowsOf,
  shareOfGroup,
  sharesOf,
  totalOf,
} from "./group.ts";

export interface JsonContext {
  readonly version: string;
  readonly now: Date;
  /** With the histograms (`json+`). */
  readonly withBins: boolean;
}

/** The document: fio's, with what only a rack has under `rackmesh`. */
export function fioJson(run: FioRun, context: JsonContext): Record<string, unknown> {
  const { version, now } = context;
  const rows = rowsOf(run.threads);
  const groups = groupsOf(rows);
  const { digest, virtualPs, checks, warnings = [] } = run.report;
  return {
    "fio version": version,
    timestamp: Math.floor(now.getTime() / 1000),
    timestamp_ms: now.getTime(),
    time: ctime(now),
    "global options": run.globals,
    jobs: rows.map((row) => {
      const { directions } = groups.find(({ groupId }) => groupId === row.groupId)!;
      return jobOf(row, { context, directions, virtualPs });
    }),
    disk_util: [],
    rackmesh: { scenario: run.scenario, seed: run.seed, digest, virtualPs, checks, warnings },
  };
}

type Directions = ReadonlyMap<Direction, GroupDirection>;

function jobOf(
  row: Row,
  { context, directions, virtualPs }: {
    readonly context: JsonContext;
    readonly directions: Directions;
    readonly virtualPs: number;
  },
): Record<string, unknown> {
  const { stats, error, shown } = row;
  const ios = totalOf(DIRECTIONS.map((direction) => stats[direction].ios));
  const io = (direction: Direction) =>
    directionOf(stats[direction], { row, context, rate: directions.get(direction)?.rate ?? 0 });
  const usr = row.threadsPs === 0 ? 0 : 100 * row.corePs / row.threadsPs;
  const [nanoseconds, microseconds, milliseconds] = [0, 10, 20].map((at) =>
    stats.classes.slice(at)
  );
  return {
    jobname: row.name,
    groupid: row.groupId,
    job_start: context.now.getTime() + Math.round(row.startPs / 1e9),
    error: error?.code ?? 0,
    ...(error !== undefined && { error_text: error.text }),
    eta: 0,
    elapsed: 1 + Math.floor(virtualPs / 1e12),
    "job options": row.options,
    read: io("read"),
    write: io("write"),
    trim: directionOf(NO_TRIM, { row, context, rate: 0 }),
    sync: { total_ios: 0, lat_ns: latencyOf(NO_LATENCY, { shown: false, row, context }) },
    job_runtime: millisecondsOf(row.threadsPs),
    usr_cpu: usr,
    sys_cpu: 0,
    ctx: 0,
    majf: 0,
    minf: 0,
    iodepth_level: levels(DEPTHS, stats.depths, ios),
    iodepth_submit: levels(BATCHES, stats.submits, totalOf(stats.submits)),
    iodepth_complete: levels(BATCHES, stats.completes, totalOf(stats.completes)),
    latency_ns: classes(CLASS_NAMES, nanoseconds!, ios),
    latency_us: classes(CLASS_NAMES, microseconds!, ios),
    latency_ms: classes([...CLASS_NAMES, "2000", ">=2000"], milliseconds!, ios),
    latency_depth: row.iodepth,
    latency_target: 0,
    latency_percentile: 100,
    latency_window: 0,
    ...(shown.description !== undefined && { desc: shown.description }),
  };
}

const DEPTHS = ["1", "2", "4", "8", "16", "32", ">=64"];
const BATCHES = ["0", "4", "8", "16", "32", "64", ">=64"];
const CLASS_NAMES = CLASS_BOUNDS.map(String);

function levels(names: readonly string[], counts: readonly number[], total: number) {
  return named(names, sharesOf(counts, { total, least: 0.1, length: names.length }));
}

function classes(names: readonly string[], counts: readonly number[], total: number) {
  return named(names, sharesOf(counts, { total, least: 0.01, length: names.length }));
}

/**
 * Keys in fio's order: JavaScript puts those that are whole numbers first, in ascending order, which fio's
 * are.
 */
function named(names: readonly string[], values: readonly number[]): Record<string, number> {
  return Object.fromEntries(names.map((name, i) => [name, values[i]!]));
}

const NO_MOMENTS = { samples: 0, min: 0, max: 0, mean: 0, squares: 0 };
const NO_LATENCY: Latency = { ...NO_MOMENTS, buckets: [] };
const NO_TRIM: DirectionStats = {
  bytes: 0,
  ios: 0,
  shortIos: 0,
  runtimePs: 0,
  slat: NO_LATENCY,
  clat: NO_LATENCY,
  lat: NO_LATENCY,
  bw: NO_MOMENTS,
  iops: NO_MOMENTS,
};

function directionOf(
  stats: DirectionStats,
  { row, context, rate: groupRate }: {
    readonly row: Row;
    readonly context: JsonContext;
    readonly rate: number;
  },
): Record<string, unknown> {
  const { shown } = row;
  const { bytes, ios, shortIos, runtimePs, bw, iops } = stats;
  const rate = rateOf(stats);
  return {
    io_bytes: bytes,
    io_kbytes: Math.floor(bytes / 1024),
    bw_bytes: rate,
    bw: Math.floor(rate / 1024),
    iops: iopsOf(stats),
    runtime: millisecondsOf(runtimePs),
    runtime_ns: Math.round(runtimePs / 1000),
    total_ios: ios,
    short_ios: shortIos,
    drop_ios: 0,
    slat_ns: latencyOf(stats.slat, { shown: shown.slatPercentiles, row, context }),
    clat_ns: latencyOf(stats.clat, { shown: shown.clatPercentiles, row, context }),
    lat_ns: latencyOf(stats.lat, { shown: shown.latPercentiles, row, context }),
    bw_min: bw.min,
    bw_max: bw.max,
    bw_agg: bw.samples === 0 ? 0 : shareOfGroup(bw.mean, groupRate),
    bw_mean: bw.mean,
    bw_dev: deviationOf(bw),
    bw_samples: bw.samples,
    iops_min: iops.min,
    iops_max: iops.max,
    iops_mean: iops.mean,
    iops_stddev: deviationOf(iops),
    iops_samples: iops.samples,
  };
}

function latencyOf(
  latency: Latency,
  { shown, row, context: { withBins } }: {
    readonly shown: boolean;
    readonly row: Row;
    readonly context: JsonContext;
  },
): Record<string, unknown> {
  const { samples, min, max, mean, buckets } = latency;
  const { list } = row.shown.percentiles;
  const plain = { min, max, mean, stddev: deviationOf(latency), N: samples };
  if (!shown || samples === 0) return plain;
  const values = percentilesOf(latency, list);
  return {
    ...plain,
    percentile: Object.fromEntries(list.map((each, i) => [each.toFixed(6), values[i]!])),
    ...(withBins && {
      bins: Object.fromEntries(buckets.map(([bucket, count]) => [valueOf(bucket), count])),
    }),
  };
}
