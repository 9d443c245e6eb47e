/**
 * What a power failure leaves: *where a byte is* × *persistence domain* (P-01, P-05). The one place
 * that says so; everything that records or checks durability asks {@link survives}.
 */
import type { PersistenceDomain } from "../../fabric/rack/plan.ts";

/** Where a byte can be on its way through a host. */
export const PLACES = ["iio", "llc", "wpq", "scm", "dram"] as const;
export type Place = typeof PLACES[number];

export type Fate = "survives" | "lost";

/**
 * - `iio`: posted writes that the root complex holds are in no domain: neither ADR nor eADR drains
 *   PCIe. A device's write that was not accepted is lost, whatever the device believes (P-03, P-05).
 * - `llc`: ADR powers the memory controllers only, so a dirty line is lost (P-04). eADR keeps enough
 *   charge to write the caches back to memory; a line that belongs to SCM arrives there.
 * - `wpq`: the write pending queue of SCM is what ADR is for: its lines reach the medium on the
 *   charge that is left (P-01). eADR contains ADR.
 * - `scm`: the medium keeps what it has.
 * - `dram`: lost, and with it what the LLC or a WPQ would have written to it: those places are about
 *   SCM's bytes, a byte that belongs to DRAM is at `dram` wherever it is.
 */
const FATES: Readonly<Record<Place, Readonly<Record<PersistenceDomain, Fate>>>> = {
  iio: { adr: "lost", eadr: "lost" },
  llc: { adr: "lost", eadr: "survives" },
  wpq: { adr: "survives", eadr: "survives" },
  scm: { adr: "survives", eadr: "survives" },
  dram: { adr: "lost", eadr: "lost" },
};

/** What becomes of a byte at `place` when the power goes. */
export function survives(place: Place, domain: PersistenceDomain): boolean {
  return FATES[place][domain] === "survives";
}
