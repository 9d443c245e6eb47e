/** Every promise of the rack that is checked at the end of every run. */
import { sleep } from "../../fabric/bus/wall_time.ts";
import { completions } from "./completions.ts";
import { persistence } from "./persistence.ts";
import { replicatedLog } from "./replicated_log.ts";
import type { Checker, CheckSteps, RunRecord } from "./run_record.ts";
import { answered } from "./shared/answered.ts";
import { loads } from "./shared/loads.ts";
import { servedInTurn } from "./shared/served_in_turn.ts";
import { singleWriter } from "./shared/single_writer.ts";
import { shutdowns } from "./shutdowns.ts";
import { silence } from "./silence.ts";
import { wholeObjects } from "./whole_objects.ts";
import { answersInOrder, conservation, lineRate } from "./wire_checks.ts";
import type { Finding } from "./finding.ts";

export const CHECKERS: readonly Checker[] = [
  persistence,
  completions,
  conservation,
  silence,
  replicatedLog,
  answersInOrder,
  lineRate,
  wholeObjects,
  loads,
  singleWriter,
  answered,
  servedInTurn,
  shutdowns,
];

export interface Verdict {
  readonly checker: Checker;
  readonly looked: string;
  readonly findings: readonly Finding[];
}

export function checkAll(run: RunRecord): Verdict[] {
  return CHECKERS.map((checker) => ({
    checker,
    looked: checker.looked(run),
    findings: checker.check(run),
  }));
}

const TURN_MS = 50;

/** @throws the signal's reason within a step after it is aborted. */
export async function checkAllInTurns(run: RunRecord, signal?: AbortSignal): Promise<Verdict[]> {
  const verdicts: Verdict[] = [];
  let turnAt = performance.now() + TURN_MS;
  const turn = async () => {
    signal?.throwIfAborted();
    if (performance.now() < turnAt) return;
    await sleep(0);
    signal?.throwIfAborted();
    turnAt = performance.now() + TURN_MS;
  };
  for (const checker of CHECKERS) {
    await turn();
    const findings = await taken(checker.steps(run), turn);
    await turn();
    verdicts.push({ checker, looked: checker.looked(run), findings });
  }
  return verdicts;
}

const STEPS_MOST = 16;

async function taken(steps: CheckSteps, turn: () => Promise<void>): Promise<Finding[]> {
  for (let count = 1;; count++) {
    const { done, value } = steps.next();
    if (done === true) return value;
    if (count % STEPS_MOST === 0) await turn();
  }
}
