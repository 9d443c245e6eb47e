/**
 * `deno task seeds`: plays the property tests and the transport's programs with one seed after the
 * other.
 */
import { Command } from "commander";
import { resultsInOrder } from "../../console/base/at_once.ts";
import { explain } from "../../console/rack/failure.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import { interruptedCode, onInterrupt } from "../commands/interrupt.ts";
import { whole } from "../commands/options.ts";
import { addJobsOption, type JobsFlags, jobsOf } from "../commands/rack_options.ts";
import { print, say } from "../commands/output.ts";
import { type Bounded, runBounded } from "./bounded.ts";
import { lateText, limitOf, type Run, runTests, SEED_PERMISSIONS, timeText } from "./check.ts";
import type { TestCount } from "./count_tests.ts";

/** They take their seed from `RACKMESH_TEST_SEED`, and need no racks of processes. */
const FILES: readonly string[] = [
  "tests/seeds/properties_test.ts",
  "tests/seeds/transport_test.ts",
];

/** Of 32 bits, as fast-check takes it; the transport's too. */
const SEED_MOST = 2 ** 32 - 1;

export interface PlayedSeed {
  readonly seed: number;
  /** Undefined: it was not played to its end. */
  readonly count: TestCount | undefined;
  readonly time: string;
  /** Of `deno test`. */
  readonly text: string;
}

/** Aborting the signal ends those under way, and the seeds that were not played follow as such. */
export async function* playSeeds(
  seeds: readonly number[],
  { files, jobs, signal }: {
    readonly files: readonly string[];
    readonly jobs: number;
    readonly signal?: AbortSignal;
  },
): AsyncGenerator<PlayedSeed, void> {
  const work = (seed: number) => playSeed(seed, { files, signal });
  yield* resultsInOrder(seeds, { atOnce: jobs, work });
}

async function playSeed(
  seed: number,
  { files, signal }: {
    readonly files: readonly string[];
    readonly signal: AbortSignal | undefined;
  },
): Promise<PlayedSeed> {
  const unplayed = { seed, count: undefined, time: "", text: "" };
  if (signal?.aborted) return unplayed;
  const began = performance.now();
  let ended: Bounded | undefined;
  const run: Run = async (args) => {
    const env = { RACKMESH_TEST_SEED: `${seed}` };
    ended = await runBounded(Deno.execPath(), args, { ...limitOf(files.length), env, signal });
    return ended.success;
  };
  const count = await runTests({ args: SEED_PERMISSIONS }, files, run);
  const { isLate, text } = ended!;
  if (isLate && signal?.aborted) return unplayed;
  const late = isLate ? [lateText(`seed ${seed}`, text)] : [];
  const time = timeText(began, ended!);
  return { seed, count, time, text: [text, ...late].join("\n") };
}

interface Flags extends JobsFlags {
  readonly seeds: string;
  readonly from?: string;
  readonly json?: boolean;
}

async function seeds(flags: Flags): Promise<void> {
  const many = whole("--seeds", flags.seeds, { least: 1, most: 1_000_000 });
  const most = SEED_MOST - many + 1;
  const from = flags.from === undefined
    ? Math.min(most, crypto.getRandomValues(new Uint32Array(1))[0]!)
    : whole("--from", flags.from, { least: 0, most });
  const jobs = jobsOf(flags), signal = onInterrupt("ending what is under way");
  say(`seeds from ${from} on`);
  const all = Array.from({ length: many }, (_, i) => from + i);
  const verdicts: { readonly seed: number; readonly verdict: Verdict }[] = [];
  for await (const played of playSeeds(all, { files: FILES, jobs, signal })) {
    verdicts.push({ seed: played.seed, verdict: verdictOf(played) });
    sayPlayed(played);
  }
  const countOf = (of: Verdict) => verdicts.filter(({ verdict }) => verdict === of).length;
  const failed = countOf("failed"), unplayed = countOf("not played");
  const rest = unplayed > 0 ? `, ${unplayed} not played` : "";
  if (flags.json) print(JSON.stringify({ seeds: verdicts }));
  else print(`${many} seeds from ${from} on: ${countOf("ok")} ok, ${failed} failed${rest}`);
  if (failed > 0) Deno.exitCode = EXIT.failed;
}

type Verdict = "ok" | "failed" | "not played";

function verdictOf({ count }: PlayedSeed): Verdict {
  return count === undefined
    ? "not played"
    : count.failed === 0 && count.passed > 0
    ? "ok"
    : "failed";
}

function sayPlayed(played: PlayedSeed): void {
  const { seed, count, time, text } = played;
  if (count === undefined) return;
  const { passed, failed, failures } = count;
  if (verdictOf(played) === "ok") return say(`seed ${seed}: ok, ${passed} tests, ${time}`);
  say(`seed ${seed}: FAILED, ${passed} tests passed, ${failed} did not, ${time}\n${text}`);
  for (const failure of failures) say(`FAIL seed ${seed}: ${failure}`);
  say(`  deno task seeds --seeds 1 --from ${seed}`);
}

const command = addJobsOption(new Command("seeds"), "seeds")
  .description("Plays the property tests, and the transport's programs, with many seeds.")
  .option("--seeds <n>", "so many", "8")
  .option("--from <seed>", "the first one; else one is drawn")
  .option("--json", "one JSON document on stdout")
  .addHelpText(
    "after",
    "\nExit codes: 0 all passed; 1 one did not; 130 interrupted, and seeds were not played.\n" +
      "\nExample:\n  deno task seeds --seeds 100 --from 17",
  )
  .action(seeds);

if (import.meta.main) {
  try {
    await command.parseAsync(Deno.args, { from: "user" });
  } catch (error) {
    const { message, code } = explain(error);
    say(message);
    Deno.exitCode = code;
  }
  Deno.exit(interruptedCode() ?? Deno.exitCode);
}
