/**
 * Completion channels (`rocev2.md` §4.4). The queues of a channel share its interrupt vector; the
 * driver finds the queue of an interrupt by checking the armed ones. A spurious event is legal, a
 * missing one is not. No event is there before the handler of its interrupt has run, also where its
 * completion has been read meanwhile.
 */
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { isThere, makesEvent, refuseCq, unreadEntries } from "./completion_queue.ts";
import { verbError } from "./device.ts";
import type { Source, Steps } from "../cpu/program.ts";
import type { CompChannel, Cq, Device, VerbError } from "./objects.ts";
import { refuseChannelInUse } from "./query/users.ts";

/** ibv_create_comp_channel: a channel without completion queues. */
export function createCompChannel(device: Device): CompChannel {
  return { device, vector: device.state.nextVector++, cqs: new Set(), uses: { alive: true } };
}

/** ibv_destroy_comp_channel. EBUSY while it has completion queues, EINVAL the second time. */
export function destroyCompChannel(channel: CompChannel): VerbError | undefined {
  if (!channel.uses.alive) return verbError("EINVAL", "The completion channel is gone already");
  const used = refuseChannelInUse(channel);
  if (used !== undefined) return used;
  channel.uses.alive = false;
  channel.device.cpu.signal(goneChannelSignal(channel));
  return undefined;
}

function goneChannelSignal({ vector }: CompChannel): string {
  return `comp-channel-gone-${vector}`;
}

/** When {@link getChannelEvent} would return at once, as far as interrupts have come; NEVER: after the next. */
export function channelEventAt({ cqs }: CompChannel): Time {
  let at = NEVER;
  for (const cq of cqs) if (hasEvent(cq)) at = Math.min(at, deliveredAt(cq));
  return at;
}

/** Sources of its next event, or of its end: check after the wait, as of all sources. */
export function channelSources(channel: CompChannel): Source[] {
  return [
    { kind: "interrupt", vector: channel.vector },
    { kind: "signal", name: goneChannelSignal(channel) },
  ];
}

function hasEvent(cq: Cq): boolean {
  const { armed, fired } = cq.place;
  if (fired.length > 0) return isThere(cq);
  if (armed === "no" || !isThere(cq)) return false;
  for (const [cqe, position] of unreadEntries(cq)) {
    if (makesEvent(cq, cqe, position)) return true;
  }
  return false;
}

/** When the handler of its event's interrupt has run, perhaps later than now; NEVER: it has not come. */
function deliveredAt({ device: { cpu }, vector, place: { armedAt, fired } }: Cq): Time {
  return cpu.handledAt?.(vector!, fired[0] ?? armedAt) ?? cpu.now;
}

function takeEvent({ place }: Cq): void {
  if (place.fired.length > 0) place.fired.shift();
  else place.armed = "no";
  place.unacknowledged++;
}

/**
 * Sleeps until an armed queue of the channel has an event. Each event must be acknowledged before
 * the queue can be destroyed. EINVAL for a destroyed channel, also where another thread destroys it
 * meanwhile.
 * @returns the queue.
 */
export function getChannelEvent(channel: CompChannel): Steps<Cq | VerbError>;
/** The same, until a deadline: then "timeout". */
export function getChannelEvent(
  channel: CompChannel,
  options: { readonly deadline?: Time },
): Steps<Cq | "timeout" | VerbError>;
export function* getChannelEvent(
  channel: CompChannel,
  options: { readonly deadline?: Time } = {},
): Steps<Cq | "timeout" | VerbError> {
  const { cpu } = channel.device;
  const sources = channelSources(channel);
  for (;;) {
    if (!channel.uses.alive) return verbError("EINVAL", "The completion channel is gone");
    let eventAt = NEVER;
    for (const cq of channel.cqs) {
      if (!hasEvent(cq)) continue;
      const at = deliveredAt(cq);
      if (at <= cpu.now) {
        takeEvent(cq);
        yield* cpu.settle();
        return cq;
      }
      eventAt = Math.min(eventAt, at);
    }
    const { deadline = NEVER } = options, wakesAt = Math.min(deadline, eventAt);
    const isTimeout = (yield* cpu.waitAny(sources, wakesAt)) === "timeout";
    if (isTimeout && deadline <= eventAt) return "timeout";
  }
}

/**
 * Sleeps until the interrupt armed by `reqNotifyCq` (ibv_get_cq_event of its own channel). EINVAL
 * for a queue without events or a destroyed one, also where another thread destroys it meanwhile.
 */
export function getCqEvent(cq: Cq): Steps<"event" | VerbError>;
/** The same, until a deadline: then "timeout". */
export function getCqEvent(
  cq: Cq,
  options: { readonly deadline?: Time },
): Steps<"event" | "timeout" | VerbError>;
export function* getCqEvent(
  cq: Cq,
  options: { readonly deadline?: Time } = {},
): Steps<"event" | "timeout" | VerbError> {
  if (cq.vector === null) return verbError("EINVAL", "This completion queue has no events");
  const { cpu } = cq.device;
  const sources: Source[] = [
    { kind: "interrupt", vector: cq.vector },
    { kind: "signal", name: cq.place.goneSignal },
  ];
  for (;;) {
    const gone = refuseCq(cq.device, cq);
    if (gone !== undefined) return gone;
    // The entries read so far count for events, whose interrupts may have come already.
    const { deadline = NEVER } = options;
    const isRead = cq.place.fired.length > 0 && deliveredAt(cq) <= cpu.now;
    if (isRead) yield* cpu.settle();
    else if ((yield* cpu.waitAny(sources, deadline)) === "timeout") return "timeout";
    // The vector may be shared, or its event was taken.
    if (!hasEvent(cq)) continue;
    const at = deliveredAt(cq);
    if (at > cpu.now) {
      // It was raised while no program waited for it, less than its handler's time ago.
      const isTimeout = (yield* cpu.waitAny(sources, Math.min(at, deadline))) === "timeout";
      if (isTimeout && deadline < at) return "timeout";
      if (!isThere(cq) || !hasEvent(cq) || deliveredAt(cq) > cpu.now) continue;
    }
    takeEvent(cq);
    return "event";
  }
}

/** Acknowledges events. EINVAL for more than there were. */
export function ackCqEvents(cq: Cq, count: number): VerbError | undefined {
  const { place } = cq;
  if (!(count >= 0) || count > place.unacknowledged) {
    return verbError(
      "EINVAL",
      `count is ${count}: expected at most ${place.unacknowledged}, the events of the queue that are not acknowledged`,
    );
  }
  place.unacknowledged -= count;
  return undefined;
}
