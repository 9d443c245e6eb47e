/** Verified writes on the rig: a pair that has agreed on them, posts, and what they were answered. */
import {
  decodeVerdict,
  type VerifyLevel,
  type VerifyVerdict,
} from "../../../fabric/wire/roce/verify_eth.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { EVERY_ACCESS, go, type Pair, pair, post } from "./pair_testing.ts";
import type { RigOptions } from "./rig_parts_testing.ts";

/** What both ends have agreed on (V-06, V-09). */
export const VERIFIED_ACCESS = EVERY_ACCESS | ACCESS.remoteWriteVerify |
  ACCESS.remoteWritePersistence;

/** What a good write is answered (V-04). */
export const GOOD: Readonly<Record<VerifyLevel, string>> = {
  "none": "SUCCESS written:",
  "check": "SUCCESS written: crc-before",
  "verify": "SUCCESS written: crc-before compared",
  "verify-crc": "SUCCESS written: crc-before crc-after",
  "read-back": "SUCCESS written: compared",
  "crc-after": "SUCCESS written: crc-after",
};

/** A pair whose ends take verified writes, persistent ones too. */
export function verifiedPair(
  options: RigOptions = {},
  qp: NonNullable<Parameters<typeof pair>[1]> = {},
): Pair {
  const attributes = { accessFlags: VERIFIED_ACCESS, ...qp.attributes };
  return pair(options, { ...qp, attributes });
}

export interface VerifiedPost {
  readonly level: VerifyLevel;
  readonly persist?: boolean;
  readonly crc?: number;
  readonly at?: number;
  readonly length?: number;
}

/** Posts a verified write of `a` at offset `at` of both memories. */
export function postVerified(
  p: Pair,
  { level, persist = false, crc, ...work }: VerifiedPost,
): void {
  const verify = { level, persist, ...(crc !== undefined && { crc }) };
  post(p, "write-verify", { ...work, verify });
}

/** Posts, rings, and runs until nothing happens any more. @returns what has completed since. */
export function writeVerified(p: Pair, work: VerifiedPost): Outcome[] {
  postVerified(p, work);
  go(p);
  return outcomes(p);
}

export interface Outcome {
  /** Of the completion. */
  readonly completion: string;
  readonly verdict: VerifyVerdict | undefined;
}

/** What has completed at `a`, in order. */
export function outcomes(p: Pair): Outcome[] {
  return p.rig.poll(p.rig.a, p.a.sendCq).map(({ status, verify }) => ({
    completion: status,
    verdict: decodeVerdict(verify),
  }));
}

/** `SUCCESS written: crc-before compared` */
export function textOf({ completion, verdict }: Outcome): string {
  if (verdict === undefined) return completion;
  return `${completion} ${[`${verdict.status}:`, ...verdict.checks].join(" ")}`;
}

/** Whether `b`'s memory has the bytes of `a`'s, `length` from `at` on. */
export function isCopied(p: Pair, { at = 0, length }: { at?: number; length: number }): boolean {
  const sent = p.rig.bytes(p.rig.a, p.from, at, length);
  const kept = p.rig.bytes(p.rig.b, p.to, at, length);
  return sent.every((byte, i) => byte === kept[i]);
}

/** Whether `b`'s memory is what it was, `length` bytes from `at` on. */
export function isUntouched(p: Pair, { at = 0, length }: { at?: number; length: number }): boolean {
  return p.rig.bytes(p.rig.b, p.to, at, length).every((byte) => byte === 0xee);
}

/** Lets a piece of `b`'s memory be damaged by hand as soon as its last byte has been written. */
export function damageOnceWritten(
  p: Pair,
  { at = 0, length }: { at?: number; length: number },
): void {
  const last = p.to.address + at + length - 1;
  p.rig.ring(p.rig.a, p.a.sq);
  p.rig.run(() =>
    p.rig.b.host.log.some((message) =>
      message.kind === "memory-write" && message.address <= last &&
      message.address + message.data.length > last
    )
  );
  p.rig.b.host.memory[last]! ^= 0x10;
}
