/**
 * An object's users, in words: why it cannot be destroyed (EBUSY), and the calls that must come
 * before.
 */
import { verbError } from "../device.ts";
import type { CompChannel, Cq, Pd, Qp, Srq, VerbError } from "../objects.ts";

const NAMED_MAX = 4;

/** `queue pair 17`, `queue pairs 17, 18, 19, 20 and 12 more`. */
function named(what: string, numbers: readonly (number | string)[]): string {
  const more = numbers.length - NAMED_MAX;
  const names = numbers.slice(0, NAMED_MAX).join(", ");
  return `${what}${numbers.length === 1 ? "" : "s"} ${names}${more > 0 ? ` and ${more} more` : ""}`;
}

function queuePairs(qps: readonly Qp[]): string {
  return named("queue pair", qps.map(({ qpn }) => qpn));
}

/** EBUSY: queue pairs complete to it, or its events are not acknowledged. */
export function refuseCqInUse({ cqn, place, device }: Cq): VerbError | undefined {
  if (place.users > 0) {
    const users = [...device.state.queuePairs.values()].filter(({ sendCq, recvCq }) =>
      sendCq.place === place || recvCq.place === place
    );
    const by = queuePairs(users);
    return verbError(
      "EBUSY",
      `Completion queue ${cqn} is used by ${by}: expected destroyQp before`,
    );
  }
  const { unacknowledged } = place;
  if (unacknowledged === 0) return undefined;
  const expected = `expected ackCqEvents(cq, ${unacknowledged}) before`;
  return verbError("EBUSY", `${unacknowledged} events are not acknowledged: ${expected}`);
}

/** EBUSY: queue pairs take receives from it. */
export function refuseSrqInUse({ device, srqn, ring, uses }: Srq): VerbError | undefined {
  if (uses.count === 0) return undefined;
  const by = queuePairs(
    [...device.state.queuePairs.values()].filter(({ srq }) => srq?.ring === ring),
  );
  return verbError("EBUSY", `SRQ ${srqn} is used by ${by}: expected destroyQp before`);
}

/** EBUSY: completion queues have it. */
export function refuseChannelInUse({ cqs }: CompChannel): VerbError | undefined {
  if (cqs.size === 0) return undefined;
  const by = named("completion queue", [...cqs].map(({ cqn }) => cqn));
  return verbError("EBUSY", `The channel is used by ${by}: expected destroyCq before`);
}

/** EBUSY: queue pairs, shared receive queues, regions, windows or address handles. */
export function refusePdInUse({ device, handle, uses }: Pd): VerbError | undefined {
  if (uses.count === 0) return undefined;
  const { state } = device;
  const isOfIt = ({ pd }: { readonly pd: Pd }) => pd.handle === handle;
  const qps = [...state.queuePairs.values()].filter(isOfIt);
  const srqs = [...state.sharedReceiveQueues.values()].filter(isOfIt);
  const regions = [...state.regions.values()].filter(isOfIt);
  const windows = [...state.windows.values()].filter(isOfIt);
  const handles = uses.count - qps.length - srqs.length - regions.length - windows.length;
  const users = [
    { count: qps.length, text: queuePairs(qps), call: "destroyQp" },
    { count: srqs.length, text: named("SRQ", srqs.map(({ srqn }) => srqn)), call: "destroySrq" },
    { count: regions.length, text: named("region", regions.map(keyOf)), call: "deregMr" },
    {
      count: windows.length,
      text: named("window", windows.map(({ rkey }) => hex(rkey))),
      call: "deallocMw",
    },
    {
      count: handles,
      text: `${handles} address handle${handles === 1 ? "" : "s"}`,
      call: "destroyAh",
    },
  ].filter(({ count }) => count > 0);
  const by = users.map(({ text }) => text).join(", ");
  const calls = users.map(({ call }) => call).join(", ");
  return verbError("EBUSY", `The protection domain is used by ${by}: expected ${calls} before`);
}

function keyOf({ lkey }: { readonly lkey: number }): string {
  return hex(lkey);
}

function hex(key: number): string {
  return `0x${key.toString(16)}`;
}
