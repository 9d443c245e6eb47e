import type { Command } from "commander";
import { EXIT } from "../../fabric/base/exit.ts";
import type { ClockStatus } from "../../fabric/clock/clock_service.ts";
import { formatTime, parseTime, type Time } from "../../fabric/base/time.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import {
  goalText,
  occurrenceText,
  parseGoal,
  predicateText,
} from "../../fabric/trace/predicate.ts";
import { STEP_WORDS } from "../../fabric/trace/step_words.ts";
import { STEP_OPTIONS } from "../../console/api/options.ts";
import { RackError } from "../../console/base/rack_error.ts";
import { waitText } from "../../console/checks/programs.ts";
import { clockDocument, clockText, whyText } from "../../console/rack/live/clock_text.ts";
import { refusedText } from "../../console/rack/refused.ts";
import { findUp, type RackLink, withRack } from "../../console/rack/live/racks.ts";
import {
  type Driven,
  pause,
  resume,
  setPace,
  step,
  until,
} from "../../console/rack/live/virtual_time.ts";
import type { Replay } from "../../console/replay/client.ts";
import type { EventRow } from "../../console/api/replay.ts";
import type { ReplayTarget } from "../../console/replay/source.ts";
import { whereStopped, whereText } from "../../console/replay/where.ts";
import { finite } from "../../console/reports/json.ts";
import { type Column, tableText } from "../../console/reports/table.ts";
import { onInterrupt } from "./interrupt.ts";
import {
  addCaptureOptions,
  addLiveOptions,
  addLockOption,
  addTable,
  type FlagsOf,
  type LiveFlags,
  type OrderFlags,
  readTable,
  timeOf,
  VARIANT_OPTION,
} from "./options.ts";
import { printResult, say } from "./output.ts";
import type { ResumeFlags } from "./resume/resume.ts";

type UntilFlags = OrderFlags & { readonly count?: string; readonly replay: boolean };
type FindFlags = Omit<UntilFlags, "overrideLock"> & {
  readonly after?: string;
  readonly variant?: string;
};
type StepFlags = OrderFlags & FlagsOf<typeof STEP_OPTIONS> & { readonly time?: string };

export function addClock(program: Command): void {
  orderCommand(program, "pause", "stop virtual time; what is under way comes to an instant's end")
    .action((flags: OrderFlags) => drive(flags, ({ control }) => pause(control)));
  addResume(program);
  const stepped = orderCommand(
    program,
    "step",
    "let a little happen, then stop: --time 1us or --events 10",
  );
  addTable(stepped, STEP_OPTIONS)
    .option("--time <span>", "so much virtual time from the next event on")
    .action((flags: StepFlags) => drive(flags, ({ control }) => step(control, stepOf(flags))));
  orderCommand(
    program,
    "until <what...>",
    "run to a virtual time (2ms) or a step (S907, b-rnic:S907), whichever comes first",
  )
    .option("--count <n>", "which occurrence of a step: 20 for the 20th (default: the first)")
    .option("--no-replay", "do not replay the run to say exactly which step it was")
    .action((goals: string[], flags: UntilFlags) => driveUntil(goals, flags));
  clockCommand(
    program,
    "find <what...>",
    "the instant of a step in the past of a run, in the words of rack until",
  )
    .option("--count <n>", "which occurrence: 20 for the 20th (default: the first)")
    .option("--after <time>", "count those after this virtual time")
    .option(...VARIANT_OPTION)
    .addHelpText("after", wordsText())
    .action((words: string[], flags: FindFlags) => find(words, flags));
  orderCommand(
    program,
    "pace <rate>",
    "virtual time per second of ours, until another pace: 10us/s, or max",
  )
    .action((rate: string, flags: OrderFlags) =>
      drive(flags, ({ control }) => setPace(control, paceOf(rate)))
    );
  clockCommand(
    program,
    "why",
    "why time does not move: the processes that it waits for, and since when",
  )
    .action(why);
}

