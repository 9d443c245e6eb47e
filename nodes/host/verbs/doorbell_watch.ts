/**
 * Lost doorbells. Where the RNIC takes no request of a send queue for a while, the driver
 * repeats its doorbell, with the same pointer and stamp, so that an unnecessary one has no effect
 * . Receive queues need no watch: the RNIC reads their pointer in memory before it treats one
 * as empty.
 */
import type { Time } from "../../../fabric/base/time.ts";
import { NEVER } from "../../../fabric/base/time.ts";
import type { Steps } from "../cpu/program.ts";
import type { Device, Ring } from "./objects.ts";
import { takenUpTo } from "./queue_fill.ts";
import { DOORBELL_RUNG, repeatDoorbell } from "./rings.ts";

/** @param retryPs how long a queue may stand still. */
export function* watchDoorbells(device: Device, retryPs: Time): Steps<void> {
  const { cpu } = device;
  for (;;) {
    const seen = new Map<Ring, number>();
    for (const ring of yield* waiting(device)) seen.set(ring, yield* takenUpTo(device, ring));
    if (seen.size === 0) {
      yield* cpu.waitSignal(DOORBELL_RUNG, NEVER);
      continue;
    }
    yield* cpu.sleep(retryPs);
    for (const ring of yield* waiting(device)) {
      if (seen.get(ring) === (yield* takenUpTo(device, ring))) yield* repeatDoorbell(device, ring);
    }
  }
}

function* waiting(device: Device): Steps<Ring[]> {
  const found: Ring[] = [];
  if (device.cpu.card === undefined) return found;
  const running = [...device.state.queuePairs.values()].filter(({ life }) => life.state === "rts");
  for (const { sq: ring } of running) {
    if (ring.used === 0) continue;
    if ((yield* takenUpTo(device, ring)) !== (ring.write + 1) % ring.depth) found.push(ring);
  }
  return found;
}
