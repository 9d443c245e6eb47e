/**
 * Explores a rack of native programs: one live run, and its recovery program once on each distinct content of SCM that
 * a power failure at any instant leaves. `images.ts` has the contents, `promises.ts` what must be found in them.
 */
import { formatTime } from "../../../fabric/base/time.ts";
import { assert } from "../../../fabric/base/assert.ts";
import type { NativeSetUp } from "../../../fabric/rack/assembly/run_file.ts";
import { nativeIn, type RackPlan } from "../../../fabric/rack/plan/plan.ts";
import { refusal } from "../../../fabric/rack/plan/problem.ts";
import { countOf } from "../../checks/finding.ts";
import { DEVICE_WRITES } from "../../../nodes/files.ts";
import { NATIVE_RIGHTS } from "../../rack/device_rights.ts";
import { stoppable } from "../../rack/own/confined.ts";
import type {
  Batch,
  Found,
  NativeJob,
  NativeRequest,
  RecoveredOnce,
} from "../../rack/own/native_explore_main.ts";
import { WorkerPool } from "../../rack/own/worker_pool.ts";
import type { Prepared } from "../../rack/prepare.ts";
import { type ExploreMemory, nameOfRack } from "../steps/memory.ts";
import { whyNotAgain } from "../steps/verdict.ts";
import { coveredText } from "../covering/coverage.ts";
import {
  EXPLORE_DEFAULTS,
  type ExploreOptions,
  type ExploreProgress,
  type Verdict,
} from "../types.ts";
import type { Repeated } from "./confirm.ts";
import type { CrashImage, Image, NativeOpening } from "./images.ts";
import { type Breach, breachOf } from "./promises.ts";
import { type Recovered, recoveriesIn } from "./recovery.ts";
import { type SharedBreach, SharedPromises } from "./shared_promises.ts";

/** [choice] Each is a process of some 50 ms; `--choices` asks for more. */
const NATIVE_CHOICES = 256;

const NOTHING_PROMISED =
  'nothing was promised: a native program promises by a line "promised WHAT", which recovery finds by "found WHAT"';

/** [choice] Contents that second power failures leave, on which recoveries run without `--cuts 2`. */
const AGAIN_MOST = 500;

/** Real time after which a recovery is ended: the library ends one that makes no call before. */
const RECOVERY_MS = 60_000;
const BATCH = 64;

/** @throws Refusal where the rack has nothing to recover, or programs that are not native. */
export function checkNative({ plan }: Pick<Prepared, "plan">): void {
  const [first] = nativeIn(plan);
  if (first === undefined) return;
  const at = `${first.program.run} on ${first.host}`;
  for (const node of plan.nodes) {
    if (node.kind !== "host") continue;
    const other = node.config.programs.find(({ native, serves }) =>
      native === undefined && serves !== true
    );
    if (other === undefined) continue;
    const found = `Program ${other.run} on ${node.name} beside native ones (${at})`;
    throw refusal("", { found, expected: "native programs alone, as others are run again" });
  }
  if (recoveriesIn(plan).size > 0) return;
  const expected =
    "recover: [./my_recovery] beside the command of a native program, which explore runs on what a power failure leaves";
  throw refusal("", {
    found: `Program ${at} is a native one, and no host has a recovery`,
    expected,
  });
}

/** What runs besides the programs, for people. */
export function recoveriesText({ plan }: Pick<Prepared, "plan">): string {
  const which = [...recoveriesIn(plan)].map(([host, { run }]) => `${run} of ${host}`);
  return `recoveries, likewise: ${which.join(", ")}`;
}

export interface ExploreNative {
  readonly prepared: Pick<Prepared, "plan"> & { readonly native: NativeSetUp };
  /** Of a run: the programs' folders are in it. */
  readonly directory: string;
  readonly options: ExploreOptions;
  /** Recoveries at a time. */
  readonly jobs: number;
  /** Has what recoveries of an exploration that was ended came to; the run is run again. */
  readonly memory?: ExploreMemory;
  readonly onProgress: (progress: ExploreProgress) => void;
}

