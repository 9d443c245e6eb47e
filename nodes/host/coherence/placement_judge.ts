/**
 * The judge of placements (C-04, decision 17): a program of the system on home's core [0026, 0075], for regions with
 * `placement: auto`. Cores of home count their accesses here, far cards report theirs window by window; at each report
 * `fabric/coherence/judge_placement.ts` judges, and home's card is told to move the copies where the place is another.
 *
 * Without far accesses no report comes and nothing is moved: wherever copies would be kept, home's cores find what
 * they use in their own cache. So an idle rack is quiet.
 */
import type { Time } from "../../../fabric/base/time.ts";
import {
  FRESH_JUDGEMENT,
  type Judgement,
  judgePlacement,
} from "../../../fabric/coherence/judge_placement.ts";
import { JUDGE_WINDOW_PS, type SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { Cpu, Steps } from "../cpu/program.ts";
import { NEVER } from "../../../fabric/base/time.ts";

/** A far card's report, and when it came. */
interface FarReport {
  readonly accesses: number;
  readonly at: Time;
}

interface Judged {
  readonly region: SharedRegion;
  readonly home: RecentCount;
  /** By the far card's number: its last report. */
  readonly far: Map<number, FarReport>;
  /** A report has come that is not judged. */
  isDue: boolean;
  judgedAt: Time;
  judgement: Judgement;
}

const SIGNAL = "region-counts";

export class PlacementJudge {
  /** Moves that home's card was told of. */
  moves = 0;
  readonly #its: ReadonlyMap<number, Judged>;
  readonly #wake: (signal: string) => void;
  /** The power-on of the card that judgements are of: another one keeps all copies where a fresh region has them. */
  #card: number | undefined;

  /** @param regions of this home, those with `placement: auto`. */
  constructor(regions: readonly SharedRegion[], wake: (signal: string) => void) {
    this.#wake = wake;
    this.#its = new Map(regions.map((region) => [region.id, {
      region,
      home: new RecentCount(JUDGE_WINDOW_PS),
      far: new Map<number, FarReport>(),
      isDue: false,
      judgedAt: -NEVER,
      judgement: FRESH_JUDGEMENT,
    }]));
  }

  /** A core of this host has accessed a region at home. */
  accessed(region: SharedRegion, now: Time): void {
    this.#its.get(region.id)?.home.add(now);
  }

  /** A far card tells what its cores have accessed in a window. */
  reported(id: number, { agent, accesses, at }: FarReport & { readonly agent: number }): void {
    const judged = this.#its.get(id);
    if (judged === undefined) return;
    judged.far.set(agent, { accesses, at });
    judged.isDue = true;
    this.#wake(SIGNAL);
  }

  /** Serves for ever. */
  *run(cpu: Cpu): Steps<void> {
    for (;;) {
      for (const judged of this.#its.values()) yield* this.#judge(judged, cpu);
      if ([...this.#its.values()].some(({ isDue }) => isDue)) continue;
      yield* cpu.waitSignal(SIGNAL, NEVER);
    }
  }

  *#judge(judged: Judged, cpu: Cpu): Steps<void> {
    const { now, card } = cpu;
    if (card !== this.#card) this.#begin(card);
    const { region, home, far, judgement, judgedAt, isDue } = judged;
    judged.isDue = false;
    // Reports of several far cards come at different times: each window is judged once, with the last one of each.
    if (!isDue || card === undefined || now < judgedAt + JUDGE_WINDOW_PS / 2) return;
    let farAccesses = 0;
    for (const { accesses, at } of far.values()) {
      if (at > now - 1.5 * JUDGE_WINDOW_PS) farAccesses += accesses;
    }
    const next = judgePlacement(judgement, { home: home.sum(now), far: farAccesses });
    judged.judgement = next;
    judged.judgedAt = now;
    if (next.place === judgement.place) return;
    const reply = yield* cpu.command({ op: "move-region", region: region.id, place: next.place });
    if (reply.status === "ok") this.moves++;
    else if (cpu.card === card) judged.judgement = judgement;
  }

  #begin(card: number | undefined): void {
    this.#card = card;
    for (const judged of this.#its.values()) judged.judgement = FRESH_JUDGEMENT;
  }
}

const PARTS = 8;

/** How often something has happened in the last span of time, to an eighth of the span. */
class RecentCount {
  readonly #partPs: Time;
  readonly #counts = new Float64Array(PARTS);
  /** The newest part, counted from time 0. */
  #newest = 0;

  constructor(spanPs: Time) {
    this.#partPs = spanPs / PARTS;
  }

  add(now: Time): void {
    this.#turn(now);
    this.#counts[this.#newest % PARTS]! += 1;
  }

  sum(now: Time): number {
    this.#turn(now);
    return this.#counts.reduce((sum, count) => sum + count, 0);
  }

  #turn(now: Time): void {
    const part = Math.floor(now / this.#partPs);
    for (let left = Math.min(PARTS, part - this.#newest); left > 0; left--) {
      this.#counts[(part - left + 1) % PARTS] = 0;
    }
    this.#newest = part;
  }
}
