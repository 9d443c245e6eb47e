/**
 * One round of chaos. It is bounded in wall time and leaves no process running; `replays.ts`
 * replays its record.
 */
import { accessOfProcesses } from "../../fabric/bus/access.ts";
import { type NatsServer, startNatsServer } from "../rack/nats_server.ts";
import { RackError } from "../base/rack_error.ts";
import type { Supervisor, SupervisorEvent } from "../rack/supervisor.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import type { ProgramScenario } from "../../fabric/rack/scenario/scenario.ts";
import { readSettled } from "../../nodes/files.ts";
import { programLine, recordedIn } from "../rack/fault_lines.ts";
import type { NativeDoor } from "../rack/native/native.ts";
import type { Prepared } from "../rack/prepare.ts";
import { type Outcome, runProcesses } from "../rack/run_variant.ts";
import { stallText } from "../rack/stall_text.ts";
import type { ScenarioSource } from "../scenarios/scenario_source.ts";
import { actionText, type ChaosAction, drawActions } from "./chaos_actions.ts";
import { prepareRound, type RoundDraft } from "./draw.ts";
import { firedBy } from "./goals.ts";
import {
  type ChaosFinding,
  progressFindings,
  type Reference,
  type RoundOutcome,
} from "./progress.ts";
import { FaultInjector, type InjectedAction } from "./fault_injector.ts";
import { lostPromises } from "./recoveries.ts";
import { brokenPromises, type ReplayJob } from "./replay.ts";

export interface RoundOptions {
  readonly scenario: ScenarioSource;
  readonly directory: string;
  readonly run: string;
  readonly reference: Reference;
  /** A rack that has not come to its end by then fails. */
  readonly deadlineMs: number;
  readonly native?: NativeDoor;
  /** Takes down the rack; the round then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

interface Round {
  readonly draft: RoundDraft;
  readonly prepared: Prepared;
  readonly actions: readonly ChaosAction[];
}

export interface RoundResult {
  readonly blows: ReadonlyArray<
    { readonly what: string; readonly wallMs: number; readonly hit: boolean }
  >;
  readonly findings: readonly ChaosFinding[];
  /** Why the round has no result; null where it has one. */
  readonly untold: string | null;
  /**
   * `inexact`: messages were lost with their sender; `missing`: the record could be replayed and
   * was not.
   */
  readonly replay: "same" | "different" | "inexact" | "missing" | "none";
  /** The replay shows the checkers' findings; null where there is no replay or no finding. */
  readonly replayShows: boolean | null;
  readonly digest: string | null;
  readonly fired: readonly string[];
  readonly wallMs: number;
}

export interface PlayedRound {
  readonly result: RoundResult;
  /** Undefined where its record would not come to the same digest. */
  readonly again: ReplayJob | undefined;
}

const NOT_REPLAYED = "it was played, and not replayed before the campaign ended";

/** Rejects only where the command itself fails. */
export async function playRound(
  { draft, prepared, puts }: Pick<Round, "draft" | "prepared"> & {
    readonly puts: readonly ProgramScenario[];
  },
  options: RoundOptions,
): Promise<PlayedRound> {
  const began = performance.now();
  const { plan, partitions } = prepared;
  const actions = drawActions(draft.rng, { plan, partitions, ...options.reference });
  const ran = await runUnderChaos({ draft, prepared, actions }, options)
    .finally(() => recordPrograms(options.directory, puts));
  const blows = ran.injected.map(({ action, wallMs, hit }) => {
    return { what: `${actionText(action, prepared.plan)}${hit ? "" : " (missed)"}`, wallMs, hit };
  });
  const none = { replay: "none", replayShows: null, digest: null, fired: [] } as const;
  const { again, ...judged } = "outcome" in ran
    ? await judge(ran, { draft, prepared, options })
    : { ...ran.failure, ...none, again: undefined };
  const wallMs = Math.round(performance.now() - began);
  return { result: { blows, ...judged, wallMs }, again };
}

function recordPrograms(directory: string, programs: readonly ProgramScenario[]): void {
  const lines = programs.map((program) => `${programLine(program)}\n`).join("");
  if (lines === "") return;
  Deno.writeTextFileSync(`${directory}/faults.jsonl`, lines, { append: true, mode: 0o600 });
}

interface Ended {
  readonly injected: readonly InjectedAction[];
  readonly events: readonly SupervisorEvent[];
  readonly outcome: Outcome;
}

interface Failed {
  readonly injected: readonly InjectedAction[];
  readonly failure: Pick<RoundResult, "findings" | "untold">;
}

