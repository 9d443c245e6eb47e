/** What a line of a region may have after home's power has failed: by the promises of flushes, as SCM keeps them. */
import type { Time } from "../../../fabric/base/time.ts";
import { drained, type RunRecord } from "../run_record.ts";
import { maskOf, type NotedWrite, orderOf, reaches, UNIT_BYTES, WHOLE } from "../values.ts";
import type { Region } from "./accesses.ts";
import { flushedWrites, unknownUnits } from "./flushed.ts";
import { LINE_BYTES, type MayHave } from "./line_content.ts";

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
  return (offset, bytes) => {
    const found = base + line * LINE_BYTES + offset;
    const unit = found - found % UNIT_BYTES;
    const { writes, unknown } = knownAt({ notes, lives }, { home: record.home, at });
    if (unknown.has(unit)) return true;
    const value = new Uint8Array(UNIT_BYTES), begin = found - unit;
    value.set(bytes, begin);
    const free = WHOLE & ~maskOf({ begin, end: begin + bytes.length });
    return reaches(value, { unit, order: orderOf(writes.get(unit) ?? []), free }) !== undefined;
  };
}

/** What accesses before an instant have done to home's SCM. */
interface Known {
  /** By unit, in the order of their begin. */
  readonly writes: ReadonlyMap<number, readonly NotedWrite[]>;
  readonly unknown: ReadonlySet<number>;
}

/** Each line asks for the same: by notes of a run, then by home and instant. */
const KNOWN = new WeakMap<RunRecord["notes"], Map<string, Known>>();

function knownAt(
  { notes, lives }: Pick<RunRecord, "notes" | "lives">,
  { home, at }: { readonly home: string; readonly at: Time },
): Known {
  const all = KNOWN.get(notes) ?? new Map<string, Known>(), key = `${at} ${home}`;
  KNOWN.set(notes, all);
  const before = all.get(key);
  if (before !== undefined) return before;
  const until = notes.filter(({ time }) => time < at);
  const writes = new Map<number, NotedWrite[]>();
  for (const write of flushedWrites(until, lives)) {
    if (write.on !== home) continue;
    for (let unit = write.from - write.from % UNIT_BYTES; unit < write.to; unit += UNIT_BYTES) {
      const own = writes.get(unit);
      if (own === undefined) writes.set(unit, [write]);
      else own.push(write);
    }
  }
  const known = { writes, unknown: drained(unknownUnits(until)).get(home) ?? new Set() };
  all.set(key, known);
  return known;
}
