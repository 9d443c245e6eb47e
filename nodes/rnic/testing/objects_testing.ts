/** For tests only: shared receive queues and memory windows of the rig's fake drivers. */
import { assert } from "../../../fabric/base/assert.ts";
import type { WindowType } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { encodeSrqWqe } from "../../../fabric/wire/host_bus/srq_wqe.ts";
import type { Sge } from "../../../fabric/wire/host_bus/wqe.ts";
import { RECV_STRIDE } from "./fake_host_testing.ts";
import type { RigCq, RigQp, RigSrq, Side } from "./rig_parts_testing.ts";
import type { Rig } from "./rnic_testing.ts";

export function createSrq(
  rig: Rig,
  side: Side,
  options: { readonly depth?: number; readonly pd?: number } = {},
): RigSrq {
  const { depth = 32, pd = 1 } = options;
  const address = side.host.allocate(depth * RECV_STRIDE);
  const ring = { address, units: depth };
  const reply = rig.command(side, { op: "create-srq", ring, stride: RECV_STRIDE, pd });
  assert(
    reply.status === "ok" && reply.op === "create-srq",
    `create-srq: ${JSON.stringify(reply)}`,
  );
  const { srqn } = reply;
  return { srqn, ring: { queue: srqn, address, depth, write: depth - 1, stamp: 0 } };
}

/** Posts one receive in this slot; without the bell only space 3 tells of it. */
export function postShared(
  rig: Rig,
  side: Side,
  post: {
    readonly srq: RigSrq;
    readonly slot: number;
    readonly sges: readonly Sge[];
    readonly bell?: boolean;
  },
): void {
  const { srq: { ring }, slot, sges, bell = true } = post;
  ring.write = (ring.write + 1) % ring.depth;
  const bytes = encodeSrqWqe({ slot, sges }, RECV_STRIDE);
  side.host.memory.set(bytes, ring.address + ring.write * RECV_STRIDE);
  rig.ring(side, ring, bell ? "pointer" : "none");
}

/** A queue pair that takes its receives from there. */
export function createSrqQp(
  rig: Rig,
  side: Side,
  options: { readonly srq: RigSrq; readonly cq: RigCq; readonly pd?: number },
): RigQp {
  return rig.createQp(side, options);
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
