/** C-09, C-10: a load of a shared region returns the last store; after a loss is reported, never what was before. */
import type { Time } from "../../../fabric/base/time.ts";
import { countOf, nodeTime } from "../finding.ts";
import {
  checkerOf,
  type CheckSteps,
  inSteps,
  mostOf,
  type RunRecord,
  type Steps,
} from "../run_record.ts";
import type { Instant } from "../values.ts";
import { type Access, type Region, scmOf, sharedAccessSteps, usesRegions } from "./accesses.ts";
import { firstFault } from "./faults.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { LineOp } from "./line_content.ts";
import { type LineEvent, lineSteps, type LineVerdict } from "./line_order.ts";
import { mayHaveOf } from "./persisted_lines.ts";
import { wrongBuffers } from "./store_buffers.ts";

export const loads = checkerOf({
  name: "loads-return-the-last-store",
  promise:
    "There is one order of all accesses to a line of a shared region, each between its begin and its end, in which " +
    "every load and atomic returns what the last store left; after a loss is reported a load says so, or returns " +
    "what was stored later. Of a core with a store buffer, stores are in this order as they leave it, first in, " +
    "first out, and its own loads see them before.",
  looked: (run) => countOf(allAccessesIn(run), "access", "accesses"),
  subjects: allAccessesIn,
  concerns: usesRegions,
  without: "no program accessed a shared region",
  steps: checkLoads,
});

function allAccessesIn({ notes }: RunRecord): number {
  return notes.filter(({ note }) => note.kind === "access").length;
}

function* checkLoads(run: RunRecord): CheckSteps {
  const findings = yield* wrongBuffers(run), most = mostOf(run);
  if (findings.length >= most) return findings.slice(0, most);
  const { regions } = yield* sharedAccessSteps(run.notes);
  for (const region of regions.values()) {
    for (const [line, events] of yield* linesOf(run, region)) {
      yield;
      const verdict = yield* lineSteps(events), text = textOf(verdict);
      if (text === undefined) continue;
      // `linesOf` gives it to all.
      const { at } = (verdict.unchecked ?? verdict.wrong)!.op;
      findings.push({
        text: `line ${line} of ${region.record.region}: ${text}`,
        at: at!,
        ...scmOf(region, { offset: line * LINE_BYTES, length: LINE_BYTES }),
      });
      if (findings.length >= most) return findings;
    }
  }
  return findings;
}

/** A line that is not judged to its end is not correct. */
function textOf({ wrong, unchecked }: LineVerdict): string | undefined {
  if (unchecked !== undefined) {
    return `unchecked from ${unchecked.op.name} on: ${unchecked.why}`;
  }
  if (wrong === undefined) return undefined;
  const { op, mayBe } = wrong;
  const seen = op.isLost === true ? "lost" : op.seen?.toHex() ?? "";
  const what = op.op === "lose" ? "this is no order of its loads" : `it found ${seen}`;
  return `${op.name}, ${op.length} B at ${op.from} of the line: ${what}, where it may have ${
    mayBe.join(" or ")
  }`;
}

interface Placed {
  readonly event: LineEvent;
  readonly time: Time;
  /** At one instant, begins that follow an end of their node come after other nodes' begins. */
  readonly phase: number;
}

/** By time: begins before ends of the same instant, as they may have overlapped. */
function* linesOf(run: RunRecord, region: Region): Steps<Map<number, LineEvent[]>> {
  const placed = new Map<number, Placed[]>();
  const add = (line: number, event: LineEvent, { time, phase }: Omit<Placed, "event">) => {
    const all = placed.get(line) ?? [];
    placed.set(line, all);
    all.push({ event, time, phase });
  };
  const phases = yield* phasesOf(region.accesses);
  const seen = yield* seenBytes(region.accesses);
  yield* inSteps(region.accesses, (access) => {
    for (const [line, op, isSure] of piecesOf(access, seen)) {
      const { began, ended } = access;
      add(line, { kind: "begin", op }, { time: began.time, phase: phases.get(began.order)! });
      if (!isSure || ended === undefined) continue;
      add(line, { kind: "end", op }, { time: ended.at.time, phase: phases.get(ended.at.order)! });
    }
  });
  const faultAt = region.losses.length === 0 ? Infinity : firstFault(run);
  for (const { at, note } of region.losses) {
    for (const { offset, length } of note.ranges) {
      for (let line = lineOf(offset); line * LINE_BYTES < offset + length; line++) {
        const name = `the loss that ${at.node} reported at ${at.time} ps`;
        // A far card cannot know whether home has taken its last write-back: then the line is not lost, and not old.
        const isPossible = at.node !== region.record.home;
        const whole = { from: 0, length: LINE_BYTES };
        const op: LineOp = { name, op: "lose", ...whole, isPossible, at: nodeTime(at) };
        const opensAt = isPossible ? undefined : opensAfter(run, region, at.time);
        const from = opensAt ?? lossFrom(run, region, { at: at.time, faultAt });
        add(line, { kind: "begin", op }, { time: from, phase: 0 });
        add(line, { kind: "end", op }, { time: opensAt ?? at.time, phase: 0.5 });
      }
    }
  }
  const lives = run.lives.get(region.record.home) ?? [];
  const failures = lives.filter(({ to }) => to !== Infinity);
  const lines = new Map<number, LineEvent[]>();
  for (const [line, all] of placed) {
    yield;
    for (const [i, { to }] of failures.entries()) {
      const mayHave = mayHaveOf(run, region, { line, at: to });
      const event: LineEvent = { kind: "restart", mayHave };
      all.push({ event, time: to, phase: -1 });
      // Bytes that were lost while home had no power have their persistent content when home serves again; until then
      // far hosts load the copies of their cards from the old life.
      const back = lives[i + 1];
      if (back === undefined) continue;
      all.push({ event, time: back.from + region.record.homeWaitPs, phase: -1 });
    }
    all.sort((x, y) => x.time - y.time || x.phase - y.phase);
    lines.set(line, all.map(({ event }) => event));
  }
  return lines;
}

