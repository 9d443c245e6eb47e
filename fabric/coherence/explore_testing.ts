/**
 * For tests only: every reachable state of a {@link System}: accesses of one core of each computer, evictions
 * and moves whenever they may begin, and messages in every order that links allow. Whatever the number of
 * accesses is: content is old or new (`invariants_testing.ts`), so the set is finite.
 *
 * Besides what holds in each state it proves liveness: from everywhere a quiet state is reached by deliveries
 * alone, without a new access or eviction that might free what is stuck.
 */
import { canEvict, evict, farAccess, farLine, fence } from "./far_card.ts";
import { keyOf } from "./encode_testing.ts";
import {
  canEvictLocal,
  evictLocal,
  homeAccess,
  homePlacement,
  loseFarCard,
  move,
  newHomeCard,
} from "./home_card.ts";
import {
  canEvictFromLlc,
  cardLost,
  evictFromLlc,
  type HostAccess,
  hostAccess,
  hostLine,
} from "./host_agent.ts";
import {
  checkState,
  FRESH,
  settle,
  stableState,
  STALE,
  TOKENS,
  Violation,
} from "./invariants_testing.ts";
import type { Access } from "./messages.ts";
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
  type Tables,
} from "./system_testing.ts";

export interface Exploration {
  readonly size: SystemSize;
  readonly tables?: Tables;
  readonly links?: Links;
  /** What may happen besides loads, stores and evictions. */
  readonly with?: readonly ("own" | "flush" | "verbs" | "moves" | "losses")[];
  /** A break of decision 13: home's lease may end before the far card's. */
  readonly isEarly?: true;
  /** States at most: beyond, the exploration says that it is not whole. */
  readonly statesMax?: number;
}

export interface Explored {
  readonly states: number;
  readonly transitions: number;
  readonly isWhole: boolean;
  /** Quiet states, each as a line. */
  readonly quiet: ReadonlySet<string>;
  /** What was broken first, and the steps that lead there. */
  readonly violation: { readonly message: string; readonly path: readonly string[] } | null;
}

/** Something that may happen in a state. */
interface Action {
  readonly name: () => string;
  /** Not a new access or eviction: what is under way goes on by itself. */
  readonly isProgress: boolean;
  /** It counts for {@link LOSSES_MAX}. */
  readonly isLoss?: true;
  readonly act: (system: System) => Events;
}

/** What was promised of lines, beside the system: 1 where memory has to have the last write by the answer. */
interface State {
  readonly system: System;
  /** For each agent from {@link HOST} on, and each line: of a flush, and of a write-back. */
  readonly promises: number[];
  readonly losses: number;
}

const LOSSES_MAX = 1;

/** A core's accesses of a line: a store reads what it overwrites, unless it is `full`. */
function* accessesTo(line: number, { with: also = [] }: Exploration): Generator<Access> {
  yield { kind: "load", line, ticket: 0 };
  yield { kind: "store", line, change: "atomic", ticket: 0 };
  if (also.includes("own")) yield { kind: "own", line, ticket: 0 };
  if (also.includes("losses")) yield { kind: "store", line, change: "full", ticket: 0 };
  if (also.includes("flush")) yield { kind: "flush", line, ticket: 0 };
}

/** All that may happen, always in the same order, so that a path can be walked again. */
function* actionsOf({ system, losses }: State, given: Exploration): Generator<Action> {
  const { host, home, fars, size } = system;
  const also = given.with ?? [];
  for (const delivery of deliveries(system)) {
    yield {
      name: () => nameOf(system, delivery),
      isProgress: true,
      act: (next) => deliver(next, delivery),
    };
  }
  for (let line = 0; line < size.lines; line++) {
    yield* accessesOf(system, line, given);
    if (canEvictFromLlc(host, line)) {
      yield {
        name: () => `the LLC evicts ${line}`,
        isProgress: false,
        act: (next) => act(next, HOST, (out) => evictFromLlc(next.host, line, out)),
      };
    }
    if (canEvictLocal(home, line)) {
      yield {
        name: () => `the local cache evicts ${line}`,
        isProgress: false,
        act: (next) => act(next, 0, (out) => evictLocal(next.home, line, out)),
      };
    }
    for (const [at, card] of fars.entries()) {
      if (!canEvict(card, line)) continue;
      yield {
        name: () => `card ${card.agent} evicts ${line}`,
        isProgress: false,
        act: (next) => act(next, at + 1, (out) => evict(cardOf(next, at), line, out)),
      };
    }
  }
  if (also.includes("moves")) {
    const place = homePlacement(home, 0).place === "local" ? "remote" : "local";
    yield {
      name: () => `moves to ${place}`,
      isProgress: false,
      act: (next) => act(next, 0, (out) => move(next.home, { region: 0, place }, out)),
    };
  }
  if (also.includes("losses")) yield* lossesOf(system, losses, given);
}

