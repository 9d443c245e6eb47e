/** Commands about shared receive queues. */
import type { RnicCommand, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { SRQ_SEGMENT_BYTES } from "../../../fabric/wire/host_bus/srq_wqe.ts";
import type { Device } from "../state/device.ts";
import { freeQueues, installQueue, removeQueue } from "../queues/install.ts";
import { DONE, noSuch, refusal, ringFault } from "./reply.ts";
import { createSharedReceiveQueue, lookAtShared } from "../queues/shared_receive_queue.ts";

type Command<Op extends RnicCommand["op"]> = Extract<RnicCommand, { op: Op }>;

export function executeSrqCommand(
  device: Device,
  command: Command<"create-srq" | "modify-srq" | "query-srq" | "destroy-srq">,
): RnicReply {
  if (command.op === "create-srq") return createSrq(device, command);
  const srq = device.sharedReceiveQueues.get(command.srqn);
  if (srq === undefined) return noSuch("shared receive queue", command.srqn);
  switch (command.op) {
    case "query-srq":
      return { status: "ok", op: "query-srq", limit: srq.limit };
    case "modify-srq": {
      const { units } = srq.ring;
      if (command.limit >= units) {
        return refusal("EINVAL", `The limit must be below ${units}: it is ${command.limit}`);
      }
      srq.limit = command.limit;
      if (srq.limit > 0) lookAtShared(device, srq);
      return DONE;
    }
    case "destroy-srq":
      if (srq.users > 0) {
        return refusal("EBUSY", `${srq.users} queue pairs take from SRQ ${srq.srqn}`);
      }
      device.sharedReceiveQueues.delete(srq.srqn);
      removeQueue(device, srq.srqn);
      return DONE;
  }
}

/** A slot has 16 bits in WQE and completion. */
const SLOTS_MAX = 2 ** 16;

function createSrq(device: Device, { ring, stride, pd }: Command<"create-srq">): RnicReply {
  const fault = ringFault("SRQ", ring, SLOTS_MAX);
  if (fault !== undefined) return refusal("EINVAL", fault);
  if (stride < 2 * SRQ_SEGMENT_BYTES || stride % 16 !== 0) {
    return refusal("EINVAL", `SRQ stride must be a multiple of 16 from 32 on: it is ${stride}`);
  }
  const queue = freeQueues(device, 1)?.[0];
  if (queue === undefined) {
    return refusal("ENOMEM", `All ${device.spaces!.queues} queues are taken`);
  }
  const srq = createSharedReceiveQueue(queue, { ring, stride, pd });
  device.sharedReceiveQueues.set(queue, srq);
  installQueue(device, {
    queue,
    kind: "srq",
    owner: queue,
    ring,
    unitBytes: stride,
    state: "rts",
  }, { kind: "srq", srq });
  return { status: "ok", op: "create-srq", srqn: queue };
}
