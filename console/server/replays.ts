/**
 * The processes that replay runs: few at a time, as each holds a good part of the machine's memory.
 * Who asks when all are busy waits in a line.
 */
import type { ReplayState } from "../api/replay.ts";
import { Replay } from "../replay/client.ts";
import type { ReplayProgress } from "../replay/job.ts";

export interface ReplaysOptions {
  readonly wallMs: () => number;
  readonly openMax?: number;
  /** That the questions of one user may hold at a time. */
  readonly ofUserMax?: number;
  readonly idleMs?: number;
  /** For tests; default: a process. */
  readonly open?: typeof Replay.open;
}

const ENDING = "The console is ending";

/** A replay of a million events holds some hundred megabytes. */
const OPEN_MAX = 3, OF_USER_MAX = 2, IDLE_MS = 120_000, LOOK_MS = 5_000;
const LINE_MAX = 100;

interface Target {
  /** The whole name. */
  readonly run: string;
  readonly variant?: string;
}

interface Open {
  readonly replay: Promise<Replay>;
  readonly ending: AbortController;
  asked: number;
  /** Whose questions it has, once for each. */
  readonly users: string[];
  usedMs: number;
  isReady: boolean;
  progress: ReplayProgress | undefined;
}

interface Wanted {
  readonly targets: readonly Target[];
  /** Undefined: nobody's, and without a quota. */
  readonly user: string | undefined;
}

interface AskOptions {
  readonly signal?: AbortSignal;
  readonly user?: string | undefined;
}

interface Waiting extends Wanted {
  readonly begin: (open: readonly Open[]) => void;
  readonly leave: (why: unknown) => void;
}

export class ReplaysBusy extends Error {
  override readonly name = "ReplaysBusy";
}

export class Replays {
  readonly #options: Required<ReplaysOptions>;
  readonly #open = new Map<string, Open>();
  /** First come, first served. */
  readonly #line: Waiting[] = [];
  #timer: ReturnType<typeof setInterval> | undefined;
  #isOver = false;

  constructor(
    {
      openMax = OPEN_MAX,
      ofUserMax = Math.min(openMax, OF_USER_MAX),
      idleMs = IDLE_MS,
      open = Replay.open,
      wallMs,
    }: ReplaysOptions,
  ) {
    this.#options = { openMax, ofUserMax, idleMs, open, wallMs };
  }

  get size(): number {
    return this.#open.size;
  }

  /**
   * Opens the run's replay where it is not open, when it is its turn.
   * @throws what `Replay` throws; ReplaysBusy where the line is too long or the console ends; the
   * reason of `signal`, which ends a wait for a turn.
   */
  async ask<T>(
    target: Target,
    question: (replay: Replay) => Promise<T>,
    options: AskOptions = {},
  ): Promise<T> {
    return await this.askTogether([target], ([replay]) => question(replay!), options);
  }

  /** Of several runs at once, which are opened together: none is held while another is waited for. */
  async askTogether<T>(
    targets: readonly Target[],
    question: (replays: readonly Replay[]) => Promise<T>,
    { signal, user }: AskOptions = {},
  ): Promise<T> {
    const open = await this.#inTurn({ targets, user }, signal);
    try {
      return await question(await Promise.all(open.map(({ replay }) => replay)));
    } finally {
      for (const [i, each] of open.entries()) {
        each.asked--;
        if (user !== undefined) each.users.splice(each.users.indexOf(user), 1);
        // What it tells next is of another question's pass.
        if (each.asked === 0) each.progress = undefined;
        each.usedMs = this.#options.wallMs();
        this.#forgetEnded(keyOf(targets[i]!), each);
      }
      this.#serve();
    }
  }

  /** How far the run's replay is. */
  stateOf(target: Target): ReplayState {
    const key = keyOf(target), open = this.#open.get(key);
    if (open !== undefined) {
      const { atPs = 0, endPs = null, events = 0 } = open.progress ?? {};
      if (open.isReady && open.progress === undefined) return { state: "ready" };
      const pass = open.isReady ? "again" : "first";
      return { state: "replaying", pass, atPs, endPs, events };
    }
    const place = this.#line.findIndex(({ targets }) =>
      targets.some((each) => keyOf(each) === key)
    );
    if (place < 0) return { state: "closed" };
    return {
      state: "waiting",
      place: place + 1,
      length: this.#line.length,
      before: [...this.#open.keys()].map((each) => each.replace(/\/$/, "")),
    };
  }

