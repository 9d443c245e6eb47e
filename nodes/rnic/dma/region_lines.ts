/**
 * Ordinary DMA on lines of this host's shared regions (decision 6): reads, writes and atomics go through agent 0,
 * home's local cache, a line at a time, so that far cards' copies are recalled and invalidated. They leave nothing
 * behind in it (decision 4).
 *
 * A write of a line begins when all earlier writes are complete, and later ones wait for its end: that is when
 * memory has the line (decisions 5, 12). [choice] Other writes ask for their lines in parallel; here the order of
 * commits is kept by waiting, as each line may have to come from a far card anyway.
 */
import { LINE_BYTES } from "../../../fabric/wire/host_bus/coherent.ts";
import type { LineChange } from "../../../fabric/coherence/line_bytes.ts";
import type { Answer } from "../../../fabric/coherence/messages.ts";
import type { CoherentPort, LineTask, PortWrite } from "../state/coherence/port_state.ts";
import type { Device } from "../state/device.ts";

/** Whether an address of host memory is in a shared region of this host. */
export function isShared({ shared }: CoherentPort, address: number): boolean {
  for (const { from, to } of shared) if (address >= from && address < to) return true;
  return false;
}

/** Bytes from `address` on, `most` at most, that are all in one line of a region, or all in none. */
export function untilShared({ shared }: CoherentPort, address: number, most: number): number {
  let length = most;
  for (const { from, to } of shared) {
    if (address >= from && address < to) return Math.min(most, LINE_BYTES - address % LINE_BYTES);
    if (address < from) length = Math.min(length, from - address);
  }
  return length;
}

/** A store of these bytes into their line. */
export function changeOf(address: number, data: Uint8Array): LineChange {
  const offset = address % LINE_BYTES;
  const bytes = new Uint8Array(LINE_BYTES);
  bytes.set(data, offset);
  const mask = ((1n << BigInt(data.length)) - 1n) << BigInt(offset);
  return { kind: "write", mask, bytes };
}

/** Begins an access of agent 0, whose end {@link endTask} takes. */
export function beginTask(device: Device, port: CoherentPort, task: LineTask): void {
  const ticket = port.nextTask++;
  port.tasks.set(ticket, task);
  const line = Math.floor(task.address / LINE_BYTES);
  const isLoad = task.kind === "read";
  device.up.accessLine(device, {
    kind: isLoad ? "load" : "store",
    line,
    ticket,
    ...(!isLoad && { change: task.change }),
  });
}

/** Agent 0 has answered: a read is over, a write when memory has the line. @returns the task, where it was one. */
export function answerTask(port: CoherentPort, { access, result, data }: Answer): void {
  const task = port.tasks.get(access.ticket);
  if (task === undefined) return;
  port.tasks.delete(access.ticket);
  task.answer = result === "done" && data instanceof Uint8Array
    ? data as Uint8Array<ArrayBuffer>
    : undefined;
  task.isGood = result === "done";
  if (task.kind === "read") port.ended.push(task);
  else port.writingBack.push(task);
}

/** The write at the head, of a line of a region. @returns whether it is over. */
export function runLineWrite(device: Device, port: CoherentPort, write: PortWrite): boolean {
  const { task } = write;
  if (task === undefined) return false;
  if (task.state === "over") return true;
  if (task.state === "waits" && port.away.length === 0) {
    task.state = "runs";
    beginTask(device, port, task);
  }
  return false;
}
