import { Replay } from "../replay/client.ts";

export interface ReplaysOptions {
  readonly wallMs: () => number;
  readonly openMax?: number;
  readonly idleMs?: number;
}

/** A replay of a million events holds some hundred megabytes. */
const OPEN_MAX = 3, IDLE_MS = 120_000, LOOK_MS = 5_000;

interface Open {
  readonly replay: Promise<Replay>;
  readonly ending: AbortController;
  asked: number;
  usedMs: number;
}

export class ReplaysBusy extends Error {
  override readonly name = "ReplaysBusy";
}

export class Replays {
  readonly #options: Required<ReplaysOptions>;
  readonly #open = new Map<string, Open>();
  #timer: ReturnType<typeof setInterval> | undefined;
  #isOver = false;

  constructor({ openMax = OPEN_MAX, idleMs = IDLE_MS, wallMs }: ReplaysOptions) {
    this.#options = { openMax, idleMs, wallMs };
  }

  get size(): number {
    return this.#open.size;
  }

  /**
   * Opens the run's replay where it is not open.
   * @param target.run the whole name.
   * @throws what `Replay` throws; ReplaysBusy.
   */
  async ask<T>(
    target: { readonly run: string; readonly variant?: string },
    question: (replay: Replay) => Promise<T>,
  ): Promise<T> {
    const key = `${target.run}/${target.variant ?? ""}`;
    const open = this.#open.get(key) ?? this.#begin(key, target);
    open.asked++;
    try {
      return await question(await open.replay);
    } finally {
      open.asked--;
      open.usedMs = this.#options.wallMs();
      this.#forgetEnded(key, open);
    }
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await Promise.all([...this.#open.keys()].map((key) => this.#end(key)));
  }

  #begin(key: string, target: { readonly run: string; readonly variant?: string }): Open {
    const { openMax, wallMs } = this.#options;
    if (this.#isOver) throw new ReplaysBusy("The console is ending");
    if (this.#open.size >= openMax) {
      const [oldest] = [...this.#open].filter(([, { asked }]) => asked === 0)
        .sort(([, x], [, y]) => x.usedMs - y.usedMs);
      if (oldest === undefined) throw new ReplaysBusy(`${openMax} runs are being replayed: wait`);
      void this.#end(oldest[0]);
    }
    const ending = new AbortController();
    const replay = Replay.open(target, { signal: ending.signal });
    const open = { replay, ending, asked: 0, usedMs: wallMs() };
    this.#open.set(key, open);
    // The next question tries a failed one anew.
    replay.catch(() => this.#open.get(key) === open && this.#open.delete(key));
    this.#timer ??= setInterval(() => this.#endIdle(), LOOK_MS);
    return open;
  }

  #forgetEnded(key: string, open: Open): void {
    const forget = ({ isOver }: Replay) => {
      if (isOver && this.#open.get(key) === open) void this.#end(key);
    };
    open.replay.then(forget, () => {});
  }

  #endIdle(): void {
    const { idleMs, wallMs } = this.#options;
    for (const [key, { asked, usedMs }] of this.#open) {
      if (asked === 0 && wallMs() - usedMs > idleMs) void this.#end(key);
    }
  }

  async #end(key: string): Promise<void> {
    const open = this.#open.get(key);
    this.#open.delete(key);
    if (this.#open.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
    open?.ending.abort();
    await open?.replay.then((replay) => replay.close(), () => {});
  }
}
