/**
 * Explores every reachable state of a {@link System}: accesses of one core of each computer, evictions
 * and moves whenever they may begin, and messages in every order that links allow. Content is old or
 * new (`invariants.ts`), so the set is finite for any number of accesses.
 *
 * Besides the invariants of each state it proves liveness: from everywhere deliveries alone, without a
 * new access or eviction, reach a quiet state; and every access is answered if each link that has a
 * message delivers one eventually (`fair_cycles.ts`). It proves fairness at home's card, too: later
 * requests pass a waiting one at most {@link PASSES_MAX} times.
 *
 * Tests and `rack explore --protocol` run it.
 */
import { type Link, StateGraph } from "./fair_cycles.ts";
import { canEvict, evict, farAccess, type FarCard, farLine } from "./far_card.ts";
import { keyOf } from "./encode.ts";
import { faultsOf } from "./faults.ts";
import { canEvictLocal, evictLocal, homeAccess, move } from "./home_card.ts";
import { homeLine, homePlacement, PASSES_MAX, type ServiceOrder } from "./home_card_state.ts";
import { isLent } from "./home_card_transactions.ts";
import {
  canEvictFromLlc,
  evictFromLlc,
  type HostAccess,
  hostAccess,
  hostLine,
} from "./host_agent.ts";
import {
  checkReports,
  checkState,
  FRESH,
  rollBack,
  settle,
  stableState,
  STALE,
  TOKENS,
  Violation,
} from "./invariants.ts";
import type { Access } from "./access.ts";
import { BUS_MESSAGES } from "../wire/host_bus/region_messages.ts";
import { LOCAL_CACHE, type WireMessage } from "../wire/roce/coherence_messages.ts";
import type { Turn } from "./output.ts";
import {
  act,
  deliver,
  deliveries,
  type Delivery,
  type Events,
  fork,
  HOST,
  isQuiet,
  type Links,
  newSystem,
  type System,
  type SystemSize,
} from "./system.ts";
import type { Tables } from "./tables.ts";

export interface Exploration {
  readonly size: SystemSize;
  readonly tables?: Tables;
  readonly links?: Links;
  /** Order of requests at home's card; `inTurn` by default. */
  readonly order?: ServiceOrder;
  /** Events besides loads, stores and evictions. */
  readonly with?: readonly ("own" | "flush" | "range" | "verbs" | "moves" | "losses")[];
  /** The copy is kept at home from the start. */
  readonly place?: "local";
  /** Maximum of faults; 1 by default. */
  readonly lossesMax?: number;
  readonly directory?: "card" | "memory";
  /** A break of decision 13: home, or its host, may end leases before far cards do. */
  readonly isEarly?: "home's card" | "home's host";
  /** True if each access must be answered eventually; by default, unless the copy moves. */
  readonly isAnswered?: boolean;
  /** Called once for each state. */
  readonly onState?: (system: System) => void;
  /** Called for each step. */
  readonly onStep?: (from: System, to: System) => void;
  /** Limit of states; beyond it the exploration is not whole. */
  readonly statesMax?: number;
}

export interface Explored {
  readonly states: number;
  readonly transitions: number;
  readonly isWhole: boolean;
  /** Quiet states, each as a line. */
  readonly quiet: ReadonlySet<string>;
  /** In how many states each fault, consequence of a fault and return has happened. */
  readonly faults: ReadonlyMap<string, number>;
  /** The first violation, and the path to it. */
  readonly violation: { readonly message: string; readonly path: readonly string[] } | null;
}

interface Action {
  readonly name: () => string;
  /** The device that acts; a message also has its receiver. */
  readonly at: Lane;
  readonly to?: Lane;
  /** The link that eventually delivers or causes this step; absent: it need not happen. */
  readonly link?: () => string;
  /** Not a new access or eviction: the step continues what has begun. */
  readonly isProgress: boolean;
  /** It counts for {@link Exploration.lossesMax}. */
  readonly isLoss?: true;
  readonly isFaultStep?: true;
  readonly act: (system: System) => Events;
}

/** Home with its cores, caches and agent; its card; a far card by its number, with its cores. */
export type Lane = "home" | "home card" | `card ${number}`;

function laneOf(agent: number): Lane {
  return agent === LOCAL_CACHE ? "home card" : `card ${agent}`;
}

