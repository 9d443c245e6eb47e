/** Messages of all RNICs of one host: survivors and memory do not distinguish them. */
import type { BusWrite, RackRun, Sendings } from "./rerun.ts";

type Frames = Pick<Sendings, "frames" | "frameBytes">;

/** Frames of all, ascending; those of one instant in the order of the RNICs. */
export function framesOf({ sendings }: RackRun, rnics: readonly string[]): Frames {
  const each = rnics.flatMap((rnic) => sendings.get(rnic) ?? []);
  if (each.length <= 1) return each[0] ?? { frames: [], frameBytes: [] };
  const all = each.flatMap(({ frames, frameBytes }) =>
    frames.map((at, i) => ({ at, bytes: frameBytes[i]! }))
  ).sort((x, y) => x.at - y.at);
  return { frames: all.map(({ at }) => at), frameBytes: all.map(({ bytes }) => bytes) };
}

export interface RnicWrite extends BusWrite {
  readonly rnic: string;
}

/**
 * Writes of all to their host's SCM, and lines of shared regions that they give back; RNIC by RNIC.
 */
export function writesOf(
  { sendings }: RackRun,
  rnics: readonly string[],
  what: "busWrites" | "lines",
): RnicWrite[] {
  return rnics.flatMap((rnic) =>
    (sendings.get(rnic)?.[what] ?? []).map((write) => ({ rnic, ...write }))
  );
}
