/**
 * Queue information in space 2: changed by a value passed to the RNIC, or by the host's
 * store under a lock that the RNIC grants for a time. The RNIC refuses violations. A change of a
 * ring's depth resizes it in the same memory: the driver's record follows it.
 */
import { entryAddress } from "../../../fabric/wire/host_bus/queue_placement.ts";
import {
  decodeLockAnswer,
  encodeLockAnswer,
  LOCK_ANSWER_BYTES,
} from "../../../fabric/wire/host_bus/lock_answer.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { failed, perform as send, request, verbError } from "./device.ts";
import { signalOf, SIGNALS, type Steps } from "../cpu/program.ts";
import type { Device, RingMemory, VerbError } from "./objects.ts";
import {
  changedSpace2,
  refuseDepth,
  type Resizable,
  resizableOf,
  whileHeld,
} from "./resize_queue.ts";
import type { RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";

/** Bytes of a queue's entry in space 2, from `offset` on. */
export interface Space2Change {
  readonly queue: number;
  readonly offset: number;
  readonly data: Uint8Array<ArrayBuffer>;
}

type Resumed = Extract<RnicReply, { readonly op: "queue-resumed" }>;

/**
 * The RNIC writes the bytes. EINVAL for an invalid value, EBUSY where the queue is locked or the
 * part of its ring to be cut holds WQEs.
 */
export function writeSpace2(device: Device, change: Space2Change): Steps<VerbError | undefined> {
  return perform(
    device,
    change,
    () => request(device.cpu, "queue-resumed", { op: "write-space2", ...change }),
  );
}

/**
 * Takes the lock, stores the bytes, and releases the lock. Errors as of `writeSpace2`, and EBUSY
 * where the RNIC has taken the lock back meanwhile. The RNIC pauses the queue meanwhile.
 */
export function storeSpace2(device: Device, change: Space2Change): Steps<VerbError | undefined> {
  return perform(device, change, () => storeLocked(device, change));
}

/** @returns until when it is granted; EBUSY where denied, ENOENT for an unknown queue. */
function* takeLock(
  device: Pick<Device, "cpu" | "state">,
  queue: number,
): Steps<{ readonly until: Time } | VerbError> {
  const { cpu, state } = device;
  const { lockAnswers, card } = state;
  if (lockAnswers === undefined) {
    return yield* request(cpu, "lock-space2", { op: "lock-space2", queue });
  }
  if (queue >= state.queues) return verbError("ENOENT", `There is no queue ${queue}`);
  const offset = LOCK_ANSWER_BYTES * queue, at = lockAnswers.address + offset;
  const read = () => decodeLockAnswer(cpu.load(at, LOCK_ANSWER_BYTES));
  const denied = verbError("EBUSY", `The lock of queue ${queue} is denied`);
  // Another program waits for its answer in the same word.
  if (read() === "asked") return denied;
  cpu.store(at, encodeLockAnswer("asked"));
  const answerAt = lockAnswers.physical + offset;
  const wrong = yield* send(cpu, { op: "lock-space2", queue, answerAt });
  if (wrong !== undefined) {
    if (cpu.card === card) cpu.store(at, encodeLockAnswer("idle"));
    return wrong;
  }
  const sources = [
    { kind: "memory", address: at, length: LOCK_ANSWER_BYTES },
    { kind: "signal", name: signalOf(SIGNALS.busDown, cpu.rnic ?? 0) },
  ] as const;
  while (cpu.card === card) {
    const answer = read();
    if (typeof answer === "object") return answer;
    if (answer !== "asked") return denied;
    yield* cpu.waitAny(sources, NEVER);
  }
  return verbError("ENOENT", "The RNIC has failed since the lock was asked for");
}

function* storeLocked(
  { cpu, state }: Device,
  { queue, offset, data }: Space2Change,
): Steps<Resumed | VerbError> {
  const lock = yield* takeLock({ cpu, state }, queue);
  if (failed(lock)) return lock;
  yield* cpu.settle();
  if (cpu.now >= lock.until) {
    return verbError("EBUSY", `The lock of queue ${queue} was taken back at ${lock.until} ps`);
  }
  cpu.store(entryAddress(state.store, state, { queue, space: 2 }) + offset, data);
  yield* cpu.settle();
  return yield* request(cpu, "queue-resumed", { op: "unlock-space2", queue });
}

function* perform(
  device: Device,
  change: Space2Change,
  ask: () => Steps<Resumed | VerbError>,
): Steps<VerbError | undefined> {
  const { queue, offset, data } = change;
  const { bytes } = device.state.store;
  if (!(offset >= 0) || data.length === 0 || offset + data.length > bytes[2]) {
    const range = `[${offset}, ${offset + data.length})`;
    return verbError("EINVAL", `Bytes ${range} must lie within the entry's ${bytes[2]}`);
  }
  const target = resizableOf(device.state, queue);
  if (target === undefined) {
    const reply = yield* ask();
    return failed(reply) ? reply : undefined;
  }
  const place = placeWith(target, change);
  return failed(place) ? place : yield* whileHeld(target, place, ask);
}

function placeWith(target: Resizable, change: Space2Change): RingMemory | VerbError {
  const { ring } = target;
  const { depth, unitBytes, wqeAddress } = changedSpace2(target, change);
  if (wqeAddress !== ring.physical) {
    const reason = "A ring goes on in other memory by resizeQp or modifySrq, which allocate it";
    return verbError("EINVAL", reason);
  }
  if (depth * unitBytes > ring.room) {
    const reason =
      `The ring's memory has ${ring.room} B: ${depth} units of ${unitBytes} B are more`;
    return verbError("EINVAL", reason);
  }
  return refuseDepth(target, depth) ?? { ...ring, depth };
}
