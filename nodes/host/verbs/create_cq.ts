/** Creation and destruction of completion queues. `completion_queue.ts` has its use. */
import { CQE_BYTES, CQE_INVALID } from "../../../fabric/wire/host_bus/cqe.ts";
import { refuseCq } from "./completion_queue.ts";
import {
  allocated,
  contiguous,
  dropEvents,
  failed,
  giveBack,
  inTime,
  perform,
  powerOfTwo,
  refuseStale,
  refuseUnacknowledged,
  request,
  storePointer,
  verbError,
} from "./device.ts";
import {
  type CqFlags,
  IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
  IBV_WC_STANDARD_FLAGS,
  type WcExFlags,
} from "./flags.ts";
import { type Cpu, signalOf, type Steps } from "../cpu/program.ts";
import { LIMITS, refuseBeyond } from "./limits.ts";
import type { CompChannel, Cq, CqPlace, Device, VerbError } from "./objects.ts";
import { refuseCqInUse } from "./query/users.ts";
import type { Buffer } from "../memory/address_map.ts";

/** Options of `createCq`. */
export interface CqOptions {
  /** Minimum capacity in completions, at least 1; rounded up. */
  readonly entries: number;
  /** False: this queue never raises an interrupt. */
  readonly interrupts?: boolean;
  /** Events of this queue use this channel, shared with the channel's other queues. */
  readonly channel?: CompChannel;
  /** The driver's own vector; else one of the following applies. */
  readonly vector?: number;
  /** Its index among the shared vectors ({@link LIMITS}); without channel and index it has a vector of its own. */
  readonly compVector?: number;
  /**
   * ibv_create_cq_ex: fields that its completions must have. Those of IBV_WC_STANDARD_FLAGS are
   * always there; EOPNOTSUPP for one that this card does not have.
   */
  readonly wcFlags?: WcExFlags;
  /** IBV_CREATE_CQ_ATTR_…; EOPNOTSUPP for IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN. */
  readonly flags?: CqFlags;
}

const TIMESTAMPS = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
const WC_FLAGS = IBV_WC_STANDARD_FLAGS | TIMESTAMPS;

function refuseFlags({ wcFlags = 0, flags = 0 }: CqOptions): VerbError | undefined {
  const given = [["wcFlags", wcFlags, WC_FLAGS], [
    "flags",
    flags,
    IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
  ]];
  for (const [name, value, known] of given as [string, number, number][]) {
    if (!Number.isInteger(value) || value < 0 || value > 0xffff_ffff) {
      return verbError("EINVAL", `${name} is a number of 32 bits: found ${value}`);
    }
    const others = (value & ~known) >>> 0;
    if (others === 0) continue;
    const reason = `${name} 0x${value.toString(16)}: the card does not have 0x${
      others.toString(16)
    }`;
    return verbError("EOPNOTSUPP", reason);
  }
  return undefined;
}

/** Lower ones belong to single queues and to channels. */
const FIRST_COMP_VECTOR = 1 << 16;

/**
 * The host updates its pointer every quarter of the ring and one unit stays free: 3/4 − 1 can be
 * used.
 */
export function ringEntries(wanted: number): number {
  return powerOfTwo(Math.ceil((wanted + 1) * 4 / 3));
}

export function refuseEntries(wanted: number): VerbError | undefined {
  return refuseBeyond("entries", wanted, LIMITS.completions);
}

export function fillInvalid({ cpu }: Device, ring: Buffer): void {
  const fill = new Uint8Array(ring.length);
  for (let at = CQE_BYTES - 1; at < fill.length; at += CQE_BYTES) fill[at] = CQE_INVALID;
  cpu.store(ring.address, fill);
}

/**
 * ibv_create_cq, ibv_create_cq_ex: a completion queue for at least `entries` completions. EINVAL
 * for a number of entries, flag or vector out of range, or a channel that is destroyed or another
 * card's; EOPNOTSUPP for fields and flags that the card does not have; ENOMEM without enough
 * memory, or numbers of the card.
 */
