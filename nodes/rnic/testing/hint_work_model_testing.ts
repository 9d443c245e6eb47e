/**
 * A model of timed work of hints (001_ [0114]), from its tables: the hardware is a pipeline, the firmware serves one
 * piece of work after the other, the driver's commands too; a core is told once of all that is left of a job.
 */
import type { Time } from "../../../fabric/base/time.ts";
import {
  costOf,
  type HintWork,
  isOnCore,
  WORK_JOBS,
  type WorkJob,
  type WorkPiece,
  workPs,
} from "../../../fabric/rack/plan/hint_work.ts";

/** Work that peers cause: so much of a kind waits, and of one of them. */
const WAITING = { all: 256, one: 64 } as const;

export interface Effect {
  readonly kind: string;
  /** Of work that a peer has caused. */
  readonly requester?: number;
  readonly apply: () => void;
}

interface Waiting {
  readonly at: Time;
  readonly effect: Effect;
  readonly job: WorkJob | undefined;
  readonly rest: readonly WorkPiece[];
  readonly elements: number;
}

export class WorkModel {
  readonly counters = {
    hintWorkEvents: 0,
    hintFirmwarePs: 0,
    hintFirmwareWaitPs: 0,
    hintsOverrun: 0,
  };
  /** Events for cores. */
  readonly events: { readonly id: number; readonly job: WorkJob; readonly elements: number }[] = [];
  readonly atCores = new Map<number, Waiting>();
  readonly #plan: HintWork;
  #due: Waiting[] = [];
  #firmwareUntil: Time = 0;
  #events = 0;

  constructor(plan: HintWork) {
    this.#plan = plan;
  }

  takesTime(job: WorkJob): boolean {
    return this.#pieces(job).length > 0;
  }

  #pieces(job: WorkJob): WorkPiece[] {
    return WORK_JOBS[job].filter((piece) => costOf(this.#plan, piece) !== undefined);
  }

  /** A job whose effect comes at its end, be that now. */
  begin(now: Time, job: WorkJob, elements: number, effect: Effect): void {
    const rest = this.#pieces(job);
    if (rest.length === 0) return effect.apply();
    const { requester, kind } = effect;
    const alike = [...this.#due, ...this.atCores.values()].filter((each) =>
      each.effect.kind === kind
    );
    const its = alike.filter((each) => each.effect.requester === requester);
    const isLost = requester !== undefined &&
      (alike.length >= WAITING.all || its.length >= WAITING.one);
    if (isLost) this.counters.hintsOverrun++;
    else this.#goOn(now, { at: now, effect, job, rest, elements });
  }

  /** An action of one piece. @returns its end; undefined where it was done at once. */
  act(now: Time, piece: WorkPiece, effect: Effect): Time | undefined {
    if (costOf(this.#plan, piece) === undefined) {
      effect.apply();
      return undefined;
    }
    const at = this.#serve(now, [piece], 1);
    this.#put({ at, effect, job: undefined, rest: [], elements: 1 });
    return at;
  }

  #goOn(now: Time, waiting: Waiting): void {
    const { rest, elements } = waiting;
    const place = this.#plan[rest[0]!]!;
    if (isOnCore(place)) {
      const id = this.#events++;
      this.atCores.set(id, waiting);
      this.events.push({ id, job: waiting.job!, elements });
      this.counters.hintWorkEvents++;
      return;
    }
    const here: WorkPiece[] = [];
    for (const piece of rest) {
      if (this.#plan[piece] !== place) break;
      here.push(piece);
    }
    const at = this.#serve(now, here, elements);
    this.#put({ ...waiting, at, rest: rest.slice(here.length) });
  }

  #serve(now: Time, pieces: readonly WorkPiece[], elements: number): Time {
    let ps = 0;
    for (const piece of pieces) ps += workPs(this.#plan, piece, elements);
    if (this.#plan[pieces[0]!] === "hardware") return now + ps;
    const waits = Math.max(0, this.#firmwareUntil - now);
    this.counters.hintFirmwarePs += ps;
    this.counters.hintFirmwareWaitPs += waits;
    this.#firmwareUntil = now + waits + ps;
    return this.#firmwareUntil;
  }

  #put(waiting: Waiting): void {
    this.#due.push(waiting);
    // A stable sort: of one instant, the first that came.
    this.#due.sort((one, other) => one.at - other.at);
  }

  /** Effects of what has ended by now, in order. */
  end(now: Time): Effect[] {
    const ended: Effect[] = [];
    while (this.#due.length > 0 && this.#due[0]!.at <= now) {
      const [first, ...others] = this.#due as [Waiting, ...Waiting[]];
      this.#due = others;
      if (first.rest.length === 0) ended.push(first.effect);
      else this.#goOn(now, first);
    }
    return ended;
  }

  get wakeAt(): Time | undefined {
    return this.#due[0]?.at;
  }

  get waiting(): number {
    return this.#due.length;
  }

  command(now: Time, commandPs: Time): Time {
    this.#firmwareUntil = Math.max(now, this.#firmwareUntil) + commandPs;
    return this.#firmwareUntil;
  }
}
