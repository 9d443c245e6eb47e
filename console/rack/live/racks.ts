import { PATIENCE_MS } from "../../../fabric/base/patience.ts";
import { USERS } from "../../../fabric/bus/access.ts";
import { type Bus, BusError } from "../../../fabric/bus/bus.ts";
import { connectNats } from "../../../fabric/bus/nats_bus.ts";
import type { RunFile } from "../../../fabric/rack/assembly/run_file.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { RackError } from "../../base/rack_error.ts";
import {
  isServed,
  listRuns,
  readEnd,
  readRunFile,
  readSupervisor,
  type RunRow,
  type SupervisorFile,
} from "../run_directory.ts";
import { collectFiles, collectRecord, sourcesOf } from "../remote/collect.ts";
import { ControlClient } from "./control.ts";
import { refuseLocked } from "./lock.ts";

export interface RackUp {
  readonly id: string;
  readonly directory: string;
  readonly file: RunFile;
  readonly supervisor: SupervisorFile;
}

export interface RackLink {
  readonly rack: RackUp;
  readonly bus: Bus;
  readonly control: ControlClient;
}

/**
 * Finds a run by its name, the user's name for it (`rack runs keep`), or an unambiguous prefix.
 * @param prefix of the message.
 * @throws Refusal where there is none, or more than one.
 */
export async function findRun(id: string, prefix = "--run"): Promise<RunRow> {
  const rows = await listRuns();
  const found = rows.filter((row) => row.id === id || (id !== "" && row.mark === id));
  const begun = found.length > 0 ? found : rows.filter((row) => id !== "" && row.id.startsWith(id));
  if (begun.length === 1) return begun[0]!;
  const known = (begun.length > 1 ? begun : rows).map((row) => row.id).slice(0, 8).join(", ");
  const expected = known === "" ? "one that there is, and there are none" : `one of ${known}`;
  throw refusal(prefix, { found: `"${id}": ${begun.length} runs have that name`, expected });
}

/** The named rack, else the only one that is running. @throws Refusal */
export async function findUp(run?: string): Promise<RackUp> {
  if (run !== undefined) {
    const row = await findRun(run);
    if (row.up) return openRack(row);
    const expected = "one that rack up SCENARIO has brought up";
    throw refusal("", { found: `${row.id} is not up`, expected });
  }
  const all = await listRuns(), rows = all.filter((row) => row.up);
  if (rows.length === 1) return openRack(rows[0]!);
  if (rows.length === 0) {
    const expected = "one that rack up SCENARIO has brought up";
    const latest = all.find(({ isForeign, damage }) => !isForeign && damage === undefined);
    const ended = latest === undefined ? "" : endOf(latest);
    throw refusal("", { found: `No rack is up${ended}`, expected });
  }
  const expected = `--run with one of ${listed(rows)}`;
  throw refusal("", { found: `${rows.length} racks are up`, expected });
}

function endOf({ id, path }: RunRow): string {
  const end = readEnd(path);
  return end === undefined ? "" : ` (${id} has gone down: ${end.message})`;
}

export function listed(rows: readonly RunRow[]): string {
  return rows.map(({ id }) => id).join(", ");
}

