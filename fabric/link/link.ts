/**
 * One direction of a cable, at its sender: a transmitter that sends messages in sequence at the
 * cable's rate, and a latency. `fault.ts` adds the faults.
 */
import { assert } from "../base/assert.ts";
import type { Message } from "../node.ts";
import { NEVER, type Time, transferTime } from "../base/time.ts";
import { lengthOf } from "../wire/roce/packet.ts";
import { LEAST_COHERENT_BYTES } from "../wire/host_bus/coherent.ts";
import { coherentBusBytes, LEAST_PCIE_BYTES, pcieWireBytes } from "../wire/host_bus/pcie.ts";

/** Bytes on the wire beyond the captured frame: FCS, then preamble and gap. */
const FCS_BYTES = 4;
const PREAMBLE_AND_GAP_BYTES = 20;
/** The minimum Ethernet frame, with FCS (IEEE 802.3 minFrameSize). */
const LEAST_FRAME_BYTES = 64;
/** Bytes that a cut-through switch needs: preamble and the headers that determine the port. */
const HEAD_BYTES = 64;

export interface LinkOptions {
  readonly latencyPs: Time;
  readonly bitsPerSecond: number;
  readonly kind: "bus" | "network";
  /** Cut-through: the receiver acts on a frame's head, whose time {@link Link.arrival} is. */
  readonly headOnly: boolean;
  /** The processor's coherent bus, whose messages are flits; absent: PCIe. */
  readonly attach?: "coherent" | undefined;
}

/** A transmitter. Sending leaves its result in the last three fields: it allocates no memory. */
export interface Link extends LinkOptions {
  /** Transmission time of a head; NEVER where the receiver waits for the tail. */
  readonly headPs: Time;
  /** When the last message's last bit has left: the next message starts no earlier. */
  freeAt: Time;
  /** When the receiver processes the last message: the arrival of its head or of its tail. */
  arrival: Time;
  /** Time from `arrival` to the last bit: 0 unless the receiver acts on heads. */
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
  const state = { headPs, freeAt: 0, arrival: 0, tailPs: 0 };
  return { latencyPs, bitsPerSecond, kind, headOnly, attach, ...state };
}

/** Bytes of the message on its cable. */
export function wireBytes(message: Message, attach?: "coherent"): number {
  if (message.kind !== "frame") {
    return attach === undefined ? pcieWireBytes(message) : coherentBusBytes(message);
  }
  const frameBytes = Math.max(lengthOf(message) + FCS_BYTES, LEAST_FRAME_BYTES);
  return frameBytes + PREAMBLE_AND_GAP_BYTES;
}

/**
 * Sends `message` at `departAt`, or when the previous one has left, whichever is later. The result
 * is in `link.arrival`, `link.tailPs` and `link.freeAt` until the next call. @returns `link`.
 */
export function transmit(link: Link, departAt: Time, message: Message): Link {
  const start = departAt > link.freeAt ? departAt : link.freeAt;
  const serialisationPs = transferTime(wireBytes(message, link.attach), link.bitsPerSecond);
  const untilArrivalPs = serialisationPs < link.headPs ? serialisationPs : link.headPs;
  link.freeAt = start + serialisationPs;
  link.arrival = start + untilArrivalPs + link.latencyPs;
  link.tailPs = serialisationPs - untilArrivalPs;
  return link;
}

/** Minimum time from departure to arrival over all messages: the link's part of the lookahead. */
export function leastDelay(link: LinkOptions): Time {
  const leastBytes = link.kind === "bus"
    ? link.attach === undefined ? LEAST_PCIE_BYTES : LEAST_COHERENT_BYTES
    : link.headOnly
    ? HEAD_BYTES
    : LEAST_FRAME_BYTES + PREAMBLE_AND_GAP_BYTES;
  return link.latencyPs + transferTime(leastBytes, link.bitsPerSecond);
}
