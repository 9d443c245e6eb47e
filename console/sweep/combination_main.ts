/**
 * A process that runs combinations one after the other in itself, and answers with their reports.
 */
import { answerConfined, type Asker } from "../rack/own/answer.ts";
import { runScenario } from "../rack/run_scenario.ts";
import { plainly } from "../reports/json.ts";
import type { Reach } from "../scenarios/read_door.ts";
import { readScenario } from "../scenarios/scenario_source.ts";

export interface CombinationJob {
  readonly scenario: string;
  readonly reach: Reach;
  readonly directory: string;
  readonly input?: string | undefined;
  /** Native programs may run. */
  readonly isNative: boolean;
}

/** On the way: its share of the run, and each file that its scenario names, as it is read. */
export type CombinationTold = number | { readonly read: string };

async function run(
  { scenario, reach, directory, input, isNative }: CombinationJob,
  { tell }: Asker<CombinationTold>,
): Promise<unknown> {
  const onRead = (read: string) => tell({ read });
  const report = await runScenario(await readScenario(scenario, { ...reach, onRead }), {
    prepare: {
      packing: "all",
      ...(input !== undefined && { input }),
      ...(isNative && { native: { kind: "run" } }),
    },
    directory,
    // With a signal the rack lets the event loop run, in which this process hears that the command
    // has ended.
    signal: new AbortController().signal,
    onProgress: (_, share) => tell(share),
  });
  return JSON.parse(JSON.stringify(report, plainly));
}

if (import.meta.main) await answerConfined(run);
