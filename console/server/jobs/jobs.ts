import { fromFileUrl, projectFile } from "../../base/paths.ts";
import { commandFlags } from "../../base/v8_flags.ts";
import type { Job, JobDetail, JobOrder, JobResult } from "../../api/jobs.ts";
import type { AuditLog } from "../doors/audit.ts";
import type { Caller } from "../doors/keys.ts";
import type { Locks } from "../locks.ts";
import type { KeptExplorations } from "./kept_explorations.ts";
import { lines } from "./lines.ts";
import type { JobLine, JobWork } from "./protocol.ts";

/** Each may start a rack of processes; more are refused. Of one user: others need room, too. */
export const RUNNING_MAX = 4, RUNNING_OF_USER_MAX = 3;
const ENDED_MAX = 50;
const NOTES_MAX = 100;
/** Explorations: the next console goes on with one that this one has not come to the end of. */
const OUTLIVING: ReadonlySet<JobOrder["kind"]> = new Set(["explore", "matrix"]);
/** A rack of many processes may be being taken down. */
const END_MS = 20_000;

interface Entry {
  job: Job;
  readonly order: JobOrder;
  readonly by: Caller | undefined;
  result: JobResult | null;
  readonly child: Deno.ChildProcess;
  /** Its number among the explorations that outlive a console. */
  readonly kept: string | undefined;
  readonly beganMs: number;
  readonly ended: Promise<void>;
}

export class Jobs {
  readonly #wallMs: () => number;
  readonly #allowNative: boolean;
  readonly #audit: AuditLog | undefined;
  readonly #locks: Locks | undefined;
  readonly #explorations: KeptExplorations | undefined;
  #isEnding = false;
  readonly #entries = new Map<string, Entry>();
  readonly #readers = new Set<(id: string | undefined) => void>();
  readonly #own = new Set<string>();
  #count = 0;
  /** Changes when the list of runs may have changed. */
  runsVersion = 0;

  /** @param options.allowNative jobs may run native programs. */
  constructor(
    { wallMs, allowNative = false, audit, locks, explorations }: {
      readonly wallMs: () => number;
      /** Explorations outlive the console there; absent: they end with it. */
      readonly explorations?: KeptExplorations;
      readonly audit?: AuditLog;
      /** Told whose the racks are that come up. */
      readonly locks?: Locks;
      readonly allowNative?: boolean;
    },
  ) {
    this.#wallMs = wallMs;
    this.#allowNative = allowNative;
    this.#audit = audit;
    this.#locks = locks;
    this.#explorations = explorations;
  }

  /** Starts explorations again that were under way as an earlier console ended. */
  goOn(): void {
    for (const { id, work, name, by } of this.#explorations?.take(RUNNING_MAX) ?? []) {
      this.#start(work, name, { by: by ?? undefined, kept: id });
    }
  }

