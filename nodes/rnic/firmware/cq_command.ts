/** Commands about completion queues. */
import { CQE_BYTES } from "../../../fabric/wire/host_bus/cqe.ts";
import type { RnicCommand, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { createCompletionQueue, moveCompletions } from "../queues/completion_queue.ts";
import type { Device } from "../state/device.ts";
import { LIMITS } from "../state/limits.ts";
import { freeQueues, installQueue, removeQueue } from "../queues/install.ts";
import { DONE, noSuch, refusal, ringFault } from "./reply.ts";

type Command<Op extends RnicCommand["op"]> = Extract<RnicCommand, { op: Op }>;

export function executeCqCommand(
  device: Device,
  command: Command<"create-cq" | "resize-cq" | "destroy-cq">,
): RnicReply {
  switch (command.op) {
    case "create-cq":
      return createCq(device, command);
    case "resize-cq":
      return resizeCq(device, command);
    case "destroy-cq":
      return destroyCq(device, command);
  }
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

function resizeCq(device: Device, command: Command<"resize-cq">): RnicReply {
  const { cqn, ring, taken, stamp } = command;
  const cq = device.completionQueues.get(cqn);
  if (cq === undefined) return noSuch("completion queue", cqn);
  const fault = ringFault("CQ", ring, LIMITS.ringUnits);
  if (fault !== undefined) return refusal("EINVAL", fault);
  if (cq.overflowed) return refusal("EINVAL", `CQ ${cqn} has overflowed`);
  const held = cq.written - taken;
  if (held < 0 || held >= ring.units) {
    return refusal("EINVAL", `CQ ${cqn} holds ${held} entries, ${ring.units} units hold fewer`);
  }
  moveCompletions(device, cq, { ring, taken, stamp });
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
