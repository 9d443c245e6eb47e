/**
 * A campaign: rounds of chaos on one scenario, one after the other, until its time or its number of
 * rounds is over. What it leaves: `chaos.json`, and the folder of each round that failed.
 */
import type { Packing } from "../../fabric/rack/build/topology.ts";
import type { VariantChoices } from "../../fabric/rack/scenario/variants.ts";
import { optionWords, quoted } from "../base/command_line.ts";
import { type Refusal, refusal } from "../../fabric/rack/plan/problem.ts";
import { RackError } from "../rack/supervisor.ts";
import { draftText, drawRound, fieldOf, prepareRound, type RoundDraft } from "./draw.ts";
import { GOALS } from "./goals.ts";
import { type ChaosFinding, type Reference, referenceOf } from "./progress.ts";
import { actionTexts, type Replay, runRound, runUndisturbed, whyEndless } from "./round.ts";

export interface CampaignOptions {
  readonly scenario: string;
  readonly seed: number;
  /** An existing folder of the campaign's own. */
  readonly directory: string;
  /** Name on the bus, a subject token. */
  readonly run: string;
  /** No round but the first begins after so many wall ms. */
  readonly forMs: number;
  readonly rounds?: number;
  /** The first round's number: to try one again. */
  readonly from: number;
  readonly fixed: VariantChoices;
  readonly packing?: Exclude<Packing, "all">;
  readonly onRound: (round: RoundReport) => void;
  /** Takes down what is under way; the campaign then rejects with what the signal says. */
  readonly signal?: AbortSignal;
}

/** A round, for people and for `chaos.json`. */
export interface RoundReport {
  readonly round: number;
  readonly what: string;
  readonly outcome: "held" | "broken" | "untold";
  readonly blows: ReadonlyArray<
    { readonly what: string; readonly wallMs: number; readonly hit: boolean }
  >;
  readonly findings: readonly ChaosFinding[];
  readonly untold: string | null;
  readonly replay: Replay;
  /** Whether the replay shows what checkers found; null where there is nothing to show. */
  readonly replayShows: boolean | null;
  readonly digest: string | null;
  /** The command that replays it in one process. */
  readonly command: string;
  /** The folder of a round that did not hold; null where it was removed. */
  readonly directory: string | null;
  readonly fired: readonly string[];
  readonly wallMs: number;
}

export interface CampaignReport {
  readonly scenario: string;
  readonly seed: number;
  readonly wallMs: number;
  readonly rounds: number;
  readonly held: number;
  readonly broken: number;
  readonly untold: number;
  readonly blows: number;
  readonly hits: number;
  /** Rounds whose record was replayed in one process to the same digest, and those that had none to. */
  readonly replayed: number;
  readonly inexact: number;
  /** Goal → rounds in which it fired. */
  readonly goals: Readonly<Record<string, number>>;
  readonly failures: readonly RoundReport[];
  readonly directory: string;
}

/** What a rack takes in wall ms to come to its end, however busy the machine is; a stuck one never does. */
const DEADLINE_MS = 90_000, PER_UNDISTURBED_MS = 60, DEADLINE_MOST_MS = 600_000;
const UNDISTURBED_LIMIT_MS = 300_000;
/** More failing rounds than this are counted, and not kept. */
const KEPT_MOST = 20;
/** When nothing could be told so often in a row, the world is wrong and not the rack. */
const UNTOLD_MOST = 3;

/** Runs rounds until time or number is over. @throws Refusal before the first one. */
export async function runCampaign(options: CampaignOptions): Promise<CampaignReport> {
  const field = await fieldOf(options.scenario, options.fixed);
  if (field.hasFaults && options.packing === "machine") {
    const expected = `node, as ${options.scenario} has power failures of its own`;
    throw refusal("--pack", { found: '"machine"', expected });
  }
  await assertEnds(drawRound(options.from, { ...options, field }), options);
  const references = new References(options);
  const sum = new Sum(options);
  const began = performance.now();
  const isDue = (done: number) =>
    done === 0 ||
    (performance.now() - began < options.forMs && done < (options.rounds ?? Infinity));
  let report = sum.report(0);
  let untoldInRow = 0;
  for (let done = 0; isDue(done) && untoldInRow < UNTOLD_MOST; done++) {
    const number = options.from + done;
    const draft = drawRound(number, { ...options, field });
    const round = await reportOn(draft, { options, references, isKept: sum.failures < KEPT_MOST });
    untoldInRow = round.outcome === "untold" ? untoldInRow + 1 : 0;
    sum.add(round);
    report = sum.report(performance.now() - began);
    await write(report);
    options.onRound(round);
  }
  return report;
}

/** As processes, which can be ended whatever they do: the others are run in this one. */
async function assertEnds(draft: RoundDraft, options: CampaignOptions): Promise<void> {
  const { scenario, run, signal } = options;
  const directory = `${options.directory}/undisturbed`;
  await Deno.mkdir(directory, { recursive: true });
  const deadlineMs = UNDISTURBED_LIMIT_MS;
  const why = await whyEndless(draft, {
    scenario,
    directory,
    run,
    deadlineMs,
    ...(signal && { signal }),
  });
  await Deno.remove(directory, { recursive: true });
  if (why !== undefined) throw endless(scenario, why);
}

