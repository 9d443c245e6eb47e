/** Finding a rack that is up, and talking to its clock and its supervisor over the bus. */
import type { Command } from "commander";
import { type Bus, BusError } from "../../fabric/bus/bus.ts";
import { decode, encode } from "../../fabric/bus/codec.ts";
import { connectNats } from "../../fabric/bus/nats_bus.ts";
import { subjectOf } from "../../fabric/bus/subjects.ts";
import type { RunFile } from "../../fabric/rack/build/run_file.ts";
import type { ClockStatus } from "../../fabric/clock/clock_service.ts";
import {
  listRuns,
  readEnd,
  readSupervisor,
  type RunRow,
  type SupervisorFile,
} from "../../console/rack/run_directory.ts";
import { ExitError, UsageError } from "../../console/rack/failure.ts";

/** What every command on a rack takes. */
export interface RunFlag {
  readonly run?: string;
}

export function addRunOption(command: Command): Command {
  return command.option("--run <id>", "which run, or how its name begins; else the one that is up");
}

/** A rack that is up. */
export interface RackUp {
  readonly id: string;
  readonly directory: string;
  readonly file: RunFile;
  readonly supervisor: SupervisorFile;
}

/**
 * The run of that name.
 * @param said what stands before it on the command line.
 * @throws UsageError where there is none, or more than one.
 */
export async function findRun(id: string, said = "--run"): Promise<RunRow> {
  const rows = await listRuns();
  const found = rows.filter((row) => row.id === id);
  const begun = found.length > 0 ? found : rows.filter((row) => row.id.startsWith(id));
  if (begun.length === 1) return begun[0]!;
  const known = (begun.length > 1 ? begun : rows).map((row) => row.id).slice(0, 8).join(", ");
  const expected = known === "" ? "there are no runs" : `expected one of ${known}`;
  throw new UsageError(`${said} is "${id}": ${begun.length} runs are called so; ${expected}`);
}

/** The rack that is meant. @throws UsageError where it is not up, or none or several are. */
export async function findUp({ run }: RunFlag): Promise<RackUp> {
  if (run !== undefined) {
    const row = await findRun(run);
    if (!row.up) throw new UsageError(`${row.id} is not up: rack up SCENARIO brings a rack up`);
    return await openRack(row);
  }
  const rows = (await listRuns()).filter((row) => row.up);
  if (rows.length === 1) return await openRack(rows[0]!);
  throw new UsageError(
    rows.length === 0
      ? "No rack is up: rack up SCENARIO brings one up"
      : `${rows.length} racks are up: expected --run with one of ${listed(rows)}`,
  );
}

/** Names of runs, for a message. */
export function listed(rows: readonly RunRow[]): string {
  return rows.map(({ id }) => id).join(", ");
}

async function openRack(row: RunRow): Promise<RackUp> {
  const supervisor = await readSupervisor(row.path);
  if (supervisor === undefined) throw goneDown(row.id, row.path);
  const file: RunFile = JSON.parse(await Deno.readTextFile(`${row.path}/run.json`));
  return { id: row.id, directory: row.path, file, supervisor };
}

/** A rack that was up a moment ago; with the reason, where it ended by itself. */
export function goneDown(id: string, directory: string): Error {
  const end = readEnd(directory);
  if (end === undefined) return new UsageError(`${id} has just gone down`);
  return new ExitError(`${id} has just gone down: ${end.message}`, end.code);
}

const CONNECT_TIMEOUT_MS = 10_000;
const ASK_TIMEOUT_MS = 1_000;
const ASK_FOR_MS = 10_000;
const ASK_AGAIN_MS = 50;

/** A connection to a rack that is up. */
export class RackLink {
  readonly rack: RackUp;
  readonly bus: Bus;

  constructor(rack: RackUp, bus: Bus) {
    this.rack = rack;
    this.bus = bus;
  }

  /**
   * Asks, and again while nobody is there to listen (a timekeeper or broker that is being started).
   * @param options.repeats whether an unanswered question may be asked again: it may have been heard.
   * @throws UsageError with the reason where the answer is a refusal; BusError without an answer.
   */
  async ask(
    verb: string,
    body: unknown,
    options: { readonly repeats?: boolean; readonly forMs?: number } = {},
  ): Promise<Readonly<Record<string, unknown>>> {
    const subject = subjectOf({ kind: "control", run: this.rack.file.run, verb });
    const deadline = performance.now() + (options.forMs ?? ASK_FOR_MS);
    for (;;) {
      try {
        const payload = await this.bus.request(subject, encode(body), {
          timeoutMs: ASK_TIMEOUT_MS,
        });
        const answer = (decode(payload) ?? {}) as Record<string, unknown>;
        const refusal = answer["error"] ?? answer["refusal"];
        if (refusal === undefined || answer["busy"] === true) return answer;
        throw new UsageError(`Cannot ${verb}: ${refusal}`);
      } catch (error) {
        if (!(error instanceof BusError)) throw error;
        const again = error.kind === "no-responders" || options.repeats === true;
        if (!again || performance.now() > deadline) throw error;
      }
      await sleep(ASK_AGAIN_MS);
    }
  }

  async status(forMs?: number): Promise<ClockStatus> {
    const options = { repeats: true, ...(forMs !== undefined && { forMs }) };
    return await this.ask("status", {}, options) as unknown as ClockStatus;
  }

  /** Looks until it is so. @throws BusError where the clock stops answering. */
  async waitFor(isSo: (status: ClockStatus) => boolean, everyMs = 20): Promise<ClockStatus> {
    for (;;) {
      const status = await this.status();
      if (isSo(status)) return status;
      await sleep(everyMs);
    }
  }
}

/** Does something with a rack that is up. */
export async function withRack<T>(
  flags: RunFlag,
  action: (link: RackLink) => Promise<T>,
): Promise<T> {
  const rack = await findUp(flags);
  const bus = await connectRack(rack);
  try {
    return await action(new RackLink(rack, bus));
  } finally {
    await bus.close();
  }
}

/** @throws BusError where the broker does not answer. */
export function connectRack(rack: RackUp, timeoutMs = CONNECT_TIMEOUT_MS): Promise<Bus> {
  const { url, user, password, token } = rack.supervisor;
  return connectNats({
    url,
    ...(user !== undefined && { user }),
    ...(password !== undefined && { password }),
    ...(token !== undefined && { token }),
    run: rack.file.run,
    name: `command-${Deno.pid}`,
    onError: () => {},
    connectTimeoutMs: timeoutMs,
  });
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
