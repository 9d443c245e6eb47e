import { type Column, columnsOf, tableText, timeColumn } from "./table.ts";
import type { Reported } from "../rack/run_variant.ts";

export interface CongestionRow {
  readonly variant: string;
  readonly node: string;
  readonly counters: Readonly<Record<string, number>>;
}

const COUNTERS = {
  ecnMarked: "marked",
  ecnMarkedIn: "marked in",
  cnpsOut: "CNPs out",
  cnpsIn: "CNPs in",
  rateCuts: "cuts",
  pausesOut: "pauses out",
  pausesIn: "pauses in",
  pausedPs: "paused",
  droppedQueueFull: "dropped",
  droppedHeadroom: "beyond headroom",
  "drop-receive-overrun": "overrun",
  retransmissions: "sent again",
  queueMeanBytes: "queue mean",
  queuePeakBytes: "queue peak",
  bufferPeakBytes: "buffer peak",
  headroomPeakBytes: "headroom peak",
} as const;

/** None for a run in which no queue stood and nothing else happened. */
export function congestionRows(variant: string, outcome: Reported): CongestionRow[] {
  const rows = outcome.finals.flatMap(({ statistics }) =>
    Object.entries(statistics).map(([node, all]): CongestionRow => ({
      variant,
      node,
      counters: Object.fromEntries(
        Object.keys(COUNTERS).flatMap((name) => all[name] ? [[name, all[name]]] : []),
      ),
    }))
  );
  // Lost frames are retransmitted without any congestion.
  const isCongested = ({ counters }: CongestionRow) =>
    Object.keys(counters).some((name) => name !== "retransmissions");
  if (!rows.some(isCongested)) return [];
  return rows.filter(({ counters }) => Object.keys(counters).length > 0)
    .sort((x, y) => x.node < y.node ? -1 : 1);
}

/** A row for each node, a column for each counter that some node has. */
export function congestionTable(rows: readonly CongestionRow[]): string {
  const names = (Object.keys(COUNTERS) as (keyof typeof COUNTERS)[]).filter((name) =>
    rows.some(({ counters }) => counters[name] !== undefined)
  );
  const hasVariants = new Set(rows.map(({ variant }) => variant)).size > 1;
  return tableText(
    columnsOf<CongestionRow>(
      hasVariants && { title: "run", value: ({ variant }) => variant },
      { title: "node", value: ({ node }) => node },
      ...names.map((name): Column<CongestionRow> => {
        const title = COUNTERS[name], value = ({ counters }: CongestionRow) => counters[name];
        return name === "pausedPs" ? timeColumn(title, value) : { title, value };
      }),
    ),
    rows,
  );
}