function endless(scenario: string, why: string): Refusal {
  const expected = `a scenario that comes to its end: ${why}`;
  return refusal("", { found: `${scenario}, undisturbed`, expected });
}

async function reportOn(
  draft: RoundDraft,
  of: {
    readonly options: CampaignOptions;
    readonly references: References;
    readonly isKept: boolean;
  },
): Promise<RoundReport> {
  const { options, references, isKept } = of;
  const directory = `${options.directory}/round-${draft.number}`;
  await Deno.mkdir(directory, { recursive: true });
  const prepared = await prepareRound(options.scenario, draft);
  const { reference, deadlineMs } = await references.of(draft);
  const result = await runRound(draft, {
    scenario: options.scenario,
    directory,
    run: `${options.run}-${draft.number}`,
    reference,
    deadlineMs,
    ...(options.signal && { signal: options.signal }),
  });
  const outcome = result.findings.length > 0
    ? "broken"
    : result.untold !== undefined
    ? "untold"
    : "held";
  const keeps = outcome !== "held" && isKept;
  if (!keeps) await Deno.remove(directory, { recursive: true });
  const texts = actionTexts(result.actions, prepared);
  return {
    round: draft.number,
    what: draftText(draft, prepared.label),
    outcome,
    blows: result.actions.map(({ wallMs, hit }, i) => ({ what: texts[i]!, wallMs, hit })),
    findings: result.findings,
    untold: result.untold ?? null,
    replay: result.replay,
    replayShows: result.replayShows ?? null,
    digest: result.digest ?? null,
    command: await replayCommand(options.scenario, draft, directory),
    directory: keeps ? directory : null,
    fired: result.fired,
    wallMs: result.wallMs,
  };
}

/** How a user replays a round in one process. */
async function replayCommand(
  scenario: string,
  { choices, seed }: RoundDraft,
  directory: string,
): Promise<string> {
  const faults = `${directory}/faults.jsonl`;
  const isRecorded = await Deno.stat(faults).then(() => true, () => false);
  const words = [
    ...optionWords({ ...choices, seed, pack: "all" }),
    ...(isRecorded ? optionWords({ faults }) : []),
  ];
  return `rack run ${[quoted(scenario), ...words].join(" ")}`;
}

/** Undisturbed runs, one of each kind of rack: they hardly depend on the seed. */
class References {
  readonly #options: CampaignOptions;
  readonly #known = new Map<string, { reference: Reference; deadlineMs: number }>();

  constructor(options: CampaignOptions) {
    this.#options = options;
  }

  async of(draft: RoundDraft): Promise<{ reference: Reference; deadlineMs: number }> {
    const key = JSON.stringify(draft.choices);
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const directory = `${this.#options.directory}/undisturbed`;
    const { scenario, signal } = this.#options;
    try {
      const limitMs = UNDISTURBED_LIMIT_MS;
      const ran = await runUndisturbed(draft, {
        scenario,
        directory,
        limitMs,
        ...(signal && { signal }),
      });
      const deadlineMs = DEADLINE_MS + Math.round(PER_UNDISTURBED_MS * ran.wallMs);
      const found = {
        reference: referenceOf(ran),
        deadlineMs: Math.min(DEADLINE_MOST_MS, deadlineMs),
      };
      this.#known.set(key, found);
      return found;
    } catch (error) {
      if (!(error instanceof RackError)) throw error;
      throw endless(scenario, error.message);
    } finally {
      await Deno.remove(directory, { recursive: true }).catch((error) => {
        if (!(error instanceof Deno.errors.NotFound)) throw error;
      });
    }
  }
}

/** What a campaign comes to. */
class Sum {
  readonly #options: CampaignOptions;
  readonly #goals = new Map(GOALS.map(({ name }) => [name, 0]));
  readonly #failures: RoundReport[] = [];
  readonly #outcomes = { held: 0, broken: 0, untold: 0 };
  #rounds = 0;
  #blows = 0;
  #hits = 0;
  #replayed = 0;
  #inexact = 0;

  constructor(options: CampaignOptions) {
    this.#options = options;
  }

  get failures(): number {
    return this.#failures.length;
  }

  add(round: RoundReport): void {
    this.#rounds++;
    this.#outcomes[round.outcome]++;
    this.#blows += round.blows.length;
    this.#hits += round.blows.filter(({ hit }) => hit).length;
    if (round.replay === "same") this.#replayed++;
    if (round.replay === "inexact") this.#inexact++;
    for (const name of round.fired) this.#goals.set(name, (this.#goals.get(name) ?? 0) + 1);
    if (round.outcome !== "held") this.#failures.push(round);
  }

  report(wallMs: number): CampaignReport {
    const { scenario, seed, directory } = this.#options;
    return {
      scenario,
      seed,
      wallMs: Math.round(wallMs),
      rounds: this.#rounds,
      ...this.#outcomes,
      blows: this.#blows,
      hits: this.#hits,
      replayed: this.#replayed,
      inexact: this.#inexact,
      goals: Object.fromEntries(this.#goals),
      failures: this.#failures,
      directory,
    };
  }
}

/** After every round, as a whole or not at all: an interrupted campaign has found what it has found. */
async function write(report: CampaignReport): Promise<void> {
  const path = `${report.directory}/chaos.json`;
  await Deno.writeTextFile(`${path}.new`, JSON.stringify(report, null, 2));
  await Deno.rename(`${path}.new`, path);
}
