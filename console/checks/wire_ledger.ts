import {
  type FrameSeen,
  isFrameSeen,
  type LoopedSeen,
  type Observation,
} from "../../fabric/capture/observation.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { Time } from "../../fabric/base/time.ts";
import { describeFrame } from "../../fabric/trace/describe.ts";
import { AnswerOrder, type Connects } from "./answer_order.ts";
import {
  type Direction,
  directionOf,
  isSame,
  receive,
  send,
  unreceived,
} from "./cable_direction.ts";
import { type Finding, REPORTED_MAX } from "./finding.ts";
import { lifeAt, type Lives, unscriptedDeaths } from "./lives.ts";
import { SwitchLedger } from "./switch_ledger.ts";

interface Device {
  readonly name: string;
  readonly life: number;
  /** Killed outside the plan: the times of frames that it received are unknown. */
  readonly isUndated: boolean;
  readonly inside: SwitchLedger | undefined;
  /** For an RNIC with known times; anew with each life of its host. */
  order: AnswerOrder | undefined;
  readonly host: string | undefined;
  hostLife: number;
  /** Sent to itself and not received: none of them can be lost. */
  readonly looped: LoopedSeen[];
}

interface Unreceived {
  readonly direction: Direction;
  readonly sentAt: Time;
  readonly dueAt: Time;
}

/** Right only if a program did so with this RNIC before the answer left. */
export interface Doubt extends Pick<Finding, "text"> {
  readonly rnic: string;
  readonly unless: Connects;
  readonly time: Time;
}

/** A card that always answers wrong must not take all memory. */
export const DOUBTS_MAX = 65_536;

export class WireLedger {
  /** `timed`: their time is known; `answers`: of RNICs. */
  frames = 0;
  timed = 0;
  answers = 0;
  readonly unexplained: Finding[] = [];
  readonly withoutPower: Finding[] = [];
  readonly outOfOrder: Finding[] = [];
  /** At most one for each connection of a correct card. */
  readonly doubts: Doubt[] = [];
  readonly overlapping: Finding[] = [];
  readonly #plan: RackPlan;
  readonly #lives: Lives;
  readonly #leaving = new Map<string, Direction>();
  readonly #arriving = new Map<string, Direction>();
  readonly #devices = new Map<number, Device>();
  readonly #ends = new Map<string, Time>();

