/** Seeded faults for the wire of the rig: loss, duplication, reordering, delay, corruption. */
import { type Rng, rngFor } from "../../../fabric/base/rng.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { frameEcn, markCongestion } from "../../../fabric/wire/roce/frame_peek.ts";
import { ECN } from "../../../fabric/wire/roce/ipv4.ts";
import { encodePfc } from "../../../fabric/wire/roce/pfc.ts";
import type { Fault } from "./program_flush_testing.ts";
import { LOSSLESS_PRIORITY, type Run } from "./program_rig_testing.ts";
import { pick } from "./program_testing.ts";
import type { FrameFate } from "./rig_parts_testing.ts";

/** Longest delay: much less than the local ACK time-out of the programs, 65.5 µs. */
const DELAY_MAX_PS: Time = 12_000_000;

const KINDS = ["drop", "flip", "twice", "again", "delay", "late-again"] as const;

/**
 * Faults within the retry limits: either rare for all of the run, or frequent for so few frames that
 * no message can meet eight in a row.
 */
export function faultsWithinLimits(seed: number): Fault {
  const rng = rngFor(seed, "faults");
  const isBurst = rng.below(2) === 0;
  const share = isBurst ? 10 + rng.below(50) : 1 + rng.below(7);
  let left = isBurst ? 7 : Infinity;
  const from = rng.below(40);
  // Some runs have one kind of fault only, some one direction only.
  const kinds = rng.below(3) === 0 ? [pick(rng, KINDS)] : KINDS;
  const only = pick(rng, [undefined, undefined, "a", "b"] as const);
  let seen = 0;
  return (side, frame): FrameFate => {
    if (seen++ < from && isBurst) return "pass";
    if (left === 0 || (only !== undefined && side !== only) || rng.below(100) >= share) {
      return "pass";
    }
    left--;
    return fateOf(rng, pick(rng, kinds), frame.bytes.length);
  };
}

function fateOf(rng: Rng, kind: typeof KINDS[number], bytes: number): FrameFate {
  switch (kind) {
    case "drop":
    case "twice":
      return kind;
    case "flip":
      return { flipBit: rng.below(8 * bytes) };
    case "again":
      return { againPs: rng.below(2_000_000) };
    case "late-again":
      return { againPs: rng.below(8 * DELAY_MAX_PS) };
    case "delay":
      return { delayPs: rng.below(DELAY_MAX_PS) };
  }
}

/** A switch in front of both ends marks a tenth of the frames, and asks for short pauses now and then. */
export function withCongestion(run: Run, fault: Fault): Fault {
  const rng = rngFor(run.program.seed, "congestion");
  const { a, b } = run.rig;
  return (side, frame, count): FrameFate => {
    const fate = fault(side, frame, count);
    const luck = rng.below(100);
    if (luck < 5) {
      const priorities = 1 << LOSSLESS_PRIORITY;
      const pause = encodePfc({ sourceMac: 0x0200_ff00_0001, priorities, quanta: rng.below(600) });
      run.rig.inject(rng.below(2) === 0 ? a : b, pause);
    }
    const isMarkable = fate === "pass" && frameEcn(frame.bytes) !== ECN.notCapable;
    return luck >= 90 && isMarkable ? { replaceBy: markCongestion(frame.bytes) } : fate;
  };
}

/** Faults beyond the limits: from some frame on one way, or both, loses much or everything. */
export function faultsBeyondLimits(seed: number): Fault {
  const rng = rngFor(seed, "cut");
  const begin = rng.below(60);
  const share = pick(rng, [100, 100, 100, 90, 60]);
  const only = pick(rng, [undefined, "a", "b"] as const);
  const milder = faultsWithinLimits(seed);
  let seen = 0;
  return (side, frame, count): FrameFate => {
    const isCut = seen++ >= begin && (only === undefined || only === side);
    if (isCut && rng.below(100) < share) return "drop";
    return milder(side, frame, count);
  };
}
