/**
 * Use of completion queues (`create_cq.ts` makes them). The RNIC writes entries by DMA; the host
 * detects them by their owner bit and rarely updates its pointer.
 */
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { type Cqe, CQE_BYTES, decodeCqe } from "../../../fabric/wire/host_bus/cqe.ts";
import {
  CQ_ARM_OFFSET,
  encodeCqArm,
  ringDistance,
} from "../../../fabric/wire/host_bus/queue_information.ts";
import { ProgramError, refuseStale, storePointer, verbError } from "./device.ts";
import type { Source, Steps } from "../cpu/program.ts";
import type {
  Cq,
  CqPlace,
  Device,
  EndedLife,
  Qp,
  ReceiveOpcode,
  VerbError,
  WorkCompletion,
  WrId,
} from "./objects.ts";
import { resizedSignal } from "./resize_queue.ts";
import { failureText, retireRecv, retireSend, retireSlot, shownWrId } from "./rings.ts";
import { decodeVerdict } from "../../../fabric/wire/roce/verify_eth.ts";

/**
 * False for a queue that was destroyed, or is older than the RNIC's failure, after which its memory
 * is reused.
 */
export function isThere(cq: Cq): boolean {
  return cq.device.state.held.has(cq.place);
}

/**
 * EINVAL where it is destroyed, ENOENT where the RNIC has failed: the card may have reused the
 * number.
 */
export function refuseCq(device: Device, cq: Cq): VerbError | undefined {
  const stale = refuseStale(device, cq.epoch);
  if (stale !== undefined || (isThere(cq) && !cq.place.leaving)) return stale;
  return verbError("EINVAL", `Completion queue ${cq.cqn} is gone already`);
}

/** The address of the entry that a poll looks at. */
export function nextEntry(cq: Cq): number {
  return cq.address + (cq.place.taken % cq.entries) * CQE_BYTES;
}

export function* unreadEntries(
  { device, address, entries, place }: Cq,
): Generator<readonly [cqe: Cqe, position: number]> {
  for (let position = place.taken; position < place.taken + entries; position++) {
    const at = address + (position % entries) * CQE_BYTES;
    const cqe = decodeCqe(device.cpu.load(at, CQE_BYTES), position, entries);
    if (cqe === undefined) return;
    yield [cqe, position];
  }
}

/** The entry that closes a ring is no completion. */
function unreadCount(cq: Cq): number {
  return [...unreadEntries(cq)].filter(([{ opcode }]) => opcode !== "resize").length;
}

export function makesEvent(
  { place: { armed, armedFrom } }: Cq,
  { solicited, status }: Cqe,
  position: number,
): boolean {
  if (position < armedFrom) return false;
  return armed === "any" || (armed === "solicited" && (solicited || status !== "SUCCESS"));
}

/**
 * Ends when `use` returns false. No time passes. The host's pointer is stored every quarter of the
 * ring.
 */
export function takeEntries(cq: Cq, use: (cqe: Cqe, position: number) => boolean): void {
  const { cpu, state } = cq.device;
  const { place } = cq;
  cpu.charge(state.timing.pollPs);
  // Its memory may be reused: remaining completions are lost.
  if (!isThere(cq)) return;
  for (let wantsMore = true; wantsMore && !place.resizing;) {
    const cqe = decodeCqe(cpu.load(nextEntry(cq), CQE_BYTES), place.taken, cq.entries);
    if (cqe === undefined) break;
    if (makesEvent(cq, cqe, place.taken)) {
      place.armed = "no";
      place.fired.push(place.armedAt);
    }
    wantsMore = use(cqe, place.taken++);
  }
  if (place.taken - place.stored >= cq.entries / 4) {
    place.stored = place.taken;
    storePointer(cq.device, place, place.taken % cq.entries);
  }
}

export function takeCompletions<Id extends WrId = number>(
  cq: Cq,
  most: number,
): WorkCompletion<Id>[] {
  const { place } = cq;
  const completions: WorkCompletion<Id>[] = [];
  if (most < 1) return completions;
  takeEntries(cq, (cqe, position) => {
    if (place.ended.size > 0 && isOfEndedLife(cq, cqe, position)) return true;
    const named = place.moved.length === 0 ? cqe : inNewRing(place, cqe, position);
    const completion = completionOf<Id>(cq.device, named);
    if (completion !== undefined) completions.push(completion);
    return completions.length < most;
  });
  return completions;
}

