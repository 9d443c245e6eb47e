import { PATIENCE_MS } from "../../../fabric/base/patience.ts";
import { bootVerb, killVerb, processVerb } from "../../../fabric/bus/access.ts";
import { sleep } from "../../../fabric/bus/wall_time.ts";
import { BusError } from "../../../fabric/bus/bus.ts";
import type { RecordedFault } from "../../../fabric/clock/record.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { oneOf, optionRefusal, refusal } from "../../../fabric/rack/plan/problem.ts";
import { ScmFile, ScmFileBusy } from "../../../nodes/host/store/scm_file.ts";
import { isThere } from "../../base/files.ts";
import { isAlive } from "../../base/process_stat.ts";
import { RackError } from "../../base/rack_error.ts";
import type { DeviceProcess } from "../device_slot.ts";
import { isProcessOf, type ProcessEntry, readProcesses, signalProcess } from "../process_table.ts";
import { isServed } from "../run_directory.ts";
import { goneDown, isAttached, isElsewhere, type RackLink, type RackUp } from "./racks.ts";

const SERVICES: ReadonlySet<string> = new Set(["timekeeper", "nats"]);

export function isService(name: string): boolean {
  return SERVICES.has(name);
}

/** Kills a service process. @throws Refusal where it is not running. */
export function killService(rack: RackUp, name: string): void {
  if (isAttached(rack)) {
    const expected = `a kill where it runs (docker-compose kill ${name}, then start ${name})`;
    throw refusal("", { found: `Cannot kill ${name}: it is on another machine`, expected });
  }
  if (signalProcess(rack.directory, entryOf(rack, name).pid)) return;
  throw refusal("", { found: `Cannot kill ${name}: its process is not running` });
}

/** Waits until the supervisor has restarted it. */
export async function awaitService(
  { rack, control }: RackLink,
  name: string,
): Promise<{ readonly pid: number | null; readonly virtualPs: Time }> {
  const status = await control.status();
  return { pid: entryOf(rack, name).pid, virtualPs: status.now };
}

/**
 * Cuts a device's power by killing its process; returns when the failure is recorded.
 * @throws Refusal
 */
export async function killDevice(link: RackLink, node: string) {
  const entry = entryOf(link.rack, node);
  await checkEnd(link, `kill ${node}`);
  const before = await countFaults(link);
  const order = { node, token: crypto.randomUUID() };
  const options = { repeats: true, to: `kill ${node}`, ...patience(link.rack, entry) };
  const verb = isElsewhere(link.rack, entry.name) ? killVerb(entry.name) : "kill";
  const { instance } = await answered(
    link.control.demand<{ instance: string }>(verb, order, options),
    link,
    entry,
  );
  const of = [entry.name, instance] as const;
  const at = await recordedSince(link, { from: before, of }, ({ faults, powered, isOver }) => {
    const kill = faults.find(isOf(entry, "kill"));
    if (kill !== undefined) return kill.at;
    if (isOver === true && powered[entry.name] === undefined) {
      const found = "it was coming up, and had no power yet; its process has ended";
      throw refusal("", { found: `Cannot kill ${node}: ${found}`, expected: `rack start ${node}` });
    }
    const present = powered[entry.name] ?? instance;
    if (present === instance) return undefined;
    const found = `it had not come up yet; its process was killed, and is started again`;
    throw refusal("", { found: `Cannot kill ${node}: ${found}` });
  });
  return { nodes: entry.nodes, at };
}

/** Adds a power failure at a virtual time to the plan. @throws Refusal where that time is past. */
export async function killDeviceAt(link: RackLink, node: string, at: Time): Promise<void> {
  if (isService(node)) {
    throw optionRefusal((named) => ({
      path: "",
      found: `${named("at", { type: "time" })} is for devices: ${node} runs outside virtual time`,
    }));
  }
  entryOf(link.rack, node);
  await link.control.demand("fault", { node, at }, { to: `kill ${node}` });
}

/**
 * Powers a device on; returns when that is recorded. A host whose SCM file is damaged stays off,
 * and the rack goes on without it, unless the damage is accepted.
 * @returns `started`: partitions; `nodes`: devices that have power again.
 * @throws Refusal, ScmFileError
 */
