import { EXIT } from "../../fabric/base/exit.ts";
import type { Packing } from "../../fabric/rack/assembly/topology.ts";
import type { VariantChoices } from "../../fabric/rack/scenario/variants.ts";
import { rngFor } from "../../fabric/base/rng.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { optionWords, quoted } from "../base/command_line.ts";
import { allowedBeside } from "../scenarios/read_door.ts";
import { workersFor } from "../base/workers.ts";
import type { NativeDoor } from "../rack/native/native.ts";
import { lacksInput, type Prepared } from "../rack/prepare.ts";
import { RackError } from "../base/rack_error.ts";
import { hasWritten, whyNothingDone } from "../checks/activity.ts";
import { keepScenario, scenarioOfRun } from "../scenarios/kept_scenario.ts";
import type { ScenarioSource } from "../scenarios/scenario_source.ts";
import type { Outcome } from "../rack/run_variant.ts";
import { createRunDirectory } from "../rack/run_directory.ts";
import {
  draftText,
  drawRound,
  type Field,
  fieldOf,
  prepareRound,
  type RoundDraft,
} from "./draw.ts";
import { GOALS } from "./goals.ts";
import { type Reference, referenceOf } from "./progress.ts";
import { drawPuts, putsText, withPuts, writePutFiles } from "./puts.ts";
import { playInOrder } from "./play_in_order.ts";
import { simulate } from "./replay.ts";
import { RoundReplays } from "./replays.ts";
import { type PlayedRound, playRound, type RoundResult, runUndisturbed } from "./round.ts";

export interface CampaignOptions {
  readonly seed: number;
  /** After so long no round begins, except the first. */
  readonly forMs: number;
  readonly rounds?: number;
  readonly from: number;
  readonly fixed: VariantChoices;
  /** Latest rounds whose folders stay even if they held; default: none. */
  readonly keepLatest?: number;
  readonly packing?: Exclude<Packing, "all">;
  /**
   * Rounds under way at a time: one is played, the others are replayed. Default: the number of
   * cores, limited by memory.
   */
  readonly jobs?: number;
  readonly save?: string;
  /** What becomes of native programs: see `PrepareOptions`. */
  readonly native?: NativeDoor;
  readonly onStart?: (run: { readonly id: string; readonly seed: number }) => void;
  readonly onRound: (round: RoundReport) => void;
  /**
   * Takes down the rack that is up, and ends replays; the campaign then rejects with the signal's
   * reason. Played rounds are reported, and have not held if they were not replayed.
   */
  readonly signal?: AbortSignal;
}

export interface RoundReport extends RoundResult {
  readonly round: number;
  readonly what: string;
  readonly outcome: "held" | "broken" | "untold";
  readonly command: string;
  /** Null: the round held, and its folder was removed. */
  readonly directory: string | null;
  /** Null: none was asked for, or no scenario repeats the round. */
  readonly saved: string | null;
  /** Why no scenario repeats it; null where one does, or none was asked for. */
  readonly unsaved: string | null;
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
  /**
   * Rounds whose record replays in one process to the same digest, and those that lost messages.
   */
  readonly replayed: number;
  readonly inexact: number;
  readonly goals: Readonly<Record<string, number>>;
  readonly failures: readonly RoundReport[];
  readonly directory: string;
  /** Scenarios of rounds, each with the digest of its run. */
  readonly saved: readonly {
    readonly round: number;
    readonly file: string;
    readonly digest: string;
  }[];
  readonly unsaved: readonly { readonly round: number; readonly why: string }[];
}

const DEADLINE_MS = 300_000, PER_UNDISTURBED_MS = 60, DEADLINE_MOST_MS = 1_200_000;
const UNDISTURBED_LIMIT_MS = 600_000;
/** So many rounds in a row without a result end the campaign: the machine fails, not the rack. */
export const UNTOLD_MOST = 3;
const KEPT_MOST = 20;

interface Campaign extends CampaignOptions {
  readonly scenario: ScenarioSource;
  readonly directory: string;
  readonly run: string;
  readonly field: Field;
  readonly putFiles: readonly string[];
  /** Undisturbed runs hardly depend on the seed: one for each choice of the rack. */
  readonly references: Map<string, {
    readonly reference: Reference;
    readonly deadlineMs: number;
    readonly nothing: string | undefined;
  }>;
}