/**
 * When home serves again, if its power has returned and it does not serve at `at`. A loss that it
 * reports by then counts from its first answer on.
 */
function opensAfter(
  run: RunRecord,
  { record: { home, homeWaitPs } }: Region,
  at: Time,
): Time | undefined {
  const life = run.lives.get(home)?.slice(1).find(({ from, to }) => at >= from && at < to);
  const opensAt = life && life.from + homeWaitPs;
  return opensAt !== undefined && at < opensAt ? opensAt : undefined;
}

/**
 * Bytes that are reported lost at `at` may have been lost from the first fault on, in home's life;
 * in a later life from when home serves, as the line is persistent by then.
 */
function lossFrom(
  run: RunRecord,
  { record }: Region,
  { at, faultAt }: { readonly at: Time; readonly faultAt: Time },
): Time {
  const { home, answerWithinPs, homeWaitPs } = record;
  const lives = run.lives.get(home) ?? [];
  const life = lives.findLastIndex(({ from }) => from + answerWithinPs < at);
  const opensAt = life > 0 ? lives[life]!.from + homeWaitPs : 0;
  return Math.min(Math.max(faultAt, opensAt), at);
}

function* phasesOf(accesses: readonly Access[]): Steps<ReadonlyMap<number, number>> {
  const all: { readonly at: Instant; readonly isEnd: boolean }[] = [];
  yield* inSteps(accesses, ({ began, ended }) => {
    all.push({ at: began, isEnd: false });
    if (ended !== undefined) all.push({ at: ended.at, isEnd: true });
  });
  all.sort((x, y) => x.at.order - y.at.order);
  const phases = new Map<number, number>();
  const last = new Map<string, { readonly time: Time; readonly phase: number }>();
  yield* inSteps(all, ({ at: { time, node, order }, isEnd }) => {
    const before = last.get(node);
    const known = before?.time === time ? before.phase : 0;
    const phase = isEnd ? Math.floor(known) + 0.5 : Math.ceil(known);
    phases.set(order, phase);
    last.set(node, { time, phase });
  });
  return phases;
}

function lineOf(offset: number): number {
  return Math.floor(offset / LINE_BYTES);
}

/**
 * By line, with a flag if surely done by its end. An access that has no effect and saw nothing is
 * left out.
 */
function* piecesOf(
  access: Access,
  seenAt: SeenBytes,
): Generator<readonly [line: number, op: LineOp, isSure: boolean]> {
  const { name, note: { op, offset, length, bytes, compare }, began, ended } = access;
  const result = ended?.note.result;
  if (op === "flush" || result === "refused" || access.note.forwarded !== undefined) return;
  const seen = result === "done" ? ended?.note.bytes : undefined;
  const first = lineOf(offset), last = lineOf(offset + length - 1);
  // Of several lines, the answer does not say which one is lost, nor which stores were done.
  const isLost = result === "lost" && first === last;
  const isSure = result === "done" || isLost;
  if (op === "load" && !isSure) return;
  if (op === "store" && !isSure && !isEverSeen(access, seenAt)) return;
  for (let line = first; line <= last; line++) {
    const begin = Math.max(offset, line * LINE_BYTES);
    const end = Math.min(offset + length, (line + 1) * LINE_BYTES);
    const part = (whole: Uint8Array | undefined) => whole?.subarray(begin - offset, end - offset);
    const own: LineOp = {
      name,
      op,
      from: begin - line * LINE_BYTES,
      length: end - begin,
      bytes: part(bytes),
      compare,
      seen: part(seen),
      at: nodeTime(ended?.at ?? began),
      ...(isLost && { isLost }),
    };
    yield [line, own, isSure];
  }
}

type SeenBytes = ReadonlyMap<number, Time>;

function seenKey(offset: number, byte: number): number {
  return 256 * offset + byte;
}

/** Empty where all stores are done, as it is not needed then. */
function* seenBytes(accesses: readonly Access[]): Steps<SeenBytes> {
  const seenAt = new Map<number, Time>();
  const isOpen = ({ note: { op }, ended }: Access) => {
    return op === "store" && ended?.note.result !== "done" && ended?.note.result !== "refused";
  };
  if (!accesses.some(isOpen)) return seenAt;
  yield* inSteps(accesses, ({ note: { offset, forwarded }, ended }) => {
    if (forwarded !== undefined) return;
    for (const [i, byte] of (ended?.note.bytes ?? new Uint8Array(0)).entries()) {
      const key = seenKey(offset + i, byte);
      seenAt.set(key, Math.max(seenAt.get(key) ?? 0, ended!.at.time));
    }
  });
  return seenAt;
}

/** A store that may not have been done matters only if its bytes are seen. */
function isEverSeen({ note: { offset, bytes }, began }: Access, seenAt: SeenBytes): boolean {
  return bytes?.some((byte, i) => (seenAt.get(seenKey(offset + i, byte)) ?? -1) >= began.time) ===
    true;
}