export async function startDevice(
  link: RackLink,
  node: string,
  { acceptDamage = false }: { readonly acceptDamage?: boolean } = {},
) {
  const entry = entryOf(link.rack, node);
  await checkStart(link.rack, entry, acceptDamage);
  await checkEnd(link, `start ${node}`);
  const before = await countFaults(link);
  const { started, instance, pid } = await boot(link, entry, node);
  const isHere = !isAttached(link.rack) && !isElsewhere(link.rack, entry.name);
  const isStillThere = isHere ? () => isAlive(pid) : () => hasProcess(link, entry, instance);
  const at = await recordedSince(link, { from: before }, ({ faults, powered }, isThere) => {
    const start = faults.find(isOf(entry, "start"));
    if (start !== undefined) return start.at;
    // Its first process was killed before it came up: this one begins with the run.
    if (powered[entry.name] === instance) return 0;
    if (isThere) return undefined;
    throw new RackError(`Found that the process of ${node} ended before the device had power`);
  }, isStillThere);
  return { nodes: [...new Set([...entry.nodes, ...started])], started, at };
}

/** @throws Refusal after the end of a rack that does not stay up, as nothing is recorded then. */
export async function checkEnd(
  { rack: { id, file }, control }: Pick<RackLink, "rack" | "control">,
  to: string,
): Promise<void> {
  if (file.stayUp || !(await control.status()).finished) return;
  throw refusal("", { found: `Cannot ${to}: ${id} has come to its end, no event is left` });
}

type Booted = { readonly started: readonly string[] } & DeviceProcess;

/**
 * The supervisor or the parent starts a device's process and, with a host's, that of its card if
 * that has none (a power cycle).
 */
async function boot(link: RackLink, entry: ProcessEntry, node: string): Promise<Booted> {
  const { rack: { file: { plan, partitions } }, control } = link;
  const options = { to: `start ${node}`, ...patience(link.rack, entry) };
  const booted = await answered(
    control.demand<Booted>(...bootOrder(link, entry.name), options),
    link,
    entry,
  );
  const cards = plan.nodes.filter((each) =>
    each.kind === "rnic" && entry.nodes.includes(each.config.host) &&
    !entry.nodes.includes(each.name)
  );
  const started = [...booted.started];
  for (const { name } of cards) {
    if (started.includes(name)) continue;
    const partition = partitions.find(({ nodes }) => nodes.includes(name))!;
    const answer = await control.attempt<Booted>(...bootOrder(link, partition.name), {
      timeoutMs: PATIENCE_MS,
    });
    // A device that has power is refused; where no parent listens, the broker says so at once.
    if (answer !== undefined && "ok" in answer) started.push(...answer.ok.started);
  }
  return { ...booted, started };
}

function bootOrder({ rack }: RackLink, name: string): [verb: string, body: object] {
  return isElsewhere(rack, name) ? [bootVerb(name), {}] : ["boot", { node: name }];
}

/** For a device whose container is down no process listens: a wait for its answer would not end. */
function patience(rack: RackUp, { name }: ProcessEntry): { readonly forMs?: number } {
  return isElsewhere(rack, name) ? { forMs: PARENT_MS } : {};
}

const PARENT_MS = 3_000;

async function answered<T>(
  asked: Promise<T>,
  { rack }: RackLink,
  { name }: ProcessEntry,
): Promise<T> {
  return await asked.catch((cause) => {
    if (!(cause instanceof BusError) || !isElsewhere(rack, name)) throw cause;
    const why = `Found no answer from the parent of ${name} (${cause.message})`;
    const expected = `its container or rack node to run (docker-compose start ${name})`;
    throw new RackError(`${why}, expected ${expected}`);
  });
}

async function hasProcess(
  { rack, control }: RackLink,
  { name }: ProcessEntry,
  instance: string,
): Promise<boolean> {
  const [verb, body] = isElsewhere(rack, name)
    ? [processVerb(name), {}]
    : ["process", { node: name }];
  const answer = await control.attempt<{ instance: string; pid: number | null }>(verb, body);
  // A parent that does not answer now may do so at the next look.
  if (answer === undefined || !("ok" in answer)) return true;
  return answer.ok.pid !== null && answer.ok.instance === instance;
}