async function runUnderChaos(
  { draft, prepared, actions }: Round,
  options: RoundOptions,
): Promise<Ended | Failed> {
  const { directory, reference, signal } = options;
  const events: SupervisorEvent[] = [];
  let server: NatsServer | undefined;
  let injector: FaultInjector | undefined;
  let playing: Promise<void> = Promise.resolve();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let late: string | undefined;
  const injected = () => injector?.taken ?? [];
  try {
    const broker = server = await startNatsServer({
      dir: directory,
      users: accessOfProcesses({ ...prepared, run: options.run }),
      ...(signal && { signal }),
    });
    const outcome = await runProcesses(prepared, {
      run: options.run,
      directory,
      broker,
      ...(signal && { signal }),
      trace: false,
      check: draft.observe,
      delayMsMax: draft.manner.kind === "slow" ? draft.manner.delayMsMax : 0,
      beforeStart: (rack) => {
        const giveUp = async () => {
          late = await whyLate(rack);
          await rack.down();
        };
        timer = setTimeout(giveUp, options.deadlineMs);
      },
      onStart: (rack) => {
        injector = new FaultInjector(rack, broker, psPerSecond(draft, reference));
        playing = injector.play(actions);
        playing.catch(() => {});
      },
      onEvent: (event) => events.push(event),
      // A hit when all is over is on no record, and there is no report.
      mayLackFinal: (partition) =>
        injected().some(({ action, hit }) =>
          hit && action.kind === "kill" && action.process === partition
        ),
    }).finally(() => injector?.stop());
    await playing;
    return { injected: injected(), events, outcome };
  } catch (error) {
    await playing.catch(() => {});
    signal?.throwIfAborted();
    return { injected: injected(), failure: failureOf(error, late) };
  } finally {
    clearTimeout(timer);
    await server?.stop();
  }
}

async function whyLate(rack: Supervisor): Promise<string> {
  const status = await rack.status();
  const now = status === undefined ? "no timekeeper answers" : stallText(status.why);
  return `No end in time: ${now}`;
}

function failureOf(error: unknown, late: string | undefined): Failed["failure"] {
  const failed = (check: string, text: string) => ({ findings: [{ check, text }], untold: null });
  if (late !== undefined) return failed("makes-progress", late);
  const text = error instanceof Error ? error.message : String(error);
  if (error instanceof RackError && error.code === EXIT.internal) {
    return failed("no-process-fails", text);
  }
  return { findings: [], untold: text };
}

const HELD_BACK_MS = 3_000;

function psPerSecond({ manner }: RoundDraft, { from, length }: Reference): number {
  if (manner.kind !== "paced") return 0;
  const perMs = Math.max((length - from) / manner.overMs, length / HELD_BACK_MS);
  return Math.max(1, Math.round(perMs * 1_000));
}

interface JudgedRound extends Pick<Round, "draft" | "prepared"> {
  readonly options: RoundOptions;
}

async function judge({ injected, events, outcome }: Ended, judged: JudgedRound) {
  const { draft, prepared, options } = judged;
  const { directory, finals, digest } = outcome;
  const record = outcome.record!;
  const faults = recordedIn(directory);
  const finished = events.find((event) => event.kind === "finished");
  const summary = finished?.kind === "finished" ? finished.summary : undefined;
  const settled = readSettled(directory);
  const round: RoundOutcome = {
    finals,
    record,
    faults: faults.faults,
    injected,
    events,
    summary,
    settled,
  };
  const broken = await brokenPromises(prepared, outcome, options);
  const findings = [
    ...broken,
    ...await lostPromises(prepared, record, options),
    ...progressFindings(round, options.reference),
  ];
  const common = { findings, replayShows: null, digest, fired: firedBy(round) };
  if (summary === undefined || !summary.exact) {
    return { ...common, untold: null, replay: "inexact", again: undefined } as const;
  }
  const again: ReplayJob = {
    one: await prepareRound(options.scenario, draft, {
      ...faults,
      packing: "all",
      // As processes they have left a record, which serves in their place.
      native: { kind: "replay", records: directory },
      signal: options.signal,
    }),
    run: { run: `${options.run}-replay`, directory: `${directory}/replay` },
    ...(broken.length > 0 && { check: draft.observe }),
    limitMs: options.deadlineMs,
  };
  return { ...common, untold: NOT_REPLAYED, replay: "missing", again } as const;
}

const NO_REFERENCE: Reference = {
  results: new Map(),
  from: 0,
  length: 0,
  busy: { from: 0, to: 0 },
};

/**
 * As processes, without any action; returns why the rack does not come to its end, if so.
 * @throws RackError where that is unknown.
 */
export async function runUndisturbed(
  draft: RoundDraft,
  options: Omit<RoundOptions, "reference">,
): Promise<{ readonly endless: string } | Ended> {
  const free: RoundDraft = { ...draft, manner: { kind: "free" } };
  const { native, signal } = options;
  const prepared = await prepareRound(options.scenario, free, {
    signal,
    ...(native && { native }),
  });
  const round = { draft: free, prepared, actions: [] };
  const ran = await runUnderChaos(round, { ...options, reference: NO_REFERENCE });
  if ("outcome" in ran) return ran;
  const { findings: [finding], untold } = ran.failure;
  if (finding === undefined) throw new RackError(untold!);
  return { endless: finding.text };
}
