/**
 * Every state that small racks can reach with a user's rows in the tables of coherent cards.
 * `fabric/coherence` (its README) defines the checks of each state, and the freedom of links.
 */
import { RackError } from "../../base/rack_error.ts";
import { findProgram, misplaced, reachOfProgram } from "../../rack/prepare.ts";
import { type ConfinedWorker, startConfined, stoppable } from "../../rack/own/confined.ts";
import type { StatesAnswer, StatesJob } from "../../rack/own/protocol_main.ts";
import {
  PROTOCOL_RACKS,
  type ProtocolExplored,
  type ProtocolRack,
  type RackFound,
} from "./racks.ts";

export interface ExploreProtocolOptions {
  readonly jobs: number;
  /** Of each rack; beyond, its verdict is partial. */
  readonly statesMax?: number;
  /** Default: {@link PROTOCOL_RACKS}. */
  readonly racks?: readonly ProtocolRack[];
  readonly stopped: () => boolean;
  readonly onProgress?: (title: string, share: number) => void;
}

/** Three of the shipped protocol's largest rack fit. */
const STATES_MAX = 300_000;

/**
 * Explores all racks, however many are broken.
 * @param file the protocol's, from the current folder.
 * @throws Refusal where it is no protocol.
 */
export async function exploreProtocol(
  file: string,
  options: ExploreProtocolOptions,
): Promise<ProtocolExplored> {
  const { jobs, statesMax = STATES_MAX, racks = PROTOCOL_RACKS, stopped, onProgress } = options;
  const { text, isProtocol } = await findProgram(file, reachOfProgram(file));
  if (!isProtocol) throw misplaced(file, "a program", "rows of the coherent cards' protocol");
  const answers: (StatesAnswer | undefined)[] = racks.map(() => undefined);
  const states = racks.map(() => 0);
  const tell = () => {
    const done = answers.filter((each) => each !== undefined).length;
    const sum = states.reduce((all, each) => all + each, 0);
    onProgress?.(`${sum} states of ${racks.length} racks`, done / racks.length);
  };
  let next = 0;
  const workers: ConfinedWorker[] = [];
  const lane = async () => {
    const worker = startConfined({ module: WORKER, programs: [file] });
    workers.push(worker);
    for (let at = next++; at < racks.length && !stopped(); at = next++) {
      const job: StatesJob = { text, rack: racks[at]!, statesMax };
      answers[at] = await askWatched(worker, job, {
        file,
        onProgress: (count) => {
          states[at] = count;
          tell();
        },
      });
      tell();
    }
  };
  try {
    const lanes = Array.from({ length: Math.min(jobs, racks.length) }, lane);
    await stoppable(Promise.all(lanes), { workers: () => workers, stopped, programs: [file] });
  } finally {
    for (const worker of workers) await worker.end();
  }
  return summed(file, racks.map((rack, at) => answers[at] ?? untouched(rack)));
}

const WORKER = "console/rack/own/protocol_main.ts";
const STEP_MS = 60_000;
const LOOK_MS = 250;

async function askWatched(
  worker: ConfinedWorker,
  job: StatesJob,
  { file, onProgress }: { readonly file: string; readonly onProgress: (count: number) => void },
): Promise<StatesAnswer> {
  let usedBefore = worker.usedMs() ?? 0, isLate = false;
  const timer = setInterval(() => {
    if ((worker.usedMs() ?? 0) - usedBefore <= STEP_MS || isLate) return;
    isLate = true;
    void worker.end();
  }, LOOK_MS);
  try {
    return await worker.ask<StatesAnswer, number>(job, (count) => {
      usedBefore = worker.usedMs() ?? usedBefore;
      onProgress(count);
    });
  } catch (error) {
    if (!isLate) throw error;
    const found = `a step with the rows of ${file} has not ended after ${STEP_MS / 1_000} s`;
    throw new RackError(`Found that ${found} of processor time: expected rows that end`);
  } finally {
    clearInterval(timer);
  }
}

function untouched({ computers, lines, what }: ProtocolRack): StatesAnswer {
  const found: RackFound = {
    computers,
    lines,
    what,
    verdict: "partial",
    states: 0,
    transitions: 0,
    counterexample: null,
  };
  return { found, rows: [], unmet: [] };
}

export function summed(protocol: string, answers: readonly StatesAnswer[]): ProtocolExplored {
  const rows = answers.find((each) => each.rows.length > 0)?.rows ?? [];
  const begun = answers.filter(({ found }) => found.states > 0);
  const unmet = rows.filter((row) => begun.every((each) => each.unmet.includes(row)));
  const racks = answers.map(({ found }) => found);
  const has = (verdict: RackFound["verdict"]) => racks.some((each) => each.verdict === verdict);
  const isUnmet = unmet.length === rows.length;
  const verdict = has("broken")
    ? "broken"
    : has("partial")
    ? "partial"
    : isUnmet
    ? "unchecked"
    : "holds";
  if (racks.length === 0) throw new RackError("Found no rack to explore");
  return { protocol, rows, unmet, verdict, racks };
}
