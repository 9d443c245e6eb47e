import { fail } from "../base/assert.ts";
import { releaseHeld, sendThrough } from "./faulty_cable.ts";
import { countCutOff, decideFate, type Fate } from "../link/fault.ts";
import { type Link, transmit } from "../link/link.ts";
import type { Frame, Input, Message } from "../node.ts";
import { type LocalNode, noticeOf, type Port } from "./local_node.ts";
import { type Event, EVENT_KINDS, type EventQueue, ownEvent } from "./event_queue.ts";
import { NEVER, type Time } from "../base/time.ts";

export interface Departure {
  readonly to: string;
  readonly event: Event;
}

export interface OutgoingOptions {
  readonly queue: EventQueue;
  readonly returnDelay: (partition: string) => Time;
}

const RELEASE_INPUT: Input = { kind: "wake" };

export class Outgoing {
  /** Events from here on must wait: an answer to a sent message could precede them. */
  limit: Time = NEVER;
  /** Events must wait from the arrival of sent messages on, not from that of their answers. */
  isNarrow = false;
  now: Time = 0;
  readonly #queue: EventQueue;
  readonly #returnDelay: (partition: string) => Time;
  #departures: Departure[] = [];

  constructor({ queue, returnDelay }: OutgoingOptions) {
    this.#queue = queue;
    this.#returnDelay = returnDelay;
  }

  takeDepartures(): Departure[] {
    const departures = this.#departures;
    this.#departures = [];
    return departures;
  }

  /** @returns when the transmitter is free again, in ps. */
  send(localNode: LocalNode, number: number, message: Message, departAt: Time): Time {
    const port = localNode.ports[number];
    if (port === undefined) fail(`${localNode.name} has no port ${number}`);
    const node = localNode.node!;
    if (!(departAt >= this.now + node.processingPs)) {
      fail(`${localNode.name} sends at ${departAt} ps, earlier than its processing delay allows`);
    }
    const { link } = port;
    const leaving = message.kind === "frame" && port.up ? port.faults?.leaving : undefined;
    const fate = leaving && decideFate(leaving, this.now, message as Frame);
    const rate = fate && Math.min(fate.bitsPerSecond, link.bitsPerSecond);
    transmit(link, departAt + (port.stallOfNext?.() ?? 0), message, rate);
    if (!port.up) {
      if (port.cutBy !== undefined) countCutOff(port.faults!.leaving, port.cutBy);
    } else if (fate === undefined) {
      this.#post(localNode, port, message, link);
    } else {
      this.#sendThrough(localNode, port, fate);
    }
    return link.freeAt;
  }

  release(localNode: LocalNode, event: Event): void {
    releaseHeld(localNode, event, (port, passing) => {
      this.#post(localNode, port, passing.message, passing);
    });
  }

  announce(localNode: LocalNode, time: Time, up: boolean): void {
    for (const port of localNode.ports) {
      if (port === undefined) continue;
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

  #sendThrough(localNode: LocalNode, port: Port, fate: Fate): void {
    const { index, life } = localNode;
    const { now } = this;
    const number = localNode.releases;
    const releaseAt = sendThrough(port, { now, fate, number }, (passing) => {
      this.#post(localNode, port, passing.message, passing);
    });
    if (releaseAt === undefined) return;
    localNode.releases++;
    const event = { time: releaseAt, kind: EVENT_KINDS.release, counter: number };
    this.#queue.push(ownEvent(index, life, { ...event, input: RELEASE_INPUT }));
  }

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
    const answerPs = this.isNarrow ? 0 : this.#returnDelay(peerPartition);
    this.limit = Math.min(this.limit, event.time + answerPs);
  }
}
