/**
 * Lead times (H-30): how long before its request a hint has come, for each announced operation for which pages, lines
 * of translations or a context had to be fetched, by what that was worth. `useful`: all of it was there as the request
 * needed it; `late`: some was still on its way; `wasted`: no request has used any, and the time is that after which it
 * was given up.
 */
import { PS_PER_MS, PS_PER_US, type Time } from "../../../../fabric/base/time.ts";

export const LEAD_OUTCOMES = ["useful", "late", "wasted"] as const;
export type LeadOutcome = typeof LEAD_OUTCOMES[number];

/** Where one class of the histogram ends and the next one begins; the last one has no end. */
export const LEAD_BOUNDS_PS: readonly Time[] = [1, 2, 5, 10, 20, 50, 100, 200, 500].map((us) =>
  us * PS_PER_US
).concat([1, 2, 5, 10].map((ms) => ms * PS_PER_MS));

/** Operations in each class, by outcome. */
export type Leads = Readonly<Record<LeadOutcome, number[]>>;

/** An announced operation. */
export interface Lead {
  /** When its hint was acted on. */
  readonly at: Time;
  /** Where it is counted, as far as is known. */
  counted: { readonly outcome: LeadOutcome; readonly place: number } | undefined;
}

export function createLeads(): Leads {
  const none = () => new Array<number>(LEAD_BOUNDS_PS.length + 1).fill(0);
  return { useful: none(), late: none(), wasted: none() };
}

/** What was used counts more than what was not, what was late more than what was there. */
const WEIGHTS: Readonly<Record<LeadOutcome, number>> = { wasted: 0, useful: 1, late: 2 };

/**
 * Something that was fetched for the operation is used, or given up. An operation needs several pages, one after the
 * other: it stands where the first of them was needed, with the worst that was found.
 */
export function noteLead(leads: Leads, lead: Lead, outcome: LeadOutcome, now: Time): void {
  const { counted } = lead;
  if (counted !== undefined && WEIGHTS[outcome] <= WEIGHTS[counted.outcome]) return;
  const isFirst = counted === undefined || counted.outcome === "wasted";
  const place = isFirst ? placeOf(now - lead.at) : counted.place;
  if (counted !== undefined) leads[counted.outcome][counted.place]!--;
  leads[outcome][place]!++;
  lead.counted = { outcome, place };
}

function placeOf(leadPs: Time): number {
  const place = LEAD_BOUNDS_PS.findIndex((end) => leadPs < end);
  return place < 0 ? LEAD_BOUNDS_PS.length : place;
}

/** `hintLead-late-3`: of the class that ends at {@link LEAD_BOUNDS_PS}[3]. */
const NAME = "hintLead";

/** Counters for a run's report, of the classes that have some. */
export function leadStatistics(leads: Leads): Record<string, number> {
  return Object.fromEntries(
    LEAD_OUTCOMES.flatMap((outcome) =>
      leads[outcome].flatMap((count, place) =>
        count === 0 ? [] : [[`${NAME}-${outcome}-${place}`, count] as const]
      )
    ),
  );
}

/** The histogram in a card's counters. */
export function leadsIn(counters: Readonly<Record<string, number>>): Leads {
  const leads = createLeads();
  for (const outcome of LEAD_OUTCOMES) {
    for (const place of leads[outcome].keys()) {
      leads[outcome][place] = counters[`${NAME}-${outcome}-${place}`] ?? 0;
    }
  }
  return leads;
}
