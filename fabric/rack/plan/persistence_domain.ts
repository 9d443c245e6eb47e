/**
 * The places that survive a power failure (P-01, P-05), one row for each domain. Other code asks
 * {@link survives} or {@link cardsKeepWrites}, and knows no domain by name.
 */

/**
 * The places of a byte on its way to memory, in order.
 *
 * - `rnic`, `bus`: posted writes that have not reached the host. No domain of current machines
 *   saves them (P-05). `wsp`, whole-system persistence (Narayanan and Hodson, ASPLOS'12), powers
 *   everything until pending work is finished: the card keeps such writes and replays them to the
 *   host.
 * - `remoteCache`, `localCache`: dirty lines of this host's shared regions (C-05) in a coherent
 *   card's cache, the far computer's and its own (decision 12 of `coherence_protocol.md`). Neither
 *   ADR nor eADR powers a card. `wsp` powers this host's card until its local cache is written
 *   back; it brings no line home from another host, which may be down as well.
 * - `iio`: posted writes in the root complex: neither ADR nor eADR drains PCIe, so they are lost,
 *   whatever the device assumes (P-03, P-05). `wsp` drains them.
 * - `llc`: ADR powers the memory controllers only, so a dirty line is lost (P-04). eADR writes the
 *   caches back; a line of SCM reaches memory.
 * - `wcb`: write-combining buffers are not part of the caches that eADR flushes: lost except under
 *   `wsp`. (eADR requires `sfence` after non-temporal stores.)
 * - `wpq`: the lines of SCM's write pending queue reach the medium under ADR (P-01), which eADR
 *   includes.
 * - `scm`: persistent.
 * - `dram`: lost; a byte of DRAM counts as `dram` wherever it is, the other places are about SCM.
 *   (`wsp` concerns SCM: DRAM is no NVDIMM.)
 */
export const PLACES = [
  "rnic",
  "remoteCache",
  "localCache",
  "bus",
  "iio",
  "llc",
  "wcb",
  "wpq",
  "scm",
  "dram",
] as const;
export type Place = typeof PLACES[number];

interface DomainRow {
  readonly saves: string;
  readonly survivors: readonly Place[];
}

export const PERSISTENCE_DOMAINS = {
  adr: { saves: "memory", survivors: ["wpq", "scm"] },
  eadr: { saves: "the caches too", survivors: ["llc", "wpq", "scm"] },
  wsp: {
    saves: "all of it",
    survivors: ["rnic", "localCache", "bus", "iio", "llc", "wcb", "wpq", "scm"],
  },
} as const satisfies Readonly<Record<string, DomainRow>>;
export type PersistenceDomain = keyof typeof PERSISTENCE_DOMAINS;

export const DOMAIN_NAMES = Object.keys(PERSISTENCE_DOMAINS) as PersistenceDomain[];

export function survives(place: Place, domain: PersistenceDomain): boolean {
  const { survivors }: DomainRow = PERSISTENCE_DOMAINS[domain];
  return survivors.includes(place);
}

/**
 * A host's cards keep their writes to it until they know of their arrival, and their local cache's
 * dirty lines: they write them again when the host is back (`nodes/rnic/dma/journal.ts`).
 */
export function cardsKeepWrites(domain: PersistenceDomain): boolean {
  return survives("rnic", domain);
}
