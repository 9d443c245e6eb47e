/** Frames of one cable as a capture file: the run again, with an observer. */
import { captureOf, type CaptureWindow } from "../../fabric/capture/capture.ts";
import type { SeenEvent } from "../../fabric/capture/instants.ts";
import type { Observation, Observer } from "../../fabric/capture/observation.ts";
import { joined } from "../../fabric/base/slab.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import type { Simulator } from "../../fabric/partition/simulator.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { CAPTURED_MAX } from "../api/replay_terms.ts";

const SLICE_PS = PS_PER_US, TURN_MS = 50;
/** A section and two interfaces come before the frames. */
const HEADS = 3;

/** What an observer has seen, as events in the order in which they happened. */
export class SeenInOrder {
  #seen: Observation[] = [];
  readonly observer: Observer = {
    scope: "frames",
    see: (observation) => void this.#seen.push(observation),
    commit: () => {},
  };

  *take(): Generator<SeenEvent> {
    const all = this.#seen;
    this.#seen = [];
    for (let from = 0; from < all.length;) {
      const { time, node, event } = all[from]!;
      let to = from + 1;
      while (to < all.length && all[to]!.node === node && all[to]!.event === event) to++;
      yield { time, node, seen: all.slice(from, to) };
      from = to;
    }
  }
}

export interface Captured {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly frames: number;
}

/**
 * @param options.simulator at the start of the run, observed by `seen`.
 * @throws Refusal where more frames pass than one file takes.
 */
export function captureCable(
  plan: RackPlan,
  { simulator, seen, label, only, onTurn }: {
    readonly simulator: Simulator;
    readonly seen: SeenInOrder;
    readonly label: string;
    readonly only: CaptureWindow;
    /** Now and then. */
    readonly onTurn: () => void;
  },
): Captured {
  function* events(): Generator<SeenEvent> {
    for (let turnAt = performance.now() + TURN_MS; simulator.next < only.to;) {
      simulator.run(Math.min(only.to, simulator.next + SLICE_PS));
      yield* seen.take();
      if (performance.now() < turnAt) continue;
      onTurn();
      turnAt = performance.now() + TURN_MS;
    }
  }
  const blocks: Uint8Array[] = [];
  for (const block of captureOf(plan, { label, events: events(), only })) {
    blocks.push(block);
    if (blocks.length - HEADS <= CAPTURED_MAX) continue;
    throw refusal("", {
      found: `more than ${CAPTURED_MAX} frames between the two instants`,
      expected: "a shorter time, or the last ones alone",
    });
  }
  return { bytes: joined(blocks), frames: blocks.length - HEADS };
}