function inNewRing(place: CqPlace, cqe: Cqe, position: number): Cqe {
  const { moved } = place;
  const queue = isOfSend(cqe) ? "send" : "recv";
  let { wqeIndex } = cqe;
  for (const { qpn, queue: kind, before, from, to } of moved) {
    if (qpn !== cqe.qpn || kind !== queue || position >= before) continue;
    wqeIndex = (to.tail + ringDistance(from.tail, wqeIndex, from.depth)) % to.depth;
  }
  // Moves without an earlier unread completion are of no use.
  for (let i = moved.length - 1; i >= 0; i--) {
    if (position + 1 >= moved[i]!.before) moved.splice(i, 1);
  }
  return wqeIndex === cqe.wqeIndex ? cqe : { ...cqe, wqeIndex };
}

/** Discards completions before `before` (mlx5: cq_clean). */
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

function insistOn(cq: Cq): void {
  if (isThere(cq) && !cq.place.leaving) return;
  const gone = refuseCq(cq.device, cq);
  if (gone?.errno === "EINVAL") throw new ProgramError(`${gone.errno}: ${gone.reason}`);
}

/**
 * Polls up to `most` completions (ibv_poll_cq); empty where there are none.
 *
 * After 64 empty polls in a row one call stands for all polls until the next event on this host,
 * for at most 1 ms, or a thousandth of the time since the last completion. A completion is taken at
 * the same picosecond and at the same cost; a program that counts its polls counts fewer. See
 * `cpu/spin.ts`.
 * @throws ProgramError on a destroyed queue, which gets no completion.
 */
export function* pollCq<Id extends WrId = number>(
  cq: Cq,
  most: number,
): Steps<WorkCompletion<Id>[]> {
  insistOn(cq);
  const { device: { cpu }, place } = cq;
  const { taken } = place, owedPs = cpu.owedPs;
  const completions = takeCompletions<Id>(cq, most);
  // Entries of an ended life are taken, not returned.
  const isEmpty = place.taken === taken;
  const costPs = cpu.owedPs - owedPs;
  yield* cpu.polled?.({ ring: place, address: cq.address, costPs, isEmpty }) ?? cpu.settle();
  return completions;
}

/**
 * Arms one interrupt for the next completion (ibv_req_notify_cq). Poll again after it: the card's
 * option `queues: { arm: unread | next }` decides whether an unread completion raises it, too.
 */
export function* reqNotifyCq(
  cq: Cq,
  options: { readonly solicitedOnly?: boolean } = {},
): Steps<VerbError | undefined> {
  const gone = refuseCq(cq.device, cq);
  if (gone !== undefined) return gone;
  if (cq.vector === null) return verbError("EINVAL", "This completion queue has no events");
  yield* arm(cq, options.solicitedOnly === true ? "solicited" : "any");
  return undefined;
}

function* arm(cq: Cq, armed: Exclude<CqPlace["armed"], "no">): Steps<void> {
  const { cqn, place, device } = cq;
  // The interrupt of an arm that the program repeats may be on its way.
  if (place.armed === "no" || place.armed === "wait") place.armedAt = device.cpu.now;
  place.armed = armed;
  // Entries not visible yet come later: a program that polls once more misses none.
  place.armedFrom = place.taken + (device.state.arm === "next" ? unreadCount(cq) : 0);
  const request = { cqn, position: place.armedFrom, solicitedOnly: armed === "solicited" };
  yield* device.cpu.registerWrite(CQ_ARM_OFFSET, encodeCqArm(request));
}

/** Options of `waitCompletion`. */
export interface WaitOptions {
  /** Spin on the next entry, or sleep until an interrupt. The host's default unless given. */
  readonly mode?: "poll" | "interrupt";
  /** Virtual time at which the wait ends; never by default. */
  readonly deadline?: Time;
  /** Maximum number of completions returned, 64 by default. */
  readonly most?: number;
  /**
   * Also return, perhaps without completions, when another program of this host has signalled:
   * `ready` checks the condition, since signals are not latched.
   */
  readonly also?: { readonly signal: string; readonly ready: () => boolean };
}

