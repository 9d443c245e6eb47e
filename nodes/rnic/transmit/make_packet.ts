/** Packets as this card sends them (`rocev2.md` §1). */
import { DEFAULT_PKEY } from "../../../fabric/wire/roce/bth.ts";
import { ECN } from "../../../fabric/wire/roce/ipv4.ts";
import { attachHint, attachRange } from "../../../fabric/wire/roce/hint.ts";
import { macOfAddress, macOfGid } from "../../../fabric/wire/roce/neighbour.ts";
import type { OpcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import { bthBehind, type RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { priorityOfDscp } from "../../../fabric/wire/roce/pfc.ts";
import { PERSIST_ETH } from "../../../fabric/wire/roce/persist_eth.ts";
import { udpSourcePort } from "../../../fabric/wire/roce/udp.ts";
import type { UdAddress } from "../../../fabric/wire/host_bus/wqe.ts";
import { creditSyndrome } from "../queues/credit.ts";
import type { Device } from "../state/device.ts";
import type { TxFrame } from "../state/tx_frame.ts";
import { type Path, qKeyOf, type QueuePair } from "../state/queue_pair.ts";
import type { OutstandingWqe } from "../state/outstanding_wqe.ts";
import { psnDistance } from "../state/psn.ts";
import { crcUpdate } from "../../../fabric/wire/roce/icrc.ts";
import { viewOf } from "../../../fabric/base/slab.ts";

export interface Outgoing {
  readonly path: Path;
  readonly row: OpcodeRow;
  readonly psn: number;
  readonly ackReq: boolean;
  readonly solicited: boolean;
  readonly payload: Uint8Array<ArrayBuffer>;
}

export type Packet = { -readonly [Field in keyof RocePacket]: RocePacket[Field] };

export function packetOfJob(device: Device, job: TxFrame): RocePacket {
  const { qp, row, ud, work, hint } = job;
  // The last packet's CRC covers its own payload.
  if (work?.digest !== undefined) coverPayload(work, job);
  const packet = makePacket(device, {
    path: ud === undefined ? qp.path : datagramPath(qp, ud),
    row,
    psn: job.psn,
    ackReq: job.ackReq,
    solicited: job.solicited,
    payload: job.payload,
  });
  extend(device, packet, job);
  if (hint === undefined) return packet;
  return hint.form === "range" ? attachRange(packet, hint.length) : attachHint(packet, hint);
}

/** Adds extension headers (`rocev2.md` §1.3). */
function extend(device: Device, packet: Packet, job: TxFrame): void {
  const { qp, row, reth, immediate, rare, read, ud } = job;
  if (reth !== undefined) packet.reth = reth;
  if (row.headers.includes("persistEth")) packet.persistEth = PERSIST_ETH;
  if (immediate !== undefined) packet.immdt = { immediate };
  if (read !== undefined && row.headers.includes("aeth")) {
    packet.aeth = { syndrome: creditSyndrome(device, qp), msn: read.msn };
  }
  if (rare !== undefined) Object.assign(packet, rare);
  if (row.headers.includes("digestEth")) packet.digestEth = { crc: digestOf(job.work!) };
  // A greeting between cards is no datagram, though it has an address vector.
  if (ud !== undefined && qp.card === undefined) {
    // With the top bit set the queue pair's own key is used.
    const qKey = ud.qKey >= 0x8000_0000 ? qKeyOf(qp) : ud.qKey;
    packet.deth = { qKey, reserved: 0, sourceQpn: qp.qpn };
  }
}

function datagramPath(qp: QueuePair, ud: UdAddress): Path {
  return {
    address: ud.address,
    destQpn: ud.qpn,
    dscp: ud.trafficClass >> 2,
    ttl: ud.hopLimit,
    udpSourcePort: ud.udpSourcePort || udpSourcePort(qp.qpn, ud.qpn),
    flowLabel: ud.udpSourcePort,
  };
}

export function makePacket(device: Device, frame: Outgoing): Packet {
  const { plan } = device;
  const { path } = frame;
  device.identification = (device.identification + 1) & 0xffff;
  const packet: Packet = {
    destinationMac: macOfAddress(path.address),
    sourceMac: plan.mac,
    sourceAddress: plan.address >>> 0,
    destinationAddress: path.address >>> 0,
    dscp: path.dscp || (device.congestion?.plan.dscp ?? 0),
    ecn: ECN.capable0,
    ttl: path.ttl,
    identification: device.identification,
    udpSourcePort: path.udpSourcePort,
    bth: {
      opcode: frame.row.code,
      solicited: frame.solicited,
      migReq: true,
      padCount: -frame.payload.length & 3,
      tver: 0,
      pKey: DEFAULT_PKEY,
      fecn: false,
      becn: false,
      reserved6: 0,
      destQpn: path.destQpn,
      ackReq: frame.ackReq,
      reserved7: 0,
      psn: frame.psn,
    },
    payload: frame.payload,
  };
  if (plan.roce !== undefined) putInGrh(device, packet, path);
  return packet;
}

/** C-01, RoCEv1: no IPv4, no UDP; a tag where priority has an effect. */
function putInGrh({ congestion }: Device, packet: Packet, { address, flowLabel }: Path): void {
  packet.destinationMac = macOfGid(address);
  packet.identification = 0;
  packet.udpSourcePort = 0;
  const priority = congestion === undefined ? undefined : priorityOfDscp(packet.dscp);
  packet.grh = { flowLabel, priority };
}

/** @returns undefined where it is RoCEv2's (`frameBytes`). */
export function ownBthAt({ plan, congestion }: Device): number | undefined {
  if (plan.roce === undefined) return undefined;
  return bthBehind({ flowLabel: 0, priority: congestion === undefined ? undefined : 0 });
}

/**
 * V-02: covers each payload once: if the fetch for a repeated packet damaged it, the receiver must
 * find out. Frames leave in the order begun, so a register per message is enough.
 */
function coverPayload(work: OutstandingWqe, { psn, payload }: TxFrame): void {
  const { digest } = work;
  if (digest === undefined || psnDistance(work.firstPsn, psn) !== digest.packets) return;
  digest.packets++;
  digest.register = crcUpdate(digest.register, viewOf(payload), { from: 0, end: payload.length });
}

/** The last packet's CRC; 0 where the receiver does not check it. */
function digestOf({ wqe, digest }: OutstandingWqe): number {
  return digest === undefined ? wqe?.verify?.crc ?? 0 : ~digest.register >>> 0;
}
