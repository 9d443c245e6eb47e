/** `rack ps`: the processes of a rack that is up, and what time it is there. */
import type { Command } from "commander";
import { EXIT } from "../../fabric/rack/build/run_file.ts";
import type { ClockStatus } from "../../fabric/clock/clock_service.ts";
import { formatTime } from "../../fabric/base/time.ts";
import {
  isProcessOf,
  type ProcessEntry,
  readProcesses,
  residentBytes,
} from "../../console/rack/process_table.ts";
import { BusError } from "../../fabric/bus/bus.ts";
import { addRunOption, connectRack, findUp, RackLink, type RackUp, type RunFlag } from "./link.ts";
import { finite, print, table } from "../../console/base/output.ts";

/** A process as `ps` shows it. */
interface Row extends ProcessEntry {
  readonly alive: boolean;
  readonly residentBytes: number;
  /** What the timekeeper thinks of it: idle, running, dead …; null where it is not asked. */
  readonly status: string | null;
}

export function addPs(program: Command): void {
  addRunOption(program.command("ps"))
    .description("the processes of the rack that is up, and its virtual time")
    .option("--json", "one JSON document on stdout")
    .addHelpText("after", "\nExample:\n  rack ps --json")
    .action(async (flags: RunFlag & { json?: boolean }) => {
      Deno.exitCode = await ps(flags);
    });
}

async function ps(flags: RunFlag & { json?: boolean }): Promise<number> {
  const rack = await findUp(flags);
  const clock = await clockOf(rack);
  const rows = readProcesses(rack.directory).map((entry) => rowOf(entry, { rack, clock }));
  if (flags.json) print(JSON.stringify(document(rack, { rows, clock })));
  else print(text(rack, { rows, clock }));
  return EXIT.done;
}

const CLOCK_MS = 1_500;

/** Undefined where broker or timekeeper are away just now: the processes are shown all the same. */
async function clockOf(rack: RackUp): Promise<ClockStatus | undefined> {
  try {
    const bus = await connectRack(rack, CLOCK_MS);
    try {
      return await new RackLink(rack, bus).status(CLOCK_MS);
    } finally {
      await bus.close();
    }
  } catch (error) {
    if (error instanceof BusError) return undefined;
    throw error;
  }
}

function rowOf(entry: ProcessEntry, of: { rack: RackUp; clock: ClockStatus | undefined }): Row {
  const alive = isProcessOf(of.rack.directory, entry.pid);
  return {
    ...entry,
    alive,
    residentBytes: alive ? residentBytes(entry.pid!) : 0,
    status: of.clock?.why.find(({ partition }) => partition === entry.name)?.status ?? null,
  };
}

interface Seen {
  readonly rows: readonly Row[];
  readonly clock: ClockStatus | undefined;
}

function document(rack: RackUp, { rows, clock }: Seen): Record<string, unknown> {
  return {
    run: rack.id,
    directory: rack.directory,
    clock: clock === undefined ? null : {
      virtualPs: clock.now,
      nextPs: finite(clock.next),
      limitPs: finite(clock.limit),
      paused: clock.paused,
      finished: clock.finished,
      psPerSecond: clock.pace,
      events: clock.events,
      digest: clock.digest,
    },
    processes: rows,
  };
}

function text(rack: RackUp, { rows, clock }: Seen): string {
  const lines = table(
    ["name", "kind", "pid", "state", "MB", "devices"],
    rows.map(({ name, kind, pid, alive, residentBytes, status, nodes }) => [
      name,
      kind,
      alive ? String(pid) : "",
      alive ? status ?? "up" : status === "dead" ? "no power" : "gone",
      alive ? (residentBytes / 1e6).toFixed(0) : "",
      nodes.join(" "),
    ]),
  );
  return `${rack.id}: ${
    clock === undefined ? "the clock does not answer" : clockText(clock)
  }\n${lines}`;
}

/** `1.2 ms, paused, next event at 1.3 ms` */
export function clockText(clock: ClockStatus): string {
  return [formatTime(clock.now), ...heldBy(clock), nextText(clock)].join(", ");
}

function nextText({ now, next }: ClockStatus): string {
  if (next === Infinity) return "nothing is to happen";
  // Some are ahead of others, and the rack's time is that of the one that is furthest.
  return next < now ? "under way" : `next event at ${formatTime(next)}`;
}

/** What keeps time from moving though something is to happen, in words; none where nothing does. */
export function heldBy(clock: ClockStatus): string[] {
  if (clock.finished) return ["finished"];
  if (clock.paused) return ["paused"];
  if (clock.pace > 0) return [`at a pace of ${formatTime(clock.pace)} a second`];
  if (clock.next >= clock.limit && clock.limit !== Infinity) {
    return [`held at ${formatTime(clock.limit)}`];
  }
  return [];
}
