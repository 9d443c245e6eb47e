/** One direction of a cable, at its sender: a transmitter at the cable's rate, and a latency. */
import { assert } from "../base/assert.ts";
import type { Message } from "../node.ts";
import { NEVER, type Time, transferTime } from "../base/time.ts";
import { lengthOf } from "../wire/roce/packet.ts";
import { LEAST_COHERENT_BYTES } from "../wire/host_bus/coherent.ts";
import { coherentBusBytes, LEAST_PCIE_BYTES, pcieWireBytes } from "../wire/host_bus/pcie.ts";

const FCS_BYTES = 4;
const PREAMBLE_AND_GAP_BYTES = 20;
/** With FCS (IEEE 802.3 minFrameSize). */
const LEAST_FRAME_BYTES = 64;
/** A cut-through switch needs the preamble and the headers that determine the port. */
const HEAD_BYTES = 64;

export interface LinkOptions {
  readonly latencyPs: Time;
  readonly bitsPerSecond: number;
  readonly kind: "bus" | "network";
  /** Cut-through: the receiver acts on a frame's head, whose time {@link Link.arrival} is. */
  readonly headOnly: boolean;
  readonly attach?: "coherent" | undefined;
}

export interface Link extends LinkOptions {
  /** NEVER where the receiver waits for the tail. */
  readonly headPs: Time;
  /** When the last message began to leave. */
  startPs: Time;
  freeAt: Time;
  arrival: Time;
  /** From `arrival` to the last bit: 0 unless the receiver acts on heads. */
  tailPs: Time;
}

export function createLink(options: LinkOptions): Link {
  const { latencyPs, bitsPerSecond, kind, headOnly, attach } = options;
  assert(
    Number.isSafeInteger(latencyPs) && latencyPs > 0,
    `Cannot make a link as its latency must be a whole number of ps > 0: it is ${latencyPs}`,
  );
  assert(bitsPerSecond > 0, `Cannot make a link as its rate must be > 0: it is ${bitsPerSecond}`);
  const headPs = headOnly ? transferTime(HEAD_BYTES, bitsPerSecond) : NEVER;
  const state = { headPs, startPs: 0, freeAt: 0, arrival: 0, tailPs: 0 };
  return { latencyPs, bitsPerSecond, kind, headOnly, attach, ...state };
}

export function wireBytes(message: Message, attach?: "coherent"): number {
  if (message.kind !== "frame") {
    return attach === undefined ? pcieWireBytes(message) : coherentBusBytes(message);
  }
  const frameBytes = Math.max(lengthOf(message) + FCS_BYTES, LEAST_FRAME_BYTES);
  return frameBytes + PREAMBLE_AND_GAP_BYTES;
}

/**
 * At `departAt`, or when the previous message has left. @returns `link`, with the result in
 * `startPs`, `arrival`, `tailPs` and `freeAt` until the next call.
 * @param bitsPerSecond for this message: at most the link's.
 */
export function transmit(
  link: Link,
  departAt: Time,
  message: Message,
  bitsPerSecond = link.bitsPerSecond,
): Link {
  const start = departAt > link.freeAt ? departAt : link.freeAt;
  const serialisationPs = transferTime(wireBytes(message, link.attach), bitsPerSecond);
  // A switch cannot cut through what comes slower than it leaves: it has all of it first.
  const isWhole = serialisationPs < link.headPs || bitsPerSecond < link.bitsPerSecond;
  const untilArrivalPs = isWhole ? serialisationPs : link.headPs;
  link.startPs = start;
  link.freeAt = start + serialisationPs;
  link.arrival = start + untilArrivalPs + link.latencyPs;
  link.tailPs = serialisationPs - untilArrivalPs;
  return link;
}

/** From departure to arrival over all messages: the link's part of the lookahead. */
export function leastDelay(link: LinkOptions): Time {
  const leastBytes = link.kind === "bus"
    ? link.attach === undefined ? LEAST_PCIE_BYTES : LEAST_COHERENT_BYTES
    : link.headOnly
    ? HEAD_BYTES
    : LEAST_FRAME_BYTES + PREAMBLE_AND_GAP_BYTES;
  return link.latencyPs + transferTime(leastBytes, link.bitsPerSecond);
}
