/**
 * This process's end of `main.ts`. The process that replays loads the user's own programs, so it
 * may read nothing once they are there.
 */
import { fromFileUrl, projectFile } from "../base/paths.ts";
import { RackError } from "../base/rack_error.ts";
import { inTurns } from "../base/turns.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { nativeIn } from "../../fabric/rack/plan/plan.ts";
import { readRecords } from "../../nodes/native_records.ts";
import { flagsOf } from "../rack/own/confined.ts";
import { framed, framesOf } from "../rack/own/frames.ts";
import { faultsIn, type ReplayHead } from "./job.ts";
import type { Arguments, Method, ReplayReply, ReplayRequest, Result } from "./protocol.ts";
import { inParts, noneRead, openSource, type ReplaySource } from "./source.ts";
import type {
  Density,
  DensityQuery,
  EventRow,
  Events,
  EventsQuery,
  FindQuery,
  Loss,
  MemoryMap,
  MemoryMapQuery,
  MemoryQuery,
  MemoryView,
  Operations,
  OperationsQuery,
  Programs,
  ProgramsQuery,
  Snapshot,
  SnapshotQuery,
  Timeline,
  Verdicts,
  VerdictsQuery,
} from "../api/replay.ts";
import type { CableHistory, CaptureOrder } from "../api/cables.ts";
import type { Captured } from "./cable_capture.ts";
import type { LadderDocument } from "../api/operations.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { ReplayProgress } from "./job.ts";
import type { ReplayTarget } from "./source.ts";

export interface ReplayOptions {
  readonly onProgress?: ((progress: ReplayProgress) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
  /** A run as it has been read, with which a replay does not go on; default: it is read. */
  readonly source?: ReplaySource;
}

/**
 * Arrays that are forgotten go back to the machine at once: glibc would keep their memory between
 * those that stay, some hundred megabytes.
 */
const RETURNED_MEMORY = { MALLOC_MMAP_THRESHOLD_: "65536", MALLOC_TRIM_THRESHOLD_: "131072" };

interface Waiting {
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
}

export class Replay {
  readonly #target: ReplayTarget;
  readonly #onProgress: ReplayOptions["onProgress"];
  readonly #child: Deno.ChildProcess;
  /** A file for the process alone, which takes its name away. */
  readonly #spool: string;
  readonly #input: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>;
  readonly #calls = new Map<number, Waiting>();
  #opening: Waiting | undefined;
  #count = 0;
  #head: ReplayHead;
  #read = noneRead();
  readonly #toPresent = inTurns(() => this.#goOn());
  #end: RackError | undefined;
  #isThere = true;

