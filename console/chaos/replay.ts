import { RackError } from "../base/rack_error.ts";
import { checkAllInTurns } from "../checks/all.ts";
import type { Prepared } from "../rack/prepare.ts";
import { type Outcome, type RunOptions, runSimulated } from "../rack/run_variant.ts";
import { checkProtocols } from "../reports/protocol_checks.ts";
import type { ChaosFinding } from "./progress.ts";

/** A round with its record. Plain data. */
export interface ReplayJob {
  readonly one: Prepared;
  readonly run: Pick<RunOptions, "run" | "directory">;
  /** Absent: checkers found nothing in the round, and have nothing to find again. */
  readonly check?: "notes" | "wire";
  readonly limitMs: number;
}

export interface ReplayAnswer {
  readonly came: { readonly digest: string } | { readonly endless: string };
  /** Checkers find something again; null where they were not asked. */
  readonly shows: boolean | null;
  readonly wallMs: number;
}

/** Replays a round by its record, in this process. */
export async function replayRound(
  { one, run, check, limitMs }: ReplayJob,
  { signal }: { readonly signal?: AbortSignal | undefined },
): Promise<ReplayAnswer> {
  const began = performance.now();
  const ended = await simulate(one, { ...run, check, limitMs, signal });
  const shows = "endless" in ended || ended.record === undefined
    ? null
    : (await brokenPromises(one, ended, { signal })).length > 0;
  const came = "endless" in ended ? ended : { digest: ended.digest };
  return { came, shows, wallMs: performance.now() - began };
}

/** Runs a rack in this process; returns why it does not come to its end, if so. */
export async function simulate(
  prepared: Prepared,
  options: Omit<RunOptions, "trace" | "delayMsMax">,
): Promise<Outcome | { readonly endless: string }> {
  try {
    return await runSimulated(prepared, { ...options, trace: false, delayMsMax: 0 });
  } catch (error) {
    if (error instanceof RackError) return { endless: error.message };
    throw error;
  }
}

export async function brokenPromises(
  prepared: Prepared,
  outcome: Outcome,
  { signal }: { readonly signal?: AbortSignal | undefined },
): Promise<ChaosFinding[]> {
  const record = outcome.record!;
  const own = await checkProtocols(prepared, { ...outcome, record, signal });
  return [
    ...(await checkAllInTurns(record, signal)).flatMap(({ checker, findings }) =>
      findings.map(({ text }) => ({ check: checker.name, text }))
    ),
    ...own.flatMap(({ program, findings }) =>
      findings.map((text) => ({ check: "protocol-holds", text: `${program}: ${text}` }))
    ),
  ];
}
