/** Checkpoints of a run: files in its directory, from which the rack is brought up again as it stood. */
import { parseTime, type Time } from "../../fabric/base/time.ts";
import type { Recorded } from "../../fabric/clock/record.ts";
import type { FaultPlan } from "../../fabric/rack/plan/plan.ts";
import { oneOf, refusal } from "../../fabric/rack/plan/problem.ts";
import { DamagedFileError, ifThere, jsonIfThere, writeWhole } from "../base/files.ts";

/** With the run file and the orders of before {@link at}, all that the state of the rack follows from. */
export interface Checkpoint {
  readonly name: string;
  /** Everything before this instant has happened, and nothing else. */
  readonly at: Time;
  /** Wall time, ISO 8601. */
  readonly taken: string;
  /** Number of events of all devices. */
  readonly events: number;
  /** Digest of each device, of its events before {@link at}; without those of which none is known. */
  readonly nodes: ReadonlyArray<readonly [node: string, digest: string]>;
  /** Of the rack; null where a device has lost its power at the instant itself: none is known before it. */
  readonly digest: string | null;
  /**
   * What was on record of power and cables: a failure that comes later may be dated before the instant at
   * which the rack stood, and is not part of it.
   */
  readonly faults: readonly Recorded[];
  /** Power failures that orders had added to the plan. */
  readonly planned: readonly FaultPlan[];
}

const FOLDER = "checkpoints";
const NAME = /^[A-Za-z][\w-]{0,39}$/;
const NAME_EXPECTED = "a letter, and at most 39 letters, digits, _ and -";

/** @throws Refusal for a text that names no checkpoint, or a time. */
export function checkName(name: string): string {
  if (NAME.test(name) && parseTime(name) === undefined) return name;
  throw refusal("The checkpoint's name", { found: `"${name}"`, expected: NAME_EXPECTED });
}

/** The checkpoints of a run, or of one of its variants, by their instants. @throws DamagedFileError */
export function checkpointsIn(directory: string): Checkpoint[] {
  const names = ifThere(() => [...Deno.readDirSync(`${directory}/${FOLDER}`)]) ?? [];
  return names.flatMap(({ name }) => {
    if (!name.endsWith(".json")) return [];
    return readIfThere(directory, name.slice(0, -".json".length)) ?? [];
  }).sort((x, y) => x.at - y.at || (x.name < y.name ? -1 : 1));
}

/** @throws Refusal where there is none of that name, DamagedFileError */
export function readCheckpoint(directory: string, name: string): Checkpoint {
  const found = NAME.test(name) ? readIfThere(directory, name) : undefined;
  if (found !== undefined) return found;
  const names = checkpointsIn(directory).map(({ name }) => name);
  const expected = names.length === 0 ? "one that rack checkpoint has made" : oneOf(names, name);
  throw refusal("The checkpoint", { found: `"${name}"`, expected });
}

/** A name that the run has not given yet: `c1`, `c2` … */
export function newName(directory: string): string {
  const names = new Set(checkpointsIn(directory).map(({ name }) => name));
  let number = 1;
  while (names.has(`c${number}`)) number++;
  return `c${number}`;
}

/** @throws Refusal where the name is taken. */
export function writeCheckpoint(directory: string, checkpoint: Checkpoint): void {
  const { name } = checkpoint;
  if (readIfThere(directory, name) !== undefined) {
    throw refusal("The checkpoint's name", { found: `"${name}"`, expected: "one that is free" });
  }
  Deno.mkdirSync(`${directory}/${FOLDER}`, { recursive: true, mode: 0o700 });
  writeWhole(pathOf(directory, name), JSON.stringify(checkpoint));
}

function pathOf(directory: string, name: string): string {
  return `${directory}/${FOLDER}/${name}.json`;
}

function readIfThere(directory: string, name: string): Checkpoint | undefined {
  const path = pathOf(directory, name);
  const found = jsonIfThere<Checkpoint>(
    path,
    ({ at, events, digest, nodes, faults, planned }) =>
      Number.isSafeInteger(at) && typeof events === "number" && digest !== undefined &&
      [nodes, faults, planned].every(Array.isArray),
  );
  if (found !== undefined && found.name !== name) {
    throw new DamagedFileError(`${path} is damaged: expected the checkpoint ${name}`);
  }
  return found;
}
