/**
 * What a campaign is to have reached at least once: every kind of action that hit a live process, every way
 * a message can be half there, every path of recovery. A goal that never fires tells that chaos does not
 * come to a place, not that anything is wrong there.
 */
import type { NodePlan } from "../../fabric/rack/plan/plan.ts";
import { notedWrites } from "../checks/noted_writes.ts";
import { type NotedWrite, UNIT_BYTES } from "../checks/values.ts";
import { BROKER, type ChaosAction, TIMEKEEPER } from "./chaos_actions.ts";
import type { RoundOutcome } from "./progress.ts";

export interface Goal {
  readonly name: string;
  readonly fired: (round: RoundOutcome) => boolean;
}

/** All goals, in the order in which they are listed. */
export const GOALS: readonly Goal[] = [
  ...(["host", "rnic", "switch"] as const).map((kind) =>
    goal(
      `kill a ${kind}`,
      (round) => hits(round, "kill").some((process) => isKind(round, process, kind)),
    )
  ),
  ...[TIMEKEEPER, BROKER].flatMap((name) => [
    goal(`kill ${name}`, (round) => hits(round, "kill").includes(name)),
    goal(`pause ${name}`, (round) => hits(round, "pause").includes(name)),
  ]),
  goal(
    "pause a device",
    (round) => hits(round, "pause").some((name) => name !== TIMEKEEPER && name !== BROKER),
  ),
  ...(["loss", "corrupt", "duplicate", "reorder", "delay"] as const).map((action) =>
    goal(`${action} on a cable`, (round) => linkHits(round).some((each) => each.action === action))
  ),
  goal("cut a cable", (round) => cuts(round).some(({ direction }) => direction === "both")),
  goal("cut one way of a cable", (round) => cuts(round).some((each) => each.direction !== "both")),
  goal("a device returns", ({ faults }) => faults.some(({ action }) => action === "start")),
  goal("two devices without power at once", ({ faults }) => mostDead(faults) >= 2),

  // P-41: how much of a message is there when the power is gone.
  ...(["none", "prefix", "hole", "all but its end"] as const).map((shape) =>
    goal(`of a message: ${shape}`, (round) => shapes(round).has(shape))
  ),
  goal("a whole message that nobody was promised", (round) => shapes(round).has("unpromised")),

  // DESIGN §3, output commit: what a killed process had written down last.
  goal("SCM: the last span is kept", (round) => settled(round, "kept")),
  goal("SCM: the last span is undone", (round) => settled(round, "undone")),
  goal("SCM: the record was torn", (round) => settled(round, "torn")),

  goal("a new timekeeper takes over", ({ events }) => starts(events, TIMEKEEPER) > 1),
  goal(
    "a stale or repeated message is refused",
    ({ finals }) => finals.some(({ refused }) => refused > 0),
  ),
  goal("the run cannot be replayed", ({ summary }) => summary?.exact === false),
  goal("a retransmission", (round) => counts(round, "retransmissions")),
  goal("an ACK timeout", (round) => counts(round, "timeouts")),
  goal("a NAK", (round) => counts(round, "naksOut")),
  goal("a duplicate request is answered again", (round) => counts(round, "duplicatesIn")),
  goal("a completion RETRY_EXC_ERR", (round) => completes(round, "RETRY_EXC_ERR")),
  goal("a completion WR_FLUSH_ERR", (round) => completes(round, "WR_FLUSH_ERR")),
  goal("connect: timeout", (round) => fails(round, /^connect: timeout/)),
  goal("connect: refused", (round) => fails(round, /^connect: (?!timeout)/)),
  goal("a program is cut off midway", (round) => isCutOff(round)),
  goal(
    "log: a replica is connected to again",
    (round) => logs(round).some(({ replicas }) => replicas.some(({ tries }) => tries > 1)),
  ),
  goal(
    "log: done though a replica is behind",
    (round) => logs(round).some(({ status, replicas }) => status === "done" && isUneven(replicas)),
  ),
  goal(
    "log: a client that starts again finds records",
    (round) => logs(round).some(({ recovered = 0 }) => recovered > 0),
  ),
];

function goal(name: string, fired: Goal["fired"]): Goal {
  return { name, fired };
}

/** Names of the goals that a round has reached. */
export function firedBy(round: RoundOutcome): string[] {
  return GOALS.filter(({ fired }) => fired(round)).map(({ name }) => name);
}