/** @throws RackError where a process ends. */
export async function exploreNative(asked: ExploreNative): Promise<Verdict> {
  const exploring = new NativeExploring(asked);
  try {
    return await exploring.verdict();
  } finally {
    await exploring.end();
  }
}

/** A content whose recovery is under way, or has an outcome. */
interface Awaited {
  readonly found: Found;
  readonly recovered: Promise<RecoveredOnce>;
}

interface Violated {
  readonly found: Found;
  readonly breach: Breach | SharedBreach;
  readonly recovered: Recovered;
  /** Changes that a first recovery had made when the power failed again. */
  readonly again?: number;
}

/** Why not all was judged, and what was found; without both all holds. */
interface Judged {
  readonly stop?: string;
  readonly violated?: Violated;
}

class NativeExploring {
  readonly #asked: ExploreNative;
  readonly #job: NativeJob;
  readonly #pool: WorkerPool;
  readonly #began = performance.now();
  readonly #images = new Map<
    string,
    { readonly image: Image; readonly recovered: Promise<RecoveredOnce> }
  >();
  /** Free lanes of recoveries; lane 0 has the run. */
  readonly #free: number[];
  readonly #waiting: ((lane: number) => void)[] = [];
  #crashPoints = 0;
  /** Of the contents whose outcome was judged: these, and the spans that they are of. */
  readonly #judged = new Set<string>();
  #instants = 0;
  #recoveries = 0;
  /** Contents on which recoveries have written, and those of them whose recovery was cut again throughout. */
  readonly #writing = new Set<string>();
  readonly #cutAgain = new Set<string>();
  readonly #again = new Set<string>();
  /** The name of the rack and of its binaries in the memory. */
  #rack: Promise<string> | undefined;
  #batch: Batch | undefined;
  #shared: SharedPromises | undefined;
  #isOver = false;

  constructor(asked: ExploreNative) {
    const { prepared: { plan, native }, directory, options, jobs } = asked;
    const { stopped: _, ...told } = options;
    const choices = told.choices === EXPLORE_DEFAULTS.choices ? NATIVE_CHOICES : told.choices;
    this.#asked = asked;
    this.#job = { plan, native, directory, options: { ...told, choices } };
    this.#free = Array.from({ length: jobs }, (_, i) => 1 + i);
    this.#pool = new WorkerPool(recoverers(plan, directory));
  }

  async end(): Promise<void> {
    // Recoveries that are under way when the verdict is known end with their processes, and no other begins.
    this.#isOver = true;
    await this.#pool.end();
  }

