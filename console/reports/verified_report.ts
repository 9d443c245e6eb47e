/** Verified writes: detected and missed damage, cost, and savings by history (V-10). */
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { FinalReply } from "../../fabric/rack/assembly/run_file.ts";
import { formatTime, type Time } from "../../fabric/base/time.ts";
import { isPutResult } from "../checks/survival.ts";
import { countersOf } from "../rack/run_variant.ts";
import type { VerifiedCounts } from "../checks/verified.ts";
import { type Column, columnsOf, tableText } from "./table.ts";
import { deviceFaultRows } from "./device_fault_report.ts";
import { faultRows } from "./fault_report.ts";
import { farEnd, type MethodRow, nearEnd, type VerifiedFigures } from "./method_row.ts";

interface Ended {
  readonly plan: RackPlan;
  readonly finals: readonly Pick<FinalReply, "reports" | "statistics" | "linkFaults">[];
}

/** Adds the counters of the run's devices to the counts of a `put`. */
export function figuresOf(counts: VerifiedCounts, rnic: string, ended: Ended): VerifiedFigures {
  const puts = ended.finals.flatMap(({ reports }) => reports).filter(({ topic, value }) =>
    topic === "result" && isPutResult(value) && value.verified !== undefined
  );
  return {
    ...counts,
    injected: puts.length > 1 ? null : injectedIn(ended),
    savedPs: savedBy(counts.skipped, rnic, ended),
  };
}

function injectedIn({ plan, finals }: Ended): number {
  const sealed = new Set(
    (plan.linkFaults ?? []).filter((fault) => fault.sealed === true).map(({ id }) => id),
  );
  const onCables = faultRows("", { plan, finals }).filter(({ fault }) => sealed.has(fault));
  const inCards = deviceFaultRows("", { plan, finals });
  return [...onCables, ...inCards].reduce((sum, { hit }) => sum + (hit ?? 0), 0);
}

function savedBy(skipped: number, rnic: string, { finals }: Ended): Time | null {
  if (skipped === 0) return 0;
  const card = countersOf(finals, rnic) ?? {};
  const { verifyReadBacks = 0, verifyReadBackPs = 0 } = card;
  const { verifySkipped = 0, verifySkippedPs = 0 } = card;
  if (verifyReadBacks === 0 || verifySkipped === 0) return null;
  const lookPs = verifyReadBackPs / verifyReadBacks - verifySkippedPs / verifySkipped;
  return Math.max(0, Math.round(skipped * lookPs));
}

type Row = Pick<
  MethodRow,
  | "method"
  | "ddio"
  | "from"
  | "to"
  | "rnic"
  | "toRnic"
  | "messages"
  | "verified"
  | "packetsPerMessage"
  | "bytesPerMessage"
  | "latencyPs"
>;

/**
 * One row for each `put` with verified writes, next to the `put` with its own comparison, where the
 * run has one.
 */
export function verifiedTable(rows: readonly Row[]): string {
  const hasBaseline = rows.some(({ verified }) => verified?.level === "compare");
  const hasSaved = rows.some(({ verified }) => (verified?.skipped ?? 0) > 0);
  const baseline: Column<CheckedRow>[] = SHARES.map((title, i) => ({
    title,
    value: (row) => sharesOf(row, rows)[i],
  }));
  return tableText(
    columnsOf<CheckedRow>(
      { title: "method", value: ({ method }) => method },
      { title: "ddio", value: ({ ddio }) => ddio },
      { title: "from", value: nearEnd },
      { title: "to", value: farEnd },
      { title: "level", value: ({ verified }) => verified.level },
      { title: "messages", value: ({ messages }) => messages },
      ...(hasBaseline ? baseline : []),
      { title: "injected", value: ({ verified }) => known(verified.injected) },
      { title: "caught", value: ({ verified }) => verified.caught },
      { title: "rewrites", value: ({ verified }) => verified.rewrites },
      { title: "missed", value: ({ verified }) => known(verified.missed) },
      { title: "skipped", value: ({ verified }) => verified.skipped },
      hasSaved && {
        title: "saved",
        value: ({ verified }) => verified.savedPs,
        text: ({ verified: { savedPs } }) => savedPs === null ? "?" : formatTime(savedPs),
      },
    ),
    rows.flatMap((row) => row.verified === undefined ? [] : [{ ...row, verified: row.verified }]),
  );
}

type CheckedRow = Row & { readonly verified: VerifiedFigures };

const SHARES = ["packets/cmp", "bytes/cmp", "median/cmp"] as const;

const known = (count: number | null) => count === null ? "?" : String(count);

/**
 * Relative to WRITE, READ and comparison by the program; for a persistent method also relative to
 * the same method with a WRITE that persists, where the run has one.
 */
function sharesOf(row: Row, rows: readonly Row[]): string[] {
  const compared = rows.filter(({ verified, ddio, from, to }) =>
    verified?.level === "compare" && ddio === row.ddio && from === row.from && to === row.to
  );
  const isPersistent = row.method === "verify-persist" || row.method === "persist-compare";
  const wanted = isPersistent ? "persist-compare" : "write-compare";
  const baseline = compared.find(({ method }) => method === wanted) ?? compared[0];
  if (baseline === undefined) return ["?", "?", "?"];
  const share = (mine: number | null, its: number | null) =>
    mine !== null && its !== null && its > 0 ? (mine / its).toFixed(2) : "?";
  return [
    share(row.packetsPerMessage, baseline.packetsPerMessage),
    share(row.bytesPerMessage, baseline.bytesPerMessage),
    share(row.latencyPs.median, baseline.latencyPs.median),
  ];
}
