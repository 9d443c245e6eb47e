/**
 * For each object the content that was confirmed last, and the contents sent to its place since
 * then without a confirmation.
 */

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

  sent(place: Place, sha256: string): void {
    this.#at(place).later.add(sha256);
  }

  /** The content is persistent, and no other put to this place is under way. */
  confirmed(place: Place, sha256: string): void {
    const kept = this.#at(place);
    kept.confirmed = sha256;
    kept.later.clear();
  }

  /** The end of the order is unknown, so its put may come after later ones. */
  abandoned(place: Place, sha256: string): void {
    this.#at(place).loose.add(sha256);
  }

  names(host: string): string[] {
    return [...this.#kept].filter(([key, { confirmed }]) =>
      confirmed !== undefined && key.startsWith(`${host}/`)
    ).map(([key]) => key.slice(host.length + 1));
  }

  get size(): number {
    return [...this.#kept.values()].filter(({ confirmed }) => confirmed !== undefined).length;
  }

  /** @returns the error of the found content, undefined where it is as promised. */
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