async function checkStart(
  rack: RackUp,
  entry: ProcessEntry,
  acceptDamage: boolean,
): Promise<void> {
  if (isAttached(rack) || isElsewhere(rack, entry.name)) {
    if (!acceptDamage) return;
    throw refusal("", {
      found: `The SCM file of ${entry.name} is on another machine`,
      expected: "a new run, or one without --accept-damage",
    });
  }
  if (isProcessOf(rack.directory, entry.pid)) return;
  for (const name of entry.nodes) {
    await whenReleased(() => checkScm(rack, name, acceptDamage));
  }
}

/**
 * A process that is ending holds its files after `/proc` has lost its command line (Linux:
 * `do_exit`).
 */
async function whenReleased(look: () => void): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return look();
    } catch (error) {
      if (!(error instanceof ScmFileBusy) || performance.now() > deadline) throw error;
      await sleep(20);
    }
  }
}

function checkScm({ directory, file }: RackUp, name: string, acceptDamage: boolean): void {
  const node = file.plan.nodes.find((each) => each.name === name);
  const path = `${directory}/scm/${name}.scm`;
  if (node?.kind !== "host" || !isThere(`${path}.sums`)) return;
  // The host's process removes it.
  if (acceptDamage) return Deno.writeTextFileSync(`${path}.accept`, "");
  ScmFile.open(path, { host: name, bytes: node.config.scmBytes }).close();
}

/** A name is a process's, or a device's. @throws Refusal */
export function entryOf(rack: RackUp, node: string): ProcessEntry {
  const { directory, id, file } = rack;
  const here = isAttached(rack)
    ? []
    : readProcesses(directory).filter(({ kind }) => kind !== "supervisor");
  const there = file.partitions.filter(({ name }) => isAttached(rack) || isElsewhere(rack, name))
    .map((each): ProcessEntry => ({ ...each, kind: "partition", pid: null }));
  const entries = [...here, ...there];
  const entry = entries.find(({ name, nodes }) => name === node || nodes.includes(node));
  if (entry !== undefined) return entry;
  const known = entries.flatMap(({ name, nodes }) => nodes.length > 0 ? nodes : [name]);
  throw refusal("", { found: `There is no ${node} in ${id}`, expected: oneOf(known, node) });
}

type Fault = Pick<RecordedFault, "at" | "action" | "partition" | "nodes">;

export interface Faults {
  readonly faults: readonly Fault[];
  readonly count: number;
  /** By partition, the process that has power. */
  readonly powered: Readonly<Record<string, string>>;
  /** The process that was asked for has ended; if its power has failed by that, it is among these. */
  readonly isOver?: boolean;
}

export function isOf({ name }: ProcessEntry, action: Fault["action"]): (fault: Fault) => boolean {
  return (fault) => fault.partition === name && fault.action === action;
}

export async function countFaults({ control }: RackLink): Promise<number> {
  const from = Number.MAX_SAFE_INTEGER;
  return (await control.demand<Faults>("faults", { from }, { repeats: true })).count;
}

const LOOK_AGAIN_MS = 20;

/**
 * Polls the timekeeper's record until `find` returns an instant. A process that was killed while
 * the rack came up never had power, and no change of it is on record.
 * @param isStillThere tells `find` that the process was alive before the record was read.
 * @throws the error of `find`; Error where the rack goes down meanwhile.
 */
async function recordedSince(
  { rack, control }: Pick<RackLink, "rack" | "control">,
  since: { readonly from: number; readonly of?: readonly [partition: string, instance: string] },
  find: (record: Faults, isThere: boolean) => Time | undefined,
  isStillThere: () => boolean | Promise<boolean> = () => false,
): Promise<Time> {
  for (;;) {
    const isThere = await isStillThere();
    const answer = await control.attempt<Faults>("faults", since);
    const at = answer !== undefined && "ok" in answer ? find(answer.ok, isThere) : undefined;
    if (at !== undefined) return at;
    if (!isServed(rack.directory, rack.supervisor)) {
      throw goneDown(rack.id, rack.directory);
    }
    await checkEnd({ rack, control }, "see the power change");
    await sleep(LOOK_AGAIN_MS);
  }
}
