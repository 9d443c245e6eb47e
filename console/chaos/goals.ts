/** A goal that no round reaches is a gap of chaos, and no failure of the rack. */
import type { NodePlan } from "../../fabric/rack/plan/plan.ts";
import { notedWrites } from "../checks/noted_writes.ts";
import type { RunRecord } from "../checks/run_record.ts";
import { objectsIn } from "../checks/scm_objects.ts";
import { type NotedWrite, UNIT_BYTES } from "../checks/values.ts";
import { BROKER, type ChaosAction, TIMEKEEPER } from "./chaos_actions.ts";
import type { RoundOutcome } from "./progress.ts";

export interface Goal {
  readonly name: string;
  readonly fired: (round: RoundOutcome) => boolean;
}

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

  // P-41: the part of a message that is in SCM after a power failure.
  ...(["none", "prefix", "hole", "all but its end"] as const).map((shape) =>
    goal(`of a message: ${shape}`, (round) => shapes(round).has(shape))
  ),
  goal("a whole message that nobody was promised", (round) => shapes(round).has("unpromised")),

  // A put over an object that was stored.
  goal("put: an object is replaced", (round) => putEnds(round).has("replaced")),
  goal("put: cut short over an object", (round) => putEnds(round).has("cut short")),
  goal("put: cut short while it is published", (round) => putEnds(round).has("asked")),
  goal("put: the old object is there", (round) => putEnds(round).has("old")),
  goal("put: the new object is there, unconfirmed", (round) => putEnds(round).has("unconfirmed")),
  goal("put: an incomplete object is there", (round) => putEnds(round).has("incomplete")),

  // DESIGN §3, output commit: the last record of a killed process.
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
  goal("a region: an access is fenced", (round) => ends(round, "fenced")),
  goal("a region: an access is told of a loss", (round) => ends(round, "lost")),
  goal(
    "a region: a loss is reported",
    ({ record }) => record.notes.some(({ note }) => note.kind === "region-lost"),
  ),
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

export function firedBy(round: RoundOutcome): string[] {
  return GOALS.filter(({ fired }) => fired(round)).map(({ name }) => name);
}

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

const SHAPED_BYTES = 16;

function shapes({ record }: RoundOutcome): Set<Shape> {
  const found = new Set<Shape>();
  for (
    const [host, on] of Map.groupBy(notedWrites(record.notes, { ...record, claims: false }), byHost)
  ) {
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

type PutEnd = "replaced" | "cut short" | "asked" | "old" | "unconfirmed" | "incomplete";

interface NotedPut {
  readonly by: string;
  readonly at: number;
  readonly isOverObject: boolean;
  state: "begun" | "asked" | "stored";
}

function putEnds({ record }: RoundOutcome): Set<PutEnd> {
  const ends = new Set<PutEnd>();
  for (const [host, objects] of putsOf(record.notes)) {
    const node = record.plan.nodes.find(({ name }) => name === host);
    const image = record.scm(host);
    if (node?.kind !== "host" || image === undefined) continue;
    const found = objectsIn(image, node.config.scmBytes);
    for (const [name, puts] of objects) {
      const over = puts.filter(({ isOverObject }) => isOverObject);
      if (over.length === 0) continue;
      const there = found.get(name);
      const put = puts.findLast(({ at }) => at === there?.offset);
      if (over.some(({ state }) => state === "stored")) ends.add("replaced");
      if (over.some(({ state }) => state === "begun")) ends.add("cut short");
      if (over.some(({ state }) => state === "asked")) ends.add("asked");
      if (there?.state === "incomplete") ends.add("incomplete");
      else if (put?.state === "asked") ends.add("unconfirmed");
      else if (put?.state === "stored" && over.at(-1)!.state !== "stored") ends.add("old");
    }
  }
  return ends;
}

function putsOf(notes: RunRecord["notes"]): Map<string, Map<string, NotedPut[]>> {
  const hosts = new Map<string, Map<string, NotedPut[]>>();
  for (const { by, note } of notes) {
    if (note.kind !== "object" || note.on === undefined) continue;
    const { state } = note;
    if (state !== "begun" && state !== "asked" && state !== "stored") continue;
    const objects = hosts.get(note.on) ?? new Map<string, NotedPut[]>();
    hosts.set(note.on, objects);
    const puts = objects.get(note.name) ?? [];
    objects.set(note.name, puts);
    const isOverObject = puts.some(({ state }) => state === "stored");
    const put = puts.find((each) => each.by === by);
    if (put === undefined) puts.push({ by, at: note.at, isOverObject, state });
    else put.state = state;
  }
  return hosts;
}

function settled(round: RoundOutcome, fate: RoundOutcome["settled"][number]["fate"]): boolean {
  return round.settled.some((each) => each.fate === fate);
}

function starts(events: RoundOutcome["events"], name: string): number {
  return events.filter((event) => event.kind === "started" && event.name === name).length;
}

function counts({ finals }: RoundOutcome, counter: string): boolean {
  return finals.some(({ statistics }) =>
    Object.values(statistics).some((counters) => (counters[counter] ?? 0) > 0)
  );
}

function completes({ record }: RoundOutcome, status: string): boolean {
  return record.notes.some(({ note }) => note.kind === "completed" && note.status === status);
}

function ends({ record }: RoundOutcome, result: "lost" | "fenced"): boolean {
  return record.notes.some(({ note }) => note.kind === "accessed" && note.result === result);
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