function cardOf(system: System, at: number) {
  const card = system.fars[at];
  if (card === undefined) throw new Error(`there is no card ${at + 1}`);
  return card;
}

function isHostAccess(access: Access): access is HostAccess {
  return access.kind !== "own";
}

function* accessesOf(system: System, line: number, given: Exploration): Generator<Action> {
  const { host, home, fars } = system;
  for (const access of accessesTo(line, given)) {
    const { kind, change } = access;
    const name = () => `${change === "full" ? "full " : ""}${kind} ${line}`;
    if (host.waiting.length === 0 && isHostAccess(access)) {
      yield {
        name: () => `home's core: ${name()}`,
        isProgress: false,
        act: (next) => act(next, HOST, (out) => hostAccess(next.host, access, out)),
      };
    }
    const isIdle = home.local.waiting.length + home.local.active.size === 0;
    if (given.with?.includes("verbs") && /^(load|store)$/.test(kind) && isIdle) {
      yield {
        name: () => `a verb: ${name()}`,
        isProgress: false,
        act: (next) => act(next, 0, (out) => homeAccess(next.home, access, out)),
      };
    }
    for (const [at, card] of fars.entries()) {
      if (!card.isUp || card.waiting.length + card.active.size > 0) continue;
      yield {
        name: () => `card ${card.agent}: ${name()}`,
        isProgress: false,
        act: (next) => act(next, at + 1, (out) => farAccess(cardOf(next, at), access, out)),
      };
    }
  }
}

/** Decisions 13 and 14: far leases end before home's; home's card dies; a far card dies for good. */
function* lossesOf(
  { home, fars }: System,
  losses: number,
  { isEarly }: Exploration,
): Generator<Action> {
  for (const [at, card] of fars.entries()) {
    if (card.isUp && losses < LOSSES_MAX) {
      yield {
        name: () => `card ${card.agent}'s lease ends`,
        isProgress: false,
        isLoss: true,
        act: (next) => act(next, at + 1, (out) => fence(cardOf(next, at), out)),
      };
      yield {
        name: () => `card ${card.agent} dies`,
        isProgress: false,
        isLoss: true,
        act: (next) => {
          const lost = cardOf(next, at);
          act(next, at + 1, (out) => fence(lost, out));
          for (const queue of Object.values(next.wires[at] ?? {})) queue.length = 0;
          return { answers: [], lost: [] };
        },
      };
    }
    const known = home.lives.get(card.agent);
    if (known !== undefined && (known < card.life || isEarly)) {
      yield {
        name: () => `home gives card ${card.agent} up`,
        isProgress: true,
        act: (next) => act(next, 0, (out) => loseFarCard(next.home, card.agent, out)),
      };
    }
  }
  const areFenced = fars.every(({ agent, life }) => (home.lives.get(agent) ?? -1) < life);
  if (areFenced && losses <= LOSSES_MAX) {
    yield { name: () => "home's card dies", isProgress: false, isLoss: true, act: homeCardDies };
  }
}

