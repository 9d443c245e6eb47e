/**
 * A client's measurements (H-30), and its server's counters of the same time, which `rack run` puts
 * into a row of one table (`console/reports/hint_report.ts`).
 */
import type { ProgramContext, Steps } from "rackmesh";
import { countersOf, type Counts } from "./peer.ts";

type Cpu = ProgramContext["cpu"];

const SERVED = /^(hint|pageFault|pageStall)|^(rnrNaksOut|translationMisses|contextMisses)$/;

export function since(before: Counts, now: Counts): Counts {
  return Object.fromEntries(
    Object.entries(now).map(([name, count]) => [name, count - (before[name] ?? 0)]),
  );
}

/** For a client. @returns the counters so far. */
export function* tellServed(
  cpu: Cpu,
  { client, before }: { readonly client: string; readonly before: Counts },
): Steps<Counts> {
  const now = yield* countersOf(cpu);
  const counted = Object.entries(since(before, now)).filter(([name]) => SERVED.test(name));
  cpu.report("result", { program: "hints", client, counters: Object.fromEntries(counted) });
  return now;
}

export interface Workload {
  readonly workload: string;
  readonly to: string;
  readonly by?: "own" | "carrier";
  /** Of each operation that has succeeded, from post to completion, in ps. */
  readonly latencies: readonly number[];
  readonly failed: number;
  /** Compared to a repetition, in ps. */
  readonly stallPs?: number;
  /** The card has held requests back behind their hints, where that is not all of the time. */
  readonly heldPs?: number;
  /** Of the client's card, when the workload began. */
  readonly before: Counts;
}

export function* tellMeasured(cpu: Cpu, { latencies, before, ...told }: Workload): Steps<void> {
  const counted = since(before, yield* countersOf(cpu));
  const { hintsSent = 0, hintBytesOut = 0, bytesOut = 0, hintHoldPs: heldPs = 0 } = counted;
  const sorted = latencies.toSorted((x, y) => x - y);
  const rank = (part: number) => sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] ?? 0;
  const latencyPs = { median: rank(0.5), p99: rank(0.99), max: rank(1) };
  const messages = latencies.length + told.failed;
  cpu.report("result", {
    program: "hints",
    heldPs,
    ...told,
    messages,
    latencyPs,
    hintsSent,
    hintBytesOut,
    bytesOut,
  });
}
