/**
 * One round of chaos: it takes actions on a rack of processes, heals the rack, waits for its end, has it
 * judged, and replays its record in this process. It is bounded in wall time and leaves nothing running.
 */
import type { NatsServer } from "../rack/nats_server.ts";
import { startNatsServer } from "../rack/nats_server.ts";
import { RackError, type Supervisor, type SupervisorEvent } from "../rack/supervisor.ts";
import { assert } from "../../fabric/base/assert.ts";
import { EXIT } from "../../fabric/rack/build/run_file.ts";
import { readSettled } from "../../nodes/files.ts";
import { checkAll } from "../checks/all.ts";
import type { RunRecord } from "../checks/run_record.ts";
import { recordedIn, type ReplayedFaults } from "../rack/fault_lines.ts";
import type { Prepared } from "../rack/prepare.ts";
import { checkProtocols } from "../reports/protocol_checks.ts";
import { type Outcome, type RunOptions, runProcesses, runSimulated } from "../rack/run_variant.ts";
import { stallText } from "../rack/stall_text.ts";
import { actionText, type ChaosAction } from "./chaos_actions.ts";
import { actionsOf, prepareRound, type RoundDraft } from "./draw.ts";
import type { RoundOutcome } from "./round_outcome.ts";
import { firedBy } from "./goals.ts";
import { type ChaosFinding, progressFindings, type Reference } from "./progress.ts";
import { FaultInjector, type InjectedAction } from "./fault_injector.ts";

export interface RoundOptions {
  readonly scenario: string;
  /** An existing folder of the round's own. */
  readonly directory: string;
  /** Name on the bus, a subject token. */
  readonly run: string;
  readonly reference: Reference;
  /** In wall ms: a rack that has not come to its end by then does not. */
  readonly deadlineMs: number;
  /** Takes down what this round has started; it then rejects with what the signal says. */
  readonly signal?: AbortSignal;
}

/** How the record of a round replays: `inexact` where messages were lost with their sender. */
export type Replay = "same" | "different" | "inexact" | "none";

export interface RoundResult {
  readonly actions: readonly InjectedAction[];
  readonly findings: readonly ChaosFinding[];
  /** Why nothing can be told of it; undefined where it can. */
  readonly untold: string | undefined;
  readonly replay: Replay;
  /** Whether the replay shows the findings of checkers, too; undefined where there is none of either. */
  readonly replayShows?: boolean;
  readonly digest: string | undefined;
  readonly fired: readonly string[];
  readonly wallMs: number;
}

/** Runs a round to its end. Rejects only where the command itself is at fault. */
export async function runRound(draft: RoundDraft, options: RoundOptions): Promise<RoundResult> {
  const began = performance.now();
  const prepared = await prepareRound(options.scenario, draft);
  const actions = actionsOf(draft, prepared, options.reference);
  const ran = await runUnderChaos({ draft, prepared, actions }, options);
  const wallMs = () => Math.round(performance.now() - began);
  const common = { actions: ran.injected, digest: ran.outcome?.digest, wallMs: 0 };
  if (ran.outcome === undefined) {
    const findings = ran.finding === undefined ? [] : [ran.finding];
    const rest = { findings, untold: ran.untold, replay: "none", fired: [] } as const;
    return { ...common, ...rest, wallMs: wallMs() };
  }
  const faults = recordedIn(options.directory);
  const { outcome } = ran;
  const round = roundOutcomeOf({ ...ran, outcome, record: recordOf(outcome), faults });
  const broken = await brokenPromises(prepared, round.record);
  const findings = [...broken, ...progressFindings(round, options.reference)];
  const replayed = await replay(draft, { ...options, faults, round });
  return {
    ...common,
    findings: [...findings, ...replayed.findings],
    untold: undefined,
    replay: replayed.replay,
    ...(broken.length > 0 && replayed.broken !== undefined &&
      { replayShows: replayed.broken.length > 0 }),
    fired: firedBy(round),
    wallMs: wallMs(),
  };
}

interface ChaosRun {
  readonly injected: readonly InjectedAction[];
  readonly events: readonly SupervisorEvent[];
  readonly outcome: Outcome | undefined;
  readonly finding?: ChaosFinding;
  readonly untold?: string;
}

