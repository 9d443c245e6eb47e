/**
 * One live run of native programs, and every content of SCM that a power failure may leave in it. A native program is
 * not run again for each failure: what hosts that go on would do later is not looked at, except what they promise in
 * the run by what the failed host has sent (`promises.ts`).
 */
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { cardsKeepWrites } from "../../../fabric/rack/plan/persistence_domain.ts";
import type { WritebackPlan } from "../../../fabric/rack/plan/plan.ts";
import type { ImageView } from "../../checks/run_record.ts";
import { type CrashedHost, crashedHostOf, holdJournal } from "../crashed_host.ts";
import { Cells, type Picker, viewOf } from "../choices.ts";
import { CoverageCount, type Covered } from "../covering/coverage.ts";
import { forEachPath, stepsThroughPaths, type Trail } from "../covering/paths.ts";
import { failureIn } from "../failures.ts";
import { CrashCursor, type Entry, type HistoryLog, Pages, type Readable } from "../history.ts";
import { instantsWithin } from "../protocol_judge.ts";
import { heldEdges } from "../instants.ts";
import { type Interruption, interruptions, writebacksOf } from "../interrupted.ts";
import { type Victim, victimOf } from "../post_crash_run.ts";
import { type RackRun, runRack } from "../rerun.ts";
import type { ExploredRack, ExploreOptions } from "../types.ts";
import { type Requirements, requirementsOf, sharedIn, type SharedPromise } from "./promises.ts";
import { recoveriesIn } from "./recovery.ts";
import { whyNotJudged } from "./shared_promises.ts";

const PAGE_BYTES = 4096;

/** Pages of SCM, by their offsets; other bytes are zeros. Plain data. */
export interface Image {
  readonly offsets: readonly number[];
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** A content of a host's SCM that power failures at [from, until) leave. Plain data. */
export interface CrashImage {
  readonly host: string;
  readonly from: Time;
  readonly until: Time;
  /** In the middle of `from`, which is the only instant then. */
  readonly isAmid: boolean;
  readonly image: Image;
  readonly writebacks: readonly WritebackPlan[];
}

export interface NativeOpening {
  readonly hosts: readonly string[];
  /** By host. */
  readonly requirements: Readonly<Record<string, Requirements>>;
  /** Of several hosts together. */
  readonly shared: readonly SharedPromise[];
  readonly failure: string | null;
  readonly isCutOff: boolean;
  readonly endPs: Time;
  /** Of all hosts that recover. */
  readonly spans: number;
  /** Times that a program has stored into several cache lines at once. */
  readonly steps: number;
}

export interface NativeExploration {
  readonly rack: ExploredRack;
  readonly options: ExploreOptions;
  readonly recording: RackRun;
  readonly victims: readonly Victim[];
  readonly opening: NativeOpening;
}

/** Runs the rack. */
export function openNative(rack: ExploredRack, options: ExploreOptions): NativeExploration {
  const recording = runRack(rack, { histories: true });
  const { cut } = options;
  const recovering = [...recoveriesIn(rack.plan).keys()];
  const hosts = recovering.filter((host) =>
    typeof cut === "object" ? host === cut.host : cut !== "none"
  );
  const victims = hosts.map((host) => victimOf(rack.plan, host));
  const requirements = Object.fromEntries(
    victims.map((victim) => [victim.host, requirementsOf(recording, victim, cut !== "all")]),
  );
  const shared = sharedIn(recording);
  const opening = {
    ...{ hosts, requirements, steps: stepsIn(recording) },
    shared,
    failure: failureIn(rack, recording, options)?.found ??
      whyNotJudged(recording, recovering.length) ?? null,
    isCutOff: recording.isCutOff,
    endPs: recording.endPs,
    spans: victims.reduce((sum, victim) => sum + spansOf(recording, victim, options).length, 0),
  };
  return { rack, options, recording, victims, opening };
}

/** A core's stores of one instant are what a program has stored between two calls. */
export function stepsIn({ histories }: Pick<RackRun, "histories">): number {
  let count = 0;
  for (const { entries } of histories.values()) {
    let at = -1, line = -1, isCounted = false;
    for (const entry of entries) {
      if (entry.kind !== "dirty" || entry.words === 0) continue;
      if (entry.at !== at) [at, line, isCounted] = [entry.at, entry.line, false];
      if (entry.line === line || isCounted) continue;
      isCounted = true;
      count++;
    }
  }
  return count;
}

interface Span {
  readonly from: Time;
  readonly until: Time;
}

/** Spans in which a power failure of the host leaves the same. */
function spansOf(recording: RackRun, victim: Victim, options: ExploreOptions): readonly Span[] {
  const { from = 1, until = Infinity } = options;
  const edges = new Set<Time>([1, from]);
  for (const { at } of recording.histories.get(victim.host)?.entries ?? []) edges.add(at + 1);
  for (const at of heldEdges(recording, victim)) edges.add(at);
  const lives = recording.lives.get(victim.host) ?? [];
  for (const life of lives) edges.add(life.from + 1);
  const sorted = [...edges].filter((at) => at >= 1).sort((x, y) => x - y);
  return sorted.flatMap((at, i) => {
    const life = lives.find((each) => at > each.from && at <= each.to);
    if (life === undefined || at < from || at >= until) return [];
    // The end of the run stands for all that comes later.
    const end = Math.min(sorted[i + 1] ?? Infinity, life.to + 1, until);
    return [{ from: at, until: end }];
  });
}

export class ImageCount {
  instants = 0;
  bounded = 0;
  readonly #covered = new CoverageCount();

