/** Packets as this card sends them: addresses, base header, extension headers (`rocev2.md` §1). */
import { DEFAULT_PKEY } from "../../../fabric/wire/roce/bth.ts";
import { ECN } from "../../../fabric/wire/roce/ipv4.ts";
import { macOfAddress } from "../../../fabric/wire/roce/neighbour.ts";
import type { OpcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { PERSIST_ETH } from "../../../fabric/wire/roce/persist_eth.ts";
import { udpSourcePort } from "../../../fabric/wire/roce/udp.ts";
import type { UdAddress } from "../../../fabric/wire/host_bus/wqe.ts";
import { creditSyndrome } from "../queues/credit.ts";
import type { Device } from "../state/device.ts";
import type { FrameJob } from "../state/tx_frame.ts";
import { coverPayload, digestOf } from "../state/message_digest.ts";
import { type Path, qKeyOf, type QueuePair } from "../state/queue_pair.ts";

/** What a packet's base headers say, the sender's own apart. */
export interface Outgoing {
  readonly path: Path;
  readonly row: OpcodeRow;
  readonly psn: number;
  readonly ackReq: boolean;
  readonly solicited: boolean;
  readonly payload: Uint8Array<ArrayBuffer>;
}

/** A packet that is not finished yet. */
export type Packet = { -readonly [Field in keyof RocePacket]: RocePacket[Field] };

/** The packet of a data frame that leaves now. */
export function packetOfJob(device: Device, job: FrameJob): Packet {
  const { qp, row, ud, work } = job;
  // The last packet's own payload is in the CRC that it carries.
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
  return packet;
}

/** The extension headers that the frame's opcode has (`rocev2.md` §1.3). */
function extend(device: Device, packet: Packet, job: FrameJob): void {
  const { qp, row, reth, immediate, rare, read, ud } = job;
  if (reth !== undefined) packet.reth = reth;
  if (row.headers.includes("persistEth")) packet.persistEth = PERSIST_ETH;
  if (immediate !== undefined) packet.immdt = { immediate };
  if (read !== undefined && row.headers.includes("aeth")) {
    packet.aeth = { syndrome: creditSyndrome(device, qp), msn: read.msn };
  }
  if (rare !== undefined) Object.assign(packet, rare);
  if (row.operation === "write-verify" && job.last) packet.digestEth = { crc: digestOf(job.work!) };
  if (ud !== undefined) {
    // A Q_Key with the top bit set stands for the queue pair's own.
    const qKey = ud.qKey >= 0x8000_0000 ? qKeyOf(qp) : ud.qKey;
    packet.deth = { qKey, reserved: 0, sourceQpn: qp.qpn };
  }
}

/** The path that a datagram's address vector names. */
function datagramPath(qp: QueuePair, ud: UdAddress): Path {
  return {
    address: ud.address,
    destQpn: ud.qpn,
    dscp: ud.trafficClass >> 2,
    ttl: ud.hopLimit,
    udpSourcePort: ud.udpSourcePort || udpSourcePort(qp.qpn, ud.qpn),
  };
}

/** A packet with its base header; the caller adds what extension headers its opcode has. */
export function makePacket(device: Device, frame: Outgoing): Packet {
  const { plan } = device;
  const { path } = frame;
  device.identification = (device.identification + 1) & 0xffff;
  return {
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
}
