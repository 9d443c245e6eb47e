/**
 * Whole racks for tests: as real processes over a nats-server of their own, or packed into this
 * process, all below one temporary directory. A test may do something to a rack midway through a
 * transfer; that it was midway is seen to here, as a test of a run that was over proves nothing.
 * `RACKMESH_KEEP_RUNS=1` keeps the directory (see `leavings.ts`).
 */
import { BusError } from "../../fabric/bus/bus.ts";
import assert from "node:assert/strict";
import { type NatsServer, startNatsServer } from "../../console/rack/nats_server.ts";
import type { Supervisor, SupervisorEvent } from "../../console/rack/supervisor.ts";
import type { ObservationScope } from "../../fabric/capture/observation.ts";
import type { Packing } from "../../fabric/rack/assembly/topology.ts";
import type { FaultPlan } from "../../fabric/rack/plan/plan.ts";
import type { RecordedFault } from "../../fabric/clock/record.ts";
import { prepare, type Prepared, type PrepareOptions } from "../../console/rack/prepare.ts";
import { rowsOf } from "../../console/reports/method_report.ts";
import { type Outcome, runProcesses, runSimulated } from "../../console/rack/run_variant.ts";
import { isPutResult, type PutResult } from "../../console/checks/survival.ts";
import { removeUnlessKept } from "./leavings.ts";
import { assertSound } from "./sound.ts";
import type { MethodRow } from "../../console/reports/method_row.ts";
import { ROOT } from "../../console/base/paths.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";

/** What is done to a rack when `put` has written `share` of its messages. */
export interface Midway {
  readonly share: number;
  readonly act: (rack: Supervisor, at: RunPlace) => Promise<void> | void;
}

/** Where a run keeps its files, and its name on the bus. */
export interface RunPlace {
  readonly directory: string;
  readonly run: string;
}

/** What to run, and how. */
export interface RunOf extends Omit<PrepareOptions, "packing" | "input"> {
  /** Folders below which it may read, besides its own. */
  readonly allowRead?: readonly string[];
  /** Text of a scenario file, or the path of one that is shipped. */
  readonly scenario: string | URL;
  /** Bytes of the file that `put` writes; its content follows from this number. */
  readonly inputBytes?: number;
  readonly packing?: Packing;
  readonly delayMsMax?: number;
  /** What is recorded for captures. */
  readonly observe?: ObservationScope;
  readonly midway?: Midway;
  /** Why this run is not held to the rack's promises (see {@link assertSound}): it breaks one. */
  readonly unsound?: string;
  /** A stranger speaks on this run's bus. */
  readonly isForged?: true;
  /** See `RunOptions`. */
  readonly mayLackFinal?: (partition: string) => boolean;
  /** Called when the processes have been started. */
  readonly onStart?: (rack: Supervisor, prepared: Prepared) => Promise<void> | void;
}

/** A run that has ended. */
export interface Ran {
  readonly prepared: Prepared;
  readonly outcome: Outcome;
  /** Births and deaths of processes, and the end, in order. Empty where all was one process. */
  readonly events: readonly SupervisorEvent[];
  readonly puts: readonly PutResult[];
  readonly rows: readonly MethodRow[];
  /** Content of the input. */
  readonly file: Uint8Array<ArrayBuffer>;
}

/** How often a rack is run that was over too soon. */
const ATTEMPTS = 6;

/** Bytes of which none is 0, so that what was never written shows. */
export function contentOf(bytes: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length: bytes }, (_, i) => (i * 197 + (i >> 8) * 31 + 7) % 251 + 1);
}

/** A directory and a nats-server, for any number of runs one after the other. */
export class RackBench {
  readonly directory: string;
  readonly server: NatsServer;
  #runs = 0;

  private constructor(directory: string, server: NatsServer) {
    this.directory = directory;
    this.server = server;
  }

  static async open(): Promise<RackBench> {
    const directory = await Deno.makeTempDir({ prefix: "rackmesh-rack-" });
    return new RackBench(directory, await startNatsServer({ dir: directory }));
  }