interface ChaosPlan {
  readonly draft: RoundDraft;
  readonly prepared: Prepared;
  readonly actions: readonly ChaosAction[];
}

/** What goes on beside a rack's processes, to be ended whatever happens to them. */
interface Beside {
  injector?: FaultInjector;
  playing: Promise<void>;
  timer?: ReturnType<typeof setTimeout>;
  /** Why the rack was taken down, where it was past its deadline. */
  late?: string;
}

/** Runs the rack while actions are taken on it. All that was started has ended when it returns. */
async function runUnderChaos(chaos: ChaosPlan, options: RoundOptions): Promise<ChaosRun> {
  const events: SupervisorEvent[] = [];
  const beside: Beside = { playing: Promise.resolve() };
  let server: NatsServer | undefined;
  let outcome: Outcome | undefined;
  let failure: unknown;
  try {
    server = await startNatsServer({
      dir: options.directory,
      ...(options.signal && { signal: options.signal }),
    });
    outcome = await runProcesses(chaos.prepared, {
      ...rackOptions(chaos, { options, server, beside }),
      address: server.address,
      onEvent: (event) => events.push(event),
    });
  } catch (error) {
    failure = error;
  } finally {
    clearTimeout(beside.timer);
    beside.injector?.stop();
    failure = await beside.playing.then(() => failure, (error) => failure ?? error);
    await server?.stop();
  }
  options.signal?.throwIfAborted();
  const injected = beside.injector?.taken ?? [];
  if (failure === undefined) return { injected, events, outcome };
  return { injected, events, outcome: undefined, ...verdictOn(failure, beside.late) };
}

function rackOptions(
  { draft, actions }: ChaosPlan,
  of: { readonly options: RoundOptions; readonly server: NatsServer; readonly beside: Beside },
): RunOptions {
  const { options, server, beside } = of;
  return {
    run: options.run,
    directory: options.directory,
    ...(options.signal && { signal: options.signal }),
    trace: false,
    check: draft.observe,
    delayMsMax: draft.manner.kind === "slow" ? draft.manner.delayMsMax : 0,
    beforeStart: (rack) => {
      beside.timer = setTimeout(() => giveUp(rack, beside), options.deadlineMs);
    },
    onStart: (rack) => {
      beside.injector = new FaultInjector(rack, server, psPerSecond(draft, options.reference));
      beside.playing = beside.injector.play(actions);
      // Looked at when the rack has ended; until then it is no unhandled rejection.
      beside.playing.catch(() => {});
    },
  };
}

/** The rack is past its deadline: notes which processes it waits for, and takes it down. */
async function giveUp(rack: Supervisor, beside: Beside): Promise<void> {
  const status = await rack.status();
  const now = status === undefined ? "no timekeeper answers" : stallText(status.why);
  beside.late = `No end in time: ${now}`;
  await rack.down();
}

/** What it means that a rack has not come to its end. */
function verdictOn(
  failure: unknown,
  late: string | undefined,
): Pick<ChaosRun, "finding" | "untold"> {
  if (late !== undefined) return { finding: { check: "makes-progress", text: late } };
  const text = failure instanceof Error ? failure.message : String(failure);
  if (failure instanceof RackError && failure.code === EXIT.internal) {
    return { finding: { check: "no-process-fails", text } };
  }
  return { untold: text };
}

/** A round is held back for so many wall ms at most, booting included. */
const HELD_BACK_MS = 3_000;

function psPerSecond({ manner }: RoundDraft, { from, length }: Reference): number {
  if (manner.kind !== "paced") return 0;
  const perMs = Math.max((length - from) / manner.overMs, length / HELD_BACK_MS);
  return Math.max(1, Math.round(perMs * 1_000));
}

function roundOutcomeOf(
  ran: ChaosRun & Recorded & { readonly faults: ReplayedFaults },
): RoundOutcome {
  const { outcome: { directory, finals }, record, faults, injected, events } = ran;
  const finished = events.find((event) => event.kind === "finished");
  return {
    plan: record.plan,
    directory,
    finals,
    record,
    faults: faults.faults,
    injected,
    events,
    summary: finished?.kind === "finished" ? finished.summary : undefined,
    settled: readSettled(directory),
  };
}

