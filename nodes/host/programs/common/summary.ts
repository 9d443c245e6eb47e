import type { Time } from "../../../../fabric/base/time.ts";

export function outcomeOf(
  error: string | undefined,
): { readonly status: "done" | "failed"; readonly error?: string } {
  return error === undefined ? { status: "done" } : { status: "failed", error };
}

/** Latencies in ps, as in reports. */
export interface LatencySummary {
  /** Samples. */
  readonly count: number;
  /** The shortest. */
  readonly min: Time;
  /** Half are at most as long. */
  readonly median: Time;
  /** 99 % are at most as long. */
  readonly p99: Time;
  /** The longest. */
  readonly max: Time;
  /** The mean, a whole number of ps. */
  readonly mean: Time;
}

function percentile(sorted: Float64Array, part: number): Time {
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)]!;
}

/** In ps, without negative ones (never finished); undefined without any. */
export function summarize(samples: Float64Array): LatencySummary | undefined {
  const sorted = samples.filter((sample) => sample >= 0).sort();
  if (sorted.length === 0) return undefined;
  let sum = 0;
  for (const sample of sorted) sum += sample;
  return {
    count: sorted.length,
    min: sorted[0]!,
    median: percentile(sorted, 0.5),
    p99: percentile(sorted, 0.99),
    max: sorted[sorted.length - 1]!,
    mean: Math.round(sum / sorted.length),
  };
}

/** @returns [from, to) of messages whose flag has `bit`; adjacent ones are joined. */
export function rangesOf(
  flags: Uint8Array,
  bit: number,
  size: { readonly messageBytes: number; readonly totalBytes: number },
): [from: number, to: number][] {
  const { messageBytes, totalBytes } = size;
  const ranges: [number, number][] = [];
  for (let i = 0; i < flags.length; i++) {
    if ((flags[i]! & bit) === 0) continue;
    const from = i * messageBytes, to = Math.min(from + messageBytes, totalBytes);
    const last = ranges[ranges.length - 1];
    if (last !== undefined && last[1] === from) last[1] = to;
    else ranges.push([from, to]);
  }
  return ranges;
}
