/** `rack pause`, `resume`, `step`, `until`, `pace`, `why`: the virtual time of a rack that is up. */
import type { Command } from "commander";
import { EXIT } from "../../fabric/rack/build/run_file.ts";
import type { ClockStatus } from "../../fabric/clock/clock_service.ts";
import { formatTime, parseTime, type Time } from "../../fabric/base/time.ts";
import { ExitError, UsageError } from "../../console/rack/failure.ts";
import { onInterrupt } from "../../console/base/interrupt.ts";
import { addRunOption, type RackLink, type RunFlag, withRack } from "./link.ts";
import { finite, print, table } from "../../console/base/output.ts";
import { clockText, heldBy } from "./ps.ts";
import { whole } from "./run.ts";

interface ClockFlags extends RunFlag {
  readonly json?: boolean;
}

type StepFlags = ClockFlags & { readonly time?: string; readonly events?: string };

export function addClock(program: Command): void {
  clockCommand(program, "pause", "stop virtual time; what is under way comes to an instant's end")
    .action((flags: ClockFlags) => drive(flags, pause));
  clockCommand(program, "resume", "let virtual time go on, as fast as it can")
    .action((flags: ClockFlags) => drive(flags, resume));
  clockCommand(program, "step", "let a little happen, then stop: --time 1us or --events 10")
    .option("--time <span>", "so much virtual time from the next event on")
    .option("--events <n>", "so many instants at which something happens (1)")
    .action((flags: StepFlags) => drive(flags, (link) => step(link, flags)));
  clockCommand(
    program,
    "until <what>",
    "go on to a virtual time (2ms) or a step (S907, b-rnic:S907)",
  )
    .action((what: string, flags: ClockFlags) => drive(flags, (link) => until(link, what)));
  clockCommand(program, "pace <rate>", "virtual time per second of ours: 10us/s, or max")
    .action((rate: string, flags: ClockFlags) => drive(flags, (link) => pace(link, rate)));
  clockCommand(program, "why", "why is time not moving? whom it waits for, since when")
    .action(async (flags: ClockFlags) => {
      Deno.exitCode = await withRack(flags, (link) => why(link, flags));
    });
}

const EXAMPLES: Readonly<Record<string, string>> = {
  pause: "rack pause && rack ps",
  resume: "rack resume",
  step: "rack step --time 500ns\n  rack step --events 10",
  until: "rack until 2ms\n  rack until b-rnic:S907",
  pace: "rack pace 10us/s\n  rack pace max",
  why: "rack why",
};

function clockCommand(program: Command, usage: string, description: string): Command {
  const example = EXAMPLES[usage.split(" ")[0]!]!;
  return addRunOption(program.command(usage)).description(description)
    .option("--json", "one JSON document on stdout")
    .addHelpText("after", `\nExample:\n  ${example}`);
}

/** What an order has led to; `missed` where it was not what was asked for. */
interface Driven {
  readonly status: ClockStatus;
  readonly missed?: string;
}

async function drive(
  flags: ClockFlags,
  order: (link: RackLink) => Promise<Driven>,
): Promise<void> {
  const { status, missed } = await withRack(flags, order);
  const { now, next, limit, paused, finished, pace, digest, events } = status;
  const document = {
    run: status.run,
    virtualPs: now,
    nextPs: finite(next),
    limitPs: finite(limit),
    paused,
    finished,
    psPerSecond: pace,
    digest,
    events,
    ...(missed !== undefined && { missed }),
  };
  print(flags.json ? JSON.stringify(document) : clockText(status));
  if (missed !== undefined) throw new ExitError(missed, EXIT.failed);
  Deno.exitCode = EXIT.done;
}

async function pause(link: RackLink): Promise<Driven> {
  await link.ask("pause", {}, { repeats: true });
  return { status: await link.waitFor(isAtRest) };
}

async function resume(link: RackLink): Promise<Driven> {
  await link.ask("resume", {}, { repeats: true });
  return { status: await link.status() };
}

async function step(link: RackLink, flags: StepFlags): Promise<Driven> {
  if (flags.time !== undefined && flags.events !== undefined) {
    throw new UsageError("--time and --events: expected one of them");
  }
  let left = flags.events === undefined
    ? 1
    : whole("--events", flags.events, { least: 1, most: 100_000 });
  const ps = flags.time === undefined ? undefined : spanOf("--time", flags.time);
  let status = await pauseFirst(link);
  while (left-- > 0 && status.next !== Infinity) {
    await link.ask("step", ps === undefined ? {} : { ps });
    status = await link.waitFor((now) => isAtRest(now) && hasCome(now), 2);
  }
  return { status };
}

