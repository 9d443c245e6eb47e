/**
 * Whose a rack that is up is, and whether others may give it orders: a file of its run, read by each
 * console and by the command line. It means something only as long as the rack is up.
 */
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { ifThere, jsonIfThere, writeWhole } from "../../base/files.ts";

export interface LockFile {
  readonly owner: {
    readonly name: string;
    /** In the console of that id: two consoles number their sessions alike. */
    readonly session: string;
    readonly console: string;
  };
  readonly isLocked: boolean;
  /** When the owner or the lock changed last, ISO 8601. */
  readonly since: string;
}

function fileOf(directory: string): string {
  return `${directory}/lock.json`;
}

/** Undefined: it is nobody's. @throws DamagedFileError */
export function readLock(directory: string): LockFile | undefined {
  return jsonIfThere<LockFile>(
    fileOf(directory),
    ({ owner, isLocked, since }) =>
      typeof owner === "object" && owner !== null && "name" in owner && "session" in owner &&
      typeof isLocked === "boolean" && typeof since === "string",
  );
}

/** A run that has been removed meanwhile has no lock. */
export function writeLock(directory: string, lock: LockFile): void {
  ifThere(() => writeWhole(fileOf(directory), JSON.stringify(lock)));
}

/** The first half of each refusal. */
export function lockText(run: string, { owner, since }: LockFile): string {
  return `${owner.name} has locked ${run} (${since.slice(0, 16).replace("T", " ")} UTC)`;
}

/** The option by which a command gives orders to a rack that another has locked. */
export const OVERRIDE_LOCK = "--override-lock";

/** For the command line, which knows no users. @throws Refusal where the rack is locked. */
export function refuseLocked(
  { id, directory }: { readonly id: string; readonly directory: string },
): void {
  const lock = readLock(directory);
  if (lock?.isLocked !== true) return;
  const expected =
    `${lock.owner.name} to unlock it in the console, or ${OVERRIDE_LOCK} to give the order all the same`;
  throw refusal("", { found: lockText(id, lock), expected });
}
