/**
 * For tests only: short programs on the protocol's code in every order that links, caches and cores allow, and what
 * their loads can return (decision 16). Accesses of a core block, so it has to be exactly what some order of all
 * accesses, one after the other, allows: sequential consistency (Lamport, "How to Make a Multiprocessor Computer
 * That Correctly Executes Multiprocess Programs", IEEE Trans. Comput. C-28(9), 1979).
 */
import { keyOf } from "./encode.ts";
import { canEvict, evict, farAccess } from "./far_card.ts";
import { move } from "./home_card.ts";
import { canEvictFromLlc, evictFromLlc, hostAccess } from "./host_agent.ts";
import type { Access, Contents } from "./access.ts";
import type { Placement } from "../wire/roce/coherence_messages.ts";
import {
  act,
  deliver,
  deliveries,
  type Events,
  fork,
  HOST,
  isQuiet,
  newSystem,
  type System,
  type SystemSize,
} from "./system.ts";
import type { Tables } from "./tables.ts";

/** A load of a line, or a store of a value above 0 and below 5 to it; lines hold 0 in the beginning. */
export interface LitmusAccess {
  readonly line: number;
  readonly store?: number;
}

/** A core's program: of home's core ({@link HOST}) or of a far card's. */
export interface LitmusThread {
  readonly by: number;
  readonly accesses: readonly LitmusAccess[];
}

export interface Litmus {
  readonly size: SystemSize;
  readonly threads: readonly LitmusThread[];
  readonly place?: Placement["place"];
  readonly tables?: Tables;
}

/** What was seen: `1 0 | 2`, the loads of each thread in order. */
type Outcomes = ReadonlySet<string>;

interface State {
  readonly system: System;
  /** How many accesses of each thread are done, and what its loads have returned. */
  readonly done: readonly number[];
  readonly loaded: readonly (readonly number[])[];
  readonly isBusy: readonly boolean[];
}

const VALUES: Contents = {
  apply: (_data, change) => change as number,
  tellsOld: () => false,
};

function outcome(loaded: State["loaded"]): string {
  return loaded.map((values) => values.join(" ")).join(" | ");
}

/** All outcomes of accesses done one after the other, in each thread's order. */
export function sequentialOutcomes(threads: readonly LitmusThread[]): Outcomes {
  const found = new Set<string>();
  const walk = (done: number[], memory: ReadonlyMap<number, number>, loaded: number[][]) => {
    let isEnd = true;
    for (const [at, { accesses }] of threads.entries()) {
      const access = accesses[done[at] ?? 0];
      if (access === undefined) continue;
      isEnd = false;
      const next = done.with(at, (done[at] ?? 0) + 1);
      const { line, store } = access;
      if (store === undefined) {
        const values = [...loaded[at] ?? [], memory.get(line) ?? 0];
        walk(next, memory, loaded.with(at, values));
      } else {
        walk(next, new Map(memory).set(line, store), loaded);
      }
    }
    if (isEnd) found.add(outcome(loaded));
  };
  walk(threads.map(() => 0), new Map(), threads.map(() => []));
  return found;
}

/** All outcomes that the protocol's code lets happen, and how many states it went through. */
export function reachedOutcomes(
  { size, threads, place = "remote", tables }: Litmus,
): { readonly outcomes: Outcomes; readonly states: number } {
  const system = newSystem({
    size,
    contents: VALUES,
    initial: () => 0,
    ...(tables !== undefined && { tables }),
  });
  if (place === "local") act(system, 0, (out) => move(system.home, { region: 0, place }, out));
  const first: State = {
    system,
    done: threads.map(() => 0),
    loaded: threads.map(() => []),
    isBusy: threads.map(() => false),
  };
  const seen = new Set<number>([key(first)]);
  const open = [first];
  const outcomes = new Set<string>();
  for (let state = open.pop(); state !== undefined; state = open.pop()) {
    const isEnd = threads.every(({ accesses }, at) => state?.done[at] === accesses.length);
    if (isEnd && isQuiet(state.system)) outcomes.add(outcome(state.loaded));
    for (const next of steps(state, threads)) {
      const number = key(next);
      if (seen.has(number)) continue;
      seen.add(number);
      open.push(next);
    }
  }
  return { outcomes, states: seen.size };
}

function key({ system, done, loaded, isBusy }: State): number {
  const extra = [...done, ...isBusy.map(Number), ...loaded.flatMap((values) => [9, ...values])];
  return keyOf(system, extra, 0);
}

function* steps(state: State, threads: readonly LitmusThread[]): Generator<State> {
  const { system } = state;
  const next = (does: (system: System) => Events): State => {
    const copy = fork(system);
    return after({ ...state, system: copy }, threads, does(copy));
  };
  for (const delivery of deliveries(system)) yield next((copy) => deliver(copy, delivery));
  for (const [at, thread] of threads.entries()) {
    const access = thread.accesses[state.done[at] ?? 0];
    if (access === undefined || state.isBusy[at]) continue;
    const copy = fork(system);
    const begun = { ...state, system: copy, isBusy: state.isBusy.with(at, true) };
    yield after(begun, threads, begin(copy, { by: thread.by, at, access }));
  }
  for (let line = 0; line < system.size.lines; line++) {
    if (canEvictFromLlc(system.host, line)) {
      yield next((copy) => act(copy, HOST, (out) => evictFromLlc(copy.host, line, out)));
    }
    for (const [at, card] of system.fars.entries()) {
      if (!canEvict(card, line)) continue;
      yield next((copy) =>
        act(copy, card.agent, (out) => {
          const mine = copy.fars[at];
          if (mine !== undefined) evict(mine, line, out);
        })
      );
    }
  }
}

function begin(
  system: System,
  { by, at, access: { line, store } }: { by: number; at: number; access: LitmusAccess },
): Events {
  const isStore = store !== undefined;
  const access: Access & { kind: "load" | "store" } = {
    kind: isStore ? "store" : "load",
    line,
    ticket: at,
    ...(isStore && { change: store }),
  };
  return act(system, by, (out) => {
    const card = system.fars[by - 1];
    if (card !== undefined) farAccess(card, access, out);
    else hostAccess(system.host, access, out);
  });
}

function after(state: State, threads: readonly LitmusThread[], { answers }: Events): State {
  let { done, loaded, isBusy } = state;
  for (const { answer: { access: { ticket, kind }, data } } of answers) {
    if (threads[ticket] === undefined) continue;
    done = done.with(ticket, (done[ticket] ?? 0) + 1);
    isBusy = isBusy.with(ticket, false);
    if (kind === "load") loaded = loaded.with(ticket, [...loaded[ticket] ?? [], Number(data)]);
  }
  return { ...state, done, loaded, isBusy };
}
