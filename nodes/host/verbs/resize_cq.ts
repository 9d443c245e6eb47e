/**
 * `ibv_resize_cq`: a completion queue continues in another ring. The RNIC closes the old ring with
 * a special entry (`rocev2.md` §5.3, opcode 5); the driver moves the entries before it (mlx5).
 */
import { PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import { type Cqe, CQE_BYTES, encodeCqe, ownerBit } from "../../../fabric/wire/host_bus/cqe.ts";
import { refuseCq, unreadEntries } from "./completion_queue.ts";
import { resizedSignal } from "./resize_queue.ts";
import { fillInvalid, refuseEntries, ringEntries } from "./create_cq.ts";
import {
  allocated,
  contiguous,
  failed,
  perform,
  refuseStale,
  storePointer,
  verbError,
} from "./device.ts";
import type { Steps } from "../cpu/program.ts";
import type { Cq, VerbError } from "./objects.ts";
import type { Buffer } from "../memory/address_map.ts";

/** It arrives some microseconds after the firmware's reply, by a DMA write. */
const CLOSE_PATIENCE_PS: Time = 1_000 * PS_PER_US;

/**
 * Makes room for at least `wanted` completions, which keep their order. EINVAL for none, too many,
 * or fewer than the queue holds, and for a destroyed queue; ENOENT where the RNIC fails meanwhile;
 * in each case without any change. Polling returns no completion meanwhile.
 */
export function* resizeCq(cq: Cq, wanted: number): Steps<VerbError | undefined> {
  const { device, place, cqn } = cq;
  const gone = refuseCq(device, cq);
  if (gone !== undefined) return gone;
  const tooMany = refuseEntries(wanted);
  if (tooMany !== undefined) return tooMany;
  if (place.resizing) return verbError("EBUSY", "The completion queue is being resized");
  const held = heldEntries(cq).length;
  if (wanted < held) {
    return verbError("EINVAL", `The queue holds ${held} completions: ${wanted} are too few`);
  }
  const entries = ringEntries(wanted);
  const ring = allocated(() => device.cpu.allocateContiguous(entries * CQE_BYTES));
  if (failed(ring)) return ring;
  place.resizing = true;
  fillInvalid(device, ring);
  yield* device.cpu.settle();
  const stamp = Math.max(device.cpu.now, place.stamp + 1);
  const where = { address: contiguous(ring), units: entries };
  const command = { op: "resize-cq", cqn, ring: where, taken: place.taken, stamp } as const;
  const old = { address: cq.address };
  const wrong = (yield* perform(device.cpu, command)) ??
    (yield* move(cq, { ring, entries, stamp }));
  device.cpu.free(wrong === undefined ? old : ring);
  place.resizing = false;
  device.cpu.signal(resizedSignal(cq));
  return wrong;
}

function heldEntries(cq: Cq): Cqe[] {
  const held: Cqe[] = [];
  for (const [cqe] of unreadEntries(cq)) {
    held.push(cqe);
    if (cqe.opcode === "resize") break;
  }
  return held;
}

function* move(
  cq: Cq,
  to: { readonly ring: Buffer; readonly entries: number; readonly stamp: number },
): Steps<VerbError | undefined> {
  const { device, place } = cq;
  const { cpu } = device;
  const deadline = cpu.now + CLOSE_PATIENCE_PS;
  let held = heldEntries(cq);
  while (held.at(-1)?.opcode !== "resize") {
    const next = cq.address + ((place.taken + held.length) % cq.entries) * CQE_BYTES;
    if ((yield* cpu.waitMemory(next, CQE_BYTES, deadline)) === "timeout") {
      return verbError("ENOENT", "The RNIC has failed before it closed the old ring");
    }
    held = heldEntries(cq);
  }
  const stale = refuseStale(device, cq.epoch);
  if (stale !== undefined) return stale;
  held.pop();
  for (const [index, cqe] of held.entries()) {
    const position = place.taken + index;
    const at = to.ring.address + (position % to.entries) * CQE_BYTES;
    cpu.store(at, encodeCqe(cqe, ownerBit(position, to.entries)));
  }
  cq.address = to.ring.address;
  device.state.held.set(place, cq.address);
  cq.entries = to.entries;
  place.stamp = to.stamp;
  place.stored = place.taken;
  storePointer(device, place, place.taken % to.entries);
  return undefined;
}
