/**
 * FLUSH of the memory placement extensions (P-50, IBA 1.5 annex A19): answered when the data
 * written before it is globally visible, or persistent. A DMA read behind the data makes it visible
 * (P-03), in flow 1 also persistent (P-24); in flow 2 the host's CPU persists it (P-26).
 */
import { NAK_SYNDROMES } from "../../../fabric/wire/roce/aeth.ts";
import { FLUSH_PLACEMENT, FLUSH_SELECT } from "../../../fabric/wire/roce/feth.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Device } from "../state/device.ts";
import { acceptRequest } from "../state/responder_changes.ts";
import { findRegion, remoteRegion } from "../dma/memory_region.ts";
import { duplicateOfService, flushMessage } from "./pm_module.ts";
import { psnAdd } from "../state/psn.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { answerAgain, answerSingle } from "../answers/answers.ts";
import { createService, type RequestIn, type Verdict } from "../state/responder_state.ts";
import type { Region } from "../state/memory.ts";
import { countEffect, needOf } from "../state/operation.ts";

const { globalVisibility, persistence } = FLUSH_PLACEMENT;

/**
 * The queue pair and the region need these bits (§4.5); undefined where the header asks for
 * nothing, or for something undefined.
 */
export function needOfFlush({ feth }: RocePacket): number | undefined {
  const { select, placement } = feth!;
  if (select > FLUSH_SELECT.region) return undefined;
  if (placement === 0 || (placement & ~(globalVisibility | persistence)) !== 0) return undefined;
  return ((placement & globalVisibility) !== 0 ? ACCESS.flushGlobal : 0) |
    ((placement & persistence) !== 0 ? ACCESS.flushPersistent : 0);
}

export function executeFlush(device: Device, qp: QueuePair, input: RequestIn): Verdict | undefined {
  const { packet, operation } = input;
  const range = rangeOf(device, qp, input);
  if (typeof range !== "object") return range;
  const { psn } = packet.bth;
  const msn = acceptRequest(qp, psnAdd(psn, 1));
  const service = createService(input, { msn, state: "running", readyAt: device.stageAt });
  countEffect(device, operation);
  answerSingle(device, qp, service);
  const { placement } = packet.feth!;
  flushMessage(device, qp, {
    ...range,
    service,
    persistent: (placement & persistence) !== 0 && range.length > 0,
    visible: (placement & globalVisibility) !== 0,
  });
  return undefined;
}

interface FlushRange {
  readonly va: number;
  readonly length: number;
  readonly region: Region | undefined;
}

/** Key and rights are checked (§3.4, step 6); SEL = MR ignores the range. */
function rangeOf(device: Device, qp: QueuePair, input: RequestIn): FlushRange | Verdict {
  const { packet } = input;
  const { select } = packet.feth!;
  const { rkey } = packet.reth!;
  const need = needOf(input)!;
  let { va, length } = packet.reth!;
  if (select === FLUSH_SELECT.region) {
    const whole = findRegion(device.regions, rkey);
    if (whole === undefined) return NAK_SYNDROMES["remote-access-error"];
    va = BigInt(whole.va);
    length = whole.length;
  }
  if (length === 0) return { va: 0, length, region: undefined };
  const region = remoteRegion(device, qp, { key: rkey, va, length, need });
  return typeof region === "object" ? { va: Number(va), length, region } : region;
}

/**
 * An answer stays valid and is sent again (§3.5); a FLUSH under way will be answered. @returns
 * false where the FLUSH is unknown: it is dropped.
 */
export function repeatFlush(device: Device, qp: QueuePair, input: RequestIn): boolean {
  const service = duplicateOfService(device, qp, input.packet.bth.psn);
  if (service?.operation !== input.operation) return false;
  if (service.state !== "done") return true;
  answerAgain(device, qp, service);
  return true;
}
