/** Fetches for hints count against their requester's quota until a request uses them (H-24, H-30). */
import type { TranslationTable } from "../state/translation_table.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { Found } from "../state/device.ts";
import type { Charge, Hints } from "./state/hint_state.ts";
import { type LeadOutcome, noteLead } from "./state/leads.ts";

/** More pages than a table can have. */
const PAGES_END = 2 ** 27;

/** The map key of a page of a table, or of a line of it. */
export function chargeKey({ id }: TranslationTable, kind: "page" | "line", place: number): number {
  return (2 * id + (kind === "page" ? 0 : 1)) * PAGES_END + place;
}

/** It is used, or given up: its requester may have another. */
export function release({ charges, charged }: Hints, charge: Charge): void {
  charges.delete(charge.key);
  const account = accountOf(charge);
  const left = charged.get(account)! - 1;
  if (left === 0) charged.delete(account);
  else charged.set(account, left);
}

const KINDS = ["page", "line", "context", "word"] as const;

/** The key of a requester's account of one kind. */
export function accountOf({ kind, requester }: Pick<Charge, "kind" | "requester">): number {
  return requester * KINDS.length + KINDS.indexOf(kind);
}

const PAGE_COUNTERS = {
  useful: "hintPagesUseful",
  late: "hintPagesLate",
  wasted: "hintPagesWasted",
} as const;

/** A request accesses a page: counts the effect of a hint on it (H-30). */
export function redeemPage(
  hints: Hints,
  { table, page, now }: {
    readonly table: TranslationTable;
    readonly page: number;
    readonly now: Time;
  },
  isThere: boolean,
): void {
  if (hints.charges.size === 0) return;
  const charge = hints.charges.get(chargeKey(table, "page", page));
  if (charge === undefined) return;
  release(hints, charge);
  const { counters, leads } = hints;
  // Else it had come, and the host has taken it back.
  const outcome = isThere ? "useful" : table.demand![page]!.asked === 0 ? "wasted" : "late";
  counters[PAGE_COUNTERS[outcome]]++;
  if (outcome === "late" && charge.position > 0) counters.hintPagesLateBehindFirst++;
  noteLead(leads, charge.lead, outcome, now);
}

const OUTCOMES: Readonly<Record<Found, LeadOutcome>> = {
  there: "useful",
  coming: "late",
  gone: "wasted",
};

/** A request needs a line of translations. */
export function redeemLine(
  hints: Hints,
  { table, line, now }: {
    readonly table: TranslationTable;
    readonly line: number;
    readonly now: Time;
  },
  found: Found,
): void {
  if (hints.charges.size === 0) return;
  const charge = hints.charges.get(chargeKey(table, "line", line));
  if (charge === undefined) return;
  release(hints, charge);
  noteLead(hints.leads, charge.lead, OUTCOMES[found], now);
  const { counters } = hints;
  if (found === "there") counters.hintLinesUseful++;
  else if (found === "gone") counters.hintLinesWasted++;
  else {
    counters.hintLinesLate++;
    countMiss(hints, charge);
  }
}

/** A request misses what its hint has not brought yet: the first element may, later ones should not. */
function countMiss({ counters }: Hints, { position }: Charge): void {
  if (position > 0) counters.hintMissesBehindFirst++;
}

/** The map key of a queue's information, which is half of a context. */
export function contextKey(queue: number): number {
  return -1 - queue;
}

/** A packet needs its context. */
export function redeemContext(
  hints: Hints,
  { queue, now }: { readonly queue: number; readonly now: Time },
  found: Found,
): void {
  if (hints.charges.size === 0) return;
  const charge = hints.charges.get(contextKey(queue));
  if (charge === undefined) return;
  release(hints, charge);
  noteLead(hints.leads, charge.lead, OUTCOMES[found], now);
  const { counters } = hints;
  if (found === "there") counters.hintContextsUseful++;
  else if (found === "gone") counters.hintContextsWasted++;
  else {
    counters.hintContextsLate++;
    countMiss(hints, charge);
  }
}
