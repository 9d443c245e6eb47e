/** A thread's measurements, as in fio's `thread_stat`. Latencies are in whole ns. */
import type { Time } from "../../../../fabric/base/time.ts";
import { bucketOf } from "./histogram.ts";
import type { Direction } from "./job.ts";

/** Welford's method, as in fio's `io_stat`. */
export interface Moments {
  samples: number;
  min: number;
  max: number;
  mean: number;
  /** Σ (x − mean)². */
  squares: number;
}

/** `buckets`: hits per bucket of `histogram.ts`, ascending. */
export interface Latency extends Readonly<Moments> {
  readonly buckets: readonly (readonly [bucket: number, count: number])[];
}

export interface DirectionStats {
  readonly bytes: number;
  readonly ios: number;
  /** Fewer bytes than requested. */
  readonly shortIos: number;
  /** Time from the first start, or the end of `ramp_time`. */
  readonly runtimePs: Time;
  readonly slat: Latency;
  readonly clat: Latency;
  readonly lat: Latency;
  /** KiB/s and I/O/s, over windows of `bwavgtime` and `iopsavgtime`. */
  readonly bw: Readonly<Moments>;
  readonly iops: Readonly<Moments>;
}

export interface ThreadStats extends Readonly<Record<Direction, DirectionStats>> {
  readonly runtimePs: Time;
  readonly workPs: Time;
  /** fio's: 10 of ns, 10 of µs, 12 of ms ({@link latencyClass}). */
  readonly classes: readonly number[];
  readonly depths: readonly number[];
  readonly submits: readonly number[];
  readonly completes: readonly number[];
}

function noMoments(): Moments {
  return { samples: 0, min: 0, max: 0, mean: 0, squares: 0 };
}

function addSample(moments: Moments, value: number): void {
  moments.min = moments.samples === 0 ? value : Math.min(moments.min, value);
  moments.max = Math.max(moments.max, value);
  moments.samples++;
  const delta = value - moments.mean;
  moments.mean += delta / moments.samples;
  moments.squares += delta * (value - moments.mean);
}

class LatencyMeter {
  readonly moments = noMoments();
  readonly #buckets = new Map<number, number>();

  add(ns: number): void {
    addSample(this.moments, ns);
    const bucket = bucketOf(ns);
    this.#buckets.set(bucket, (this.#buckets.get(bucket) ?? 0) + 1);
  }

