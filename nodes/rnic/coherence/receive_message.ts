/** Incoming messages of other cards, by a queue pair of the firmware or as a greeting. Nothing in one is trusted. */
import { isControlKind, type WireMessage } from "../../../fabric/wire/roce/coherence_messages.ts";
import {
  decodeCardMessage,
  type DecodedCardMessage,
  isCardRefusal,
} from "../../../fabric/wire/roce/card_message.ts";
import type { CoherenceClass } from "../../../fabric/wire/roce/coherence_eth.ts";
import { opcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { answer } from "../answers/answers.ts";
import { ACK_SYNDROME } from "../../../fabric/wire/roce/aeth.ts";
import { countOne } from "./state/coherence_state.ts";
import { type Device, drop } from "../state/device.ts";
import { psnAdd } from "../state/psn.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { acceptRequest } from "../state/responder_changes.ts";
import type { RequestIn, Verdict } from "../state/responder_state.ts";
import { takeAnswerOfHome, takeOfHome, takeWelcome } from "./far.ts";
import { CARD_QPN } from "./link.ts";
import { takeHello, takeOfFar, takeRegistration } from "./home.ts";

function messageOf(device: Device, packet: RocePacket): DecodedCardMessage | undefined {
  const { operation } = opcodeRow(packet.bth.opcode)!;
  const { coherenceEth: header, payload } = packet;
  const decoded = header === undefined
    ? undefined
    : decodeCardMessage({ operation: operation as CoherenceClass, header, payload });
  if (decoded !== undefined && !isCardRefusal(decoded)) return decoded;
  if (device.coherence !== undefined) device.coherence.counters.malformed++;
  return undefined;
}

/** An expected packet of a link: acknowledges it, and takes its message. All sink (decision 9). */
export function executeCardMessage(
  device: Device,
  qp: QueuePair,
  { packet }: RequestIn,
): Verdict | undefined {
  const { psn } = packet.bth;
  acceptRequest(qp, psnAdd(psn, 1));
  answer(device, qp, { psn, syndrome: ACK_SYNDROME, readyAt: device.stageAt });
  const decoded = messageOf(device, packet);
  const link = device.coherence?.links.get(qp);
  if (device.coherence === undefined || decoded === undefined || link === undefined) {
    return undefined;
  }
  const { coherence } = device;
  const { message, region } = decoded;
  countOne(coherence.counters.received, message.kind);
  // A peer may send its own messages only.
  if (message.agent !== link.agent) {
    coherence.counters.malformed++;
    return undefined;
  }
  const isOfTables = !isControlKind(message.kind);
  const { home } = coherence;
  if (link.role === "home" && home !== undefined) {
    if (isOfTables) takeOfFar(device, { coherence, home }, message as WireMessage);
    else takeRegistration(device, { home, link, region }, message as never);
  } else if (link.role === "far") {
    const far = coherence.fars.get(link.peer);
    if (far === undefined) return undefined;
    if (isOfTables) takeOfHome(device, { coherence, far }, message as WireMessage);
    else takeAnswerOfHome(device, far, { message: message as never, region });
  }
  return undefined;
}

/**
 * A frame to the queue pair number that all cards know: `Hello` or `Welcome`. @returns whether it is to that
 * number.
 */
export function takeGreeting(device: Device, packet: RocePacket): boolean {
  if (packet.bth.destQpn !== CARD_QPN) return false;
  greeted(device, packet);
  return true;
}

function greeted(device: Device, packet: RocePacket): void {
  const { coherence } = device;
  const decoded = packet.coherenceEth === undefined ? undefined : messageOf(device, packet);
  if (coherence === undefined || decoded === undefined) return drop(device, "unknown-qp");
  const message = decoded.message as WireMessage;
  countOne(coherence.counters.received, message.kind);
  const { home } = coherence;
  if (message.kind === "Hello" && home !== undefined) {
    return takeHello(device, { coherence, home, packet }, message);
  }
  const far = coherence.fars.get(packet.sourceAddress);
  if (message.kind === "Welcome" && far !== undefined && far.card.agent === message.agent) {
    return takeWelcome(device, { coherence, far, packet }, message);
  }
  coherence.counters.malformed++;
}
