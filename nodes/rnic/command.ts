/**
 * Control path (firmware): one small function per command of the driver. A refused command changes
 * nothing and says what was found and what was expected.
 */
import { PORTS } from "../../fabric/node.ts";
import { Deadlines } from "../../fabric/time/deadlines.ts";
import { GSI_QPN } from "../../fabric/wire/bth.ts";
import { CQE_BYTES } from "../../fabric/wire/cqe.ts";
import type { CommandMessage } from "../../fabric/wire/pcie.ts";
import { SPACE2_BYTES } from "../../fabric/wire/queue_information.ts";
import type { RingPlace, RnicCommand, RnicReply } from "../../fabric/wire/rnic_command.ts";
import { WQE_UNIT_BYTES } from "../../fabric/wire/wqe.ts";
import { createCompletionQueue } from "./completion_queue.ts";
import type { Device } from "./device.ts";
import { enterError, stopWork } from "./flush.ts";
import { refuseModify } from "./life_cycle.ts";
import { LIMITS } from "./limits.ts";
import { addRegion, checkRegion, removeRegion } from "./memory_region.ts";
import { applyAttributes, createQueuePair, type QueuePair, resetQueuePair } from "./queue_pair.ts";
import {
  freeQueues,
  installQueue,
  removeQueue,
  writeSpace2,
  writeState,
} from "./queue_info/install.ts";
import { schedule } from "./schedule.ts";
import { fetchWork } from "./send_queue.ts";
import { statisticsOf } from "./statistics.ts";

type Command<Op extends RnicCommand["op"]> = Extract<RnicCommand, { op: Op }>;

const DONE: RnicReply = { status: "ok", op: "done" };

function refusal(
  errno: Extract<RnicReply, { status: "error" }>["errno"],
  reason: string,
): RnicReply {
  return { status: "error", errno, reason };
}

/** Carries out a command; its reply leaves behind the writes that it caused. */
export function takeCommand(device: Device, message: CommandMessage): void {
  device.counters.commands++;
  const reply = execute(device, message.command);
  device.out.send(PORTS.rnicBus, { kind: "reply", id: message.id, reply }, device.stageAt);
}

function execute(device: Device, command: RnicCommand): RnicReply {
  if (device.spaces === undefined && command.op !== "init") {
    return refusal("EINVAL", `Cannot carry out ${command.op} as init must come first`);
  }
  switch (command.op) {
    case "init":
      return init(device, command);
    case "create-cq":
      return createCq(device, command);
    case "create-qp":
      return createQp(device, command);
    case "modify-qp":
      return modifyQp(device, command);
    case "destroy-qp":
      return destroyQp(device, command);
    case "destroy-cq":
      return destroyCq(device, command);
    case "register-mr":
      return registerMr(device, command);
    case "deregister-mr":
      return removeRegion(device.regions, command.key) ? DONE : noSuch("region", command.key);
    case "write-space2":
      return writeSpace2ByValue(device, command);
    case "lock-space2":
      return lockSpace2(device, command);
    case "unlock-space2":
      return unlockSpace2(device, command);
    case "expand-queue":
      return refusal("EINVAL", "Cannot expand a queue as this firmware does not move rings");
    case "query-statistics":
      return { status: "ok", op: "query-statistics", counters: statisticsOf(device) };
  }
}

function noSuch(what: string, number: number): RnicReply {
  return refusal("ENOENT", `There is no ${what} ${number}`);
}

function init(device: Device, { spaces, persistence }: Command<"init">): RnicReply {
  if (device.owners.some((owner) => owner !== undefined)) {
    return refusal("EBUSY", "Cannot lay out queue information as queues exist");
  }
  if (!(spaces.queues > 0) || spaces.queues > LIMITS.queues) {
    return refusal("EINVAL", `Queues must be 1 to ${LIMITS.queues}: they are ${spaces.queues}`);
  }
  device.spaces = spaces;
  device.persistence = persistence;
  // A queue pair has two queues and two deadlines.
  device.deadlines = new Deadlines(spaces.queues);
  const { address, mac, mtu } = device.plan;
  return { status: "ok", op: "init", address, mac, mtu };
}

function ringFault(name: string, ring: RingPlace, most: number): string | undefined {
  const { units } = ring;
  const isPower = Number.isInteger(units) && units >= 2 && units <= most &&
    (units & (units - 1)) === 0;
  return isPower
    ? undefined
    : `${name} units must be a power of two from 2 to ${most}: they are ${units}`;
}

