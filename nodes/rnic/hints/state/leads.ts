/**
 * Lead times (H-30): how long a hint has come before its request, for each announced operation for which pages,
 * lines of translations or a context had to be fetched, by outcome. `useful`: all of it was there when the request
 * needed it; `late`: some was still on its way; `wasted`: no request has used any, and the time is that until it
 * was given up.
 */
import { PS_PER_MS, PS_PER_US, type Time } from "../../../../fabric/base/time.ts";

export const LEAD_OUTCOMES = ["useful", "late", "wasted"] as const;
export type LeadOutcome = typeof LEAD_OUTCOMES[number];

/** Bounds of the histogram's classes; the last class has no end. */
export const LEAD_BOUNDS_PS: readonly Time[] = [1, 2, 5, 10, 20, 50, 100, 200, 500].map((us) =>
  us * PS_PER_US
).concat([1, 2, 5, 10].map((ms) => ms * PS_PER_MS));

/** Operations in each class, by outcome. */
export type Leads = Readonly<Record<LeadOutcome, number[]>>;

export interface Lead {
  /** When its hint was acted on. */
  readonly at: Time;
  /** Its place in the histogram, as far as it is known. */
  counted: { readonly outcome: LeadOutcome; readonly place: number } | undefined;
}

export function createLeads(): Leads {
  const none = () => new Array<number>(LEAD_BOUNDS_PS.length + 1).fill(0);
  return { useful: none(), late: none(), wasted: none() };
}

/** A used fetch outweighs an unused one, a late one outweighs one in time. */
const WEIGHTS: Readonly<Record<LeadOutcome, number>> = { wasted: 0, useful: 1, late: 2 };

/**
 * A fetch for the operation is used, or given up. An operation needs several pages, one after the other: it counts
 * in the class of the first one needed, with the worst outcome.
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

/** Counters for a run's report, of the classes that are not empty. */
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
