import { commandFlags, LARGE_HEAP } from "../base/v8_flags.ts";
import type { JudgedVariant } from "../reports/run_checks.ts";
import { WorkerPool } from "./own/worker_pool.ts";
import type { RunProgress } from "./own/run_main.ts";
import type { Prepared } from "./prepare.ts";
import type { RunOptions } from "./run_variant.ts";
import { heldFor, survivedView } from "./survived.ts";
import type { VariantAnswer, VariantJob } from "./variant_main.ts";

export class VariantPool {
  readonly #directory: () => string | undefined;
  #pool: WorkerPool | undefined;

  /** @param directory of the run, when the first variant begins: it identifies the processes. */
  constructor(directory: () => string | undefined) {
    this.#directory = directory;
  }

  async run(
    lane: number,
    { one, run, claims, signal }: {
      readonly one: Prepared;
      readonly run: RunOptions;
      readonly claims: boolean;
      readonly signal?: AbortSignal | undefined;
    },
  ): Promise<JudgedVariant & { readonly one: Prepared }> {
    const runDirectory = this.#directory();
    const pool = this.#pool ??= new WorkerPool({
      module: "console/rack/variant_main.ts",
      programs: ["a variant"],
      flags: commandFlags(...LARGE_HEAP),
      ...(runDirectory !== undefined && { runDirectory }),
    });
    const { directory, trace = false, observe, check, delayMsMax = 0, onProgress } = run;
    const told = { run: run.run, directory, trace, observe, check, delayMsMax };
    const job: VariantJob = { one, run: told, claims };
    const { outcome, seen, ...judged } = await pool.ask<VariantAnswer, RunProgress>(lane, job, {
      ...(signal && { signal }),
      onProgress: (progress) => onProgress?.(...progress),
    });
    const scm = (host: string) =>
      survivedView(directory, host, { held: heldFor(host, seen?.reports ?? []) });
    const record = seen && { reports: seen.reports, lives: new Map(seen.lives), scm };
    return { ...judged, one, outcome: { ...outcome, ...(record && { record }) } };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool?.[Symbol.asyncDispose]();
  }
}
