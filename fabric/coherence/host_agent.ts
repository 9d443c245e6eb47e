/**
 * HA: the home agent of the lines of this host's regions. Rows are in `host_agent_table.ts`; this file
 * has their state: a record of each line that the card or the LLC has, or that a card's request waits
 * for, and cores' accesses that wait for a snoop. The record is the directory in memory (decision 7): it
 * is never evicted while it is needed.
 */
import { type HostEvent, type HostLine, type HostTable, newHostLine } from "./host_agent_table.ts";
import type { Access, Contents } from "./access.ts";
import type { BusMessage } from "../wire/host_bus/region_messages.ts";
import { type Data, LOST } from "../wire/roce/coherence_messages.ts";
import type { Output } from "./output.ts";
import { MissingRow, rowOf } from "./table.ts";

/** An access of one of home's cores, whose stores ask for ownership themselves. */
export type HostAccess = Access & { readonly kind: Exclude<Access["kind"], "own"> };

/** Messages and writes since the start. */
export interface HostCounts {
  /** The card's notices that a line has become M in it [0060, 0065]. */
  notices: number;
  /** Lines that home's card has written to memory: on SCM each is wear (decision 11). */
  cardWrites: number;
  llcWrites: number;
  /** Changes of a directory in memory that no write of the line's content carried (decision 7). */
  directoryWrites: number;
  /** Snoops of home's card. */
  snoops: number;
}

export interface HostAgent {
  readonly table: HostTable;
  readonly contents: Contents;
  readonly lines: Map<number, HostLine>;
  /** In order of arrival; the first of a line may wait for a snoop. */
  readonly waiting: HostAccess[];
  /**
   * Place of a line's directory entry (decision 7): on home's card, with a volatile record here; or
   * also beside the line in memory, where it outlasts a power failure, and its changes are writes.
   */
  readonly directoryOf: (line: number) => "card" | "memory";
  readonly counts: HostCounts;
  /** Content of memory before any write. */
  readonly initial: (line: number) => Data;
  /** Called at each change of a line; given by the node that has the cache and memory. */
  readonly changed?: (line: number, change: HostChange) => void;
}

/** A line before and after a row, and after a core's store. */
export interface HostChange {
  readonly before: HostLine;
  readonly after: HostLine;
}

/** An agent that has lent nothing. */
export function newHostAgent(
  { directoryOf = () => "card", ...given }:
    & Pick<HostAgent, "table" | "contents" | "initial">
    & { readonly directoryOf?: HostAgent["directoryOf"] },
): HostAgent {
  const counts = { notices: 0, cardWrites: 0, llcWrites: 0, directoryWrites: 0, snoops: 0 };
  return { ...given, directoryOf, counts, lines: new Map(), waiting: [] };
}

/** The present line. */
export function hostLine(agent: HostAgent, line: number): HostLine {
  return agent.lines.get(line) ?? newHostLine(agent.initial(line));
}

function isBusy(agent: HostAgent, line: number): boolean {
  return hostLine(agent, line).phase.startsWith("busy");
}

/** An access of one of home's cores. It waits while its line waits for a snoop. */
export function hostAccess(agent: HostAgent, access: HostAccess, out: Output): void {
  const isFirst = agent.waiting.length === 0 ||
    !agent.waiting.some(({ line }) => line === access.line);
  agent.waiting.push(access);
  if (isFirst) attempt(agent, access.line, out);
}

/** A message of home's card. @throws MissingRow for one that cannot come now. */
export function hostReceive(agent: HostAgent, message: BusMessage, out: Output): void {
  const { line, kind, data } = message;
  // No change here: the line is lent exclusively, and counts as perhaps M (decision 10).
  if (kind === "BusDirty") agent.counts.notices++;
  else apply(agent, { line, event: kind as HostEvent, data }, out);
}

/** True if the LLC may drop the line now, with a write-back if it is dirty. */
export function canEvictFromLlc(agent: HostAgent, line: number): boolean {
  const { phase, llc } = hostLine(agent, line);
  return llc !== "I" && agent.table[phase].evict !== undefined;
}

/** The LLC needs the place of a line. */
export function evictFromLlc(agent: HostAgent, line: number, out: Output): void {
  apply(agent, { line, event: "evict" }, out);
}

/**
 * Home's card is dead, and the leases of all far cards are over (decisions 13, 14). Exclusively
 * lent lines are poisoned and reported.
 */
export function cardLost(agent: HostAgent, out: Output): void {
  for (const line of [...agent.lines.keys()].sort((a, b) => a - b)) {
    if (hostLine(agent, line).phase.endsWith("X")) out.lost.push(line);
    apply(agent, { line, event: "cardLost" }, out);
  }
}

