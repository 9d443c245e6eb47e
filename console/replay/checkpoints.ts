/** Checkpoints of a run: files in its directory, from which the rack is brought up again as it stood. */
import { parseTime, type Time } from "../../fabric/base/time.ts";
import type { Recorded } from "../../fabric/clock/record.ts";
import type { FaultPlan } from "../../fabric/rack/plan/plan.ts";
import { oneOf, type Refusal, refusal } from "../../fabric/rack/plan/problem.ts";
import { DamagedFileError, ifThere, jsonIfThere, writeWhole } from "../base/files.ts";
import { variantsOf } from "../reports/run_summary.ts";

/** The state of the rack follows from it, with the run file and the orders of before {@link at}. */
export interface Checkpoint {
  readonly name: string;
  /** Everything before this instant has happened, and nothing else. */
  readonly at: Time;
  /** Wall time, ISO 8601. */
  readonly taken: string;
  readonly events: number;
  /** Of the events of each device before {@link at}; without devices of which none is known. */
  readonly nodes: ReadonlyArray<readonly [node: string, digest: string]>;
  /** Null where a device has lost its power at the instant itself: none is known before it. */
  readonly digest: string | null;
  /**
   * A failure that comes later may be dated before the instant at which the rack stood, and is not
   * part of it.
   */
  readonly faults: readonly Recorded[];
  readonly planned: readonly FaultPlan[];
}

const FOLDER = "checkpoints", SUFFIX = ".json";
const NAME = /^[A-Za-z][\w-]{0,39}$/;
const NAME_EXPECTED = "a letter, and at most 39 letters, digits, _ and -";

/** @throws Refusal for a text that names no checkpoint, or a time. */
export function checkName(name: string): string {
  if (NAME.test(name) && parseTime(name) === undefined) return name;
  throw refusal("The checkpoint's name", { found: `"${name}"`, expected: NAME_EXPECTED });
}

/** Of a run, or of one of its variants, by their instants. @throws DamagedFileError */
export function checkpointsIn(directory: string): Checkpoint[] {
  return namesIn(directory).flatMap((name) => readIfThere(directory, name) ?? []).sort((x, y) =>
    x.at - y.at || (x.name < y.name ? -1 : 1)
  );
}

/** With the variant's name before them where the run has several: `ddio_on/c1`. */
export function checkpointNames(path: string): string[] {
  const variants = variantsOf(path);
  if (variants.length === 0) return namesIn(path);
  return variants.flatMap((variant) =>
    namesIn(`${path}/${variant}`).map((name) => `${variant}/${name}`)
  );
}

function namesIn(directory: string): string[] {
  const files = ifThere(() => [...Deno.readDirSync(`${directory}/${FOLDER}`)]) ?? [];
  return files.flatMap(({ name }) => name.endsWith(SUFFIX) ? [name.slice(0, -SUFFIX.length)] : [])
    .sort();
}

/**
 * Deletes a checkpoint, also one that is damaged.
 * @throws Refusal where there is none of that name.
 */
export function deleteCheckpoint(directory: string, name: string): void {
  const isDeleted = NAME.test(name) && ifThere(() => {
    Deno.removeSync(pathOf(directory, name));
    return true;
  });
  if (!isDeleted) throw unknown(directory, name);
}

/** @throws Refusal where there is none of that name, DamagedFileError */
export function readCheckpoint(directory: string, name: string): Checkpoint {
  const found = NAME.test(name) ? readIfThere(directory, name) : undefined;
  if (found === undefined) throw unknown(directory, name);
  return found;
}

function unknown(directory: string, name: string): Refusal {
  const names = namesIn(directory);
  const expected = names.length === 0 ? "one that rack checkpoint has made" : oneOf(names, name);
  return refusal("The checkpoint", { found: `"${name}"`, expected });
}

/** The first free of `c1`, `c2` … */
export function newName(directory: string): string {
  const names = new Set(namesIn(directory));
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
  return `${directory}/${FOLDER}/${name}${SUFFIX}`;
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
