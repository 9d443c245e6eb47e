/**
 * Documents that views read by address, again only where they may have changed. The present
 * document stays until the next one has come, so that a slider does not flicker.
 */
import { signal } from "@preact/signals";
import { request } from "./session.ts";

type Reading<T> =
  | { readonly state: "reading"; readonly before?: T }
  | { readonly state: "here"; readonly value: T }
  | { readonly state: "missing"; readonly why: string };

/** One place of a view, with one document at a time. */
export class Reader<T> {
  readonly #shown = signal<Reading<T>>({ state: "reading" });
  #path: string | undefined;
  /** The path, and as of when. */
  #asked: string | undefined;
  #of: string | undefined;
  #isBusy = false;

  /**
   * Reads `path` (below `/api/v1`), unless it was read last. One request at a time; the last path
   * wins.
   * @param of the run or job: until the document is there, one of the same stays.
   * @param asOf as of when, of a document that changes: read again where that is another.
   */
  async read(path: string, of: string, asOf?: number): Promise<void> {
    const wanted = `${path} ${asOf}`;
    if (wanted === this.#asked) return;
    const before = of === this.#of ? this.value : undefined;
    this.#path = path;
    this.#asked = wanted;
    this.#of = of;
    this.#shown.value = { state: "reading", ...(before !== undefined && { before }) };
    if (this.#isBusy) return;
    this.#isBusy = true;
    let asked: string | undefined;
    do {
      asked = this.#asked;
      const found = await readDocument<T>(this.#path);
      if (asked === this.#asked) this.#shown.value = found;
    } while (asked !== this.#asked);
    this.#isBusy = false;
  }

  /** Undefined where there is a document, or will be. */
  get trouble(): string | undefined {
    const shown = this.#shown.value;
    return shown.state === "missing" ? shown.why : undefined;
  }

  /** While the next document is read: the one before. */
  get value(): T | undefined {
    const shown = this.#shown.value;
    if (shown.state === "here") return shown.value;
    return shown.state === "reading" ? shown.before : undefined;
  }
}

async function readDocument<T>(path: string): Promise<Reading<T>> {
  try {
    return { state: "here", value: await (await request(path)).json() };
  } catch (error) {
    return { state: "missing", why: (error as Error).message };
  }
}

/** Encodes parts; undefined values are left out of the query. */
export function pathOf(
  parts: readonly (string | number)[],
  query: Readonly<Record<string, string | number | boolean | undefined>> = {},
): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)]]
  );
  const path = parts.map((part) => `/${encodeURIComponent(part)}`).join("");
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}