function lanesOf({ from, agent = 0 }: Delivery): Required<Pick<Action, "at" | "to">> {
  switch (from) {
    case "toHost":
      return { at: "home card", to: "home" };
    case "toHome":
      return { at: "home", to: "home card" };
    case "req":
    case "up":
      return { at: laneOf(agent), to: "home card" };
    case "snp":
    case "down":
      return { at: "home card", to: laneOf(agent) };
  }
}

/** The system, and its promises of lines: 1 where memory must have the last write by the answer. */
interface State {
  readonly system: System;
  /** For each agent from {@link HOST} on, and each line: of a flush, and of a write-back. */
  readonly promises: number[];
  /** For each agent and line: how often its request at home's card was passed. */
  readonly passed: number[];
  readonly losses: number;
}

/** A store reads what it overwrites, unless it is `full`. */
function* accessesTo(line: number, { size, with: also = [] }: Exploration): Generator<Access> {
  yield { kind: "load", line, ticket: 0 };
  yield { kind: "store", line, change: "atomic", ticket: 0 };
  if (also.includes("own")) yield { kind: "own", line, ticket: 0 };
  if (also.includes("losses")) yield { kind: "store", line, change: "full", ticket: 0 };
  if (also.includes("flush")) yield { kind: "flush", line, ticket: 0 };
  if (also.includes("range") && line + 1 < size.lines) {
    yield { kind: "flush", line, lines: 2, ticket: 0 };
  }
}

/** All possible actions, always in the same order, so that a path can be walked again. */
function* actionsOf({ system, losses }: State, given: Exploration): Generator<Action> {
  const { host, home, fars, size } = system;
  const also = given.with ?? [];
  for (const delivery of deliveries(system)) {
    yield {
      name: () => nameOf(system, delivery),
      ...lanesOf(delivery),
      link: () => linkOf(system, delivery),
      isProgress: true,
      act: (next) => deliver(next, delivery),
    };
  }
  for (let line = 0; line < size.lines; line++) {
    yield* accessesOf(system, line, given);
    if (system.outage !== "host" && canEvictFromLlc(host, line)) {
      yield {
        name: () => `the LLC evicts ${line}`,
        at: "home",
        isProgress: false,
        act: (next) => act(next, HOST, (out) => evictFromLlc(next.host, line, out)),
      };
    }
    if (system.outage === null && canEvictLocal(home, line)) {
      yield {
        name: () => `the local cache evicts ${line}`,
        at: "home card",
        isProgress: false,
        act: (next) => act(next, 0, (out) => evictLocal(next.home, line, out)),
      };
    }
    for (const [at, card] of fars.entries()) {
      if (!canEvict(card, line)) continue;
      yield {
        name: () => `card ${card.agent} evicts ${line}`,
        at: laneOf(card.agent),
        isProgress: false,
        act: (next) => act(next, at + 1, (out) => evict(cardOf(next, at), line, out)),
      };
    }
  }
  if (also.includes("moves") && system.outage === null) {
    const place = homePlacement(home, 0).place === "local" ? "remote" : "local";
    yield {
      name: () => `moves to ${place}`,
      at: "home card",
      isProgress: false,
      act: (next) => act(next, 0, (out) => move(next.home, { region: 0, place }, out)),
    };
  }
  if (!also.includes("losses")) return;
  const { isEarly, lossesMax = 1 } = given;
  const mayFail = losses < lossesMax, isFirstOnly = lossesMax === 1;
  const steps = faultsOf(system, { mayFail, isEarly, isFirstOnly });
  for (const { name, isProgress, isFault, act } of steps) {
    yield {
      name: () => name,
      at: faultLane(name),
      ...(isProgress && { link: () => name }),
      isProgress,
      act,
      isFaultStep: true,
      ...(isFault && { isLoss: true }),
    };
  }
}

/** A fault of a far card, its cable or its lease belongs to that card; others to home. */
function faultLane(name: string): Lane {
  const [, agent] = /card (\d+)/.exec(name) ?? [];
  if (agent !== undefined) return laneOf(Number(agent));
  return name.startsWith("home's host") ? "home" : "home card";
}

function cardOf(system: System, at: number) {
  const card = system.fars[at];
  if (card === undefined) throw new Error(`there is no card ${at + 1}`);
  return card;
}

/** Home's core flushes a range by several `clwb`. */
function isHostAccess(access: Access): access is HostAccess {
  return access.kind !== "own" && access.lines === undefined;
}

