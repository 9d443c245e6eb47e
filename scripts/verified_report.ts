/** What verified writes have caught and missed, for people (V-10). */
import { table } from "./commands/output.ts";
import type { MethodRow } from "./report.ts";

/** One row for each `put` that had its writes checked. */
export function verifiedTable(
  rows: readonly Pick<MethodRow, "method" | "ddio" | "from" | "to" | "messages" | "verified">[],
): string {
  return table(
    [
      "method",
      "ddio",
      "from",
      "to",
      "level",
      "messages",
      "caught",
      "rewrites",
      "missed",
      "skipped",
    ],
    rows.flatMap(({ method, ddio, from, to, messages, verified }) =>
      verified === undefined ? [] : [[
        method,
        ddio,
        from,
        to,
        verified.level,
        String(messages),
        String(verified.caught),
        String(verified.rewrites),
        verified.missed === null ? "?" : String(verified.missed),
        String(verified.skipped),
      ]]
    ),
  );
}
