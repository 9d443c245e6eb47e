/** For tests only: locks and changes of space 2 by the rig's fake drivers. */
import { assert } from "../../../fabric/base/assert.ts";
import type { Space2 } from "../../../fabric/wire/host_bus/default_store_testing.ts";
import { encodeEntry, entryAddress } from "../../../fabric/wire/host_bus/queue_placement.ts";
import type { RnicCommand, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Ring, Side } from "./rig_parts_testing.ts";
import type { Rig } from "./rnic_testing.ts";

export type Resumed = Extract<RnicReply, { readonly op: "queue-resumed" }>;

/** What space 2 of the queue is in memory. */
export function space2Of({ host }: Side, queue: number): Space2 {
  return { depth: host.field(queue, "depth"), unitBytes: host.field(queue, "unitBytes") };
}

/** A store of the host into space 2. */
export function storeSpace2({ host }: Side, queue: number, info: Space2): void {
  const { store, spaces } = host;
  const at = entryAddress(store, spaces, { queue, space: 2 });
  host.memory.set(encodeEntry(store, 2, info), at);
}

/** Sends a command and lets nothing happen. @returns what tells its reply, once it is there. */
export function ask(rig: Rig, side: Side, command: RnicCommand): () => RnicReply | undefined {
  const id = side.host.nextCommand++;
  rig.toRnic(side, { kind: "command", id, command });
  return () => side.host.replies.get(id);
}

/** The lock of a queue. @returns until when it is the host's. */
export function lock(rig: Rig, side: Side, queue: number): number {
  const reply = rig.command(side, { op: "lock-space2", queue });
  assert(reply.status === "ok" && reply.op === "lock-space2", JSON.stringify(reply));
  return reply.until;
}

/** Has a queue that has been paused go on. */
export function resumed(reply: RnicReply | undefined): Resumed {
  assert(reply?.status === "ok" && reply.op === "queue-resumed", JSON.stringify(reply));
  return reply;
}

/**
 * Position of a WQE that is outstanding, in the ring of `to` units that its queue goes on in: so far
 * behind `tail`, the oldest outstanding one, as it was in the ring of `from` units.
 */
export function movedPosition(
  position: number,
  move: {
    readonly from: number;
    readonly to: number;
    readonly read: number;
    readonly tail: number;
  },
): number {
  const { from, to, read, tail } = move;
  const unretired = (read - tail + from) % from;
  const ahead = (position - tail + from) % from;
  return ((read % to) - unretired + ahead + 2 * to * from) % to;
}

/** Takes over the ring that a queue goes on in, where `tail` is the oldest outstanding WQE. */
export function adopt(
  ring: Ring,
  place: { readonly address: number; readonly units: number },
  moved: { readonly reply: Resumed; readonly tail: number },
): void {
  const { reply: { read, stamp }, tail } = moved;
  const move = { from: ring.depth, to: place.units, read, tail };
  const next = movedPosition((ring.write + 1) % ring.depth, move);
  ring.write = (next + place.units - 1) % place.units;
  ring.address = place.address;
  ring.depth = place.units;
  ring.stamp = Math.max(ring.stamp, stamp);
}