function* accessesOf(system: System, line: number, given: Exploration): Generator<Action> {
  const { host, home, fars } = system;
  for (const access of accessesTo(line, given)) {
    const { kind, change, lines } = access;
    const name = () =>
      `${change === "full" ? "full " : ""}${kind} ${line}${lines ? ` and next` : ""}`;
    if (host.waiting.length === 0 && isHostAccess(access) && system.outage !== "host") {
      yield {
        name: () => `home's core: ${name()}`,
        at: "home",
        isProgress: false,
        act: (next) => act(next, HOST, (out) => hostAccess(next.host, access, out)),
      };
    }
    const isIdle = home.local.waiting.length + home.local.active.size === 0 &&
      system.outage === null;
    if (given.with?.includes("verbs") && /^(load|store)$/.test(kind) && isIdle) {
      yield {
        name: () => `a verb: ${name()}`,
        at: "home card",
        isProgress: false,
        act: (next) => act(next, 0, (out) => homeAccess(next.home, access, out)),
      };
    }
    for (const [at, card] of fars.entries()) {
      if (card.waiting.length + card.active.size > 0) continue;
      yield {
        name: () => `card ${card.agent}: ${name()}`,
        at: laneOf(card.agent),
        isProgress: false,
        act: (next) => act(next, at + 1, (out) => farAccess(cardOf(next, at), access, out)),
      };
    }
  }
}

/**
 * A queue pair of one direction; on the bus, a class and a line, whose messages keep their order.
 */
function linkOf(system: System, { from, agent, index }: Delivery): string {
  if (from !== "toHost" && from !== "toHome") return `${from} ${agent}`;
  const message = system[from][index];
  return message === undefined
    ? from
    : `${from} ${BUS_MESSAGES[message.kind].class} ${message.line}`;
}

function nameOf(system: System, { from, agent = 0, index }: Delivery): string {
  const queue = from === "toHost" || from === "toHome"
    ? system[from]
    : system.wires[agent - 1]?.[from];
  const message = queue?.[index];
  const ends = { req: `${agent} → home`, up: `${agent} → home`, snp: `home → ${agent}` };
  const end = from === "down"
    ? `home → ${agent}`
    : from === "toHost"
    ? "card → agent"
    : "agent → card";
  return `${message?.kind} ${message?.line}, ${(ends as Record<string, string>)[from] ?? end}`;
}

// ── one step ─────────────────────────────────────────────────────────────────────────────────────

/** @throws Violation, or MissingRow, where the step breaks a promise. */
function step(
  { system, promises, passed, losses }: State,
  { isLoss, act: does }: Action,
): State {
  const next = fork(system);
  const { answers, lost, turns = [] } = does(next);
  if (system.outage === "host" && next.outage === null) rollBack(next);
  checkReports(system, next, lost);
  const kept = [...promises];
  for (const { by, answer: { access, result, data } } of answers) {
    if (result !== "done") continue;
    if (/^(load|own)$/.test(access.kind) && data === STALE) {
      throw new Violation(`${by} has read an old value`);
    }
    if (access.kind === "store") checkServed(next, by, access.line);
    // The answer is immediate: no promise was made before.
    const isDue = access.kind === "flush" && isQuiet(system);
    if (isDue && hostLine(next.host, access.line).memory === STALE) {
      throw new Violation(`${by} has flushed ${access.line}: not in memory`);
    }
  }
  for (const line of settle(next)) {
    for (let at = 0; at < kept.length; at++) if (lineAt(next, at) === line) kept[at] = 0;
  }
  keepPromises(system, next, kept);
  checkState(next);
  checkLinks(next);
  return {
    system: next,
    promises: kept,
    passed: turns.length === 0 && passed.every((each) => each === 0)
      ? passed
      : passesAfter({ before: system, after: next, turns, passed }),
    losses: losses + (isLoss ? 1 : 0),
  };
}

/** Far above the messages in flight of a protocol that sends no more than it receives. */
const MESSAGES_MAX = 24;

/**
 * Without this bound a protocol that sends ever more messages would have infinitely many states.
 */
function checkLinks({ wires, toHost, toHome }: System): void {
  const queues = [
    toHost,
    toHome,
    ...wires.flatMap(({ req, snp, up, down }) => [req, snp, up, down]),
  ];
  const most = Math.max(...queues.map(({ length }) => length));
  if (most > MESSAGES_MAX) throw new Violation(`${most} messages are on their way by one link`);
}