/** Runs rounds until time or number is over. @throws Refusal before the first one. */
export async function startCampaign(
  source: ScenarioSource,
  options: CampaignOptions,
): Promise<CampaignReport> {
  const path = await Deno.realPath(source.path).catch(() => source.path);
  const { name, programs } = source.scenario;
  const { save } = options;
  if (save !== undefined) await Deno.mkdir(save, { recursive: true });
  const files = save === undefined ? undefined : await Deno.realPath(save);
  const { id: run, path: directory } = await createRunDirectory(`chaos-${name}`);
  const { seed, from, packing } = options;
  const isOpen = programs.some((program) => lacksInput(program, options.fixed.input));
  // Rounds put files of their own.
  const allowRead = [...source.allowRead, files ?? directory];
  const scenario: ScenarioSource = { ...source, path, allowRead };
  const given = isOpen ? defaultInput() : options.fixed.input;
  const input = await inputIn(files ?? directory, given, { isSaved: files !== undefined });
  const fixed = { ...options.fixed, ...(input !== undefined && { input }) };
  options.onStart?.({ id: run, seed });
  const manner = mannerOf(options);
  const field = await fieldOf(scenario, { fixed, ...manner });
  if (field.hasFaults && packing === "machine") {
    const expected = `node, as ${path} has power failures of its own`;
    throw refusal((named) => named("pack"), { found: '"machine"', expected });
  }
  const references: Campaign["references"] = new Map();
  const putFiles = await writePutFiles(files ?? directory);
  const own = { scenario, directory, run, field, putFiles, references };
  const campaign: Campaign = { ...options, fixed, ...own, ...(files && { save: files }) };
  await assertEnds(drawRound(from, campaign), campaign);
  return await playRounds(campaign);
}

/** What each preparation of a rack needs beside the draft. */
function mannerOf({ signal, native }: Pick<CampaignOptions, "signal" | "native">) {
  return { ...(signal && { signal }), ...(native && { native }) };
}

async function playRounds(campaign: Campaign): Promise<CampaignReport> {
  const { from, forMs, rounds: roundsMax = Infinity, jobs = workersFor({}), signal } = campaign;
  const rounds: RoundReport[] = [], began = performance.now();
  let soFar = reportOf(campaign, rounds, 0);
  const { directory } = campaign;
  await using replays = new RoundReplays({ processes: jobs - 1, directory, signal });
  await playInOrder({
    jobs,
    async play(place) {
      signal?.throwIfAborted();
      return await play(drawRound(from + place, campaign), campaign);
    },
    isOver(played) {
      return performance.now() - began >= forMs || played >= roundsMax || isStuck(rounds);
    },
    replay: (round, lane) => replays.of(round, lane),
    async report(result, round) {
      const isKept = rounds.filter(({ outcome }) => outcome !== "held").length < KEPT_MOST;
      const report = await reportOn(round, result, { campaign, isKept });
      rounds.push(report);
      await forgetHeld(rounds, campaign.keepLatest ?? 0);
      soFar = reportOf(campaign, rounds, performance.now() - began);
      await writeReport(soFar);
      campaign.onRound(report);
    },
  });
  signal?.throwIfAborted();
  return soFar;
}

export function isStuck(rounds: readonly Pick<RoundReport, "outcome">[]): boolean {
  let inARow = 0;
  return rounds.some(({ outcome }) => {
    inARow = outcome === "untold" ? inARow + 1 : 0;
    return inARow === UNTOLD_MOST;
  });
}

/** Of a campaign that was not interrupted: 0 only if there was a round and each round has held. */
export function exitOf(
  { held, broken, untold }: Pick<CampaignReport, "held" | "broken" | "untold">,
) {
  if (broken > 0) return EXIT.failed;
  return untold > 0 || held === 0 ? EXIT.unclear : EXIT.done;
}

const INPUT_BYTES = 40 * 1024 - 100;

function defaultInput(): Uint8Array {
  const byteAt = (i: number) => (i * 197 + (i >> 8) * 31 + 7) % 251 + 1;
  return Uint8Array.from({ length: INPUT_BYTES }, (_, i) => byteAt(i));
}

async function inputIn(
  directory: string,
  input: string | Uint8Array | undefined,
  { isSaved }: { readonly isSaved: boolean },
): Promise<string | undefined> {
  if (input === undefined) return undefined;
  if (typeof input === "string") {
    const real = await Deno.realPath(input).catch(() => undefined);
    if (real === undefined || !isSaved) return real ?? input;
    // Beside the scenarios that read it, under its name, which is the object's.
    const copy = `${await Deno.realPath(directory)}/${real.replace(/.*\//, "")}`;
    if (copy !== real) await Deno.copyFile(real, copy);
    return copy;
  }
  const path = `${directory}/input.bin`;
  await Deno.writeFile(path, input, { mode: 0o600 });
  return path;
}