export function* createCq(device: Device, options: CqOptions): Steps<Cq | VerbError> {
  const { entries: wanted } = options;
  const tooMany = refuseEntries(wanted) ?? refuseFlags(options);
  if (tooMany !== undefined) return tooMany;
  const { wcFlags = 0 } = options;
  const { compVector = 0, channel } = options;
  if (channel?.uses.alive === false) {
    return verbError("EINVAL", "The completion channel is gone");
  }
  if (channel !== undefined && channel.device.state !== device.state) {
    return verbError("EINVAL", "The completion channel is of another card");
  }
  const beyond = refuseBeyond("compVector", compVector, LIMITS.vector);
  if (beyond !== undefined) return beyond;
  const entries = ringEntries(wanted);
  const ring = allocated(() => device.cpu.allocateContiguous(entries * CQE_BYTES));
  if (failed(ring)) return ring;
  fillInvalid(device, ring);
  yield* device.cpu.settle();
  const vector = options.interrupts === false ? null : options.vector ?? channel?.vector ??
    (options.compVector === undefined
      ? device.state.nextVector++
      : device.state.firstVector + FIRST_COMP_VECTOR + options.compVector);
  const { epoch } = device.state;
  const where = { address: contiguous(ring), units: entries };
  const timestamps = (wcFlags & TIMESTAMPS) !== 0;
  const command = {
    op: "create-cq",
    ring: where,
    vector,
    ...(timestamps && { timestamps }),
  } as const;
  const reply = inTime(yield* request(device.cpu, "create-cq", command), device, epoch);
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
    channel,
    wcFlags,
    place: emptyPlace(reply.cqn, device.cpu),
  };
  device.state.held.set(cq.place, ring.address);
  device.state.completionQueues.set(cq.cqn, cq);
  storePointer(device, cq.place, 0);
  channel?.cqs.add(cq);
  return cq;
}

function emptyPlace(queue: number, { now: madeAt, rnic = 0 }: Cpu): CqPlace {
  return {
    queue,
    // The card reuses a number when its queue is gone.
    goneSignal: signalOf(`cq-gone:${queue}:${madeAt}`, rnic),
    stamp: 0,
    taken: 0,
    stored: 0,
    users: 0,
    armed: "no",
    armedFrom: 0,
    armedAt: 0,
    fired: [],
    unacknowledged: 0,
    polling: false,
    current: undefined,
    resizing: false,
    leaving: false,
    moved: [],
    ended: new Map(),
  };
}

/**
 * ibv_destroy_cq. EBUSY while it is used or being resized, or events are unacknowledged (libibverbs
 * waits for these); EINVAL the second time.
 */
export function* destroyCq(cq: Cq): Steps<VerbError | undefined> {
  const stale = refuseStale(cq.device, cq.epoch);
  if (stale !== undefined) {
    cq.channel?.cqs.delete(cq);
    return stale;
  }
  const gone = refuseCq(cq.device, cq) ??
    refuseUnacknowledged(cq.device.context, cq.place);
  if (gone !== undefined) return gone;
  if (cq.place.resizing) return verbError("EBUSY", "The completion queue is being resized");
  const used = refuseCqInUse(cq);
  if (used !== undefined) return used;
  cq.place.leaving = true;
  const wrong = yield* perform(cq.device.cpu, { op: "destroy-cq", cqn: cq.cqn });
  if (wrong !== undefined) {
    cq.place.leaving = false;
    return wrong;
  }
  cq.channel?.cqs.delete(cq);
  dropEvents(cq.device.context, cq.place);
  const { completionQueues } = cq.device.state;
  // The card may have reused the number before it answered.
  if (completionQueues.get(cq.cqn)?.place === cq.place) completionQueues.delete(cq.cqn);
  giveBack(cq.device, cq.place);
  // libibverbs would leave a thread waiting for its events for ever.
  cq.device.cpu.signal(cq.place.goneSignal);
  return undefined;
}
