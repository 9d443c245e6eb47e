import type { CommandOf, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { SRQ_SEGMENT_BYTES } from "../../../fabric/wire/host_bus/srq_wqe.ts";
import type { Device } from "../state/device.ts";
import { freeQueues, installQueue, removeQueue } from "../queues/install.ts";
import { DONE, noQueueLeft, noSuch, refusal, ringFault } from "../state/reply.ts";
import { createSharedReceiveQueue, lookAtShared } from "../queues/shared_receive_queue.ts";

/** Slots have 16 bits. */
const SLOTS_MAX = 2 ** 16;

export function createSrq(
  device: Device,
  { ring, stride, pd }: CommandOf<"create-srq">,
): RnicReply {
  const fault = ringFault("SRQ", ring, SLOTS_MAX);
  if (fault !== undefined) return refusal("EINVAL", fault);
  if (stride < 2 * SRQ_SEGMENT_BYTES || stride % 16 !== 0) {
    return refusal("EINVAL", `SRQ stride must be a multiple of 16 from 32 on: it is ${stride}`);
  }
  const queue = freeQueues(device, 1)?.[0];
  if (queue === undefined) return noQueueLeft(device);
  const srq = createSharedReceiveQueue(queue, { ring, stride, pd });
  device.sharedReceiveQueues.set(queue, srq);
  installQueue(device, { kind: "srq", srq }, { queue, ring, unitBytes: stride, state: "rts" });
  return { status: "ok", op: "create-srq", srqn: queue };
}

export function modifySrq(
  device: Device,
  { srqn, limit }: CommandOf<"modify-srq">,
): RnicReply {
  const srq = device.sharedReceiveQueues.get(srqn);
  if (srq === undefined) return noSuch("shared receive queue", srqn);
  const { units } = srq.ring;
  if (limit >= units) {
    return refusal("EINVAL", `The limit must be below ${units}: it is ${limit}`);
  }
  srq.limit = limit;
  if (limit > 0) lookAtShared(device, srq);
  return DONE;
}

export function querySrq(device: Device, { srqn }: CommandOf<"query-srq">): RnicReply {
  const srq = device.sharedReceiveQueues.get(srqn);
  if (srq === undefined) return noSuch("shared receive queue", srqn);
  return { status: "ok", op: "query-srq", limit: srq.limit };
}

export function destroySrq(device: Device, { srqn }: CommandOf<"destroy-srq">): RnicReply {
  const srq = device.sharedReceiveQueues.get(srqn);
  if (srq === undefined) return noSuch("shared receive queue", srqn);
  if (srq.users > 0) return refusal("EBUSY", `${srq.users} queue pairs take from SRQ ${srqn}`);
  device.sharedReceiveQueues.delete(srqn);
  removeQueue(device, srqn);
  return DONE;
}