/** An answer to an earlier life of a card does not serve a request of this one (decision 14). */
function checkServed({ home, fars, wires }: System, agent: number, line: number): void {
  const life = fars[agent - 1]?.life;
  const asked = home.requests.map(({ message }) => message).concat(wires[agent - 1]?.req ?? []);
  const isOpen = asked.some((each) =>
    each.kind === "Write" && each.agent === agent && each.line === line && each.life === life
  );
  if (isOpen) throw new Violation(`card ${agent}'s store of ${line} is answered, and not done`);
}

// ── order of service ─────────────────────────────────────────────────────────────────────────────

interface Waiting {
  readonly line: number;
  readonly message: WireMessage;
}

/**
 * Counts how often later requests pass each request at home's card, for its line or for the
 * directory's entry that it waits for.
 * @throws Violation beyond {@link PASSES_MAX}.
 */
function passesAfter({ before, after, turns, passed }: {
  readonly before: System;
  readonly after: System;
  readonly turns: readonly Turn[];
  readonly passed: readonly number[];
}): number[] {
  const { lines } = before.size;
  const placeOf = ({ line, message }: Waiting) => message.agent * lines + line;
  const next = [...passed];
  const queue = waitingAt(before);
  for (const { step, line, message } of turns) {
    const turn = { line, message };
    if (step === "taken") {
      queue.push(turn);
      continue;
    }
    const at = queue.findIndex((each) => each.line === line && each.message === message);
    const earlier = at < 0 ? [] : queue.slice(0, at);
    for (const each of step === "begun" ? earlier : []) {
      if (each.line !== line && !(wantsEntry(before, each) && needsEntry(before, turn))) continue;
      const place = placeOf(each), { agent, kind } = each.message;
      next[place]!++;
      if (next[place]! <= PASSES_MAX) continue;
      const who = agent === LOCAL_CACHE ? "the local cache" : `card ${agent}`;
      throw new Violation(`${who}'s ${kind} ${each.line} was passed over ${next[place]} times`);
    }
    if (at >= 0) queue.splice(at, 1);
  }
  const left = new Set(waitingAt(after).map(placeOf));
  return next.map((count, place) => left.has(place) ? count : 0);
}

function waitingAt({ home }: System): Waiting[] {
  return home.requests.flatMap(({ message, isBegun, range }) =>
    isBegun ? [] : (range?.left ?? [message.line]).map((line) => ({ line, message }))
  );
}

function needsEntry({ home }: System, { line, message: { kind } }: Waiting): boolean {
  return (kind === "GetS" || kind === "GetM") && !isLent(homeLine(home, line));
}

/** True if only an entry is missing. */
function wantsEntry(system: System, waiting: Waiting): boolean {
  const { phase, snoop } = homeLine(system.home, waiting.line);
  return phase === "idle" && snoop === null && needsEntry(system, waiting);
}

// ── what was promised persistent ─────────────────────────────────────────────────────────────────

function lineAt(system: System, at: number): number {
  return at % system.size.lines;
}

/**
 * From its beginning on, a flush and a write-back promise that memory has the last write when they
 * are answered (decision 12); a write that comes meanwhile releases them.
 */
function keepPromises(before: System, after: System, kept: number[]): void {
  const { lines } = after.size;
  const cards = [after.home.local, ...after.fars];
  for (let line = 0; line < lines; line++) {
    const { memory } = hostLine(after.host, line);
    const due = (at: number, isPending: boolean, wasPending: boolean, what: string) => {
      if (isPending && !wasPending) kept[at] = memory === "lost" ? 0 : 1;
      if (isPending || kept[at] === 0) return;
      if (wasPending && memory === STALE) throw new Violation(`${what} ${line}: not in memory`);
      kept[at] = 0;
    };
    for (const [index, card] of cards.entries()) {
      const was = [before.home.local, ...before.fars][index];
      if (was === undefined) continue;
      const flushes = (of: typeof card) =>
        of.active.size > 0 &&
        [...of.active.values()].some((each) =>
          each.kind === "flush" && each.line <= line && line < each.line + (each.lines ?? 1)
        );
      const writes = (of: typeof card) => /^(MI|II)$/.test(farLine(of, line).state);
      const flush = index * 2 * lines + line, back = flush + lines;
      // A card without power is down in the life that it had.
      const isFenced = was.life !== card.life || (was.isUp && !card.isUp) ||
        before.home.life !== after.home.life;
      if (isFenced) kept[flush] = kept[back] = 0;
      due(flush, flushes(card), flushes(was) && !isFenced, `card ${index} has flushed`);
      due(back, writes(card), writes(was) && !isFenced, `card ${index} has written back`);
    }
    const at = cards.length * 2 * lines + line;
    const isFlushing = ({ host }: System) =>
      host.waiting.some((each) => each.kind === "flush" && each.line === line);
    if (after.outage === "host") kept[at] = 0;
    due(at, isFlushing(after), isFlushing(before), "home's core has flushed");
  }
}

