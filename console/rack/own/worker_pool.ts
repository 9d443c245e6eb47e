/** Processes that do jobs of one kind, one after the other in each. */
import { type Confined, type ConfinedWorker, startConfined } from "./confined.ts";

export class WorkerPool {
  readonly #confined: Confined;
  readonly #workers = new Map<number, ConfinedWorker>();

  constructor(confined: Confined) {
    this.#confined = confined;
  }

  /**
   * Resolves to the job's answer.
   * @throws RackError where the job fails, or its process ends without an answer.
   */
  async ask<Answer, Progress = never>(
    lane: number,
    job: unknown,
    { onProgress, signal }: {
      readonly onProgress?: (progress: Progress) => void;
      /** Ends the process of the lane; the job then rejects with the signal's reason. */
      readonly signal?: AbortSignal;
    } = {},
  ): Promise<Answer> {
    if (this.#workers.get(lane)?.isOver) await this.#end(lane);
    signal?.throwIfAborted();
    const worker = this.#workers.get(lane) ?? startConfined(this.#confined);
    this.#workers.set(lane, worker);
    const end = () => void this.#end(lane);
    signal?.addEventListener("abort", end);
    try {
      return await worker.ask<Answer, Progress>(job, onProgress);
    } catch (error) {
      if (worker.isOver) await this.#end(lane);
      signal?.throwIfAborted();
      throw error;
    } finally {
      signal?.removeEventListener("abort", end);
    }
  }

  /** In one lane, or all: their jobs shall end early, with an answer. */
  stop(lane?: number): void {
    for (const [own, worker] of this.#workers) {
      if (lane === undefined || own === lane) worker.stop();
    }
  }

  get workers(): readonly ConfinedWorker[] {
    return [...this.#workers.values()];
  }

  async #end(lane: number): Promise<void> {
    const worker = this.#workers.get(lane);
    this.#workers.delete(lane);
    await worker?.end();
  }

  /** Unanswered jobs reject. */
  async end(): Promise<void> {
    await Promise.all([...this.#workers.keys()].map((lane) => this.#end(lane)));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.end();
  }
}