  async close(): Promise<void> {
    await this.server.stop();
    await removeUnlessKept(this.directory);
  }

  /** A file of that size, always the same one: its path. */
  async input(bytes: number): Promise<string> {
    const folder = `${this.directory}/input-${bytes}`;
    await Deno.mkdir(folder, { recursive: true });
    await Deno.writeFile(`${folder}/data.bin`, contentOf(bytes));
    return `${folder}/data.bin`;
  }

  /** The one rack that a scenario and these choices stand for. */
  async prepare(run: RunOf): Promise<Prepared> {
    // Programs of tests lie in this tree.
    const { scenario, inputBytes, allowRead = [ROOT], packing = "node", ...choices } = run;
    let path = `${this.directory}/scenario.yaml`;
    if (typeof scenario === "string") await Deno.writeTextFile(path, scenario);
    else path = scenario.pathname;
    const input = inputBytes === undefined ? {} : { input: await this.input(inputBytes) };
    const prepared = await prepare(await readScenario(path, { allowRead }), {
      ...choices,
      ...input,
      packing,
    });
    assert.equal(prepared.length, 1, "Name method and ddio: a test runs one rack at a time");
    return prepared[0]!;
  }

  /**
   * Runs to the end. Rejects where the rack does. Where the rack was over before `midway` was, it is
   * run again, slower: how fast this machine is decides that, and nothing of the rack.
   */
  async run(run: RunOf): Promise<Ran> {
    for (let attempt = 1, delayMsMax = run.delayMsMax ?? 0;; attempt++) {
      const ran = await this.#runOnce({ ...run, delayMsMax });
      if (ran !== undefined) return ran;
      assert.ok(attempt < ATTEMPTS, "What was to happen midway did not, or came too late");
      delayMsMax = Math.max(2, 3 * delayMsMax);
    }
  }

  /** @returns undefined where `midway` was not midway. */
  async #runOnce(run: RunOf): Promise<Ran | undefined> {
    const prepared = await this.prepare(run);
    const name = `run-${this.#runs++}`;
    const options = {
      run: `${this.directory.split("-").at(-1)}-${name}`,
      directory: `${this.directory}/${name}`,
      trace: false,
      delayMsMax: run.delayMsMax ?? 0,
      check: "wire" as const,
      ...(run.observe && { observe: run.observe }),
    };
    const events: SupervisorEvent[] = [];
    if (run.packing === "all") {
      return await this.#ended(run, {
        prepared,
        events,
        outcome: await runSimulated(prepared, options),
      });
    }
    const middle = new Middle(options, run.midway);
    // What a test does to a rack fails at once, not when the rack ends: it may stand until it is told to go on.
    const failed = new AbortController();
    const fails = (error: unknown) => failed.abort(error);
    middle.failed.catch(fails);
    let started: Promise<void> = Promise.resolve();
    const outcome = await runProcesses(prepared, {
      ...options,
      broker: this.server,
      signal: failed.signal,
      ...(run.mayLackFinal && { mayLackFinal: run.mayLackFinal }),
      onEvent: (event) => {
        if (event.kind === "finished") middle.finished();
        events.push(event);
      },
      onProgress: (_node, topic, value) => {
        if (topic === "progress") middle.progress(value as Progress);
      },
      onStart: (rack) => {
        middle.rack = rack;
        started = Promise.try(() => run.onStart?.(rack, prepared));
        started.catch(fails);
      },
    });
    await started;
    if (!await middle.wasMidway()) return undefined;
    return await this.#ended(run, { prepared, events, outcome });
  }

  async #ended(
    run: RunOf,
    ran: Pick<Ran, "prepared" | "events" | "outcome">,
  ): Promise<Ran> {
    const { prepared, outcome } = ran;
    // Whatever is killed, lost or repeated: no process of a rack says what another refuses.
    if (run.isForged !== true) assert.deepEqual(outcome.refused, []);
    if (run.unsound === undefined && outcome.record !== undefined) assertSound(outcome.record);
    const puts = outcome.finals.flatMap(({ reports }) =>
      reports.filter(({ topic }) => topic === "result").map(({ value }) => value)
    ).filter(isPutResult);
    return {
      ...ran,
      puts,
      rows: await rowsOf(prepared, outcome),
      file: contentOf(run.inputBytes ?? 0),
    };
  }
}

