/**
 * Control path (firmware). A refused command changes nothing; its reply has what was found and what
 * was expected.
 */
import { leaveHints, offerHints } from "../hints/agree.ts";
import { refuseHints } from "../hints/commands.ts";
import { Deadlines } from "../../../fabric/base/deadlines.ts";
import { GSI_QPN } from "../../../fabric/wire/roce/bth.ts";
import type { CommandMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import { refuseModify } from "../../../fabric/wire/host_bus/qp_life_cycle.ts";
import type {
  CommandOf,
  RnicCommand,
  RnicReply,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import { WQE_UNIT_BYTES } from "../../../fabric/wire/host_bus/wqe.ts";
import { completionsEnd } from "../queues/completion_queue.ts";
import { createCq, destroyCq, resizeCq } from "./cq_command.ts";
import type { Commands } from "../state/card_extension.ts";
import { type Device, schedule, sendReply } from "../state/device.ts";
import { announceState, enterError, stopWork } from "../requester/qp_error.ts";
import { skipFlushed } from "../state/requester_changes.ts";
import { LIMITS } from "../state/limits.ts";
import {
  allocateMw,
  allocateNullMr,
  deallocateMw,
  deregisterMr,
  giveMemory,
  invalidatePages,
  mapPagesOf,
  registerMr,
  reregisterMr,
} from "./memory_command.ts";
import { layOutCardMemory } from "../dma/card_memory.ts";
import { unbindWindowsOf } from "../dma/memory_window.ts";
import {
  applyAttributes,
  createQueuePair,
  type QueuePair,
  resetQueuePair,
} from "../state/queue_pair.ts";
import { setEventQueue } from "../queues/event_queue.ts";
import { freeQueues, freeSlot, installQueue, leaveSlot, removeQueue } from "../queues/install.ts";
import { DONE, noQueueLeft, noSuch, refusal, ringFault } from "../state/reply.ts";
import { releaseHeld } from "../queues/paused_queue.ts";
import { expandQueue, lockSpace2, unlockSpace2, writeSpace2 } from "./space2_command.ts";
import { EXTENSION_COMMANDS, EXTENSIONS } from "../extensions.ts";
import { commandDoneAt } from "../hints/work.ts";
import { queryClock, queryDevice, queryPort } from "./query_command.ts";
import { returnReceives } from "../queues/shared_receive_queue.ts";
import { createSrq, destroySrq, modifySrq, querySrq } from "./srq_command.ts";
import { attach, detach, groupsOf } from "./multicast_command.ts";
import { fetchWork } from "../queues/send_queue.ts";
import { statisticsOf } from "./statistics.ts";
import { TIMERS_PER_QUEUE_PAIR } from "../state/timers.ts";
import { checkDrained } from "../queues/queue_events.ts";

/** The reply leaves behind the command's writes; "later": when what the command began has ended. */
export function takeCommand(device: Device, message: CommandMessage): void {
  device.counters.commands++;
  device.stageAt = commandDoneAt(device);
  const { id, command } = message;
  const reply = execute(device, command, id);
  if (reply !== "later") sendReply(device, id, reply);
}

const COMMANDS: Commands = {
  "init": init,
  "query-device": queryDevice,
  "query-port": queryPort,
  "query-clock": queryClock,
  "create-cq": createCq,
  "resize-cq": resizeCq,
  "destroy-cq": destroyCq,
  "set-event-queue": (device, command) =>
    setEventQueue(device, command) ?? noSuch("completion queue", command.cqn),
  "create-srq": createSrq,
  "modify-srq": modifySrq,
  "query-srq": querySrq,
  "destroy-srq": destroySrq,
  "create-qp": createQp,
  "modify-qp": modifyQp,
  "destroy-qp": destroyQp,
  "attach-mcast": attach,
  "detach-mcast": detach,
  "register-mr": registerMr,
  "allocate-null-mr": allocateNullMr,
  "reregister-mr": reregisterMr,
  "deregister-mr": deregisterMr,
  "allocate-mw": allocateMw,
  "deallocate-mw": deallocateMw,
  "map-pages": mapPagesOf,
  "invalidate-pages": invalidatePages,
  "give-memory": giveMemory,
  "write-space2": writeSpace2,
  "lock-space2": lockSpace2,
  "unlock-space2": unlockSpace2,
  "expand-queue": expandQueue,
  ...EXTENSION_COMMANDS,
  "query-statistics": (device) => (
    { status: "ok", op: "query-statistics", counters: statisticsOf(device, "program") }
  ),
};

function execute(device: Device, command: RnicCommand, id: number): RnicReply | "later" {
  if (device.spaces === undefined && command.op !== "init") {
    // The driver opens a new card: the program asks again.
    const errno = command.op === "register-region" ? "EBUSY" : "EINVAL";
    return refusal(errno, `Cannot carry out ${command.op} as init must come first`);
  }
  return COMMANDS[command.op](device, command as never, id);
}

function init(device: Device, { spaces, persistence }: CommandOf<"init">): RnicReply {
  if (device.owners.some((owner) => owner !== undefined)) {
    return refusal("EBUSY", "Cannot lay out queue information as queues exist");
  }
  if (!(spaces.queues > 0) || spaces.queues > LIMITS.queues) {
    return refusal("EINVAL", `Queues must be 1 to ${LIMITS.queues}: they are ${spaces.queues}`);
  }
  const { layout, bytes } = device.store;
  const second = spaces.space1 + bytes[1], third = second + bytes[2];
  if (layout === "record" && (spaces.space2 !== second || spaces.space3 !== third)) {
    return refusal("EINVAL", `Spaces 2 and 3 must be at ${second} and ${third} of a record`);
  }
  const wrong = layOutCardMemory(device, spaces);
  if (wrong !== undefined) return refusal("EINVAL", wrong);
  device.spaces = spaces;
  device.persistence = persistence;
  // A queue pair has a send queue of its own; its receive queue may be shared.
  const own = EXTENSIONS.reduce((sum, { slots }) => sum + (slots?.(device) ?? 0), 0);
  device.deadlines = new Deadlines((spaces.queues + own) * TIMERS_PER_QUEUE_PAIR);
  for (const { start } of EXTENSIONS) start?.(device);
  const { address, mac, mtu } = device.plan;
  const kept = device.memory?.kept ?? 0;
  return { status: "ok", op: "init", address, mac, mtu, ...(kept > 0 && { kept }) };
}

/** Positions have 16 bits. */
const POSITIONS = 2 ** 16;

function receiveFault({ rq, rqStride, srq }: CommandOf<"create-qp">): string | undefined {
  if (srq !== undefined) {
    return rq === undefined ? undefined : "A queue pair has its own receive queue or a shared one";
  }
  if (rq === undefined || rqStride === undefined) return "A queue pair needs a receive queue";
  if (rqStride < 16 || rqStride % 16 !== 0) {
    return `RQ stride must be a multiple of 16: it is ${rqStride}`;
  }
  return ringFault("RQ", rq, POSITIONS);
}

function refuseQp(device: Device, command: CommandOf<"create-qp">): RnicReply | undefined {
  const fault = ringFault("SQ", command.sq, POSITIONS) ?? receiveFault(command);
  if (fault !== undefined) return refusal("EINVAL", fault);
  if (command.srq !== undefined && !device.sharedReceiveQueues.has(command.srq)) {
    return noSuch("shared receive queue", command.srq);
  }
  for (const cqn of [command.sendCq, command.recvCq]) {
    if (!device.completionQueues.has(cqn)) return noSuch("completion queue", cqn);
  }
  const wrong = refuseHints(device, command);
  if (wrong !== undefined) return wrong;
  const { qpn, type } = command;
  if (qpn === undefined) return undefined;
  if (qpn !== GSI_QPN) {
    return refusal("EINVAL", `Only QP ${GSI_QPN} can be asked for: it is ${qpn}`);
  }
  if (type !== "ud") return refusal("EINVAL", `QP ${qpn} must be of type ud`);
  return device.queuePairs.has(qpn) ? refusal("EBUSY", `QP ${qpn} exists`) : undefined;
}

function createQp(device: Device, command: CommandOf<"create-qp">): RnicReply {
  const wrong = refuseQp(device, command);
  if (wrong !== undefined) return wrong;
  const srq = command.srq === undefined ? undefined : device.sharedReceiveQueues.get(command.srq);
  const queues = freeQueues(device, srq === undefined ? 2 : 1);
  if (queues === undefined) return noQueueLeft(device);
  const sqQueue = queues[0]!;
  const rqQueue = srq?.srqn ?? queues[1]!;
  const { type, sq, rq, rqStride = 0, sendCq, recvCq, pd, persistCompletion, weight = 1 } = command;
  const { hints, hintEncoding } = command;
  const qpn = command.qpn ?? nextQpn(device);
  const qp = createQueuePair({
    qpn,
    type,
    pd,
    sqQueue,
    rqQueue,
    rqStride,
    srq,
    rings: { sq, rq },
    sendCq,
    recvCq,
    persistCompletion,
    weight,
    hints,
    hintEncoding,
    card: undefined,
    slot: freeSlot(device),
  });
  device.slots[qp.slot] = qp;
  device.queuePairs.set(qpn, qp);
  device.completionQueues.get(sendCq)!.users++;
  device.completionQueues.get(recvCq)!.users++;
  if (srq !== undefined) srq.users++;
  installRings(device, qp);
  return { status: "ok", op: "create-qp", qpn, sqQueue, rqQueue };
}

/** A number is not reused soon, so that a late packet finds no queue pair. */
function nextQpn(device: Device): number {
  while (device.queuePairs.has(device.nextQpn)) device.nextQpn = following(device.nextQpn);
  const qpn = device.nextQpn;
  device.nextQpn = following(qpn);
  return qpn;
}

function following(qpn: number): number {
  return qpn >= 0xff_fffe ? 2 : qpn + 1;
}

function installRings(device: Device, qp: QueuePair): void {
  const { state, sqQueue, rqQueue, rings, rqStride } = qp;
  const sq = { queue: sqQueue, ring: rings.sq, unitBytes: WQE_UNIT_BYTES, state };
  installQueue(device, { kind: "sq", qp }, sq);
  if (rings.rq === undefined) return;
  const rq = { queue: rqQueue, ring: rings.rq, unitBytes: rqStride, state };
  installQueue(device, { kind: "rq", qp }, rq);
}

function modifyQp(device: Device, { qpn, attributes }: CommandOf<"modify-qp">): RnicReply {
  const qp = device.queuePairs.get(qpn);
  if (qp === undefined) return noSuch("queue pair", qpn);
  const { type, state } = qp;
  const wrong = refuseModify({ type, state, mtu: device.plan.mtu }, attributes);
  if (wrong !== undefined) return refusal("EINVAL", `Cannot modify QP ${qpn} as ${wrong}`);
  if (attributes.state === "reset") {
    emptyQueuePair(device, qp);
    installRings(device, qp);
    return emptied(device, qp);
  } else if (attributes.state === "err") {
    enterError(device, qp);
  } else {
    applyAttributes(qp, attributes);
    if (state === "sqe" && qp.state === "rts") skipFlushed(qp);
    if (qp.state !== state) announceState(device, qp);
    if (qp.state === "rts" && state !== "rts") startWork(device, qp);
    else checkDrained(device, qp);
  }
  return DONE;
}

function emptyQueuePair(device: Device, qp: QueuePair): void {
  stopWork(device, qp);
  returnReceives(device, qp);
  releaseHeld(device, qp);
  if (device.hints !== undefined) leaveHints(device.hints, qp);
  resetQueuePair(qp);
}

function emptied(device: Device, qp: QueuePair): RnicReply {
  const send = completionsEnd(device.completionQueues.get(qp.sendCq)!);
  const recv = completionsEnd(device.completionQueues.get(qp.recvCq)!);
  return { status: "ok", op: "qp-emptied", written: { send, recv } };
}

function startWork(device: Device, qp: QueuePair): void {
  qp.sq.mayHaveMore = true;
  fetchWork(device, qp);
  schedule(device, qp);
  if (device.hints !== undefined) offerHints(device, device.hints, qp);
}

function destroyQp(device: Device, { qpn }: CommandOf<"destroy-qp">): RnicReply {
  const qp = device.queuePairs.get(qpn);
  if (qp === undefined) return noSuch("queue pair", qpn);
  const groups = groupsOf(device, qp);
  if (groups > 0) return refusal("EBUSY", `QP ${qpn} is attached to ${groups} multicast groups`);
  emptyQueuePair(device, qp);
  unbindWindowsOf(device.regions, qp);
  const reply = emptied(device, qp);
  device.queuePairs.delete(qpn);
  leaveSlot(device, qp);
  device.completionQueues.get(qp.sendCq)!.users--;
  device.completionQueues.get(qp.recvCq)!.users--;
  removeQueue(device, qp.sqQueue);
  if (qp.srq === undefined) removeQueue(device, qp.rqQueue);
  else qp.srq.users--;
  return reply;
}