  get covered(): readonly Covered[] {
    return this.#covered.all();
  }

  add(coverage: Parameters<CoverageCount["add"]>[0]): void {
    this.bounded++;
    this.#covered.add(coverage);
  }
}

/** All contents, host by host, in the order of time. */
export function* imagesOf(
  { recording, victims, options }: NativeExploration,
  count: ImageCount,
): Generator<CrashImage> {
  for (const victim of victims) {
    const crashed = crashedHostOf(recording, victim);
    const pages = pagesOf(recording, victim);
    const ways = (span: Span, interruption?: Interruption) =>
      waysOf({ crashed, pages, options, count }, span, interruption);
    for (const span of spansOf(recording, victim, options)) {
      const { cursor, cells } = crashed;
      const matters = (_: unknown, at: Time) => {
        if (at < (options.from ?? 0)) return false;
        holdJournal(crashed, recording, at);
        return true;
      };
      const until = span.from, { tear } = options;
      for (const interruption of interruptions(cursor, cells, { until, tear, matters })) {
        const { at } = interruption;
        yield* ways({ from: at, until: at + 1 }, interruption);
      }
      cursor.moveTo(span.from);
      holdJournal(crashed, recording, span.from);
      count.instants++;
      yield* ways(span);
    }
  }
}

function* waysOf(
  { crashed, pages, options, count }: {
    readonly crashed: CrashedHost;
    readonly pages: readonly number[];
    readonly options: ExploreOptions;
    readonly count: ImageCount;
  },
  { from, until }: Span,
  interruption: Interruption | undefined,
): Generator<CrashImage> {
  const { state, victim: { host } } = crashed;
  const early = interruption === undefined
    ? []
    : writebacksOf(interruption, state.image).map((each) => ({ ...each, node: host }));
  const made: CrashImage[] = [];
  const take = (pick: Picker, trail: Trail) => {
    const image = imageIn(viewOf(state, pick), pages);
    const writebacks = [...early, ...writebacksIn(trail, host)].sort((x, y) =>
      x.at - y.at || x.from - y.from
    );
    made.push({ host, from, until, isAmid: interruption !== undefined, image, writebacks });
    return false;
  };
  // deno-lint-ignore require-yield
  const steps = stepsThroughPaths({ most: options.choices }, function* (pick, trail) {
    return take(pick, trail);
  });
  for (;;) {
    const { done, value } = steps.next();
    yield* made.splice(0);
    if (done !== true) continue;
    if (value.coverage !== undefined) count.add([value.coverage]);
    return;
  }
}

function writebacksIn(trail: Trail, node: string): WritebackPlan[] {
  return [...trail].flatMap(([cell, alternative]) =>
    cell.writebacks(alternative).map((each) => ({ ...each, node }))
  );
}

/** All of an SCM that is not zeros. @param size its bytes. */
export function wholeImage(memory: ImageView, size: number): Image {
  const offsets: number[] = [];
  for (let at = 0; at < size; at += PAGE_BYTES) {
    if (memory.touches?.(at, at + PAGE_BYTES) === false) continue;
    if (memory.read(at, at + PAGE_BYTES).some((byte) => byte !== 0)) offsets.push(at);
  }
  return imageIn(memory, offsets);
}

function imageIn(memory: Readable, offsets: readonly number[]): Image {
  const bytes = new Uint8Array(offsets.length * PAGE_BYTES);
  for (const [i, offset] of offsets.entries()) {
    bytes.set(memory.read(offset, offset + PAGE_BYTES), i * PAGE_BYTES);
  }
  return { offsets, bytes };
}

/** Pages of the host's SCM that the run has changed. */
function pagesOf(recording: RackRun, { host, config }: Victim): readonly number[] {
  const held = !cardsKeepWrites(config.domain) ? [] : config.rnics.flatMap((rnic) => {
    const { busWrites = [], lines = [] } = recording.sendings.get(rnic) ?? {};
    return [...busWrites, ...lines];
  });
  return pagesWith(recording.histories.get(host)?.entries ?? [], held);
}

/** Pages that these entries change, or that are there. */
function pagesWith(
  entries: readonly Entry[],
  others: readonly { readonly offset: number; readonly bytes: Uint8Array }[],
): readonly number[] {
  const pages = new Set<number>();
  const add = (from: number, length: number) => {
    for (let at = from - from % PAGE_BYTES; at < from + length; at += PAGE_BYTES) pages.add(at);
  };
  for (const entry of entries) {
    if (entry.kind === "durable") add(entry.offset, entry.bytes.length);
    if (entry.kind === "dirty") add(entry.line, LINE_BYTES);
  }
  for (const { offset, bytes } of others) add(offset, bytes.length);
  return [...pages].sort((x, y) => x - y);
}

/** What a second power failure leaves, when recovery has made so many changes. Plain data. */
export interface AgainImage {
  readonly done: number;
  readonly image: Image;
}

/**
 * Contents that power failures at each instant of a recovery leave.
 * @param image on which it has run. @returns false where there are more than were tried.
 */
export function* imagesAgain(
  image: Image,
  log: HistoryLog,
  { tear, choices: most }: Pick<ExploreOptions, "tear" | "choices">,
): Generator<AgainImage, boolean> {
  if (log.entries.length === 0) return true;
  const memory = new Pages(), cursor = new CrashCursor(log.entries, memory);
  for (const { offset, bytes } of partsOf(image)) memory.write(offset, bytes);
  const pages = pagesWith(log.entries, [...partsOf(image)]), cells = new Cells(cursor);
  let isWhole = true;
  for (const _ of instantsWithin(log, { cursor, cells, tear })) {
    const made: AgainImage[] = [];
    const { coverage } = forEachPath({ most }, (pick) => {
      const left = imageIn(viewOf({ image: cursor.image, cells }, pick), pages);
      made.push({ done: cursor.steps, image: left });
      return false;
    });
    isWhole &&= coverage === undefined;
    yield* made;
  }
  return isWhole;
}

export function* partsOf({ offsets, bytes }: Image) {
  for (const [i, offset] of offsets.entries()) {
    yield { offset, bytes: bytes.subarray(i * PAGE_BYTES, (i + 1) * PAGE_BYTES) };
  }
}