function createCq(device: Device, { ring, vector }: Command<"create-cq">): RnicReply {
  const fault = ringFault("CQ", ring, LIMITS.ringUnits);
  if (fault !== undefined) return refusal("EINVAL", fault);
  const queue = freeQueues(device, 1)?.[0];
  if (queue === undefined) {
    return refusal("ENOMEM", `All ${device.spaces!.queues} queues are taken`);
  }
  const cq = createCompletionQueue(queue, { ring, vector });
  device.completionQueues.set(queue, cq);
  installQueue(device, {
    queue,
    kind: "cq",
    owner: queue,
    ring,
    unitBytes: CQE_BYTES,
    state: "rts",
  }, { kind: "cq", cq });
  return { status: "ok", op: "create-cq", cqn: queue };
}

function refuseQp(device: Device, command: Command<"create-qp">): RnicReply | undefined {
  // A WQE's position comes back in 16 bits.
  const fault = ringFault("SQ", command.sq, 2 ** 16) ?? ringFault("RQ", command.rq, 2 ** 16);
  if (fault !== undefined) return refusal("EINVAL", fault);
  if (command.rqStride < 16 || command.rqStride % 16 !== 0) {
    return refusal("EINVAL", `RQ stride must be a multiple of 16: it is ${command.rqStride}`);
  }
  for (const cqn of [command.sendCq, command.recvCq]) {
    if (!device.completionQueues.has(cqn)) return noSuch("completion queue", cqn);
  }
  const { qpn } = command;
  if (qpn === undefined) return undefined;
  if (qpn !== GSI_QPN) {
    return refusal("EINVAL", `Only QP ${GSI_QPN} can be asked for: it is ${qpn}`);
  }
  if (command.type !== "ud") return refusal("EINVAL", `QP ${qpn} must be of type ud`);
  return device.queuePairs.has(qpn) ? refusal("EBUSY", `QP ${qpn} exists`) : undefined;
}

function createQp(device: Device, command: Command<"create-qp">): RnicReply {
  const wrong = refuseQp(device, command);
  if (wrong !== undefined) return wrong;
  const queues = freeQueues(device, 2);
  if (queues === undefined) {
    return refusal("ENOMEM", `All ${device.spaces!.queues} queues are taken`);
  }
  const [sqQueue, rqQueue] = queues as [number, number];
  const { type, sq, rq, rqStride, sendCq, recvCq, pd, persistCompletion } = command;
  const qpn = command.qpn ?? nextQpn(device);
  const qp = createQueuePair({
    qpn,
    type,
    pd,
    sqQueue,
    rqQueue,
    rqStride,
    rings: { sq, rq },
    sendCq,
    recvCq,
    persistCompletion,
    slot: freeSlot(device),
  });
  device.slots[qp.slot] = qp;
  device.queuePairs.set(qpn, qp);
  device.completionQueues.get(sendCq)!.users++;
  device.completionQueues.get(recvCq)!.users++;
  installRings(device, qp);
  return { status: "ok", op: "create-qp", qpn, sqQueue, rqQueue };
}

function freeSlot(device: Device): number {
  const slot = device.slots.indexOf(undefined);
  return slot < 0 ? device.slots.length : slot;
}

/** Numbers are not used again soon, so that a late packet finds nobody. */
function nextQpn(device: Device): number {
  while (device.queuePairs.has(device.nextQpn)) device.nextQpn = following(device.nextQpn);
  const qpn = device.nextQpn;
  device.nextQpn = following(qpn);
  return qpn;
}

function following(qpn: number): number {
  return qpn >= 0xff_fffe ? 2 : qpn + 1;
}

/** Both rings empty, as RESET has them. */
function installRings(device: Device, qp: QueuePair): void {
  const { qpn, state, sqQueue, rqQueue, rings, rqStride } = qp;
  installQueue(device, {
    queue: sqQueue,
    kind: "sq",
    owner: qpn,
    ring: rings.sq,
    unitBytes: WQE_UNIT_BYTES,
    state,
  }, { kind: "sq", qp });
  installQueue(device, {
    queue: rqQueue,
    kind: "rq",
    owner: qpn,
    ring: rings.rq,
    unitBytes: rqStride,
    state,
  }, { kind: "rq", qp });
}