interface Progress {
  readonly messages: number;
  readonly written: number;
}

/** Does a thing once, midway, and knows whether it was over before the run was. */
class Middle {
  rack: Supervisor | undefined;
  readonly #failed = Promise.withResolvers<never>();
  readonly #place: RunPlace;
  readonly #midway: Midway | undefined;
  #acting: Promise<void> | undefined;
  #acted = false;
  #actedBeforeEnd = false;
  #isOver = false;
  #failedAfterEnd = false;

  constructor(place: RunPlace, midway: Midway | undefined) {
    this.#place = place;
    this.#midway = midway;
  }

  /** Rejects as soon as what is done midway does, while the rack is there. */
  get failed(): Promise<never> {
    return this.#failed.promise;
  }

  progress({ written, messages }: Progress): void {
    const { rack } = this;
    const midway = this.#midway;
    if (midway === undefined || rack === undefined || this.#acting !== undefined) return;
    if (written < midway.share * messages || written >= messages) return;
    this.#acting = Promise.try(() => midway.act(rack, this.#place)).then(() => {
      this.#acted = true;
    });
    this.#acting.catch((error) => {
      this.#failedAfterEnd = this.#isOver && error instanceof BusError;
      if (!this.#failedAfterEnd) this.#failed.reject(error);
    });
  }

  finished(): void {
    this.#isOver = true;
    this.#actedBeforeEnd = this.#acted;
  }

  async wasMidway(): Promise<boolean> {
    if (this.#midway === undefined) return true;
    await this.#acting?.catch((error) => {
      // The rack went down under it: it came too late.
      if (!this.#failedAfterEnd) throw error;
    });
    return this.#actedBeforeEnd;
  }
}

/** What is in the SCM file of the host that `put` wrote to, at the object's place. */
export async function survivorOf(ran: Ran, put: PutResult): Promise<Uint8Array<ArrayBuffer>> {
  return await readObject(`${ran.outcome.directory}/scm/${put.to}.scm`, put.object);
}

/** Bytes of an object out of an SCM file. */
export async function readObject(
  path: string,
  object: PutResult["object"],
): Promise<Uint8Array<ArrayBuffer>> {
  const scm = await Deno.readFile(path);
  return scm.slice(object.scmOffset, object.scmOffset + object.length);
}

/** The power failures and returns of a run as they happened: to replay it, with a line's node each. */
export async function recordedFaults(ran: Ran): Promise<FaultPlan[]> {
  const records = await readRecord(ran.outcome.directory);
  return records.flatMap(({ at, action, nodes }) => nodes.map((node) => ({ at, action, node })));
}

/** What the timekeeper has written down so far in a run's directory. */
export async function readRecord(directory: string): Promise<RecordedFault[]> {
  try {
    const text = await Deno.readTextFile(`${directory}/faults.jsonl`);
    return text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** `kill -9` by somebody who knows nothing of the rack but the process. */
export function killFromOutside(rack: Supervisor, process: string): void {
  const row = rack.processes().find(({ name }) => name === process);
  assert.ok(row?.pid, `${process} has a process`);
  Deno.kill(row.pid, "SIGKILL");
}

/** Names of processes that died or were started, in order, without those of the start and the end. */
export function lifeLine({ events, prepared }: Ran): string[] {
  const atStart = prepared.partitions.length + 1;
  return events.slice(atStart).flatMap((event) =>
    event.kind === "started" || event.kind === "died" ? [`${event.name} ${event.kind}`] : []
  );
}
