/** Racks that are up, and runs by name: how they are found, and how they are reached. */
import type { Bus } from "../../../fabric/bus/bus.ts";
import { connectNats } from "../../../fabric/bus/nats_bus.ts";
import type { RunFile } from "../../../fabric/rack/build/run_file.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { ExitError } from "../failure.ts";
import {
  listRuns,
  readEnd,
  readSupervisor,
  type RunRow,
  type SupervisorFile,
} from "../run_directory.ts";
import { ControlClient } from "./control.ts";

/** A rack that is up. */
export interface RackUp {
  readonly id: string;
  readonly directory: string;
  readonly file: RunFile;
  readonly supervisor: SupervisorFile;
}

/** A rack that is up, and a connection to it. */
export interface RackLink {
  readonly rack: RackUp;
  readonly bus: Bus;
  readonly control: ControlClient;
}

/**
 * The run of that name, or the user's own name for it (`rack runs keep`), or whose name begins so.
 * @param said what stands before it in a message.
 * @throws Refusal where there is none, or more than one.
 */
export async function findRun(id: string, said = "--run"): Promise<RunRow> {
  const rows = await listRuns();
  const found = rows.filter((row) => row.id === id || (id !== "" && row.mark === id));
  const begun = found.length > 0 ? found : rows.filter((row) => row.id.startsWith(id));
  if (begun.length === 1) return begun[0]!;
  const known = (begun.length > 1 ? begun : rows).map((row) => row.id).slice(0, 8).join(", ");
  const expected = known === "" ? "one that there is, and there are none" : `one of ${known}`;
  throw refusal(said, { found: `"${id}": ${begun.length} runs are called so`, expected });
}

/** The rack that is meant: by its name, else the one that is up. @throws Refusal */
export async function findUp(run?: string): Promise<RackUp> {
  if (run !== undefined) {
    const row = await findRun(run);
    if (row.up) return await openRack(row);
    const expected = "one that rack up SCENARIO has brought up";
    throw refusal("", { found: `${row.id} is not up`, expected });
  }
  const rows = (await listRuns()).filter((row) => row.up);
  if (rows.length === 1) return await openRack(rows[0]!);
  if (rows.length === 0) {
    const expected = "one that rack up SCENARIO has brought up";
    throw refusal("", { found: "No rack is up", expected });
  }
  const expected = `--run with one of ${listed(rows)}`;
  throw refusal("", { found: `${rows.length} racks are up`, expected });
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
  if (end === undefined) return refusal("", { found: `${id} has just gone down` });
  return new ExitError(`${id} has just gone down: ${end.message}`, end.code);
}

const CONNECT_TIMEOUT_MS = 10_000;

/** Does something with the rack that is meant, see {@link findUp}. */
export async function withRack<T>(
  run: string | undefined,
  action: (link: RackLink) => Promise<T>,
): Promise<T> {
  return await linkedTo(await findUp(run), action);
}

/** Does something with a rack that is up. @throws BusError where its broker does not answer. */
export async function linkedTo<T>(
  rack: RackUp,
  action: (link: RackLink) => Promise<T>,
  { timeoutMs = CONNECT_TIMEOUT_MS }: { readonly timeoutMs?: number } = {},
): Promise<T> {
  const { url, user, password, token } = rack.supervisor;
  const bus = await connectNats({
    url,
    ...(user !== undefined && { user }),
    ...(password !== undefined && { password }),
    ...(token !== undefined && { token }),
    run: rack.file.run,
    name: `command-${Deno.pid}`,
    onError: () => {},
    connectTimeoutMs: timeoutMs,
  });
  try {
    return await action({ rack, bus, control: new ControlClient(bus, rack.file.run) });
  } finally {
    await bus.close();
  }
}

/** The partition in which a device lives. */
export function partitionOf({ file }: RackUp, node: string): string | undefined {
  return file.partitions.find(({ nodes }) => nodes.includes(node))?.name;
}
