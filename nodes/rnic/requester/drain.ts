/** Send queue drained (`rocev2.md` §4.1, SQD): what was started has completed, nothing new begins. */
import type { Device } from "../state/device.ts";
import { raiseEvent } from "./qp_error.ts";
import type { QueuePair } from "../state/queue_pair.ts";

/** Tells the host once, where it asked to be told. Called whenever work has completed. */
export function checkDrained(device: Device, qp: QueuePair): void {
  if (!qp.sq.drainNotify || qp.state !== "sqd") return;
  if (qp.requester.work.peek()?.started === true) return;
  qp.sq.drainNotify = false;
  raiseEvent(device, { type: "SQ_DRAINED", qpn: qp.qpn });
}
