/**
 * A queue's newest stored pointer when its doorbell rings, for the counter of stale pointers (Q-10,
 * read as cores see it, independently of driver and card.
 */
import {
  decodeDoorbell,
  DOORBELL_MESSAGE_OFFSET,
  DOORBELL_OFFSET,
  type StampedPointer,
} from "../../../fabric/wire/host_bus/queue_information.ts";
import type { CardMemory } from "./card_memory.ts";
import type { MemorySystem } from "./memory_system.ts";
import type { QueueGuard } from "./queue_guard.ts";

/** @returns undefined for other registers, and for a doorbell with the pointer. */
export function newestPointer(
  { memory, guard, cardMemory }: {
    readonly memory: MemorySystem;
    readonly guard: QueueGuard;
    readonly cardMemory: CardMemory | undefined;
  },
  offset: number,
  data: Uint8Array,
): StampedPointer | undefined {
  if (offset !== DOORBELL_OFFSET && offset !== DOORBELL_MESSAGE_OFFSET) return undefined;
  const doorbell = decodeDoorbell(data);
  if (doorbell === undefined || doorbell.write !== undefined) return undefined;
  // The pointer is on its way to the card, ahead of the doorbell.
  if (cardMemory !== undefined) return cardMemory.pointerOf(doorbell.queue);
  const place = guard.pointerPlace(doorbell.queue);
  return place && guard.pointerIn(memory.peek(place.address, place.length));
}
