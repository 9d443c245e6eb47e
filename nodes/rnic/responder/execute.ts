import { NAK_SYNDROMES } from "../../../fabric/wire/roce/aeth.ts";
import type { Device } from "../state/device.ts";
import {
  acceptPacket,
  acceptRequest,
  rememberResource,
  takeReceive,
} from "../state/responder_changes.ts";
import { flipped } from "../state/flips.ts";
import { failFatally } from "../requester/qp_error.ts";
import { findRegion, namedRegion } from "../dma/memory_region.ts";
import { persistMessage, wantsPersistence } from "../persistence/pm_module.ts";
import { noteWritten } from "../persistence/pm_ranges.ts";
import { isFirst, packetsOf, psnAdd } from "../state/psn.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { acknowledgePacket, answerRead } from "../answers/answers.ts";
import { completeReceive, failReceive, serveReceives } from "../queues/receive_queue.ts";
import { traceArrival, traceReceive } from "../trace/responder_trace.ts";
import { trace } from "../trace/trace.ts";
import {
  isVerdict,
  type OpenMessage,
  type RequestIn,
  type Verdict,
} from "../state/responder_state.ts";
import { isLive } from "../dma/translation.ts";
import { bytesOf } from "../state/memory.ts";
import { placePayload, receiveFault, recvSegments } from "../dma/place_payload.ts";
import { invalidateKey } from "../dma/memory_window.ts";

export function executeWrite(device: Device, qp: QueuePair, input: RequestIn): Verdict | undefined {
  const { packet } = input;
  const opened = isFirst(input.row) ? openWrite(device, qp, input) : qp.responder.open!;
  if (typeof opened !== "object") return opened;
  if (!isLive(opened.segments)) return NAK_SYNDROMES["remote-access-error"];
  // Nothing between here and memory checks the data (V-08): the buffer's faults strike in one
  // place.
  const data = flipped(device, "checked", flipped(device, "buffer", packet.payload));
  const { segments, received: offset } = opened;
  const of = { qp, psn: packet.bth.psn, inbound: true };
  const readyAt = placePayload(device, data, { segments, offset, isWrite: true, of });
  if (!opened.persist) noteWritten(device, qp, { opened, length: packet.payload.length });
  qp.lastWrite = "in";
  const ends = acceptPacket(qp, opened, input);
  acknowledgePacket(device, qp, { input, readyAt });
  if (!ends) return undefined;
  if (device.out.tracing) traceArrival(device, qp, opened);
  if (input.row.immediate) completeImmediate(device, qp, { input, length: opened.length });
  if (opened.persist) {
    const { firstPsn, va, length, region } = opened;
    persistMessage(device, qp, { firstPsn, lastPsn: packet.bth.psn, va, length, region });
  }
  return undefined;
}

function openWrite(device: Device, qp: QueuePair, input: RequestIn): OpenMessage | Verdict {
  const { packet, row } = input;
  const { va, rkey, length } = packet.reth!;
  // Key and address are not checked without data, but the region decides (P-22).
  const granted = namedRegion(device, qp, input);
  if (isVerdict(granted)) return granted;
  // P-21: only persistent memory keeps the opcode's promise: a right that the region lacks. P-22
  // refuses such a region when it is registered.
  if (row.persistence && granted?.persistent === false) {
    return NAK_SYNDROMES["remote-access-error"];
  }
  const region = granted ?? findRegion(device.regions, rkey);
  const start = length > 0 ? Number(va) : 0;
  return {
    operation: input.operation,
    vendor: row.vendor,
    firstPsn: packet.bth.psn,
    va: start,
    region,
    segments: granted === undefined ? [] : [{ region: granted, va: start, length }],
    length,
    recv: undefined,
    persist: qp.type === "rc" && wantsPersistence(row, region),
    received: 0,
  };
}

/** The receive WQE's memory is ignored (§3.4). */
function completeImmediate(
  device: Device,
  qp: QueuePair,
  message: { readonly input: RequestIn; readonly length: number },
): void {
  const { input, length } = message;
  const recv = takeReceive(qp);
  completeReceive(device, qp, { recv, input, byteCount: length, opcode: "recv-write-immediate" });
}

export function executeSend(device: Device, qp: QueuePair, input: RequestIn): Verdict | undefined {
  const { packet, row } = input;
  const opened = isFirst(input.row) ? openSend(device, qp, input) : qp.responder.open!;
  if (typeof opened !== "object") return opened;
  if (opened.received + packet.payload.length > opened.length) {
    failReceive(device, qp, { recv: opened.recv!, fault: "receive-length" });
    return NAK_SYNDROMES["invalid-request"];
  }
  if (!isLive(opened.segments)) {
    failReceive(device, qp, { recv: opened.recv!, fault: "region-gone" });
    return NAK_SYNDROMES["remote-operational-error"];
  }
  const { segments, received: offset } = opened;
  const of = { qp, psn: packet.bth.psn, inbound: true };
  const readyAt = placePayload(device, packet.payload, { segments, offset, of });
  noteWritten(device, qp, { opened, length: packet.payload.length });
  if (!acceptPacket(qp, opened, input)) {
    acknowledgePacket(device, qp, { input, readyAt });
    return undefined;
  }
  if (row.invalidate && !invalidateKey(device, qp, packet.ieth!.rkey)) {
    // Class J: no NAK; the requester learns of it by its time-out.
    failReceive(device, qp, { recv: opened.recv!, fault: "peer-invalidate" });
    failFatally(device, qp);
    return undefined;
  }
  if (device.out.tracing) traceReceive(device, qp, opened);
  completeReceive(device, qp, {
    recv: opened.recv!,
    input,
    byteCount: opened.received,
    opcode: row.immediate ? "recv-immediate" : row.invalidate ? "recv-invalidate" : "recv",
  });
  acknowledgePacket(device, qp, { input, readyAt });
  serveReceives(device, qp);
  return undefined;
}

function openSend(device: Device, qp: QueuePair, input: RequestIn): OpenMessage | Verdict {
  const recv = takeReceive(qp);
  const segments = recvSegments(device, qp, recv);
  if (segments === undefined) {
    failReceive(device, qp, { recv, fault: receiveFault(device, qp, recv) });
    return NAK_SYNDROMES["remote-operational-error"];
  }
  return {
    operation: input.operation,
    vendor: false,
    firstPsn: input.packet.bth.psn,
    va: 0,
    region: undefined,
    segments,
    length: bytesOf(segments),
    recv,
    persist: false,
    received: 0,
  };
}

/** The READ takes its response's PSNs, and is answered in its turn. */
export function executeRead(device: Device, qp: QueuePair, input: RequestIn): Verdict | undefined {
  const { psn } = input.packet.bth;
  const { va, rkey, length } = input.packet.reth!;
  const region = namedRegion(device, qp, input);
  if (isVerdict(region)) return region;
  const packets = packetsOf(length, qp.attributes.pathMtu);
  const msn = acceptRequest(qp, psnAdd(psn, packets));
  rememberResource(qp, { kind: "read-record", psn, packets, va, length, key: rkey });
  if (device.out.tracing) {
    trace(device, qp, { step: "S211", text: `DMA read of ${length} B`, psn, inbound: true });
  }
  answerRead(device, qp, { psn, va, length, region, msn, repeat: false });
  return undefined;
}
