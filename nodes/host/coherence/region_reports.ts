/** A host's reports of shared regions, and its audit records, by which checkers judge C-09 and C-10. */
import type { Outputs } from "../../../fabric/node.ts";
import {
  MOVED_TOPIC,
  type RegionMoved,
  SCM_BASE,
  type SharedRegion,
} from "../../../fabric/rack/plan/shared_region.ts";
import type { Cpu } from "../cpu/program.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { RegionLine } from "./home_places.ts";
import type { Verdict } from "./placement_judge.ts";
import { traceState } from "./region_trace.ts";

/**
 * The longest chain of waits of an access: a registration's end, the far card's lease, home's wait
 * for another far card's lease, and home's card. Each is one of the longest leases of home, as its
 * card waits for those.
 */
const ANSWER_LEASES = 4;

/** Declares a region that a host uses from now on. */
export function declareRegion(cpu: Cpu, region: SharedRegion): void {
  const { name, home, bytes, memory, address, homeWaitPs } = region;
  cpu.note({
    kind: "region",
    region: name,
    home: home.host,
    bytes,
    ...(memory === "scm" && { at: address - SCM_BASE }),
    answerWithinPs: ANSWER_LEASES * homeWaitPs,
    homeWaitPs,
  });
}

/** Lines whose last value is gone (C-10). */
export function reportLost(
  { name, out }: { readonly name: string; readonly out: Outputs },
  region: SharedRegion,
  lines: readonly { readonly line: number; readonly lines: number }[],
): void {
  const ranges = lines.map(({ line, lines: count }) => ({
    offset: line * LINE_BYTES,
    length: count * LINE_BYTES,
  }));
  out.report("region-lost", { region: region.name, ranges });
  if (out.auditing) out.audit?.(name, { kind: "region-lost", region: region.name, ranges });
}

/** The LLC's state of a line has changed (C-05). */
export function noteState(
  { name, out }: { readonly name: string; readonly out: Outputs },
  { region, line }: RegionLine,
  state: "M" | "E" | "S" | "I",
): void {
  if (out.tracing) traceState(out, { region, line, state });
  if (!out.auditing) return;
  out.audit?.(name, { kind: "line-state", region: region.name, line, cache: "llc", state });
}

export function reportMoved(
  out: Outputs,
  { region, plan: { windowPs }, counts, after: { place } }: Verdict,
  refused: string | undefined,
): void {
  const moved: RegionMoved = { region: region.name, place, ...counts, windowPs };
  out.report(MOVED_TOPIC, refused === undefined ? moved : { ...moved, refused });
}
