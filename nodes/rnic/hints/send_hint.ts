/**
 * Hint messages as frames of their queue pair (H-07: an operation code of their own; H-08, figure 7). They take
 * none of the PSNs of its requests, which a peer without hints would miss, but have their own; nothing is sent
 * again: a lost hint is a hint less.
 */
import { type HintMessage, hintParts } from "../../../fabric/wire/roce/hint.ts";
import { OPCODE, opcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { Device } from "../state/device.ts";
import type { HintEnd, Hints } from "../state/hints/hint_state.ts";
import { psnAdd } from "../state/psn.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { TxFrame } from "../state/tx_frame.ts";
import { fetchPayload } from "../transmit/send.ts";

const ROW = opcodeRow(OPCODE["VENDOR HINT"])!;

/** A queue pair's end, in hints. */
export interface Sender {
  readonly hints: Hints;
  readonly qp: QueuePair;
  readonly end: HintEnd;
}

/** Sends a message that fits a packet, ahead of all that the queue pair begins later. */
export function sendHint(device: Device, { hints, qp, end }: Sender, message: HintMessage): void {
  const { hintEth, payload } = hintParts(message);
  const frame: TxFrame = {
    qp,
    line: hints.line,
    life: qp.life,
    epoch: hints.line.epoch,
    row: ROW,
    psn: end.nextPsn,
    ackReq: false,
    solicited: false,
    reth: undefined,
    immediate: undefined,
    rare: { hintEth },
    ud: undefined,
    work: undefined,
    read: undefined,
    last: true,
    payloadBytes: payload.length,
    payload,
    readyAt: device.stageAt,
    fetching: false,
    failed: false,
  };
  end.nextPsn = psnAdd(end.nextPsn, 1);
  fetchPayload(device, [frame], { segments: [], offset: 0 });
}

/** A message's number, by which it is answered. */
export function takeSequence(hints: Hints): number {
  const sequence = hints.nextSequence;
  hints.nextSequence = (sequence + 1) >>> 0;
  return sequence;
}
