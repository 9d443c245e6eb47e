/** perftest's figures, from times. */
import { PS_PER_S, type Time } from "../../../../fabric/base/time.ts";
import type { Sampled } from "./sampling.ts";
import type { StreamTimes } from "./stream.ts";

/** Times in ps. */
export interface LatencyFigures {
  readonly minPs: number;
  readonly maxPs: number;
  readonly typicalPs: number;
  readonly averagePs: number;
  readonly stdevPs: number;
  readonly p99Ps: number;
  readonly p999Ps: number;
}

/** Longest samples excluded, except from `t_max`, the shorter of the two. */
const LATENCY_TAIL = 2;

/**
 * Between consecutive posts: n posts give n − 1. Each figure is the sample at perftest's index (`print_report_lat`);
 * only the standard deviation differs, as perftest's drops fractions of a microsecond.
 * @param posts in ps; at least two. With no more samples than the tail, none is excluded.
 * @param trips one-way trips per sample: 2 in a ping-pong, of which half is reported.
 */
export function latencyFigures(posts: readonly Time[], trips: 1 | 2): LatencyFigures {
  const sorted = latencySamples(posts, trips).sort((x, y) => x - y);
  const kept = sorted.slice(0, sorted.length > LATENCY_TAIL ? -LATENCY_TAIL : undefined);
  const count = kept.length;
  const at = (index: number) => sorted[Math.min(index, sorted.length - 1)]!;
  const averagePs = kept.reduce((sum, each) => sum + each, 0) / count;
  const variance = kept.reduce((sum, each) => sum + (each - averagePs) ** 2, 0) / count;
  const middle = count >> 1;
  return {
    minPs: at(0),
    maxPs: at(count),
    typicalPs: count % 2 === 1 ? kept[middle]! : (kept[middle - 1]! + kept[middle]!) / 2,
    averagePs,
    stdevPs: Math.sqrt(variance),
    p99Ps: at(Math.ceil(0.99 * count)),
    p999Ps: at(Math.ceil(0.999 * count)),
  };
}

export interface LatencyRate {
  readonly averagePs: number;
  /** Round trips; of READs and atomics, messages. */
  readonly transactionsPerSecond: number;
}

/** As perftest's `print_report_lat_duration`; NaN without samples. */
export function latencyRate({ count, ps }: Sampled, trips: 1 | 2): LatencyRate {
  return { averagePs: ps / trips / count, transactionsPerSecond: count / (ps / PS_PER_S) };
}

/** Latencies in ps, in the order of the messages. */
export function latencySamples(posts: readonly Time[], trips: 1 | 2): number[] {
  return posts.slice(1).map((post, i) => (post - posts[i]!) / trips);
}

export interface BandwidthFigures {
  /** The best rate over any range of messages; null for too many. */
  readonly peakBytesPerSecond: number | null;
  readonly averageBytesPerSecond: number;
  readonly messagesPerSecond: number;
}

/** The peak compares all pairs of messages, so there is none beyond. */
const PEAK_MESSAGES_MAX = 20_000;

/**
 * Average: from the first post to the last completion. Peak: the least time per message over all ranges from a post to
 * a later completion. @param times one entry per message, at least one.
 */
export function bandwidthFigures(
  times: StreamTimes,
  bytes: number,
  { peak = true }: { readonly peak?: boolean } = {},
): BandwidthFigures {
  const { posted, completed } = times;
  const count = completed.length;
  const seconds = (completed[count - 1]! - posted[0]!) / PS_PER_S;
  return {
    peakBytesPerSecond: !peak || count > PEAK_MESSAGES_MAX
      ? null
      : bytes * PS_PER_S / leastPsPerMessage(times),
    averageBytesPerSecond: bytes * count / seconds,
    messagesPerSecond: count / seconds,
  };
}

export function sampledBandwidth({ count, ps }: Sampled, bytes: number): BandwidthFigures {
  const messagesPerSecond = count / (ps / PS_PER_S);
  const averageBytesPerSecond = bytes * messagesPerSecond;
  return { peakBytesPerSecond: null, averageBytesPerSecond, messagesPerSecond };
}

export function sumOfEnds(one: BandwidthFigures, other: BandwidthFigures): BandwidthFigures {
  const [peak, otherPeak] = [one.peakBytesPerSecond, other.peakBytesPerSecond];
  return {
    peakBytesPerSecond: peak === null || otherPeak === null ? null : peak + otherPeak,
    averageBytesPerSecond: one.averageBytesPerSecond + other.averageBytesPerSecond,
    messagesPerSecond: one.messagesPerSecond + other.messagesPerSecond,
  };
}

export const FIGURES_BYTES = 33;

/** Doubles in order of the fields, messages, a mark that is not 0. */
export function encodeFigures(
  figures: BandwidthFigures,
  messages: number,
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(FIGURES_BYTES);
  const view = new DataView(bytes.buffer);
  const { peakBytesPerSecond, averageBytesPerSecond, messagesPerSecond } = figures;
  const values = [peakBytesPerSecond ?? NaN, averageBytesPerSecond, messagesPerSecond, messages];
  values.forEach((value, i) => view.setFloat64(8 * i, value));
  view.setUint8(FIGURES_BYTES - 1, 1);
  return bytes;
}

export function decodeFigures(
  bytes: Uint8Array,
): { readonly figures: BandwidthFigures; readonly messages: number } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [peak, averageBytesPerSecond, messagesPerSecond, messages] = [0, 8, 16, 24].map((at) =>
    view.getFloat64(at)
  ) as [number, number, number, number];
  const peakBytesPerSecond = Number.isNaN(peak) ? null : peak;
  return {
    figures: { peakBytesPerSecond, averageBytesPerSecond, messagesPerSecond },
    messages,
  };
}

function leastPsPerMessage({ posted, completed }: StreamTimes): number {
  let least = Infinity;
  for (let i = 0; i < completed.length; i++) {
    for (let j = i; j < completed.length; j++) {
      const each = (completed[j]! - posted[i]!) / (j - i + 1);
      if (each < least) least = each;
    }
  }
  return least;
}