/**
 * A user's own programs run as processes first, which can be ended whatever they do. The built-in
 * programs yield at each step, so the run of {@link referenceFor}, in this process, can be ended as
 * well.
 * @throws Refusal
 */
async function assertEnds(draft: RoundDraft, campaign: Campaign): Promise<void> {
  const { programs } = await prepareRound(campaign.scenario, draft, mannerOf(campaign));
  if (Object.keys(programs).length === 0) return;
  await inUndisturbed(campaign, (directory) =>
    runUndisturbed(draft, {
      scenario: campaign.scenario,
      directory,
      run: campaign.run,
      deadlineMs: UNDISTURBED_LIMIT_MS,
      ...mannerOf(campaign),
    }));
}

async function referenceFor(draft: RoundDraft, campaign: Campaign) {
  const { scenario, references, signal } = campaign;
  const key = JSON.stringify(draft.choices);
  const known = references.get(key);
  if (known !== undefined) return known;
  const { ran, nothing } = await inUndisturbed(campaign, async (directory) => {
    const one = await prepareRound(scenario, draft, { packing: "all", ...mannerOf(campaign) });
    const ran = await simulate(one, {
      run: "undisturbed",
      directory,
      check: "notes",
      limitMs: UNDISTURBED_LIMIT_MS,
      ...(signal && { signal }),
    });
    // `nothingIn` may read SCM files, which are removed.
    return "endless" in ran ? ran : { ran, nothing: nothingIn(ran) };
  });
  const deadlineMs = DEADLINE_MS + Math.round(PER_UNDISTURBED_MS * ran.wallMs);
  const found = {
    reference: referenceOf(ran),
    deadlineMs: Math.min(DEADLINE_MOST_MS, deadlineMs),
    nothing,
  };
  references.set(key, found);
  return found;
}

function nothingIn({ record, finals }: Outcome): string | undefined {
  if (record === undefined) return undefined;
  const why = whyNothingDone({ ...record, hasWritten: () => hasWritten(record, finals) });
  return why === undefined ? undefined : `undisturbed, ${why}`;
}

async function inUndisturbed<Ran extends object>(
  campaign: Pick<Campaign, "scenario" | "directory">,
  run: (directory: string) => Promise<Ran | { readonly endless: string }>,
): Promise<Ran> {
  const directory = `${campaign.directory}/undisturbed`;
  await Deno.mkdir(directory, { recursive: true, mode: 0o700 });
  const ran = await run(directory).finally(() => Deno.remove(directory, { recursive: true }));
  if (!("endless" in ran)) return ran;
  // Either the scenario has no end, or the machine is too slow for it.
  const found = `Found that ${campaign.scenario.path}, undisturbed, does not come to its end`;
  throw new RackError(`${found}: ${ran.endless}`);
}

interface Played extends PlayedRound {
  readonly draft: RoundDraft;
  readonly directory: string;
  readonly prepared: Prepared;
  readonly what: string;
  readonly nothing: string | undefined;
}

async function play(draft: RoundDraft, campaign: Campaign): Promise<Played> {
  const { scenario } = campaign, manner = mannerOf(campaign);
  const directory = `${campaign.directory}/round-${draft.number}`;
  await Deno.mkdir(directory, { recursive: true, mode: 0o700 });
  const { reference, deadlineMs, nothing } = await referenceFor(draft, campaign);
  const { plan } = await prepareRound(scenario, draft, manner);
  const { seed, putFiles: files } = campaign;
  const puts = drawPuts(rngFor(seed, `puts ${draft.number}`), { plan, ...reference, files });
  const prepared = await prepareRound(scenario, draft, { morePrograms: puts, ...manner });
  const choices = { ...draft.choices, packing: draft.packing };
  keepScenario(directory, { scenario, choices, variant: prepared.variant });
  const played = await playRound({ draft, prepared, puts }, {
    scenario,
    directory,
    run: `${campaign.run}-${draft.number}`,
    reference: withPuts(reference, puts),
    deadlineMs,
    ...manner,
  });
  const what = `${draftText(draft, prepared.label)}${putsText(puts)}`;
  // Promises of puts are judged whatever the scenario does.
  const isEmpty = puts.length === 0;
  return { ...played, draft, directory, prepared, what, nothing: isEmpty ? nothing : undefined };
}

export function outcomeOf(
  { findings, untold }: Pick<RoundResult, "findings" | "untold">,
): RoundReport["outcome"] {
  if (findings.length > 0) return "broken";
  return untold === null ? "held" : "untold";
}

