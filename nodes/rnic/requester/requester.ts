/**
 * Requester: turns work into frames within window, READ limit and RNR waits (`rocev2.md` §3.2);
 * goes back N after a loss (§3.3).
 */
import type { ExtensionHeader } from "../../../fabric/wire/roce/extension_headers.ts";
import {
  opcodeFor,
  opcodeRow,
  positionOf,
  type RequestOperation,
} from "../../../fabric/wire/roce/opcode.ts";
import type { VendorError } from "../../../fabric/wire/host_bus/vendor_error.ts";
import type { Reth } from "../../../fabric/wire/roce/reth.ts";
import { makeVerifyEth } from "../../../fabric/wire/roce/verify_eth.ts";
import { checkWork } from "./check_work.ts";
import { completeWork } from "./completer.ts";
import { type Device, noteLoss } from "../state/device.ts";
import {
  countTowardsAck,
  goBackTo,
  passFrame,
  passWork,
  startWork,
  takeCpuAck,
  takeProbe,
} from "../state/requester_changes.ts";
import { mayBegin } from "../queues/context.ts";
import { mayStart, mustPause } from "../queues/credit.ts";
import type { RareHeaders, TxFrame } from "../state/tx_frame.ts";
import { rights } from "../state/life_cycle.ts";
import { LIMITS } from "../state/limits.ts";
import { cancelLine, fetchPayload, NO_BYTES } from "../transmit/send.ts";
import { packetsOf, PSN_WINDOW, psnAdd, psnDistance } from "../state/psn.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { fetchWork } from "../queues/send_queue.ts";
import type { OutstandingWqe } from "../state/outstanding_wqe.ts";
import { traceWork } from "../trace/requester_trace.ts";
import { startTimer, timerRuns } from "../state/timers.ts";
import type { SendWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import { bindWindow, invalidateKey } from "../dma/memory_window.ts";
import { awaitAccess } from "../paging/access.ts";
import { announceAgain } from "../hints/back_off.ts";
import { mayFollowHint } from "../hints/hold.ts";
import { lookAhead, rideAlong } from "../hints/look_ahead.ts";
import { isWaiting } from "../paging/memory_waits.ts";
import { mayMiss } from "../state/paging_state.ts";

export function nextRequestFrame(device: Device, qp: QueuePair): boolean {
  const isBegun = nextInTurn(device, qp);
  if (!isBegun && qp.requester.cpuAcks.length > 0) carryOutAhead(device, qp);
  return isBegun;
}

/**
 * The CPU's persistence ACK (P-26) does not wait behind work that waits for the peer, which may
 * wait for this ACK. It completes in its turn.
 */
function carryOutAhead(device: Device, qp: QueuePair): void {
  const { cpuAcks } = qp.requester;
  while (cpuAcks.length > 0 && rights(qp.state).startsWork) {
    carryOut(device, qp, takeCpuAck(qp)!);
  }
}

function carryOut(device: Device, qp: QueuePair, work: OutstandingWqe): void {
  // Go-back-N passes it again (§3.3), and it may have been done ahead.
  if (work.carriedOut || work.failure !== undefined) return;
  const fault = performLocal(device, qp, work.wqe!);
  if (fault === undefined) work.carriedOut = true;
  else fail(device, qp, { work, fault });
}

function hasWork({ requester }: QueuePair): boolean {
  const work = requester.work.at(requester.cursor);
  return requester.probes.length > 0 || (work !== undefined && work.failure === undefined);
}

function nextInTurn(device: Device, qp: QueuePair): boolean {
  const { requester } = qp;
  if (device.hints !== undefined) lookAhead(device, device.hints, qp);
  if (!rights(qp.state).sends || requester.rnrWaiting) return false;
  if (hasWork(qp) && !mayBegin(device, qp, "requester")) return false;
  const probe = takeProbe(qp);
  if (probe !== undefined) {
    // Its persistence ACK has come, or it was restarted as a whole.
    const index = probe.packets - 1;
    // A probe without its page counts as lost: the next time-out asks again.
    if (
      !probe.persisted && probe.acked && hasMemory(device, qp, { work: probe, index, most: 1 })
    ) {
      const job = beginFrame(device, qp, { work: probe, index });
      const offset = index * mtuOf(device, qp);
      fetchPayload(device, [job], { segments: probe.segments, offset });
    }
    return true;
  }
  const work = requester.work.at(requester.cursor);
  if (work === undefined) {
    fetchWork(device, qp);
    return false;
  }
  if (work.failure !== undefined) return false;
  if (!work.started && !start(device, qp, work)) return false;
  // A datagram that is too long succeeds unsent (C10-93.1.1, `rocev2.md` §3.8).
  const isTooLong = qp.type === "ud" && work.length > device.plan.mtu;
  if (isTooLong) noteTooLong(device, qp, work.length);
  if (work.plan.wire === "none" || isTooLong) {
    passOver(device, qp, work);
    return true;
  }
  return sendNext(device, qp, work);
}

function noteTooLong(device: Device, { qpn }: QueuePair, length: number): void {
  const is = `longer than the path MTU of ${device.plan.mtu} B: it is not sent, and succeeds`;
  noteLoss(device, "ud too-long", () => `queue pair ${qpn}: a datagram of ${length} B is ${is}`);
}

function sendNext(device: Device, qp: QueuePair, work: OutstandingWqe): boolean {
  const { requester } = qp;
  if (isHeldByWindow(qp, work)) return false;
  const index = requester.cursorPacket;
  // A limited rate paces frames one by one.
  const most = device.congestion === undefined ? framesPerRead(device, qp, work) : 1;
  if (!hasMemory(device, qp, { work, index, most })) return false;
  const jobs = [nextFrame(device, qp, work)];
  while (jobs.length < most && requester.cursorPacket > 0 && !isHeldByWindow(qp, work)) {
    jobs.push(nextFrame(device, qp, work));
  }
  fetchPayload(device, jobs, { segments: work.segments, offset: index * mtuOf(device, qp) });
  if (requester.cursorPacket === 0) fetchWork(device, qp);
  return true;
}

function hasMemory(
  device: Device,
  qp: QueuePair,
  next: { readonly work: OutstandingWqe; readonly index: number; readonly most: number },
): boolean {
  if (!mayMiss(device.paging)) return true;
  const { work, index, most } = next;
  const { segments, plan } = work;
  // READs and atomics access memory by their responses alone.
  if (segments.length === 0 || (plan.answered && !plan.streams)) return true;
  if (isWaiting(device, qp, "gather")) return false;
  const mtu = mtuOf(device, qp);
  const offset = index * mtu;
  const length = Math.min(most * mtu, work.length - offset);
  const access = { segments, offset, length, ahead: true, write: false };
  return awaitAccess(device, access, { kind: "gather", qp, psn: work.firstPsn });
}

function framesPerRead(device: Device, qp: QueuePair, work: OutstandingWqe): number {
  return work.segments.length === 0
    ? 1
    : Math.floor(device.timing.gatherReadBytes / mtuOf(device, qp));
}

/** The send window and the credits of §3.2. */
function isHeldByWindow(qp: QueuePair, work: OutstandingWqe): boolean {
  const { requester } = qp;
  const psn = psnAdd(work.firstPsn, requester.cursorPacket);
  const ahead = psnDistance(requester.unacknowledged, psn);
  if (qp.type === "rc" && work.plan.psnsOf === "request" && ahead >= LIMITS.windowPackets) {
    return true;
  }
  return requester.cursorPacket === 1 && mustPause(qp, work);
}

function nextFrame(device: Device, qp: QueuePair, work: OutstandingWqe): TxFrame {
  const job = beginFrame(device, qp, { work, index: qp.requester.cursorPacket });
  passFrame(qp, work);
  return job;
}

function passOver(device: Device, qp: QueuePair, work: OutstandingWqe): void {
  carryOut(device, qp, work);
  if (work.failure !== undefined) return;
  work.acked = true;
  passWork(qp);
  completeWork(device, qp);
}

function start(device: Device, qp: QueuePair, work: OutstandingWqe): boolean {
  const { requester } = qp;
  if (!rights(qp.state).startsWork) return false;
  const { plan, wqe } = work;
  const { hints } = device;
  if (hints !== undefined && !mayFollowHint(device, hints, { qp, number: requester.cursor })) {
    return false;
  }
  if (wqe?.fence === true && requester.unanswered > 0) return false;
  // Earlier work may use the key (§3.2).
  if (wqe?.opcode === "local-invalidate" && requester.work.peek() !== work) return false;
  const { maxRdAtomic } = qp.attributes;
  if (plan.takesSlot && requester.slotsTaken >= maxRdAtomic && maxRdAtomic > 0) return false;
  if (plan.wire === "send" && !mayStart(qp)) return false;
  if (plan.awaitsPersistence && requester.persistWaiting.size >= LIMITS.persistWaiting) {
    return false;
  }
  const fault = checkWork(device, qp, work);
  if (fault !== undefined) {
    fail(device, qp, { work, fault });
    return false;
  }
  work.packets = plan.wire === "none"
    ? 0
    : qp.type === "ud"
    ? 1
    : packetsOf(work.length, mtuOf(device, qp));
  if (qp.type === "rc" && !fitsPsnWindow(device, qp, work)) return false;
  startWork(qp, work);
  if (plan.writes) qp.lastWrite = "out";
  if (device.out.tracing) traceWork(device, qp, { work, stage: "start" });
  return true;
}

/** At most half of all PSNs may be outstanding (§3.1): larger messages never fit, others wait. */
function fitsPsnWindow(device: Device, qp: QueuePair, work: OutstandingWqe): boolean {
  const { unacknowledged, nextPsn } = qp.requester;
  if (psnDistance(unacknowledged, nextPsn) + work.packets < PSN_WINDOW) return true;
  if (work.packets >= PSN_WINDOW) fail(device, qp, { work, fault: "psn-window" });
  return false;
}

/** The error CQE comes when all earlier work has completed. */
export function fail(
  device: Device,
  qp: QueuePair,
  verdict: { readonly work: OutstandingWqe; readonly fault: VendorError },
): void {
  verdict.work.failure ??= verdict.fault;
  completeWork(device, qp);
}

function beginFrame(
  device: Device,
  qp: QueuePair,
  packet: { readonly work: OutstandingWqe; readonly index: number },
): TxFrame {
  const { work, index } = packet;
  const { requester } = qp;
  const wqe = work.wqe!;
  const { plan } = work;
  const mtu = mtuOf(device, qp);
  const offset = index * mtu;
  const position = plan.answered && !plan.streams ? "only" : positionOf(index, work.packets);
  const last = position === "last" || position === "only";
  const row = opcodeFor({
    service: qp.type,
    operation: plan.wire as RequestOperation,
    immediate: plan.immediate,
    invalidate: plan.invalidate,
    persistence: plan.persistOpcode,
  }, position);
  const psn = psnAdd(work.firstPsn, index);
  const isRepeat = psnDistance(requester.issuedEnd, psn) < 0;
  if (isRepeat) device.counters.retransmissions++;
  const payloadBytes = row.payload === 0 ? 0 : Math.min(mtu, work.length - offset);
  const job: TxFrame = {
    qp,
    line: requester.line,
    life: qp.life,
    epoch: requester.line.epoch,
    row,
    psn,
    ackReq: qp.type === "rc" &&
      countTowardsAck(qp, last || isRepeat || (index === 0 && mustPause(qp, work))),
    // Only packets that take a receive WQE can be solicited (§3.2).
    solicited: last && wqe.solicited && plan.takesRecv === "always",
    // A READ that goes on asks for the missing part only.
    reth: row.headers.includes("reth") ? rethOf(work, offset) : undefined,
    immediate: row.immediate ? wqe.immediate : undefined,
    rare: RARE_HEADERS[row.code]?.(work),
    hint: device.hints === undefined || isRepeat
      ? undefined
      : rideAlong(device, device.hints, { qp, row, payloadBytes }),
    ud: wqe.ud,
    work,
    read: undefined,
    last,
    payloadBytes,
    payload: NO_BYTES,
    readyAt: device.stageAt,
    fetching: false,
    failed: false,
  };
  if (wqe.inline !== undefined) job.payload = wqe.inline.subarray(offset, offset + payloadBytes);
  return job;
}

const MAKE_HEADERS: {
  readonly [Header in ExtensionHeader]?: (work: OutstandingWqe) => RareHeaders;
} = {
  ieth: ({ wqe }) => ({ ieth: { rkey: wqe!.immediate } }),
  atomicEth: ({ wqe, plan }) => {
    const { swapAdd, compare } = wqe!.atomic!;
    return { atomicEth: { ...wqe!.remote!, swapAdd, compare: plan.compares ? compare : 0n } };
  },
  feth: ({ wqe }) => {
    const { select, placement } = wqe!.flush!;
    return { feth: { reserved: 0, select, placement } };
  },
  verifyEth: ({ wqe }) => ({ verifyEth: makeVerifyEth(wqe!.verify!) }),
  coherenceEth: ({ coherence }) => ({ coherenceEth: coherence! }),
};

const RARE_HEADERS = Array.from({ length: 256 }, (_, code) => {
  const rare = opcodeRow(code)?.headers.find((header) => MAKE_HEADERS[header] !== undefined);
  return rare && MAKE_HEADERS[rare];
});

function rethOf(work: OutstandingWqe, offset: number): Reth {
  const { va, rkey } = work.wqe!.remote!;
  const { flush } = work.wqe!;
  if (flush !== undefined) return { va, rkey, length: flush.length };
  return { va: offset === 0 ? va : va + BigInt(offset), rkey, length: work.length - offset };
}

function mtuOf(device: Device, qp: QueuePair): number {
  return qp.type === "ud" ? device.plan.mtu : qp.attributes.pathMtu;
}

/** Goes back to `psn`; frames that have not left are abandoned (§3.3). */
export function restartFrom(device: Device, qp: QueuePair, psn: number): void {
  // A page may have been missing at the peer (H-22): coming work is announced again.
  if (device.hints !== undefined) announceAgain(device.hints, qp);
  cancelLine(device, qp.requester.line);
  goBackTo(qp, psn);
}

export function requestSent(device: Device, qp: QueuePair, job: TxFrame): void {
  const work = job.work!;
  if (device.out.tracing && job.psn === work.firstPsn) {
    traceWork(device, qp, { work, stage: "send" });
  }
  if (qp.type !== "rc") {
    if (!job.last) return;
    work.acked = true;
    completeWork(device, qp);
  } else if (!timerRuns(device, qp, "requester")) {
    startTimer(device, qp);
  }
}

/**
 * Executes work that crosses no wire. @returns the error; MW_BIND_ERR for every refused memory
 * management operation (ConnectX).
 */
function performLocal(device: Device, qp: QueuePair, wqe: SendWqe): VendorError | undefined {
  switch (wqe.opcode) {
    case "persistence-ack":
      return device.up.answerPersistenceAck(device, qp, wqe.immediate)
        ? undefined
        : "no-persistent-write";
    case "bind-mw":
      return bindWindow(device.regions, qp, wqe.bind!) ? undefined : "bind";
    case "local-invalidate":
      return invalidateKey(device, qp, wqe.immediate) ? undefined : "invalidate";
    default:
      return undefined;
  }
}