/**
 * The host restarts after a power failure when all leases are over: memory has what survived, and
 * the LLC nothing. A directory in memory (decision 7) still marks exclusively lent lines, which are
 * poisoned and reported. Without one such a line has the last content that home has received.
 */
export function restartHost(agent: HostAgent, out: Output): void {
  for (const [line, { phase, memory }] of [...agent.lines].sort(([a], [b]) => a - b)) {
    const isLost = agent.directoryOf(line) === "memory" && phase.endsWith("X");
    if (isLost) out.lost.push(line);
    agent.lines.set(line, newHostLine(isLost ? LOST : memory));
  }
}

/** Gives waiting accesses of a line to the table, while they are done at once. */
function attempt(agent: HostAgent, line: number, out: Output): void {
  while (!isBusy(agent, line)) {
    const access = agent.waiting.find((each) => each.line === line);
    if (access === undefined) return;
    apply(agent, { line, event: access.kind }, out);
    if (isBusy(agent, line) || !agent.waiting.includes(access)) continue;
    // A row of the user's own protocol: it would be tried for ever.
    throw new MissingRow(`host agent, line ${line}: ${access.kind} is neither served nor waits`);
  }
}

function apply(
  agent: HostAgent,
  { line, event, data }: { line: number; event: HostEvent; data?: Data | undefined },
  out: Output,
): void {
  const before = hostLine(agent, line);
  const row = rowOf(agent.table, { state: before.phase, event, who: "host agent", line });
  const move = row(before, { data });
  agent.lines.set(line, move.line);
  count(agent, { line, before, after: move.line, isContent: data !== undefined });
  if (move.send !== undefined) {
    const { memory } = move.line;
    const carries = move.send === "GrantS" || move.send === "GrantE" ||
      (move.send === "Cmp" && memory === LOST);
    out.bus.push({ kind: move.send, line, data: carries ? memory : undefined });
  }
  if (move.serves) serve(agent, { line, before }, out);
  agent.changed?.(line, { before, after: hostLine(agent, line) });
  if (move.resumes) resume(agent, line, out);
}

function count(
  { counts, directoryOf }: HostAgent,
  { line, before, after, isContent }: {
    readonly line: number;
    readonly before: HostLine;
    readonly after: HostLine;
    readonly isContent: boolean;
  },
): void {
  const isCleaned = before.llc === "M" && after.llc !== "M";
  if (isContent) counts.cardWrites++;
  if (isCleaned) counts.llcWrites++;
  if (before.phase === after.phase) return;
  const wasLent = before.phase.replace("busy ", ""), isLent = after.phase.replace("busy ", "");
  const isWritten = wasLent !== isLent && !isContent && !isCleaned;
  if (isWritten && directoryOf(line) === "memory") counts.directoryWrites++;
  if (!before.phase.startsWith("busy") && after.phase.startsWith("busy")) counts.snoops++;
}

function serve(
  agent: HostAgent,
  { line, before }: { line: number; before: HostLine },
  out: Output,
): void {
  const index = agent.waiting.findIndex((each) => each.line === line);
  const [access] = agent.waiting.splice(index, 1);
  if (access === undefined) return;
  const now = hostLine(agent, line);
  if (access.kind === "flush") {
    out.answers.push({ access, result: now.memory === LOST ? "lost" : "done" });
    return;
  }
  const data = now.cached;
  if (access.kind === "load") {
    out.answers.push({ access, result: data === LOST ? "lost" : "done", data });
    return;
  }
  const changed = agent.contents.apply(now.cached, access.change);
  if (changed === null) {
    // A partial store to a lost line is refused, and the line stays as it was (decision 13).
    agent.lines.set(line, before);
    out.answers.push({ access, result: "lost" });
    return;
  }
  agent.lines.set(line, { ...now, cached: changed });
  out.answers.push({ access, result: "done", data });
}

/**
 * After a snoop: the access that waited for it, then the card's queued request, then further
 * accesses.
 */
function resume(agent: HostAgent, line: number, out: Output): void {
  const access = agent.waiting.find((each) => each.line === line);
  if (access !== undefined) apply(agent, { line, event: access.kind }, out);
  const now = hostLine(agent, line), { queued } = now;
  if (queued !== null && !isBusy(agent, line)) {
    agent.lines.set(line, { ...now, queued: null });
    apply(agent, { line, event: queued }, out);
  }
  attempt(agent, line, out);
}
