/**
 * Lead times of hints as a histogram (H-30): how long before its request a hint has come, and what
 * that was worth. Each responder's card has one (`nodes/rnic/hints/state/leads.ts`).
 */
import { formatTime, type Time } from "../../fabric/base/time.ts";
import { LEAD_BOUNDS_PS, LEAD_OUTCOMES, leadsIn } from "../../nodes/rnic/hints/state/leads.ts";
import type { Prepared } from "../rack/prepare.ts";
import { countersOf, type Reported } from "../rack/run_variant.ts";
import { columnsOf, tableText } from "./table.ts";

/** A class: announced operations for which a card had something fetched. */
export interface LeadRow {
  readonly variant: string;
  readonly node: string;
  /**
   * From the hint to its request, or, for wasted elements, to the time at which it was given up.
   */
  readonly fromPs: Time;
  /** Null of the last class. */
  readonly toPs: Time | null;
  readonly useful: number;
  readonly late: number;
  /** No request has used any of it. */
  readonly wasted: number;
}

/**
 * By card, from the first class to the last one that has any; none where hints had nothing fetched.
 */
export function leadRows(
  { label: variant, plan }: Pick<Prepared, "label" | "plan">,
  { finals }: Pick<Reported, "finals">,
): LeadRow[] {
  return plan.nodes.flatMap((node): LeadRow[] => {
    if (node.kind !== "rnic" || node.config.hints === undefined) return [];
    const { name } = node;
    const leads = leadsIn(countersOf(finals, name) ?? {});
    const rows = [...LEAD_BOUNDS_PS, null].map((toPs, place): LeadRow => ({
      variant,
      node: name,
      fromPs: LEAD_BOUNDS_PS[place - 1] ?? 0,
      toPs,
      useful: leads.useful[place]!,
      late: leads.late[place]!,
      wasted: leads.wasted[place]!,
    }));
    const hasAny = (row: LeadRow) => LEAD_OUTCOMES.some((outcome) => row[outcome] > 0);
    return rows.slice(Math.max(0, rows.findIndex(hasAny)), rows.findLastIndex(hasAny) + 1);
  });
}

/** `200 us to 500 us`, `from 10 ms on`. */
function leadText({ fromPs, toPs }: Pick<LeadRow, "fromPs" | "toPs">): string {
  if (toPs === null) return `from ${formatTime(fromPs)} on`;
  return `${fromPs === 0 ? "0" : formatTime(fromPs)} to ${formatTime(toPs)}`;
}

const BAR = 24;

/** A row for each class, with a bar for all of its operations. */
export function leadTable(rows: readonly LeadRow[]): string {
  const isSeveral = (value: (row: LeadRow) => unknown) => new Set(rows.map(value)).size > 1;
  const allOf = ({ useful, late, wasted }: LeadRow) => useful + late + wasted;
  const most = Math.max(...rows.map(allOf));
  return tableText(
    columnsOf<LeadRow>(
      isSeveral(({ variant }) => variant) && { title: "run", value: ({ variant }) => variant },
      { title: "card", value: ({ node }) => node },
      { title: "hint ahead by", value: (row) => leadText(row) },
      { title: "useful", value: ({ useful }) => useful },
      { title: "late", value: ({ late }) => late },
      { title: "wasted", value: ({ wasted }) => wasted },
      { title: "operations", value: (row) => "#".repeat(Math.ceil(BAR * allOf(row) / most)) },
    ),
    rows,
  );
}
