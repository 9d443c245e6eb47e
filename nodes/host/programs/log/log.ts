/**
 * A replicated log: appends the records of a file to the SCM of several hosts, by any method, and
 * reports a record durable when a quorum has made it persistent. A minority may lose power at any
 * time and come back; a restarted client finds the durable records, and continues behind them.
 *
 * One client at a time: the log does not exclude a second writer.
 */
import { machineOf } from "../../../../fabric/rack/plan/names.ts";
import type { Time } from "../../../../fabric/base/time.ts";
import type { Steps } from "../../cpu/program.ts";
import { ProgramError } from "../../verbs/device.ts";
import { MADE_UP, madeUpBytes } from "../common/made_up.ts";
import { countOption } from "../common/options.ts";
import { summarize } from "../common/summary.ts";
import { PayloadCount, payloadsOf } from "./layout.ts";
import {
  changed,
  createJob,
  type LogJob,
  quorumHas,
  readLogOptions,
  readsNeeded,
} from "./log_job.ts";
import { type LogPlan, planLog } from "./plan.ts";
import { serveReplica } from "./replica.ts";
import type { ProgramContext } from "../../program_context.ts";

/**
 * The program. Options: `to` (hosts), `quorum` (a majority), `file` or `bytes` (16 KiB of generated
 * data), `name` (log), `record` (the log's, else 256 B), `anew` (false: a log with other content is
 * not overwritten), `method` (persist-opcode), `depth` (16), `completion`, `pauseUs` (200),
 * `idleUs` (5000), `patienceUs` (100 000: maximum time without progress), `lingerUs` (20 000: for
 * late replicas at the end). Reports `progress` and `result`.
 */
export function* log(context: ProgramContext): Steps<void> {
  const { cpu, options: given } = context;
  const options = readLogOptions(context);
  const data = options.file === MADE_UP
    ? madeUpBytes(countOption(given, "bytes", { least: 1, otherwise: 16 * 1024 }), MADE_UP)
    : cpu.input(options.file);
  if (data === undefined) throw new ProgramError(`No input ${options.file}`);
  const job = createJob(context, options);
  const outcome = yield* run(context, job, data);
  job.over = true;
  changed(job);
  cpu.report("result", { program: "log", ...reportOf(job), ...outcome });
}

function* run(
  context: ProgramContext,
  job: LogJob,
  data: Uint8Array,
): Steps<Record<string, unknown>> {
  const { options, found } = job;
  const enough = readsNeeded(job);
  if (!(yield* until(context, job, () => found.size >= enough))) {
    return { status: "failed", error: `only ${found.size} of ${enough} replicas could be read` };
  }
  const plan = planLog({ ...options, data }, [...found.values()]);
  if ("error" in plan) return { status: "failed", error: plan.error };
  const { epoch, recovered } = plan;
  job.plan = plan;
  if (plan.dropped > 0) {
    // The log's old content becomes invalid before its first slot is overwritten.
    const { crc } = new PayloadCount();
    auditLog(job, plan, { durable: 0, crc, promised: true, anew: true });
  }
  job.limit = 1;
  if (!(yield* until(context, job, () => quorumHas(job, 1)))) {
    return { status: "failed", error: "no quorum has taken the claim", epoch };
  }
  return { ...yield* append(context, job, plan), epoch, recovered };
}

interface Reported {
  readonly payloads: PayloadCount;
  records: number;
}

