import type { Command } from "commander";
import { EXIT } from "../../fabric/base/exit.ts";
import { formatTime } from "../../fabric/base/time.ts";
import { CLAIMS } from "../../console/api/options.ts";
import type { Verdicts, VerdictSoFar } from "../../console/api/replay.ts";
import { findUp } from "../../console/rack/live/racks.ts";
import { type Column, tableText } from "../../console/reports/table.ts";
import { inReplay } from "./clock.ts";
import { onInterrupt } from "./interrupt.ts";
import {
  addLiveOptions,
  addTable,
  type FlagsOf,
  type LiveFlags,
  readTable,
  timeOf,
  VARIANT_OPTION,
} from "./options.ts";
import { printResult } from "./output.ts";

const OPTIONS = { claims: CLAIMS };

type JudgeFlags = LiveFlags & FlagsOf<typeof OPTIONS> & {
  readonly at?: string;
  readonly variant?: string;
};

export function addJudge(program: Command): void {
  const command = addLiveOptions(program.command("judge"))
    .description("what the checks say so far of a rack that is up, or of a run up to a time")
    .option("--at <time>", "of the run: a time, like 2.5ms (default: the latest)")
    .option(...VARIANT_OPTION)
    .addHelpText("after", "\nExample:\n  rack kill b && rack judge --claims");
  addTable(command, OPTIONS).action(judge);
}

const COLUMNS: readonly Column<VerdictSoFar>[] = [
  { title: "check", value: ({ name }) => name },
  { title: "so far", value: ({ state }) => state },
  { title: "looked at", value: ({ looked }) => looked },
];

async function judge(flags: JudgeFlags): Promise<void> {
  const { variant } = flags;
  const given = flags.at === undefined ? undefined : timeOf("--at", flags.at);
  const query = readTable(OPTIONS, flags);
  const run = flags.run ?? (await findUp()).id;
  const target = { run, ...(variant !== undefined && { variant }) };
  const found = await inReplay(target, onInterrupt("ending the replay"), async (replay) => {
    return await replay.verdicts(given ?? (await replay.advance()).endPs, query);
  });
  printResult(flags, { run, ...found }, textOf(found));
  const isFailed = found.checks.some(({ state }) => state === "fails");
  const isJudged = found.checks.some(({ state }) => state === "holds");
  if (isFailed) Deno.exitCode = EXIT.failed;
  else if (!isJudged || found.unproved !== undefined) Deno.exitCode = EXIT.unclear;
}

function textOf({ at, unproved, checks }: Verdicts): string {
  return [
    `Before ${formatTime(at)}, SCM as a power failure of every host then leaves it:`,
    tableText(COLUMNS, checks),
    ...checks.flatMap(({ name, findings, mayBeMore }) => [
      ...findings.map(({ text }) => `${name}: ${text}`),
      ...(mayBeMore ? [`${name}: it has stopped there, there may be more`] : []),
    ]),
    "What comes later is not judged, nor whether programs come to their end.",
    ...(unproved === undefined ? [] : [`The replay is not proved to be the run: ${unproved}`]),
  ].join("\n");
}
