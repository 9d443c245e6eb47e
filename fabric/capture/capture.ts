/**
 * Every frame at every network port that it passed. A lost frame appears only at its sender's port,
 * one that a switch dropped only at its ingress port.
 */
import { nodeIndexes } from "../rack/plan/cabling.ts";
import type { Endpoint, RackPlan } from "../rack/plan/plan.ts";
import { NEVER, type Time, transferTime } from "../base/time.ts";
import { lostText } from "../link/effect.ts";
import { nakText } from "../wire/roce/aeth.ts";
import { peekBth } from "./bth_peek.ts";
import { Commentator } from "./comments.ts";
import type { SeenEvent } from "./instants.ts";
import { type CutOffSeen, type FrameSeen, isFrameSeen } from "./observation.ts";
import {
  type CapturedFrame,
  type CaptureInterface,
  interfaceBlock,
  packetBlock,
  sectionBlock,
} from "./pcapng.ts";
import { CableEffects, type FrameMark, isSame, type Remark, remarkText } from "./cable_effects.ts";
import { Retransmissions } from "./retransmissions.ts";

interface Waiting extends Omit<CapturedFrame, "comment"> {
  readonly order: number;
  readonly mark: FrameMark;
  readonly remarks: Remark[];
  readonly steps: string;
}

/** The longest IPv4 packet with its encapsulation. */
const FRAME_BYTES_MAX = 65_600;

interface Ports {
  readonly interfaces: readonly CaptureInterface[];
  readonly places: ReadonlyMap<string, number>;
  readonly far: readonly number[];
  readonly latenciesPs: readonly Time[];
  /** Indexes in the plan. */
  readonly cables: readonly number[];
}

function portsOf(plan: RackPlan): Ports {
  const index = nodeIndexes(plan.nodes);
  const ends = plan.cables.filter(({ kind }) => kind === "network").flatMap((cable) => [
    { near: cable.a, far: cable.b, cable },
    { near: cable.b, far: cable.a, cable },
  ]).sort(({ near: x }, { near: y }) => index.get(x.node)! - index.get(y.node)! || x.port - y.port);
  const places = new Map(ends.map(({ near }, i) => [`${index.get(near.node)!}:${near.port}`, i]));
  return {
    interfaces: ends.map(({ near, far, cable }) => ({
      name: endText(near),
      description: `cable to ${endText(far)}`,
      bitsPerSecond: cable.bitsPerSecond,
    })),
    places,
    far: ends.map(({ far }) => places.get(`${index.get(far.node)!}:${far.port}`)!),
    latenciesPs: ends.map(({ cable }) => cable.latencyPs),
    cables: ends.map(({ cable }) => plan.cables.indexOf(cable)),
  };
}

function endText({ node, port }: Endpoint): string {
  return `${node}:${port}`;
}

/** A part of a capture. */
export interface CaptureWindow {
  /** Index in the plan. */
  readonly cable: number;
  /** Of a frame's first bit, at the end of the cable that sees it. */
  readonly from: Time;
  /** Exclusive. */
  readonly to: Time;
  /** Only so many frames, the latest; absent: all. */
  readonly last?: number;
}

/**
 * The blocks of a pcapng file.
 * @param run.events the output of `eventsOf`, from the start of the run; only a window of some
 * microseconds is held in memory.
 * @param run.only one cable, and some of its frames, with the comments that they have in a capture
 * of all.
 */
export function* captureOf(
  plan: RackPlan,
  run: {
    readonly label: string;
    readonly events: Iterable<SeenEvent>;
    readonly only?: CaptureWindow;
  },
): Generator<Uint8Array> {
  const ports = portsOf(plan), { only } = run;
  const places = ports.interfaces.map((_, place) => place).filter((place) =>
    only === undefined || ports.cables[place] === only.cable
  );
  const what = only === undefined ? [] : [`cable ${ports.interfaces[places[0]!]?.name}`];
  yield sectionBlock({
    application: "rackmesh",
    comment: [plan.scenario, run.label, `seed ${plan.seed}`, ...what].join(", "),
  });
  for (const place of places) yield interfaceBlock(ports.interfaces[place]!);
  const kept = new Latest<Waiting>(only?.last ?? Infinity);
  let written = 0;
  const blockOf = ({ mark, remarks, steps, ...frame }: Waiting) => {
    mark.number = ++written;
    const comment = [...remarks.map(remarkText), ...steps === "" ? [] : [steps]].join("; ");
    return packetBlock({ ...frame, interface: places.indexOf(frame.interface), comment });
  };
  function* blocksOf(ready: Iterable<Waiting>): Generator<Uint8Array> {
    for (const frame of ready) {
      const { time } = frame;
      if (!places.includes(frame.interface)) continue;
      if (only !== undefined && (time < only.from || time >= only.to)) continue;
      if (only?.last === undefined) yield blockOf(frame);
      else kept.push(frame);
    }
  }
  const commentator = new Commentator(plan);
  const sorter = new Sorter(ports);
  const remarks = new Remarks(plan, ports);
  for (const event of run.events) {
    const steps = commentator.commentsOn(event);
    yield* blocksOf(sorter.before(event.time));
    for (const seen of event.seen) {
      if (seen.kind === "cut-off") sorter.findLost(seen)?.remarks.push({ text: lostText("cut") });
      if (!isFrameSeen(seen)) continue;
      const mark: FrameMark = {};
      const { port, kind, frame: bytes, startPs } = seen;
      sorter.add({
        interface: ports.places.get(`${event.node}:${port}`)!,
        time: startPs,
        direction: kind === "sent" ? "out" : "in",
        bytes,
        mark,
        remarks: remarks.on({ ...seen, mark }),
        steps: steps.get(seen) ?? "",
      });
    }
  }
  yield* blocksOf(sorter.before(NEVER));
  for (const frame of kept.rows()) yield blockOf(frame);
}

