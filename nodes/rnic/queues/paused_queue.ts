/**
 * A queue is paused for a change of its space 2: fetches under way end, then the pause's task is carried
 * out. A lock is a pause until the host releases it, or its time is over. All other queues go on, also those that
 * complete into the same completion queue.
 *
 * Each task ends with {@link finish} or {@link refuse}; `ring_move.ts` takes over another depth or ring.
 */
import {
  decodeEntry,
  encodeEntry,
  type QueueFields,
} from "../../../fabric/wire/host_bus/queue_placement.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import type { RingPlace, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { Fifo } from "../../../fabric/base/fifo.ts";
import { dmaRead } from "../dma/dma.ts";
import { type Device, type QueueOwner, schedule } from "../state/device.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { Asker, HeldCompletion, Pause, PauseTask } from "../state/queues.ts";
import { complete, completionsEnd, writePending } from "./completion_queue.ts";
import { writeSpace2 } from "./install.ts";
import { answerPause } from "./pause.ts";
import { findQueue, rereadPointer, spaceAddress } from "./queue_information.ts";
import { serveReceives } from "./receive_queue.ts";
import {
  joined,
  readUnits,
  refuseMove,
  takeRing,
  type UnitsRead,
  unitsToMove,
  writeUnits,
} from "./ring_move.ts";
import { fetchWork } from "./send_queue.ts";
import { lookAtShared, serveWaiting } from "./shared_receive_queue.ts";

type Refusal = Omit<Extract<RnicReply, { readonly status: "error" }>, "status">;

export function pauseQueue(
  device: Device,
  queue: number,
  plan: { readonly task: PauseTask; readonly asker: Asker },
): void {
  const { task, asker } = plan;
  const pause: Pause = {
    queue,
    asker,
    task,
    stage: "drains",
    // A fetch that never ends has failed with its queue pair.
    until: device.now + device.timing.space2LockPs,
    entry: undefined,
    hostWrote: false,
    held: new Fifo<HeldCompletion>(),
  };
  device.pauses.set(queue, pause);
  const owner = device.owners[queue]!;
  if (owner.kind === "rq") serveReceives(device, owner.qp);
  else if (owner.kind === "srq") serveWaiting(device, owner.srq);
  settle(device, pause);
}

export function releaseLock(device: Device, pause: Pause, command: number): void {
  pause.task = { kind: "unlock" };
  pause.hostWrote = true;
  pause.asker = { command };
  pause.stage = "works";
  pause.until = NEVER;
  dmaRead(device, {
    address: spaceAddress(device, pause.queue, 2),
    length: device.store.bytes[2],
    continuation: { kind: "space2", pause },
  });
}

/** Called when a DMA read has completed, which may have been the last fetch. */
export function settlePauses(device: Device): void {
  for (const pause of device.pauses.values()) if (pause.stage === "drains") settle(device, pause);
}

function settle(device: Device, pause: Pause): void {
  if (isBusy(device.owners[pause.queue]!)) return;
  pause.stage = "works";
  pause.until = NEVER;
  const waiter = { kind: "pause", pause, reread: false } as const;
  const entry = findQueue(device, pause.queue, waiter);
  if (entry !== undefined) resumePause(device, entry, waiter);
}

function isBusy(owner: QueueOwner): boolean {
  switch (owner.kind) {
    case "sq":
      return owner.qp.sq.busy;
    case "rq":
      return owner.qp.rq.busy;
    case "srq":
      return owner.srq.busy;
    case "cq":
      return owner.cq.busy;
  }
}

/** `reread`: the host's pointer was read again. */
export function resumePause(
  device: Device,
  entry: QueueEntry,
  waiter: { readonly pause: Pause; readonly reread: boolean },
): void {
  const { pause, reread } = waiter;
  if (device.pauses.get(pause.queue) !== pause) return;
  if (pause.entry === undefined) {
    pause.entry = entry;
    entry.pins++;
  }
  const { task } = pause;
  switch (task.kind) {
    case "lock":
      return grant(device, pause);
    case "unlock":
      return;
    case "write": {
      const bytes = encodeEntry(device.store, 2, entry);
      bytes.set(task.data, task.offset);
      return change(device, { pause, entry }, bytes);
    }
    case "move":
      // The pointer may be older than WQEs that are to be moved.
      if (!reread) rereadPointer(device, entry, { kind: "pause", pause, reread: true });
      else move(device, { pause, entry }, task.ring);
  }
}

function grant(device: Device, pause: Pause): void {
  pause.stage = "locked";
  pause.until = device.stageAt + device.timing.space2LockPs;
  device.counters.locksGranted++;
  answerPause(device, pause, { status: "ok", op: "lock-space2", until: pause.until });
}

export function takeSpace2(device: Device, pause: Pause, data: Uint8Array | undefined): void {
  const { entry, queue } = pause;
  if (device.pauses.get(queue) !== pause || entry === undefined) return;
  if (data !== undefined) return change(device, { pause, entry }, data);
  refuse(device, pause, { errno: "EINVAL", reason: `Space 2 of queue ${queue} cannot be read` });
}

interface Resting {
  readonly pause: Pause;
  readonly entry: QueueEntry;
}

/** Fields that are constant for a queue's life, though a placement may have them in space 2. */
const KEPT = ["unitBytes", "wqeAddress", "indexAddress"] as const satisfies (keyof QueueFields)[];

