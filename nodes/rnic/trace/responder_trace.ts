/** The responder's lines of a ladder, by the documents' figures. */
import { nakText } from "../../../fabric/wire/roce/aeth.ts";
import type { Device } from "../state/device.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { OpenMessage, PersistRecord, RecvWqe } from "../state/responder_state.ts";
import { VENDOR_ERRORS, type VendorError } from "../../../fabric/wire/host_bus/vendor_error.ts";
import { trace } from "./trace.ts";
import type { NotifiedRanges } from "../state/persist_records.ts";

/** The message's last DMA write is on the bus, its ACK owed. */
export function traceArrival(device: Device, qp: QueuePair, message: OpenMessage): void {
  const { firstPsn, length, va, persist } = message;
  const { flow, flush } = device.persistence;
  const step = persist ? (flush === "cpu" ? "S1004" : "S904") : (flow === 2 ? "S304" : "S204");
  const ackStep = persist
    ? (flush === "cpu" ? "S1009" : "reception-ack")
    : (flow === 2 ? "S305" : "S205");
  const place = `VA 0x${va.toString(16)}`;
  const keys = { psn: firstPsn, inbound: true } as const;
  trace(device, qp, { step, text: `DMA write of ${length} B at ${place}`, ...keys });
  trace(device, qp, { step: ackStep, text: "reception ACK", ...keys });
}

/** `psn` is that of the refused or expected packet (§3.4). */
export function traceNak(
  device: Device,
  qp: QueuePair,
  nak: {
    readonly psn: number;
    readonly syndrome: number;
    readonly reason?: string | undefined;
  },
): void {
  const { psn, syndrome, reason } = nak;
  const text = nakText(syndrome);
  if (text === undefined) return;
  const step = text.startsWith("RNR") ? "rnr-nak" : "nak";
  const why = reason === undefined ? "" : `: ${reason}`;
  trace(device, qp, { step, text: `${text}, PSN ${psn}${why}`, psn, inbound: true });
}

export function traceFailedReceive(
  device: Device,
  qp: QueuePair,
  { position, fault }: { readonly position: number; readonly fault: VendorError },
): void {
  const { status, code, text } = VENDOR_ERRORS[fault];
  const words = `CQE of RECV WQE at ${position}: ${status}, ` +
    `vendor_err 0x${code.toString(16)}: ${text}`;
  trace(device, qp, { step: "error-cqe", text: words, inbound: true, recvs: [position] });
}

export function traceNotified(
  device: Device,
  qp: QueuePair,
  delivery: {
    readonly record: PersistRecord;
    readonly recv: RecvWqe;
    readonly notified: NotifiedRanges;
  },
): void {
  const { record, recv: { position }, notified: { va, byteCount, more } } = delivery;
  const keys = { psn: record.firstPsn, inbound: true, recvs: [position] } as const;
  const others = more === 0 ? "" : ` and ${more} more`;
  const text = `RECV WQE at ${position} names VA 0x${va.toString(16)}, ${byteCount} B${others}`;
  trace(device, qp, { step: "S1006", text, ...keys });
  trace(device, qp, { step: "S1007", text: "RECV WQE cleared, its CQE written", ...keys });
}

/**
 * The side that wrote last gets the answer of figure 3 (S318, S324), the other its question (S312,
 * S313, S314).
 */
export function traceReceive(device: Device, qp: QueuePair, message: OpenMessage): void {
  const { firstPsn, received, recv } = message;
  const isAnswer = qp.lastWrite === "out";
  const place = `RECV WQE at ${recv!.position}`;
  const text = `CQE of the RECV, ${received} B`;
  const keys = { psn: firstPsn, inbound: true, recvs: [recv!.position] } as const;
  trace(device, qp, { step: isAnswer ? "S318" : "S312", text: `${place} taken`, ...keys });
  trace(device, qp, { step: isAnswer ? "S324" : "S313", text, ...keys });
  trace(device, qp, {
    step: isAnswer ? "send-ack" : "S314",
    text: "ACK of the SEND",
    ...keys,
  });
}
