/** What a line of a region may have after home's power has failed: by the promises of flushes, as SCM keeps them. */
import type { Time } from "../../../fabric/base/time.ts";
import type { RunRecord } from "../run_record.ts";
import { allowedIn, type NotedWrite, UNIT_BYTES, WriteOrder } from "../values.ts";
import type { Region } from "./accesses.ts";
import { flushedWrites, unknownUnits } from "./flushed.ts";
import { isEqual, LINE_BYTES, type MayHave } from "./line_content.ts";

/**
 * Whether bytes of the line may be found after a power failure of home at `at`. DRAM, and words that were changed
 * in a way that is not known, may have anything.
 */
export function mayHaveOf(
  { notes, lives }: Pick<RunRecord, "notes" | "lives">,
  { record }: Region,
  { line, at }: { readonly line: number; readonly at: Time },
): MayHave {
  const base = record.at;
  if (base === undefined) return () => true;
  let writes: NotedWrite[] | undefined, unknown: Set<number> | undefined;
  return (offset, bytes) => {
    const found = base + line * LINE_BYTES + offset;
    const unit = found - found % UNIT_BYTES;
    const before = notes.filter(({ time }) => time < at);
    writes ??= flushedWrites(before, lives);
    unknown ??= unknownUnits(before, record.home);
    if (unknown.has(unit)) return true;
    const own = writes.filter(({ on, from, to }) =>
      on === record.home && from < unit + UNIT_BYTES && to > unit
    );
    const values = allowedIn(unit, new WriteOrder(own));
    for (const value of values) {
      if (isEqual(value.subarray(found - unit, found - unit + bytes.length), bytes)) return true;
    }
    return false;
  };
}