  result(): Latency {
    return { ...this.moments, buckets: [...this.#buckets].sort(([x], [y]) => x - y) };
  }
}

/** Sums amounts in windows of one length; the last counts only when complete. */
class WindowMeter {
  readonly moments = noMoments();
  #begin: Time;
  #sum = 0;

  constructor(begin: Time, readonly lengthPs: Time) {
    this.#begin = begin;
  }

  add(now: Time, amount: number): void {
    while (now - this.#begin >= this.lengthPs) {
      addSample(this.moments, Math.floor(this.#sum * 1e12 / this.lengthPs));
      this.#begin += this.lengthPs;
      this.#sum = 0;
    }
    this.#sum += amount;
  }
}

export interface IoTimes {
  readonly start: Time;
  /** A job with `sync` has no submission latency. */
  readonly issue: Time;
  readonly end: Time;
  readonly isSync: boolean;
  /** In `ramp_time` fio takes no samples, but counts moved bytes for a job that ends in it. */
  readonly isRamping: boolean;
}

const NS = 1000;

class DirectionMeter {
  bytes = 0;
  ios = 0;
  shortIos = 0;
  readonly slat = new LatencyMeter();
  readonly clat = new LatencyMeter();
  readonly lat = new LatencyMeter();

  constructor(readonly bw: WindowMeter, readonly iops: WindowMeter) {}

  add(bytes: number, { start, issue, end, isSync, isRamping }: IoTimes): void {
    this.bytes += bytes;
    this.ios++;
    if (isRamping) return;
    if (!isSync) this.slat.add(Math.floor((issue - start) / NS));
    this.clat.add(Math.floor((end - issue) / NS));
    this.lat.add(Math.floor((end - start) / NS));
    this.bw.add(end, bytes / 1024);
    this.iops.add(end, 1);
  }

  result(runtimePs: Time): DirectionStats {
    const { bytes, ios, shortIos, slat, clat, lat, bw, iops } = this;
    return {
      bytes,
      ios,
      shortIos,
      runtimePs: ios === 0 ? 0 : runtimePs,
      slat: slat.result(),
      clat: clat.result(),
      lat: lat.result(),
      bw: { ...bw.moments },
      iops: { ...iops.moments },
    };
  }
}

const DEPTH_BUCKETS = 7;

/** `io_u_mark_depth`: 1, 2–3, 4–7, 8–15, 16–31, 32–63, ≥ 64. */
export function depthBucket(depth: number): number {
  return Math.min(DEPTH_BUCKETS - 1, Math.floor(Math.log2(Math.max(depth, 1))));
}

/** `__io_u_mark_map`: 0, 1–4, 5–8, 9–16, 17–32, 33–64, > 64. */
export function batchBucket(count: number): number {
  if (count === 0) return 0;
  return Math.min(DEPTH_BUCKETS - 1, Math.max(1, Math.ceil(Math.log2(count)) - 1));
}

/** Upper bounds, in each unit (`io_u_mark_lat_nsec`). */
export const CLASS_BOUNDS = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000] as const;
const CLASSES = 3 * CLASS_BOUNDS.length + 2;

/** The class of a latency in ns; ms has two more, below and from 2 s on. */
export function latencyClass(ns: number): number {
  for (const [unit, scale] of [1, 1e3, 1e6].entries()) {
    const value = Math.floor(ns / scale);
    const at = CLASS_BOUNDS.findIndex((bound) => value < bound);
    if (at >= 0) return unit * CLASS_BOUNDS.length + at;
  }
  return ns < 2e9 ? CLASSES - 2 : CLASSES - 1;
}

export class StatsMeter {
  readonly #directions: Readonly<Record<Direction, DirectionMeter>>;
  readonly #classes = new Array<number>(CLASSES).fill(0);
  readonly #depths = new Array<number>(DEPTH_BUCKETS).fill(0);
  readonly #submits = new Array<number>(DEPTH_BUCKETS).fill(0);
  readonly #completes = new Array<number>(DEPTH_BUCKETS).fill(0);

  constructor(
    readonly begin: Time,
    readonly workPs: Time,
    windows: { readonly bwWindowPs: Time; readonly iopsWindowPs: Time },
  ) {
    const meter = () =>
      new DirectionMeter(
        new WindowMeter(begin, windows.bwWindowPs),
        new WindowMeter(begin, windows.iopsWindowPs),
      );
    this.#directions = { read: meter(), write: meter() };
  }

  completed(direction: Direction, bytes: number, times: IoTimes): void {
    this.#directions[direction].add(bytes, times);
    if (times.isRamping) return;
    this.#classes[latencyClass(Math.floor((times.end - times.issue) / NS))]!++;
  }

  short(direction: Direction): void {
    this.#directions[direction].shortIos++;
  }

  /** `count` requests were posted together. */
  atDepth(count: number, depth: number): void {
    this.#depths[depthBucket(depth)]! += count;
  }

  submittedTogether(count: number, depth: number): void {
    this.atDepth(count, depth);
    this.#submits[batchBucket(count)]!++;
  }

  completedTogether(count: number): void {
    this.#completes[batchBucket(count)]!++;
  }

  result(now: Time, workPs: Time): ThreadStats {
    const runtimePs = now - this.begin;
    return {
      read: this.#directions.read.result(runtimePs),
      write: this.#directions.write.result(runtimePs),
      runtimePs,
      workPs: workPs - this.workPs,
      classes: this.#classes,
      depths: this.#depths,
      submits: this.#submits,
      completes: this.#completes,
    };
  }
}
