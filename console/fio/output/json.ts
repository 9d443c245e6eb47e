/**
 * fio's `--output-format=json` and `json+` (`stat.c`: show_thread_status_json,
 * add_ddir_status_json).
 */
import type { Direction } from "../../../nodes/host/programs/fio/job.ts";
import { valueOf } from "../../../nodes/host/programs/fio/histogram.ts";
import type { DirectionStats, Latency } from "../../../nodes/host/programs/fio/stats.ts";
import type { FioRun } from "../run_fio.ts";
import { ctime } from "./ctime.ts";
import {
  busyOf,
  classesOf,
  deviationOf,
  type GroupDirection,
  groupsOf,
  iopsOf,
  levelsOf,
  millisecondsOf,
  NO_IO,
  NO_LATENCY,
  percentilesOf,
  rateOf,
  type Row,
  rowsOf,
  type Share,
  shareOfGroup,
} from "./group.ts";

export interface JsonContext {
  readonly version: string;
  readonly now: Date;
  /** With the histograms (`json+`). */
  readonly withBins: boolean;
}

/** fio's document, with what only a rack has under `rackmesh`. */
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
  const { depths, submits, completes } = levelsOf(row);
  const { nsec, usec, msec } = classesOf(row);
  const io = (direction: Direction) =>
    directionOf(stats[direction], { row, context, rate: directions.get(direction)?.rate ?? 0 });
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
    trim: directionOf(NO_IO, { row, context, rate: 0 }),
    sync: { total_ios: 0, lat_ns: latencyOf(NO_LATENCY, { shown: false, row, context }) },
    job_runtime: millisecondsOf(row.threadsPs),
    usr_cpu: busyOf(row),
    sys_cpu: 0,
    ctx: 0,
    majf: 0,
    minf: 0,
    iodepth_level: named(depths),
    iodepth_submit: named(submits),
    iodepth_complete: named(completes),
    latency_ns: named(nsec),
    latency_us: named(usec),
    latency_ms: named(msec),
    latency_depth: row.iodepth,
    latency_target: 0,
    latency_percentile: 100,
    latency_window: 0,
    ...(shown.description !== undefined && { desc: shown.description }),
  };
}

/**
 * In fio's order: JavaScript puts keys that are whole numbers first, in ascending order, as they
 * stand in fio's output.
 */
function named(shares: readonly Share[]): Record<string, number> {
  return Object.fromEntries(shares);
}

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
