/**
 * Rows of fio's output, of threads or of groups with `group_reporting`, and the figures of each
 * group (`stat.c`: sum_thread_stats, __show_run_stats).
 */
import { PS_PER_S, type Time } from "../../../fabric/base/time.ts";
import { valueOf } from "../../../nodes/host/programs/fio/histogram.ts";
import { type Direction, DIRECTIONS, type JobError } from "../../../nodes/host/programs/fio/job.ts";
import {
  CLASS_BOUNDS,
  type DirectionStats,
  type Latency,
  type Moments,
  type ThreadStats,
} from "../../../nodes/host/programs/fio/stats.ts";
import type { Shown } from "../shown.ts";
import type { FioThread } from "../run_fio.ts";

export interface Row {
  readonly name: string;
  readonly host: string;
  /** Of the first thread, from 1, in the place of fio's process. */
  readonly number: number;
  readonly groupId: number;
  readonly threads: number;
  readonly iodepth: number;
  readonly shown: Shown;
  readonly options: Readonly<Record<string, string>>;
  readonly error?: JobError;
  readonly startPs: Time;
  /** Sums of the threads' run times, and of their cores' time in it. */
  readonly threadsPs: Time;
  readonly corePs: Time;
  readonly stats: ThreadStats;
}

export interface GroupDirection {
  readonly bytes: number;
  /** Bytes/s of all together, and of the slowest and fastest row. */
  readonly rate: number;
  readonly leastRate: number;
  readonly mostRate: number;
  readonly leastPs: Time;
  readonly mostPs: Time;
}

/** Bytes/s, from the exact time: a run of the rack may last less than fio's millisecond. */
export function rateOf({ bytes, runtimePs }: Pick<DirectionStats, "bytes" | "runtimePs">): number {
  return runtimePs === 0 ? 0 : Math.floor(bytes * PS_PER_S / runtimePs);
}

export function iopsOf({ ios, runtimePs }: Pick<DirectionStats, "ios" | "runtimePs">): number {
  return runtimePs === 0 ? 0 : ios * PS_PER_S / runtimePs;
}

/** fio's unit of run times, at least 1 where there was any. */
export function millisecondsOf(ps: Time): number {
  return ps <= 0 ? 0 : Math.max(1, Math.round(ps / 1e9));
}

/** Threads that have I/O of their own, or that failed; servers that only serve have no row. */
export function rowsOf(threads: readonly FioThread[]): Row[] {
  const rows: Row[] = [];
  for (const thread of threads) {
    const row = rowOf(thread);
    if (row === undefined) continue;
    const last = rows.at(-1);
    const isOne = last !== undefined && row.shown.groupReporting && last.shown.groupReporting &&
      last.groupId === row.groupId && last.host === row.host;
    if (isOne) rows[rows.length - 1] = merged(last, row);
    else rows.push(row);
  }
  return rows;
}

function rowOf({ job, host, groupId, shown, options, result }: FioThread): Row | undefined {
  const { error, stats, startPs = 0 } = result ?? {
    error: { code: 110, text: "ETIMEDOUT: the job has not ended" },
  };
  if (stats === undefined && error === undefined) return undefined;
  const found = wanted(stats ?? NOTHING, shown);
  return {
    name: job.name,
    host,
    number: job.index + 1,
    groupId,
    threads: 1,
    iodepth: job.iodepth,
    shown,
    options,
    ...(error !== undefined && { error }),
    startPs,
    threadsPs: found.runtimePs,
    // A thread that polls takes all of its core.
    corePs: job.engine === "rdma" ? found.workPs : found.runtimePs,
    stats: found,
  };
}