function modifyQp(device: Device, { qpn, attributes }: Command<"modify-qp">): RnicReply {
  const qp = device.queuePairs.get(qpn);
  if (qp === undefined) return noSuch("queue pair", qpn);
  const { type, state } = qp;
  const wrong = refuseModify({ type, state, mtu: device.plan.mtu }, attributes);
  if (wrong !== undefined) return refusal("EINVAL", `Cannot modify QP ${qpn} as ${wrong}`);
  if (attributes.state === "reset") {
    stopWork(device, qp);
    resetQueuePair(qp);
    installRings(device, qp);
  } else if (attributes.state === "err") {
    enterError(device, qp);
  } else {
    applyAttributes(qp, attributes);
    if (attributes.state !== undefined && attributes.state !== state) announceState(device, qp);
  }
  return DONE;
}

/** The host sees the state in space 1; what was posted before RTS is looked at now. */
function announceState(device: Device, qp: QueuePair): void {
  writeState(device, qp.sqQueue, qp.state);
  writeState(device, qp.rqQueue, qp.state);
  if (qp.state !== "rts") return;
  qp.sq.mayHaveMore = true;
  fetchWork(device, qp);
  schedule(device, qp);
}

function destroyQp(device: Device, { qpn }: Command<"destroy-qp">): RnicReply {
  const qp = device.queuePairs.get(qpn);
  if (qp === undefined) return noSuch("queue pair", qpn);
  stopWork(device, qp);
  resetQueuePair(qp);
  device.queuePairs.delete(qpn);
  device.slots[qp.slot] = undefined;
  device.completionQueues.get(qp.sendCq)!.users--;
  device.completionQueues.get(qp.recvCq)!.users--;
  removeQueue(device, qp.sqQueue);
  removeQueue(device, qp.rqQueue);
  return DONE;
}

function destroyCq(device: Device, { cqn }: Command<"destroy-cq">): RnicReply {
  const cq = device.completionQueues.get(cqn);
  if (cq === undefined) return noSuch("completion queue", cqn);
  if (cq.users > 0) return refusal("EBUSY", `${cq.users} queues complete into CQ ${cqn}`);
  device.completionQueues.delete(cqn);
  removeQueue(device, cqn);
  return DONE;
}

function registerMr(device: Device, { region: plan }: Command<"register-mr">): RnicReply {
  const wrong = checkRegion(plan);
  if (wrong !== undefined) return refusal("EINVAL", `Cannot register region as ${wrong}`);
  const region = addRegion(device.regions, plan);
  if (region === undefined) return refusal("ENOMEM", `All ${LIMITS.regions} regions are taken`);
  return { status: "ok", op: "register-mr", lkey: region.key, rkey: region.key };
}

/** Q-04: a breach of space 2's access rules is an error and changes nothing. */
function writeSpace2ByValue(device: Device, command: Command<"write-space2">): RnicReply {
  const { queue, offset, data } = command;
  if (device.owners[queue] === undefined) return noSuch("queue", queue);
  if (device.locked.has(queue)) return refusal("EBUSY", `Space 2 of queue ${queue} is locked`);
  if (!(offset >= 0) || data.length === 0 || offset + data.length > SPACE2_BYTES) {
    const range = `[${offset}, ${offset + data.length})`;
    return refusal("EINVAL", `Bytes ${range} must lie within the entry's ${SPACE2_BYTES}`);
  }
  writeSpace2(device, queue, data, offset);
  forgetSpace2(device, queue);
  return DONE;
}

/** What the chip knows of the queue is read again, after its own pointer has gone to memory. */
function forgetSpace2(device: Device, queue: number): void {
  const entry = device.cache.find(queue);
  if (entry === undefined) return;
  entry.stale = true;
}

function lockSpace2(device: Device, { queue }: Command<"lock-space2">): RnicReply {
  const owner = device.owners[queue];
  if (owner === undefined) return noSuch("queue", queue);
  if (device.locked.has(queue)) {
    return refusal("EBUSY", `Space 2 of queue ${queue} is locked already`);
  }
  device.locked.add(queue);
  if (owner.kind === "sq") owner.qp.sq.paused = true;
  return DONE;
}

function unlockSpace2(device: Device, { queue }: Command<"unlock-space2">): RnicReply {
  const owner = device.owners[queue];
  if (owner === undefined) return noSuch("queue", queue);
  if (!device.locked.delete(queue)) {
    return refusal("EINVAL", `Space 2 of queue ${queue} is not locked`);
  }
  forgetSpace2(device, queue);
  if (owner.kind === "sq") {
    owner.qp.sq.paused = false;
    fetchWork(device, owner.qp);
  }
  return DONE;
}
