import type { ClockStatus } from "../../fabric/clock/clock_service.ts";
import { formatExact } from "../../fabric/base/time.ts";
import { predicateText } from "../../fabric/trace/predicate.ts";
import { RackError } from "../base/rack_error.ts";
import type { Replay } from "./client.ts";
import type { EventRow, FindQuery } from "../api/replay.ts";

export type Stop = Pick<ClockStatus, "breaks" | "hits" | "watchedFrom">;

/** The step of each hit. @throws RackError where the replay has none there. */
export async function whereStopped(
  replay: Pick<Replay, "find">,
  { breaks, hits, watchedFrom }: Stop,
): Promise<EventRow[]> {
  const rows: EventRow[] = [];
  for (const hit of hits) {
    const query: FindQuery = {
      ...breaks[hit.break]!,
      ...(watchedFrom !== null && watchedFrom > 0 && { after: watchedFrom - 1 }),
    };
    const row = await replay.find(query);
    if (row?.time !== hit.atPs) {
      const found = row === null ? "nowhere" : `at ${formatExact(row.time)}`;
      const what = predicateText(query), at = formatExact(hit.atPs);
      throw new RackError(`Found in the replay ${found} that ${what}: expected it at ${at}`);
    }
    rows.push(row);
  }
  return rows;
}

/** `b-rnic takes S907 at 190.76018us: persistence ACK of 4096 B` */
export function whereText({ node, name, time, text }: EventRow): string {
  return `${node} takes ${name} at ${formatExact(time)}: ${text}`;
}
