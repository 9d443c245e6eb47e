/**
 * Over a cable one frame comes after the other, at its rate: at ports no two frames lie on each other, neither
 * where they are sent nor where they have come, whatever faults of the cable have done to them. Judged by
 * the instants of a frame's first and last bit where frames were recorded.
 */
import { countOf } from "./finding.ts";
import type { Checker } from "./run_record.ts";

export const lineRate: Checker = {
  name: "ports-keep-their-rate",
  promise:
    "A port sends, and receives, one frame after the other at the rate of its cable, also where the cable " +
    "delays, doubles or reorders them.",
  looked: ({ wire }) =>
    wire === undefined
      ? "frames were not recorded"
      : countOf(wire.rates.frames, "frame at a port", "frames at ports"),
  subjects: ({ wire }) => wire?.rates.frames ?? 0,
  without: "no frame was sent or received",
  check: ({ wire }) => [...wire?.rates.findings ?? []],
};
