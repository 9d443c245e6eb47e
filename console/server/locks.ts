/**
 * Whose rack is whose. The owner of a rack may lock it: then the orders of others are refused, with a
 * sentence that names the owner, until the owner unlocks it or hands it over. A lock is a file of the
 * run (`rack/live/lock.ts`): it outlives this console, and holds for other consoles and the command
 * line. An owner who is not signed in here cannot be asked: any operator may take such a rack over,
 * in so many words. Looking is open to all.
 */
import type { RackLock } from "../api/session.ts";
import { DamagedFileError } from "../base/files.ts";
import { runsDirectory } from "../base/paths.ts";
import { type LockFile, lockText, readLock, writeLock } from "../rack/live/lock.ts";
import { readSupervisorOf } from "../rack/run_directory.ts";
import { ApiFailure } from "./doors/errors.ts";
import type { Caller, Keys } from "./doors/keys.ts";

export class Locks {
  readonly #keys: Pick<Keys, "users" | "console">;

  constructor(keys: Pick<Keys, "users" | "console">) {
    this.#keys = keys;
  }

  /** Who has brought a rack up owns it. @param run of a rack that may be coming up. */
  own(run: string, owner: Caller): void {
    this.#write(run, owner, false);
  }

  of(run: string): RackLock {
    const known = lockIn(run);
    if (known === undefined) return { owner: null, isLocked: false, isHere: false };
    const { owner: { session, name }, isLocked, since } = known;
    return {
      owner: { session, name },
      isLocked,
      since,
      isHere: this.#ownerOf(known) !== undefined,
    };
  }

  /** @throws ApiFailure where another has locked the rack. */
  check(run: string, by: Caller): void {
    const known = lockIn(run);
    if (known === undefined || !known.isLocked || this.#isOf(known, by)) return;
    const { name } = known.owner, isHere = this.#ownerOf(known) !== undefined;
    const ask = `ask ${name} to unlock it, or to hand it over`;
    const how = isHere
      ? ask
      : `${ask}; ${name} is not signed in here, so Team lets you take it over`;
    throw new ApiFailure("not-allowed", `${lockText(run, known)}: ${how}`);
  }

  /** A rack without an owner gets one by its first lock. @throws ApiFailure */
  lock(run: string, by: Caller): void {
    this.#refuseOthers(run, by, "lock");
    this.#write(run, by, true);
  }

  /** @throws ApiFailure */
  unlock(run: string, by: Caller): void {
    this.#refuseOthers(run, by, "unlock");
    if (lockIn(run) !== undefined) this.#write(run, by, false);
  }

  /** The lock stays as it is. @param to a session that may give orders. @throws ApiFailure */
  handOver(run: string, by: Caller, to: string): void {
    this.#refuseOthers(run, by, "hand over");
    const owner = this.#keys.users().find(({ session }) => session === to);
    if (owner?.role !== "operator") {
      throw new ApiFailure("not-found", `${to} is no operator who is signed in`);
    }
    this.#write(run, owner, lockIn(run)?.isLocked ?? false);
  }

  /** The lock stays as it is. @throws ApiFailure where its owner is signed in here. */
  takeOver(run: string, by: Caller): void {
    const known = lockIn(run), owner = known && this.#ownerOf(known);
    if (owner !== undefined && owner.session !== by.session) {
      throw new ApiFailure(
        "not-allowed",
        `${owner.name} is signed in: ask ${owner.name} for ${run}`,
      );
    }
    this.#write(run, by, known?.isLocked ?? false);
  }

  #refuseOthers(run: string, by: Caller, act: string): void {
    const known = lockIn(run);
    if (known === undefined || this.#isOf(known, by)) return;
    throw new ApiFailure("not-allowed", `${run} is ${known.owner.name}'s to ${act}`);
  }

  #isOf({ owner }: LockFile, { session }: Caller): boolean {
    return owner.session === session && owner.console === this.#keys.console(session);
  }

  /** Undefined: the owner's key has ended, or is another console's. */
  #ownerOf(known: LockFile): Caller | undefined {
    return this.#keys.users().find((user) => this.#isOf(known, user));
  }

  #write(run: string, { name, session }: Caller, isLocked: boolean): void {
    const owner = { name, session, console: this.#keys.console(session) };
    writeLock(directoryOf(run), { owner, isLocked, since: new Date().toISOString() });
  }
}

/** @param run a name from a request, which may be no run's. */
function lockIn(run: string): LockFile | undefined {
  if (!RUN_NAME.test(run)) return undefined;
  const directory = directoryOf(run);
  return isUp(directory) ? readLock(directory) : undefined;
}

const RUN_NAME = /^\w[\w.-]*$/;

/** A run whose files are damaged can be removed. */
function isUp(directory: string): boolean {
  try {
    return readSupervisorOf(directory) !== undefined;
  } catch (error) {
    if (error instanceof DamagedFileError) return false;
    throw error;
  }
}

function directoryOf(run: string): string {
  return `${runsDirectory()}/${run}`;
}
