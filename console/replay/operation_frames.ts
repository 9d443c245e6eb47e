/**
 * Steps and frames of a stretch of a recorded run, as an observer of a capture would have seen
 * them.
 */
import { nodeIndexes } from "../../fabric/rack/plan/cabling.ts";
import type { SeenEvent } from "../../fabric/capture/instants.ts";
import type { MessageSeen, Observation } from "../../fabric/capture/observation.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { Recording } from "./recording.ts";
import type { Direction } from "./wire_record.ts";

const STEPS_MOST = 20_000, FRAMES_MOST = 20_000;

export interface SeenStretch {
  readonly events: readonly SeenEvent[];
  readonly lengthOf: (head: Uint8Array<ArrayBuffer>) => number;
}

/** In [from, to], in order. */
export function seenIn(recording: Recording, from: Time, to: Time): SeenStretch {
  const { steps, job: { plan } } = recording;
  const places = nodeIndexes(plan.nodes);
  const byEvent = new Map<string, { time: Time; node: number; seen: Observation[] }>();
  const add = (time: Time, node: number, seen: Observation) => {
    const key = `${time} ${node}`;
    let event = byEvent.get(key);
    if (event === undefined) byEvent.set(key, event = { time, node, seen: [] });
    event.seen.push(seen);
  };
  const first = steps.countBefore(from);
  for (let i = first; i < Math.min(steps.length, first + STEPS_MOST); i++) {
    const step = steps.at(i), node = places.get(step.node)!;
    if (step.time > to) break;
    add(step.time, node, { kind: "step", time: step.time, node, event: 0, step });
  }
  const lengths = new WeakMap<Uint8Array, number>();
  for (const direction of recording.wire.directions) {
    if (direction.plan.kind !== "network") continue;
    for (const seen of passesIn(recording, direction, { from, to, lengths })) {
      const node = places.get(seen.node)!;
      add(seen.at, node, { ...seen.message, node });
    }
  }
  const kinds = ["received", "step", "sent"];
  const events = [...byEvent.values()].sort((x, y) => x.time - y.time || x.node - y.node);
  for (const { seen } of events) {
    seen.sort((x, y) => kinds.indexOf(x.kind) - kinds.indexOf(y.kind));
  }
  return { events, lengthOf: (head) => lengths.get(head) ?? head.length };
}

interface PassSeen {
  readonly node: string;
  readonly at: Time;
  readonly message: Omit<MessageSeen, "node">;
}

function* passesIn(
  { wire, job: { plan } }: Recording,
  direction: Direction,
  { from, to, lengths }: {
    readonly from: Time;
    readonly to: Time;
    readonly lengths: WeakMap<Uint8Array, number>;
  },
): Generator<PassSeen> {
  const { plan: { a, b, latencyPs } } = direction;
  const ends = a.node === direction.from ? { near: a, far: b } : { near: b, far: a };
  const isForwarded = plan.nodes.find(({ name }) => name === direction.to)?.kind === "switch";
  const first = direction.startPs.countBelow(from);
  for (let i = first; i < Math.min(direction.startPs.length, first + FRAMES_MOST); i++) {
    const { startPs, endPs, arrivesPs, bytes, effect } = wire.inFlight(direction, i);
    if (startPs > to) return;
    const head = wire.head(direction, i).slice();
    lengths.set(head, bytes);
    const common = { event: 0, frame: head, text: "" };
    const latePs = arrivesPs === null ? 0 : arrivesPs - endPs - latencyPs;
    yield {
      node: direction.from,
      at: startPs,
      message: {
        ...common,
        ...{ kind: "sent", time: startPs, port: ends.near.port, startPs, endPs },
        ...(effect && { effect: { says: effect, copies: arrivesPs === null ? 0 : 1, latePs } }),
      },
    };
    if (arrivesPs === null) continue;
    const startsPs = arrivesPs - (endPs - startPs);
    // A switch cuts through; a card acts on a whole frame.
    const at = isForwarded ? startsPs : arrivesPs;
    yield {
      node: direction.to,
      at,
      message: {
        ...common,
        ...{ kind: "received", time: at, port: ends.far.port, startPs: startsPs, endPs: arrivesPs },
      },
    };
  }
}
