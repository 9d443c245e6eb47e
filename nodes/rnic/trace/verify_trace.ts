/**
 * The receiver's lines of a verified write: document 2, figure 6 with a read-back, figure 5
 * without.
 */
import { checksOf, readsBack, VERIFY_STATUS } from "../../../fabric/wire/roce/verify_eth.ts";
import type { Device } from "../state/device.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { SingleService, VerifiedWrite } from "../state/responder_state.ts";
import { trace } from "./trace.ts";

function stepsOf({ level }: VerifiedWrite): { readonly write: string; readonly answer: string } {
  return readsBack(level) ? { write: "4603", answer: "4607" } : { write: "4503", answer: "4504" };
}

export function traceVerifiedArrival(device: Device, qp: QueuePair, verified: VerifiedWrite): void {
  const { opened: { firstPsn, length, va }, level } = verified;
  const checked = checksOf(level).before ? "CRC holds, " : "";
  trace(device, qp, {
    step: stepsOf(verified).write,
    text: `${checked}DMA write of ${length} B at VA 0x${va.toString(16)}`,
    psn: firstPsn,
    inbound: true,
  });
}

export function traceLookedAt(
  device: Device,
  qp: QueuePair,
  look: { readonly verified: VerifiedWrite; readonly crc: number | undefined },
): void {
  const { verified, crc } = look;
  const keys = { psn: verified.opened.firstPsn, inbound: true } as const;
  if (crc !== undefined) {
    trace(device, qp, { step: "4605", text: `CRC of what was read: ${hex(crc)}`, ...keys });
  }
  const text = crc === undefined
    ? "what was read is compared"
    : `compared with ${hex(verified.digest)}`;
  trace(device, qp, { step: "4606", text, ...keys });
}

function hex(crc: number): string {
  return crc.toString(16).padStart(8, "0");
}

const STATUS_TEXTS: Readonly<Record<number, string>> = {
  [VERIFY_STATUS.written]: "written",
  [VERIFY_STATUS["crc-mismatch"]]: "CRC does not hold, nothing is written",
  [VERIFY_STATUS["read-back-differs"]]: "memory holds something else",
  [VERIFY_STATUS["read-failed"]]: "memory cannot be read",
};

export function traceVerdict(
  device: Device,
  qp: QueuePair,
  given: { readonly service: SingleService; readonly verified: VerifiedWrite },
): void {
  const { service, verified } = given;
  trace(device, qp, {
    step: stepsOf(verified).answer,
    text: `response: ${STATUS_TEXTS[service.result!.status]}`,
    psn: verified.opened.firstPsn,
    inbound: true,
  });
}
