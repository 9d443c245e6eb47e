/**
 * Invariants of every state (C-09), checked independently of the tables. Content of a line is a token
 * here: {@link FRESH} is the last written value, {@link STALE} any older one, `lost` is poison. So the
 * number of writes needs no bound, and the set of reachable states is finite.
 */
import { farLine } from "./far_card.ts";
import type { FarState } from "./far_card_table.ts";
import { homeLine } from "./home_card_state.ts";
import { hostLine } from "./host_agent.ts";
import type { Contents } from "./access.ts";
import { type Data, LOST, type WireMessage } from "../wire/roce/coherence_messages.ts";
import { isQuiet, type System, type Wire } from "./system.ts";

export const STALE = 0, FRESH = 1;
const WRITTEN = 2;

/** True if a store was done since the last check: most steps have none. */
let mayHaveWritten = false;

/** A broken promise of the protocol. */
export class Violation extends Error {}

/** A store reads what it overwrites, like an atomic; `full` needs nothing, and clears poison. */
export const TOKENS: Contents = {
  apply(data, change) {
    if (data === STALE) throw new Violation("a store found an old value");
    mayHaveWritten = true;
    return data === LOST && change !== "full" ? null : WRITTEN;
  },
  tellsOld: (change) => change !== "full",
};

/** Ages all copies of lines written in this step. @returns these lines. */
export function settle(system: System): number[] {
  const written: number[] = [];
  if (!mayHaveWritten) return written;
  mayHaveWritten = false;
  for (let line = 0; line < system.size.lines; line++) {
    if (!has(system, line, WRITTEN)) continue;
    written.push(line);
    replace(system, line, (data) => data === WRITTEN ? FRESH : data === FRESH ? STALE : data);
  }
  return written;
}

/** Home has lost its power: its memory's content becomes the last written value. */
export function rollBack({ host }: System): void {
  for (const [line, now] of [...host.lines]) {
    if (now.memory !== STALE) continue;
    host.lines.set(line, { ...now, memory: FRESH, cached: FRESH });
  }
}

/** C-10: a value is lost only if a card or the host agent reports it. */
export function checkReports(before: System, after: System, lost: readonly number[]): void {
  for (let line = 0; line < after.size.lines; line++) {
    const isNew = !isLostIn(before, line) && isLostIn(after, line);
    if (isNew && !lost.includes(line)) throw new Violation(`${line} is lost without a report`);
    for (const [at, card] of before.fars.entries()) {
      const isOver = after.fars[at]?.life !== card.life;
      if (isOver && /^MI?$/.test(farLine(card, line).state) && !lost.includes(line)) {
        throw new Violation(`card ${card.agent} has dropped ${line}, and does not say so`);
      }
    }
  }
}

function isLostIn(system: System, line: number): boolean {
  if (hostLine(system.host, line).memory === LOST || has(system, line, LOST)) return true;
  const { home, wires, toHost, toHome } = system;
  const requests = home.requests.map(({ message }) => message);
  return [requests, toHost, toHome, ...wires.flatMap(queuesOf)].some((queue) =>
    queue.some((message) => message.line === line && message.data === LOST)
  ) || home.lines.get(line)?.data === LOST;
}

function has(system: System, line: number, token: Data): boolean {
  const { host, home, fars } = system;
  if (hostLine(host, line).cached === token) return true;
  return [home.local, ...fars].some((card) => farLine(card, line).data === token);
}

/**
 * Changes every copy of a line, in caches and on the way. `Value` is an answer: it was fresh when
 * it was given.
 */
function replace(system: System, line: number, by: (data: Data) => Data): void {
  const { host, home, fars, wires, toHost, toHome } = system;
  const now = hostLine(host, line);
  host.lines.set(line, { ...now, cached: by(now.cached), memory: by(now.memory) });
  for (const { lines } of [home, home.local, ...fars]) {
    const copy = lines.get(line);
    if (copy?.data !== undefined) (lines as Map<number, unknown>).set(line, aged(copy, by));
  }
  for (const queue of [toHost, toHome, ...wires.flatMap(queuesOf)]) {
    for (const [index, message] of queue.entries()) {
      if (message.line !== line || message.kind === "Value") continue;
      if (message.data !== undefined) queue[index] = aged(message, by);
    }
  }
  for (const [index, request] of home.requests.entries()) {
    const { message } = request;
    if (message.line !== line || message.data === undefined) continue;
    home.requests[index] = { ...request, message: aged(message, by) };
  }
}

