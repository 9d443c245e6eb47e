/**
 * A rack's capture: every frame at every network port that it passed, in the order of its stamps. A
 * frame that was lost on a cable is at its sender's port only, one that a switch dropped is at the port
 * by which it came in.
 */
import type { Endpoint, RackPlan } from "../rack/plan/plan.ts";
import { NEVER, type Time, transferTime } from "../base/time.ts";
import { Commentator } from "./comments.ts";
import type { SeenEvent } from "./instants.ts";
import { isMessageSeen } from "./observation.ts";
import {
  type CapturedFrame,
  type CaptureInterface,
  interfaceBlock,
  packetBlock,
  sectionBlock,
} from "./pcapng.ts";

/** Most bytes on the wire of a frame: what an IPv4 packet can say, and all around it. */
const FRAME_BYTES_MAX = 65_600;

interface Ports {
  readonly interfaces: readonly CaptureInterface[];
  /** `node index:port` → place among the interfaces. */
  readonly places: ReadonlyMap<string, number>;
}

/** Ends of network cables, by the plan's order of nodes, then by port. */
function portsOf(plan: RackPlan): Ports {
  const index = new Map(plan.nodes.map(({ name }, i) => [name, i]));
  const ends = plan.cables.filter(({ kind }) => kind === "network").flatMap((cable) => [
    { near: cable.a, far: cable.b, cable },
    { near: cable.b, far: cable.a, cable },
  ]).sort(({ near: x }, { near: y }) => index.get(x.node)! - index.get(y.node)! || x.port - y.port);
  return {
    interfaces: ends.map(({ near, far, cable }) => ({
      name: endText(near),
      description: `cable to ${endText(far)}`,
      bitsPerSecond: cable.bitsPerSecond,
    })),
    places: new Map(ends.map(({ near }, i) => [`${index.get(near.node)!}:${near.port}`, i])),
  };
}

function endText({ node, port }: Endpoint): string {
  return `${node}:${port}`;
}

/**
 * The blocks of a pcapng file.
 * @param events as `eventsOf` gives them; only some microseconds' worth is held at a time.
 */
export function* captureOf(
  plan: RackPlan,
  run: { readonly label: string; readonly events: Iterable<SeenEvent> },
): Generator<Uint8Array> {
  const { interfaces, places } = portsOf(plan);
  yield sectionBlock({
    application: "rackmesh",
    comment: `${plan.scenario}, ${run.label}, seed ${plan.seed}`,
  });
  for (const port of interfaces) yield interfaceBlock(port);
  const commentator = new Commentator(plan);
  const sorter = new Sorter(interfaces);
  for (const event of run.events) {
    const comments = commentator.commentsOn(event);
    yield* sorter.before(event.time);
    for (const seen of event.seen) {
      if (!isMessageSeen(seen) || seen.frame === undefined) continue;
      sorter.add({
        interface: places.get(`${event.node}:${seen.port}`)!,
        time: seen.startPs,
        direction: seen.kind === "sent" ? "out" : "in",
        bytes: seen.frame,
        comment: comments.get(seen) ?? "",
      });
    }
  }
  yield* sorter.before(NEVER);
}

/**
 * Frames are seen when they are sent, which is before they leave, or when they have come, which is
 * after their first bit: here they wait for each other.
 */
class Sorter {
  /** No frame that is seen later has passed this long before. */
  readonly #slackPs: Time;
  #waiting: (CapturedFrame & { readonly order: number })[] = [];
  #order = 0;
  #sortedAt: Time = 0;

  constructor(interfaces: readonly CaptureInterface[]) {
    const slowest = Math.min(...interfaces.map(({ bitsPerSecond }) => bitsPerSecond));
    this.#slackPs = transferTime(FRAME_BYTES_MAX, slowest);
  }

  add(frame: CapturedFrame): void {
    this.#waiting.push({ ...frame, order: this.#order++ });
  }

  /** Blocks of the frames before which no other can come, once it is `now`. */
  *before(now: Time): Generator<Uint8Array> {
    // In lots, as sorting anew for every event would take longer than anything else.
    if (now !== NEVER && now - this.#sortedAt <= 2 * this.#slackPs) return;
    this.#sortedAt = now;
    const until = now - this.#slackPs;
    const ready = this.#waiting.filter(({ time }) => time < until);
    this.#waiting = this.#waiting.filter(({ time }) => time >= until);
    for (const frame of ready.sort(compareFrames)) yield packetBlock(frame);
  }
}

type Waiting = CapturedFrame & { readonly order: number };

/** By time, port and direction; those of one port and direction as they were seen. */
function compareFrames(x: Waiting, y: Waiting): number {
  return x.time - y.time || x.interface - y.interface ||
    Number(x.direction === "out") - Number(y.direction === "out") || x.order - y.order;
}
