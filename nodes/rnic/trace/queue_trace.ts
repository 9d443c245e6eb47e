/**
 * The RNIC's lines about queues (document 003_, figure 2), with the names of
 * `fabric/trace/mechanism_steps.ts`.
 */
import type { TraceStep } from "../../../fabric/node.ts";
import { formatTime, type Time } from "../../../fabric/base/time.ts";
import type { MechanismWord } from "../../../fabric/trace/mechanism_steps.ts";
import type { StampedPointer } from "../../../fabric/wire/host_bus/queue_information.ts";
import type { Device } from "../state/device.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import type { LookUpPart, QueueLoad, TakenDoorbell } from "../state/queues.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { trace } from "./trace.ts";

const KINDS = {
  sq: "send queue",
  rq: "receive queue",
  srq: "shared receive queue",
  cq: "completion queue",
} as const;

function traceQueue(
  device: Device,
  queue: number,
  line: Omit<TraceStep, "step" | "queue"> & { readonly step: MechanismWord },
): void {
  const owner = device.owners[queue];
  if (owner !== undefined && "qp" in owner) trace(device, owner.qp, { ...line, queue });
  else device.out.trace({ ...line, queue });
}

function nameOf({ owners }: Device, queue: number): string {
  const owner = owners[queue];
  return owner === undefined ? `queue ${queue}` : `${KINDS[owner.kind]} ${queue}`;
}

function pointerText({ pointer, stamp }: StampedPointer): string {
  return stamp === 0 ? `${pointer}, never stored` : `${pointer}, stored at ${formatTime(stamp)}`;
}

function stampOf({ write, stored = write }: TakenDoorbell): Pick<TraceStep, "stamp"> {
  return stored === undefined ? {} : { stamp: stored.stamp };
}

/** */
export function traceDoorbell(device: Device, doorbell: TakenDoorbell): void {
  const { queue, write, wqe } = doorbell;
  const what = write === undefined ? "its number alone" : `write pointer ${write.pointer}`;
  const carried = wqe === undefined ? "" : `, with a WQE of ${wqe.length} B`;
  const text = `of ${nameOf(device, queue)}: ${what}${carried}`;
  traceQueue(device, queue, { step: "doorbell-taken", text, ...stampOf(doorbell) });
}

/** */
export function traceLostDoorbell(device: Device, doorbell: TakenDoorbell, why: string): void {
  if (!device.out.tracing) return;
  const { queue } = doorbell;
  const text = `of ${nameOf(device, queue)}: ${why}`;
  traceQueue(device, queue, { step: "doorbell-lost", text, ...stampOf(doorbell) });
}

/** */
export function traceCached(device: Device, entry: QueueEntry, doorbell: TakenDoorbell): void {
  const { queue, own, host, depth } = entry;
  const text = `${nameOf(device, queue)}: read pointer ${own}, write pointer ${host} of ${depth}`;
  traceQueue(device, queue, { step: "queue-cached", text, ...stampOf(doorbell) });
}

/** */
export function traceLookUp(
  device: Device,
  { queue }: QueueLoad,
  read: { readonly part: LookUpPart; readonly address: number; readonly length: number },
): void {
  const { part, address, length } = read;
  const step = part === "address"
    ? "address-read"
    : part === "pointer"
    ? "pointer-read"
    : "queue-read";
  const what = typeof part === "number" ? `space ${part}` : part;
  const text = `${what} of ${nameOf(device, queue)}: ${length} B at 0x${address.toString(16)}`;
  traceQueue(device, queue, { step, text });
}

/** */
export function traceKnown(
  device: Device,
  load: QueueLoad,
  { entry, evicted }: {
    readonly entry: QueueEntry | undefined;
    readonly evicted: readonly QueueEntry[];
  },
): void {
  const took = `after ${formatTime(device.now - load.since)}`;
  const gone = evicted.length === 0
    ? ""
    : `; evicts ${evicted.map(({ queue }) => nameOf(device, queue)).join(", ")}`;
  const what = entry === undefined
    ? "there is none"
    : load.known === undefined
    ? `read pointer ${entry.own}, depth ${entry.depth}`
    : "the host's pointer alone";
  const text = `${nameOf(device, load.queue)} ${took}: ${what}${gone}`;
  traceQueue(device, load.queue, { step: "queue-known", text });
}

/** `before` is the cached pointer. */
export function traceCompared(
  device: Device,
  queue: number,
  compared: {
    readonly candidate: StampedPointer;
    readonly from: "doorbell" | "memory";
    readonly before: StampedPointer;
    readonly by: "distance" | "time";
    readonly isNewer: boolean;
  },
): void {
  const { candidate, from, before, by, isNewer } = compared;
  const verdict = isNewer
    ? `pointer 1 is newer, by ${by}`
    : candidate.stamp === before.stamp
    ? "they are the same"
    : `pointer 2 is newer, by ${by}`;
  const text = `${nameOf(device, queue)}: ${verdict}: 1 (${from}) is ${pointerText(candidate)}; ` +
    `2 (cache) is ${pointerText(before)}`;
  const { stamp } = candidate;
  traceQueue(device, queue, { step: "pointer-compared", text, stamp });
}

/** the doorbell was handled with an older pointer than `stored`. */
export function traceStale(
  device: Device,
  { queue, host: pointer, stamp }: QueueEntry,
  stored: StampedPointer,
): void {
  const text = `${nameOf(device, queue)}: ${pointerText({ pointer, stamp })}, ` +
    `where ${pointerText(stored)} was there ${late(stored.stamp - stamp, stamp)}as it rang`;
  traceQueue(device, queue, { step: "stale-pointer", text, stamp: stored.stamp });
}

function late(by: Time, known: Time): string {
  return known === 0 ? "" : `(${formatTime(by)} newer) `;
}

export function traceUnits(
  device: Device,
  queue: number,
  read: { readonly step: "wqe-read" | "wqe-carried"; readonly from: number; readonly to: number },
): void {
  const { step, from, to } = read;
  const count = to - from;
  const text = `${count} unit${count === 1 ? "" : "s"} of ${nameOf(device, queue)} from ${from} on`;
  traceQueue(device, queue, { step, text, units: [from, to] });
}

/** Q-07, H-04: `psn` is that of the packet that waits. */
export function traceContextWait(
  device: Device,
  qp: QueuePair,
  miss: {
    readonly queue: number;
    readonly psn: number | undefined;
    readonly half: "requester" | "responder";
  },
): void {
  const { queue, psn, half } = miss;
  const text = `of QP ${qp.qpn}: ${nameOf(device, queue)}`;
  trace(device, qp, {
    step: "context-wait",
    text,
    queue,
    ...(psn !== undefined && { psn }),
    ...(half === "responder" && { inbound: true }),
  });
}
