/**
 * DMA on lines of this host's shared regions (decision 6): reads, writes and atomics go through agent 0, home's
 * local cache, a line at a time, so that far cards' copies are recalled and invalidated; none stays there (decision 4).
 *
 * A write of a line begins when all earlier writes are complete, and later ones wait until memory has the line
 * (decisions 5, 12). [choice] Other writes ask for their lines in parallel; these keep the order of commits by
 * waiting, as each line may have to come from a far card anyway.
 */
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { type LineChange, WHOLE_LINE } from "../../../fabric/wire/host_bus/line_change.ts";
import type { CoherentPort, LineTask, PortWrite } from "../state/coherent_port_state.ts";
import type { Device } from "../state/device.ts";
import type { Region } from "../state/memory.ts";
import { physicalAddress } from "./translation.ts";

export function isShared({ shared }: CoherentPort, address: number): boolean {
  for (const { from, to } of shared) if (address >= from && address < to) return true;
  return false;
}

/**
 * @returns the number of bytes from `address` on, at most `most`, that are all in one shared line, or all in none.
 */
export function untilShared({ shared }: CoherentPort, address: number, most: number): number {
  let length = most;
  for (const { from, to } of shared) {
    if (address >= from && address < to) return Math.min(most, LINE_BYTES - address % LINE_BYTES);
    if (address < from) length = Math.min(length, from - address);
  }
  return length;
}

export function changeOf(address: number, data: Uint8Array): LineChange {
  const offset = address % LINE_BYTES;
  const bytes = new Uint8Array(LINE_BYTES);
  bytes.set(data, offset);
  const mask = ((1n << BigInt(data.length)) - 1n) << BigInt(offset);
  return { kind: "write", mask, bytes };
}

/** Runs the write at the head, of a line of a region. @returns whether it is over. */
export function runLineWrite(device: Device, port: CoherentPort, write: PortWrite): boolean {
  const { task } = write;
  if (task === undefined) return false;
  if (task.state === "over") return true;
  if (task.state === "waits" && port.away.length === 0) {
    task.state = "runs";
    device.up.accessLine(device, port, task);
  }
  return false;
}

/**
 * No flush may promise a dropped partial write of a lost line. A write of the whole line repairs
 * that.
 */
export function noteDropped({ dropped }: CoherentPort, task: LineTask): void {
  if (task.kind !== "write") return;
  const line = Math.floor(task.address / LINE_BYTES);
  if (!task.isGood) dropped.add(line);
  else if (dropped.size > 0 && task.change.kind === "write" && task.change.mask === WHOLE_LINE) {
    dropped.delete(line);
  }
}

export function coversShared(port: CoherentPort, { region, va, length }: {
  readonly region?: Region;
  readonly va: number;
  readonly length: number;
}): boolean {
  if (region === undefined || port.shared.length === 0) return false;
  const memory = region.window?.binding?.parent ?? region;
  for (let at = va - va % LINE_BYTES; at < va + length; at += LINE_BYTES) {
    if (isShared(port, physicalAddress(memory, Math.max(at, va)))) return true;
  }
  return false;
}

/**
 * True if some of these bytes were dropped; told once: [choice] a later flush may promise later
 * writes there again, and a flush that is refused for another connection's write is refused once.
 */
export function takeDropped({ dropped }: CoherentPort, { region, va, length }: {
  readonly region?: Region;
  readonly va: number;
  readonly length: number;
}): boolean {
  if (region === undefined || dropped.size === 0) return false;
  const memory = region.window?.binding?.parent ?? region;
  let isDropped = false;
  for (let at = va - va % LINE_BYTES; at < va + length; at += LINE_BYTES) {
    const address = physicalAddress(memory, Math.max(at, va));
    if (dropped.delete(Math.floor(address / LINE_BYTES))) isDropped = true;
  }
  return isDropped;
}
