/** `rack pause`, `resume`, `step`, `until`, `pace`, `why`: the virtual time of a running rack. */
import type { Command } from "commander";
import { EXIT } from "../../fabric/rack/build/run_file.ts";
import type { ClockStatus } from "../../fabric/clock/clock_service.ts";
import { formatTime, parseTime, type Time } from "../../fabric/base/time.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { RackError } from "../../console/base/rack_error.ts";
import { clockDocument, clockText, whyText } from "../../console/rack/live/clock_text.ts";
import { refusedText } from "../../console/rack/refused.ts";
import { type RackLink, withRack } from "../../console/rack/live/racks.ts";
import {
  breakNamed,
  type Driven,
  type Goal,
  pause,
  resume,
  setPace,
  step,
  until,
} from "../../console/rack/live/virtual_time.ts";
import { whyOf } from "../../console/rack/live/why.ts";
import { finite } from "../../console/reports/json.ts";
import { type Column, tableText } from "../../console/reports/table.ts";
import { onInterrupt } from "./interrupt.ts";
import { addCaptureOptions, addLiveOptions, type LiveFlags, timeOf, whole } from "./options.ts";
import { printResult } from "./output.ts";
import type { ResumeFlags } from "./resume/resume.ts";

type UntilFlags = LiveFlags & { readonly count?: string };
type StepFlags = LiveFlags & { readonly time?: string; readonly events?: string };

export function addClock(program: Command): void {
  clockCommand(program, "pause", "stop virtual time; what is under way comes to an instant's end")
    .action((flags: LiveFlags) => drive(flags, ({ control }) => pause(control)));
  addResume(program);
  clockCommand(program, "step", "let a little happen, then stop: --time 1us or --events 10")
    .option("--time <span>", "so much virtual time from the next event on")
    .option("--events <n>", "so many instants at which something happens (1)")
    .action((flags: StepFlags) => drive(flags, ({ control }) => step(control, stepOf(flags))));
  clockCommand(
    program,
    "until <what...>",
    "run to a virtual time (2ms) or a step (S907, b-rnic:S907), whichever comes first",
  )
    .option("--count <n>", "of steps, not the first but the one of this number (1)")
    .action((goals: string[], flags: UntilFlags) => driveUntil(goals, flags));
  clockCommand(program, "pace <rate>", "virtual time per second of ours: 10us/s, or max")
    .action((rate: string, flags: LiveFlags) =>
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
  const command = clockCommand(
    program,
    "resume [id]",
    "resume virtual time at full speed; with a run, bring up a rack as it stood at a time of that run",
  )
    .option("--at <time>", "of the run: a time, like 2.5ms, or the name of a checkpoint")
    .option("--variant <name>", "of a run with several: its name, or its number from 1")
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

function refuseWithoutRun({ json: _, run: __, ...rest }: ResumeFlags): void {
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
  pace: "rack pace 10us/s\n  rack pace max",
  why: "rack why",
};

function clockCommand(program: Command, usage: string, description: string): Command {
  const example = EXAMPLES[usage.split(" ")[0]!]!;
  return addLiveOptions(program.command(usage)).description(description)
    .addHelpText("after", `\nExample:\n  ${example}`);
}

async function drive(
  flags: LiveFlags,
  order: (link: RackLink) => Promise<Driven>,
): Promise<void> {
  const { status, missed } = await withRack(flags.run, order);
  const { hits } = status;
  const document = {
    run: status.run,
    ...clockDocument(status),
    ...(missed && { missed }),
  };
  printResult(flags, document, [...hits.map(hitText), clockText(status)].join("\n"));
  if (missed !== undefined) throw new RackError(missed, EXIT.failed);
}

/** `b-rnic takes S907 at 190.76 us` */
function hitText({ node, step, atPs, count }: ClockStatus["hits"][number]): string {
  return `${node} takes ${step} at ${formatTime(atPs)}${count === 1 ? "" : `, time ${count}`}`;
}

function stepOf(flags: StepFlags): { readonly spanPs: Time } | { readonly events: number } {
  const { time, events = "1" } = flags;
  if (time !== undefined && flags.events !== undefined) {
    throw refusal("", { found: "--time and --events", expected: "one of them" });
  }
  if (time === undefined) return { events: whole("--events", events, { least: 1, most: 100_000 }) };
  const expected = "a span of time such as 500ns or 10us";
  return { spanPs: timeOf("--time", time, { least: 1, expected }) };
}

async function driveUntil(goals: readonly string[], flags: UntilFlags): Promise<void> {
  const times = goals.map((goal) => parseTime(goal)).filter((time) => time !== undefined);
  const steps = goals.filter((goal) => parseTime(goal) === undefined);
  const wrong = steps.find((step) => !/^(?:[\w-]+:)?[A-Za-z][\w-]*$/.test(step));
  if (wrong !== undefined) {
    const expected = "a time such as 2ms, or a step such as b-rnic:S907";
    throw refusal("", { found: `"${wrong}"`, expected });
  }
  const [time] = times;
  if (times.length > 1) throw refusal("", { found: `${times.length} times`, expected: "one" });
  const count = whole("--count", flags.count ?? "1", { least: 1, most: 1_000_000_000 });
  const breaks = steps.map((step) => ({ ...breakNamed(step), count }));
  const to: Goal = { breaks, ...(time !== undefined && { time }) };
  const signal = onInterrupt("pausing the rack");
  await drive(flags, ({ control }) => until(control, to, signal));
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
  const { status: { driven: _, ...status }, refused, inexact } = await withRack(flags.run, whyOf);
  const { next, limit } = status;
  const rows = status.why.map((row) => ({ ...row, next: finite(row.next) }));
  const document = {
    ...status,
    next: finite(next),
    limit: finite(limit),
    why: rows,
    refusals: refused,
    ...(inexact.length > 0 && { inexact }),
  };
  const table = tableText(COLUMNS, status.why);
  const text = [
    whyText(status),
    "",
    table,
    ...refusedText(refused),
    ...inexact.map((why) => `This run cannot be replayed exactly: ${why}`),
  ].join("\n");
  printResult(flags, document, text);
}