/** The latest so many of all that are pushed. */
class Latest<T> {
  readonly #most: number;
  #rows: T[] = [];

  constructor(most: number) {
    this.#most = most;
  }

  push(row: T): void {
    this.#rows.push(row);
    if (this.#rows.length >= 2 * this.#most) this.#rows = this.rows();
  }

  rows(): T[] {
    return this.#rows.slice(-this.#most);
  }
}

class Remarks {
  readonly #plan: RackPlan;
  readonly #ports: Ports;
  readonly #retransmissions: Retransmissions;
  readonly #cables: readonly CableEffects[];

  constructor(plan: RackPlan, ports: Ports) {
    this.#plan = plan;
    this.#ports = ports;
    this.#retransmissions = new Retransmissions(plan);
    this.#cables = ports.latenciesPs.map((latencyPs) => new CableEffects(latencyPs));
  }

  on(
    { kind, node, port, frame, startPs, effect, mark }: FrameSeen & { readonly mark: FrameMark },
  ): Remark[] {
    const place = this.#ports.places.get(`${node}:${port}`)!;
    const remarks: Remark[] = [];
    const syndrome = peekBth(frame)?.syndrome;
    const nak = syndrome === undefined ? undefined : nakText(syndrome);
    if (nak !== undefined) remarks.push({ text: nak });
    const end = { startPs, bytes: frame, mark };
    if (kind === "received") return [...remarks, ...this.#cables[place]!.received(end)];
    if (this.#plan.nodes[node]!.kind === "rnic") {
      const again = this.#retransmissions.remarkOn({ node, frame, mark });
      if (again !== undefined) remarks.push(again);
    }
    return [...remarks, ...this.#cables[this.#ports.far[place]!]!.sent(end, effect)];
  }
}

/** A frame is observed when it is sent, before it leaves, or when it has arrived. */
class Sorter {
  readonly #ports: Ports;
  /** A frame that is observed or reported lost later has passed at most this long before. */
  readonly #slackPs: Time;
  #waiting: Waiting[] = [];
  #order = 0;
  #sortedAt: Time = 0;

  constructor(ports: Ports) {
    const { interfaces, latenciesPs } = ports;
    const slowest = Math.min(...interfaces.map(({ bitsPerSecond }) => bitsPerSecond));
    this.#ports = ports;
    this.#slackPs = transferTime(FRAME_BYTES_MAX, slowest) + Math.max(0, ...latenciesPs);
  }

  add(frame: Omit<Waiting, "order">): void {
    this.#waiting.push({ ...frame, order: this.#order++ });
  }

  /** Lost on its way, as its cable was cut. */
  findLost({ node, port, startPs, frame }: CutOffSeen): Waiting | undefined {
    const { places, far, latenciesPs } = this.#ports;
    const place = places.get(`${node}:${port}`)!;
    const leftBy = startPs - latenciesPs[place]!;
    return this.#waiting.findLast((each) =>
      each.interface === far[place] && each.direction === "out" && each.time <= leftBy &&
      isSame(each.bytes, frame)
    );
  }

  *before(now: Time): Generator<Waiting> {
    // In batches: sorting at every event would dominate the run time.
    if (now !== NEVER && now - this.#sortedAt <= 2 * this.#slackPs) return;
    this.#sortedAt = now;
    const until = now - this.#slackPs;
    const ready = this.#waiting.filter(({ time }) => time < until);
    this.#waiting = this.#waiting.filter(({ time }) => time >= until);
    yield* ready.sort(compareFrames);
  }
}

function compareFrames(x: Waiting, y: Waiting): number {
  return x.time - y.time || x.interface - y.interface ||
    Number(x.direction === "out") - Number(y.direction === "out") || x.order - y.order;
}