interface Recorded {
  readonly outcome: Outcome;
  readonly record: RunRecord;
}

/** What the rack's checkers find, and those of a user's own protocols. */
async function brokenPromises(prepared: Prepared, record: RunRecord): Promise<ChaosFinding[]> {
  const own = await checkProtocols(prepared, record);
  return [
    ...checkAll(record).flatMap(({ checker, findings }) =>
      findings.map(({ text }) => ({ check: checker.name, text }))
    ),
    ...own.flatMap(({ program, findings }) =>
      findings.map((text) => ({ check: "protocol-holds", text: `${program}: ${text}` }))
    ),
  ];
}

function recordOf({ record }: Outcome): RunRecord {
  assert(record !== undefined, "A round is run with what checkers look at");
  return record;
}

/** Replays a round in this process; what it is to show is its digest, and what checkers found. */
async function replay(
  draft: RoundDraft,
  of: RoundOptions & { readonly faults: ReplayedFaults; readonly round: RoundOutcome },
): Promise<{ replay: Replay; findings: ChaosFinding[]; broken?: ChaosFinding[] }> {
  const { scenario, faults, round, deadlineMs, signal } = of;
  const { summary } = round;
  if (summary === undefined || !summary.exact) return { replay: "inexact", findings: [] };
  const prepared = await prepareRound(scenario, draft, { ...faults, packing: "all" });
  const options = { run: `${of.run}-replay`, directory: `${of.directory}/replay` };
  const ran = await simulate(prepared, {
    ...options,
    check: draft.observe,
    limitMs: deadlineMs,
    ...(signal && { signal }),
  });
  if ("endless" in ran) {
    return { replay: "different", findings: [{ check: "replays", text: ran.endless }] };
  }
  const broken = await brokenPromises(prepared, recordOf(ran));
  if (ran.digest === summary.digest) return { replay: "same", findings: [], broken };
  const text = `one process: ${ran.digest}, processes: ${summary.digest}`;
  return { replay: "different", findings: [{ check: "replays", text }], broken };
}

async function simulate(
  prepared: Prepared,
  options: Omit<RunOptions, "trace" | "delayMsMax">,
): Promise<Outcome | { readonly endless: string }> {
  try {
    return await runSimulated(prepared, { ...options, trace: false, delayMsMax: 0 });
  } catch (error) {
    if (error instanceof RackError) return { endless: error.message };
    throw error;
  }
}

/**
 * Runs a rack as processes, without any action on it.
 * @returns why it does not come to its end, if so. @throws RackError where that cannot be told.
 */
export async function whyEndless(
  draft: RoundDraft,
  options: Omit<RoundOptions, "reference">,
): Promise<string | undefined> {
  const undisturbed: RoundDraft = { ...draft, manner: { kind: "free" } };
  const prepared = await prepareRound(options.scenario, undisturbed);
  const reference = { results: new Map(), from: 0, length: 0, busy: { from: 0, to: 0 } };
  const ran = await runUnderChaos({ draft: undisturbed, prepared, actions: [] }, {
    ...options,
    reference,
  });
  if (ran.untold !== undefined) throw new RackError(ran.untold);
  return ran.finding?.text;
}

/** Runs the rack of a round undisturbed, in this process. @throws RackError where it does not end. */
export async function runUndisturbed(
  draft: RoundDraft,
  of: {
    readonly scenario: string;
    readonly directory: string;
    readonly limitMs: number;
    readonly signal?: AbortSignal;
  },
): Promise<Outcome> {
  const prepared = await prepareRound(of.scenario, draft, { packing: "all" });
  return await runSimulated(prepared, {
    run: "undisturbed",
    directory: of.directory,
    trace: false,
    check: "notes",
    delayMsMax: 0,
    limitMs: of.limitMs,
    ...(of.signal && { signal: of.signal }),
  });
}

/** The actions that were taken on a rack, in words. */
export function actionTexts(injected: readonly InjectedAction[], { plan }: Prepared): string[] {
  return injected.map(({ action, hit }) => `${actionText(action, plan)}${hit ? "" : " (missed)"}`);
}
