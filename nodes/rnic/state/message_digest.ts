/**
 * V-02, the sender's side: the CRC of a verified write's data, taken as its packets leave. Frames of a
 * queue pair leave in the order they were begun, so a register per message is enough, however the
 * payload was fetched.
 */
import { crcUpdate } from "../../../fabric/wire/roce/icrc.ts";
import { viewOf } from "../../../fabric/base/slab.ts";
import type { FrameJob } from "./tx_frame.ts";
import { psnDistance } from "./psn.ts";
import type { SendWork } from "./outstanding_wqe.ts";

/**
 * Takes the payload of a packet that leaves into its message's CRC, once: what is sent again was fetched
 * again, and if that damaged it the receiver must find out, not be given a CRC that fits.
 */
export function coverPayload(work: SendWork, { psn, payload }: FrameJob): void {
  const { digest } = work;
  if (digest === undefined || psnDistance(work.firstPsn, psn) !== digest.packets) return;
  digest.packets++;
  digest.register = crcUpdate(digest.register, viewOf(payload), { from: 0, end: payload.length });
}

/** The CRC that the message's last packet carries; 0 where nobody looks at it. */
export function digestOf({ wqe, digest }: SendWork): number {
  return digest === undefined ? wqe?.verify?.crc ?? 0 : ~digest.register >>> 0;
}
