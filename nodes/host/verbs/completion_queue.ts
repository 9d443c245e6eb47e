/**
 * Completion queues: `ibv_create_cq`, `ibv_poll_cq`, `ibv_req_notify_cq` and waiting for either. The
 * RNIC writes entries by DMA; the host finds them by their owner bit and says rarely how far it is.
 */
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { type Cqe, CQE_BYTES, CQE_INVALID, decodeCqe } from "../../../fabric/wire/host_bus/cqe.ts";
import { CQ_ARM_OFFSET, encodeCqArm } from "../../../fabric/wire/host_bus/queue_information.ts";
import {
  allocated,
  contiguous,
  expectReply,
  failed,
  giveBack,
  inTime,
  powerOfTwo,
  refuseStale,
  storePointer,
  verbError,
} from "./device.ts";
import type { Source, Steps } from "../cpu/program.ts";
import { completionOf, isOfSend } from "./completion_of.ts";
import type {
  CompChannel,
  Cq,
  CqPlace,
  Device,
  EndedLife,
  VerbError,
  WorkCompletion,
} from "./objects.ts";
import { retireSlot } from "./rings.ts";

/** Most entries of one completion queue. */
export const CQ_ENTRIES_MAX = 1 << 20;

export interface CqOptions {
  /** Completions that may wait at once, at least 1; rounded up. */
  readonly entries: number;
  /** False: this queue never raises an interrupt. */
  readonly interrupts?: boolean;
  /** Its events come through this channel, with those of the channel's other queues. */
  readonly channel?: CompChannel;
  /** Which of the {@link COMP_VECTORS} its events use; without channel and number, one of its own. */
  readonly compVector?: number;
}

/** Interrupt vectors that completion queues may be told to share (`num_comp_vectors`). */
export const COMP_VECTORS = 64;
/** They are numbered from here on; below are those of single queues and of channels. */
const FIRST_COMP_VECTOR = 1 << 16;

/**
 * Entries of a ring that holds so many completions. The host tells its place every quarter of the ring
 * and one unit stays free: 3/4 − 1 can be used.
 */
export function ringEntries(wanted: number): number {
  return powerOfTwo(Math.ceil((wanted + 1) * 4 / 3));
}

/** Signalled when a resized queue can be looked at again. */
export function resizedSignal(cq: Cq): string {
  return `cq-resized-${cq.cqn}`;
}

function chooseVector(device: Device, options: CqOptions): number | null {
  if (options.interrupts === false) return null;
  if (options.channel !== undefined) return options.channel.vector;
  if (options.compVector !== undefined) return FIRST_COMP_VECTOR + options.compVector;
  return device.state.nextVector++;
}

/** Makes a completion queue that holds at least `entries` completions. */
export function* createCq(device: Device, options: CqOptions): Steps<Cq | VerbError> {
  const { entries: wanted } = options;
  if (!Number.isInteger(wanted) || wanted < 1 || wanted > CQ_ENTRIES_MAX) {
    return verbError("EINVAL", `Entries must be 1 to ${CQ_ENTRIES_MAX}: they are ${wanted}`);
  }
  const { compVector = 0, channel } = options;
  if (!Number.isInteger(compVector) || compVector < 0 || compVector >= COMP_VECTORS) {
    return verbError("EINVAL", `Vectors are 0 to ${COMP_VECTORS - 1}: it is ${compVector}`);
  }
  const entries = ringEntries(wanted);
  const ring = allocated(() => device.cpu.allocateContiguous(entries * CQE_BYTES));
  if (failed(ring)) return ring;
  const fill = new Uint8Array(entries * CQE_BYTES);
  for (let at = CQE_BYTES - 1; at < fill.length; at += CQE_BYTES) fill[at] = CQE_INVALID;
  device.cpu.store(ring.address, fill);
  yield* device.cpu.settle();
  const vector = chooseVector(device, options);
  const { epoch } = device.state;
  const answer = yield* device.cpu.command({
    op: "create-cq",
    ring: { address: contiguous(ring), units: entries },
    vector,
  });
  const reply = inTime(expectReply("create-cq", answer), device, epoch);
  if (failed(reply)) {
    device.cpu.free(ring);
    return reply;
  }
  const cq: Cq = {
    device,
    cqn: reply.cqn,
    epoch,
    address: ring.address,
    entries,
    vector,
    sharesVector: channel !== undefined || options.compVector !== undefined,
    channel,
    place: emptyPlace(reply.cqn),
  };
  device.state.held.set(cq.place, ring.address);
  storePointer(device, cq.place, 0);
  channel?.cqs.add(cq);
  return cq;
}