/** Without a run, of time; with one, of a rack at an instant of it. */
function addResume(program: Command): void {
  const command = orderCommand(
    program,
    "resume [id]",
    "resume virtual time, at the pace set last; with a run, bring up a rack as it stood at a time of that run",
  )
    .option("--at <time>", "of the run: a time, like 2.5ms, or the name of a checkpoint")
    .option(...VARIANT_OPTION)
    .option("--go", "let time run; else the rack is paused there")
    .option("--trace", "keep every step of every operation in the run's directory")
    .action(async (id: string | undefined, flags: ResumeFlags) => {
      if (id === undefined) {
        refuseWithoutRun(flags);
        return await drive(flags, ({ control }) => resume(control));
      }
      if (flags.run !== undefined) {
        throw refusal("", { found: `--run and ${id}`, expected: "one of them" });
      }
      const { bringUpAt } = await import("./resume/resume.ts");
      await bringUpAt(id, flags);
    });
  addCaptureOptions(command, "; written by rack down");
}

function refuseWithoutRun({ json: _, run: __, overrideLock: ___, ...rest }: ResumeFlags): void {
  const [option] = Object.keys(rest);
  if (option === undefined) return;
  const expected = "it behind the run that is resumed: rack resume RUN --at 2.5ms";
  throw refusal("", { found: `--${option} without a run`, expected });
}

const EXAMPLES: Readonly<Record<string, string>> = {
  pause: "rack pause && rack ps",
  resume: "rack resume\n  rack resume persist-pair-2026 --at 2.5ms",
  step: "rack step --time 500ns\n  rack step --events 10",
  until: "rack until 2ms\n  rack until b-rnic:S907\n  rack until qp-err 10ms",
  find: "rack find b-rnic:S907 --count 20\n  rack find qp-err --run persist-pair-2026",
  pace: "rack pace 10us/s\n  rack pace max",
  why: "rack why",
};

function clockCommand(program: Command, usage: string, description: string): Command {
  const example = EXAMPLES[usage.split(" ")[0]!]!;
  return addLiveOptions(program.command(usage)).description(description)
    .addHelpText("after", `\nExample:\n  ${example}`);
}

function orderCommand(program: Command, usage: string, description: string): Command {
  return addLockOption(clockCommand(program, usage, description));
}

async function drive(
  flags: OrderFlags,
  order: (link: RackLink) => Promise<Driven>,
  where?: (status: ClockStatus) => Promise<EventRow[] | undefined>,
): Promise<void> {
  const { status, missed } = await withRack(flags.run, order, flags);
  const found = await where?.(status);
  const document = {
    run: status.run,
    ...clockDocument(status),
    ...(missed && { missed }),
    ...(found && { found }),
  };
  const hits = found?.map(whereText) ?? status.hits.map(hitText);
  printResult(flags, document, [...hits, clockText(status)].join("\n"));
  if (missed !== undefined) throw new RackError(missed, EXIT.failed);
}

function hitText({ node, step, atPs, count }: ClockStatus["hits"][number]): string {
  return `${node} takes ${step} at ${formatTime(atPs)}${occurrenceText(count)}`;
}

function stepOf(flags: StepFlags): { readonly spanPs: Time } | { readonly events: number } {
  const { time } = flags;
  if (time !== undefined && flags.events !== undefined) {
    throw refusal("", { found: "--time and --events", expected: "one of them" });
  }
  if (time === undefined) {
    return { events: STEP_OPTIONS.events.normal, ...readTable(STEP_OPTIONS, flags) };
  }
  const expected = "a span of time such as 500ns or 10us";
  return { spanPs: timeOf("--time", time, { least: 1, expected }) };
}

async function driveUntil(goals: readonly string[], flags: UntilFlags): Promise<void> {
  const to = parseGoal(goals, flags);
  const signal = onInterrupt("pausing the rack");
  await drive(flags, ({ control }) => until(control, to, signal), async (status) => {
    if (!flags.replay || status.hits.length === 0) return undefined;
    return await inReplay({ run: status.run }, signal, (replay) => whereStopped(replay, status))
      .catch((error) => {
        signal.throwIfAborted();
        say(`The run cannot be replayed to say which step it was: ${(error as Error).message}`);
        return undefined;
      });
  });
}

