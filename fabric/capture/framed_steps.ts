/**
 * Trace lines, each with the frame that carries the step out or caused it, and the frames' ways
 * from port to port, for a ladder.
 */
import type { TimedRecord } from "../audit.ts";
import type { Time } from "../base/time.ts";
import type { Endpoint, RackPlan } from "../rack/plan/plan.ts";
import type { TraceStep } from "../node.ts";
import type { TraceLine } from "../trace/trace.ts";
import { isSame } from "./cable_effects.ts";
import { Commentator } from "./comments.ts";
import type { SeenEvent } from "./instants.ts";
import { type FrameSeen, isFrameSeen } from "./observation.ts";

export interface FramePass {
  readonly node: string;
  readonly kind: "sent" | "received";
  readonly startPs: Time;
  readonly endPs: Time;
  readonly effect?: string;
}

export interface FollowedFrame {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** In order; of a multicast's copies in the order of observation. */
  readonly passes: readonly FramePass[];
}

export interface FramedSteps {
  readonly lines: readonly TraceLine[];
  /** By {@link TraceLine.frame}. */
  readonly frames: readonly FollowedFrame[];
  readonly notes: readonly TimedRecord[];
}

interface Following {
  readonly number: number;
  readonly frame: { bytes: Uint8Array<ArrayBuffer>; passes: FramePass[] };
  /** As last seen: a switch may mark it, a cable may damage it. */
  bytes: Uint8Array<ArrayBuffer>;
}

/** Frames that the next place has not shown: more than a port ever queues. */
const FOLLOWED_MAX = 1024;

export function framedSteps(plan: RackPlan, events: Iterable<SeenEvent>): FramedSteps {
  const follower = new FrameFollower(plan);
  for (const event of events) follower.see(event);
  return follower;
}

class FrameFollower implements FramedSteps {
  readonly #plan: RackPlan;
  readonly #commentator: Commentator;
  readonly #far = new Map<string, string>();
  readonly #awaited = new Map<string, Following[]>();
  readonly #lineOf = new Map<TraceStep, number>();
  readonly lines: { -readonly [K in keyof TraceLine]: TraceLine[K] }[] = [];
  readonly frames: FollowedFrame[] = [];
  readonly notes: TimedRecord[] = [];

  constructor(plan: RackPlan) {
    this.#plan = plan;
    this.#commentator = new Commentator(plan);
    for (const { a, b } of plan.cables) {
      this.#far.set(endOf(a), endOf(b));
      this.#far.set(endOf(b), endOf(a));
    }
  }

  see(event: SeenEvent): void {
    const { time, node, seen } = event;
    const { name, kind } = this.#plan.nodes[node]!;
    for (const each of seen) {
      if (each.kind === "note") {
        this.notes.push({ time, node: name, by: each.by, note: each.note });
      }
      if (each.kind !== "step" || each.step.busy !== undefined) continue;
      this.#lineOf.set(each.step, this.lines.length);
      this.lines.push({ time, node: name, ...each.step });
    }
    const steps = this.#commentator.stepsOn(event);
    for (const each of seen) {
      if (!isFrameSeen(each)) continue;
      const { number } = each.kind === "sent"
        ? this.#sent(each, { name, forwards: kind === "switch" })
        : this.#received(each, { name, forwards: kind === "switch" });
      for (const step of steps.get(each) ?? []) {
        const line = this.#lineOf.get(step);
        if (line !== undefined) this.lines[line]!.frame = number;
      }
    }
  }

  #sent(seen: FrameSeen, at: { readonly name: string; readonly forwards: boolean }): Following {
    const following = (at.forwards ? this.#find(at.name, seen, isForwarded) : undefined) ??
      this.#begin(seen);
    passes(following, seen, at.name);
    const far = this.#far.get(`${at.name}:${seen.port}`);
    const { copies = 1, damaged } = seen.effect ?? {};
    if (damaged !== undefined) following.bytes = damaged;
    for (let i = 0; far !== undefined && i < copies; i++) this.#await(far, following);
    return following;
  }

  #received(seen: FrameSeen, at: { readonly name: string; readonly forwards: boolean }): Following {
    const following = this.#find(`${at.name}:${seen.port}`, seen, isSame) ?? this.#begin(seen);
    passes(following, seen, at.name);
    if (at.forwards) this.#await(at.name, following);
    return following;
  }

  #begin({ frame: bytes }: FrameSeen): Following {
    const frame = { bytes, passes: [] };
    this.frames.push(frame);
    return { number: this.frames.length - 1, frame, bytes };
  }

  #await(place: string, following: Following): void {
    let awaited = this.#awaited.get(place);
    if (awaited === undefined) this.#awaited.set(place, awaited = []);
    awaited.push(following);
    if (awaited.length > FOLLOWED_MAX) awaited.shift();
  }

  #find(
    place: string,
    { frame }: FrameSeen,
    isIt: (x: Uint8Array, y: Uint8Array) => boolean,
  ): Following | undefined {
    const awaited = this.#awaited.get(place) ?? [];
    const i = awaited.findIndex(({ bytes }) => bytes === frame || isIt(bytes, frame));
    return i < 0 ? undefined : awaited.splice(i, 1)[0];
  }
}

function passes(following: Following, seen: FrameSeen, node: string): void {
  const { kind, startPs, endPs, effect, frame } = seen;
  const text = effect && { effect: effect.says.join("; ") };
  const pass = { node, kind, startPs, endPs, ...text };
  following.frame.passes.push(pass);
  following.bytes = frame;
}

function endOf({ node, port }: Endpoint): string {
  return `${node}:${port}`;
}

const BEHIND_MARKS = 26;

function isForwarded(x: Uint8Array, y: Uint8Array): boolean {
  return x.length === y.length && isSame(x.subarray(BEHIND_MARKS), y.subarray(BEHIND_MARKS)) &&
    isSame(x.subarray(0, 15), y.subarray(0, 15));
}
