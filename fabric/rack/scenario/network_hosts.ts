import { type NetworkHost, rnicsOf } from "../assembly/network.ts";
import { rnicNames } from "../plan/names.ts";
import type { Draft } from "./scenario.ts";

type Hosts = Pick<Draft, "hostNames" | "hosts">;

/** By name, as in the plan. */
export function networkHosts({ hostNames, hosts }: Hosts): NetworkHost[] {
  const known = new Map(hosts.map((host) => [host.name, host]));
  return hostNames.toSorted().map((name) => known.get(name) ?? { name });
}

export function rnicsIn(draft: Hosts): string[] {
  return rnicsOf(networkHosts(draft)).map(({ name }) => name);
}

export function machinesIn({ hostNames, hosts }: Hosts): string[] {
  const counts = new Map(hosts.map(({ name, nics = 1 }) => [name, nics]));
  return hostNames.flatMap((name) => [name, ...rnicNames(name, counts.get(name) ?? 1)]);
}

/**
 * Names by which programs find others, as in `RackPlan.addresses`: hosts, and their further RNICs.
 */
export function peersIn(draft: Hosts): string[] {
  const further = rnicsOf(networkHosts(draft)).filter(({ index }) => index > 0);
  return [...draft.hostNames, ...further.map(({ name }) => name)];
}