/** Processes that actions of this kind have hit. */
function hits(
  { injected }: RoundOutcome,
  kind: Exclude<ChaosAction["kind"], "link">,
): string[] {
  return injected.flatMap(({ action, hit }) => hit && action.kind === kind ? [action.process] : []);
}

function linkHits({ injected }: RoundOutcome) {
  return injected.flatMap(({ action, hit }) =>
    hit && action.kind === "link" ? [action.request] : []
  );
}

function cuts(round: RoundOutcome) {
  return linkHits(round).filter(({ action }) => action === "cut");
}

function isKind({ record }: RoundOutcome, process: string, kind: NodePlan["kind"]): boolean {
  return record.plan.nodes.some((node) => node.name === process && node.kind === kind);
}

function mostDead(faults: RoundOutcome["faults"]): number {
  const dead = new Set<string>();
  let most = 0;
  for (const { action, node } of faults) {
    if (action === "kill") dead.add(node);
    else dead.delete(node);
    most = Math.max(most, dead.size);
  }
  return most;
}

type Shape = "none" | "prefix" | "hole" | "all but its end" | "unpromised" | "promised";

/** Sizes below this have no shape worth telling. */
const SHAPED_BYTES = 16;

/** How much of each message is in SCM. A message that others wrote over is not looked at. */
function shapes({ record }: RoundOutcome): Set<Shape> {
  const found = new Set<Shape>();
  for (const [host, on] of Map.groupBy(notedWrites(record.notes, { claims: false }), byHost)) {
    const image = record.scm(host);
    if (image === undefined) continue;
    const sorted = on.toSorted((x, y) => x.from - y.from);
    for (const [i, write] of sorted.entries()) {
      const { from, to, bytes } = write;
      if (to - from < SHAPED_BYTES) continue;
      if ((sorted[i - 1]?.to ?? 0) > from || (sorted[i + 1]?.from ?? to) < to) continue;
      found.add(shapeOf(image.read(from, to), bytes, write.promised !== undefined));
    }
  }
  return found;
}

const byHost = ({ on }: NotedWrite) => on;

function shapeOf(found: Uint8Array, written: Uint8Array, isPromised: boolean): Shape {
  const isThere: boolean[] = [];
  for (let at = 0; at < written.length; at += UNIT_BYTES) {
    isThere.push(written.subarray(at, at + UNIT_BYTES).every((byte, i) => byte === found[at + i]));
  }
  const first = isThere.indexOf(false);
  if (first < 0) return isPromised ? "promised" : "unpromised";
  const last = isThere.lastIndexOf(true);
  if (last < 0) return "none";
  if (last > first) return "hole";
  return first * UNIT_BYTES >= written.length - 64 ? "all but its end" : "prefix";
}

function settled(round: RoundOutcome, fate: RoundOutcome["settled"][number]["fate"]): boolean {
  return round.settled.some((each) => each.fate === fate);
}

function starts(events: RoundOutcome["events"], name: string): number {
  return events.filter((event) => event.kind === "started" && event.name === name).length;
}

/** Whether some device that lived to the end has counted this. */
function counts({ finals }: RoundOutcome, counter: string): boolean {
  return finals.some(({ statistics }) =>
    Object.values(statistics).some((counters) => (counters[counter] ?? 0) > 0)
  );
}

function completes({ record }: RoundOutcome, status: string): boolean {
  return record.notes.some(({ note }) => note.kind === "completed" && note.status === status);
}

function results({ record }: RoundOutcome): Record<string, unknown>[] {
  return record.reports.filter(({ topic }) => topic === "result").map(({ value }) =>
    (value ?? {}) as Record<string, unknown>
  );
}

function fails(round: RoundOutcome, pattern: RegExp): boolean {
  return results(round).some(({ error }) => typeof error === "string" && pattern.test(error));
}

function isCutOff(round: RoundOutcome): boolean {
  return results(round).some(({ status, writtenMessages, records }) =>
    status === "failed" && (Number(writtenMessages) > 0 || Number(records) > 0)
  );
}

/** What a client of a replicated log says of itself. */
interface LogResult {
  readonly status: "done" | "failed";
  readonly recovered?: number;
  readonly replicas: readonly { readonly acked: number; readonly tries: number }[];
}

function logs(round: RoundOutcome): LogResult[] {
  return results(round).filter(({ program, replicas }) =>
    program === "log" && Array.isArray(replicas)
  ) as unknown as LogResult[];
}

function isUneven(replicas: LogResult["replicas"]): boolean {
  return new Set(replicas.map(({ acked }) => acked)).size > 1;
}