  list(): Job[] {
    return [...this.#entries.values()].map((entry) => this.#shown(entry)).toReversed();
  }

  find(id: string): JobDetail | undefined {
    const entry = this.#entries.get(id);
    if (entry === undefined) return undefined;
    return { job: this.#shown(entry), order: entry.order, result: entry.result };
  }

  get running(): number {
    return this.list().filter(isRunning).length;
  }

  /** Of one user. */
  runningOf(session: string): number {
    return [...this.#entries.values()]
      .filter(({ job, by }) => isRunning(job) && by?.session === session).length;
  }

  /** Runs that this console has made, and racks that it has brought up. */
  get own(): ReadonlySet<string> {
    return this.#own;
  }

  addOwn(run: string): void {
    this.#own.add(run);
  }

  tellRuns(): void {
    this.runsVersion++;
    for (const reader of this.#readers) reader(undefined);
  }

  /** @param reader called with the job that has changed, or without one where the runs have. */
  join(reader: (id: string | undefined) => void): () => void {
    this.#readers.add(reader);
    return () => this.#readers.delete(reader);
  }

  /** @param by who has ordered it, for the audit log. */
  start(work: JobWork, name: string, by?: Caller): Job {
    const isKept = OUTLIVING.has(work.order.kind) && this.#explorations !== undefined;
    const kept = isKept ? this.#explorations!.keep({ work, name, by: by ?? null }) : undefined;
    return this.#start(work, name, { by, kept });
  }

  #start(
    given: JobWork,
    name: string,
    { by, kept }: { readonly by: Caller | undefined; readonly kept: string | undefined },
  ): Job {
    const work = kept === undefined
      ? given
      : { ...given, memory: this.#explorations!.memoryOf(kept) };
    const { order } = work;
    const id = `job-${++this.#count}`;
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", ...commandFlags(), fromFileUrl(projectFile("console/server/jobs/main.ts"))],
      // Ctrl-C in the terminal is the console's, which ends its jobs in order.
      detached: true,
      stdin: "piped",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    const job: Job = {
      id,
      kind: order.kind,
      scenario: name,
      state: "running",
      title: "starting",
      share: 0,
      startedAt: new Date().toISOString(),
      wallMs: 0,
      run: null,
      verdict: "",
      error: "",
      notes: [],
    };
    const ended = this.#follow(id, child);
    const beganMs = this.#wallMs();
    this.#entries.set(id, { job, order, by, result: null, child, kept, beganMs, ended });
    this.#forgetOld();
    void give(child, this.#allowNative ? { ...work, allowNative: true } : work);
    this.#tell(id);
    return job;
  }

  /** The job says when it has ended. */
  cancel(id: string): void {
    const kept = this.#entries.get(id)?.kept;
    if (kept !== undefined) this.#explorations!.forget(kept);
    this.#stop(id);
  }

  #stop(id: string): void {
    const entry = this.#entries.get(id);
    if (entry === undefined || !isRunning(entry.job)) return;
    this.#change(id, { state: "ending" });
    signal(entry.child, "SIGTERM");
    const timer = setTimeout(() => signal(entry.child, "SIGKILL"), END_MS);
    void entry.ended.finally(() => clearTimeout(timer));
  }

  async end(): Promise<void> {
    this.#isEnding = true;
    for (const id of this.#entries.keys()) this.#stop(id);
    await Promise.all([...this.#entries.values()].map(({ ended }) => ended));
  }

  async #follow(id: string, child: Deno.ChildProcess): Promise<void> {
    await Promise.resolve();
    let isTold = false;
    for await (const line of lines(child.stdout)) {
      const said: JobLine = JSON.parse(line);
      isTold ||= said.say === "end" || said.say === "error";
      this.#take(id, said);
    }
    const { code, signal } = await child.status;
    const { job, kept } = this.#entries.get(id)!;
    const hasEnded = job.state === "done" || job.state === "failed";
    if (kept !== undefined && (hasEnded || !this.#isEnding)) this.#explorations!.forget(kept);
    if (job.state === "ending") this.#change(id, { state: "cancelled" });
    else if (!isTold) {
      const how = signal ?? `exit code ${code}`;
      this.#change(id, { state: "failed", error: `Its process has ended (${how})` });
    }
    this.tellRuns();
  }

  #take(id: string, line: JobLine): void {
    const { job } = this.#entries.get(id)!;
    switch (line.say) {
      case "progress":
        return this.#change(id, { title: line.title, share: line.share });
      case "run":
        this.#own.add(line.run);
        this.#tellOwner(id, line.run);
        this.#change(id, { run: line.run });
        return this.tellRuns();
      case "read": {
        const { by } = this.#entries.get(id)!;
        return this.#audit?.addRead(by, { file: line.file, detail: { job: id } });
      }
      case "note":
        return this.#change(id, { notes: [...job.notes, line.text].slice(-NOTES_MAX) });
      case "result":
        this.#entries.get(id)!.result = line.result;
        return this.#tell(id);
      case "end": {
        const state = job.state === "ending" ? "cancelled" : line.isGood ? "done" : "failed";
        return this.#change(id, { state, verdict: line.verdict, share: 1, title: "" });
      }
      case "error":
        return this.#change(id, { state: "failed", error: line.message, title: "" });
    }
  }

  #tellOwner(id: string, run: string): void {
    const { by, order: { kind } } = this.#entries.get(id)!;
    if (by !== undefined && (kind === "up" || kind === "resume")) this.#locks?.own(run, by);
  }

  #change(id: string, change: Partial<Job>): void {
    const entry = this.#entries.get(id)!;
    entry.job = { ...entry.job, wallMs: this.#wallMs() - entry.beganMs, ...change };
    this.#tell(id);
  }

  #shown({ job, beganMs }: Entry): Job {
    return isRunning(job) ? { ...job, wallMs: this.#wallMs() - beganMs } : job;
  }

  #tell(id: string): void {
    for (const reader of this.#readers) reader(id);
  }

  #forgetOld(): void {
    const ended = [...this.#entries.values()].filter(({ job }) => !isRunning(job));
    for (const { job } of ended.slice(0, Math.max(0, ended.length - ENDED_MAX))) {
      this.#entries.delete(job.id);
    }
  }
}

function isRunning({ state }: Job): boolean {
  return state === "running" || state === "ending";
}

async function give(child: Deno.ChildProcess, work: JobWork): Promise<void> {
  const writer = child.stdin.getWriter();
  try {
    await writer.write(new TextEncoder().encode(JSON.stringify(work)));
    await writer.close();
  } catch {
    // The process has ended, which is reported instead.
  }
}

function signal(child: Deno.ChildProcess, name: Deno.Signal): void {
  try {
    child.kill(name);
  } catch {
    // It has ended.
  }
}
