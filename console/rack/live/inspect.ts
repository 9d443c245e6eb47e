/** Asks a device of a running rack about its work, without any effect on the run. */
import { inspectVerb } from "../../../fabric/bus/access.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { DeviceInspection, PartitionInspection } from "../../../fabric/partition/inspect.ts";
import { oneOf, refusal } from "../../../fabric/rack/plan/problem.ts";
import { partitionOf, type RackLink } from "./racks.ts";

export interface Inspected extends DeviceInspection {
  /**
   * All events of the device's partition before this have happened, and none later; Infinity: all
   * events.
   */
  readonly reachedPs: Time;
}

/**
 * Counters, cables, programs that wait; of a card its queue pairs and regions. A viewer may ask.
 * @param options.loss of a host also what a power failure now would lose of its SCM.
 * @throws Refusal where there is no such device, or it has no power.
 */
export async function inspectDevice(
  { rack, control }: RackLink,
  node: string,
  { loss = false }: { readonly loss?: boolean } = {},
): Promise<Inspected> {
  const partition = partitionOf(rack, node);
  if (partition === undefined) {
    const known = rack.file.partitions.flatMap(({ nodes }) => nodes);
    const found = `There is no ${node} in ${rack.id}`;
    throw refusal("", { found, expected: oneOf(known, node) });
  }
  const { why } = await control.status();
  const row = why.find((each) => each.partition === partition);
  if (row?.status === "dead" || row?.status === "absent") {
    throw refusal("", { found: `${node} has no power`, expected: "a device that has" });
  }
  const { devices, reachedPs } = await control.demand<PartitionInspection>(
    inspectVerb(partition),
    { node, loss },
    { repeats: true, to: `inspect ${node}` },
  );
  return { ...devices[0]!, reachedPs };
}
