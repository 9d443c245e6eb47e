/** Reports of a replicated log's client: progress of durability, and the result. */
import { type LogRecord, PayloadCount } from "./layout.ts";
import { type LogJob, quorumHas } from "./log_job.ts";
import type { LogPlan } from "./plan.ts";

/** The reported progress. */
export class Told {
  readonly payloads = new PayloadCount();
  records = 0;
}

/** Reports the number of durable data records, given the number of durable slots. */
export function tell(
  job: LogJob,
  so: { readonly plan: LogPlan; readonly durable: number },
  told: Told,
): void {
  const { cpu } = job;
  const before = told.payloads.count;
  while (told.records < so.durable - 1) told.payloads.add(recordAt(so.plan, told.records++));
  const { count: durable, crc } = told.payloads;
  if (durable === before) return;
  cpu.report("progress", { program: "log", written: durable, durable });
  const promised = quorumHas(
    { ...job, replicas: job.replicas.filter((r) => r.promises) },
    so.durable,
  );
  note(job, so.plan, { durable, crc, promised });
}

function recordAt({ records }: LogPlan, index: number): LogRecord {
  return records[index]!;
}

/** The log's old content becomes invalid: recorded before its first slot is overwritten. */
export function noteAnew(job: LogJob, plan: LogPlan): void {
  const { crc } = new PayloadCount();
  note(job, plan, { durable: 0, crc, promised: true, anew: true });
}

function note(
  { cpu, options, replicas }: LogJob,
  { shape, segments }: LogPlan,
  so: {
    readonly durable: number;
    readonly crc: number;
    readonly promised: boolean;
    readonly anew?: true;
  },
): void {
  if (!cpu.auditing) return;
  cpu.audit({
    kind: "log",
    log: shape.name,
    replicas: replicas.map(({ host, places }) => ({ host, at: [...places] })),
    quorum: options.quorum,
    recordBytes: shape.recordBytes,
    segments,
    ...so,
  });
}

/** Fields of every result, whatever the outcome. */
export function reportOf({ options, replicas, plan }: LogJob) {
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
