/** UC pairs and UD queue pairs on the rig of two RNICs, for tests. */
import type { Cqe } from "../../../fabric/wire/host_bus/cqe.ts";
import { opcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import { decodePacket, isRefusal, type RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { ACCESS, type QpAttributes } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { SendWqe, UdAddress } from "../../../fabric/wire/host_bus/wqe.ts";
import type { RigMr, RigQp } from "./rig_parts_testing.ts";
import type { Rig } from "./rnic_testing.ts";

type Side = Rig["a"];

export const Q_KEY = 0x1234;

/** Takes a queue pair through commands, which must all be granted. */
function modifyAll(rig: Rig, side: Side, change: { qp: RigQp; steps: QpAttributes[] }): void {
  for (const step of change.steps) {
    const reply = rig.modify(side, change.qp, step);
    if (reply.status !== "ok") throw new Error(`modify: ${JSON.stringify(reply)}`);
  }
}

/** A UD queue pair in RTS. */
export function createUd(
  rig: Rig,
  side: Side,
  options: Parameters<Rig["createQp"]>[1] & { qKey?: number } = {},
): RigQp {
  const { qKey = Q_KEY, ...rest } = options;
  const qp = rig.createQp(side, { ...rest, type: "ud" });
  const steps = [{ state: "init", qKey }, { state: "rtr" }, { state: "rts", sqPsn: 0 }] as const;
  modifyAll(rig, side, { qp, steps: [...steps] });
  return qp;
}

/** A connected pair of UC queue pairs in RTS, path MTU 256, first PSN 0xFFFFFE. */
export function connectUc(
  rig: Rig,
  { accessFlags = ACCESS.localWrite | ACCESS.remoteWrite, ...path }: QpAttributes = {},
  options: Parameters<Rig["createQp"]>[1] = {},
): { a: RigQp; b: RigQp } {
  const a = rig.createQp(rig.a, { ...options, type: "uc" });
  const b = rig.createQp(rig.b, { ...options, type: "uc" });
  for (const [side, qp, peer, other] of [[rig.a, a, b, rig.b], [rig.b, b, a, rig.a]] as const) {
    modifyAll(rig, side, {
      qp,
      steps: [
        { state: "init", accessFlags },
        {
          state: "rtr",
          destAddress: other.plan.address,
          pathMtu: 256,
          destQpn: peer.qpn,
          rqPsn: 0xff_fffe,
          ...path,
        },
        { state: "rts", sqPsn: 0xff_fffe },
      ],
    });
  }
  return { a, b };
}

/** An address vector as a driver would write it. */
export function udAddress(address: number, qpn: number, more: Partial<UdAddress> = {}): UdAddress {
  const route = { trafficClass: 0, hopLimit: 64, udpSourcePort: 0 };
  return { qKey: Q_KEY, qpn, address, ...route, ...more };
}

/** Posts a datagram of `length` bytes of `mr`. */
export function sayTo(
  rig: Rig,
  from: { side: Side; qp: RigQp; mr: RigMr },
  message: { ud: UdAddress; length: number } & Partial<SendWqe>,
): void {
  const { ud, length, ...more } = message;
  const { mr } = from;
  rig.send(from.side, from.qp, {
    opcode: "send",
    ud,
    sges: [{ address: mr.va, length, lkey: mr.key }],
    ...more,
  });
}

/** The RoCE packets a side has sent. */
export function packetsFrom(rig: Rig, from: "a" | "b"): RocePacket[] {
  const packets: RocePacket[] = [];
  for (const frame of rig.frames) {
    if (frame.from !== from) continue;
    const packet = decodePacket(frame.bytes);
    if (!isRefusal(packet)) packets.push(packet);
  }
  return packets;
}

export function namesFrom(rig: Rig, from: "a" | "b"): string[] {
  return packetsFrom(rig, from).map(({ bth }) => opcodeRow(bth.opcode)!.name);
}

export function statuses(cqes: readonly Cqe[]): string[] {
  return cqes.map(({ status }) => status);
}
