/** Device faults of a run (V-08): how much data of a write each damaged. */
import type { FlipPlan, RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { FinalReply } from "../../fabric/rack/assembly/run_file.ts";
import { formatTime } from "../../fabric/base/time.ts";
import { foldedTable } from "./fold_variants.ts";

export interface DeviceFaultRow {
  readonly variant: string;
  readonly kind: "flip" | "stuck";
  /** `b-rnic`, or the host whose SCM it is. */
  readonly target: string;
  readonly terms: string;
  /**
   * Data segments that the fault could have damaged and did, since the card has power; null for a
   * broken cell, which affects every write.
   */
  readonly seen: number | null;
  readonly hit: number | null;
}

/** Bit flips in cards by the faults' ids, then broken cells of SCM by address. */
export function deviceFaultRows(
  variant: string,
  { plan, finals }: {
    readonly plan: RackPlan;
    readonly finals: readonly Pick<FinalReply, "statistics">[];
  },
): DeviceFaultRow[] {
  const flips: { readonly id: number; readonly row: DeviceFaultRow }[] = [];
  const stuck: DeviceFaultRow[] = [];
  for (const node of plan.nodes) {
    if (node.kind === "rnic") {
      for (const flip of node.config.flips ?? []) {
        const counts = finals.map(({ statistics }) => statistics[node.name] ?? {});
        const sum = (name: string) => counts.reduce((all, each) => all + (each[name] ?? 0), 0);
        const seen = sum(`flip${flip.id}Seen`), hit = sum(`flip${flip.id}Hit`);
        const target = node.name, terms = flipTerms(flip);
        flips.push({ id: flip.id, row: { variant, kind: "flip", target, terms, seen, hit } });
      }
    } else if (node.kind === "host") {
      for (const { offset, bit, value } of node.config.stuckBits ?? []) {
        const terms = `bit ${bit} of SCM byte ${offset} is ${value}`;
        stuck.push({ variant, kind: "stuck", target: node.name, terms, seen: null, hit: null });
      }
    }
  }
  return [...flips.toSorted((x, y) => x.id - y.id).map(({ row }) => row), ...stuck];
}

const PLACES: Readonly<Record<FlipPlan["where"], string>> = {
  fetch: "on the bus from memory",
  buffer: "in the buffer before the check",
  checked: "in the buffer after the check",
  bus: "on the bus to memory",
};

/** `1% in the buffer before the check, from 10 us`. */
function flipTerms({ where, at, until, share, nth, count }: FlipPlan): string {
  const taken = nth !== undefined
    ? `number ${nth}`
    : share === undefined
    ? "all"
    : `${Number((share * 100).toFixed(6))}%`;
  return [
    `${taken} ${PLACES[where]}`,
    ...(count === undefined ? [] : [`at most ${count}`]),
    ...(at === 0 ? [] : [`from ${formatTime(at)}`]),
    ...(until === undefined ? [] : [`until ${formatTime(until)}`]),
  ].join(", ");
}

/** Each fault once, with the sums of all runs of a scenario. */
export function deviceFaultTable(rows: readonly DeviceFaultRow[]): string {
  return foldedTable(rows, ({ kind, target, terms }) => [kind, target, terms].join(), [
    { title: "fault", value: ({ kind }) => kind },
    { title: "in", value: ({ target }) => target },
    { title: "terms", value: ({ terms }) => terms },
    { title: "pieces", value: ({ hit }) => hit },
    { title: "of", value: ({ seen }) => seen },
  ]);
}
