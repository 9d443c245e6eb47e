/**
 * What survives a power failure: *place of a byte* × *persistence domain* (P-01, P-05). The only
 * definition; all code that records or checks durability calls {@link survives}.
 */
import type { PersistenceDomain } from "../../../fabric/rack/plan/plan.ts";

/** The places of a byte on its way to memory, in order. */
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

export type Fate = "survives" | "lost";

/**
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
const FATES: Readonly<Record<Place, Readonly<Record<PersistenceDomain, Fate>>>> = {
  rnic: { adr: "lost", eadr: "lost", wsp: "survives" },
  remoteCache: { adr: "lost", eadr: "lost", wsp: "lost" },
  localCache: { adr: "lost", eadr: "lost", wsp: "survives" },
  bus: { adr: "lost", eadr: "lost", wsp: "survives" },
  iio: { adr: "lost", eadr: "lost", wsp: "survives" },
  llc: { adr: "lost", eadr: "survives", wsp: "survives" },
  wcb: { adr: "lost", eadr: "lost", wsp: "survives" },
  wpq: { adr: "survives", eadr: "survives", wsp: "survives" },
  scm: { adr: "survives", eadr: "survives", wsp: "survives" },
  dram: { adr: "lost", eadr: "lost", wsp: "lost" },
};

/** Whether a byte at `place` survives a power failure. */
export function survives(place: Place, domain: PersistenceDomain): boolean {
  return FATES[place][domain] === "survives";
}
