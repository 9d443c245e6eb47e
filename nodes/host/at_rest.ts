/**
 * What a host's memory, buses and regions still hold when no event is left: each of these ends by itself, so what is
 * left is lost. What programs wait for is their own affair.
 */
import type { HeldThing } from "../../fabric/node.ts";
import type { HostRegions } from "./coherence/shared_regions.ts";
import type { HostCard } from "./host_card.ts";
import type { MemorySystem } from "./memory/memory_system.ts";
import type { Pager } from "./paging/pager.ts";

/** The name of held things, in the plural, and their number. */
type Count = readonly [what: string, count: number];

export function heldAtRest(
  { cards, memory, paging, regions }: {
    readonly cards: readonly HostCard[];
    readonly memory: MemorySystem;
    readonly paging: Pager;
    readonly regions: HostRegions | undefined;
  },
): HeldThing[] {
  const counts: Count[] = [
    ["stores past the cache that wait for a memory controller", memory.streams.size],
    ["posted writes that survive and are not in memory", memory.durable.posted],
    ["jobs of the kernel's thread for pages", paging.held.jobs],
    ["pages whose mapping is not that of the card's rights", paging.held.misfiled],
    ...regions === undefined ? [] : ofRegions(regions),
  ];
  for (const card of cards) counts.push(...ofCard(card));
  return counts.flatMap(([what, count]) =>
    count === 0 ? [] : [{ kind: "leaked", text: `${count} ${what}` }]
  );
}

function ofCard({ iio, agent, ats, index }: HostCard): Count[] {
  const { writes, followers, reads } = iio.held;
  const counts: Count[] = [
    ["writes", writes],
    ["bytes of writes", iio.bufferedBytes],
    ["messages behind writes", followers],
    ["reads", reads],
    ["writes of the coherent bus that were not reported", agent?.owed ?? 0],
    ["requests to the IOMMU", ats?.held ?? 0],
  ];
  return counts.map(([what, count]) => [`${what} of card ${index}`, count]);
}

function ofRegions({ unended: { far, home, early, cores } }: HostRegions): Count[] {
  return [
    ["accesses to regions of other hosts", far],
    ["messages of the card to the home agent, or back", home],
    ["messages of the card before the leases' end", early],
    ["accesses of cores at home", cores],
  ];
}