/** @param ask while the replay is open. */
export async function inReplay<T>(
  target: ReplayTarget,
  signal: AbortSignal,
  ask: (replay: Replay) => Promise<T>,
): Promise<T> {
  const { Replay } = await import("../../console/replay/client.ts");
  const replay = await Replay.open(target, { signal });
  const { unknownEnd } = replay;
  if (unknownEnd !== "") say(`${target.run}: ${unknownEnd}`);
  try {
    return await ask(replay);
  } finally {
    await replay.close();
  }
}

async function find(words: readonly string[], flags: FindFlags): Promise<void> {
  const { breaks, time } = parseGoal(words, flags), { variant } = flags;
  if (breaks.length === 0) throw refusal("", { found: "a time", expected: "a step of a device" });
  const run = flags.run ?? (await findUp()).id;
  const after = flags.after === undefined ? undefined : timeOf("--after", flags.after);
  const terms = {
    ...(after !== undefined && { after }),
    ...(time !== undefined && { atPs: time }),
  };
  const target = { run, ...(variant !== undefined && { variant }) };
  const rows = await inReplay(target, onInterrupt("ending the replay"), async (replay) => {
    const found: (EventRow | null)[] = [];
    for (const each of breaks) found.push(await replay.find({ ...each, ...terms }));
    return found.filter((row) => row !== null);
  });
  const [first] = rows.sort((x, y) => x.time - y.time);
  if (first !== undefined || flags.json) {
    printResult(flags, { run, event: first ?? null }, first ? whereText(first) : "");
  }
  if (first !== undefined) return;
  throw new RackError(`${goalText({ breaks })} has not happened in ${run}`, EXIT.failed);
}

function wordsText(): string {
  const words = Object.keys(STEP_WORDS), width = Math.max(...words.map((word) => word.length));
  const rows = words.map((step) => `  ${step.padEnd(width)}  ${predicateText({ step })}`);
  return `\nA step is a number of the documents (S907, 4504), / and a part of its text, or a word:\n${
    rows.join("\n")
  }`;
}

function paceOf(rate: string): number {
  if (rate === "max") return 0;
  const expected = "a rate such as 10us/s, or max";
  const psPerSecond = parseTime(rate.replace(/\/s$/, ""));
  if (psPerSecond !== undefined && psPerSecond > 0) return psPerSecond;
  throw refusal("The pace", { found: `"${rate}"`, expected });
}

type WhyRow = ClockStatus["why"][number];

const COLUMNS: readonly Column<WhyRow>[] = [
  { title: "process", value: ({ partition }) => partition },
  { title: "state", value: ({ status }) => status === "dead" ? "no power" : status },
  {
    title: "for",
    value: ({ sinceMs }) => sinceMs,
    text: ({ sinceMs }) => `${(sinceMs / 1_000).toFixed(1)} s`,
  },
  { title: "next event", value: ({ next }) => formatTime(next) },
  { title: "last event", value: ({ now }) => formatTime(now) },
  { title: "waits for", value: ({ heldBy }) => heldBy },
];

async function why(flags: LiveFlags): Promise<void> {
  // It looks into reports as a run's summary does, which the other commands here need nothing of.
  const { cardWarnings, waitingPrograms, whyOf } = await import("../../console/rack/live/why.ts");
  const { status: { driven: _, ...status }, refused, inexact, programs, warnings } = await withRack(
    flags.run,
    async (link) => {
      const why = await whyOf(link);
      const [programs, warnings] = await Promise.all([
        waitingPrograms(link, why.status),
        cardWarnings(link, why.status),
      ]);
      return { ...why, programs, warnings };
    },
    { as: "viewer" },
  );
  const { next, limit } = status;
  const rows = status.why.map((row) => ({ ...row, next: finite(row.next) }));
  const document = {
    ...status,
    next: finite(next),
    limit: finite(limit),
    why: rows,
    programs,
    warnings,
    refusals: refused,
    ...(inexact.length > 0 && { inexact }),
  };
  const table = tableText(COLUMNS, status.why);
  const text = [
    whyText(status),
    "",
    table,
    ...programs.map((each) => `${each.host}: ${each.program} ${waitText(each)}`),
    ...warnings.map(({ card, atPs, message }) => `${card} at ${formatTime(atPs)}: ${message}`),
    ...refusedText(refused),
    ...inexact.map((why) => `This run cannot be replayed exactly: ${why}`),
  ].join("\n");
  printResult(flags, document, text);
}