function homeCardDies(system: System): Events {
  const { home, host, wires, size } = system;
  const fresh = newHomeCard({
    tables: { home: home.table, far: home.local.table },
    size: size.home,
    contents: host.contents,
    regionOf: home.regionOf,
    life: home.life + 1,
  });
  Object.assign(system.home as { -readonly [K in keyof typeof home]: (typeof home)[K] }, fresh);
  // The card's next life begins where software has put the region.
  for (const [region, placement] of home.placements) fresh.placements.set(region, placement);
  system.toHome.length = system.toHost.length = 0;
  for (const wire of wires) {
    const hellos = wire.req.filter(({ kind }) => kind === "Hello");
    for (const queue of Object.values(wire)) queue.length = 0;
    wire.req.push(...hellos);
  }
  return act(system, HOST, (out) => cardLost(host, out));
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
function step({ system, promises, losses }: State, { isLoss, act: does }: Action): State {
  const next = fork(system);
  const { answers } = does(next);
  const kept = [...promises];
  for (const { by, answer: { access, result, data } } of answers) {
    if (result !== "done") continue;
    if (/^(load|own)$/.test(access.kind) && data === STALE) {
      throw new Violation(`${by} has read an old value`);
    }
    // At once: no promise was made before.
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
  return { system: next, promises: kept, losses: losses + (isLoss ? 1 : 0) };
}

// ── what was promised persistent ─────────────────────────────────────────────────────────────────

function lineAt(system: System, at: number): number {
  return at % system.size.lines;
}

/**
 * From its beginning on, a flush and a write-back promise that memory has the last write when they are
 * answered (decision 12): a write that comes meanwhile frees them of it.
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
      const flushes = (of: typeof card) => of.active.get(line)?.kind === "flush";
      const writes = (of: typeof card) => /^(MI|II)$/.test(farLine(of, line).state);
      const flush = index * 2 * lines + line, back = flush + lines;
      const isFenced = was.life !== card.life;
      if (isFenced) kept[flush] = kept[back] = 0;
      due(flush, flushes(card), flushes(was) && !isFenced, `card ${index} has flushed`);
      due(back, writes(card), writes(was) && !isFenced, `card ${index} has written back`);
    }
    const at = cards.length * 2 * lines + line;
    const isFlushing = ({ host }: System) =>
      host.waiting.some((each) => each.kind === "flush" && each.line === line);
    due(at, isFlushing(after), isFlushing(before), "home's core has flushed");
  }
}

// ── the search ───────────────────────────────────────────────────────────────────────────────────

/** Walks breadth first, so that a violation's path is a shortest one. */
export function explore(given: Exploration): Explored {
  const first = firstState(given);
  const seen = new Map<number, number>([[keyOfState(first), 0]]);
  const parents = [-1], choices = [-1];
  const from: number[] = [], to: number[] = [];
  const quiet = new Set<string>(), quietStates: number[] = [0];
  const statesMax = given.statesMax ?? Infinity;
  let transitions = 0;
  let level: [number, State][] = [[0, first]];
  quiet.add(stableState(first.system));
  const failed = (message: string, at: number, name: string): Explored => ({
    states: seen.size,
    transitions,
    isWhole: false,
    quiet,
    violation: { message, path: [...pathTo(first, given, { parents, choices, at }), name] },
  });
  while (level.length > 0 && seen.size < statesMax) {
    const following: [number, State][] = [];
    for (const [at, state] of level) {
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
        const key = keyOfState(next);
        let target = seen.get(key);
        if (target === undefined) {
          target = parents.length;
          seen.set(key, target);
          parents.push(at);
          choices.push(choice);
          following.push([target, next]);
          if (isQuiet(next.system)) {
            quietStates.push(target);
            quiet.add(stableState(next.system));
          }
        }
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
    if (stuck >= 0) return failed("nothing quiet can be reached from here", stuck, "(stuck)");
  }
  return { states: seen.size, transitions, isWhole, quiet, violation: null };
}

/**
 * Walks one path, given by the names of its steps as a violation has them.
 * @throws Violation, or MissingRow, where a step breaks a promise; Error where a step cannot happen.
 */
export function walk(given: Exploration, names: readonly string[]): System {
  let state = firstState(given);
  for (const name of names) {
    const action = [...actionsOf(state, given)].find((each) => each.name() === name);
    if (action === undefined) throw new Error(`${name}: it cannot happen here`);
    state = step(state, action);
  }
  return state.system;
}

function firstState(given: Exploration): State {
  return {
    system: newSystem({ ...given, contents: TOKENS, initial: () => FRESH }),
    promises: Array.from({ length: (given.size.fars + 2) * 2 * given.size.lines }, () => 0),
    losses: 0,
  };
}

function keyOfState({ system, promises, losses }: State): number {
  return keyOf(system, promises, losses);
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

/** The first state from which no quiet one can be reached by what goes on by itself; -1 where there is none. */
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
