import type { Command } from "commander";
import { isOwnProgram } from "../../../fabric/rack/scenario/parse_scenario.ts";
import { PACKINGS } from "../../../fabric/rack/assembly/topology.ts";
import { SWEEP_OPTIONS } from "../../../console/api/options.ts";
import { EXIT } from "../../../fabric/base/exit.ts";
import { countOf } from "../../../console/checks/finding.ts";
import { labelOf } from "../../../console/sweep/combinations.ts";
import { measuredSweep } from "../../../console/sweep/kept.ts";
import { checkOutputs } from "../../../console/sweep/outputs.ts";
import { runSweep } from "../../../console/sweep/run_sweep.ts";
import { interruptedCode, onInterrupt } from "../interrupt.ts";
import { addTable, given, readTable, wordOf } from "../options.ts";
import {
  addAllowRead,
  addAtOnceOptions,
  addCheckOption,
  addPackOption,
  type AllowReadFlag,
  type AtOnceFlags,
  atOnceOf,
  checkedScenario,
  type CheckFlags,
} from "../rack_options.ts";
import { Progress, say } from "../output.ts";
import { addPictureOptions, FIGURES, type PictureFlags, show } from "./picture.ts";

const LIMIT = { limit: SWEEP_OPTIONS.limit };

interface SweepFlags extends PictureFlags, CheckFlags, AtOnceFlags, AllowReadFlag {
  readonly vary?: readonly string[];
  readonly input?: string;
  readonly pack: string;
  readonly limit?: string;
}

const NAMES = `
NAME is the path of a word, such as hosts.b.ddio, fabric.mtu, programs[0].depth or seed; * stands for every key
or number in its place. The end of a path is enough where only one place has it: depth. VALUEs are written as
in the scenario; 1..10 stands for ten whole numbers.`;

export function addSweep(program: Command): void {
  const sweep = program.command("sweep <scenario>")
    .description("run a scenario with every combination of values, and compare the figures")
    .option(
      "--vary <name=values>",
      "a word of the scenario, and its values: depth=1,4,16; again for another",
      (text: string, before: readonly string[] = []) => [...before, text],
    )
    .option("--input <file>", "the file that `put` writes");
  addTable(addAllowRead(sweep), LIMIT);
  addPackOption(sweep, { normal: "all" });
  addPictureOptions(addCheckOption(addAtOnceOptions(sweep, "combinations")))
    .addHelpText(
      "after",
      `${NAMES}\n${FIGURES}

A combination runs in one process, or, with --pack node, as processes that all share which have the same devices
and cables. The sweep is kept: rack plot draws it again. A combination
that fails, loses data or comes to no end says so in its row, and the exit code is 1.

Example:
  rack sweep scripts/scenarios/persist_pair.yaml --input ./data.bin \\
    --vary depth=1,4,16 --vary ddio=on,off --plot latency.svg
  rack sweep scripts/scenarios/incast.yaml --vary 'programs[*].depth=1,2,4,8' --y throughput`,
    ).action(runIt);
}

/** Programs of one's own among the values: `programs[0].program=./a.ts,./b.ts`. */
function variedPrograms(vary: readonly string[]): string[] {
  return vary.flatMap((text) => text.slice(text.indexOf("=") + 1).split(",")).filter(isOwnProgram);
}

async function runIt(path: string, flags: SweepFlags): Promise<void> {
  const { vary = [], input, plot, csv, json: quiet = false } = flags;
  checkOutputs({ plot, csv });
  const { limit = LIMIT.limit.normal } = readTable(LIMIT, flags);
  const packing = wordOf("--pack", flags.pack, PACKINGS), atOnce = atOnceOf(flags, packing);
  const scenario = await checkedScenario(path, flags, variedPrograms(vary));
  const progress = new Progress({ quiet });
  const sweep = await runSweep(scenario, {
    vary,
    native: { kind: "run", onNotice: quiet ? () => {} : say },
    limitMs: limit * 1_000,
    ...{ packing, ...atOnce, ...given({ input }) },
    signal: onInterrupt("ending the combinations that run"),
    onCount: ({ count, jobs }) => {
      if (!quiet) say(`${countOf(count, "combination")}, ${jobs} at a time`);
    },
    onProgress: (title, share) => progress.show(title, share),
  }).finally(() => progress.clear());
  const { run, combinations, wallMs } = sweep;
  const kept = measuredSweep(sweep);
  const done = combinations.filter(({ state }) => state === "done").length;
  const failed = combinations.filter(({ state }) => state === "failed").length;
  const unchecked = combinations.filter(({ state }) => state === "unchecked").length;
  if (failed > 0) Deno.exitCode = EXIT.failed;
  else if (unchecked > 0) Deno.exitCode = EXIT.unclear;
  for (const { state, values, error } of combinations) {
    if (state === "failed") say(`FAIL ${labelOf(values)}: ${error}`);
    if (state === "unchecked") say(`unchecked ${labelOf(values)}: ${error}`);
  }
  const isWhole = interruptedCode() === undefined;
  const { dimensions, points } = kept.measured;
  const left = combinations.length - done - failed - unchecked;
  const counts = [
    `${done} of ${combinations.length} done`,
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(unchecked > 0 ? [`${unchecked} unchecked`] : []),
    ...(left > 0 ? [`${left} not run to the end`] : []),
  ];
  say(
    `${counts.join(", ")} in ${(wallMs / 1_000).toFixed(1)} s; rack plot ${run} draws them again`,
  );
  // A name that is none is refused here: by then it has been said how to go on.
  await show(kept, {
    flags: isWhole ? flags : { ...flags, plot: undefined, csv: undefined },
    document: { ...sweep, dimensions, points },
  });
}