/** Undefined where the rack of that directory is not up. */
export function rackAt(path: string): RackUp | undefined {
  const supervisor = readSupervisor(path);
  const file = supervisor && readRunFile(path);
  if (supervisor === undefined || file === undefined) return undefined;
  return { id: path.replace(/.*\//, ""), directory: path, file, supervisor };
}

function openRack(row: RunRow): RackUp {
  const rack = rackAt(row.path);
  if (rack === undefined) throw goneDown(row.id, row.path);
  return rack;
}

/** The error for a rack that has just ended, with the reason where it ended by itself. */
export function goneDown(id: string, directory: string): Error {
  const end = readEnd(directory);
  if (end === undefined) return new RackError(`${id} has just gone down`);
  return new RackError(`${id} has just gone down: ${end.message}`, end.code);
}

export interface LinkOptions {
  readonly timeoutMs?: number;
  /**
   * `viewer`: the broker refuses every order, and answers queries. A broker of another owner
   * (`--nats`) has one credential for all, with the rights that its owner gave it.
   */
  readonly as?: "supervisor" | "viewer";
  /** Orders are given though another has locked the rack, or who gives them was asked before. */
  readonly overrideLock?: boolean;
}

/**
 * Runs a function with a connection to a rack (see {@link findUp}).
 * @throws Refusal where it is locked, unless it is only looked at.
 * @throws RackError as soon as the rack has gone down meanwhile.
 */
export async function withRack<T>(
  run: string | undefined,
  action: (link: RackLink) => Promise<T>,
  options: LinkOptions = {},
): Promise<T> {
  const rack = await findUp(run);
  if (options.as !== "viewer" && !options.overrideLock) refuseLocked(rack);
  const watch = watchEnd(rack);
  const act = async (link: RackLink) => {
    if (isAttached(rack)) await untilAnswers(link);
    return await action(link);
  };
  return await linkedTo(rack, (link) => Promise.race([act(link), watch.gone]), options)
    .finally(() => watch.stop());
}

const ANSWER_MS = 15_000;

/** No file of this machine tells that the rack has ended. */
async function untilAnswers({ rack: { id, supervisor }, control }: RackLink): Promise<void> {
  await control.status({ forMs: ANSWER_MS }).catch((error) => {
    if (!(error instanceof BusError)) throw error;
    const found = `no timekeeper of ${id} on ${supervisor.url} (${error.message})`;
    throw new RackError(`Found ${found}: rack down --run ${id} forgets that it was up`);
  });
}

const LOOK_AGAIN_MS = 50;

/** A request would wait for its answer in vain. */
function watchEnd({ id, directory, supervisor }: RackUp) {
  const { promise: gone, reject } = Promise.withResolvers<never>();
  gone.catch(() => {});
  const timer = setInterval(() => {
    if (isServed(directory, supervisor)) return;
    clearInterval(timer);
    reject(goneDown(id, directory));
  }, LOOK_AGAIN_MS);
  return { gone, stop: () => clearInterval(timer) };
}

/**
 * Runs a function with a connection to a running rack.
 * @throws BusError where its broker does not answer.
 */
export async function linkedTo<T>(
  rack: RackUp,
  action: (link: RackLink) => Promise<T>,
  { timeoutMs = PATIENCE_MS, as = "supervisor" }: LinkOptions = {},
): Promise<T> {
  const { viewer, ...supervisor } = rack.supervisor;
  // One credential for all has the rights of one user.
  const isViewer = as === "viewer" && viewer.user !== supervisor.user;
  const bus = await connectNats({
    ...supervisor,
    ...(isViewer && viewer),
    run: rack.file.run,
    name: isViewer ? USERS.viewer : USERS.supervisor,
    onError: () => {},
    connectTimeoutMs: timeoutMs,
  });
  try {
    return await action({ rack, bus, control: new ControlClient(bus, rack.file.run) });
  } finally {
    await bus.close();
  }
}

/**
 * The rack was brought up on another machine, or is in containers: this one has its messages, and
 * copies of its files.
 */
export function isAttached({ supervisor }: Pick<RackUp, "supervisor">): boolean {
  return supervisor.pid === null;
}

/** The partition's parent takes orders, and not the rack's supervisor. */
export function isElsewhere({ file }: Pick<RackUp, "file">, partition: string): boolean {
  return file.elsewhere?.includes(partition) === true;
}

/**
 * Copies what the timekeeper has on record by now, where this machine has no such files of its own.
 * @throws RackError where it does not answer.
 */
export async function refreshRecord(rack: RackUp): Promise<void> {
  if (!isAttached(rack)) return;
  const { file: runFile, directory } = rack;
  await linkedTo(rack, ({ bus }) => collectRecord(bus, { runFile, directory, isShared: true }));
}

/** Copies what devices have left by now in parts of their folders: see {@link refreshRecord}. */
export async function refreshDevices(
  rack: RackUp,
  wants: (name: string) => boolean,
): Promise<void> {
  const { file, directory } = rack;
  const sources = isAttached(rack) ? sourcesOf(file) : file.elsewhere ?? [];
  if (sources.length === 0) return;
  await linkedTo(
    rack,
    ({ bus }) => collectFiles(bus, { runFile: file, directory, sources, wants, isShared: true }),
  );
}

export function partitionOf({ file }: RackUp, node: string): string | undefined {
  return file.partitions.find(({ nodes }) => nodes.includes(node))?.name;
}
