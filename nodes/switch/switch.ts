/**
 * An Ethernet switch with output queues. Read `forwarding.ts` and `output_queue.ts` first.
 *
 * A frame that arrives is looked up at once and leaves `latencyPs` later at the soonest. The decision
 * which frame a port sends next falls `latencyPs` before it leaves, so that what a later mechanism
 * does to a queue (a pause, a mark) still reaches every frame that waits.
 */
import { fail } from "../../fabric/assert.ts";
import type { Frame, Input, Node, Outputs } from "../../fabric/node.ts";
import type { SwitchPlan } from "../../fabric/rack/plan.ts";
import { switchProcessingPs } from "../../fabric/rack/processing.ts";
import { NEVER, type Time } from "../../fabric/time/time.ts";
import {
  createForwardingTable,
  ETHERNET_HEADER_BYTES,
  FLOOD,
  type ForwardingTable,
  lookUp,
  RESERVED,
  UNKNOWN,
} from "./forwarding.ts";
import {
  clear,
  createOutputQueue,
  dequeue,
  enqueue,
  type OutputQueue,
  queueLength,
} from "./output_queue.ts";

/** Makes a switch without power. Ports are up until it is told otherwise. */
export function createSwitch(name: string, plan: SwitchPlan): Node {
  return new Switch(name, plan);
}

class Switch implements Node {
  readonly name: string;
  readonly kind = "switch";
  readonly processingPs: Time;
  readonly actsOnHead: boolean;
  readonly #table: ForwardingTable;
  readonly #queues: OutputQueue[];
  #wakeAt: Time = NEVER;
  readonly #counters = {
    receivedFrames: 0,
    receivedBytes: 0,
    sentFrames: 0,
    sentBytes: 0,
    floodedFrames: 0,
    queuedFrames: 0,
    droppedQueueFull: 0,
    droppedLinkDown: 0,
    droppedUnknown: 0,
    droppedReserved: 0,
    droppedReturn: 0,
    droppedRunt: 0,
  };

  constructor(name: string, plan: SwitchPlan) {
    this.name = name;
    this.processingPs = switchProcessingPs(plan);
    this.actsOnHead = plan.mode === "cut-through";
    this.#table = createForwardingTable(plan);
    this.#queues = Array.from({ length: plan.ports }, () => createOutputQueue(plan.queueBytes));
  }

  step(now: Time, input: Input, out: Outputs): void {
    switch (input.kind) {
      case "message":
        if (input.message.kind !== "frame") fail(`A switch got a ${input.message.kind}`);
        this.#receive(now, { port: input.port, frame: input.message }, out);
        return;
      case "wake":
        this.#serve(now, out);
        return;
      case "link":
        this.#setLink(input.port, input.up);
        return;
      case "power":
      case "run":
        return;
    }
  }

  wakeAt(): Time {
    return this.#wakeAt;
  }

  statistics(): Record<string, number> {
    let queuePeakBytes = 0;
    for (const queue of this.#queues) queuePeakBytes = Math.max(queuePeakBytes, queue.peakBytes);
    return { ...this.#counters, queuePeakBytes };
  }

  #receive(now: Time, from: { port: number; frame: Frame }, out: Outputs): void {
    const { port, frame } = from;
    const counters = this.#counters;
    counters.receivedFrames++;
    counters.receivedBytes += frame.bytes.length;
    if (frame.bytes.length < ETHERNET_HEADER_BYTES) {
      counters.droppedRunt++;
      return;
    }
    const verdict = lookUp(this.#table, frame.bytes);
    switch (verdict) {
      case UNKNOWN:
        counters.droppedUnknown++;
        return;
      case RESERVED:
        counters.droppedReserved++;
        return;
      case FLOOD:
        counters.floodedFrames++;
        for (let other = 0; other < this.#queues.length; other++) {
          if (other !== port) this.#forward(now, { port: other, frame }, out);
        }
        return;
    }
    // A frame for the segment that it came from has reached its addressee already (IEEE 802.1D §7.7).
    if (verdict === port) counters.droppedReturn++;
    else this.#forward(now, { port: verdict, frame }, out);
  }

  #forward(now: Time, to: { port: number; frame: Frame }, out: Outputs): void {
    const queue = this.#queues[to.port];
    if (queue === undefined) {
      fail(`Switch ${this.name} forwards to port ${to.port}, which it lacks`);
    }
    if (!queue.up) {
      this.#counters.droppedLinkDown++;
      return;
    }
    const decideAt = queue.freeAt - this.processingPs;
    if (decideAt <= now && queueLength(queue) === 0) {
      this.#send(now, to, out);
    } else if (enqueue(queue, to.frame)) {
      this.#counters.queuedFrames++;
      if (decideAt < this.#wakeAt) this.#wakeAt = decideAt;
    } else {
      this.#counters.droppedQueueFull++;
    }
  }

  /** Gives every transmitter that is about to be free its next frame. */
  #serve(now: Time, out: Outputs): void {
    for (let port = 0; port < this.#queues.length; port++) {
      const queue = this.#queues[port]!;
      while (queueLength(queue) > 0 && queue.freeAt - this.processingPs <= now) {
        this.#send(now, { port, frame: dequeue(queue) }, out);
      }
    }
    this.#findWake();
  }

  #send(now: Time, to: { port: number; frame: Frame }, out: Outputs): void {
    const queue = this.#queues[to.port]!;
    queue.freeAt = out.send(to.port, to.frame, now + this.processingPs);
    this.#counters.sentFrames++;
    this.#counters.sentBytes += to.frame.bytes.length;
  }

  /** What waits for a cable that lost its other end is lost with it. */
  #setLink(port: number, up: boolean): void {
    const queue = this.#queues[port];
    if (queue === undefined) return;
    queue.up = up;
    if (up) return;
    this.#counters.droppedLinkDown += clear(queue);
    this.#findWake();
  }

  #findWake(): void {
    let wakeAt = NEVER;
    for (const queue of this.#queues) {
      if (queueLength(queue) === 0) continue;
      wakeAt = Math.min(wakeAt, queue.freeAt - this.processingPs);
    }
    this.#wakeAt = wakeAt;
  }
}