// ── the search ───────────────────────────────────────────────────────────────────────────────────

const WORD_STATES = 1000;

/**
 * Searches breadth first, so that a violation's path is a shortest one; yields the number of states
 * now and then.
 */
export function* exploring(given: Exploration): Generator<number, Explored> {
  const first = firstState(given);
  const seen = new Map<number, number>([[keyOfState(first), 0]]);
  const parents = [-1], choices = [-1];
  const from: number[] = [], to: number[] = [];
  const graph = isAnswered(given) ? new StateGraph() : undefined;
  graph?.holds.push(0);
  const quiet = new Set<string>(), quietStates: number[] = [0];
  const faults = new Map<string, number>();
  const statesMax = given.statesMax ?? Infinity;
  let transitions = 0, walked = 0;
  let level: [number, State][] = [[0, first]];
  quiet.add(stableState(first.system));
  given.onState?.(first.system);
  const failed = (message: string, at: number, name: string): Explored => ({
    states: seen.size,
    transitions,
    isWhole: false,
    quiet,
    faults,
    violation: { message, path: [...pathTo(first, given, { parents, choices, at }), name] },
  });
  while (level.length > 0 && seen.size < statesMax) {
    const following: [number, State][] = [];
    for (const [at, state] of level) {
      if (++walked % WORD_STATES === 0) yield seen.size;
      let choice = -1;
      for (const action of actionsOf(state, given)) {
        choice++;
        transitions++;
        let next: State;
        try {
          next = step(state, action);
        } catch (error) {
          if (error instanceof Error) return failed(error.message, at, action.name());
          throw error;
        }
        given.onStep?.(state.system, next.system);
        if (action.isFaultStep) faults.set(action.name(), (faults.get(action.name()) ?? 0) + 1);
        const key = keyOfState(next);
        let target = seen.get(key);
        if (target === undefined) {
          target = parents.length;
          seen.set(key, target);
          parents.push(at);
          choices.push(choice);
          following.push([target, next]);
          graph?.holds.push(waitingAgents(next.system));
          given.onState?.(next.system);
          if (isQuiet(next.system)) {
            quietStates.push(target);
            quiet.add(stableState(next.system));
          }
        }
        graph?.add(at, target, linkNamed(action.link?.()));
        if (action.isProgress) {
          from.push(at);
          to.push(target);
        }
      }
    }
    level = following;
  }
  const isWhole = level.length === 0;
  if (isWhole) {
    const stuck = firstStuck(parents.length, quietStates, { from, to });
    if (stuck >= 0) return failed("nothing quiet can be reached from here", stuck, STUCK);
    for (const [bit, who] of whoMayWait(given).entries()) {
      const stays = graph?.staysFor(bit);
      if (stays === undefined) continue;
      const message = `an access of ${who} may wait for ever, though all messages arrive: ` +
        `${stays.size} states go round`;
      return failed(message, stays.state, STUCK);
    }
  }
  return { states: seen.size, transitions, isWhole, quiet, faults, violation: null };
}

/** Queue pairs of requests compete for one slot in turns, which their arbiter chooses. */
function linkNamed(name: string | undefined): Link | undefined {
  return name === undefined ? undefined : { name, takesTurns: name.startsWith("req ") };
}

const STUCK = "(stuck)";

/** If the copy may move at any time, an access may have to ask again without end. */
function isAnswered({ with: also = [], isAnswered = !also.includes("moves") }: Exploration) {
  return isAnswered;
}

