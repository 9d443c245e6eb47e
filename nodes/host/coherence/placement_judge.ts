/**
 * The judge of placements (C-04, decision 17): a program of the system on home's core [0026, 0075],
 * for regions with `placement: auto`. Cores of home count their accesses here, far cards report
 * theirs window by window; at each report `fabric/coherence/judge_placement.ts` judges, and home's
 * card moves the copies where it decides for another place.
 *
 * Each window is a line of the trace, each move is reported, and counters sum up the windows.
 *
 * Without far accesses no report comes and no copy is moved: home's cores find their lines in their
 * own cache in either place. So an idle rack is quiet.
 */
import type { Time } from "../../../fabric/base/time.ts";
import {
  FRESH_JUDGEMENT,
  judgeByRule,
  type Judgement,
  judgePlacement,
  type JudgeRule,
  type WindowCounts,
} from "../../../fabric/coherence/judge_placement.ts";
import {
  JUDGE_PLAN,
  type JudgePlan,
  type SharedRegion,
} from "../../../fabric/rack/plan/shared_region.ts";
import type { Cpu, Steps } from "../cpu/program.ts";
import { NEVER } from "../../../fabric/base/time.ts";

interface FarReport {
  readonly accesses: number;
  readonly at: Time;
}

interface Judged {
  readonly region: SharedRegion;
  readonly plan: JudgePlan;
  /** The user's own rule; undefined: the project's. */
  readonly rule: JudgeRule | undefined;
  readonly home: RecentCount;
  /** The last report of each far card, by its number. */
  readonly far: Map<number, FarReport>;
  /** A report has not been judged yet. */
  isDue: boolean;
  judgedAt: Time;
  judgement: Judgement;
  /** Since the host's power-on: windows that were judged, their accesses, and moves. */
  windows: number;
  homeAccesses: number;
  farAccesses: number;
  moves: number;
}

/** A window and its judgement. */
export interface Verdict {
  readonly region: SharedRegion;
  readonly plan: JudgePlan;
  readonly counts: WindowCounts;
  readonly before: Judgement;
  readonly after: Judgement;
}

export interface JudgeParts {
  readonly wake: (signal: string) => void;
  readonly ruleOf: (path: string) => JudgeRule;
  readonly judged: (verdict: Verdict) => void;
  /** Home's card has moved the copies, or has refused for this reason. */
  readonly moved: (verdict: Verdict, refused: string | undefined) => void;
}

const SIGNAL = "region-counts";

export class PlacementJudge {
  readonly #its: ReadonlyMap<number, Judged>;
  readonly #parts: JudgeParts;
  /**
   * The power-on of the card that judgements are of: a new card starts with the placement of a
   * fresh region.
   */
  #card: number | undefined;

  /** @param regions of this home, those with `placement: auto`. */
  constructor(regions: readonly SharedRegion[], parts: JudgeParts) {
    this.#parts = parts;
    this.#its = new Map(regions.map((region) => {
      const { judge: plan = JUDGE_PLAN } = region;
      return [region.id, {
        region,
        plan,
        rule: plan.rule === undefined ? undefined : parts.ruleOf(plan.rule),
        home: new RecentCount(plan.windowPs),
        far: new Map<number, FarReport>(),
        isDue: false,
        judgedAt: -NEVER,
        judgement: FRESH_JUDGEMENT,
        ...{ windows: 0, homeAccesses: 0, farAccesses: 0, moves: 0 },
      }];
    }));
  }

  /** Moves that home's card was asked for. */
  get moves(): number {
    let moves = 0;
    for (const judged of this.#its.values()) moves += judged.moves;
    return moves;
  }

  statistics(): Record<string, number> {
    const all: Record<string, number> = {};
    for (
      const { region, windows, homeAccesses, farAccesses, moves } of this.#its.values()
    ) {
      const of = `region.${region.name}`;
      Object.assign(all, {
        [`${of}.windows`]: windows,
        [`${of}.homeAccesses`]: homeAccesses,
        [`${of}.farAccesses`]: farAccesses,
        [`${of}.moves`]: moves,
      });
    }
    return all;
  }

  accessed(region: SharedRegion, now: Time): void {
    this.#its.get(region.id)?.home.add(now);
  }

  /** A far card reports the accesses of its cores in a window. */
  reported(id: number, { agent, accesses, at }: FarReport & { readonly agent: number }): void {
    const judged = this.#its.get(id);
    if (judged === undefined) return;
    judged.far.set(agent, { accesses, at });
    judged.isDue = true;
    this.#parts.wake(SIGNAL);
  }

  /** Never returns. */
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
    const { region, plan, home, far, judgement: before, judgedAt, isDue } = judged;
    judged.isDue = false;
    // Reports of far cards come at different times: each window is judged once, with the last
    // report of each.
    if (!isDue || card === undefined || now < judgedAt + plan.windowPs / 2) return;
    let farAccesses = 0;
    for (const { accesses, at } of far.values()) {
      if (at > now - 1.5 * plan.windowPs) farAccesses += accesses;
    }
    const counts = { home: home.sum(now), far: farAccesses };
    const after = afterWindow(judged, counts, now);
    judged.judgement = after;
    judged.judgedAt = now;
    judged.windows++;
    judged.homeAccesses += counts.home;
    judged.farAccesses += counts.far;
    const verdict = { region, plan, counts, before, after };
    this.#parts.judged(verdict);
    if (after.place === before.place) return;
    const reply = yield* cpu.command({ op: "move-region", region: region.id, place: after.place });
    if (reply.status === "ok") judged.moves++;
    else if (cpu.card === card) judged.judgement = before;
    this.#parts.moved(verdict, reply.status === "ok" ? undefined : reply.reason);
  }

  #begin(card: number | undefined): void {
    this.#card = card;
    for (const judged of this.#its.values()) judged.judgement = FRESH_JUDGEMENT;
  }
}

function afterWindow(
  { region, plan, rule, judgement }: Judged,
  counts: WindowCounts,
  now: Time,
): Judgement {
  if (rule === undefined) return judgePlacement(judgement, counts, plan);
  const { marginPercent, windows, windowPs } = plan;
  const window = { region: region.name, now, windowPs, marginPercent, windows };
  return judgeByRule(rule, { ...window, ...judgement, ...counts });
}

const PARTS = 8;

/**
 * Counts events in the last span of time, by parts of it. The oldest part counts by the share that
 * still lies in the span, so that the sum is of a whole span, like the far cards' counts that it is
 * compared with.
 */
class RecentCount {
  readonly #partPs: Time;
  readonly #counts = new Float64Array(PARTS + 1);
  /** The newest part, counted from time 0. */
  #newest = 0;

  constructor(spanPs: Time) {
    this.#partPs = spanPs / PARTS;
  }

  add(now: Time): void {
    this.#turn(now);
    this.#counts[this.#newest % this.#counts.length]! += 1;
  }

  sum(now: Time): number {
    this.#turn(now);
    const oldest = this.#counts[(this.#newest + 1) % this.#counts.length]!;
    const all = this.#counts.reduce((sum, count) => sum + count, 0);
    return Math.round(all - oldest * (now / this.#partPs - this.#newest));
  }

  #turn(now: Time): void {
    const part = Math.floor(now / this.#partPs), { length } = this.#counts;
    for (let left = Math.min(length, part - this.#newest); left > 0; left--) {
      this.#counts[(part - left + 1) % length] = 0;
    }
    this.#newest = part;
  }
}
