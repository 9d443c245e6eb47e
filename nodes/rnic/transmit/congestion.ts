/**
 * Congestion control (`rocev2.md` §3.9): DCQCN's notification point answers marked packets with
 * CNPs, its reaction point paces queue pairs (`dcqcn.ts`). PFC is in `flow_control.ts`.
 */
import { pausedTime } from "../../../fabric/link/pause.ts";
import type { RnicPlan } from "../../../fabric/rack/plan/plan.ts";
import { ECN } from "../../../fabric/wire/roce/ipv4.ts";
import type { OpcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import {
  countBytes,
  createRateLimiter,
  isRecovered,
  takeNotification,
  timerEvent,
  updateAlpha,
} from "./dcqcn.ts";
import type { Device } from "../state/device.ts";
import { Fifo } from "../../../fabric/base/fifo.ts";
import { createFlowControl, parkWherePaused } from "./flow_control.ts";
import { lineBytes, type TxFrame } from "../state/tx_frame.ts";
import { rights } from "../state/life_cycle.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { clearTimer, setTimer } from "../state/timers.ts";
import {
  type Congestion,
  createCongestionCounters,
  type RateLimiter,
  type Reaction,
} from "../state/congestion_state.ts";

export function createCongestion(plan: RnicPlan): Congestion | undefined {
  if (plan.congestion === undefined) return undefined;
  return {
    plan: plan.congestion,
    flow: createFlowControl(plan),
    notices: new Fifo(),
    reactions: [],
    counters: createCongestionCounters(),
  };
}

function reactionOf(congestion: Congestion, qp: QueuePair): Reaction | undefined {
  const reaction = congestion.reactions[qp.slot];
  return reaction?.qp === qp && reaction.life === qp.life ? reaction : undefined;
}

function reactionFor(congestion: Congestion, qp: QueuePair): Reaction {
  const known = reactionOf(congestion, qp);
  if (known !== undefined) return known;
  const reaction = { qp, life: qp.life, notifiedAt: -Infinity, limiter: undefined };
  congestion.reactions[qp.slot] = reaction;
  return reaction;
}

/**
 * Notification point: a marked packet of a kind that a rate can slow down notifies its sender, at
 * most once in `cnpIntervalPs`. UD has no single sender, and ACKs follow the packets that they
 * acknowledge.
 */
export function noteMark(
  device: Device,
  qp: QueuePair,
  { packet, row }: { readonly packet: RocePacket; readonly row: OpcodeRow },
): void {
  const { congestion, now } = device;
  if (congestion === undefined || packet.ecn !== ECN.congestion) return;
  // In RoCEv1 these bits are the sender's.
  if (packet.grh !== undefined) return;
  congestion.counters.ecnMarkedIn++;
  const { dcqcn } = congestion.plan;
  if (dcqcn === null || qp.type === "ud") return;
  if (row.direction === "response" && row.operation !== "read-response") return;
  const reaction = reactionFor(congestion, qp);
  if (now - reaction.notifiedAt < dcqcn.cnpIntervalPs) return;
  reaction.notifiedAt = now;
  congestion.notices.push({ qp, life: qp.life, readyAt: device.stageAt });
}

/** @returns false where no queue pair here reacts to it. */
export function takeCnp(device: Device, packet: RocePacket): boolean {
  const { congestion, now } = device;
  const dcqcn = congestion?.plan.dcqcn;
  if (congestion === undefined || dcqcn === undefined || dcqcn === null) return false;
  const qp = device.queuePairs.get(packet.bth.destQpn);
  if (qp === undefined || qp.type === "ud") return false;
  if (!rights(qp.state).takesRequests) return false;
  if (packet.sourceAddress !== qp.attributes.destAddress >>> 0) return false;
  congestion.counters.cnpsIn++;
  const reaction = reactionFor(congestion, qp);
  const lineBps = congestion.plan.bitsPerSecond;
  reaction.limiter ??= createRateLimiter(dcqcn, { now, lineBps });
  if (takeNotification(reaction.limiter, dcqcn, now)) congestion.counters.rateCuts++;
  startRateTimer(device, qp, reaction.limiter);
  return true;
}

function startRateTimer(device: Device, qp: QueuePair, limiter: RateLimiter): void {
  const time = Math.min(limiter.alphaAt, limiter.increaseAt);
  setTimer(device, qp, { timer: "rate", time });
}

export function rateTimer(device: Device, qp: QueuePair): void {
  const { congestion, now } = device;
  const reaction = congestion && reactionOf(congestion, qp);
  const dcqcn = congestion?.plan.dcqcn;
  if (reaction?.limiter === undefined || !congestion || !dcqcn) return;
  const { limiter } = reaction;
  const lineBps = congestion.plan.bitsPerSecond;
  if (limiter.alphaAt <= now) updateAlpha(limiter, dcqcn);
  if (limiter.increaseAt <= now) timerEvent(limiter, dcqcn, lineBps);
  if (isRecovered(limiter, lineBps)) {
    reaction.limiter = undefined;
    clearTimer(device, qp, "rate");
  } else {
    startRateTimer(device, qp, limiter);
  }
}

/** A queue pair that is held back is scheduled for when it may begin. */
export function isHeldBack(device: Device, congestion: Congestion, qp: QueuePair): boolean {
  const { flow } = congestion;
  if (flow !== undefined && parkWherePaused(device, flow, qp)) return true;
  const limiter = reactionOf(congestion, qp)?.limiter;
  if (limiter === undefined || limiter.mayBeginAt <= device.now) return false;
  setTimer(device, qp, { timer: "pace", time: limiter.mayBeginAt });
  return true;
}

export function countFrame(device: Device, congestion: Congestion, job: TxFrame): void {
  const limiter = reactionOf(congestion, job.qp)?.limiter;
  const { dcqcn, bitsPerSecond: lineBps } = congestion.plan;
  if (limiter === undefined || dcqcn === null) return;
  const bytes = lineBytes(job);
  countBytes(limiter, dcqcn, { now: device.now, bytes, lineBps });
}

export function congestionStatistics(device: Device): Record<string, number> {
  const { congestion, now } = device;
  if (congestion === undefined) return {};
  const { counters, flow } = congestion;
  return { ...counters, pausedPs: flow === undefined ? 0 : pausedTime(flow.pauses, now) };
}
