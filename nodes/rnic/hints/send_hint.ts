/**
 * Hints as frames of their queue pair (H-07: an operation code of their own, or a flag; H-08, figure 7). They have
 * PSNs of their own, as a peer without hints would miss their queue pair's. They are not retransmitted.
 */
import { assert } from "../../../fabric/base/assert.ts";
import {
  encodeHint,
  type HintEntry,
  type HintMessage,
  hintParts,
} from "../../../fabric/wire/roce/hint.ts";
import { OPCODE, opcodeFor, opcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { Device } from "../state/device.ts";
import type { HintEnd, HintGroupEnd, Hints } from "./state/hint_state.ts";
import { psnAdd } from "../state/psn.ts";
import { qKeyOf, type QueuePair } from "../state/queue_pair.ts";
import type { UdAddress } from "../../../fabric/wire/host_bus/wqe.ts";
import { frameBytes, type PacketFrame } from "../../../fabric/wire/roce/packet.ts";
import { MULTICAST_QPN } from "../../../fabric/wire/roce/bth.ts";
import type { TxFrame } from "../state/tx_frame.ts";
import { ownBthAt } from "../transmit/make_packet.ts";
import { fetchPayload, NO_BYTES } from "../transmit/send.ts";

const ROWS = {
  rc: opcodeRow(OPCODE["VENDOR HINT"])!,
  uc: opcodeRow(OPCODE["VENDOR UC HINT"])!,
};
const DATAGRAM = opcodeRow(OPCODE["UD SEND ONLY"])!;

/** A queue pair's end, in hints: of RC or UC, as UD has no peer. */
export interface Sender {
  readonly hints: Hints;
  readonly qp: QueuePair;
  readonly end: HintEnd;
}

/** Sends a message that fits a packet, ahead of all frames that the queue pair begins later. */
export function sendHint(device: Device, { hints, qp, end }: Sender, message: HintMessage): void {
  const { hintEth, payload } = hintParts(message);
  assert(payload.length <= qp.attributes.pathMtu, "A hint is longer than its packet");
  const { nextPsn: psn } = end;
  const row = ROWS[qp.type as keyof typeof ROWS];
  sendFrame(device, hints, { qp, row, psn, rare: { hintEth }, payload });
  end.nextPsn = psnAdd(psn, 1);
}

/**
 * Sends the range of an element as the flag of a READ or WRITE of no bytes. Its PSN is that of the coming request,
 * and is not consumed: with the flag it is no request.
 * @param answer asks the peer to say when it has prepared itself.
 */
export function sendRange(
  device: Device,
  { hints, qp }: Pick<Sender, "hints" | "qp">,
  { entry, answer }: { readonly entry: HintEntry; readonly answer: boolean },
): void {
  const { operation, sequence: psn, va, rkey, length } = entry;
  const row = opcodeFor({
    service: qp.type,
    operation: operation === "read" ? "read-request" : "write",
  }, "only");
  sendFrame(device, hints, {
    qp,
    row,
    psn,
    ackReq: answer,
    reth: { va, rkey, length: 0 },
    hint: { form: "range", length, bytes: 0 },
    payload: NO_BYTES,
  });
}

/** H-08, figure 9: a datagram to the group, whose members pick out what concerns them. */
export function sendToGroup(
  device: Device,
  { hints, by, group }: {
    readonly hints: Hints;
    readonly by: QueuePair;
    readonly group: HintGroupEnd;
  },
  message: HintMessage,
): void {
  const { address, nextPsn: psn } = group;
  const route = { trafficClass: 0, hopLimit: 64, udpSourcePort: 0 };
  const ud: UdAddress = { address, qpn: MULTICAST_QPN, qKey: qKeyOf(by), ...route };
  const payload = encodeHint(message);
  assert(payload.length <= device.plan.mtu, "A hint is longer than a datagram");
  sendFrame(device, hints, { qp: by, row: DATAGRAM, psn, ud, payload });
  group.nextPsn = psnAdd(psn, 1);
}

function sendFrame(
  device: Device,
  { line }: Hints,
  frame:
    & Pick<TxFrame, "qp" | "row" | "psn" | "payload">
    & Partial<Pick<TxFrame, "ackReq" | "reth" | "rare" | "hint" | "ud">>,
): void {
  const { qp, row, psn, payload, ackReq = false, reth, rare, hint, ud } = frame;
  const job: TxFrame = {
    qp,
    line,
    life: qp.life,
    epoch: line.epoch,
    row,
    psn,
    ackReq,
    solicited: false,
    reth,
    immediate: undefined,
    rare,
    hint,
    ud,
    work: undefined,
    read: undefined,
    last: true,
    payloadBytes: payload.length,
    payload,
    readyAt: device.stageAt,
    fetching: false,
    failed: false,
  };
  fetchPayload(device, [job], { segments: [], offset: 0 });
}

/** Counts the hint in a frame that leaves. @returns whether the frame is a hint, and nothing else. */
export function countHint(
  device: Device,
  { counters }: Hints,
  { frame: { work, read, hint, row, payloadBytes }, sent: { length } }: {
    readonly frame: TxFrame;
    readonly sent: PacketFrame;
  },
): boolean {
  if (work !== undefined || read !== undefined) {
    if (hint !== undefined) {
      counters.hintBytesOut += length - frameBytes(row, payloadBytes, ownBthAt(device));
    }
    return false;
  }
  counters.hintFramesOut++;
  counters.hintBytesOut += length;
  return true;
}

/** A message's number, by which it is answered. */
export function takeSequence(hints: Hints): number {
  const sequence = hints.nextSequence;
  hints.nextSequence = (sequence + 1) >>> 0;
  return sequence;
}