  constructor(plan: RackPlan, lives: Lives["lives"]) {
    this.#plan = plan;
    this.#lives = { lives };
    for (const [index, { kind }] of plan.cables.entries()) {
      if (kind !== "network") continue;
      for (const from of ["a", "b"] as const) {
        const direction = directionOf(plan, { index, from, lives: this.#lives });
        this.#leaving.set(`${direction.from.node}:${direction.from.port}`, direction);
        this.#arriving.set(`${direction.to.node}:${direction.to.port}`, direction);
      }
    }
  }

  see(seen: Observation): void {
    const isLooped = seen.kind === "looped";
    if (!isLooped && !isFrameSeen(seen)) return;
    const { node, time } = seen;
    const kind = isLooped ? seen.end : seen.kind;
    this.frames++;
    const life = lifeAt(this.#lives, this.#plan.nodes[node]!.name, time);
    let device = this.#devices.get(node);
    if (device?.life !== life) this.#devices.set(node, device = this.#deviceOf(node, life));
    if (life < 0) {
      const text = `${device.name} has ${kind} a frame at ${time} ps without power`;
      add(this.withoutPower, { text, at: { node: device.name, time } });
    }
    this.#checkAnswer(device, { kind, frame: seen.frame, time });
    if (isLooped) return this.#checkLooped(device, seen);
    this.#checkTimes(device, seen);
    this.#checkOrigin(device, seen);
  }

  /** The way inside a card loses, changes and reorders nothing. */
  #checkLooped(device: Device, seen: LoopedSeen): void {
    const { name, looped } = device;
    const { end, frame, time, startPs } = seen;
    if (end === "sent") {
      const before = looped.at(-1)?.endPs ?? 0;
      if (startPs < before) {
        const text = `${name} turns a frame round from ${startPs} ps on, where the one before it ` +
          `ends at ${before} ps`;
        add(this.overlapping, { text, at: { node: name, time: startPs } });
      }
      return void looped.push(seen);
    }
    while (
      looped.length > 0 && !isSame(looped[0]!.frame, frame) && this.#isGone(device, looped[0]!)
    ) {
      looped.shift();
    }
    const first = looped.shift();
    if (first === undefined || !isSame(first.frame, frame)) {
      const text = `${name} turns round a frame that it has not sent next (${time} ps)`;
      add(this.unexplained, { text, at: { node: name, time } });
    } else if (time < first.endPs) {
      const text = `${name} receives its own frame before it has sent it (${time} ps)`;
      add(this.unexplained, { text, at: { node: name, time } });
    }
  }

  /** Frames that a card has sent to itself in a life that goes on. */
  *unlooped(): Generator<{ readonly name: string; readonly sentAt: Time; readonly dueAt: Time }> {
    for (const device of this.#devices.values()) {
      const { name, life, looped } = device;
      for (const frame of looped) {
        const { time, endPs } = frame;
        if (lifeAt(this.#lives, name, endPs) !== life || this.#isGone(device, frame)) continue;
        yield { name, sentAt: time, dueAt: endPs };
      }
    }
  }

  /** A card begins anew with each life of its host: frames inside it are gone. */
  #isGone({ host }: Device, { time, endPs }: LoopedSeen): boolean {
    const lives = this.#lives.lives.get(host ?? "") ?? [];
    return lives.some(({ to }, i) => to <= endPs && time <= (lives[i + 1]?.from ?? Infinity));
  }

  *unreceived(): Generator<Unreceived> {
    for (const direction of this.#leaving.values()) {
      for (const frame of unreceived(direction)) yield { direction, ...frame };
    }
  }

  #deviceOf(index: number, life: number): Device {
    const node = this.#plan.nodes[index]!;
    const { name, kind } = node;
    const isUndated = unscriptedDeaths(this.#plan, this.#lives, name).length > 0;
    const ports = this.#plan.cables.filter(({ a, b }) => a.node === name || b.node === name).length;
    return {
      name,
      life,
      isUndated,
      inside: kind === "switch" ? new SwitchLedger(ports) : undefined,
      order: kind === "rnic" && !isUndated ? new AnswerOrder() : undefined,
      host: node.kind === "rnic" ? node.config.host : undefined,
      hostLife: -1,
      looped: [],
    };
  }

  #checkAnswer(
    device: Device,
    { kind, frame, time }: Pick<FrameSeen, "kind" | "frame" | "time">,
  ): void {
    if (device.order === undefined) return;
    const { name, host } = device;
    const hostLife = lifeAt(this.#lives, host!, time);
    // Until a card hears of its host's failure, it answers what came before.
    if (hostLife >= 0 && hostLife !== device.hostLife) {
      if (device.hostLife >= 0) device.order = new AnswerOrder();
      device.hostLife = hostLife;
    }
    const { order } = device;
    if (kind === "received") return order.received(frame);
    const before = order.answers;
    const wrong = order.sent(frame, time);
    this.answers += order.answers - before;
    if (wrong === undefined) return;
    const text = `${name} sends ${describeFrame(frame)} at ${time} ps, which ${wrong.text}`;
    if (wrong.unless === undefined) return add(this.outOfOrder, { text, at: { node: name, time } });
    if (this.doubts.length >= DOUBTS_MAX) return;
    this.doubts.push({ text, rnic: name, unless: wrong.unless, time });
  }

  #checkTimes({ name, isUndated }: Device, { kind, port, startPs, endPs }: FrameSeen): void {
    if (kind === "received" && isUndated) return;
    this.timed++;
    const place = `${kind} ${name}:${port}`;
    const before = this.#ends.get(place) ?? 0;
    this.#ends.set(place, Math.max(before, endPs));
    if (startPs >= before) return;
    const verb = kind === "sent" ? "sends" : "receives";
    const text = `${name}:${port} ${verb} a frame from ${startPs} ps on, where the one before it ` +
      `ends at ${before} ps`;
    add(this.overlapping, { text, at: { node: name, time: startPs } });
  }

  #checkOrigin({ name, inside }: Device, seen: FrameSeen): void {
    const { kind, port, frame, time } = seen;
    const place = `${name}:${port}`;
    const wrong: string[] = [];
    let direction: Direction;
    if (kind === "sent") {
      direction = this.#leaving.get(place)!;
      const hasIt = inside?.send(frame, seen) ?? true;
      if (!hasIt) wrong.push("sends a frame that it has not got");
      send(direction, seen);
    } else {
      direction = this.#arriving.get(place)!;
      inside?.receive(frame, seen);
      wrong.push(...receive(direction, seen));
    }
    for (const act of wrong) {
      const text = `${name} ${act} (${direction.name}, ${time} ps)`;
      add(this.unexplained, { text, at: { node: name, time } });
    }
  }
}

function add(findings: Finding[], finding: Finding): void {
  if (findings.length < REPORTED_MAX) findings.push(finding);
}
