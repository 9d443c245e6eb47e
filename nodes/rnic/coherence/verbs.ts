/** Ordinary RDMA and DMA on lines of a shared region: accesses of agent 0, home's local cache (decision 6). */
import type { Answer } from "../../../fabric/coherence/messages.ts";
import type { Device } from "../state/device.ts";

export function verbAnswered(_device: Device, _answers: readonly Answer[]): void {}