/** Names of the bits of {@link waitingAgents}. */
function whoMayWait({ size: { fars } }: Exploration): string[] {
  const cards = Array.from({ length: fars }, (_, at) => `card ${at + 1}`);
  return ["home's core", "a verb", ...cards];
}

/** Each agent has one access at a time: while a bit stays, the same access waits. */
function waitingAgents({ host, home, fars }: System): number {
  const waits = ({ waiting, active }: Pick<FarCard, "waiting" | "active">) =>
    waiting.length + active.size > 0;
  let bits = (host.waiting.length > 0 ? 1 : 0) + (waits(home.local) ? 2 : 0);
  for (const [at, card] of fars.entries()) if (waits(card)) bits |= 4 << at;
  return bits;
}

/** A step of a path, as a line of a ladder. */
export interface PathStep {
  readonly name: string;
  readonly at: Lane;
  readonly to?: Lane;
  /**
   * The known state of each line after the step, `key=value`; null where the step broke a promise.
   */
  readonly state: string | null;
}

/** A step of a path that is not yet taken. */
export interface NextStep extends Pick<PathStep, "name" | "at" | "to"> {
  /** @throws Violation, or MissingRow, where it breaks a promise. */
  take(): System;
}

/**
 * Replays a path, given by its steps' names in a violation.
 * @throws Error if a step cannot happen.
 */
export function* stepsAlong(
  given: Exploration,
  path: readonly string[],
): Generator<NextStep, void> {
  let state = firstState(given);
  for (const name of path) {
    // The search's verdict on the state reached is not a step.
    if (name === STUCK) return;
    const action = [...actionsOf(state, given)].find((each) => each.name() === name);
    if (action === undefined) throw new Error(`${name}: it cannot happen here`);
    const { at, to } = action;
    const take = () => (state = step(state, action)).system;
    yield { name, at, ...(to !== undefined && { to }), take };
  }
}

/** The steps of a violation's path, with the state after each. */
export function stepsOf(given: Exploration, path: readonly string[]): PathStep[] {
  const steps: PathStep[] = [];
  for (const { take, ...line } of stepsAlong(given, path)) {
    try {
      steps.push({ ...line, state: stableState(take()) });
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      steps.push({ ...line, state: null });
      break;
    }
  }
  return steps;
}

function firstState(given: Exploration): State {
  const system = newSystem({ ...given, contents: TOKENS, initial: () => FRESH });
  const { place } = given;
  if (place !== undefined) {
    for (const card of [system.home, ...system.fars]) card.placements.set(0, { place, version: 0 });
  }
  return {
    system,
    promises: Array.from({ length: (given.size.fars + 2) * 2 * given.size.lines }, () => 0),
    passed: Array.from({ length: (given.size.fars + 1) * given.size.lines }, () => 0),
    losses: 0,
  };
}

function keyOfState({ system, promises, passed, losses }: State): number {
  return keyOf(system, [...promises, ...passed], losses);
}

function pathTo(
  first: State,
  given: Exploration,
  { parents, choices, at }: { parents: number[]; choices: number[]; at: number },
): string[] {
  const path: number[] = [];
  for (let now = at; now > 0; now = parents[now] ?? 0) path.unshift(choices[now] ?? 0);
  const names: string[] = [];
  let state = first;
  for (const choice of path) {
    const action = [...actionsOf(state, given)][choice];
    if (action === undefined) break;
    names.push(action.name());
    state = step(state, action);
  }
  return names;
}

/** The first state from which progress alone reaches no quiet state; -1 if there is none. */
function firstStuck(
  count: number,
  quiet: readonly number[],
  { from, to }: { readonly from: readonly number[]; readonly to: readonly number[] },
): number {
  // Edges by their target: a list in two arrays.
  const last = new Int32Array(count).fill(-1), previous = new Int32Array(to.length);
  for (let edge = 0; edge < to.length; edge++) {
    const target = to[edge] ?? 0;
    previous[edge] = last[target] ?? -1;
    last[target] = edge;
  }
  const reaches = new Uint8Array(count);
  const queue = [...quiet];
  for (const state of queue) reaches[state] = 1;
  for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
    for (let edge = last[next] ?? -1; edge >= 0; edge = previous[edge] ?? -1) {
      const source = from[edge] ?? 0;
      if (reaches[source] === 1) continue;
      reaches[source] = 1;
      queue.push(source);
    }
  }
  return reaches.indexOf(0);
}
