/**
 * Loopback: frames to the card's own address. Both modules treat them as others, in the same time,
 * but no port counter has them (rdmamojo.com, "Loopback messages in RDMA"). [choice] The internal
 * path takes no time, and the transmitter gives it frames at the port's rate, between those to the
 * wire: no published figure of this path alone is known.
 */
import { wireBytes } from "../../../fabric/link/link.ts";
import { NEVER, type Time, transferTime } from "../../../fabric/base/time.ts";
import type { Frame } from "../../../fabric/node.ts";
import { lengthOf, type RocePacket } from "../../../fabric/wire/roce/packet.ts";
import type { Device } from "../state/device.ts";

export function isOwn({ plan }: Device, packet: RocePacket): boolean {
  return packet.destinationAddress === plan.address >>> 0;
}

/** @returns when the transmitter is free again. */
export function loopFrame(device: Device, frame: Frame, departAt: Time): Time {
  const { counters, plan, transmitter, out } = device;
  counters.loopbackFrames++;
  counters.loopbackBytes += lengthOf(frame);
  const startPs = Math.max(departAt, transmitter.freeAt, transmitter.loopedUntil);
  const endPs = startPs + transferTime(wireBytes(frame), plan.bitsPerSecond);
  const span = { startPs, endPs };
  transmitter.looped.push({ frame, span });
  transmitter.loopedUntil = endPs;
  out.looped?.("sent", frame, span);
  return endPs;
}

export function takeLooped({ transmitter: { looped }, now, out }: Device): Frame | undefined {
  const first = looped.peek();
  if (first === undefined || first.span.endPs > now) return undefined;
  looped.shift();
  out.looped?.("received", first.frame, first.span);
  return first.frame;
}

export function loopbackWakeAt({ transmitter: { looped } }: Device): Time {
  return looped.peek()?.span.endPs ?? NEVER;
}
