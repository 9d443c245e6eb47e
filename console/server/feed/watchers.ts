import { RackWatcher } from "./rack_watcher.ts";

export interface WatchersOptions {
  readonly wallMs: () => number;
  readonly idleMs?: number;
}

const IDLE_MS = 10_000;

interface Watched {
  readonly watcher: RackWatcher;
  readonly readers: Set<() => void>;
  timer: ReturnType<typeof setTimeout> | undefined;
}

export class Watchers {
  readonly #options: WatchersOptions;
  readonly #watched = new Map<string, Watched>();

  constructor(options: WatchersOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#watched.size;
  }

  /** Returns the watcher, and a function to leave it. @param wake called after each change. */
  join(
    run: string,
    wake: () => void,
  ): { readonly watcher: RackWatcher; readonly leave: () => void } {
    const known = this.#watched.get(run);
    const watched = known === undefined || known.watcher.isOver ? this.#watch(run) : known;
    clearTimeout(watched.timer);
    watched.readers.add(wake);
    const leave = () => {
      watched.readers.delete(wake);
      if (watched.readers.size > 0) return;
      clearTimeout(watched.timer);
      watched.timer = setTimeout(
        () => void this.#end(run, watched),
        this.#options.idleMs ?? IDLE_MS,
      );
      // A test or the command may end meanwhile.
      Deno.unrefTimer(watched.timer as unknown as number);
    };
    return { watcher: watched.watcher, leave };
  }

  async end(): Promise<void> {
    await Promise.all([...this.#watched].map(([run, watched]) => this.#end(run, watched)));
  }

  #watch(run: string): Watched {
    const readers = new Set<() => void>();
    const onChange = () => {
      for (const wake of readers) wake();
    };
    const watcher = new RackWatcher(run, { wallMs: this.#options.wallMs, onChange });
    const watched: Watched = { watcher, readers, timer: undefined };
    this.#watched.set(run, watched);
    return watched;
  }

  async #end(run: string, watched: Watched): Promise<void> {
    clearTimeout(watched.timer);
    if (this.#watched.get(run) === watched) this.#watched.delete(run);
    await watched.watcher.end();
  }
}
