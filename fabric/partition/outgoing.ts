/**
 * What leaves the nodes of a partition: messages over its cables, and the news that a node lost or got
 * power. What stays in the partition goes into its queue, the rest is kept for `runner.ts` to publish.
 * What a cable with faults does to a frame is `faulty_cable.ts`'s.
 */
import { fail } from "../base/assert.ts";
import { releaseHeld, sendThrough } from "./faulty_cable.ts";
import { countCutOff } from "../link/fault.ts";
import { type Link, transmit } from "../link/link.ts";
import type { Frame, Input, Message } from "../node.ts";
import { type LocalNode, noticeOf, type Port } from "./local_node.ts";
import { type Event, EVENT_KINDS, type EventQueue } from "./event_queue.ts";
import { NEVER, type Time } from "../base/time.ts";

/** An event on its way to another partition. */
export interface Departure {
  readonly to: string;
  readonly event: Event;
}

export interface OutgoingOptions {
  /** The partition's own. */
  readonly queue: EventQueue;
  /** Least delay in ps from another partition back to this one. */
  readonly returnDelay: (partition: string) => Time;
}

/** No node hears of a release, so it needs no input of its own. */
const RELEASE_INPUT: Input = { kind: "wake" };

export class Outgoing {
  /**
   * No event from here on may happen: an answer to what was sent could come first. The partition
   * resets it when it advances, and lowers it to stop.
   */
  limit: Time = NEVER;
  /** When the step under way happens: the partition says so before each. */
  now: Time = 0;
  readonly #queue: EventQueue;
  readonly #returnDelay: (partition: string) => Time;
  #departures: Departure[] = [];

  constructor({ queue, returnDelay }: OutgoingOptions) {
    this.#queue = queue;
    this.#returnDelay = returnDelay;
  }

  /** What was sent to other partitions since the last call, in the order of sending. */
  takeDepartures(): Departure[] {
    const departures = this.#departures;
    this.#departures = [];
    return departures;
  }

  /**
   * Hands a message to the transmitter of one of the local node's ports, in the step that it takes now.
   * @returns when the transmitter is free again, in ps.
   * @throws where the node breaks its promise of `processingPs`, or has no such port.
   */
  send(localNode: LocalNode, number: number, message: Message, departAt: Time): Time {
    const port = localNode.ports[number];
    if (port === undefined) fail(`${localNode.name} has no port ${number}`);
    const node = localNode.node!;
    if (!(departAt >= this.now + node.processingPs)) {
      fail(`${localNode.name} sends at ${departAt} ps, sooner than its processing delay allows`);
    }
    const { link } = port;
    transmit(link, departAt, message);
    if (!port.up) {
      if (port.cutBy !== undefined) countCutOff(port.faults!.leaving, port.cutBy);
    } else if (port.faults === undefined || message.kind !== "frame") {
      this.#post(localNode, port, message, link);
    } else {
      this.#sendThrough(localNode, port, message);
    }
    return link.freeAt;
  }

  /** Nothing has overtaken a frame for as long as its cable holds it back: it goes on now. */
  release(localNode: LocalNode, event: Event): void {
    releaseHeld(localNode, event, (port, passing) => {
      this.#post(localNode, port, passing.message, passing);
    });
  }

  /** The other ends of a node's cables learn that it is gone or back. */
  announce(localNode: LocalNode, time: Time, up: boolean): void {
    for (const port of localNode.ports) {
      const change = {
        at: time + port.noticePs,
        source: localNode.index,
        sourceLife: localNode.life,
        target: port.peerIndex,
        port: port.peerPort,
        up,
      };
      this.#dispatch(port, noticeOf(change));
    }
  }

  #sendThrough(localNode: LocalNode, port: Port, frame: Frame): void {
    const { index, life } = localNode;
    const { now } = this;
    const number = localNode.releases;
    const releaseAt = sendThrough(port, { now, frame, number }, (passing) => {
      this.#post(localNode, port, passing.message, passing);
    });
    if (releaseAt === undefined) return;
    localNode.releases++;
    this.#queue.push({
      time: releaseAt,
      kind: EVENT_KINDS.release,
      source: index,
      counter: number,
      target: index,
      sourceLife: life,
      targetLife: life,
      input: RELEASE_INPUT,
    });
  }

  /** Puts a message on its way to the other end of a cable. */
  #post(
    localNode: LocalNode,
    port: Port,
    message: Message,
    { arrival, tailPs }: Pick<Link, "arrival" | "tailPs">,
  ): void {
    this.#dispatch(port, {
      time: arrival,
      kind: EVENT_KINDS.message,
      source: localNode.index,
      counter: localNode.messages++,
      target: port.peerIndex,
      sourceLife: localNode.life,
      targetLife: port.peerLife,
      input: { kind: "message", port: port.peerPort, message, tailPs },
    });
  }

  #dispatch({ peerPartition }: Port, event: Event): void {
    if (peerPartition === undefined) {
      this.#queue.push(event);
      return;
    }
    this.#departures.push({ to: peerPartition, event });
    this.limit = Math.min(this.limit, event.time + this.#returnDelay(peerPartition));
  }
}
