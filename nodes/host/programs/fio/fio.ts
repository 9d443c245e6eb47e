/** fio on one host: threads of a wave at once, waves one after the other. */
import { type Rng, rngFor } from "../../../../fabric/base/rng.ts";
import { NEVER } from "../../../../fabric/base/time.ts";
import type { Cpu, Steps } from "../../cpu/program.ts";
import type { CmDevice } from "../../cm/gsi.ts";
import type { ProgramContext, ThreadContext } from "../../program_context.ts";
import { allocated, failed, ProgramError } from "../../verbs/device.ts";
import { DIRECTORY_BYTES } from "../common/scm_directory.ts";
import { outcomeOf } from "../common/summary.ts";
import { endingOnFailure, engineError, jobErrorOf } from "./connection.ts";
import { IoLoop } from "./io_loop.ts";
import { extentsOf, IoPlan } from "./io_plan.ts";
import { ENGINES, type FioJob, type JobError } from "./job.ts";
import { openRpmaClient } from "./librpma_client.ts";
import { type ServerMemory, serveRpma } from "./librpma_server.ts";
import { openRdmaClient, openRdmaServer } from "./rdma.ts";
import type { ThreadStats } from "./stats.ts";

export interface ThreadResult {
  readonly index: number;
  readonly isServer: boolean;
  readonly error?: JobError;
  /** Begin of the thread's I/O; absent without I/O, as for a server of librpma. */
  readonly startPs?: number;
  readonly stats?: ThreadStats;
}

export interface FioResult {
  readonly program: "fio";
  readonly status: "done" | "failed";
  readonly error?: string;
  readonly jobs: readonly ThreadResult[];
}

const ENDED = "fio-thread-ended";
const PARTS = 20;

/** The program. Option: `jobs`, a list of {@link FioJob}. Reports `result`. */
export function* fio({ cpu, options }: ProgramContext): Steps<void> {
  const jobs = jobsOf(options["jobs"]);
  const results: ThreadResult[] = [];
  const shares = new Map<FioJob, number>();
  const place = scmPlaces(cpu, jobs);
  const start = (job: FioJob) => {
    cpu.spawn(`${job.isServer ? "server" : "client"}-${job.index + 1}`, function* (context) {
      const onProgress = (share: number) => {
        shares.set(job, share);
        let sum = 0;
        for (const each of shares.values()) sum += each;
        const clients = Math.max(1, jobs.filter(({ isServer }) => !isServer).length);
        cpu.report("progress", { written: sum / clients, messages: 1 });
      };
      results.push(yield* runThread(context, job, { memory: () => place(job), onProgress }));
      context.cpu.signal(ENDED);
    });
  };
  const waves = [...new Set(jobs.map(({ wave }) => wave))].sort((x, y) => x - y);
  let started = 0;
  for (const wave of waves) {
    const now = jobs.filter((job) => job.wave === wave);
    for (const job of now) start(job);
    started += now.length;
    while (results.length < started) yield* cpu.waitSignal(ENDED, NEVER);
  }
  const failure = results.find(({ error }) => error !== undefined);
  const failing = jobs.find(({ index, isServer }) =>
    index === failure?.index && isServer === failure.isServer
  );
  const error = failure === undefined ? undefined : `${failing?.name}: ${failure.error?.text}`;
  const result: FioResult = { program: "fio", ...outcomeOf(error), jobs: results };
  cpu.report("result", result);
}

function jobsOf(given: unknown): FioJob[] {
  if (!Array.isArray(given) || given.length === 0) {
    throw new ProgramError("Option jobs must be a list of fio's jobs, and not empty");
  }
  for (const { engine } of given as Partial<FioJob>[]) {
    if (engine !== undefined && ENGINES.includes(engine)) continue;
    throw new ProgramError(`A job's engine is ${engine}: expected one of ${ENGINES.join(", ")}`);
  }
  return given as FioJob[];
}