function* append(
  context: ProgramContext,
  job: LogJob,
  plan: LogPlan,
): Steps<Record<string, unknown>> {
  const { records, first } = plan;
  const { cpu, options } = job;
  const end = 1 + records.length;
  const startPs = cpu.now;
  const sentAt = new Float64Array(end), latency = new Float64Array(end).fill(-1);
  job.durable = 1;
  const reported: Reported = { payloads: new PayloadCount(), records: 0 };
  const advance = () => {
    const from = job.limit;
    // Records count as durable only behind the barrier; until then the window begins at the claim.
    job.limit = Math.min(end, job.durable + options.depth);
    if (job.limit > from) {
      sentAt.fill(cpu.now, from, job.limit);
      changed(job);
    }
  };
  advance();
  for (;;) {
    const before = job.durable;
    if (!(yield* until(context, job, () => quorumHas(job, before + 1)))) break;
    while (job.durable < end && quorumHas(job, job.durable + 1)) {
      const latencyPs = cpu.now - sentAt[job.durable]!;
      latency[job.durable] = latencyPs;
      const promisedBytes = isPromised(job, job.durable + 1) ? plan.shape.recordBytes : 0;
      cpu.measured({ operation: "log", method: options.method, latencyPs, promisedBytes });
      job.durable++;
    }
    if (job.durable > first) reportDurable(job, plan, reported);
    if (job.durable === end) break;
    advance();
  }
  const endPs = cpu.now;
  const isDone = job.durable === end;
  const hasAll = () => job.replicas.every(({ acked }) => acked >= end);
  if (isDone) yield* until(context, job, hasAll, options.lingerPs);
  return {
    status: isDone ? "done" : "failed",
    ...(!isDone && { error: "no quorum has answered for too long" }),
    durable: reported.payloads.count,
    records: payloadsOf(records).length,
    latencyPs: summarize(latency.subarray(first + 1)),
    startPs,
    endPs,
  };
}

function* until(
  { cpu }: ProgramContext,
  job: LogJob,
  holds: () => boolean,
  patiencePs: Time = job.options.patiencePs,
): Steps<boolean> {
  const { replicas } = job;
  const deadline = cpu.now + patiencePs;
  while (!holds()) {
    for (const replica of replicas) {
      if (replica.running) continue;
      replica.running = true;
      cpu.spawn(`${replica.host}/${replica.tries}`, (thread) => serveReplica(thread, job, replica));
    }
    const { changes } = job;
    yield* cpu.settle();
    if (job.changes !== changes || holds()) continue;
    if (cpu.now >= deadline) return false;
    yield* cpu.waitSignal(job.signal, deadline);
  }
  return true;
}

function reportDurable(job: LogJob, plan: LogPlan, reported: Reported): void {
  const { cpu, durable: slots } = job;
  const { payloads } = reported;
  const before = payloads.count;
  while (reported.records < slots - 1) payloads.add(plan.records[reported.records++]!);
  const { count: durable, crc } = payloads;
  if (durable === before) return;
  cpu.report("progress", { program: "log", written: durable, durable });
  auditLog(job, plan, { durable, crc, promised: isPromised(job, slots) });
}

/** A quorum needs replicas whose confirmation guarantees persistence. */
function isPromised(job: LogJob, slots: number): boolean {
  const replicas = job.replicas.filter(({ promises }) => promises);
  return quorumHas({ ...job, replicas }, slots);
}

function auditLog(
  { cpu, options, replicas }: LogJob,
  { shape, segments }: LogPlan,
  state: {
    readonly durable: number;
    readonly crc: number;
    readonly promised: boolean;
    readonly anew?: true;
  },
): void {
  if (!cpu.auditing) return;
  cpu.note({
    kind: "log",
    log: shape.name,
    replicas: replicas.map(({ host, places }) => ({ host: machineOf(host), at: [...places] })),
    quorum: options.quorum,
    recordBytes: shape.recordBytes,
    segments,
    ...state,
  });
}

function reportOf({ options, replicas, plan }: LogJob) {
  const { method, quorum, file, name } = options;
  return {
    name,
    file,
    method,
    quorum,
    ...(plan !== undefined && {
      recordBytes: plan.shape.recordBytes,
      slots: plan.shape.slots,
      ...(plan.segments.length > 1 && { segments: plan.segments }),
      ...(plan.dropped > 0 && { dropped: plan.dropped }),
    }),
    replicas: replicas.map(({ host, acked, tries, lost, caughtUp }) => ({
      host,
      acked,
      tries,
      ...(lost !== undefined && { lost }),
      ...(caughtUp.times > 0 && { caughtUp }),
    })),
  };
}