function queuesOf({ req, snp, up, down }: Wire): WireMessage[][] {
  return [req, snp, up, down];
}

function aged<T extends { readonly data?: Data | undefined }>(
  from: T,
  by: (data: Data) => Data,
): T {
  return from.data === undefined ? from : { ...from, data: by(from.data) };
}

const READABLE: ReadonlySet<FarState> = new Set(["S", "E", "M", "SM"]);

/** @throws Violation if the state breaks a promise. */
export function checkState(system: System): void {
  for (let line = 0; line < system.size.lines; line++) checkLine(system, line);
}

function checkLine(system: System, line: number): void {
  const { host, home, fars } = system;
  const { llc, cached, memory, phase } = hostLine(host, line);
  const { sharers, owner, right, dirty: isMarked } = homeLine(home, line);
  let readers = llc === "I" ? 0 : 1,
    writers = llc === "E" || llc === "M" ? 1 : 0,
    dirty = llc === "M";
  if (llc !== "I" && cached === STALE) throw new Violation("the LLC has an old value");
  if (llc === "E" && cached !== memory) throw new Violation("the LLC's E differs from memory");
  let cards = 0;
  const isStable = isQuiet(system);
  for (const card of [home.local, ...fars]) {
    const { state, data } = farLine(card, line);
    const where = `card ${card.agent} in ${state}`;
    if (!READABLE.has(state)) continue;
    readers++;
    if (data === STALE) throw new Violation(`${where} has an old value`);
    if (state === "S" || state === "SM") {
      const isKnown = (sharers >> card.agent & 1) === 1 || owner === card.agent;
      if (!isKnown) throw new Violation(`${where}: the directory does not know`);
    } else {
      writers++;
      if (owner !== card.agent) throw new Violation(`${where}: the directory has owner ${owner}`);
      if (state === "E" && data !== memory) throw new Violation(`${where} differs from memory`);
      if (state === "M") dirty = true;
      if (isStable && isMarked !== (state === "M")) {
        throw new Violation(`${where}: the directory takes it for ${isMarked ? "M" : "E"}`);
      }
    }
    if (card.agent === 0) cards |= 1;
    else cards |= 2;
  }
  if (writers > 0 && readers > 1) throw new Violation(`${writers} may write, ${readers} may read`);
  if (cards === 3) throw new Violation("the line is in both cards' caches");
  if (right === "X" && !phase.endsWith("X")) throw new Violation(`right X, and hd is ${phase}`);
  if (right === "S" && phase.endsWith("none")) throw new Violation(`right S, and hd is ${phase}`);
  if (owner >= 0 && right !== "X") throw new Violation(`lent exclusively under right ${right}`);
  if (sharers !== 0 && right === "I") throw new Violation("shared under no right");
  if (!dirty && memory === STALE && isStable) throw new Violation("the last write is lost");
}

/** One line of a quiet state, in which explorer and Murphi model have to agree. */
export function stableState(system: System): string {
  const { host, home, fars, size } = system;
  return Array.from({ length: size.lines }, (_, line) => {
    const { phase, llc, memory } = hostLine(host, line);
    const { sharers, owner, right } = homeLine(home, line);
    const states = fars.map((card) => farLine(card, line).state).join(" ");
    return `hd=${phase} llc=${llc} memory=${memory} b=${right} d=${sharers}/${owner} ` +
      `local=${farLine(home.local, line).state} far=${states}`;
  }).join("; ");
}

/** {@link stableState} of a line at the start. */
export const STABLE_BEGIN = "hd=none llc=I memory=1 b=I d=0/-1 local=I far=";

export interface StableLine {
  readonly phase: string;
  readonly llc: string;
  /** `1`: current. */
  readonly memory: string;
  readonly right: string;
  /** Agents as bits, and the exclusive owner; −1: none. */
  readonly sharers: number;
  readonly owner: number;
  readonly local: string;
  readonly fars: readonly string[];
}

/** Reads one line of {@link stableState}. */
export function readStable(text: string): StableLine {
  const [, phase = "", llc = "", memory = "", right = "", sharers, owner, local = "", far = ""] =
    /^hd=(.*) llc=(\S+) memory=(\S+) b=(\S+) d=(\d+)\/(-?\d+) local=(\S+) far=(.*)$/.exec(text) ??
      [];
  const fars = far.split(" ").filter((state) => state !== "");
  const lent = { sharers: Number(sharers), owner: Number(owner) };
  return { phase, llc, memory, right, ...lent, local, fars };
}