function scmPlaces(cpu: Cpu, jobs: readonly FioJob[]): (job: FioJob) => ServerMemory {
  const places = new Map<FioJob, number>();
  let at = cpu.scm.length;
  for (const job of jobs) {
    if (!job.isServer || job.memory !== "scm") continue;
    at -= bytesOf(job);
    places.set(job, at);
  }
  return (job) => {
    const length = bytesOf(job);
    const offset = places.get(job);
    if (offset === undefined) return { buffer: allocate(cpu, length), offset: 0, length };
    if (offset >= DIRECTORY_BYTES) return { buffer: cpu.scm, offset, length };
    const found =
      `${cpu.host} has ${cpu.scm.length} B of SCM, ${DIRECTORY_BYTES} of them a directory`;
    throw engineError("ENOMEM", `${found}: the jobs' workspaces end ${-at} B before its begin`);
  };
}

function allocate(cpu: Cpu, length: number) {
  const buffer = allocated(() => cpu.allocate(length));
  if (!failed(buffer)) return buffer;
  throw engineError("ENOMEM", `a workspace of ${length} B: ${buffer.reason}`);
}

function bytesOf({ size }: FioJob): number {
  return size !== undefined && "bytes" in size ? size.bytes : 0;
}

function* runThread(
  { cpu, device }: ThreadContext,
  job: FioJob,
  { memory, onProgress }: {
    readonly memory: () => ServerMemory;
    readonly onProgress: (share: number) => void;
  },
): Steps<ThreadResult> {
  const { index, isServer } = job;
  let begun: { readonly startPs: number; readonly loop: IoLoop } | undefined;
  const begin = (loop: IoLoop) => {
    begun = { startPs: cpu.now, loop };
  };
  let error: JobError | undefined;
  try {
    if (job.startDelayPs > 0) yield* cpu.sleep(job.startDelayPs);
    if (isServer && job.engine !== "rdma") yield* serveRpma(device, job, memory());
    else yield* runIo(device, job, { begin, onProgress });
  } catch (cause) {
    error = jobErrorOf(cause);
    if (error === undefined) throw cause;
  }
  return {
    index,
    isServer,
    ...(error !== undefined && { error }),
    ...(begun !== undefined && { startPs: begun.startPs, stats: begun.loop.stats() }),
  };
}

function* runIo(
  device: CmDevice,
  job: FioJob,
  { begin, onProgress }: {
    readonly begin: (loop: IoLoop) => void;
    readonly onProgress: (share: number) => void;
  },
): Steps<void> {
  const { cpu } = device;
  const { engine, connection, close, bytes } = yield* openEnd(device, job);
  if (engine === undefined) return yield* endingOnFailure(connection, close);
  const extents = extentsOf(job, bytes);
  if (typeof extents === "string") {
    yield* close();
    throw engineError("EINVAL", extents);
  }
  const plan = new IoPlan(job, extents, streamOf(cpu, job));
  const loop = new IoLoop(cpu, job, engine);
  begin(loop);
  let reported = 0;
  const progress = () => {
    const share = Math.max(loop.elapsed ?? 0, job.timeBased ? 0 : plan.share);
    const part = Math.floor(PARTS * share);
    if (part === reported) return;
    reported = part;
    onProgress(share);
  };
  yield* endingOnFailure(connection, function* () {
    yield* loop.run(plan, progress);
    yield* close();
  });
}

/**
 * @returns the end with the workspace's size; without an engine for a server that takes no part in the I/O.
 */
function* openEnd(device: CmDevice, job: FioJob) {
  if (job.engine !== "rdma") {
    const { engine, connection, workspace, close } = yield* openRpmaClient(device, job);
    return { engine, connection, close, bytes: workspace.bytes };
  }
  const { engine, connection, verb, waitForEnd, close } =
    yield* (job.isServer ? openRdmaServer : openRdmaClient)(
      device,
      job,
    );
  // Each I/O goes to a buffer's beginning: a size only limits the amount.
  const bytes = job.offset + (bytesOf(job) || job.blockSizes.write.most);
  if (!job.isServer || verb === "send") return { engine, connection, close, bytes };
  return {
    engine: undefined,
    connection,
    bytes,
    *close(): Steps<void> {
      yield* waitForEnd();
      yield* close();
    },
  };
}

/** `randrepeat`: by the scenario's seed, or the job's. */
function streamOf(cpu: Cpu, { seed, index }: FioJob): Rng {
  const drawn = seed ?? Math.floor(cpu.random() * 2 ** 32);
  return rngFor(drawn, `fio ${index}`);
}
