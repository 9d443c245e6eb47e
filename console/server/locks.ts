/**
 * Whose rack is whose. The owner of a rack may lock it: then the orders of others are refused, with a
 * sentence that names the owner, until the owner unlocks it, hands it over, or is signed in no more.
 * Looking is open to all. Of this console alone: the command line knows no users.
 */
import type { RackLock } from "../api/session.ts";
import { ApiFailure } from "./doors/errors.ts";
import type { Caller, Keys } from "./doors/keys.ts";

interface Owned {
  owner: Caller;
  isLocked: boolean;
}

export class Locks {
  readonly #keys: Pick<Keys, "users">;
  readonly #owned = new Map<string, Owned>();

  constructor(keys: Pick<Keys, "users">) {
    this.#keys = keys;
  }

  /** Who has brought a rack up owns it. */
  own(run: string, owner: Caller): void {
    this.#owned.set(run, { owner, isLocked: false });
  }

  of(run: string): RackLock {
    const known = this.#known(run);
    if (known === undefined) return { owner: null, isLocked: false };
    const { owner: { session, name, role }, isLocked } = known;
    return { owner: { session, name, role }, isLocked };
  }

  /** @throws ApiFailure where another has locked the rack. */
  check(run: string, by: Caller): void {
    const known = this.#known(run);
    if (known === undefined || !known.isLocked || known.owner.session === by.session) return;
    const { name } = known.owner;
    throw new ApiFailure(
      "not-allowed",
      `${name} has locked ${run}: ask ${name} to unlock it, or to hand it over`,
    );
  }

  /** A rack without an owner gets one by its first lock. @throws ApiFailure */
  lock(run: string, by: Caller): void {
    const known = this.#ownedBy(run, by, "lock");
    this.#owned.set(run, { owner: known?.owner ?? by, isLocked: true });
  }

  /** @throws ApiFailure */
  unlock(run: string, by: Caller): void {
    const known = this.#ownedBy(run, by, "unlock");
    if (known !== undefined) known.isLocked = false;
  }

  /** The lock stays as it is. @param to a session that may give orders. @throws ApiFailure */
  handOver(run: string, by: Caller, to: string): void {
    const known = this.#ownedBy(run, by, "hand over");
    const owner = this.#keys.users().find(({ session }) => session === to);
    if (owner?.role !== "operator") {
      throw new ApiFailure("not-found", `${to} is no operator who is signed in`);
    }
    this.#owned.set(run, { owner, isLocked: known?.isLocked ?? false });
  }

  #ownedBy(run: string, by: Caller, act: string): Owned | undefined {
    const known = this.#known(run);
    if (known === undefined || known.owner.session === by.session) return known;
    throw new ApiFailure("not-allowed", `${run} is ${known.owner.name}'s to ${act}`);
  }

  /** One who is signed in no more owns nothing. */
  #known(run: string): Owned | undefined {
    const known = this.#owned.get(run);
    if (known === undefined) return undefined;
    const isThere = this.#keys.users().some(({ session }) => session === known.owner.session);
    if (!isThere) this.#owned.delete(run);
    return isThere ? known : undefined;
  }
}
