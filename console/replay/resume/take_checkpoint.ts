import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import type { ClockEnd, Recorded } from "../../../fabric/clock/record.ts";
import { formatTime, type Time } from "../../../fabric/base/time.ts";
import { rackDigest } from "../../../fabric/partition/digest.ts";
import type { FaultPlan } from "../../../fabric/rack/plan/plan.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { linesIfThere } from "../../base/files.ts";
import { RackError } from "../../base/rack_error.ts";
import { inexactIn } from "../../rack/fault_lines.ts";
import { keepRun } from "../../rack/kept_runs.ts";
import type { ControlClient } from "../../rack/live/control.ts";
import { findUp, linkedTo, type RackUp, refreshRecord } from "../../rack/live/racks.ts";
import { pause, resume } from "../../rack/live/virtual_time.ts";
import { checkName, type Checkpoint, newName, writeCheckpoint } from "../checkpoints.ts";
import { Replay, type ReplayOptions } from "../client.ts";
import { placeOf } from "../source.ts";
import type { ReplayTarget } from "../source.ts";

export interface TakeOptions extends ReplayOptions {
  /** Default: the only rack that is up. */
  readonly run?: string | undefined;
  readonly variant?: string | undefined;
  /** Default: `c1`, `c2` … */
  readonly name?: string | undefined;
  /** Default: where the rack that is up stands, or comes to stand. */
  readonly at?: Time | undefined;
  /** Default: the replay of the run is opened for it. */
  readonly askReplay?: AskReplay | undefined;
}

type AskReplay = <T>(
  target: ReplayTarget,
  question: (replay: Replay) => Promise<T>,
) => Promise<T>;

export interface Taken {
  readonly run: string;
  readonly checkpoint: Checkpoint;
}

/**
 * Keeps the run from being pruned; a rack whose time moves stands still for a moment.
 * @throws Refusal for a wrong name, an instant that is not known, a run that cannot be replayed
 * exactly; RackError where the rack does not come to stand.
 */
export async function takeCheckpoint(options: TakeOptions): Promise<Taken> {
  const { run, variant, name, at } = options;
  const rack = run === undefined ? await findUp() : undefined;
  const target = { run: rack?.id ?? run!, ...(variant !== undefined && { variant }) };
  const { id, up, directory } = await placeOf(target);
  const wanted = name === undefined ? newName(directory) : checkName(name);
  const found = at !== undefined
    ? await atInstant({ target, directory, at }, options.askReplay ?? askOwn(options))
    : up
    ? await asItStands(await findUp(id))
    : refuseNow(id);
  const checkpoint = { name: wanted, taken: new Date().toISOString(), ...found };
  writeCheckpoint(directory, checkpoint);
  const row = await placeOf({ run: id, ...(variant !== undefined && { variant }) });
  if (row.mark === undefined) await keepRun(id);
  return { run: id, checkpoint };
}

type State = Omit<Checkpoint, "name" | "taken">;

function refuseNow(id: string): never {
  throw refusal("", { found: `${id} is not up`, expected: "--at with an instant of it" });
}

async function atInstant(
  { target, directory, at }: { target: ReplayTarget; directory: string; at: Time },
  askReplay: AskReplay,
): Promise<State> {
  await checkInstant(target, at);
  const { nodes, events } = await askReplay(target, (replay) => replay.ask("digestsAt", at));
  const faults = recordOf(directory).filter((fault) => fault.at < at);
  return { at, nodes, digest: rackDigest(nodes), events, faults, planned: [] };
}

function askOwn(options: ReplayOptions): AskReplay {
  return async (target, question) => {
    const replay = await Replay.open(target, options);
    try {
      return await question(replay);
    } finally {
      await replay.close();
    }
  };
}

/**
 * @throws Refusal where the rack is up and has not come to the instant: the state before it is not
 * known.
 */
export async function checkInstant(target: ReplayTarget, at: Time): Promise<void> {
  const { id, up } = await placeOf(target);
  if (!up || target.checkpoint !== undefined) return;
  const { now, next } = await linkedTo(
    await findUp(id),
    ({ control }) => control.status(),
    { as: "viewer" },
  );
  const last = Math.min(now + 1, next);
  if (at <= last) return;
  const expected = `an instant up to ${formatTime(last)}, to which all of ${id} has come`;
  throw refusal("The instant", { found: formatTime(at), expected });
}

async function asItStands(rack: RackUp): Promise<State> {
  return await linkedTo(rack, async ({ control }) => {
    const before = await control.status();
    if (isStill(before)) return await standing(rack, control);
    if (before.breaks.length > 0) {
      const found = "The rack is on its way to a step";
      throw refusal("", { found, expected: "one that stands, or runs freely: rack pause first" });
    }
    const held = await pause(control);
    if (held.missed !== undefined) throw new RackError(held.missed);
    try {
      return await standing(rack, control);
    } finally {
      await goOn(control, { before, order: held.status.driven.order });
    }
  });
}

async function goOn(
  control: ControlClient,
  { before: { limit }, order }: { before: ClockStatus; order: number },
): Promise<void> {
  const { driven } = await control.status();
  if (driven.order !== order) return;
  if (limit === Infinity) await resume(control);
  else await control.demand("resume", { until: limit }, { repeats: true });
}

function isStill({ standsAt, paused, next, limit }: ClockStatus): boolean {
  const isHeld = paused || next === Infinity || next >= limit;
  return standsAt !== null && isHeld;
}

const TRIES = 20;

/** All from one moment: nothing was put on record, and no time passed, meanwhile. */
async function standing(rack: RackUp, control: ControlClient): Promise<State> {
  const { directory, id } = rack;
  for (let tries = 0; tries < TRIES; tries++) {
    const { standsAt, events } = await control.status();
    if (standsAt === null) {
      throw new RackError(`Found that ${id} waits for a process (rack why), expected it to stand`);
    }
    await refreshRecord(rack);
    const faults = recordOf(directory);
    const end = await control.demand<ClockEnd>("end", {});
    const planned = linesIfThere<FaultPlan>(`${directory}/planned.jsonl`);
    const after = await control.status();
    await refreshRecord(rack);
    const isSame = after.standsAt === standsAt && after.events === events &&
      end.events === events && recordOf(directory).length === faults.length;
    if (!isSame) continue;
    // Not earlier: the state read here is from that moment or an earlier one.
    refuseInexact(id, directory);
    const nodes = digestsOf(end, faults, standsAt);
    const isWhole = nodes.length === rack.file.plan.nodes.length;
    return { at: standsAt, events, nodes, digest: isWhole ? end.digest : null, faults, planned };
  }
  throw new RackError(`Found that time moves on ${id}, expected it to stand: rack pause first`);
}

function refuseInexact(id: string, directory: string): void {
  const inexact = inexactIn(directory);
  if (inexact.length === 0) return;
  const found = `${id} cannot be replayed exactly: ${inexact.join("; ")}`;
  throw refusal("", { found, expected: "a run of which all is known" });
}

/** Without devices with an event at the instant, such as one that has just been killed. */
function digestsOf(
  { partitions }: ClockEnd,
  faults: readonly Recorded[],
  at: Time,
): [node: string, digest: string][] {
  const late = new Set(faults.flatMap((fault) => fault.at >= at ? fault.nodes : []));
  return partitions.flatMap(({ nodes }) =>
    nodes.flatMap(([node, digest]): [string, string][] => late.has(node) ? [] : [[node, digest]])
  );
}

function recordOf(directory: string): Recorded[] {
  return linesIfThere<Recorded>(`${directory}/faults.jsonl`);
}