function emptyPlace(queue: number): CqPlace {
  return {
    queue,
    stamp: 0,
    taken: 0,
    told: 0,
    users: 0,
    armed: "no",
    unacknowledged: 0,
    polling: false,
    current: undefined,
    resizing: false,
    ended: new Map(),
  };
}

/** EBUSY while queue pairs complete here, it is resized, or events are not acknowledged (ibv_destroy_cq waits). */
export function* destroyCq(cq: Cq): Steps<VerbError | undefined> {
  const stale = refuseStale(cq.device, cq.epoch);
  if (stale !== undefined) {
    cq.channel?.cqs.delete(cq);
    return stale;
  }
  if (cq.place.resizing) return verbError("EBUSY", "The completion queue is being resized");
  if (cq.place.users > 0) {
    return verbError("EBUSY", `${cq.place.users} queue pairs complete here`);
  }
  if (cq.place.unacknowledged > 0) {
    return verbError("EBUSY", `${cq.place.unacknowledged} events are not acknowledged`);
  }
  const reply = expectReply(
    "done",
    yield* cq.device.cpu.command({ op: "destroy-cq", cqn: cq.cqn }),
  );
  if (failed(reply)) return reply;
  cq.channel?.cqs.delete(cq);
  giveBack(cq.device, cq.place);
  return undefined;
}

/** Whether it is there: neither destroyed nor of before the RNIC failed. Else its memory may be another's. */
export function isThere(cq: Cq): boolean {
  return cq.device.state.held.has(cq.place);
}

/** Virtual address of the entry that the RNIC fills next. */
function nextEntry(cq: Cq): number {
  return cq.address + (cq.place.taken % cq.entries) * CQE_BYTES;
}

/** Takes what is there, at most `most`, without letting time pass. */
export function takeCompletions(cq: Cq, most: number): WorkCompletion[] {
  const { cpu, state } = cq.device;
  const { place } = cq;
  const completions: WorkCompletion[] = [];
  cpu.charge(state.timing.pollPs);
  // Its numbers may be another's too: what it may have had is lost.
  if (!isThere(cq)) return completions;
  while (completions.length < most && !place.resizing) {
    const cqe = decodeCqe(cpu.load(nextEntry(cq), CQE_BYTES), place.taken, cq.entries);
    if (cqe === undefined) break;
    const position = place.taken++;
    if (place.ended.size > 0 && isOfEndedLife(cq, cqe, position)) continue;
    const completion = completionOf(cq.device, cqe);
    if (completion !== undefined) completions.push(completion);
  }
  if (place.taken - place.told >= cq.entries / 4) {
    place.told = place.taken;
    storePointer(cq.device, place, place.taken % cq.entries);
  }
  return completions;
}

/** The queue pair's completions before `before` are not to be found any more (mlx5: cq_clean). */
export function endLife(cq: Cq, qpn: number, life: EndedLife): void {
  if (life.before > cq.place.taken) cq.place.ended.set(qpn, life);
}

function isOfEndedLife(cq: Cq, cqe: Cqe, position: number): boolean {
  const { ended } = cq.place;
  const life = ended.get(cqe.qpn);
  if (life === undefined) return false;
  if (position >= life.before) {
    ended.delete(cqe.qpn);
    return false;
  }
  if (life.srq !== undefined && !isOfSend(cqe)) retireSlot(life.srq, cqe.wqeIndex);
  return true;
}

