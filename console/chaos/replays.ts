/** Processes replay played rounds, while the racks of further rounds are up. */
import { commandFlags, LARGE_HEAP } from "../base/v8_flags.ts";
import { explain } from "../rack/failure.ts";
import { WorkerPool } from "../rack/own/worker_pool.ts";
import { type ReplayAnswer, type ReplayJob, replayRound } from "./replay.ts";
import type { PlayedRound, RoundResult } from "./round.ts";

/** The replay should have the digest of the round. */
export function withReplay(
  { untold: _, ...result }: RoundResult,
  { came, shows, wallMs }: ReplayAnswer,
): RoundResult {
  const { digest, findings } = result;
  const isSame = "digest" in came && came.digest === digest;
  const text = "endless" in came
    ? came.endless
    : `one process: ${came.digest}, processes: ${digest}`;
  return {
    ...result,
    untold: null,
    findings: isSame ? findings : [...findings, { check: "replays", text }],
    replay: isSame ? "same" : "different",
    replayShows: shows,
    wallMs: Math.round(result.wallMs + wallMs),
  };
}

/** In processes, one round after the other in each; without any, in this one. */
export class RoundReplays {
  readonly #processes: number;
  readonly #signal: AbortSignal | undefined;
  readonly #pool: WorkerPool;

  constructor(
    { processes, directory, signal }: {
      readonly processes: number;
      readonly directory: string;
      readonly signal?: AbortSignal | undefined;
    },
  ) {
    this.#processes = processes;
    this.#signal = signal;
    this.#pool = new WorkerPool({
      module: "console/chaos/replay_main.ts",
      programs: ["a replay"],
      flags: commandFlags(...LARGE_HEAP),
      runDirectory: directory,
      signal,
    });
  }

  /**
   * @param lane the process that replays it, from 0 on.
   * @returns the result of the round. A round whose replay was interrupted, or failed itself, has
   * not held: it has no result, except for findings when it was played.
   */
  async of({ result, again }: PlayedRound, lane: number): Promise<RoundResult> {
    if (again === undefined) return result;
    try {
      return withReplay(result, await this.#ask(again, lane));
    } catch (error) {
      return this.#signal?.aborted ? result : { ...result, untold: explain(error).message };
    }
  }

  async #ask(job: ReplayJob, lane: number): Promise<ReplayAnswer> {
    if (this.#processes === 0) return await replayRound(job, { signal: this.#signal });
    return await this.#pool.ask<ReplayAnswer>(lane, job);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool[Symbol.asyncDispose]();
  }
}
