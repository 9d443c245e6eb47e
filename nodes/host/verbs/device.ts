/**
 * The driver's view of the RNIC: queue information, and state shared by all programs of the
 * host.
 */
import { assert } from "../../../fabric/base/assert.ts";
import type { HostPlan } from "../../../fabric/rack/plan/plan.ts";
import { QUEUE_PLAN } from "../../../fabric/rack/plan/queue_plan.ts";
import { CARD_MEMORY_BASE } from "../../../fabric/wire/host_bus/queue_information.ts";
import {
  encodeEntry,
  entryAddress,
  fieldBytes,
  layOut,
  recordBytes,
  type SpaceBases,
  SPACES,
  type StoreLayout,
} from "../../../fabric/wire/host_bus/queue_placement.ts";
import type {
  PersistencePlan,
  RnicCommand,
  RnicEvent,
  RnicReply,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import { LOCK_ANSWER_BYTES } from "../../../fabric/wire/host_bus/lock_answer.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { type Buffer, OutOfMemory } from "../memory/address_map.ts";
import { cardsKeepWrites, survives } from "../../../fabric/rack/plan/persistence_domain.ts";
import { flowOf } from "../memory/iio.ts";
import { type Cpu, SIGNALS, type Steps } from "../cpu/program.ts";
import { failed, must, ProgramError, verbError } from "./errors.ts";
import type { Context, Device, DeviceOptions, DeviceState, Pd, Qp, VerbError } from "./objects.ts";

export { failed, must, ProgramError, verbError };

export function refusePd({ device, epoch, uses }: Pd): VerbError | undefined {
  const stale = refuseStale(device, epoch);
  if (stale !== undefined || uses.alive) return stale;
  return verbError("EINVAL", "The protection domain is gone");
}

/** An object from before the RNIC's failure: its numbers may be reused. */
export function refuseStale(device: Device, epoch: number): VerbError | undefined {
  if (epoch === device.state.epoch) return undefined;
  return verbError("ENOENT", "The RNIC has failed since this was made");
}

/**
 * EINVAL where destroyed, ENOENT where the RNIC has failed. Copies of the object share its ring,
 * which identifies it.
 */
export function refuseQp({ device, pd, qpn, sq }: Qp): VerbError | undefined {
  const stale = refuseStale(device, pd.epoch);
  if (stale !== undefined || device.state.held.has(sq)) return stale;
  return verbError("EINVAL", `QP ${qpn} is gone already`);
}

/** Without effect where that was done at the RNIC's failure. */
export function giveBack({ cpu, state }: Device, owner: object): void {
  const address = state.held.get(owner);
  if (address === undefined) return;
  state.held.delete(owner);
  cpu.free({ address });
}

/** @returns the firmware's error. */
export function* perform(
  cpu: Pick<Cpu, "command">,
  command: RnicCommand,
): Steps<VerbError | undefined> {
  const reply = yield* request(cpu, "done", command);
  return failed(reply) ? reply : undefined;
}

/** ENOENT where the RNIC has failed and come back: the reply is stale. */
export function inTime<T>(reply: T | VerbError, device: Device, epoch: number): T | VerbError {
  return failed(reply) ? reply : refuseStale(device, epoch) ?? reply;
}

/** P-02, P-01: a read flushes the IIO; only a CPU can flush the LLC, where that is necessary. */
function persistencePlan(plan: HostPlan): PersistencePlan {
  const noSnoop = plan.architecture === "ddio+ns";
  const flow = flowOf(plan, noSnoop);
  const flushesIio = flow === 1 || survives("llc", plan.domain);
  const flush = cardsKeepWrites(plan.domain) ? "none" : flushesIio ? "read" : "cpu";
  return { flow, flush, noSnoop };
}

interface Store {
  readonly buffers: readonly Buffer[];
  readonly bases: Readonly<Record<"virtual" | "physical", SpaceBases>>;
}

/** Allocates K·R1, K·R2 and K·R3 bytes, or K·R where a queue's parts lie together. */
function allocateStore(cpu: Cpu, queues: number, store: StoreLayout): Store {
  const { layout, bytes } = store;
  const buffers = layout === "record"
    ? [cpu.allocateContiguous(queues * recordBytes(store))]
    : SPACES.map((space) => cpu.allocateContiguous(queues * bytes[space]));
  const basesFrom = (first: (buffer: Buffer) => number): SpaceBases => {
    if (layout === "areas") {
      const [space1, space2, space3] = buffers.map(first);
      return { space1: space1!, space2: space2!, space3: space3! };
    }
    const space1 = first(buffers[0]!);
    const space2 = space1 + bytes[1];
    return { space1, space2, space3: space2 + bytes[2] };
  };
  const bases = { virtual: basesFrom(({ address }) => address), physical: basesFrom(contiguous) };
  return { buffers, bases };
}

function storeAtCard(queues: number, store: StoreLayout): Store {
  const { layout, bytes } = store;
  const space1 = CARD_MEMORY_BASE;
  const entries = layout === "record" ? 1 : queues;
  const space2 = space1 + entries * bytes[1];
  const bases = { space1, space2, space3: space2 + entries * bytes[2] };
  return { buffers: [], bases: { virtual: bases, physical: bases } };
}

/** More than a card's interrupts. */
const VECTORS_SPAN = 2 ** 32;

/** */
export function* initDevice(
  cpu: Cpu,
  plan: HostPlan,
  options: DeviceOptions,
): Steps<DeviceState> {
  const queues = plan.queues;
  const queuePlan = plan.queuePlan ?? QUEUE_PLAN;
  const { placement, layout, readPointer, lockAnswer, doorbell, store: place } = queuePlan;
  const store = layOut(placement, layout);
  const { buffers, bases } = place === "device"
    ? storeAtCard(queues, store)
    : allocateStore(cpu, queues, store);
  const answers = lockAnswer === "memory"
    ? cpu.allocateContiguous(queues * LOCK_ANSWER_BYTES)
    : undefined;
  const persistence = persistencePlan(plan);
  const firstVector = (cpu.rnic ?? 0) * VECTORS_SPAN;
  const spaces = { queues, ...bases.physical };
  const reply = yield* request(cpu, "init", { op: "init", spaces, persistence });
  const all = answers === undefined ? buffers : [...buffers, answers];
  const held = new Map(all.map((buffer) => [buffer as object, buffer.address]));
  if (failed(reply)) {
    for (const address of held.values()) cpu.free({ address });
    throw new ProgramError(`Cannot open the RNIC: ${reply.reason}`);
  }
  return {
    timing: plan.timing,
    completion: plan.completion,
    doorbell: options.doorbell ?? doorbell.carries,
    doorbellForm: doorbell.form,
    isWatched: doorbell.retryPs !== undefined,
    blueFlame: options.blueFlame ?? plan.blueFlame,
    inline: options.inline ?? { by: "program" },
    ...bases.virtual,
    store,
    readPointer,
    arm: queuePlan.arm,
    lockAnswers: answers && { address: answers.address, physical: contiguous(answers) },
    queues,
    kept: reply.kept ?? 0,
    card: cpu.card,
    persistence,
    address: reply.address,
    mac: reply.mac,
    mtu: reply.mtu,
    queuePairs: new Map(),
    completionQueues: new Map(),
    sharedReceiveQueues: new Map(),
    windows: new Map(),
    pds: new Map(),
    regions: new Map(),
    contexts: new Map(),
    held,
    epoch: 0,
    nextPd: 1,
    firstVector,
    nextVector: firstVector,
  };
}

export function contiguous(buffer: Buffer): number {
  const first = buffer.pages[0]!;
  for (let i = 1; i < buffer.pages.length; i++) {
    assert(
      buffer.pages[i] === first + i * buffer.pageBytes,
      `A ring of ${buffer.length} B lies in scattered pages`,
    );
  }
  return first + buffer.address % buffer.pageBytes;
}

export function roomOf({ address, pages, pageBytes }: Buffer): number {
  return pages.length * pageBytes - address % pageBytes;
}

export function allocated(allocate: () => Buffer): Buffer | VerbError {
  try {
    return allocate();
  } catch (error) {
    if (!(error instanceof OutOfMemory)) throw error;
    return verbError("ENOMEM", error.message);
  }
}

export function powerOfTwo(least: number): number {
  let size = 2;
  while (size < least) size *= 2;
  return size;
}

type ReplyTo<Op> = Extract<RnicReply, { status: "ok"; op: Op }>;

/** @returns the reply, of kind `op`, or the firmware's error. */
export function* request<Op extends Extract<RnicReply, { status: "ok" }>["op"]>(
  cpu: Pick<Cpu, "command">,
  op: Op,
  command: RnicCommand,
): Steps<ReplyTo<Op> | VerbError> {
  const reply = yield* cpu.command(command);
  if (reply.status === "error") return verbError(reply.errno, reply.reason);
  assert(reply.op === op, `The firmware answered ${reply.op} where ${op} was expected`);
  return reply as ReplyTo<Op>;
}

/**
 * Timestamps of one queue increase strictly, so that two pointers can be ordered.
 * @returns the timestamp.
 */
export function storePointer(
  device: Device,
  queue: { readonly queue: number; stamp: Time },
  pointer: number,
): Time {
  queue.stamp = Math.max(device.cpu.now, queue.stamp + 1);
  const { store } = device.state;
  const entry = encodeEntry(store, 3, { hostPointer: pointer, stamp: queue.stamp });
  // Stores only its own two fields: the RNIC's pointer may lie beside them.
  const { hostPointer: from, stamp } = store.offsets;
  const address = entryAddress(store, device.state, { queue: queue.queue, space: 3 });
  device.cpu.store(address + from, entry.subarray(from, stamp + fieldBytes("stamp")));
  return queue.stamp;
}

const ENDS_QUEUE_PAIR: ReadonlySet<RnicEvent["type"]> = new Set([
  "QP_FATAL",
  "QP_REQ_ERR",
  "QP_ACCESS_ERR",
  "QP_LAST_WQE_REACHED",
]);

export function newContext(): Context {
  return { unread: [], unacknowledged: new Map() };
}

/**
 * The context gets events of the port and of the device. @param program its name with its number.
 */
export function addContext({ contexts }: DeviceState, context: Context, program: string): void {
  contexts.set(context, program);
}

/**
 * @returns the object and its ring, which identifies copies of the object; undefined if it is gone.
 */
function objectOf(state: DeviceState, event: RnicEvent): EventObject | undefined {
  if ("qpn" in event) {
    const qp = state.queuePairs.get(event.qpn);
    return qp && { device: qp.device, ring: qp.sq, qp };
  }
  if ("srqn" in event) {
    const srq = state.sharedReceiveQueues.get(event.srqn);
    return srq && { device: srq.device, ring: srq.ring };
  }
  const cq = "cqn" in event ? state.completionQueues.get(event.cqn) : undefined;
  return cq && { device: cq.device, ring: cq.place };
}

interface EventObject {
  readonly device: Device;
  readonly ring: object;
  readonly qp?: Qp;
}

/**
 * The context that made the object gets its event (Linux: `ib_uverbs_qp_event_handler`); all
 * contexts get events of port or device (`ib_uverbs_event_handler`).
 */
export function handleEvent({ state }: Pick<Device, "state">, event: RnicEvent): void {
  if ("portNum" in event || event.type === "DEVICE_FATAL") {
    for (const { unread } of state.contexts.keys()) unread.push({ event: { ...event }, ring: {} });
    return;
  }
  const object = objectOf(state, event);
  if (object === undefined) return;
  const { device: { context }, ring, qp } = object;
  context.unread.push({ event, ring });
  if (qp !== undefined && ENDS_QUEUE_PAIR.has(event.type)) qp.life.state = "err";
}

/**
 * ibv_get_async_event: the oldest unread event of this context's objects, its port or its device;
 * waits for one. The object can be destroyed only when {@link ackAsyncEvent} has acknowledged it.
 */
export function getAsyncEvent(device: Device): Steps<RnicEvent>;
/** The same, until a deadline: then "timeout". */
export function getAsyncEvent(
  device: Device,
  options: { readonly deadline?: Time },
): Steps<RnicEvent | "timeout">;
export function* getAsyncEvent(
  device: Device,
  options: { readonly deadline?: Time } = {},
): Steps<RnicEvent | "timeout"> {
  const { cpu, context: { unread, unacknowledged } } = device;
  for (;;) {
    const next = unread.shift();
    if (next !== undefined) {
      unacknowledged.set(next.event, next.ring);
      return next.event;
    }
    const outcome = yield* cpu.waitSignal(SIGNALS.rnicEvent, options.deadline ?? NEVER);
    if (outcome === "timeout" && unread.length === 0) return "timeout";
  }
}

/**
 * ibv_ack_async_event, for an event of `getAsyncEvent`. EINVAL for any other, and the second time.
 */
export function ackAsyncEvent({ context }: Device, event: RnicEvent): VerbError | undefined {
  if (context.unacknowledged.delete(event)) return undefined;
  return verbError("EINVAL", `No event ${event.type} waits to be acknowledged in this context`);
}

/** EBUSY, where libibverbs' call would wait for the acknowledgements. */
export function refuseUnacknowledged(
  { unacknowledged }: Context,
  ring: object,
): VerbError | undefined {
  for (const [event, about] of unacknowledged) {
    if (about !== ring) continue;
    return verbError("EBUSY", `Its event ${event.type} is not acknowledged (ackAsyncEvent)`);
  }
  return undefined;
}

export function ackEventsOf({ unacknowledged }: Context, ring: object): void {
  for (const [event, about] of unacknowledged) if (about === ring) unacknowledged.delete(event);
}

/** The object's number may be reused. */
export function dropEvents({ unread }: Context, ring: object): void {
  const others = unread.filter((each) => each.ring !== ring);
  unread.splice(0, unread.length, ...others);
}
