/** Pairs of queue pairs for persistent writes, and the CPU of flow 2 that flushes what they wrote. */
import { ACCESS, type PersistencePlan } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { EVERY_ACCESS, type Pair, pair } from "./pair_testing.ts";

export const FLOW_1: PersistencePlan = { flow: 1, flush: "read", noSnoop: false };
export const FLOW_2: PersistencePlan = { flow: 2, flush: "cpu", noSnoop: false };

/** What a peer may do in a region where plain WRITEs are not persisted (P-22). */
export const PLAIN_REGION = ACCESS.localWrite | ACCESS.remoteWrite | ACCESS.remoteRead;

/** A pair that takes the vendor's opcodes; `access` is that of the target region. */
export function persistingPair(
  flow: PersistencePlan,
  options: {
    readonly policy?: "persistence" | "reception";
    readonly access?: number;
    readonly retryCnt?: number;
  } = {},
): Pair {
  const { policy = "persistence", access = PLAIN_REGION, retryCnt = 7 } = options;
  const accessFlags = EVERY_ACCESS | ACCESS.remoteWritePersistence;
  const attributes = { accessFlags, retryCnt };
  const qp = { persistCompletion: policy, attributes };
  return pair({ persistence: { a: flow, b: flow } }, qp, access);
}

/** What the CPU of flow 2 is told to flush. */
export interface ToFlush {
  readonly va: number;
  readonly length: number;
  readonly psn: number;
}

/** The CPU of `b` flushes what completed RECVs name and says so. @returns what it was told. */
export function flushByCpu(p: Pair): ToFlush[] {
  const told = p.rig.poll(p.rig.b, p.b.recvCq)
    .filter(({ opcode }) => opcode === "recv-persistence")
    .map(({ va, byteCount, psn }) => ({ va: Number(va), length: byteCount, psn }));
  for (const { psn } of told) {
    p.rig.enqueueSend(p.rig.b, p.b, { opcode: "persistence-ack", immediate: psn });
  }
  if (told.length > 0) p.rig.ring(p.rig.b, p.b.sq);
  return told;
}
