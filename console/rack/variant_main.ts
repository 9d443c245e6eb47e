/**
 * Runs and judges variants one after the other: its jobs come from `variant_pool.ts`. Own programs
 * run in a process of theirs.
 */
import { LOG_TOPIC } from "../../nodes/host/cpu/log_text.ts";
import type { Life } from "../checks/lives.ts";
import type { ReportSeen } from "../checks/run_record.ts";
import type { JudgedVariant } from "../reports/run_checks.ts";
import { judge } from "../reports/summarise.ts";
import { answerConfined, type Asker } from "./own/answer.ts";
import type { RunProgress } from "./own/run_main.ts";
import type { Prepared } from "./prepare.ts";
import { type Outcome, type RunOptions, runSimulated } from "./run_variant.ts";

export interface VariantJob {
  readonly one: Prepared;
  readonly run: Pick<
    RunOptions,
    "run" | "directory" | "trace" | "observe" | "check" | "delayMsMax"
  >;
  readonly claims: boolean;
}

export interface VariantAnswer extends Omit<JudgedVariant, "one" | "outcome"> {
  readonly outcome: Omit<Outcome, "record">;
  readonly seen: {
    readonly reports: readonly ReportSeen[];
    readonly lives: readonly (readonly [string, readonly Life[]])[];
  } | undefined;
}

async function runVariant(
  { one, run, claims }: VariantJob,
  { tell }: Asker<RunProgress>,
): Promise<VariantAnswer> {
  const outcome = await runSimulated(one, {
    ...run,
    // With a signal the rack lets the event loop run, in which this process hears that the command
    // has ended.
    signal: new AbortController().signal,
    onProgress: (node, topic, value) => {
      if (topic === "progress" || topic === LOG_TOPIC) tell([node, topic, value]);
    },
  });
  const { one: _, outcome: { record, ...ended }, ...judged } = await judge(one, outcome, {
    claims,
  });
  const seen = record && { reports: record.reports, lives: [...record.lives] };
  return { ...judged, outcome: ended, seen };
}

if (import.meta.main) await answerConfined(runVariant);
