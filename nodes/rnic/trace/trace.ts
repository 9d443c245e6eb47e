/**
 * The RNIC's lines of a ladder, with the documents' step numbers. Call sites ask `out.tracing` first,
 * so that no text is made without a reader.
 */
import type { TraceStep } from "../../../fabric/node.ts";
import type { Device } from "../state/device.ts";
import type { QueuePair } from "../state/queue_pair.ts";

/** `10.0.0.1` */
export function addressText(address: number): string {
  return `${address >>> 24}.${(address >>> 16) & 255}.${(address >>> 8) & 255}.${address & 255}`;
}

/** `10.0.0.1:17-10.0.0.2:18`: an RNIC knows addresses, not names; the lower address comes first. */
function connectionText(device: Device, qp: QueuePair): string {
  const here = device.plan.address >>> 0, there = qp.attributes.destAddress >>> 0;
  const near = `${addressText(here)}:${qp.qpn}`;
  const far = `${addressText(there)}:${qp.attributes.destQpn}`;
  const nearFirst = here < there || (here === there && qp.qpn <= qp.attributes.destQpn);
  return nearFirst ? `${near}-${far}` : `${far}-${near}`;
}

/** One line of this queue pair's ladder: `psn` is that of the message's first packet. */
export function trace(device: Device, qp: QueuePair, line: Omit<TraceStep, "qpn">): void {
  const connection = qp.type === "rc" && { connection: connectionText(device, qp) };
  device.out.trace({ ...line, qpn: qp.qpn, ...connection });
}
