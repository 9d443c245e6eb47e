import { nakText } from "../wire/roce/aeth.ts";
import { EXTENSION_ROWS } from "../wire/roce/extension_headers.ts";
import { type CmMessage, decodeCm, isSidr } from "../wire/roce/cm.ts";
import { GSI_QPN } from "../wire/roce/bth.ts";
import { describeHintOf } from "./describe_hint.ts";
import { frameDestination, frameSource } from "../wire/roce/frame_peek.ts";
import { decodeReport } from "../wire/roce/igmp.ts";
import { ECN } from "../wire/roce/ipv4.ts";
import { opcodeRow } from "../wire/roce/opcode.ts";
import { decodePacket, isRefusal, type RocePacket } from "../wire/roce/packet.ts";
import type { CoherentMessage } from "../wire/host_bus/coherent.ts";
import type { PcieMessage } from "../wire/host_bus/pcie.ts";
import type { RegionMessage } from "../wire/host_bus/region_messages.ts";
import type { RnicEvent } from "../wire/host_bus/rnic_command.ts";
import { decodePfc, describePfc } from "../wire/roce/pfc.ts";

export type Naming = (address: number) => string;

/** `10.0.0.1`. */
export function formatAddress(address: number): string {
  return `${address >>> 24}.${(address >>> 16) & 255}.${(address >>> 8) & 255}.${address & 255}`;
}

/** `02:00:00:00:00:01`. */
export function formatMac(mac: number): string {
  return mac.toString(16).padStart(12, "0").match(/../g)!.join(":");
}

/** `a→b RC RDMA WRITE ONLY qp=0x22 psn=7 va=0x7f0012345000 rkey=0x12a5c len=13 data=13 ack`. */
export function describeFrame(
  bytes: Uint8Array<ArrayBuffer>,
  naming: Naming = formatAddress,
): string {
  const packet = decodePacket(bytes);
  if (!isRefusal(packet)) return describePacket(packet, naming);
  const changes = decodeReport(bytes);
  if (changes !== undefined) {
    const words = changes.map(({ group, member }) => (member ? "+" : "-") + formatAddress(group));
    return `${formatMac(frameSource(bytes))} IGMP membership report ${words.join(" ")}`;
  }
  const ends = `${formatMac(frameSource(bytes))}→${formatMac(frameDestination(bytes))}`;
  const pfc = decodePfc(bytes);
  if (pfc !== undefined) return `${ends} ${describePfc(pfc)}`;
  return `${ends} ${bytes.length} B refused: ${packet}`;
}

export function describePacket(packet: RocePacket, naming: Naming = formatAddress): string {
  const { bth } = packet;
  const words = [
    `${naming(packet.sourceAddress)}→${naming(packet.destinationAddress)}`,
    nameOf(packet),
    `qp=${hex(bth.destQpn)}`,
    `psn=${bth.psn}`,
    ...extensionWords(packet),
  ];
  if (packet.payload.length > 0) words.push(`data=${packet.payload.length}`);
  if (bth.ackReq) words.push("ack");
  if (bth.solicited) words.push("solicited");
  if (bth.fecn) words.push("fecn");
  if (bth.becn) words.push("becn");
  if (packet.ecn === ECN.congestion) words.push("ce");
  const cm = bth.destQpn === GSI_QPN ? decodeCm(packet.payload) : undefined;
  if (cm !== undefined) words.push(describeCm(cm));
  const hint = describeHintOf(packet);
  if (hint !== undefined) words.push(hint);
  return words.join(" ");
}

function nameOf({ bth, aeth }: RocePacket): string {
  const row = opcodeRow(bth.opcode);
  if (row === undefined) return `opcode ${hex(bth.opcode)}`;
  const nak = row.operation === "acknowledge" && aeth ? nakText(aeth.syndrome) : undefined;
  return nak === undefined ? row.name : `RC ${nak}`;
}

function extensionWords(packet: RocePacket): string[] {
  const row = opcodeRow(packet.bth.opcode);
  if (row === undefined) return [];
  return row.headers.map((name) => EXTENSION_ROWS[name].describe(packet[name], row.operation))
    .filter((words) => words !== "");
}

function describeCm(message: CmMessage): string {
  const { type } = message;
  if (isSidr(message)) {
    const line = `cm ${type} id=${hex(message.requestId)} service=${hex(message.serviceId)}`;
    if (message.type === "SIDR_REQ") return line;
    return `${line} status=${message.status} qp=${hex(message.qpn)}`;
  }
  const { localCommId } = message;
  const addressee = message.type === "REQ"
    ? `service=${hex(message.serviceId)}`
    : `to=${hex(message.remoteCommId)}`;
  const line = `cm ${type} id=${hex(localCommId)} ${addressee}`;
  switch (message.type) {
    case "REQ":
    case "REP":
      return `${line} for-qp=${hex(message.localQpn)} expects-psn=${message.startingPsn}`;
    case "REJ":
      return `${line} reason=${message.reason}`;
    case "MRA":
      return `${line} of=${message.received === 0 ? "REQ" : "REP"}`;
    default:
      return line;
  }
}