/** A step is from where everything stands still. */
async function pauseFirst(link: RackLink): Promise<ClockStatus> {
  const status = await link.status();
  if (isAtRest(status) && (status.paused || hasCome(status))) return status;
  return (await pause(link)).status;
}

async function until(link: RackLink, what: string): Promise<Driven> {
  const time = parseTime(what);
  if (time === undefined && !/^(?:[\w-]+:)?[A-Za-z][\w-]*$/.test(what)) {
    throw new UsageError(`"${what}": expected a time such as 2ms, or a step such as b-rnic:S907`);
  }
  const { now } = await link.status();
  if (time !== undefined && time <= now) {
    throw new UsageError(`${formatTime(time)} is past: it is ${formatTime(now)}`);
  }
  onInterrupt("until", () => link.ask("pause", {}, { forMs: 1_000 }).catch(() => {}), {
    says: "pausing the rack",
  });
  if (time !== undefined) {
    await link.ask("resume", { until: time });
    return { status: await link.waitFor((status) => isAtRest(status) && hasCome(status)) };
  }
  await link.ask("resume", { stopOn: what });
  const status = await link.waitFor((now) =>
    isAtRest(now) && (now.paused || now.finished || now.next === Infinity)
  );
  if (status.paused) return { status };
  await link.ask("resume", {});
  return { status, missed: `Nothing more is to happen, and ${what} has not happened` };
}

async function pace(link: RackLink, rate: string): Promise<Driven> {
  const psPerSecond = rate === "max" ? 0 : parseTime(rate.replace(/\/s$/, ""));
  if (psPerSecond === undefined || (psPerSecond === 0 && rate !== "max")) {
    throw new UsageError(`The pace is "${rate}": expected a rate such as 10us/s, or max`);
  }
  await link.ask("pace", { psPerSecond }, { repeats: true });
  return { status: await link.status() };
}

function spanOf(what: string, text: string): Time {
  const ps = parseTime(text);
  if (ps !== undefined && ps > 0) return ps;
  throw new UsageError(`${what} is "${text}": expected a span of time such as 500ns or 10us`);
}

function isAtRest(status: ClockStatus): boolean {
  return status.why.every((row) => row.status !== "running");
}

/** Everything before the limit has happened. */
function hasCome(status: ClockStatus): boolean {
  return status.next >= status.limit || status.next === Infinity || status.finished;
}

async function why(link: RackLink, flags: ClockFlags): Promise<number> {
  const status = await link.status();
  if (flags.json) {
    const rows = status.why.map((row) => ({ ...row, next: finite(row.next) }));
    print(
      JSON.stringify({
        ...status,
        next: finite(status.next),
        limit: finite(status.limit),
        why: rows,
      }),
    );
    return EXIT.done;
  }
  print(`${reason(status)}\n`);
  print(table(
    ["process", "state", "for", "next event", "last event", "waits for"],
    status.why.map(({ partition, status, sinceMs, next, now, heldBy }) => [
      partition,
      status === "dead" ? "no power" : status,
      `${(sinceMs / 1_000).toFixed(1)} s`,
      formatTime(next),
      formatTime(now),
      heldBy,
    ]),
  ));
  return EXIT.done;
}

/** One sentence: whether time moves, and if not, because of whom. */
function reason(status: ClockStatus): string {
  const time = `Virtual time is ${formatTime(status.now)}`;
  const held = heldBy(status);
  if (held.length > 0) return `${time}: ${held[0]}.`;
  const absent = status.why.filter((row) => row.status === "absent" || row.status === "unknown");
  if (absent.length > 0) {
    return `${time}: it waits for the process of ${absent.map((row) => row.partition).join(", ")}.`;
  }
  if (status.next === Infinity) return `${time}: nothing is to happen, everybody is idle.`;
  const slow = status.why.filter((row) => row.status === "running")
    .toSorted((x, y) => y.sinceMs - x.sinceMs)[0];
  return slow === undefined
    ? `${time}: it moves, next event at ${formatTime(status.next)}.`
    : `${time}: ${slow.partition} runs since ${Math.round(slow.sinceMs)} ms.`;
}
