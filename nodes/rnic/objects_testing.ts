/** For tests only: shared receive queues and memory windows of the rig's fake drivers. */
import { assert } from "../../fabric/assert.ts";
import { encodeSpace3, SPACE3_BYTES } from "../../fabric/wire/queue_information.ts";
import type { WindowType } from "../../fabric/wire/rnic_command.ts";
import { encodeSrqWqe } from "../../fabric/wire/srq_wqe.ts";
import { type Sge, WQE_UNIT_BYTES } from "../../fabric/wire/wqe.ts";
import type { Rig, RigCq, RigQp, Side } from "./rnic_testing.ts";

const STRIDE = 32;

export interface RigSrq {
  readonly srqn: number;
  readonly address: number;
  readonly depth: number;
  write: number;
  stamp: number;
}

export function createSrq(rig: Rig, side: Side, options: { pd?: number } = {}): RigSrq {
  const depth = 32;
  const address = side.host.allocate(depth * STRIDE);
  const ring = { address, units: depth };
  const { pd = 1 } = options;
  const reply = rig.command(side, { op: "create-srq", ring, stride: STRIDE, pd });
  assert(
    reply.status === "ok" && reply.op === "create-srq",
    `create-srq: ${JSON.stringify(reply)}`,
  );
  return { srqn: reply.srqn, address, depth, write: depth - 1, stamp: 0 };
}

/** Posts one receive in this slot. */
export function postShared(
  rig: Rig,
  side: Side,
  post: { readonly srq: RigSrq; readonly slot: number; readonly sge: Sge; readonly bell?: boolean },
): void {
  const { srq, slot, sge, bell = true } = post;
  srq.write = (srq.write + 1) % srq.depth;
  const bytes = encodeSrqWqe({ slot, sges: [sge] }, STRIDE);
  side.host.memory.set(bytes, srq.address + srq.write * STRIDE);
  srq.stamp = Math.max(rig.now, srq.stamp + 1);
  const ring = {
    queue: srq.srqn,
    address: 0,
    depth: srq.depth,
    write: srq.write,
    stamp: srq.stamp,
  };
  if (bell) return rig.ring(side, ring);
  const at = side.host.spaces.space3 + srq.srqn * SPACE3_BYTES;
  side.host.memory.set(encodeSpace3({ pointer: srq.write, stamp: srq.stamp }), at);
}

/** A queue pair that takes its receives from there. */
export function createSrqQp(
  rig: Rig,
  side: Side,
  options: { readonly srq: RigSrq; readonly cq: RigCq; readonly pd?: number },
): RigQp {
  const { srq, cq, pd = 1 } = options;
  const depth = 64;
  const sq = side.host.allocate(depth * WQE_UNIT_BYTES);
  const reply = rig.command(side, {
    op: "create-qp",
    type: "rc",
    sq: { address: sq, units: depth },
    srq: srq.srqn,
    sendCq: cq.cqn,
    recvCq: cq.cqn,
    pd,
    persistCompletion: "persistence",
  });
  assert(reply.status === "ok" && reply.op === "create-qp", `create-qp: ${JSON.stringify(reply)}`);
  return {
    qpn: reply.qpn,
    sq: { queue: reply.sqQueue, address: sq, depth, write: depth - 1, stamp: 0 },
    rq: { queue: reply.rqQueue, address: 0, depth: 0, write: 0, stamp: 0 },
    sendCq: cq,
    recvCq: cq,
  };
}

/** A window that is not bound. @returns its key. */
export function allocateMw(rig: Rig, side: Side, type: WindowType, pd = 1): number {
  const reply = rig.command(side, { op: "allocate-mw", type, pd });
  assert(
    reply.status === "ok" && reply.op === "allocate-mw",
    `allocate-mw: ${JSON.stringify(reply)}`,
  );
  return reply.rkey;
}
