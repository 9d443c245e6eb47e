/**
 * Losses of UC and UD, of which the sender does not hear, as its request succeeds (`rocev2.md`
 * §3.8); the first of each kind is a note of the run, which `rack why` shows. So is a frame that
 * finds the receive buffer full.
 */
import { formatAddress } from "../../../fabric/trace/describe.ts";
import type { Frame } from "../../../fabric/node.ts";
import { GSI_QPN } from "../../../fabric/wire/roce/bth.ts";
import { opcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import { decodePacket, isRefusal } from "../../../fabric/wire/roce/packet.ts";
import type { DropReason } from "../state/counters.ts";
import { type Device, drop, noteLoss } from "../state/device.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { PacketIn } from "../state/responder_state.ts";

const WHY: Partial<Record<DropReason, (qp: QueuePair) => string>> = {
  "wrong-service": ({ type }) => `the queue pair's transport is ${type.toUpperCase()}`,
  "wrong-state": ({ state }) => `the queue pair is in state ${state.toUpperCase()}`,
  "vendor-operation": () => "the queue pair does not permit the manufacturer's operation",
  "wrong-peer": ({ path: { address } }) => `the queue pair's peer is ${formatAddress(address)}`,
  "p-key": () => "its P_Key is of another partition",
  "page-fault": () => "a page of its memory is not there",
  "broken-message": () => "what came before it of its message was lost or dropped",
  "no-recv": () => "no receive is posted",
  "stalled-too-many": () => "too many packets wait for a receive or for memory",
  "context-too-many": () => "too many packets wait for the queue pair's context",
};

/**
 * Notes the first of its kind. @param lost `qp`: undefined where there is none; `why`: where more
 * is known than {@link WHY} says.
 */
export function dropInSilence(
  device: Device,
  { packet, row }: Pick<PacketIn, "packet" | "row">,
  lost: {
    readonly reason: DropReason;
    readonly qp: QueuePair | undefined;
    readonly why?: () => string;
  },
): void {
  const { reason, qp } = lost;
  drop(device, reason);
  const { service, operation } = row;
  // An RC requester hears of it; the connection manager sends again; hints are invisible.
  if ((service !== "uc" && service !== "ud") || operation === "hint") return;
  if (qp?.card !== undefined || packet.bth.destQpn === GSI_QPN) return;
  noteLoss(device, `${service} ${reason}`, () => {
    const what = service === "ud" ? "a datagram" : `a message (${row.name})`;
    const from = formatAddress(packet.sourceAddress);
    const to = `queue pair ${qp?.qpn ?? packet.bth.destQpn}`;
    return `${what} of ${from} to ${to} is dropped without an answer: ${whyOf(lost)}`;
  });
}

/**
 * Notes the first of its kind, as far as unchecked bytes tell. An RC frame comes again, after a
 * time-out whose cause the requester does not hear.
 */
export function dropOverrun(device: Device, frame: Frame): void {
  drop(device, "receive-overrun");
  const packet = frame.packet ?? decodePacket(frame.bytes);
  const row = isRefusal(packet) ? undefined : opcodeRow(packet.bth.opcode);
  if (isRefusal(packet) || row === undefined) return;
  const { service, name, operation } = row;
  if (operation === "hint" || packet.bth.destQpn === GSI_QPN) return;
  noteLoss(device, `${service} receive-overrun`, () => {
    const from = formatAddress(packet.sourceAddress), to = `queue pair ${packet.bth.destQpn}`;
    const comesAgain = service === "rc" ? ", and comes again" : "";
    return `a frame (${name}) of ${from} to ${to} is dropped without an answer${comesAgain}: the receive buffer is full, as ` +
      "the bus takes less than the wire brings";
  });
}

function whyOf({ reason, qp, why }: Parameters<typeof dropInSilence>[2]): string {
  if (why !== undefined) return why();
  return qp === undefined ? "there is no such queue pair" : WHY[reason]?.(qp) ?? reason;
}
