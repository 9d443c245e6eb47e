/** From times to the figures that perftest prints. Pure. */
import { PS_PER_S, type Time } from "../../../../fabric/time/time.ts";
import type { StreamTimes } from "./stream.ts";

/** A line of a latency test, in ps. */
export interface LatencyFigures {
  readonly minPs: number;
  readonly maxPs: number;
  /** The median. */
  readonly typicalPs: number;
  readonly averagePs: number;
  readonly stdevPs: number;
  readonly p99Ps: number;
  readonly p999Ps: number;
}

/**
 * Latencies between consecutive posts, as perftest measures: n posts give n − 1 of them.
 * @param posts in ps; at least two.
 * @param trips one-way trips in each: 2 in a ping-pong, of which half is reported.
 */
export function latencyFigures(posts: readonly Time[], trips: 1 | 2): LatencyFigures {
  const latencies = posts.slice(1).map((post, i) => (post - posts[i]!) / trips);
  latencies.sort((x, y) => x - y);
  const count = latencies.length;
  const at = (share: number) => latencies[Math.max(0, Math.ceil(share * count) - 1)]!;
  const averagePs = latencies.reduce((sum, each) => sum + each, 0) / count;
  const variance = latencies.reduce((sum, each) => sum + (each - averagePs) ** 2, 0) / count;
  const middle = count >> 1;
  return {
    minPs: latencies[0]!,
    maxPs: latencies[count - 1]!,
    typicalPs: count % 2 === 1
      ? latencies[middle]!
      : (latencies[middle - 1]! + latencies[middle]!) / 2,
    averagePs,
    stdevPs: Math.sqrt(variance),
    p99Ps: at(0.99),
    p999Ps: at(0.999),
  };
}

/** A line of a bandwidth test. */
export interface BandwidthFigures {
  /** The best that any stretch of messages had, bytes of payload per second; null for too many. */
  readonly peakBytesPerSecond: number | null;
  readonly averageBytesPerSecond: number;
  readonly messagesPerSecond: number;
}

/** The peak looks at all pairs of messages: perftest does without beyond so many, too. */
const PEAK_MESSAGES_MAX = 20_000;

/**
 * Average: everything between the first post and the last completion. Peak: the least time per message
 * over all stretches from a post to a later completion.
 * @param times one entry per message, at least one.
 */
export function bandwidthFigures(times: StreamTimes, bytes: number): BandwidthFigures {
  const { posted, completed } = times;
  const count = completed.length;
  const seconds = (completed[count - 1]! - posted[0]!) / PS_PER_S;
  return {
    peakBytesPerSecond: count > PEAK_MESSAGES_MAX
      ? null
      : bytes * PS_PER_S / leastPsPerMessage(times),
    averageBytesPerSecond: bytes * count / seconds,
    messagesPerSecond: count / seconds,
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
