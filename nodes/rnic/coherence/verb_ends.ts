/** Ends of accesses of agent 0 that verbs and DMA have begun (`verbs.ts`). */
import { farLine } from "../../../fabric/coherence/far_card.ts";
import type { Answer } from "../../../fabric/coherence/access.ts";
import { lineOf } from "../../../fabric/wire/host_bus/region_messages.ts";
import type { CoherentPort } from "../state/coherent_port_state.ts";
import type { HomeEnd } from "./state/coherence_state.ts";
import type { Device } from "../state/device.ts";
import { noteLineAnswer } from "./audit.ts";

/** Agent 0 has done them, or found the line lost. */
export function endAccesses(device: Device, answers: readonly Answer[]): void {
  const { port } = device;
  if (port === undefined) return;
  for (const answer of answers) answerTask(device, port, answer);
}

/** A read is over, a write when memory has the line. */
function answerTask(device: Device, port: CoherentPort, answer: Answer): void {
  const { access, result, data } = answer;
  const task = port.tasks.get(access.ticket);
  if (task === undefined) return;
  port.tasks.delete(access.ticket);
  if (device.out.auditing) noteLineAnswer(device, task, answer);
  task.answer = result === "done" && data instanceof Uint8Array
    ? data as Uint8Array<ArrayBuffer>
    : undefined;
  task.isGood = result === "done";
  if (task.kind === "read") port.ended.push(task);
  else port.writingBack.push(task);
}

/** Ends writes whose line is in memory by now, as the local cache has evicted it (decision 12). */
export function endWriteBacks({ port }: Device, { card }: HomeEnd): void {
  if (port === undefined || port.writingBack.length === 0) return;
  for (const task of port.writingBack.splice(0)) {
    const { state } = farLine(card.local, Math.floor(lineOf(task.address)));
    if (state === "MI" || state === "II") port.writingBack.push(task);
    else port.ended.push(task);
  }
}