  async end(): Promise<void> {
    this.#isOver = true;
    for (const { leave } of this.#line.splice(0)) leave(new ReplaysBusy(ENDING));
    await Promise.all([...this.#open.keys()].map((key) => this.#end(key)));
  }

  async #inTurn(
    wanted: Wanted,
    signal: AbortSignal | undefined,
  ): Promise<readonly Open[]> {
    signal?.throwIfAborted();
    if (this.#isOver) throw new ReplaysBusy(ENDING);
    if (this.#canBegin(wanted)) return this.#take(wanted);
    if (this.#line.length >= LINE_MAX) {
      throw new ReplaysBusy(
        `${this.#open.size} runs are being replayed, and ${LINE_MAX} questions wait for theirs`,
      );
    }
    const turn = Promise.withResolvers<readonly Open[]>();
    const waiting = { ...wanted, begin: turn.resolve, leave: turn.reject };
    this.#line.push(waiting);
    const leave = () => {
      const place = this.#line.indexOf(waiting);
      if (place < 0) return;
      this.#line.splice(place, 1);
      turn.reject(signal!.reason);
      this.#serve();
    };
    signal?.addEventListener("abort", leave);
    try {
      return await turn.promise;
    } finally {
      signal?.removeEventListener("abort", leave);
    }
  }

  /** Open replays are asked at once; others begin in the order of the line, when there is room. */
  #canBegin(wanted: Wanted, ahead = this.#aheadOf(this.#line.length)): boolean {
    const keys = new Set(wanted.targets.map(keyOf));
    const missing = [...keys].filter((key) => !this.#open.has(key)).length;
    if (missing === 0) return true;
    if (this.#isBeyondQuota(wanted)) return false;
    const busy = [...this.#open].filter(([key, { asked }]) => asked > 0 || keys.has(key)).length;
    // One that needs more than all of the room has it alone.
    return ahead === 0 && (busy === 0 || busy + missing <= this.#options.openMax);
  }

  /** Those before a place of the line that wait for room, and not for their own user's quota. */
  #aheadOf(place: number): number {
    return this.#line.slice(0, place).filter((each) => !this.#isBeyondQuota(each)).length;
  }

  #isBeyondQuota({ targets, user }: Wanted): boolean {
    if (user === undefined) return false;
    const keys = new Set(targets.map(keyOf));
    const others =
      [...this.#open].filter(([key, { users }]) => users.includes(user) && !keys.has(key)).length;
    // One question that needs more than all of it has it alone.
    return others > 0 && others + keys.size > this.#options.ofUserMax;
  }

  /** In one go: no other call comes between the look for room and its use. */
  #take({ targets, user }: Wanted): readonly Open[] {
    const open = targets.map((target) => this.#open.get(keyOf(target)));
    const hold = (each: Open) => {
      each.asked++;
      if (user !== undefined) each.users.push(user);
    };
    for (const each of open) if (each !== undefined) hold(each);
    return targets.map((target, i) => {
      if (open[i] !== undefined) return open[i];
      const begun = this.#open.get(keyOf(target)) ?? this.#begin(target);
      hold(begun);
      return begun;
    });
  }

  #serve(): void {
    for (let place = 0; place < this.#line.length;) {
      const waiting = this.#line[place]!;
      if (this.#canBegin(waiting, this.#aheadOf(place))) {
        this.#line.splice(place, 1);
        waiting.begin(this.#take(waiting));
      } else place++;
    }
  }

  #begin(target: Target): Open {
    const { openMax, open: openReplay, wallMs } = this.#options, key = keyOf(target);
    if (this.#open.size >= openMax) {
      const [oldest] = [...this.#open].filter(([, { asked }]) => asked === 0)
        .sort(([, x], [, y]) => x.usedMs - y.usedMs);
      if (oldest !== undefined) void this.#end(oldest[0]);
    }
    const ending = new AbortController();
    const onProgress = (progress: ReplayProgress) => {
      open.progress = progress;
    };
    const replay = openReplay(target, { signal: ending.signal, onProgress });
    const open: Open = {
      ...{ replay, ending, asked: 0, users: [], usedMs: wallMs() },
      ...{ isReady: false, progress: undefined },
    };
    this.#open.set(key, open);
    replay.then(() => {
      open.isReady = true;
      open.progress = undefined;
    }, () => {
      // The next question tries a failed one anew.
      if (this.#open.get(key) === open) this.#open.delete(key);
    });
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

function keyOf({ run, variant = "" }: Target): string {
  return `${run}/${variant}`;
}
