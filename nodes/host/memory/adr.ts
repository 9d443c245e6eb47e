/**
 * What a power failure leaves: *where a byte is* × *persistence domain* (P-01, P-05). The one place
 * that says so; everything that records or checks durability asks {@link survives}.
 */
import type { PersistenceDomain } from "../../../fabric/rack/plan/plan.ts";

/** Where a byte can be on its way to memory, in the order of that way. */
export const PLACES = ["rnic", "bus", "iio", "llc", "wcb", "wpq", "scm", "dram"] as const;
export type Place = typeof PLACES[number];

export type Fate = "survives" | "lost";

/**
 * - `rnic`, `bus`: posted writes that have not reached the host. No domain of today's machines has them
 *   (P-05). `wsp`, whole-system persistence (Narayanan and Hodson, ASPLOS'12), powers everything long
 *   enough to finish what it has begun: the card keeps such writes and the host gets them.
 * - `iio`: posted writes that the root complex holds: neither ADR nor eADR drains PCIe. A device's write
 *   that was not accepted is lost, whatever the device believes (P-03, P-05). `wsp` drains them.
 * - `llc`: ADR powers the memory controllers only, so a dirty line is lost (P-04). eADR keeps enough
 *   charge to write the caches back to memory; a line that belongs to SCM arrives there.
 * - `wcb`: a core's write-combining buffers are not globally visible yet, and no part of the cache that
 *   eADR flushes: lost but for `wsp`. (eADR asks for `sfence` after non-temporal stores.)
 * - `wpq`: the write pending queue of SCM is what ADR is for: its lines reach the medium on the
 *   charge that is left (P-01). eADR contains ADR.
 * - `scm`: the medium keeps what it has.
 * - `dram`: lost, and with it what other places would have written to it: they are about SCM's bytes, a
 *   byte that belongs to DRAM is at `dram` wherever it is. (`wsp` here is about SCM: DRAM is no NVDIMM.)
 */
const FATES: Readonly<Record<Place, Readonly<Record<PersistenceDomain, Fate>>>> = {
  rnic: { adr: "lost", eadr: "lost", wsp: "survives" },
  bus: { adr: "lost", eadr: "lost", wsp: "survives" },
  iio: { adr: "lost", eadr: "lost", wsp: "survives" },
  llc: { adr: "lost", eadr: "survives", wsp: "survives" },
  wcb: { adr: "lost", eadr: "lost", wsp: "survives" },
  wpq: { adr: "survives", eadr: "survives", wsp: "survives" },
  scm: { adr: "survives", eadr: "survives", wsp: "survives" },
  dram: { adr: "lost", eadr: "lost", wsp: "lost" },
};

/** What becomes of a byte at `place` when the power goes. */
export function survives(place: Place, domain: PersistenceDomain): boolean {
  return FATES[place][domain] === "survives";
}
