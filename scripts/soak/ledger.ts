/**
 * What a rack has promised to keep: of each object the content that was confirmed last, and what was
 * sent to its place since then without a confirmation.
 */

/** How an object is found: its content by SHA-256, or what there is in its place. */
export type Found = { readonly sha256: string } | "missing" | "incomplete";

export interface Place {
  readonly host: string;
  readonly name: string;
}

interface Kept {
  confirmed: string | undefined;
  /** Sent after the confirmed one, and neither confirmed nor known to be refused. */
  readonly later: Set<string>;
  /** Sent by an order whose end is unknown: the rack may still carry it out. */
  readonly loose: Set<string>;
}

export class Ledger {
  readonly #kept = new Map<string, Kept>();

  /** A put begins. From now on its content may be found. */
  sent(place: Place, sha256: string): void {
    this.#at(place).later.add(sha256);
  }

  /** The rack has said that the content is persistent, and no other put to this place is under way. */
  confirmed(place: Place, sha256: string): void {
    const kept = this.#at(place);
    kept.confirmed = sha256;
    kept.later.clear();
  }

  /** Nothing is known of the order's end, so it may come after those that follow. */
  abandoned(place: Place, sha256: string): void {
    this.#at(place).loose.add(sha256);
  }

  /** Places of a host with a confirmed object. */
  names(host: string): string[] {
    return [...this.#kept].filter(([key, { confirmed }]) =>
      confirmed !== undefined && key.startsWith(`${host}/`)
    ).map(([key]) => key.slice(host.length + 1));
  }

  get size(): number {
    return [...this.#kept.values()].filter(({ confirmed }) => confirmed !== undefined).length;
  }

  /** @returns what is wrong with what was found, undefined where it is as promised. */
  judge(place: Place, found: Found): string | undefined {
    const { confirmed, later, loose } = this.#at(place);
    const where = `${place.name} on ${place.host}`;
    if (typeof found === "string") {
      if (confirmed === undefined) return undefined;
      return `${where} is ${found}: expected the confirmed object`;
    }
    const { sha256 } = found;
    if (sha256 === confirmed || later.has(sha256) || loose.has(sha256)) return undefined;
    const expected = confirmed === undefined ? "none that was confirmed" : "the confirmed one";
    return `${where} has a content that is neither ${expected} nor a newer one`;
  }

  #at({ host, name }: Place): Kept {
    const key = `${host}/${name}`;
    let kept = this.#kept.get(key);
    if (kept === undefined) {
      kept = { confirmed: undefined, later: new Set(), loose: new Set() };
      this.#kept.set(key, kept);
    }
    return kept;
  }
}