/**
 * Waits for completions and returns them. Empty only at the deadline, or where `also` is ready.
 * @throws ProgramError on a queue that was destroyed, also by another thread meanwhile.
 */
export function* waitCompletion<Id extends WrId = number>(
  cq: Cq,
  options: WaitOptions = {},
): Steps<WorkCompletion<Id>[]> {
  const { cpu } = cq.device;
  const most = options.most ?? 64;
  const deadline = options.deadline ?? NEVER;
  const wanted = options.mode ?? cq.device.state.completion;
  const vector = wanted === "interrupt" ? cq.vector : null;
  for (;;) {
    while (cq.place.resizing) {
      if ((yield* cpu.waitSignal(resizedSignal(cq), deadline)) === "timeout") return [];
    }
    insistOn(cq);
    let completions = takeCompletions<Id>(cq, most);
    if (completions.length === 0 && vector !== null) {
      // Arm, then poll again: one in between raises no interrupt where arming is for later
      // completions (`rocev2.md` §4.4). The program's own arm stays, and may fire sooner.
      yield* arm(cq, ["any", "solicited"].includes(cq.place.armed) ? "any" : "wait");
      completions = takeCompletions(cq, most);
    }
    if (completions.length > 0 || options.also?.ready()) {
      yield* cpu.settle();
      return completions;
    }
    const source: Source = vector === null
      ? { kind: "memory", address: nextEntry(cq), length: CQE_BYTES }
      : { kind: "interrupt", vector };
    const sources: Source[] = [source, { kind: "signal", name: cq.place.goneSignal }];
    if (options.also !== undefined) sources.push({ kind: "signal", name: options.also.signal });
    if ((yield* cpu.waitAny(sources, deadline)) === "timeout") return [];
  }
}

function isOfSend(cqe: Cqe): boolean {
  return cqe.opcode === "requester" || cqe.opcode === "requester-error";
}

/** The RNIC has changed the queue pair's state (`rocev2.md` §4.1). */
function recordError(qp: Qp, cqe: Cqe): void {
  const { life, type } = qp;
  if (type === "rc" || !isOfSend(cqe)) life.state = "err";
  else if (life.state === "rts" || life.state === "sqd") life.state = "sqe";
}

/**
 * Retires the work request. @returns undefined where its queue pair was destroyed: such completions
 * are discarded.
 */
function completionOf<Id extends WrId = number>(
  device: Device,
  cqe: Cqe,
): WorkCompletion<Id> | undefined {
  const qp = device.state.queuePairs.get(cqe.qpn);
  if (qp === undefined) return undefined;
  // VERIFY_ERR is an answer: the queue pair remains operational (V-01).
  if (cqe.status !== "SUCCESS" && cqe.status !== "VERIFY_ERR") recordError(qp, cqe);
  const retired = isOfSend(cqe) ? retireSend(qp, cqe.wqeIndex) : retireRecv(qp, cqe.wqeIndex);
  if (device.cpu.auditing) auditCompleted(qp, cqe, { device, wrId: retired.wrId });
  const verify = decodeVerdict(cqe.verify);
  return {
    wrId: retired.wrId as Id,
    status: cqe.status,
    vendorErr: cqe.vendorError,
    ...(cqe.status !== "SUCCESS" && { reason: failureText(qp, cqe.vendorError, retired.posted) }),
    opcode: retired.posted?.opcode ?? cqe.opcode as ReceiveOpcode,
    qpNum: cqe.qpn,
    byteLen: cqe.byteCount,
    immData: cqe.immediate,
    psn: cqe.psn,
    va: Number(cqe.va),
    srcQp: cqe.sourceQpn,
    ...(verify !== undefined && { verify }),
    ...(cqe.timestamp !== undefined && { timestamp: cqe.timestamp }),
  };
}

function auditCompleted(
  { qpn, srq }: Qp,
  cqe: Cqe,
  { device, wrId }: { readonly device: Device; readonly wrId: WrId },
): void {
  const { wqeIndex: wqe, status } = cqe;
  const of = { kind: "completed", qpn, wqe, wrId: shownWrId(wrId), status } as const;
  if (isOfSend(cqe)) device.cpu.note({ ...of, queue: "send" });
  else if (srq === undefined) device.cpu.note({ ...of, queue: "recv" });
  else device.cpu.note({ ...of, queue: "shared", srqn: srq.srqn });
}
