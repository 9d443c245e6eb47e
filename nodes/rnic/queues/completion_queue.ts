/**
 * Completion queues: overflow is detected by the host's pointer in space 3; the interrupt
 * leaves behind the CQE on the same link.
 */
import { sendBehindWrites } from "../state/coherent_port_state.ts";
import {
  CLOCK_KHZ,
  type Cqe,
  CQE_BYTES,
  encodeCqe,
  ownerBit,
  PLAIN_CQE,
} from "../../../fabric/wire/host_bus/cqe.ts";
import { type CqArm, ringDistance } from "../../../fabric/wire/host_bus/queue_information.ts";
import { PS_PER_S } from "../../../fabric/base/time.ts";
import type { RingPlace } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { type Device, raiseEvent, warn } from "../state/device.ts";
import { dmaWrite } from "../dma/dma.ts";
import { Fifo } from "../../../fabric/base/fifo.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import { installQueue } from "./install.ts";
import { isPaused } from "./pause.ts";
import { raiseDue } from "./queue_events.ts";
import { findQueue, rereadPointer, tellPointer } from "./queue_information.ts";
import type { CompletionQueue } from "../state/queues.ts";

export function createCompletionQueue(
  cqn: number,
  place: Pick<CompletionQueue, "ring" | "vector" | "timestamps">,
): CompletionQueue {
  return {
    cqn,
    ...place,
    users: 0,
    written: 0,
    lastSolicited: -1,
    armed: "no",
    pending: new Fifo(),
    events: new Fifo(),
    busy: false,
    overflowed: false,
    resized: { pointer: 0, stamp: 0 },
  };
}

export function complete(device: Device, cqn: number, cqe: Cqe): void {
  const cq = device.completionQueues.get(cqn);
  if (cq === undefined || cq.overflowed) return;
  device.counters.cqes++;
  if (cqe.status !== "SUCCESS") device.counters.cqeErrors++;
  cq.pending.push(cqe);
  if (!cq.busy) writePending(device, cq);
}

export function writePending(device: Device, cq: CompletionQueue): void {
  if (isPaused(device, cq.cqn)) return;
  const waiter = { kind: "cq", cq, reread: false } as const;
  const entry = findQueue(device, cq.cqn, waiter);
  if (entry === undefined) cq.busy = true;
  else resumeCompletion(device, entry, waiter);
}

/**
 * When the ring looks full, the card reads the host's pointer once more. @returns "overflow" where
 * it is full even then: the caller fails the queue pairs (class G).
 */
export function resumeCompletion(
  device: Device,
  entry: QueueEntry,
  waiter: { readonly cq: CompletionQueue; readonly reread: boolean },
): "overflow" | undefined {
  const { cq } = waiter;
  cq.busy = false;
  if (cq.overflowed || device.completionQueues.get(cq.cqn) !== cq) return undefined;
  if (isPaused(device, cq.cqn)) return undefined;
  if (entry.stamp < cq.resized.stamp) {
    entry.host = cq.resized.pointer;
    entry.stamp = cq.resized.stamp;
  }
  let reread = waiter.reread;
  while (cq.pending.length > 0) {
    if (ringDistance(entry.host, (entry.own + 1) % entry.depth, entry.depth) === entry.depth - 1) {
      if (reread) return overflow(device, cq);
      cq.busy = true;
      rereadPointer(device, entry, { kind: "cq", cq, reread: true });
      return undefined;
    }
    reread = false;
    writeCqe(device, { cq, entry }, cq.pending.shift()!);
    raiseDue(device, cq);
  }
  return undefined;
}

function writeCqe(
  device: Device,
  place: { readonly cq: CompletionQueue; readonly entry: QueueEntry },
  cqe: Cqe,
): void {
  const { cq, entry } = place;
  entry.own = (entry.own + 1) % entry.depth;
  entry.dirty = true;
  const owner = ownerBit(cq.written, entry.depth);
  const stamped = cq.timestamps ? { ...cqe, timestamp: clockOf(device) } : cqe;
  dmaWrite(device, {
    address: entry.wqeAddress + entry.own * CQE_BYTES,
    data: encodeCqe(stamped, owner),
  });
  tellPointer(device, entry);
  // `rocev2.md` §4.4.
  const solicited = cqe.solicited || cqe.status !== "SUCCESS";
  if (solicited) cq.lastSolicited = cq.written;
  cq.written++;
  if (cq.armed === "any" || (cq.armed === "solicited" && solicited)) interrupt(device, cq);
}

/** @returns ticks of {@link CLOCK_KHZ}. */
export function clockOf({ stageAt }: Device): number {
  return Math.floor(stageAt / (PS_PER_S / (CLOCK_KHZ * 1000)));
}

function interrupt(device: Device, cq: CompletionQueue): void {
  cq.armed = "no";
  if (cq.vector === null) return;
  device.counters.interrupts++;
  const message = { kind: "interrupt", vector: cq.vector } as const;
  sendBehindWrites(device, message, device.stageAt);
}

/**
 * Continues in another ring at the same positions (`rocev2.md` §5.3): a last entry in the old one
 * announces it, where there is room. The host moves entries that it has not taken (mlx5).
 */
export function moveCompletions(
  device: Device,
  cq: CompletionQueue,
  move: { readonly ring: RingPlace; readonly taken: number; readonly stamp: number },
): void {
  const { ring, taken, stamp } = move;
  const { units, address } = cq.ring;
  if (cq.written - taken < units) {
    dmaWrite(device, {
      address: address + (cq.written % units) * CQE_BYTES,
      data: encodeCqe(
        { ...PLAIN_CQE, opcode: "resize", qpn: 0, wqeIndex: 0 },
        ownerBit(cq.written, units),
      ),
    });
  }
  cq.ring = ring;
  cq.resized = { pointer: taken % ring.units, stamp };
  const own = (cq.written + ring.units - 1) % ring.units;
  const plan = { queue: cq.cqn, ring, unitBytes: CQE_BYTES, state: "rts", own } as const;
  installQueue(device, { kind: "cq", cq }, plan);
  cq.busy = false;
  if (cq.pending.length > 0) writePending(device, cq);
}

/**
 * Completions that wait for queue information count: the slots of a shared receive queue that they
 * name must come back to the driver.
 */
export function completionsEnd(cq: CompletionQueue): number {
  return cq.written + cq.pending.length;
}

/** The interrupt is raised at once where there are entries that the host has not taken. */
export function arm(device: Device, request: CqArm): void {
  const cq = device.completionQueues.get(request.cqn);
  if (cq === undefined) {
    device.counters.doorbellsRefused++;
    return;
  }
  const untaken = (cq.written - request.position) & 0xff_ffff;
  const newest = request.solicitedOnly ? cq.lastSolicited : cq.written - 1;
  const isThere = untaken > 0 && newest >= cq.written - untaken;
  cq.armed = request.solicitedOnly ? "solicited" : "any";
  if (isThere) interrupt(device, cq);
}

function overflow(device: Device, cq: CompletionQueue): "overflow" {
  cq.overflowed = true;
  cq.pending.clear();
  device.counters.cqOverflows++;
  raiseEvent(device, { type: "CQ_ERR", cqn: cq.cqn });
  raiseDue(device, cq);
  warn(device, `completion queue ${cq.cqn} has overflowed: CQ_ERR, its queue pairs go to ERR`);
  return "overflow";
}
