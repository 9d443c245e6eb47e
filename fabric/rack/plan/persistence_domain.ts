/**
 * Persistence domains: the places that survive a power failure (P-01, P-05). A domain is one row; code that
 * records, checks, explores or replays durability asks {@link survives} or {@link cardsKeepWrites}, and
 * knows no domain by name.
 */

/**
 * The places of a byte on its way to memory, in order.
 *
 * - `rnic`, `bus`: posted writes that have not reached the host. They survive in no domain of
 *   current machines (P-05). `wsp`, whole-system persistence (Narayanan and Hodson, ASPLOS'12),
 *   powers everything long enough to finish pending work: the card keeps such writes and replays them
 *   to the host.
 * - `remoteCache`, `localCache`: dirty lines of this host's shared regions (C-05) in a coherent card's cache,
 *   the far computer's and its own (decision 12 of `coherence_protocol.md`). Their only copy is volatile:
 *   neither ADR nor eADR powers a card. `wsp` powers this host's card until its local cache is written back;
 *   no stored energy of this host brings a line home from another one, which may be down as well.
 * - `iio`: posted writes in the root complex: neither ADR nor eADR drains PCIe. A device's write
 *   that was not accepted is lost, whatever the device assumes (P-03, P-05). `wsp` drains them.
 * - `llc`: ADR powers the memory controllers only, so a dirty line is lost (P-04). eADR stores
 *   enough energy to write the caches back; a line of SCM reaches memory.
 * - `wcb`: a core's write-combining buffers are not globally visible and not part of the caches
 *   that eADR flushes: lost except under `wsp`. (eADR requires `sfence` after non-temporal stores.)
 * - `wpq`: ADR exists for SCM's write pending queue: its lines reach the medium with the stored
 *   energy (P-01). eADR includes ADR.
 * - `scm`: the medium is persistent.
 * - `dram`: lost. The other places refer to bytes of SCM; a byte of DRAM counts as `dram` wherever
 *   it is. (`wsp` here concerns SCM: DRAM is no NVDIMM.)
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
  /** In words, in addition to the rows before it. */
  readonly saves: string;
  readonly survivors: readonly Place[];
}

/**
 * The extent of the remaining power: the controllers' queues, the caches too, or the whole system.
 */
export const PERSISTENCE_DOMAINS = {
  adr: { saves: "memory", survivors: ["wpq", "scm"] },
  eadr: { saves: "the caches too", survivors: ["llc", "wpq", "scm"] },
  wsp: {
    saves: "all of it",
    survivors: ["rnic", "localCache", "bus", "iio", "llc", "wcb", "wpq", "scm"],
  },
} as const satisfies Readonly<Record<string, DomainRow>>;
export type PersistenceDomain = keyof typeof PERSISTENCE_DOMAINS;

/** All of them, the weakest one first. */
export const DOMAIN_NAMES = Object.keys(PERSISTENCE_DOMAINS) as PersistenceDomain[];

/** Whether a byte at `place` survives a power failure. */
export function survives(place: Place, domain: PersistenceDomain): boolean {
  const { survivors }: DomainRow = PERSISTENCE_DOMAINS[domain];
  return survivors.includes(place);
}

/**
 * Whether a host's cards keep their writes to it until they know of their arrival, and their local
 * cache's dirty lines: they write them again when the host is back (`nodes/rnic/dma/journal.ts`).
 */
export function cardsKeepWrites(domain: PersistenceDomain): boolean {
  return survives("rnic", domain);
}
