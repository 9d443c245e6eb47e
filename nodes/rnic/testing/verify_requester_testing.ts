/**
 * A requester of verified writes whose peer the test plays: what it sends is recorded and goes nowhere,
 * what it is answered the test says. So an answer can be lost, wrong or early at will.
 */
import { assert } from "../../../fabric/base/assert.ts";
import { ACK_SYNDROME } from "../../../fabric/wire/roce/aeth.ts";
import { OPCODE, type OpcodeName, opcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { ACCESS, type QpAttributes } from "../../../fabric/wire/host_bus/rnic_command.ts";
import {
  encodeVerifyResult,
  VERIFY_STATUS,
  VERIFY_VERSION,
  type VerifyResult,
} from "../../../fabric/wire/roce/verify_eth.ts";
import type { SendWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import { EVERY_ACCESS, go, inject, packets, type Pair, pair, post } from "./pair_testing.ts";

/** Path MTU of most tests: messages of several packets are short. */
export const MTU = 256;
export const CHECKED = { level: "verify-crc", persist: false } as const;
/** No timer runs: what is sent again was asked for. */
export const FOREVER = { timeout: 0 } as const;

/** All that a peer may do, verified writes too. */
export const VERIFY_ACCESS = EVERY_ACCESS | ACCESS.remoteWriteVerify;

/** A connected pair of which `b` never hears anything. */
export function alone(
  attributes: QpAttributes = {},
  options: Parameters<typeof pair>[0] = {},
): Pair {
  const p = pair({ memoryBytes: 1 << 18, ...options }, {
    attributes: { accessFlags: VERIFY_ACCESS, ...attributes },
  });
  p.rig.fate = (from) => from === "a" ? "drop" : "pass";
  p.rig.leavesRequests = true;
  return p;
}

type Verified =
  & { readonly at?: number; readonly length?: number; readonly unsignaled?: true }
  & NonNullable<SendWqe["verify"]>
  & Partial<Pick<SendWqe, "inline" | "sges" | "fence">>;

/** Posts a verified write of `a`. @returns its ring position. */
export function postVerified(p: Pair, write: Verified): number {
  const { level, persist, crc, unsignaled, ...work } = write;
  const verify = crc === undefined ? { level, persist } : { level, persist, crc };
  return post(p, "write-verify", { verify, signaled: unsignaled === undefined, ...work });
}

/** Rings, and runs until `a` has sent so many frames since the beginning. */
export function untilSent(p: Pair, count: number): RocePacket[] {
  p.rig.ring(p.rig.a, p.a.sq);
  return moreSent(p, count);
}

/** As {@link untilSent}, without a doorbell. @returns all of them. */
export function moreSent(p: Pair, count: number): RocePacket[] {
  p.rig.run(() => frames(p) >= count);
  assert(frames(p) >= count, `${frames(p)} frames were sent, not ${count}`);
  return packets(p, "a");
}

/** Names and PSNs, counted from the first frame's, of what `a` has sent. */
export function shapes(sent: readonly RocePacket[]): string[] {
  const first = sent[0]!.bth.psn;
  return sent.map(({ bth }) => {
    const name = opcodeRow(bth.opcode)!.name.replace("VENDOR WRITE ", "").replace("RC RDMA ", "");
    return `${name} ${(bth.psn - first) & 0xff_ffff}`;
  });
}

/** What a response says beside its opcode and PSN. */
interface Said {
  readonly syndrome?: number;
  readonly payload?: Uint8Array<ArrayBuffer>;
}

/** Lets the peer answer with `opcode` and the PSN of this packet of `a`'s. */
export function respond(
  p: Pair,
  opcode: OpcodeName,
  { bth, ...request }: RocePacket,
  { syndrome = ACK_SYNDROME, payload = new Uint8Array(0) }: Said = {},
): void {
  const row = opcodeRow(OPCODE[opcode])!;
  const { destinationMac, sourceMac, sourceAddress, destinationAddress } = request;
  const { dscp, ecn, ttl, identification, udpSourcePort } = request;
  inject(p, "a", {
    destinationMac: sourceMac,
    sourceMac: destinationMac,
    sourceAddress: destinationAddress,
    destinationAddress: sourceAddress,
    ...{ dscp, ecn, ttl, identification, udpSourcePort },
    bth: {
      ...bth,
      opcode: row.code,
      ackReq: false,
      destQpn: p.a.qpn,
      padCount: -payload.length & 3,
    },
    ...(row.headers.includes("aeth") && { aeth: { syndrome, msn: 0 } }),
    ...(row.headers.includes("atomicAckEth") && { atomicAckEth: { original: 0n } }),
    payload,
  });
}

/** The answer of a receiver that has found nothing wrong, unless `said`. */
export function verdict(said: Partial<VerifyResult> = {}): Uint8Array<ArrayBuffer> {
  return encodeVerifyResult({
    version: VERIFY_VERSION,
    status: VERIFY_STATUS.written,
    checks: 0,
    reserved: 0,
    crc: 0,
    ...said,
  });
}

/** Answers the verified write whose last packet this is. */
export function answer(p: Pair, last: RocePacket, said: Partial<VerifyResult> = {}): void {
  respond(p, "RC RDMA READ RESPONSE ONLY", last, { payload: verdict(said) });
}

/** Frames that `a` has sent. */
export function frames(p: Pair): number {
  return p.rig.frames.filter(({ from }) => from === "a").length;
}

/** What `a` sends after `known` frames, until it is quiet; PSNs from the first frame's on. */
export function sentSince(p: Pair, known: number): string[] {
  p.rig.run();
  const sent = moreSent(p, 1);
  return shapes([sent[0]!, ...sent.slice(known)]).slice(1);
}

/** Whether the queue pair still sends: what is posted to one in ERR is flushed. */
export function isAlive(p: Pair): boolean {
  const known = frames(p);
  post(p, "write", { length: 8 });
  go(p);
  return frames(p) > known;
}
