/**
 * Memory at the card, where queue information lies at `store: device`. The card reads and
 * writes it on the chip, at once and without the bus; cores reach it through the BAR, where the
 * card enforces the rules of Q-04. It keeps its content while the card has power: a host that dies
 * holds its card in reset, which ends the card's work but keeps this memory.
 */
import { sendBehindWrites } from "../state/coherent_port_state.ts";
import type { RegisterRead, RegisterWrite } from "../../../fabric/wire/host_bus/pcie.ts";
import { CARD_MEMORY_BASE, inCardMemory } from "../../../fabric/wire/host_bus/queue_information.ts";
import {
  decodeField,
  fieldAddress,
  fieldBytes,
  storeRanges,
} from "../../../fabric/wire/host_bus/queue_placement.ts";
import { type StorePart, touchedParts } from "../../../fabric/wire/host_bus/queue_rules.ts";
import type { QueueSpaces } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { QueuePlan } from "../../../fabric/rack/plan/queue_plan.ts";
import type { Device } from "../state/device.ts";
import type { CardMemory, ReadRequest } from "../state/dma_state.ts";

type Place = { readonly address: number; readonly length: number };

export function isOnCard({ memory }: Device): boolean {
  return memory !== undefined;
}

function cardBytes({ memory }: Device, place: Place): Uint8Array<ArrayBuffer> | undefined {
  if (memory === undefined || !inCardMemory(place.address, place.length)) return undefined;
  const from = place.address - CARD_MEMORY_BASE;
  if (from + place.length > memory.bytes.length) return undefined;
  return memory.bytes.subarray(from, from + place.length);
}

/** A read of the card's memory completes within the step that asked. */
export function takeCardRead(
  device: Device,
): { readonly request: ReadRequest; readonly data: Uint8Array<ArrayBuffer> } | undefined {
  const request = device.dma.onCard.shift();
  return request && { request, data: cardBytes(device, request)!.slice() };
}

/**
 * Entries of the host's earlier life stay until their queues' numbers are used again. @returns the
 * reason of a refusal.
 */
export function layOutCardMemory(
  { memory, store }: Device,
  { queues, ...bases }: QueueSpaces,
): string | undefined {
  const ranges = storeRanges(store, bases, queues);
  const isHere = ranges.every(({ from, end }) => inCardMemory(from, end - from));
  if (memory === undefined) {
    return ranges.some(({ from, end }) => inCardMemory(from, end - from))
      ? "The card has no memory for queue information"
      : undefined;
  }
  if (!isHere) return "Queue information must lie in the card's memory";
  const bytes = Math.max(...ranges.map(({ end }) => end)) - CARD_MEMORY_BASE;
  memory.kept = 0;
  if (memory.bytes.length !== bytes) {
    memory.bytes = new Uint8Array(bytes);
    return undefined;
  }
  for (let queue = 0; queue < queues; queue++) {
    const at = fieldAddress(store, bases, { queue, field: "valid" }) - CARD_MEMORY_BASE;
    const isValid = decodeField("valid", memory.bytes.subarray(at, at + fieldBytes("valid")));
    if (isValid) memory.kept++;
  }
  return undefined;
}

/**
 * Stores all of it or nothing. The store is posted, so an error message refuses it. @returns
 * false where there is no memory.
 */
export function storeFromHost(
  device: Device,
  { offset, data, by }: RegisterWrite,
): boolean {
  const place = { address: offset, length: data.length };
  const target = cardBytes(device, place);
  if (target === undefined || by === undefined || device.spaces === undefined) return false;
  const { queues, ...bases } = device.spaces;
  for (const part of touchedParts({ store: device.store, bases, queues }, place)) {
    const breach = breachOf(device, part, by);
    if (breach === undefined) continue;
    device.counters.storesRefused++;
    sendBehindWrites(
      device,
      { kind: "access-error", by, ...place, ...breach },
      device.stageAt,
    );
    return true;
  }
  target.set(data);
  return true;
}

function breachOf({ pauses, now }: Device, { space, queue }: StorePart, by: number) {
  if (space === 3) return undefined;
  if (space === 1) return { space, queue };
  const pause = pauses.get(queue);
  const isHeld = pause?.stage === "locked" && now < pause.until;
  const holder = isHeld && pause.task.kind === "lock" ? pause.task.by : undefined;
  if (holder === by) return undefined;
  return holder === undefined ? { space, queue } : { space, queue, holder };
}

/** The answer leaves behind all earlier writes of the card (P-03). */
export function loadFromHost(device: Device, { tag, offset, length }: RegisterRead): void {
  const data = cardBytes(device, { address: offset, length })?.slice();
  const status = data === undefined ? "unsupported-request" : "success";
  const completion = { kind: "completion", tag, status, data: data ?? new Uint8Array(0) } as const;
  sendBehindWrites(device, completion, device.stageAt);
}

/** @returns false where the address is not in the card's memory. */
export function writeOnCard(device: Device, address: number, data: Uint8Array): boolean {
  const target = cardBytes(device, { address, length: data.length });
  target?.set(data);
  return target !== undefined;
}

/** The read waits for {@link takeCardRead}. @returns false where the address is in host memory. */
export function readOnCard(device: Device, request: ReadRequest): boolean {
  if (cardBytes(device, request) === undefined) return false;
  device.dma.onCard.push(request);
  return true;
}

export function createCardMemory(store: QueuePlan["store"]): CardMemory | undefined {
  return store === "device" ? { bytes: new Uint8Array(0), kept: 0 } : undefined;
}