const NO_MOMENTS: Moments = { samples: 0, min: 0, max: 0, mean: 0, squares: 0 };
export const NO_LATENCY: Latency = { ...NO_MOMENTS, buckets: [] };
export const NO_IO: DirectionStats = {
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
const NOTHING: ThreadStats = {
  read: NO_IO,
  write: NO_IO,
  runtimePs: 0,
  workPs: 0,
  classes: [],
  depths: [],
  submits: [],
  completes: [],
};

/** Without latencies that are disabled; fio's classes are of completion latencies. */
function wanted(stats: ThreadStats, { noSlat, noClat, noLat }: Shown): ThreadStats {
  const of = (io: DirectionStats): DirectionStats => ({
    ...io,
    ...(noSlat && { slat: NO_LATENCY }),
    ...(noClat && { clat: NO_LATENCY }),
    ...(noLat && { lat: NO_LATENCY }),
  });
  return {
    ...stats,
    read: of(stats.read),
    write: of(stats.write),
    ...(noClat && { classes: [] }),
  };
}

function merged(one: Row, other: Row): Row {
  const { stats: x } = one, { stats: y } = other;
  const error = one.error ?? other.error;
  return {
    ...one,
    threads: one.threads + other.threads,
    ...(error !== undefined && { error }),
    startPs: Math.min(one.startPs, other.startPs),
    threadsPs: one.threadsPs + other.threadsPs,
    corePs: one.corePs + other.corePs,
    stats: {
      read: mergedIo(x.read, y.read),
      write: mergedIo(x.write, y.write),
      runtimePs: Math.max(x.runtimePs, y.runtimePs),
      workPs: x.workPs + y.workPs,
      classes: sums(x.classes, y.classes),
      depths: sums(x.depths, y.depths),
      submits: sums(x.submits, y.submits),
      completes: sums(x.completes, y.completes),
    },
  };
}

function sums(one: readonly number[], other: readonly number[]): number[] {
  const length = Math.max(one.length, other.length);
  return Array.from({ length }, (_, i) => (one[i] ?? 0) + (other[i] ?? 0));
}

function mergedIo(one: DirectionStats, other: DirectionStats): DirectionStats {
  return {
    bytes: one.bytes + other.bytes,
    ios: one.ios + other.ios,
    shortIos: one.shortIos + other.shortIos,
    runtimePs: Math.max(one.runtimePs, other.runtimePs),
    slat: mergedLatency(one.slat, other.slat),
    clat: mergedLatency(one.clat, other.clat),
    lat: mergedLatency(one.lat, other.lat),
    bw: added(one.bw, other.bw),
    iops: added(one.iops, other.iops),
  };
}

/** Chan et al.'s parallel algorithm, as fio's __sum_stat. */
function mergedLatency(one: Latency, other: Latency): Latency {
  if (one.samples === 0 || other.samples === 0) return one.samples === 0 ? other : one;
  const samples = one.samples + other.samples;
  const delta = other.mean - one.mean;
  const buckets = new Map(one.buckets);
  for (const [bucket, count] of other.buckets) {
    buckets.set(bucket, (buckets.get(bucket) ?? 0) + count);
  }
  return {
    samples,
    min: Math.min(one.min, other.min),
    max: Math.max(one.max, other.max),
    mean: (one.mean * one.samples + other.mean * other.samples) / samples,
    squares: one.squares + other.squares + delta ** 2 * one.samples * other.samples / samples,
    buckets: [...buckets].sort(([x], [y]) => x - y),
  };
}

/** Parallel work of threads adds up (fio's `pure_sum`). */
function added(one: Moments, other: Moments): Moments {
  if (one.samples === 0 || other.samples === 0) return one.samples === 0 ? other : one;
  return {
    samples: one.samples + other.samples,
    min: one.min + other.min,
    max: one.max + other.max,
    mean: one.mean + other.mean,
    squares: one.squares + other.squares,
  };
}

/** Of a sample (calc_lat). */
export function deviationOf({ samples, squares }: Moments): number {
  return samples > 1 ? Math.sqrt(squares / (samples - 1)) : 0;
}

/** A latency in ns at each percentile of the list (calc_clat_percentiles). */
export function percentilesOf({ samples, buckets }: Latency, list: readonly number[]): number[] {
  const values: number[] = [];
  let sum = 0;
  for (const [bucket, count] of buckets) {
    sum += count;
    while (values.length < list.length && sum >= list[values.length]! / 100 * samples) {
      values.push(valueOf(bucket));
    }
  }
  return values;
}

export type Share = readonly [name: string, percent: number];

/** A share that is not 0 is shown as `least` or more. */
function sharesOf(
  names: readonly string[],
  counts: readonly number[],
  { total, least }: { readonly total: number; readonly least: number },
): Share[] {
  return names.map((name, i) => {
    const count = counts[i] ?? 0;
    return [name, count === 0 || total === 0 ? 0 : Math.max(least, 100 * count / total)];
  });
}

const DEPTHS = ["1", "2", "4", "8", "16", "32", ">=64"];
const BATCHES = ["0", "4", "8", "16", "32", "64", ">=64"];

/** How many I/Os were outstanding, submitted together and completed together (stat_calc_dist). */
export function levelsOf({ stats }: Row) {
  const levels = (names: readonly string[], counts: readonly number[], total: number) =>
    sharesOf(names, counts, { total, least: 0.1 });
  return {
    depths: levels(DEPTHS, stats.depths, iosOf(stats)),
    submits: levels(BATCHES, stats.submits, totalOf(stats.submits)),
    completes: levels(BATCHES, stats.completes, totalOf(stats.completes)),
  };
}

const CLASSES = CLASS_BOUNDS.map(String);

/** Completion latencies by class, of each unit (stat_calc_lat_nu, stat_calc_lat_m). */
export function classesOf({ stats }: Row) {
  const names = { nsec: CLASSES, usec: CLASSES, msec: [...CLASSES, "2000", ">=2000"] };
  const total = iosOf(stats);
  const shares = (unit: keyof typeof names, from: number) =>
    sharesOf(names[unit], stats.classes.slice(from), { total, least: 0.01 });
  return {
    nsec: shares("nsec", 0),
    usec: shares("usec", CLASSES.length),
    msec: shares("msec", 2 * CLASSES.length),
  };
}

/** Time of the row's cores, in percent of its threads' run times. */
export function busyOf({ threadsPs, corePs }: Row): number {
  return threadsPs === 0 ? 0 : 100 * corePs / threadsPs;
}

export function iosOf(stats: ThreadStats): number {
  return totalOf(DIRECTIONS.map((direction) => stats[direction].ios));
}

function totalOf(counts: readonly number[]): number {
  return counts.reduce((sum, each) => sum + each, 0);
}

/** By number, each with the directions that moved data. */
export function groupsOf(
  rows: readonly Row[],
): { readonly groupId: number; readonly directions: Map<Direction, GroupDirection> }[] {
  return [...new Set(rows.map(({ groupId }) => groupId))].map((groupId) => {
    const own = rows.filter((row) => row.groupId === groupId);
    const directions = new Map<Direction, GroupDirection>();
    for (const direction of DIRECTIONS) {
      const used = own.map(({ stats }) => stats[direction]).filter(({ ios }) => ios > 0);
      if (used.length === 0) continue;
      const times = used.map(({ runtimePs }) => runtimePs), rates = used.map(rateOf);
      const bytes = totalOf(used.map((each) => each.bytes)), mostPs = Math.max(...times);
      directions.set(direction, {
        bytes,
        rate: rateOf({ bytes, runtimePs: mostPs }),
        leastRate: Math.min(...rates),
        mostRate: Math.max(...rates),
        leastPs: Math.min(...times),
        mostPs,
      });
    }
    return { groupId, directions };
  });
}

/** In percent of the group's bandwidth (convert_agg_kbytes_percent). */
export function shareOfGroup(meanKib: number, groupRate: number): number {
  return groupRate > 1024 ? Math.min(100, 100 * Math.floor(meanKib) / (groupRate / 1024)) : 100;
}
