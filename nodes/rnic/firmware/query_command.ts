/** Commands that query the card. */
import { CLOCK_KHZ } from "../../../fabric/wire/host_bus/cqe.ts";
import type { RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Device } from "../state/device.ts";
import { LIMITS } from "../state/limits.ts";
import { clockOf } from "../queues/completion_queue.ts";

export function queryDevice({ spaces, owners, regions }: Device): RnicReply {
  const { objects: regionObjects, multicastGroups, multicastMembers } = LIMITS;
  const { queues } = spaces!;
  let taken = 0;
  for (const owner of owners) if (owner !== undefined) taken++;
  return {
    status: "ok",
    op: "query-device",
    queues,
    freeQueues: queues - taken,
    keys: LIMITS.regions - 1,
    freeKeys: LIMITS.regions - regions.slots.length + regions.free.length,
    regionObjects,
    multicastGroups,
    multicastMembers,
    clockKhz: CLOCK_KHZ,
  };
}

export function queryPort({ isPortUp: up, plan }: Device): RnicReply {
  const { bitsPerSecond, roce } = plan;
  return { status: "ok", op: "query-port", up, bitsPerSecond, roce: roce ?? "v2" };
}

export function queryClock(device: Device): RnicReply {
  return { status: "ok", op: "query-clock", clock: clockOf(device) };
}
