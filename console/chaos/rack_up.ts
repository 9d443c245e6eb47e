/**
 * Chaos on a rack that is up, on this machine or elsewhere: all is done and asked over the bus. The
 * rack is no round's own: its history goes on from round to round, and is judged as a whole, by the
 * checks on a replay in one process that has the rack's digest. So the first round that does not
 * hold is the last.
 */
import { sleep } from "../../fabric/bus/wall_time.ts";
import { formatTime, PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import { rngFor } from "../../fabric/base/rng.ts";
import { rackDigest } from "../../fabric/partition/digest.ts";
import { targetName } from "../../fabric/rack/plan/cable_names.ts";
import { Refusal, refusal } from "../../fabric/rack/plan/problem.ts";
import type { MethodName } from "../../fabric/rack/plan/vocabulary.ts";
import type { ProgramScenario } from "../../fabric/rack/scenario/scenario.ts";
import { RackError } from "../base/rack_error.ts";
import { explain } from "../rack/failure.ts";
import { inexactIn } from "../rack/fault_lines.ts";
import { orderLinkFault } from "../rack/live/cables.ts";
import { WITHOUT_POWER } from "../rack/live/control.ts";
import { healAll } from "../rack/live/heal.ts";
import { countFaults, type Faults, killDevice, startDevice } from "../rack/live/power.ts";
import { type RackLink, refreshRecord, withRack } from "../rack/live/racks.ts";
import { listObjects, putObject, readObject, removeObject } from "../rack/live/transfer.ts";
import { Replay } from "../replay/client.ts";
import {
  type CampaignOptions,
  type CampaignReport,
  outcomeOf,
  reportOf,
  type RoundReport,
  writeReport,
} from "./campaign.ts";
import { actionText, type ChaosAction, drawActions, type RunTimes } from "./chaos_actions.ts";
import { WAIT_MS, waitForTime } from "./fault_injector.ts";
import { drawPuts, PUT_OBJECT, putContents, putHosts, putsText } from "./puts.ts";
import type { ChaosFinding } from "./progress.ts";
import type { RoundResult } from "./round.ts";

export interface RackChaosOptions
  extends Pick<CampaignOptions, "seed" | "forMs" | "rounds" | "from" | "onStart" | "onRound"> {
  /** Default: the only rack that is up. */
  readonly run?: string;
  readonly overrideLock?: boolean;
  /** Heals what the round has broken; the campaign then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  readonly onProgress?: (title: string, share: number) => void;
  readonly onNotice: (text: string) => void;
}

/**
 * Plays rounds until time or number is over, or one does not hold.
 * @throws Refusal before the first round; RackError where the rack goes down.
 */
export async function chaosOnRack(options: RackChaosOptions): Promise<CampaignReport> {
  return await withRack(options.run, async (link) => {
    const { rack: { id, directory, file: { plan } } } = link;
    const { seed, forMs, rounds: most = Infinity, from, signal, onNotice } = options;
    await checkRack(link);
    await checkObjects(link);
    await checkHolds(link, options);
    options.onStart?.({ id, seed });
    const rounds: RoundReport[] = [], began = performance.now();
    const soFar = () => {
      const of = { scenario: { path: plan.scenario }, seed, directory };
      // A replay leaves no outcome of the kind that goals look at.
      return { ...reportOf(of, rounds, performance.now() - began), goals: {} };
    };
    do {
      const round = await playRound(link, from + rounds.length, options);
      rounds.push(round);
      await writeReport(soFar());
      options.onRound(round);
      signal?.throwIfAborted();
    } while (
      rounds.at(-1)!.outcome === "held" && rounds.length < most &&
      performance.now() - began < forMs
    );
    if (rounds.at(-1)!.outcome === "held") await removeObjects(link, onNotice);
    else onNotice(`${id} is left as the round has left it`);
    return soFar();
  }, options);
}

/** @throws Refusal for a rack whose record could not be judged. */
async function checkRack(link: RackLink): Promise<void> {
  const { rack, control } = link, { id, directory, file: { stayUp, plan, partitions } } = rack;
  if (!stayUp) {
    const expected = "a rack that stays up (rack up, rack compose --up)";
    throw refusal("", { found: `${id} comes to its end by itself`, expected });
  }
  if (plan.faults.length > 0 && partitions.some(({ nodes }) => nodes.length > 1)) {
    const found = `${id} has power failures of its own, and several devices in one process`;
    throw refusal("", { found, expected: "--pack node" });
  }
  const { paused, why } = await control.status();
  if (paused) throw refusal("", { found: `${id} is paused`, expected: "time to run: rack resume" });
  const dead = why.find(({ status }) => WITHOUT_POWER.has(status));
  if (dead !== undefined) {
    const expected = `all devices up: rack start ${dead.partition}`;
    throw refusal("", { found: `${dead.partition} of ${id} has no power`, expected });
  }
  await refreshRecord(rack);
  const inexact = inexactIn(directory);
  if (inexact.length === 0) return;
  const found = `${id} cannot be replayed exactly: ${inexact.join("; ")}`;
  throw refusal("", { found, expected: "a rack of which all is known" });
}

const SECONDS = 120;

/** @throws Refusal where a host to which rounds put has an object of that name. */
async function checkObjects(link: RackLink): Promise<void> {
  for (const from of putHosts(link.rack.file.plan)) {
    const { objects } = await listObjects(link, { from, timeoutSeconds: SECONDS });
    if (!objects.some(({ name }) => name === PUT_OBJECT)) continue;
    const found = `${from} has an object ${PUT_OBJECT}, which rounds would write over`;
    throw refusal("", { found, expected: `none: rack rm --from ${from} ${PUT_OBJECT}` });
  }
}

/** What has failed before is no round's. @throws Refusal */
async function checkHolds(link: RackLink, options: RackChaosOptions): Promise<void> {
  const { findings, untold } = await judge(link, options);
  const [first] = findings;
  const found = first === undefined ? untold : `${first.check}: ${first.text}`;
  if (found === null) return;
  throw refusal("", {
    found: `${link.rack.id} does not hold before the first round: ${found}`,
    expected: "a rack on which all checks hold",
  });
}

async function removeObjects(
  link: RackLink,
  onNotice: (text: string) => void,
): Promise<void> {
  for (const from of putHosts(link.rack.file.plan)) {
    await removeObject(link, { from, object: PUT_OBJECT, timeoutSeconds: SECONDS })
      .catch((error) => {
        if (!/not-found/.test(error.message)) {
          onNotice(`${PUT_OBJECT} is left on ${from}: ${explain(error).message}`);
        }
      });
  }
}

async function playRound(
  link: RackLink,
  number: number,
  options: RackChaosOptions,
): Promise<RoundReport> {
  const began = performance.now(), { seed, signal } = options;
  const { rack: { id, directory, file: { plan, partitions } }, control } = link;
  const { now } = await control.status();
  const contents = putContents();
  const puts = drawPuts(rngFor(seed, `puts ${number}`), {
    plan,
    from: now,
    files: [...contents.keys()],
  });
  const target = { plan, partitions, isByBus: true, ...timesOf(now, puts) };
  const actions = drawActions(rngFor(seed, `round ${number}`), target);
  const before = await countFaults(link);
  const faults = new BusFaults(link, signal);
  const ending = new AbortController();
  const transfers = { contents, signal: ending.signal };
  const load = putAll(link, puts, transfers);
  const stopped = await faults.play(actions).then(() => null, (error) => explain(error).message);
  const problems = await faults.heal().catch((error) => [explain(error).message]);
  if (signal?.aborted) ending.abort();
  signal?.throwIfAborted();
  const watch = watchStrangers(link, { before, faults, ending });
  const halted = [
    ...problems.map((text) => ({ check: "makes-progress", text })),
    ...await load,
    ...await proveLife(link, puts, transfers),
  ];
  const stranger = await watch.end();
  const { at, ...judged } = await judge(link, options);
  const result = {
    ...judged,
    // Without a device that others have killed it may stand still.
    findings: [...stranger === null ? halted : [], ...judged.findings],
    untold: stranger ?? stopped ?? judged.untold,
  };
  return {
    round: number,
    what: puts.length === 0 ? "at rest" : putsText(puts).replace(/^; /, ""),
    outcome: outcomeOf(result),
    blows: faults.blows,
    ...result,
    fired: [],
    wallMs: Math.round(performance.now() - began),
    command: at === undefined ? `rack why --run ${id}` : `rack resume ${id} --at ${at}ps`,
    directory,
    ...{ saved: null, unsaved: null },
  };
}

/** A put connects, writes and is confirmed in about so long. */
const PUT_PS = 150 * PS_PER_US;

function timesOf(now: Time, puts: readonly ProgramScenario[]): RunTimes {
  const length = now + Math.max(1, puts.length) * PUT_PS;
  return { from: now, length, busy: { from: now, to: length } };
}

interface Transfers {
  readonly contents: ReadonlyMap<string, Uint8Array<ArrayBuffer>>;
  readonly signal: AbortSignal;
}

/** One after the other, up to one without an end; under chaos each may fail. */
async function putAll(
  link: RackLink,
  puts: readonly ProgramScenario[],
  transfers: Transfers,
): Promise<ChaosFinding[]> {
  for (const put of puts) {
    try {
      await putOnce(link, put, transfers);
    } catch (error) {
      // Code 1: it says why it failed; a host without power takes none.
      const { message, code } = explain(error);
      if (code !== EXIT.failed) return [{ check: "makes-progress", text: message }];
    }
  }
  return [];
}

async function putOnce(
  link: RackLink,
  { on, options }: ProgramScenario,
  { contents, signal }: Transfers,
): Promise<void> {
  const { to, file, method, size, depth } = options as {
    readonly to: string;
    readonly file: string;
    readonly method: MethodName;
    readonly size: number;
    readonly depth: number;
  };
  await putObject(link, {
    ...{ on, to, file, method, size, depth, name: PUT_OBJECT },
    content: contents.get(file)!,
    timeoutSeconds: SECONDS,
    signal,
  });
}

const LIFE_MS = 1_000 * SECONDS, LIFE_AGAIN_MS = 200;

/** A healed rack carries an object there and back, as soon as its devices have booted. */
async function proveLife(
  link: RackLink,
  puts: readonly ProgramScenario[],
  transfers: Transfers,
): Promise<ChaosFinding[]> {
  const [put] = puts, deadline = performance.now() + LIFE_MS;
  if (put === undefined) return [];
  const failed = (text: string): ChaosFinding[] => [{ check: "makes-progress", text }];
  for (;; await sleep(LIFE_AGAIN_MS)) {
    try {
      const isSame = await isCarried(link, put, transfers);
      return isSame ? [] : failed(`the healed rack gives another ${PUT_OBJECT} than was put to it`);
    } catch (error) {
      const { message, code } = explain(error);
      const isOver = code !== EXIT.failed || performance.now() > deadline;
      if (isOver) return failed(`the healed rack: ${message}`);
    }
  }
}

async function isCarried(
  link: RackLink,
  put: ProgramScenario,
  transfers: Transfers,
): Promise<boolean> {
  const { on, options: { to, file } } = put, wanted = transfers.contents.get(String(file))!;
  await putOnce(link, put, transfers);
  const { content } = await readObject(link, {
    ...{ on, from: String(to), object: PUT_OBJECT, partial: false },
    timeoutSeconds: SECONDS,
  });
  return content.length === wanted.length && content.every((byte, i) => byte === wanted[i]);
}

/** Power failures by others: an engine, somebody, or a process that has failed by itself. */
async function strangerIn(
  { rack: { file: { plan } }, control }: RackLink,
  before: number,
  faults: BusFaults,
): Promise<string | null> {
  const found = await control.demand<Faults>("faults", { from: before }, { repeats: true });
  const stranger = found.faults.find(({ action, at, partition, nodes }) =>
    action === "kill" && !faults.hasKilled(partition, at) &&
    !plan.faults.some((each) =>
      each.action === action && each.at === at &&
      nodes.includes(each.node)
    )
  );
  if (stranger === undefined) return null;
  const { nodes, at } = stranger;
  return `${nodes.join(", ")} lost power at ${formatTime(at)}, by a crash or by others: ` +
    "the round did not do that";
}

const LOOK_MS = 500;

/** Ends transfers as soon as others have cut a device's power, by which they may wait for ever. */
function watchStrangers(
  link: RackLink,
  { before, faults, ending }: {
    readonly before: number;
    readonly faults: BusFaults;
    readonly ending: AbortController;
  },
): { readonly end: () => Promise<string | null> } {
  let isOver = false;
  const look = async () => {
    for (;; await sleep(LOOK_MS)) {
      // Before the look: the last one is behind the end.
      const isLast = isOver, stranger = await strangerIn(link, before, faults);
      if (stranger !== null) ending.abort();
      if (stranger !== null || isLast) return stranger;
    }
  };
  const found = look();
  found.catch(() => {});
  return {
    end: async () => {
      isOver = true;
      return await found;
    },
  };
}

type Judged = Pick<RoundResult, "findings" | "untold" | "replay" | "replayShows" | "digest"> & {
  readonly at?: Time;
};

const UNJUDGED = { findings: [], replay: "none", replayShows: null, digest: null } as const;

/** The checks on all that the rack has done so far, in a replay that has its digest. */
async function judge(
  { rack: { id, directory } }: RackLink,
  { signal, onProgress }: Pick<RackChaosOptions, "signal" | "onProgress">,
): Promise<Judged> {
  let replay: Replay | undefined;
  try {
    replay = await Replay.open({ run: id }, {
      signal,
      onProgress: ({ atPs, endPs }) =>
        onProgress?.(`Replaying ${id}`, endPs === null || endPs === 0 ? 0 : atPs / endPs),
    });
    const { endPs: at } = await replay.timeline();
    const { checks, unproved } = await replay.verdicts(at);
    const digest = rackDigest((await replay.ask("digestsAt", at)).nodes);
    const findings = checks.flatMap(({ name, findings }) =>
      findings.map(({ text }) => ({ check: name, text }))
    );
    const isEmpty = findings.length === 0 && !checks.some(({ state }) => state === "holds");
    const untold = unproved ?? (isEmpty ? "no check had anything to judge" : null);
    const replayShows = findings.length > 0 ? true : null;
    return { findings, untold, replay: "same", replayShows, digest, at };
  } catch (error) {
    signal?.throwIfAborted();
    const inexact = inexactIn(directory), { message, code } = explain(error);
    if (inexact.length > 0) return { ...UNJUDGED, replay: "inexact", untold: message };
    if (!(error instanceof RackError) || code !== EXIT.failed) {
      return { ...UNJUDGED, untold: message };
    }
    const findings = [{ check: "replays", text: message }];
    return { ...UNJUDGED, findings, untold: null, replay: "different" };
  } finally {
    await replay?.close();
  }
}

const ORDER_MS = 30_000;

/** Does a round's actions, and heals what they broke: nothing else. */
class BusFaults {
  readonly #link: RackLink;
  readonly #signal: AbortSignal | undefined;
  readonly #began = performance.now();
  readonly #kills: { readonly partition: string; readonly at: Time }[] = [];
  /** Their kill's answer is missing. */
  readonly #unsure = new Set<string>();
  readonly #cables = new Set<number>();
  readonly #blows: RoundResult["blows"][number][] = [];
  #follows: Promise<unknown>[] = [];

  constructor(link: RackLink, signal: AbortSignal | undefined) {
    this.#link = link;
    this.#signal = signal;
  }

  get blows(): RoundResult["blows"] {
    return this.#blows;
  }

  hasKilled(partition: string, at: Time): boolean {
    return this.#unsure.has(partition) ||
      this.#kills.some((kill) => kill.partition === partition && kill.at === at);
  }

  /** Each at its time, or as soon as the rack has come to rest before it. */
  async play(actions: readonly ChaosAction[]): Promise<void> {
    const { control, rack: { file: { plan } } } = this.#link;
    const status = () => control.statusNow();
    let last = 0;
    for (const action of actions) {
      const deadline = performance.now() + WAIT_MS;
      const goesOn = () => this.#signal?.aborted !== true && performance.now() < deadline;
      if (action.at > last) await waitForTime({ status }, action.at, goesOn);
      last = action.at;
      if (this.#signal?.aborted) return;
      const wallMs = Math.round(performance.now() - this.#began);
      const at = await this.#take(action);
      const text = actionText({ ...action, at: at ?? action.at }, plan);
      this.#blows.push({
        what: `${text}${at === undefined ? " (missed)" : ""}`,
        wallMs,
        hit: at !== undefined,
      });
    }
  }

  /** Returns what could not be healed. */
  async heal(): Promise<string[]> {
    await Promise.all(this.#follows);
    this.#follows = [];
    const { problems } = await healAll(this.#link, { cables: this.#cables });
    return problems.map((problem) => `not healed: ${problem}`);
  }

  /** The instant on record; undefined: it has hit nothing. */
  async #take(action: ChaosAction): Promise<Time | undefined> {
    if (action.kind === "kill") return await this.#kill(action);
    if (action.kind !== "link") return undefined;
    const { request } = action, { control } = this.#link;
    this.#cables.add(request.cable);
    const deadline = performance.now() + ORDER_MS;
    const answer = await orderLinkFault(
      (verb, body) => control.attempt(verb, body),
      request,
      () => performance.now() < deadline,
    );
    if (answer !== undefined) return "ok" in answer ? answer.ok.at : undefined;
    const name = targetName(this.#link.rack.file.plan, request);
    throw new RackError(`Found no answer to ${request.action} ${name}, expected its instant`);
  }

  async #kill(
    { process, backMs }: Extract<ChaosAction, { kind: "kill" }>,
  ): Promise<Time | undefined> {
    try {
      const { at } = await killDevice(this.#link, process);
      this.#kills.push({ partition: process, at });
      if (backMs !== null) this.#follows.push(this.#startAfter(backMs, process));
      return at;
    } catch (error) {
      // It has no power, or not yet.
      if (error instanceof Refusal) return undefined;
      this.#unsure.add(process);
      throw error;
    }
  }

  async #startAfter(ms: number, process: string): Promise<void> {
    await sleep(ms);
    // It may have power again, with its host; what fails otherwise, healing tells.
    await startDevice(this.#link, process).catch(() => {});
  }
}
