import type { Time } from "../../base/time.ts";
import { SCM_BASE, type SharedRegion } from "../plan/shared_region.ts";
import { placesOf } from "../scenario/shared_regions.ts";
import type { ScenarioVariant } from "../scenario/variants.ts";

/**
 * A choice: home waits an eighth of a lease longer than the far side, as receiving is later than
 * sending and timers are coarse (decision 13).
 */
const MARGIN_SHARE = 8;

export function sharedRegions(
  { shared, hosts }: Pick<ScenarioVariant, "shared" | "hosts">,
  addressOf: (host: string) => number,
): SharedRegion[] {
  const places = placesOf(shared, hosts);
  return shared.map(({ at: _, home, far, ...region }, id): SharedRegion => {
    const agents = agentsOf(shared, home);
    return {
      id,
      ...region,
      home: { host: home, address: addressOf(home) },
      far: far.map((host) => ({
        host,
        address: addressOf(host),
        agent: agents.indexOf(host) + 1,
      })),
      address: (region.memory === "scm" ? SCM_BASE : 0) + places[id]!,
      leaseMarginPs: marginOf(region.leasePs),
      homeWaitPs: homeWaitOf(shared, home),
    };
  });
}

function marginOf(leasePs: Time): Time {
  return Math.ceil(leasePs / MARGIN_SHARE);
}

/** Home's card has one lease for each far card, for all regions. */
function homeWaitOf(shared: ScenarioVariant["shared"], home: string): Time {
  const leases = shared.flatMap((each) => each.home === home ? each.leasePs : []);
  return Math.max(...leases.map((leasePs) => leasePs + marginOf(leasePs)));
}

function agentsOf(shared: ScenarioVariant["shared"], home: string): string[] {
  return [...new Set(shared.flatMap((each) => each.home === home ? each.far : []))].sort();
}