export function describePcie(message: PcieMessage): string {
  switch (message.kind) {
    case "memory-write":
      return `DMA write ${hex(message.address)} ${message.data.length} B${snoop(message)}`;
    case "memory-read":
      return `DMA read ${hex(message.address)} ${message.length} B tag=${message.tag}` +
        snoop(message);
    case "completion":
      return message.status === "success"
        ? `completion tag=${message.tag} ${message.data.length} B`
        : `completion tag=${message.tag} ${message.status}`;
    case "snoop-invalidate":
      return `snoop invalidate ${hex(message.address)}`;
    case "interrupt":
      return `interrupt vector=${message.vector}`;
    case "register-write":
      return `register write ${hex(message.offset)} ${message.data.length} B`;
    case "register-read":
      return `register read ${hex(message.offset)} ${message.length} B tag=${message.tag}`;
    case "access-error":
      return `access error ${hex(message.address)} ${message.length} B: ` +
        `space ${message.space} of queue ${message.queue}`;
    case "ats": {
      const { step, key, first, count, ahead, hintsOf } = message;
      return `${step} key=${hex(key)} page=${first}+${count}${ahead > 0 ? ` ahead=${ahead}` : ""}` +
        (hintsOf === undefined ? "" : " for hints");
    }
    case "command":
      return `command ${message.command.op} id=${message.id}`;
    case "reply":
      return message.reply.status === "ok"
        ? `reply ${message.reply.op} id=${message.id}`
        : `reply ${message.reply.errno} id=${message.id}: ${message.reply.reason}`;
    case "event":
      return `event ${message.event.type} ${describeSource(message.event)}`.trimEnd();
    case "coherent":
      return describeCoherent(message);
    default:
      return describeRegion(message);
  }
}

/** `InvItoE 0x1000 8 lines tag=3`, `WbMtoI 0x1000 512 B tag=3 to memory`. */
function describeCoherent(message: CoherentMessage): string {
  const { op } = message;
  switch (op) {
    case "RdCur":
    case "RdCode":
    case "InvItoE":
    case "GntE":
    case "Cmp":
    case "FailedCmp":
    case "RspI": {
      const { address, lines, tag } = message;
      const medium = "medium" in message && message.medium ? " of the medium" : "";
      return `${op} ${hex(address)} ${lines} line${lines === 1 ? "" : "s"} tag=${tag}${medium}`;
    }
    case "DataC":
      return `${op}_${message.state} ${
        hex(message.address)
      } ${message.data.length} B tag=${message.tag}`;
    case "WbMtoI":
    case "WbMtoE": {
      const { address, data, tag, toMemory } = message;
      return `${op} ${hex(address)} ${data.length} B tag=${tag}${toMemory ? " to memory" : ""}`;
    }
    case "SnpInv":
      return `${op} ${hex(message.address)}`;
    case "NcRd":
      return `${op} ${hex(message.offset)} ${message.length} B tag=${message.tag}`;
    case "DataNc":
      return `${op} ${message.data.length} B tag=${message.tag}`;
    case "NcWr":
      return `${op} ${hex(message.offset)} ${message.data.length} B`;
    case "IntPhysical":
      return `${op} vector=${message.vector}`;
  }
}

/** `SnpInv 0x10000000040`; `far store region=0 line=3 tag=7`. */
function describeRegion(message: RegionMessage): string {
  switch (message.kind) {
    case "line": {
      const { op, address, data } = message;
      return `${op} ${hex(address)}${
        data === undefined ? "" : data === "lost" ? " lost" : " 64 B"
      }`;
    }
    case "far-access": {
      const { tag, region, line, op, change } = message;
      const how = change === undefined || change.kind === "write" ? op : change.kind;
      return `far ${how} region=${region} line=${line} tag=${tag}`;
    }
    case "far-answer":
      return `far answer tag=${message.tag} ${message.result}`;
    case "far-invalidate":
      return `far invalidate region=${message.region} line=${message.line}`;
  }
}

function describeSource(event: RnicEvent): string {
  if ("qpn" in event) return `qp=${hex(event.qpn)}`;
  if (event.type === "PAGE_FAULT") {
    const { key, first, hintsOf } = event;
    return `key=${hex(key)} page=${first}${hintsOf === undefined ? "" : " for hints"}`;
  }
  if (event.type === "HINT_WORK") {
    return `id=${event.id} ${event.job} of ${event.elements} elements`;
  }
  if ("region" in event) return `region=${event.region}`;
  if ("portNum" in event) return `port=${event.portNum}`;
  if (event.type === "DEVICE_FATAL") return "";
  return "srqn" in event ? `srq=${hex(event.srqn)}` : `cq=${hex(event.cqn)}`;
}

function snoop(message: { readonly noSnoop: boolean }): string {
  return message.noSnoop ? " no-snoop" : "";
}

function hex(value: number | bigint): string {
  return `0x${value.toString(16)}`;
}
