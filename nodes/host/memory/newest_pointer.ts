/**
 * For the counter of stale pointers: what the host had stored of a queue when its doorbell
 * rang. It is read from memory as the cores see it, so that no driver and no card has a say in it.
 */
import {
  decodeDoorbell,
  DOORBELL_MESSAGE_OFFSET,
  DOORBELL_OFFSET,
} from "../../../fabric/wire/host_bus/queue_information.ts";
import { decodeField, fieldBytes } from "../../../fabric/wire/host_bus/queue_placement.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { CardMemory } from "./card_memory.ts";
import type { MemorySystem } from "./memory_system.ts";
import type { QueueGuard } from "./queue_guard.ts";

/**
 * When the newest pointer of a queue was stored, whose doorbell is leaving now. Undefined for other
 * registers, and for a doorbell with the pointer, which has the time itself.
 */
export function newestPointer(
  { memory, guard, cardMemory }: {
    readonly memory: MemorySystem;
    readonly guard: QueueGuard;
    readonly cardMemory: CardMemory | undefined;
  },
  offset: number,
  data: Uint8Array,
): Time | undefined {
  if (offset !== DOORBELL_OFFSET && offset !== DOORBELL_MESSAGE_OFFSET) return undefined;
  const doorbell = decodeDoorbell(data);
  if (doorbell === undefined || doorbell.write !== undefined) return undefined;
  // It is on its way to the card, ahead of the doorbell.
  if (cardMemory !== undefined) return cardMemory.stampOf(doorbell.queue);
  const address = guard.stampAddress(doorbell.queue);
  if (address === undefined) return undefined;
  return decodeField("stamp", memory.peek(address, fieldBytes("stamp")));
}
