/**
 * States of the Murphi model (`coherence.m`) and of the code, in one form, so that the sets can be compared.
 *
 * Of the code's state that is all but what the model has no word for: that an access waits in a card (the model begins
 * it later), whether a request that home has not begun is still in its queue pair, lives, counts, the local cache, which
 * has nothing here. Content is 1 where it is what was written last, else 0, and 0 where nothing has any.
 */
import { farLine } from "../../fabric/coherence/far_card.ts";
import { homeLine } from "../../fabric/coherence/home_card_state.ts";
import { agentsOf, NONE } from "../../fabric/coherence/home_card_table.ts";
import { hostLine } from "../../fabric/coherence/host_agent.ts";
import { BUS_MESSAGES, type BusMessage } from "../../fabric/wire/host_bus/region_messages.ts";
import type { WireMessage } from "../../fabric/wire/roce/coherence_messages.ts";
import type { System } from "../../fabric/coherence/system.ts";

/** The model's words, where they are others than the code's. */
const WORDS: Readonly<Record<string, string>> = {
  NONE: "none",
  SHARED: "S",
  OWNED: "X",
  LI: "I",
  LS: "S",
  LE: "E",
  LM: "M",
  IDLE: "idle",
  PutLine: "Put",
};

/** States, each with those that one step leads to. */
export type Graph = Map<string, Set<string>>;

/** The model with each rule printing its name and what it leads to. */
export function showing(source: string): string {
  const end = source.indexOf('rule "state"');
  const shown = source.slice(0, end).replaceAll(
    /rule "([^"]+)"([^]*?)endrule;/g,
    (_, name, rule) => `rule "${name}"${rule}  put "step ${name}\\n"; Show();\nendrule;`,
  );
  return shown + source.slice(end);
}

/** A step that a rule of the model makes. */
export interface ModelStep {
  readonly rule: string;
  readonly to: string;
}

/** States, the first of which is where the model begins, each with the steps from it. */
export type ModelStates = ReadonlyMap<string, readonly ModelStep[]>;

/** What a checker of such a model has printed: of each state its steps, and then itself. */
export function modelStates(text: string): ModelStates {
  const states = new Map<string, ModelStep[]>();
  let steps: ModelStep[] = [];
  for (
    const [, what, rule = "", block = ""] of text.matchAll(
      /^ ?(state|step)(?: ([^\n]+))?\n([^]*?)^ ?end$/gm,
    )
  ) {
    const values = [...block.matchAll(/:(\w+)$/gm)].map(([, word = ""]) => wordOf(word));
    const state = values.join(" ");
    if (what === "step") steps.push({ rule, to: state });
    else {
      states.set(state, steps);
      steps = [];
    }
  }
  return states;
}

/**
 * The graph of the model, or of the model without a rule: what is still reached from where it begins. Without it no
 * state is new, so each still holds what the model demands of a state.
 */
export function modelGraph(states: ModelStates, without?: string): Graph {
  const graph: Graph = new Map(), left = [...states.keys()].slice(0, 1);
  for (let state = left.pop(); state !== undefined; state = left.pop()) {
    if (graph.has(state)) continue;
    const steps = states.get(state)!.filter(({ rule, to }) => rule !== without && to !== state);
    graph.set(state, new Set(steps.map(({ to }) => to)));
    left.push(...steps.map(({ to }) => to));
  }
  return graph;
}

/** Adds a step, if it is one. */
export function addStep(graph: Graph, from: string, to: string): void {
  const steps = graph.get(from) ?? new Set();
  graph.set(from, steps);
  if (to !== from) steps.add(to);
}

/**
 * Steps of one graph that are none of the other's, nor so many in a row there. What home's card and a cache do next by
 * themselves, when something has ended, is one step in the code and several rules in the model.
 */
export function missingSteps(of: Graph, within: Graph, inRow: number): [string, string][] {
  const missing: [string, string][] = [];
  for (const [from, steps] of of) {
    const reached = new Set([from]);
    let last = [from];
    for (let n = 0; n < inRow; n++) {
      last = last.flatMap((each) => [...within.get(each) ?? []]).filter((to) => !reached.has(to));
      for (const to of last) reached.add(to);
    }
    for (const to of steps) if (!reached.has(to)) missing.push([from, to]);
  }
  return missing;
}

function wordOf(word: string): string {
  if (/^No[A-Z]/.test(word)) return "-";
  return word in WORDS ? WORDS[word]! : word;
}

/** The same of the code's state, which has one line. The order of values is that of the model's rule "state". */
export function codeState({ host, home, fars, wires, toHost, toHome }: System): string {
  const { phase, llc, cached, memory, queued } = hostLine(host, 0);
  const busy = phase.startsWith("busy");
  const of = homeLine(home, 0), { serving, snoop } = of;
  const right = { I: "none", S: "S", X: "X" }[of.right];
  const request = toHost.find((each) => BUS_MESSAGES[each.kind].class === "request");
  const answer = toHost.find((each) => BUS_MESSAGES[each.kind].class === "response");
  const grant = toHome.find((each) => BUS_MESSAGES[each.kind].class === "grant");
  const asked = toHome.find((each) => BUS_MESSAGES[each.kind].class === "snoop");
  const isBehind = grant !== undefined && asked !== undefined &&
    toHome.indexOf(grant) < toHome.indexOf(asked);
  const values: unknown[] = [
    ...[phase.replace("busy ", ""), busy, busy && host.waiting[0]?.kind === "store", queued],
    ...[llc, llc === "I" ? 0 : cached, memory],
    ...[right, of.owner === NONE ? 0 : of.owner, of.dirty, of.phase, serving?.kind],
    serving?.agent ?? 0,
    ...[snoop?.kind, snoop?.isServed ?? false, of.data ?? 0],
    ...carried(request),
    ...[answer?.kind, answer?.data !== undefined, answer?.data ?? 0],
    ...carried(grant),
    ...[asked?.kind, isBehind],
  ];
  for (const [at, card] of fars.entries()) {
    const { agent } = card, { state, data } = farLine(card, 0);
    const { req = [], snp = [], down = [], up = [] } = wires[at] ?? {};
    const waits = home.requests.find(({ message, isBegun }) => !isBegun && message.agent === agent)
      ?.message;
    values.push(agentsOf(of.sharers).includes(agent), agentsOf(of.waiting).includes(agent));
    values.push(state, /^(S|E|M|SM|MI)$/.test(state) ? data : 0);
    values.push(...carried(req[0] ?? waits), snp[0]?.kind, ...carried(down[0]), up.length);
    for (const message of up) values.push(...carried(message));
  }
  return values.map((value) => value ?? "-").join(" ");
}

/** A message's kind and content. */
function carried(message: Pick<WireMessage | BusMessage, "kind" | "data"> | undefined): unknown[] {
  return [message?.kind, message?.data ?? 0];
}
