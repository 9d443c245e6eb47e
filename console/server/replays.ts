/** Replays of the runs that pages look at: each is a process, kept while it is asked, a few at a time. */
import { Replay } from "../replay/client.ts";
import type { Ps } from "../replay/types.ts";

/** A replay holds up to a gigabyte; two are compared. */
const OPEN_MAX = 3;
/** Nobody has asked for so long: its process ends. */
const IDLE_MS = 10 * 60_000;

interface Entry {
  readonly run: string;
  readonly replay: Promise<Replay>;
  timer: ReturnType<typeof setTimeout>;
}

export class Replays {
  /** By run and variant, the one that was asked last at the end. */
  readonly #entries = new Map<string, Entry>();
  #isEnded = false;

  /** How many there are. */
  get size(): number {
    return this.#entries.size;
  }

  /**
   * The replay of a run, which begins now where there is none.
   * @param at the instant that is asked for; undefined: the end, or, of a rack that is up, now.
   * @returns it, and the instant.
   * @throws Refusal, RackError as `Replay.open` does.
   */
  async of(
    { run, variant = "" }: { readonly run: string; readonly variant?: string | undefined },
    at?: Ps | undefined,
  ): Promise<{ readonly replay: Replay; readonly at: Ps }> {
    const key = `${run}\n${variant}`;
    const entry = this.#entries.get(key) ?? this.#open(key, { run, variant });
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    clearTimeout(entry.timer);
    entry.timer = this.#idle(key);
    const replay = await entry.replay;
    const { endPs, isLive } = await replay.timeline();
    if (at !== undefined && at <= endPs) return { replay, at };
    const end = isLive ? (await replay.advance()).endPs : endPs;
    return { replay, at: at === undefined ? end : Math.min(at, end) };
  }

  #open(key: string, target: { readonly run: string; readonly variant: string }): Entry {
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined && this.#entries.size >= OPEN_MAX) void this.#close(oldest);
    const replay = Replay.open(target);
    const entry: Entry = { run: target.run, replay, timer: this.#idle(key) };
    this.#entries.set(key, entry);
    // One that cannot be replayed is asked again anew: a rack that is up may have a record by then.
    replay.catch(() => {
      if (this.#entries.get(key) === entry) void this.#close(key);
    });
    if (this.#isEnded) void this.#close(key);
    return entry;
  }

  #idle(key: string): ReturnType<typeof setTimeout> {
    const timer = setTimeout(() => void this.#close(key), IDLE_MS);
    Deno.unrefTimer(timer);
    return timer;
  }

  async #close(key: string): Promise<void> {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    clearTimeout(entry.timer);
    await entry.replay.then((replay) => replay.close(), () => {});
  }

  /** A run is about to be removed: its replays end. */
  async forget(run: string): Promise<void> {
    const keys = [...this.#entries].flatMap(([key, entry]) => entry.run === run ? [key] : []);
    await Promise.all(keys.map((key) => this.#close(key)));
  }

  /** Ends all; returns when their processes are gone. */
  async end(): Promise<void> {
    this.#isEnded = true;
    await Promise.all([...this.#entries.keys()].map((key) => this.#close(key)));
  }
}
