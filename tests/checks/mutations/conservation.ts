/** Runs in which cables or switches do what they must not. */
import { frameOpcode, framePayload, sealFrame } from "../../../fabric/wire/roce/frame_peek.ts";
import type { FrameSeen } from "../../../fabric/capture/observation.ts";
import type { SeenRun } from "../../support/seen_run.ts";
import type { Mutation, Mutations } from "./runs.ts";

/** Every frame that was sent, or received, changed; undefined where that changes nothing. */
function eachFrame(
  kind: FrameSeen["kind"],
  change: (frames: readonly FrameSeen[], place: number) => readonly FrameSeen[] | undefined,
): Mutation {
  return {
    of: "calm",
    least: 100,
    *mutants(run) {
      for (const [place, seen] of run.frames.entries()) {
        const frames = seen.kind === kind ? change(run.frames, place) : undefined;
        if (frames !== undefined) yield [`${kind} ${place}`, { ...run, frames }];
      }
    },
  };
}

function changed(frame: Uint8Array<ArrayBuffer>, at: number): Uint8Array<ArrayBuffer> {
  const bytes = frame.slice();
  bytes[at % bytes.length]! ^= 1 << (at & 7);
  return bytes;
}

/** Place of the next frame that the same end receives, and which is another. */
function nextAt(frames: readonly FrameSeen[], place: number): number | undefined {
  const { node, port, frame } = frames[place]!;
  const next = frames.findIndex((each, i) =>
    i > place && each.kind === "received" && each.node === node && each.port === port
  );
  return next < 0 || `${frames[next]!.frame}` === `${frame}` ? undefined : next;
}

/** A frame that an RNIC receives: where the switch has sent it. */
function* fromSwitch({ plan, frames }: SeenRun): Generator<readonly [sent: number, taken: number]> {
  const isSwitch = ({ node }: FrameSeen) => plan.nodes[node]!.kind === "switch";
  for (const [taken, seen] of frames.entries()) {
    if (seen.kind !== "received" || isSwitch(seen) || frameOpcode(seen.frame) < 0) continue;
    const sent = frames.findLastIndex((each, i) =>
      i < taken && each.kind === "sent" && isSwitch(each) && `${each.frame}` === `${seen.frame}`
    );
    yield [sent, taken];
  }
}

export const CONSERVATION: Mutations = {
  "one is not received": eachFrame("received", (frames, place) => frames.toSpliced(place, 1)),
  "one is received twice": eachFrame(
    "received",
    (frames, place) => frames.toSpliced(place, 0, frames[place]!),
  ),
  "one arrives with a bit turned over": eachFrame(
    "received",
    (frames, place) =>
      frames.with(place, { ...frames[place]!, frame: changed(frames[place]!.frame, 37 * place) }),
  ),
  "one was never sent": eachFrame("sent", (frames, place) => frames.toSpliced(place, 1)),
  "two change places": eachFrame("received", (frames, place) => {
    const next = nextAt(frames, place);
    if (next === undefined) return undefined;
    const [one, other] = [frames[place]!, frames[next]!];
    return frames.with(place, { ...one, frame: other.frame })
      .with(next, { ...other, frame: one.frame });
  }),
  "one arrives sooner than it can": eachFrame(
    "received",
    (frames, place) =>
      frames.with(place, { ...frames[place]!, time: frames[place]!.time - 10_000_000 }),
  ),
  "one arrives somewhere else": eachFrame("received", (frames, place) => {
    const { node } = frames[place]!;
    const other = frames.find((each) => each.kind === "received" && each.node !== node)!;
    return frames.with(place, { ...frames[place]!, node: other.node, port: other.port });
  }),
  "a switch changes data, and makes the ICRC anew": {
    of: "calm",
    least: 30,
    *mutants(run) {
      for (const [sent, taken] of fromSwitch(run)) {
        const payload = framePayload(run.frames[taken]!.frame);
        if (payload === undefined) continue;
        const frame = changed(run.frames[taken]!.frame, payload.from);
        sealFrame(frame);
        const frames = run.frames.with(sent, { ...run.frames[sent]!, frame })
          .with(taken, { ...run.frames[taken]!, frame });
        yield [`${taken}`, { ...run, frames }];
      }
    },
  },
  "a switch sends one twice": {
    of: "calm",
    least: 50,
    *mutants(run) {
      for (const [sent, taken] of fromSwitch(run)) {
        const again = [run.frames[sent]!, run.frames[taken]!];
        yield [`${taken}`, { ...run, frames: run.frames.toSpliced(taken + 1, 0, ...again) }];
      }
    },
  },
};