  async #ask<Answer>(request: NativeRequest, lane = 0): Promise<Answer> {
    return await this.#pool.ask<Answer>(lane, request);
  }

  async verdict(): Promise<Verdict> {
    const { options: { stopped } } = this.#asked;
    const programs = nativeIn(this.#job.plan).map(({ program }) => program.run);
    const opening = await stoppable(this.#ask<NativeOpening>({ open: this.#job }), {
      ...{ stopped, programs },
      workers: () => this.#pool.workers,
    });
    if (opening.failure !== null) {
      return this.#document(opening, { verdict: "failed", why: opening.failure });
    }
    this.#shared = new SharedPromises(opening.shared, recoveriesIn(this.#job.plan).size);
    const { stop, violated } = await this.#judge(opening);
    if (violated !== undefined) return await this.#unsafe(opening, violated);
    const why = stop ?? this.#whyUnsure(opening);
    if (why !== undefined) return this.#document(opening, { verdict: "partial", why });
    const isNothing = promisesOf(opening) === 0;
    return this.#document(
      opening,
      isNothing ? { verdict: "unchecked", why: NOTHING_PROMISED } : { verdict: "safe" },
    );
  }

  /** Takes outcomes in the order of the images, while later ones are under way. */
  async #judge(opening: NativeOpening): Promise<Judged> {
    const due: Awaited[] = [];
    for (;;) {
      while (due.length < BATCH && this.#batch?.isLast !== true) {
        this.#batch = await this.#ask<Batch>({ images: BATCH });
        for (const found of this.#batch.found) due.push({ found, recovered: this.#recover(found) });
      }
      const next = due.shift();
      if (next === undefined) return {};
      const stop = this.#whyStop();
      if (stop !== undefined) return { stop };
      const { found } = next, recovered = await this.#unlessStopped(next.recovered);
      if (recovered === undefined) return { stop: this.#whyStop()! };
      this.#crashPoints++;
      this.#judged.add(found.key);
      this.#instants = Math.max(this.#instants, found.instants);
      const share = Math.min(1, found.instants / opening.spans);
      this.#asked.onProgress({ share, crashPoints: this.#crashPoints });
      if (recovered.notRun !== null) {
        return { stop: `a recovery could not be run: ${recovered.notRun}` };
      }
      const breach = this.#breachIn(opening, found, recovered);
      if (breach !== undefined) return { violated: { found, breach, recovered } };
      const again = await this.#judgeAgain(opening, found, recovered);
      if (again !== undefined) return again;
    }
  }

  /** Recovers from each power failure during a recovery, too. */
  async #judgeAgain(
    opening: NativeOpening,
    found: Found,
    { again, hasWritten, isWhole }: RecoveredOnce,
  ): Promise<Judged | undefined> {
    if (!hasWritten) return undefined;
    const { cuts } = this.#asked.options, { host } = found;
    this.#writing.add(found.key);
    let isEach = isWhole;
    const tried = again.flatMap(({ key, image, done }) => {
      const isNew = !this.#again.has(key);
      if (isNew && cuts === undefined && this.#again.size >= AGAIN_MOST) isEach = false;
      else this.#again.add(key);
      return this.#again.has(key)
        ? [{ key, done, recovered: this.#recover({ key, host, image }) }]
        : [];
    });
    for (const { key, done, recovered: under } of tried) {
      const recovered = await this.#unlessStopped(under);
      if (recovered === undefined) return { stop: this.#whyStop()! };
      this.#judged.add(key);
      if (recovered.notRun !== null) isEach = false;
      const breach = this.#breachIn(opening, found, recovered);
      if (breach !== undefined) return { violated: { found, breach, recovered, again: done } };
    }
    if (isEach) this.#cutAgain.add(found.key);
    return undefined;
  }

  #breachIn(
    opening: NativeOpening,
    found: Found,
    recovered: Recovered,
  ): Violated["breach"] | undefined {
    const { lines } = recovered;
    return breachIn(opening, found, recovered) ?? this.#shared!.add({ ...found, lines });
  }

  /** Undefined where the exploration is stopped before. */
  async #unlessStopped(recovered: Promise<RecoveredOnce>): Promise<RecoveredOnce | undefined> {
    const over = Promise.withResolvers<undefined>();
    const timer = setInterval(() => this.#whyStop() !== undefined && over.resolve(undefined), 50);
    try {
      return await Promise.race([recovered, over.promise]);
    } finally {
      clearInterval(timer);
    }
  }

  #whyStop(): string | undefined {
    const { limit = Infinity, forMs = Infinity, stopped } = this.#asked.options;
    const size = `after ${countOf(this.#crashPoints, "crash point")}`;
    if (stopped?.() === true) return `it was interrupted ${size}`;
    if (this.#crashPoints >= limit) return `${limit} crash points were asked for`;
    const isOver = performance.now() - this.#began >= forMs;
    return isOver ? `its time of ${forMs / 1_000} s is over ${size}` : undefined;
  }

  #recover({ key, host, image }: Pick<Found, "key" | "host" | "image">): Promise<RecoveredOnce> {
    const known = this.#images.get(key);
    if (known !== undefined) return known.recovered;
    assert(image !== null, "An image came without its bytes");
    const recovered = this.#rememberedRecovery(key, { host, image });
    recovered.catch(() => {});
    this.#images.set(key, { image, recovered });
    return recovered;
  }

  get #isCutAgain(): boolean {
    return this.#asked.options.cuts !== 1;
  }

  async #rememberedRecovery(
    key: string,
    { host, image }: Pick<CrashImage, "host" | "image">,
  ): Promise<RecoveredOnce> {
    const { memory } = this.#asked;
    if (memory === undefined) return await this.#runRecovery(host, image);
    const { plan, native: { binaries }, options } = this.#job;
    const rack = await (this.#rack ??= nameOfRack({ plan, binaries, options }));
    const name = `${rack} recovery ${key}`;
    const known = memory.recall<KeptRecovery>(name);
    if (known !== undefined) return recoveredIn(known);
    const recovered = await this.#runRecovery(host, image);
    if (!isOfThisMachine(recovered)) memory.keep(name, keptOf(recovered));
    return recovered;
  }

  async #runRecovery(host: string, image: Image): Promise<RecoveredOnce> {
    const lane = this.#free.pop() ??
      await new Promise<number>((resolve) => this.#waiting.push(resolve));
    if (this.#isOver) throw new Error("The verdict is known");
    const number = ++this.#recoveries;
    try {
      const recover = { ...this.#job, host, image, number, isCutAgain: this.#isCutAgain };
      return await inTime((signal) => this.#pool.ask<RecoveredOnce>(lane, { recover }, { signal }));
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free.push(lane);
      else next(lane);
    }
  }

  get #cutsAgain(): Verdict["again"] {
    return {
      recoveries: this.#writing.size,
      cut: this.#cutAgain.size,
      ways: this.#again.size,
    };
  }

  #whyUnsure({ hosts, shared, isCutOff, endPs }: NativeOpening): string | undefined {
    const { bounded, covered } = this.#batch!, instants = this.#instants;
    if (isCutOff) return "the scenario's `until` ends the run before it is over";
    if (hosts.length === 0) return "no host with a recovery was to lose its power";
    if (instants === 0) {
      return `there was no instant to cut at: the run ends at ${formatTime(endPs)}`;
    }
    const reasons = [
      ...(shared.length > 0 && hosts.length < recoveriesIn(this.#job.plan).size
        ? ["what several hosts promise together needs the power failures of all (--cut)"]
        : []),
      ...(bounded > 0
        ? [`not every choice was tried (--choices), but ${covered.map(coveredText).join("; ")}`]
        : []),
      ...(this.#cutAgain.size < this.#writing.size
        ? [whyNotAgain(this.#cutsAgain, this.#asked.options.cuts === 1)]
        : []),
    ];
    return reasons.length === 0 ? undefined : reasons.join("; ");
  }

  async #unsafe(
    opening: NativeOpening,
    { found, breach, recovered, again }: Violated,
  ): Promise<Verdict> {
    const { host, key } = found, { at } = breach;
    const isShared = "writebacks" in breach, { writebacks } = isShared ? breach : found;
    const hosts = isShared || this.#asked.options.cut === "all"
      ? this.#job.plan.nodes.flatMap(({ kind, name }) => kind === "host" ? [name] : [])
      : [host];
    const { image } = this.#images.get(key)!;
    const { differsAt, ...repeated } = await this.#ask<Repeated>({
      repeat: { hosts, host, at, image, writebacks },
    });
    const doubt = differsAt === null
      ? ""
      : `; a second run, with this power failure, has left other bytes at 0x${
        differsAt.toString(16)
      }: the programs do not do the same in each run`;
    const before = { hosts, atPs: at, writebacks, isReplayable: false, places: [] };
    const promised = breach.promised.map(({ by, node, what, time }) =>
      `"${what}" by ${by} of ${node} at ${time} ps, ` +
      (time < at
        ? `${formatTime(at - time)} before the power failure`
        : `${formatTime(time - at)} after it, by what ${host} had sent before`)
    );
    return this.#document(opening, { verdict: "unsafe" }, {
      ...{ ...before, ...repeated, promised },
      checker: "recovery",
      found: `${breach.found}${doubt}`,
      ...(again !== undefined && { again }),
      printed: recovered.lines,
    });
  }

  #document(
    opening: NativeOpening,
    { verdict, why }: Pick<Verdict, "verdict" | "why">,
    counterexample: Verdict["counterexample"] = null,
  ): Verdict {
    const { bounded = 0, covered = [] } = this.#batch ?? {}, instants = this.#instants;
    const { hosts, steps } = opening, { flushes = {} } = this.#job.native;
    const { from, until } = this.#asked.options;
    const isWindow = from !== undefined || until !== undefined;
    const wallMs = performance.now() - this.#began;
    return {
      verdict,
      ...(why !== undefined && { why }),
      ...{ hosts, instants, crashPoints: this.#crashPoints, continuations: 1, paths: 0 },
      ...{ bounded, covered, again: this.#cutsAgain },
      exhaustive: verdict === "safe" && bounded === 0 && !isWindow,
      judgedBy: promisesOf(opening) === 0 ? [] : ["recovery"],
      ...{ writes: 0, promises: promisesOf(opening) },
      native: {
        images: this.#judged.size,
        steps,
        flushes: Object.values(flushes).reduce((sum, count) => sum + count, 0),
      },
      wallMs,
      perSecond: Math.round(1_000 * this.#crashPoints / wallMs),
      counterexample,
    };
  }
}

/** The processes in which recoveries run. @param directory of a run: the programs' folders are in it. */
export function recoverers(plan: RackPlan, directory: string) {
  return {
    module: "console/rack/own/native_explore_main.ts",
    programs: nativeIn(plan).map(({ program }) => program.run),
    reads: "all" as const,
    writes: [...DEVICE_WRITES, ...NATIVE_RIGHTS.writes],
    more: NATIVE_RIGHTS.flags,
    directory,
  };
}

const OUT_OF_TIME = `recovery does not end in ${RECOVERY_MS / 1_000} s of real time`;

/** Another time it may come to something else. */
function isOfThisMachine({ wrong, notRun }: RecoveredOnce): boolean {
  return notRun !== null || wrong === OUT_OF_TIME;
}

/** A recovery that does not end in real time is ended by `signal`, and has no good outcome. */
export async function inTime(
  recover: (signal: AbortSignal) => Promise<RecoveredOnce>,
): Promise<RecoveredOnce> {
  const signal = AbortSignal.timeout(RECOVERY_MS);
  try {
    return await recover(signal);
  } catch (error) {
    if (!signal.aborted) throw error;
    return {
      lines: [],
      wrong: OUT_OF_TIME,
      notRun: null,
      hasWritten: false,
      again: [],
      isWhole: true,
    };
  }
}

function breachIn(
  { requirements }: NativeOpening,
  found: Found,
  { wrong, lines }: Recovered,
): Breach | undefined {
  if (wrong !== null) return { at: found.from, found: wrong, promised: [] };
  return breachOf(lines, requirements[found.host]!, found);
}

function promisesOf({ requirements, shared }: NativeOpening): number {
  return shared.length +
    Math.max(0, ...Object.values(requirements).map(({ promised }) => promised.length));
}

type Again = RecoveredOnce["again"][number];

interface KeptImage extends Omit<Image, "bytes"> {
  /** In base64. */
  readonly bytes: string;
}

/** As an exploration remembers it (`steps/memory.ts`): bytes as text, which JSON can say. */
interface KeptRecovery extends Omit<RecoveredOnce, "again"> {
  readonly again: readonly (Omit<Again, "image"> & { readonly image: KeptImage })[];
}

function keptOf({ again, ...recovered }: RecoveredOnce): KeptRecovery {
  return {
    ...recovered,
    again: again.map(({ image: { offsets, bytes }, ...rest }) => ({
      ...rest,
      image: { offsets, bytes: bytes.toBase64() },
    })),
  };
}

function recoveredIn({ again, ...recovered }: KeptRecovery): RecoveredOnce {
  return {
    ...recovered,
    again: again.map(({ image: { offsets, bytes }, ...rest }) => ({
      ...rest,
      image: { offsets, bytes: Uint8Array.fromBase64(bytes) },
    })),
  };
}
