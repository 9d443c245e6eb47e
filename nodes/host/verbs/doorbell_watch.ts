/**
 * The driver's watch over doorbells: a doorbell may be lost, or find the doorbell space full. A
 * send queue of which the RNIC has taken nothing for a while is rung for again. The pointer is the
 * same and so is its stamp, so that a doorbell too many changes nothing. Receive queues need no
 * watch: the RNIC looks at their pointer in memory before it believes one to be empty.
 */
import type { Time } from "../../../fabric/base/time.ts";
import { NEVER } from "../../../fabric/base/time.ts";
import type { Steps } from "../cpu/program.ts";
import type { Device, Ring } from "./objects.ts";
import { takenUpTo } from "./queue_fill.ts";
import { DOORBELL_RUNG, repeatDoorbell } from "./rings.ts";

/** Runs as long as the host does. @param retryPs how long a queue may stand still. */
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

/** Send queues with requests of which the RNIC is not known to have taken all. */
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
