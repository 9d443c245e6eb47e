/** Checks of work before any of it is sent (`rocev2.md` §3.2, §4.3). */
import { ATOMIC_BYTES } from "../../../fabric/wire/roce/atomic_eth.ts";
import { isVerifiable } from "../../../fabric/wire/roce/verify_eth.ts";
import type { VendorError } from "../../../fabric/wire/host_bus/vendor_error.ts";
import type { SendWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import type { Device } from "../state/device.ts";
import { localFault, localSegments } from "../dma/memory_region.ts";
import { MESSAGE_BYTES_MAX } from "../state/psn.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { OutstandingWqe, WorkPlan } from "../state/outstanding_wqe.ts";

/**
 * @returns the local fault of the work (§3.2), with that of a key.
 */
export function checkWork(
  device: Device,
  qp: QueuePair,
  work: OutstandingWqe,
): VendorError | undefined {
  const { wqe, plan } = work;
  if (wqe === undefined || !serviceHas(qp, wqe, plan)) return "service";
  if (plan.takesSlot && qp.attributes.maxRdAtomic === 0) return "no-rd-atomic";
  if (work.length > MESSAGE_BYTES_MAX) return "message-length";
  if (!isWellFormed(work)) return "malformed";
  // Checked data has to fit the receiver's room as a whole (V-02).
  const { verify } = wqe;
  if (verify !== undefined && !isVerifiable(verify.level, work.length)) return "verify-length";
  if (wqe.inline !== undefined) return undefined;
  const rights = { pd: qp.pd, need: plan.localNeed };
  const segments = localSegments(device, wqe.sges, rights);
  if (segments === undefined) return localFault(device, wqe.sges, rights);
  work.segments = segments;
  return undefined;
}

/** §4.3. */
function serviceHas({ type }: QueuePair, wqe: SendWqe, { types }: WorkPlan): boolean {
  return types.includes(type) && (wqe.ud !== undefined) === (type === "ud");
}

/** §3.2 "malformed WQE". */
function isWellFormed({ wqe, plan, length }: OutstandingWqe): boolean {
  const isInline = wqe!.inline !== undefined;
  switch (plan.data) {
    case "room":
      return !isInline;
    case "word room":
      return !isInline && length === ATOMIC_BYTES;
    case "word":
      return isInline && length === ATOMIC_BYTES;
    case "none":
      return length === 0;
    case "sent":
    case "unread":
      return true;
  }
}
