/**
 * The driver's end of the card's event queue, a completion queue of asynchronous events; a thread
 * takes them on its interrupt.
 */
import { NEVER } from "../../../fabric/base/time.ts";
import { eventOfEntry } from "../../../fabric/wire/host_bus/event_entry.ts";
import type { RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Steps } from "../cpu/program.ts";
import { reqNotifyCq, takeEntries } from "./completion_queue.ts";
import { createCq } from "./create_cq.ts";
import { must, perform, ProgramError } from "./device.ts";
import type { Cq, Device } from "./objects.ts";

/** Makes a ring of 4096 entries, as in Linux (mlx5: MLX5_NUM_ASYNC_EQE). */
const EVENTS = 3000;
/** Above vectors of single completion queues, below shared ones. */
export const EVENT_VECTOR = (1 << 16) - 1;

function vectorOf({ state }: Device): number {
  return state.firstVector + EVENT_VECTOR;
}

/** Called at each opening of the card. @throws ProgramError where the card refuses. */
export function* openEventQueue(device: Device): Steps<Cq> {
  const cq = must(yield* createCq(device, { entries: EVENTS, vector: vectorOf(device) }));
  const wrong = yield* perform(device.cpu, { op: "set-event-queue", cqn: cq.cqn });
  if (wrong !== undefined) throw new ProgramError(`Cannot open the event queue: ${wrong.reason}`);
  yield* reqNotifyCq(cq);
  return cq;
}

export function* serveEvents(device: Device, deliver: (event: RnicEvent) => void): Steps<void> {
  const { cpu, state } = device;
  for (;;) {
    const cq = state.eventQueue;
    if (cq !== undefined && takeEvents(cq, deliver) > 0) {
      yield* cpu.settle();
      continue;
    }
    if (cq !== undefined) {
      // Armed, then read again: an event in between would raise no interrupt.
      yield* reqNotifyCq(cq);
      if (takeEvents(cq, deliver) > 0) continue;
    }
    yield* cpu.waitInterrupt(vectorOf(device), NEVER);
  }
}

function takeEvents(cq: Cq, deliver: (event: RnicEvent) => void): number {
  const events: RnicEvent[] = [];
  takeEntries(cq, (entry) => {
    const event = eventOfEntry(entry);
    if (event !== undefined) events.push(event);
    return true;
  });
  for (const event of events) deliver(event);
  return events.length;
}