/** Takes up to `most` completions (ibv_poll_cq); none where there are none. */
export function* pollCq(cq: Cq, most: number): Steps<WorkCompletion[]> {
  const completions = takeCompletions(cq, most);
  yield* cq.device.cpu.settle();
  return completions;
}

/** Asks for one interrupt at the next completion (ibv_req_notify_cq). Poll again after it. */
export function* reqNotifyCq(
  cq: Cq,
  options: { readonly solicitedOnly?: boolean } = {},
): Steps<VerbError | undefined> {
  if (cq.vector === null) return verbError("EINVAL", "This completion queue has no events");
  const stale = refuseStale(cq.device, cq.epoch);
  if (stale !== undefined) return stale;
  const arm = {
    cqn: cq.cqn,
    position: cq.place.taken,
    solicitedOnly: options.solicitedOnly ?? false,
  };
  cq.place.armed = arm.solicitedOnly ? "solicited" : "any";
  yield* cq.device.cpu.registerWrite(CQ_ARM_OFFSET, encodeCqArm(arm));
  return undefined;
}

export interface WaitOptions {
  /** Spin on the next entry, or sleep until an interrupt. The host's default unless given. */
  readonly mode?: "poll" | "interrupt";
  /** Virtual time at which to give up; never by default. */
  readonly deadline?: Time;
  /** Most completions taken at once, 64 by default. */
  readonly most?: number;
  /**
   * Return too, maybe with none, when another program of this host has signalled: `ready` says
   * whether there is something to look for, since signals are not counted.
   */
  readonly also?: { readonly signal: string; readonly ready: () => boolean };
}

/** Waits for completions and takes them. Empty only at the deadline, or where `also` is ready. */
export function* waitCompletion(cq: Cq, options: WaitOptions = {}): Steps<WorkCompletion[]> {
  const { cpu } = cq.device;
  const most = options.most ?? 64;
  const deadline = options.deadline ?? NEVER;
  const wanted = options.mode ?? cq.device.state.completion;
  const vector = wanted === "interrupt" ? cq.vector : null;
  for (;;) {
    while (cq.place.resizing) {
      if ((yield* cpu.waitSignal(resizedSignal(cq), deadline)) === "timeout") return [];
    }
    let completions = takeCompletions(cq, most);
    if (completions.length === 0 && vector !== null) {
      // Arm, then look again: what came between would raise no interrupt (`rocev2.md` §4.4).
      yield* reqNotifyCq(cq);
      completions = takeCompletions(cq, most);
    }
    if (completions.length > 0 || options.also?.ready()) {
      yield* cpu.settle();
      return completions;
    }
    const source: Source = vector === null
      ? { kind: "memory", address: nextEntry(cq), length: CQE_BYTES }
      : { kind: "interrupt", vector };
    if (!(yield* waitFor(cq, { source, deadline, signal: options.also?.signal }))) return [];
  }
}

/** @returns whether anything but the deadline ended the wait. */
function* waitFor(
  cq: Cq,
  wait: {
    readonly source: Source;
    readonly deadline: Time;
    readonly signal: string | undefined;
  },
): Steps<boolean> {
  const { cpu } = cq.device;
  const { source, deadline } = wait;
  if (wait.signal !== undefined) {
    const sources: Source[] = [source, { kind: "signal", name: wait.signal }];
    return (yield* cpu.waitAny(sources, deadline)) === "happened";
  }
  if (source.kind === "memory") {
    return (yield* cpu.waitMemory(source.address, source.length, deadline)) === "changed";
  }
  if (source.kind === "interrupt") {
    return (yield* cpu.waitInterrupt(source.vector, deadline)) === "raised";
  }
  return (yield* cpu.waitSignal(source.name, deadline)) === "signaled";
}