function change(device: Device, { pause, entry }: Resting, data: Uint8Array): void {
  const values = decodeEntry(device.store, 2, data);
  for (const field of KEPT) {
    const { [field]: found = entry[field] } = values;
    if (found === entry[field]) continue;
    const reason = `${field} of queue ${pause.queue} stays ${entry[field]}: found ${found}`;
    return refuse(device, pause, { errno: "EINVAL", reason });
  }
  const { depth = entry.depth } = values;
  if (depth === entry.depth) return finish(device, { pause, entry }, entry.own);
  pause.task = { kind: "move", ring: { address: entry.wqeAddress, units: depth } };
  resumePause(device, entry, { pause, reread: false });
}

function move(device: Device, { pause, entry }: Resting, ring: RingPlace): void {
  const wrong = refuseMove(device, entry, ring);
  if (wrong !== undefined) return refuse(device, pause, wrong);
  const units = unitsToMove(entry, ring);
  if (units === 0) return finishMove(device, { pause, entry }, ring);
  readUnits(device, entry, { pause, move: { ring, units }, before: undefined });
}

/** `data` is undefined where the host refused the read; then nothing changes. */
export function takeUnits(
  device: Device,
  read: UnitsRead,
  data: Uint8Array<ArrayBuffer> | undefined,
): void {
  const { pause, move: { ring } } = read;
  const { entry, queue } = pause;
  if (device.pauses.get(queue) !== pause || entry === undefined) return;
  if (data === undefined) {
    const reason = `The WQEs of queue ${queue} cannot be read`;
    return refuse(device, pause, { errno: "EINVAL", reason });
  }
  const bytes = read.before === undefined ? data : joined(read.before, data);
  if (bytes.length < read.move.units * entry.unitBytes) {
    return readUnits(device, entry, { ...read, before: bytes });
  }
  writeUnits(device, entry, { ring, bytes });
  finishMove(device, { pause, entry }, ring);
}

function finishMove(device: Device, { pause, entry }: Resting, ring: RingPlace): void {
  const read = entry.own;
  takeRing(device, entry, ring);
  finish(device, { pause, entry }, read);
}

function finish(device: Device, { pause, entry }: Resting, read: number): void {
  const owner = device.owners[pause.queue]!;
  const written = completionsOf(device, owner) + pause.held.length;
  const { stamp } = entry;
  answerPause(device, pause, { status: "ok", op: "queue-resumed", read, written, stamp });
  resumeQueue(device, pause);
}

function completionsOf(device: Device, owner: QueueOwner): number {
  if (!("qp" in owner)) return 0;
  const cqn = owner.kind === "sq" ? owner.qp.sendCq : owner.qp.recvCq;
  return completionsEnd(device.completionQueues.get(cqn)!);
}

function refuse(device: Device, pause: Pause, wrong: Refusal): void {
  if (pause.hostWrote) writeSpace2(device, pause.entry!);
  answerPause(device, pause, { status: "error", ...wrong });
  resumeQueue(device, pause);
}

export function failPause(device: Device, pause: Pause): void {
  if (device.pauses.get(pause.queue) !== pause) return;
  const reason = `The information of queue ${pause.queue} cannot be read`;
  refuse(device, pause, { errno: "EINVAL", reason });
}

function resumeQueue(device: Device, { queue, entry, held }: Pause): void {
  device.pauses.delete(queue);
  if (entry !== undefined) entry.pins--;
  for (let next = held.shift(); next !== undefined; next = held.shift()) {
    complete(device, next.cqn, next.cqe);
  }
  const owner = device.owners[queue]!;
  switch (owner.kind) {
    case "sq":
      owner.qp.sq.mayHaveMore = true;
      fetchWork(device, owner.qp);
      return schedule(device, owner.qp);
    case "rq":
      return serveReceives(device, owner.qp);
    case "srq":
      serveWaiting(device, owner.srq);
      if (owner.srq.limit > 0) lookAtShared(device, owner.srq);
      return;
    case "cq":
      if (!owner.cq.busy && owner.cq.pending.length > 0) writePending(device, owner.cq);
  }
}

/** A queue pair ends: slots of a shared receive queue come back with its completions. */
export function releaseHeld(device: Device, qp: QueuePair): void {
  const pause = device.pauses.get(qp.rqQueue);
  if (pause === undefined) return;
  const { held } = pause;
  for (let left = held.length; left > 0; left--) {
    const next = held.shift()!;
    if (next.cqe.qpn === qp.qpn) complete(device, next.cqn, next.cqe);
    else held.push(next);
  }
}

export function pausesWakeAt({ pauses }: Device): Time {
  let earliest = NEVER;
  if (pauses.size > 0) {
    for (const { until } of pauses.values()) earliest = Math.min(earliest, until);
  }
  return earliest;
}

/**
 * Takes locks back: unfinished changes are dropped, old values stay, a late release is
 * refused.
 */
export function endPauses(device: Device): void {
  for (const pause of device.pauses.values()) {
    if (pause.until > device.now) continue;
    if (pause.stage === "drains") {
      refuse(device, pause, {
        errno: "EBUSY",
        reason: `Queue ${pause.queue} does not come to rest`,
      });
      continue;
    }
    device.counters.locksTakenBack++;
    writeSpace2(device, pause.entry!);
    resumeQueue(device, pause);
  }
}
