/** Hint messages as they come: to the side of this card that each concerns. Nothing in one is trusted (H-24). */
import { hintOf } from "../../../fabric/wire/roce/hint.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { type Device, drop } from "../state/device.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { endOf, takeWanted } from "./agree.ts";
import { takeAnswer } from "./look_ahead.ts";
import { takeAnnouncement } from "./prepare.ts";

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
