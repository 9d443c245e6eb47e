/** Test rig: a switch with cables on all ports; the rig serves its deadlines. */
import assert from "node:assert/strict";
import { createLink, type Link, transmit } from "../../fabric/link/link.ts";
import type { Frame, Input, Message, Node, Outputs } from "../../fabric/node.ts";
import type { SwitchPlan } from "../../fabric/rack/plan/plan.ts";
import type { Time } from "../../fabric/base/time.ts";
import { createSwitch } from "./switch.ts";

export const PORTS = 4;
export const LATENCY_PS = 150_000;
/** 12 500 B per µs: a frame of 1226 B takes 100 ns with what the wire adds. */
export const RATE = 100e9;
export const FRAME_BYTES = 1226;
export const FRAME_PS = 100_000;

export function planWith(change: Partial<SwitchPlan> = {}): SwitchPlan {
  return {
    ports: PORTS,
    mode: "cut-through",
    latencyPs: LATENCY_PS,
    queueBytes: 1 << 20,
    forwarding: Array.from({ length: PORTS }, (_, port) => [macOf(port), port] as const),
    ...change,
  };
}

export function macOf(port: number): number {
  return 0x0200_0000_0001 + port;
}

export function frameTo(mac: number, length = FRAME_BYTES): Frame {
  const bytes = new Uint8Array(length);
  for (let i = 0; i < Math.min(6, length); i++) bytes[i] = Math.floor(mac / 2 ** (40 - 8 * i));
  return { kind: "frame", bytes };
}

export interface Sent {
  readonly at: Time;
  readonly port: number;
  readonly message: Message;
  readonly departAt: Time;
  /** When its last bit left. */
  readonly goneAt: Time;
}

/** A switch with cables on all ports; the rig serves its deadlines. */
export class Bench {
  readonly node: Node;
  readonly sent: Sent[] = [];
  readonly #links: Link[];
  readonly #out: Outputs;
  #now: Time = 0;

  constructor(plan: SwitchPlan, seed = 1) {
    this.node = createSwitch("tor", plan, { seed });
    this.#links = Array.from(
      { length: plan.ports },
      () => createLink({ latencyPs: 1, bitsPerSecond: RATE, kind: "network", headOnly: false }),
    );
    this.#out = {
      tracing: false,
      trace: () => {},
      report: () => {},
      send: (port, message, departAt) => {
        assert.ok(departAt >= this.#now + this.node.processingPs, "lookahead is kept");
        const goneAt = transmit(this.#links[port]!, departAt, message).freeAt;
        this.sent.push({ at: this.#now, port, message, departAt, goneAt });
        return goneAt;
      },
    };
    this.#step(0, { kind: "power" });
  }

  /** Serves all deadlines before `time`, then lets the frame arrive. */
  arrive(time: Time, port: number, frame: Frame, tailPs: Time = 0): void {
    this.runBefore(time);
    this.#step(time, { kind: "message", port, message: frame, tailPs });
  }

  link(time: Time, port: number, up: boolean): void {
    this.runBefore(time);
    this.#step(time, { kind: "link", port, up });
  }

  runBefore(time: Time): void {
    for (let wakes = 0; this.node.wakeAt() < time; wakes++) {
      assert.ok(wakes < 100_000, "a deadline is served once");
      this.#step(this.node.wakeAt(), { kind: "wake" });
    }
  }

  count(counter: string): number {
    const value = this.node.statistics()[counter];
    assert.notEqual(value, undefined, `no counter ${counter}`);
    return value!;
  }

  #step(now: Time, input: Input): void {
    this.#now = now;
    this.node.step(now, input, this.#out);
    assert.ok(this.node.wakeAt() >= now, "a deadline is not in the past");
  }
}
