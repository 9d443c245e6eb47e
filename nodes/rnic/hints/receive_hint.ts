/** Hint messages as they come: to the side of this card that each concerns. Nothing in one is trusted (H-24). */
import { detachHint, hintOf } from "../../../fabric/wire/roce/hint.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { type Device, drop } from "../state/device.ts";
import type { Hints } from "../state/hints/hint_state.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { endOf, takeWanted } from "./agree.ts";
import { takeAnswer } from "./look_ahead.ts";
import { takeAnnouncement, takeRange } from "./prepare.ts";

/**
 * H-07: takes the hint off a packet of a queue pair that takes part; one that does not ignores the reserved bits.
 * @returns the packet as it is without; undefined where nothing is left to be done.
 */
export function takeHintOff(
  device: Device,
  hints: Hints,
  { qp, packet }: { readonly qp: QueuePair; readonly packet: RocePacket },
): RocePacket | undefined {
  const end = endOf(hints, qp);
  if (end === undefined) return packet;
  const hinted = detachHint(packet);
  // Where the data ends is not known, so the packet is as good as lost.
  if (hinted === undefined) {
    hints.counters.hintsMalformed++;
    return undefined;
  }
  const { message, range } = hinted;
  const sender = { hints, qp, end };
  if (range !== undefined) {
    takeRange(device, sender, { range, packet });
    return undefined;
  }
  // What is agreed and answered has an operation code.
  if (message?.type === "announce") takeAnnouncement(device, sender, { message, packet });
  return hinted.packet;
}

/** A VENDOR HINT of the queue pair's peer. A queue pair that takes no part does not know the operation code. */
export function receiveHint(device: Device, qp: QueuePair, packet: RocePacket): void {
  const { hints } = device;
  const end = hints && endOf(hints, qp);
  if (hints === undefined || end === undefined) return drop(device, "vendor-operation");
  const message = hintOf(packet);
  if (message === undefined) {
    hints.counters.hintsMalformed++;
    return;
  }
  const sender = { hints, qp, end };
  switch (message.type) {
    case "announce":
      return takeAnnouncement(device, sender, { message, packet });
    case "prepared":
    case "refused":
      return takeAnswer(device, sender, message);
    case "wanted":
      return takeWanted(device, sender, message);
  }
}
