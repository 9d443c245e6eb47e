/**
 * Three queue pairs of the firmware per home card and far card (decision 8), on the card's ordinary transport: PSN,
 * ACK, retransmission, acknowledgement of duplicates. Messages are queued in the card's memory; there are no rings
 * and no completion queue.
 *
 * [choice] They are connected by the greeting of a far card's life (decision 14), which crosses as a frame of its
 * own, to a queue pair number that all cards know: `Hello` names the far card's first queue pair (header,
 * `transaction`) and first PSN (BTH), `Welcome` home's. Well-known numbers for the links themselves would fail:
 * after a restart one end would begin at its first PSN while the other one expects another, and take new messages
 * for duplicates. A number and a first PSN belong to one link alone, so no message of an earlier link is accepted.
 */
import { assert } from "../../../fabric/base/assert.ts";
import { PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import type { CardMessage, WireMessage } from "../../../fabric/wire/roce/coherence_messages.ts";
import { type CardPacket, encodeCardMessage } from "../../../fabric/wire/roce/card_message.ts";
import { OPCODE, opcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { freeSlot, leaveSlot } from "../queues/install.ts";
import { stopWork } from "../requester/qp_error.ts";
import { CARD_CLASSES, type CardLink, type Coherence } from "./state/coherence_state.ts";
import { type Device, schedule } from "../state/device.ts";
import { createCardWork } from "../state/outstanding_wqe.ts";
import {
  applyAttributes,
  createQueuePair,
  NO_QUEUE,
  type QueuePair,
  resetQueuePair,
} from "../state/queue_pair.ts";
import { addWork } from "../state/requester_changes.ts";
import { createLine } from "../state/tx_frame.ts";
import { showSent } from "./trace.ts";
import { fetchPayload } from "../transmit/send.ts";

/** Destination of greetings: the last number but one of a queue pair; the last one is that of multicast. */
export const CARD_QPN = 0xff_fffe;
/** Links have four numbers each, from here on; a program's queue pairs get the lowest that are free. */
const FIRST_LINK_QPN = 0xc0_0000;
/** One less than there is room for: the last would have the number of greetings among its own. */
const LINK_NUMBERS = 0x0f_ffff;
/** 16.4 us: some round trips of a loaded rack (4.096 us · 2^value). [choice] The default lease is three of it. */
const TIMEOUT = 2;
/** The maximum of InfiniBand's three bits: a link that fails ends its life, so it is not given up early. */
const RETRIES = 7;

/** Slots of a card's table of timers for links, one more each than they use at a time: an old one may end late. */
export function linkSlots(peers: number): number {
  return 1 + 2 * CARD_CLASSES.length * peers;
}

/** The number of the first link of a card's start: its links have other numbers than those of earlier starts. */
export function firstLinkOf(life: number): number {
  return life % LINK_NUMBERS;
}

/** The queue pair of greetings, which has no peer. */
export function createControl(device: Device): QueuePair {
  const qp = newQueuePair(device, CARD_QPN, "coherence-request");
  device.queuePairs.delete(CARD_QPN);
  return qp;
}

function newQueuePair(device: Device, qpn: number, card: typeof CARD_CLASSES[number]): QueuePair {
  const qp = createQueuePair({
    qpn,
    type: "rc",
    pd: 0,
    sqQueue: NO_QUEUE,
    rqQueue: NO_QUEUE,
    rqStride: 0,
    srq: undefined,
    rings: { sq: { address: 0, units: 0 }, rq: undefined },
    sendCq: NO_QUEUE,
    recvCq: NO_QUEUE,
    persistCompletion: "persistence",
    weight: 1,
    hints: "off",
    hintEncoding: undefined,
    card,
    slot: freeSlot(device),
  });
  device.slots[qp.slot] = qp;
  device.queuePairs.set(qpn, qp);
  return qp;
}

/** A link with numbers and no queue pairs: they are made when the peer's numbers are known. */
export function newLink(
  device: Device,
  coherence: Coherence,
  link: Pick<CardLink, "role" | "peer" | "agent" | "life">,
): CardLink {
  const number = coherence.nextLink;
  coherence.nextLink = (number + 1) % LINK_NUMBERS;
  const firstQpn = FIRST_LINK_QPN + 4 * number;
  assert(!device.queuePairs.has(firstQpn), `Queue pair ${firstQpn} of a link is taken`);
  // Differs from link to link; multiplied, so that consecutive links lie far apart.
  const firstPsn = Math.imul(number + 1, 0x9e3779b1) >>> 8;
  return { ...link, firstQpn, firstPsn, queuePairs: [], isFailed: false };
}

/** Makes the link's queue pairs, ready to send, with the peer's numbers. */
export function connect(
  device: Device,
  coherence: Coherence,
  { link, peer }: {
    readonly link: CardLink;
    readonly peer: { readonly qpn: number; readonly psn: number };
  },
): void {
  for (const [index, card] of CARD_CLASSES.entries()) {
    const qp = newQueuePair(device, link.firstQpn + index, card);
    const { mtu } = device.plan;
    applyAttributes(qp, {
      state: "init",
      accessFlags: 0,
    });
    applyAttributes(qp, {
      state: "rtr",
      pathMtu: mtu,
      destAddress: link.peer,
      destQpn: peer.qpn + index,
      rqPsn: peer.psn,
    });
    applyAttributes(qp, {
      state: "rts",
      timeout: TIMEOUT,
      retryCnt: RETRIES,
      rnrRetry: RETRIES,
      sqPsn: link.firstPsn,
    });
    coherence.links.set(qp, link);
    link.queuePairs.push(qp);
  }
}

/** Ends the link's life and removes its queue pairs; later packets for them find none. */
export function disconnect(device: Device, coherence: Coherence, link: CardLink): void {
  for (const qp of link.queuePairs.splice(0)) {
    stopWork(device, qp);
    resetQueuePair(qp);
    coherence.links.delete(qp);
    device.queuePairs.delete(qp.qpn);
    leaveSlot(device, qp);
  }
}

/** Queues a message in its class's queue pair; a failed link sends nothing. */
export function sendMessage(
  device: Device,
  link: CardLink,
  { message, region, transaction = 0 }: {
    readonly message: CardMessage;
    readonly region: number;
    readonly transaction?: number;
  },
): void {
  if (link.isFailed) return;
  const packet = encodeCardMessage(message, { region, transaction });
  const qp = link.queuePairs[CARD_CLASSES.indexOf(packet.operation)];
  if (qp === undefined) return;
  if (device.out.tracing && device.coherence !== undefined) {
    showSent(device, qp, { coherence: device.coherence, message });
  }
  addWork(qp, createCardWork(qp.qpn, packet));
  schedule(device, qp);
}

/**
 * Sends a greeting, `Hello` or `Welcome`, with the link's numbers. It takes no PSN and is not acknowledged: the far
 * card repeats its own until it is answered.
 */
export function greet(
  device: Device,
  coherence: Coherence,
  { link, message }: { readonly link: CardLink; readonly message: WireMessage },
): void {
  const { control } = coherence;
  const packet = encodeCardMessage(message, { region: 0, transaction: link.firstQpn });
  sendFrame(device, { control, link, packet });
}

const ROWS = {
  "coherence-request": opcodeRow(OPCODE["VENDOR COHERENCE REQUEST"])!,
  "coherence-snoop": opcodeRow(OPCODE["VENDOR COHERENCE SNOOP"])!,
  "coherence-response": opcodeRow(OPCODE["VENDOR COHERENCE RESPONSE"])!,
};

function sendFrame(
  device: Device,
  { control, link, packet }: {
    readonly control: QueuePair;
    readonly link: CardLink;
    readonly packet: CardPacket;
  },
): void {
  const line = createLine();
  fetchPayload(device, [{
    qp: control,
    line,
    life: control.life,
    epoch: line.epoch,
    row: ROWS[packet.operation],
    psn: link.firstPsn,
    ackReq: false,
    solicited: false,
    reth: undefined,
    immediate: undefined,
    rare: { coherenceEth: packet.header },
    hint: undefined,
    ud: {
      qKey: 0,
      qpn: CARD_QPN,
      address: link.peer,
      trafficClass: 0,
      hopLimit: 64,
      udpSourcePort: 0,
    },
    work: undefined,
    read: undefined,
    last: true,
    payloadBytes: packet.payload.length,
    payload: packet.payload,
    readyAt: device.stageAt,
    fetching: false,
    failed: false,
  }], { segments: [], offset: 0 });
}

/** The numbers in a greeting. */
export function numbersOf(packet: RocePacket): { readonly qpn: number; readonly psn: number } {
  return { qpn: packet.coherenceEth!.transaction, psn: packet.bth.psn };
}

/** How often a greeting is sent again, and how long after: as long as a lost frame of a link waits. */
export const GREETINGS = 7;
export const GREETING_PS: Time = 16 * PS_PER_US;
