/**
 * A peer's writes into persistent memory that no CPU has been asked to flush (P-31), per queue
 * pair. Where room runs out, the nearest two ranges become one: to flush a clean line costs time
 * and breaks no promise.
 */
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { LIMITS } from "./limits.ts";

/** Virtual addresses of the programs, multiples of 64. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** Disjoint, in order, never adjacent. */
export interface DirtyRanges {
  spans: readonly Span[];
}

export interface Bytes {
  readonly va: number;
  readonly length: number;
}

export function createDirtyRanges(): DirtyRanges {
  return { spans: [] };
}

function linesOf({ va, length }: Bytes): Span {
  const last = va + length - 1;
  return { from: va - va % LINE_BYTES, to: last - last % LINE_BYTES + LINE_BYTES };
}

export function noteDirty(ranges: DirtyRanges, written: Bytes): void {
  if (written.length === 0) return;
  ranges.spans = reduceTo(withLines(ranges.spans, linesOf(written)), LIMITS.dirtySpans);
}

function withLines(spans: readonly Span[], { from, to }: Span): Span[] {
  const before = spans.filter((span) => span.to < from);
  const after = spans.filter((span) => span.from > to);
  const touched = spans.slice(before.length, spans.length - after.length);
  const whole = {
    from: Math.min(from, touched[0]?.from ?? from),
    to: Math.max(to, touched.at(-1)?.to ?? to),
  };
  return [...before, whole, ...after];
}

/** Removes all lines, or those of `within`. @returns them, in order. */
export function takeDirty(ranges: DirtyRanges, within?: Bytes): readonly Span[] {
  const { spans } = ranges;
  if (within === undefined) {
    ranges.spans = [];
    return spans;
  }
  if (within.length === 0) return [];
  const { from, to } = linesOf(within);
  const taken: Span[] = [], left: Span[] = [];
  for (const span of spans) {
    keep(left, { from: span.from, to: Math.min(span.to, from) });
    keep(taken, { from: Math.max(span.from, from), to: Math.min(span.to, to) });
    keep(left, { from: Math.max(span.from, to), to: span.to });
  }
  ranges.spans = left;
  return taken;
}

function keep(list: Span[], span: Span): void {
  if (span.from < span.to) list.push(span);
}

/** The ranges contain as few other lines as possible. `most` > 0. */
export function reduceTo(spans: readonly Span[], most: number): readonly Span[] {
  let reduced = spans;
  while (reduced.length > most) reduced = withoutLeastGap(reduced);
  return reduced;
}

function withoutLeastGap(spans: readonly Span[]): Span[] {
  let least = 0;
  for (let i = 1; i + 1 < spans.length; i++) {
    if (gapBehind(spans, i) < gapBehind(spans, least)) least = i;
  }
  const joined = { from: spans[least]!.from, to: spans[least + 1]!.to };
  return [...spans.slice(0, least), joined, ...spans.slice(least + 2)];
}

function gapBehind(spans: readonly Span[], index: number): number {
  return spans[index + 1]!.from - spans[index]!.to;
}