  private constructor(
    target: ReplayTarget,
    head: ReplayHead,
    { onProgress, spool }: ReplayOptions & { readonly spool: string },
  ) {
    this.#spool = spool;
    this.#target = target;
    this.#head = head;
    this.#onProgress = onProgress;
    const { directory } = head.runFile;
    this.#child = new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        ...flagsOf({
          reads: "all",
          writes: [spool.replaceAll(",", ",,")],
          heap: ["--expose-gc"],
        }),
        fromFileUrl(projectFile("console/replay/main.ts")),
        spool,
        // The last word says whose process it is.
        `${directory}/run.json`,
      ],
      cwd: directory,
      env: RETURNED_MEMORY,
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    this.#input = this.#child.stdin.getWriter();
    void this.#listen();
  }

  /**
   * Replays a run to its end, or as far as its rack has come that is up.
   * @throws Refusal for an unknown run, or one that cannot be replayed exactly; RackError where the
   * replay is another run, with the device and the instant and code 1; the signal's reason.
   */
  static async open(target: ReplayTarget, options: ReplayOptions = {}): Promise<Replay> {
    const { signal } = options;
    signal?.throwIfAborted();
    const read = noneRead();
    const source = options.source ?? await openSource(target, read);
    signal?.throwIfAborted();
    const spool = await Deno.makeTempFile({ prefix: "rackmesh-replay-" });
    const replay = new Replay(target, source.head, { ...options, spool });
    replay.#read = read;
    const end = () => void replay.close();
    signal?.addEventListener("abort", end);
    try {
      await replay.#open(source);
      return replay;
    } catch (error) {
      await replay.close();
      signal?.throwIfAborted();
      throw error;
    } finally {
      signal?.removeEventListener("abort", end);
    }
  }

  /** Goes on to the present instant of a rack that is up; returns how far it is now. */
  async advance(): Promise<Timeline> {
    if (this.#head.isLive) await this.#toPresent();
    return await this.timeline();
  }

  async #goOn(): Promise<void> {
    const source = await openSource(this.#target, this.#read);
    const isAsBefore = source.head.until === this.#head.until &&
      faultsIn(source.head.plan) === faultsIn(this.#head.plan);
    if (source.count === 0 && isAsBefore) return;
    this.#head = source.head;
    await this.#open(source);
  }

  /** A rack that is up may have come to an instant that its replay has not. @param at default: now. */
  async #reach(at: Time = Infinity): Promise<void> {
    const { isLive, until } = this.#head;
    if (isLive && until !== null && at >= until) await this.#toPresent();
  }

  get unknownEnd(): string {
    return this.#head.unknownEnd;
  }

  get isOver(): boolean {
    return this.#end !== undefined;
  }

  timeline(): Promise<Timeline> {
    return this.ask("timeline");
  }

  async density(query: DensityQuery = {}): Promise<Density> {
    await this.#reach(query.to);
    return await this.ask("density", query);
  }

  async snapshot(at: Time, query: SnapshotQuery = {}): Promise<Snapshot> {
    await this.#reach(at);
    return await this.ask("snapshot", at, query);
  }

  async programs(at: Time, query: ProgramsQuery = {}): Promise<Programs> {
    await this.#reach(at);
    return await this.ask("programs", at, query);
  }

  async verdicts(at: Time, query: VerdictsQuery = {}): Promise<Verdicts> {
    await this.#reach(at);
    return await this.ask("verdicts", at, query);
  }

  async memory(at: Time, query: MemoryQuery & { readonly host: string }): Promise<MemoryView> {
    await this.#reach(at);
    return await this.ask("memory", at, query);
  }

  /** A range of a host's SCM in parts, for a closer look at one. */
  async memoryMap(at: Time, query: MemoryMapQuery & { readonly host: string }): Promise<MemoryMap> {
    await this.#reach(at);
    return await this.ask("memoryMap", at, query);
  }

  async loss(at: Time, nodes: readonly string[]): Promise<Loss> {
    await this.#reach(at);
    return await this.ask("loss", at, nodes);
  }

  cableHistory(cable: string): Promise<CableHistory> {
    return this.ask("cableHistory", cable);
  }

  async cableCapture(order: CaptureOrder): Promise<Captured> {
    await this.#reach(order.to);
    return await this.ask("cableCapture", order);
  }

  async operations(query: OperationsQuery = {}): Promise<Operations> {
    await this.#reach();
    return await this.ask("operations", query);
  }

  async ladder(index: number): Promise<LadderDocument> {
    await this.#reach();
    return await this.ask("ladder", index);
  }

  async events(query: EventsQuery): Promise<Events> {
    await this.#reach();
    return await this.ask("eventsAround", query);
  }

  /** Null where no step fits. */
  async find(query: FindQuery): Promise<EventRow | null> {
    await this.#reach(query.atPs);
    return await this.ask("find", query);
  }

  /** @throws Refusal for a wrong question, RackError where the process has ended. */
  async ask<M extends Method>(method: M, ...given: Arguments<M>): Promise<Result<M>> {
    if (this.#end !== undefined) throw this.#end;
    const id = ++this.#count;
    const answer = Promise.withResolvers<Result<M>>();
    this.#calls.set(id, answer as unknown as Waiting);
    void this.#send({ kind: "call", id, method, given });
    return await answer.promise;
  }

  async close(): Promise<void> {
    this.#fail(new RackError("The replay was closed"));
    if (this.#isThere) this.#child.kill("SIGKILL");
    await this.#child.status;
    await this.#input.abort().catch(() => {});
    await Deno.remove(this.#spool).catch(() => {});
  }

  async #open({ head, orders }: ReplaySource): Promise<void> {
    if (this.#end !== undefined) throw this.#end;
    try {
      for (const part of inParts(orders())) await this.#send({ kind: "orders", orders: part });
    } catch (error) {
      // It can never get the missing orders.
      this.#fail(new RackError(`The replay has not all orders: ${(error as Error).message}`));
      throw error;
    }
    if (nativeIn(head.plan).length > 0) {
      for (const record of readRecords(head.runFile.directory)) {
        await this.#send({ kind: "record", record });
      }
    }
    const opened = Promise.withResolvers<void>();
    this.#opening = opened as unknown as Waiting;
    void this.#send({ kind: "open", head });
    await opened.promise;
  }

  async #send(request: ReplayRequest): Promise<void> {
    await this.#input.write(framed(request)).catch(() => {});
  }

  async #listen(): Promise<void> {
    void this.#child.status.then(() => this.#isThere = false);
    try {
      for await (const frame of framesOf(this.#child.stdout)) this.#take(frame as ReplayReply);
    } catch (error) {
      this.#fail(new RackError((error as Error).message));
    }
    const { code, signal } = await this.#child.status;
    const how = signal ?? `exit code ${code}`;
    const found = `Found that the process of the replay of ${this.#target.run} ended (${how})`;
    this.#fail(new RackError(`${found}: expected it to answer`));
  }

  #take(reply: ReplayReply): void {
    if (reply.kind === "progress") this.#onProgress?.(reply.progress);
    else if (reply.kind === "opened") this.#opening?.resolve(undefined as never);
    else if (reply.kind === "answer") this.#waitingFor(reply.id)?.resolve(reply.value as never);
    else {
      const { id, message, code, isRefusal } = reply;
      const error = isRefusal ? refusal("", { found: message }) : new RackError(message, code);
      (id === undefined ? this.#opening : this.#waitingFor(id))?.reject(error);
    }
  }

  #waitingFor(id: number): Waiting | undefined {
    const waiting = this.#calls.get(id);
    this.#calls.delete(id);
    return waiting;
  }

  #fail(error: RackError): void {
    this.#end ??= error;
    this.#opening?.reject(this.#end);
    for (const { reject } of this.#calls.values()) reject(this.#end);
    this.#calls.clear();
  }
}
