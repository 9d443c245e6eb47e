/**
 * Loss of a host's SCM by a power failure now: bytes on their way to the iMC, by place, and how
 * many of them differ from what survives. It changes nothing, unlike a DMA or a load, which drain
 * buffers.
 */
import {
  type HostLoss,
  LOSS_PLACES,
  LOSS_RANGES_MAX,
  type LossPlace,
  type LossRange,
} from "../../../fabric/inspection.ts";
import { type PersistenceDomain, survives } from "../../../fabric/rack/plan/persistence_domain.ts";
import { SCM_BASE } from "./address_map.ts";
import type { IioStacks } from "./iio_stacks.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { overlayDirty } from "./llc.ts";
import type { MemorySystem } from "./memory_system.ts";
import { overlay } from "./sparse_bytes.ts";

const COMPARED_AT_ONCE = 1 << 20;

export function lossOf(
  { memory, iio }: { readonly memory: MemorySystem; readonly iio: IioStacks },
  domain: PersistenceDomain,
): HostLoss {
  const found: Readonly<Record<LossPlace, LossRange[]>> = {
    iio: iio.pending().map(({ offset, data }) => rangeOf("iio", offset, data.length)),
    llc: memory.llc.dirtyLines().map((line) =>
      rangeOf("llc", memory.physical.addressOf(line), LINE_BYTES)
    ),
    wcb: memory.combined().map(({ offset, data }) => rangeOf("wcb", offset, data.length)),
  };
  const lost = LOSS_PLACES.filter((place) => !survives(place, domain));
  const ranges = lost.flatMap((place) => united(found[place].filter(({ from }) => from >= 0)));
  const sums = LOSS_PLACES.map((place) =>
    [place, sum(ranges.filter((range) => range.place === place))] as const
  );
  const all = united(ranges.map((range) => ({ ...range, place: "iio" })));
  return {
    domain,
    bytes: Object.fromEntries(sums) as Record<LossPlace, number>,
    changedBytes: all.reduce((count, range) => count + changed(range, { memory, iio }, domain), 0),
    ranges: ranges.slice(0, LOSS_RANGES_MAX),
    rangesLeft: Math.max(0, ranges.length - LOSS_RANGES_MAX),
  };
}

function rangeOf(place: LossPlace, address: number, length: number): LossRange {
  const from = address - SCM_BASE;
  return { place, from, to: from + length };
}

function united(ranges: readonly LossRange[]): LossRange[] {
  const all: LossRange[] = [];
  for (const range of ranges.toSorted((x, y) => x.from - y.from)) {
    const last = all.at(-1);
    if (last === undefined || range.from > last.to) all.push(range);
    else all[all.length - 1] = { ...last, to: Math.max(last.to, range.to) };
  }
  return all;
}

function sum(ranges: readonly LossRange[]): number {
  return ranges.reduce((bytes, { from, to }) => bytes + to - from, 0);
}

function changed(
  { from, to }: LossRange,
  { memory, iio }: { readonly memory: MemorySystem; readonly iio: IioStacks },
  domain: PersistenceDomain,
): number {
  let count = 0;
  for (let at = from; at < to; at += COMPARED_AT_ONCE) {
    const address = SCM_BASE + at, length = Math.min(COMPARED_AT_ONCE, to - at);
    const newest = memory.peek(address, length);
    overlay(newest, address, iio.pending());
    const left = new Uint8Array(length);
    memory.physical.read(address, left);
    if (survives("llc", domain)) {
      const line = memory.physical.lineOf(address);
      overlayDirty(memory.llc, { line, inLine: address % LINE_BYTES }, left);
    }
    for (let i = 0; i < length; i++) if (newest[i] !== left[i]) count++;
  }
  return count;
}
