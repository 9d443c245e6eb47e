import { CQE_BYTES } from "../../../fabric/wire/host_bus/cqe.ts";
import type {
  CommandOf,
  RingPlace,
  RnicReply,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import { isPaused } from "../queues/pause.ts";
import { coversQueueInformation } from "../queues/queue_information.ts";
import { createCompletionQueue, moveCompletions } from "../queues/completion_queue.ts";
import type { Device } from "../state/device.ts";
import { LIMITS } from "../state/limits.ts";
import { freeQueues, installQueue, removeQueue } from "../queues/install.ts";
import { DONE, noQueueLeft, noSuch, refusal, ringFault } from "../state/reply.ts";

function cqFault(device: Device, ring: RingPlace): string | undefined {
  const memory = { address: ring.address, length: ring.units * CQE_BYTES };
  return ringFault("CQ", ring, LIMITS.ringUnits) ??
    (coversQueueInformation(device, memory)
      ? "The CQ's ring lies in queue information"
      : undefined);
}

export function createCq(device: Device, command: CommandOf<"create-cq">): RnicReply {
  const { ring, vector, timestamps = false } = command;
  const fault = cqFault(device, ring);
  if (fault !== undefined) return refusal("EINVAL", fault);
  const queue = freeQueues(device, 1)?.[0];
  if (queue === undefined) return noQueueLeft(device);
  const cq = createCompletionQueue(queue, { ring, vector, timestamps });
  device.completionQueues.set(queue, cq);
  installQueue(device, { kind: "cq", cq }, { queue, ring, unitBytes: CQE_BYTES, state: "rts" });
  return { status: "ok", op: "create-cq", cqn: queue };
}

export function resizeCq(device: Device, command: CommandOf<"resize-cq">): RnicReply {
  const { cqn, ring, taken, stamp } = command;
  const cq = device.completionQueues.get(cqn);
  if (cq === undefined) return noSuch("completion queue", cqn);
  const fault = cqFault(device, ring);
  if (fault !== undefined) return refusal("EINVAL", fault);
  if (isPaused(device, cqn)) return refusal("EBUSY", `Space 2 of queue ${cqn} is locked`);
  if (cq.overflowed) return refusal("EINVAL", `CQ ${cqn} has overflowed`);
  const held = cq.written - taken;
  if (held < 0 || held >= ring.units) {
    return refusal("EINVAL", `CQ ${cqn} holds ${held} entries, ${ring.units} units hold fewer`);
  }
  moveCompletions(device, cq, { ring, taken, stamp });
  return DONE;
}

export function destroyCq(device: Device, { cqn }: CommandOf<"destroy-cq">): RnicReply {
  const cq = device.completionQueues.get(cqn);
  if (cq === undefined) return noSuch("completion queue", cqn);
  if (cq.users > 0) return refusal("EBUSY", `${cq.users} queues complete into CQ ${cqn}`);
  device.completionQueues.delete(cqn);
  removeQueue(device, cqn);
  return DONE;
}
