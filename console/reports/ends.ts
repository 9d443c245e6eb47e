/** The two ends of a transfer, as a table names them. */
import type { MethodRow } from "./method_row.ts";

/** A host, or its RNIC where that is not the first. */
export function nearEnd({ from, rnic }: Pick<MethodRow, "from" | "rnic">): string {
  return rnic ?? from;
}

/** A host, or its RNIC where the program has named it. */
export function farEnd({ to, toRnic }: Pick<MethodRow, "to" | "toRnic">): string {
  return toRnic ?? to;
}
