import type { StateMessage } from "../../api/feed.ts";
import type { Topology } from "../../api/rack.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { parseTarget } from "../../../fabric/rack/plan/cable_names.ts";

type LinkFault = StateMessage["links"][number];

/**
 * Faults in force at `now`, by the cable's index: those after its last `heal`, without those that
 * are over.
 */
export function faultsAt(
  rack: Pick<Topology, "cables">,
  links: readonly LinkFault[],
  now: Time,
): Map<number, LinkFault[]> {
  const faults = new Map<number, LinkFault[]>();
  const begun = links.filter(({ atPs }) => atPs <= now)
    .sort((x, y) => x.atPs - y.atPs || x.fault - y.fault);
  for (const fault of begun) {
    const target = parseTarget(rack, fault.target);
    if (!("cable" in target)) continue;
    if (fault.action === "heal") faults.delete(target.cable);
    else if ((fault.untilPs ?? Infinity) > now) {
      faults.set(target.cable, [...faults.get(target.cable) ?? [], fault]);
    }
  }
  return faults;
}
