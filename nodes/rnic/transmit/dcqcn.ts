/**
 * DCQCN's reaction point: a queue pair's rate, cut by notifications, raised by a timer and a byte
 * counter (Zhu et al., SIGCOMM'15, §3.1 and §5, whose names the fields have; `rocev2.md` §3.9).
 */
import { PS_PER_S, type Time } from "../../../fabric/base/time.ts";
import type { DcqcnParameters } from "../../../fabric/rack/plan/plan.ts";
import type { RateLimiter } from "../state/congestion_state.ts";

/** The queue pair has sent at the line's rate: alpha is 1 (§3.9). */
export function createRateLimiter(
  parameters: DcqcnParameters,
  at: { readonly now: Time; readonly lineBps: number },
): RateLimiter {
  const { now, lineBps } = at;
  return {
    currentBps: lineBps,
    targetBps: lineBps,
    alpha: 1,
    notified: false,
    timerEvents: 0,
    byteEvents: 0,
    bytes: 0,
    cutAt: -Infinity,
    alphaAt: now + parameters.alphaTimerPs,
    increaseAt: now + parameters.rateTimerPs,
    mayBeginAt: now,
  };
}

/**
 * R_T = R_C, R_C = R_C · (1 − alpha/2), and both counters start anew. At most one cut in `decreaseIntervalPs`; each
 * notification counts for alpha.
 * @returns whether the rate was cut.
 */
export function takeNotification(
  limiter: RateLimiter,
  parameters: DcqcnParameters,
  now: Time,
): boolean {
  limiter.notified = true;
  if (now - limiter.cutAt < parameters.decreaseIntervalPs) return false;
  limiter.cutAt = now;
  limiter.targetBps = limiter.currentBps;
  const cut = Math.round(limiter.currentBps * (1 - limiter.alpha / 2));
  limiter.currentBps = Math.max(parameters.minBps, cut);
  limiter.timerEvents = 0;
  limiter.byteEvents = 0;
  limiter.bytes = 0;
  limiter.increaseAt = now + parameters.rateTimerPs;
  return true;
}

/** Every `alphaTimerPs`: alpha = (1 − g) · alpha, and g more after a notification. */
export function updateAlpha(limiter: RateLimiter, parameters: DcqcnParameters): void {
  const { g } = parameters;
  limiter.alpha = (1 - g) * limiter.alpha + (limiter.notified ? g : 0);
  limiter.notified = false;
  limiter.alphaAt += parameters.alphaTimerPs;
}

export type Stage = "fast-recovery" | "additive-increase" | "hyper-increase";

/** The first F events of either kind recover; more than F of both are hyper-active. */
export function stageOf(
  events: { readonly timer: number; readonly bytes: number },
  fastRecovery: number,
): Stage {
  const { timer, bytes } = events;
  if (Math.max(timer, bytes) <= fastRecovery) return "fast-recovery";
  return Math.min(timer, bytes) > fastRecovery ? "hyper-increase" : "additive-increase";
}

/** R_T grows by the stage's step, R_C goes half the way to it. */
function increase(limiter: RateLimiter, parameters: DcqcnParameters, lineBps: number): void {
  const events = { timer: limiter.timerEvents, bytes: limiter.byteEvents };
  const stage = stageOf(events, parameters.fastRecovery);
  if (stage === "additive-increase") limiter.targetBps += parameters.additiveBps;
  else if (stage === "hyper-increase") limiter.targetBps += parameters.hyperBps;
  limiter.targetBps = Math.min(lineBps, limiter.targetBps);
  limiter.currentBps = Math.round((limiter.targetBps + limiter.currentBps) / 2);
}

export function timerEvent(
  limiter: RateLimiter,
  parameters: DcqcnParameters,
  lineBps: number,
): void {
  limiter.timerEvents++;
  limiter.increaseAt += parameters.rateTimerPs;
  increase(limiter, parameters, lineBps);
}

/**
 * The next frame waits for the time of these bytes at R_C; every `byteCounterBytes` there is an
 * event.
 */
export function countBytes(
  limiter: RateLimiter,
  parameters: DcqcnParameters,
  sent: { readonly now: Time; readonly bytes: number; readonly lineBps: number },
): void {
  const { now, bytes, lineBps } = sent;
  const spacingPs = Math.ceil(bytes * 8 * PS_PER_S / limiter.currentBps);
  limiter.mayBeginAt = Math.max(now, limiter.mayBeginAt) + spacingPs;
  limiter.bytes += bytes;
  while (limiter.bytes >= parameters.byteCounterBytes) {
    limiter.bytes -= parameters.byteCounterBytes;
    limiter.byteEvents++;
    increase(limiter, parameters, lineBps);
  }
}

/** The rate is within a thousandth of the line's. */
export function isRecovered(limiter: RateLimiter, lineBps: number): boolean {
  return limiter.currentBps >= lineBps * 0.999;
}