async function reportOn(
  { draft, directory, prepared, what, nothing }: Played,
  ran: RoundResult,
  { campaign, isKept }: { readonly campaign: Campaign; readonly isKept: boolean },
): Promise<RoundReport> {
  const result = withNothing(ran, nothing);
  const outcome = outcomeOf(result);
  const saved = await saveRound(draft, { campaign, result, directory, prepared });
  const keeps = outcome === "held" ? (campaign.keepLatest ?? 0) > 0 : isKept;
  if (!keeps) await Deno.remove(directory, { recursive: true });
  return {
    round: draft.number,
    what,
    outcome,
    ...result,
    command: await replayCommand(campaign.scenario, draft, directory),
    directory: keeps ? directory : null,
    ...saved,
  };
}

function withNothing(ran: RoundResult, nothing: string | undefined): RoundResult {
  const hasResult = ran.untold !== null || ran.findings.length > 0;
  return nothing === undefined || hasResult ? ran : { ...ran, untold: nothing };
}

async function saveRound(
  { number }: RoundDraft,
  { campaign: { run, save }, result, directory, prepared: { plan, partitions } }: {
    readonly campaign: Campaign;
    readonly result: RoundResult;
    readonly directory: string;
    readonly prepared: Prepared;
  },
): Promise<Pick<RoundReport, "saved" | "unsaved">> {
  if (save === undefined) return { saved: null, unsaved: null };
  if (result.replay === "missing") return { saved: null, unsaved: "its record was not replayed" };
  if (result.replay !== "same") return { saved: null, unsaved: "its record does not replay it" };
  const { text, notes } = scenarioOfRun({
    ...{ run: `round ${number} of ${run}`, directory, plan, partitions },
    folder: save,
  });
  // A disturbance that a scenario cannot express makes another run.
  if (notes.length > 0) return { saved: null, unsaved: notes.join(" ") };
  const file = `${save}/${plan.scenario}-round-${number}.yaml`;
  await Deno.writeTextFile(file, text, { mode: 0o600 });
  return { saved: file, unsaved: null };
}

async function forgetHeld(rounds: RoundReport[], keepLatest: number): Promise<void> {
  const at = rounds.length - 1 - keepLatest, old = rounds[at];
  if (old?.outcome !== "held" || old.directory === null) return;
  await Deno.remove(old.directory, { recursive: true });
  rounds[at] = { ...old, directory: null };
}

async function replayCommand(
  scenario: ScenarioSource,
  { choices, seed }: RoundDraft,
  directory: string,
): Promise<string> {
  const faults = `${directory}/faults.jsonl`;
  const isRecorded = await Deno.stat(faults).then(() => true, () => false);
  const words = optionWords({
    ...choices,
    seed,
    pack: "all",
    "allow-read": allowedBeside(scenario),
    ...(isRecorded && { faults }),
  });
  return `rack run ${[quoted(scenario.path), ...words].join(" ")}`;
}

export function reportOf(
  { scenario, seed, directory }: Pick<Campaign, "seed" | "directory"> & {
    readonly scenario: Pick<ScenarioSource, "path">;
  },
  rounds: readonly RoundReport[],
  wallMs: number,
): CampaignReport {
  const countOf = (isMeant: (round: RoundReport) => boolean) => rounds.filter(isMeant).length;
  const blows = rounds.flatMap((round) => round.blows);
  return {
    scenario: scenario.path,
    seed,
    wallMs: Math.round(wallMs),
    rounds: rounds.length,
    held: countOf(({ outcome }) => outcome === "held"),
    broken: countOf(({ outcome }) => outcome === "broken"),
    untold: countOf(({ outcome }) => outcome === "untold"),
    blows: blows.length,
    hits: blows.filter(({ hit }) => hit).length,
    replayed: countOf(({ replay }) => replay === "same"),
    inexact: countOf(({ replay }) => replay === "inexact"),
    goals: Object.fromEntries(
      GOALS.map(({ name }) => [name, countOf(({ fired }) => fired.includes(name))]),
    ),
    failures: rounds.filter(({ outcome }) => outcome !== "held"),
    directory,
    saved: rounds.flatMap(({ round, saved: file, digest }) =>
      file === null || digest === null ? [] : [{ round, file, digest }]
    ),
    unsaved: rounds.flatMap(({ round, replay, unsaved: why }) =>
      why === null || replay !== "same" ? [] : [{ round, why }]
    ),
  };
}

/** Whole at any time: a campaign may be killed. */
export async function writeReport(report: CampaignReport): Promise<void> {
  const path = `${report.directory}/chaos.json`;
  await Deno.writeTextFile(`${path}.new`, JSON.stringify(report, null, 2), { mode: 0o600 });
  await Deno.rename(`${path}.new`, path);
}
