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
    const seen = new Map(waiting(device).map((ring) => [ring, takenUpTo(device, ring)]));
    if (seen.size === 0) {
      yield* cpu.waitSignal(DOORBELL_RUNG, NEVER);
      continue;
    }
    yield* cpu.sleep(retryPs);
    for (const ring of waiting(device)) {
      if (seen.get(ring) === takenUpTo(device, ring)) yield* repeatDoorbell(device, ring);
    }
  }
}

/** Send queues with requests of which the RNIC is not known to have taken all. */
function waiting(device: Device): Ring[] {
  if (device.cpu.card === undefined) return [];
  const running = [...device.state.queuePairs.values()].filter(({ life }) => life.state === "rts");
  return running.map(({ sq }) => sq).filter((ring) =>
    ring.used > 0 && takenUpTo(device, ring) !== (ring.write + 1) % ring.depth
  );
}
