/**
 * A replicated log: appends the records of a file to the SCM of several hosts, by any method, and tells
 * a record durable when a quorum of them has made it persistent. A minority may lose its power at any
 * time and come back; a client that starts again finds what was durable, and goes on behind it.
 *
 * One client at a time: a second one would not be kept from writing.
 */
import type { Time } from "../../../../fabric/time/time.ts";
import type { ProgramContext, Steps } from "../../program.ts";
import { ProgramError } from "../../device.ts";
import { madeUpBytes } from "../made_up.ts";
import { countOption, microsecondsOption, textOption, wordOption } from "../options.ts";
import { METHODS } from "../persist_protocol.ts";
import { summarize } from "../summary.ts";
import {
  chooseLog,
  encodeClaim,
  encodeRecord,
  logBytes,
  type LogRecord,
  type LogShape,
  nextEpoch,
  PayloadCount,
  payloadsOf,
  readQuorum,
  slotBytes,
} from "./layout.ts";
import { changed, type LogJob, type LogOptions, type Replica } from "./log_job.ts";
import { hostsOption } from "./log_options.ts";
import { serveReplica } from "./replica.ts";

/** Slots beside the records': the claim, and barriers of clients that have started again. */
const SPARE_SLOTS = 64;
const MADE_UP = "made-up";

/**
 * The program. Options: `to` (hosts), `quorum` (most of them), `file` or `bytes` (16 KiB of made-up
 * data), `name` (log), `record` (256 B), `method` (persist-opcode), `depth` (16), `completion`,
 * `pauseUs` (200), `idleUs` (5000), `patienceUs` (100 000: with nothing becoming durable), `lingerUs`
 * (20 000: for replicas that are behind at the end). Reports `progress` and `result`.
 */
export function* log(context: ProgramContext): Steps<void> {
  const { cpu, options: given } = context;
  const options = readOptions(context);
  const data = options.file === MADE_UP
    ? madeUpBytes(countOption(given, "bytes", { least: 1, otherwise: 16 * 1024 }), MADE_UP)
    : cpu.input(options.file);
  if (data === undefined) throw new ProgramError(`No input ${options.file}`);
  const recordBytes = countOption(given, "record", { least: 1, otherwise: 256 });
  const chunks = chunksOf(data, recordBytes);
  const shape: LogShape = {
    name: textOption(given, "name", "log"),
    recordBytes,
    slots: chunks.length + SPARE_SLOTS,
  };
  const job = createJob(context, options, shape);
  const outcome = yield* run(context, job, chunks);
  job.over = true;
  changed(job);
  cpu.report("result", { program: "log", ...reportOf(job), ...outcome });
}

function readOptions({ device, options: given }: ProgramContext): LogOptions {
  const to = hostsOption(given, "to");
  const quorum = countOption(given, "quorum", {
    least: 1,
    otherwise: Math.floor(to.length / 2) + 1,
  });
  if (quorum > to.length || 2 * quorum <= to.length) {
    throw new ProgramError(
      `Option quorum must be more than half of the ${to.length} hosts, and not more than all: it is ${quorum}`,
    );
  }
  return {
    to,
    quorum,
    file: textOption(given, "file", MADE_UP),
    method: wordOption(given, "method", { of: METHODS, otherwise: "persist-opcode" }),
    depth: countOption(given, "depth", { least: 1, otherwise: 16 }),
    mode: wordOption(given, "completion", {
      of: ["poll", "interrupt"] as const,
      otherwise: device.state.completion,
    }),
    pausePs: microsecondsOption(given, "pauseUs", 200),
    idlePs: microsecondsOption(given, "idleUs", 5_000),
    patiencePs: microsecondsOption(given, "patienceUs", 100_000),
    lingerPs: microsecondsOption(given, "lingerUs", 20_000),
  };
}

function chunksOf(data: Uint8Array, recordBytes: number): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  for (let at = 0; at < data.length; at += recordBytes) {
    chunks.push(data.subarray(at, at + recordBytes));
  }
  return chunks;
}

function createJob({ cpu }: ProgramContext, options: LogOptions, shape: LogShape): LogJob {
  return {
    cpu,
    options,
    shape,
    replicas: options.to.map((host): Replica => ({
      host,
      place: null,
      promises: false,
      acked: 0,
      tries: 0,
      lost: undefined,
      running: false,
    })),
    signal: `log/${shape.name}`,
    changes: 0,
    scans: new Map(),
    slots: new Uint8Array(logBytes(shape)),
    limit: 0,
    over: false,
  };
}

interface Outcome {
  readonly status: "done" | "failed";
  readonly error?: string;
  readonly epoch?: number;
  /** Data records that an earlier client had left. */
  readonly recovered?: number;
  readonly durable?: number;
  readonly records?: number;
  readonly latencyPs?: ReturnType<typeof summarize>;
  readonly startPs?: number;
  readonly endPs?: number;
}

/** From the first connection to the last durable record, or until nothing gets on any more. */
function* run(
  context: ProgramContext,
  job: LogJob,
  chunks: readonly Uint8Array[],
): Steps<Outcome> {
  const { options, replicas, scans, shape } = job;
  const enough = readQuorum(replicas.length, options.quorum);
  if (!(yield* until(context, job, () => scans.size >= enough))) {
    return { status: "failed", error: `only ${scans.size} of ${enough} replicas could be read` };
  }
  const known = [...scans.values()];
  const epoch = nextEpoch(known), found = chooseLog(known);
  job.slots.set(encodeClaim(shape, epoch));
  job.limit = 1;
  if (!(yield* until(context, job, () => quorumHas(job, 1)))) {
    return { status: "failed", error: "no quorum has taken the claim", epoch };
  }
  const recovered = payloadsOf(found).length;
  const records = layOut(job, { found, epoch, chunks });
  if (records === undefined) {
    return { status: "failed", error: "the log is full", epoch, recovered };
  }
  return yield* append(context, job, { records, first: found.length + 1, epoch, recovered });
}

/** Fills the slots behind the claim: what was found, a barrier, what is still to be appended. */
function layOut(
  job: LogJob,
  log: {
    readonly found: readonly LogRecord[];
    readonly epoch: number;
    readonly chunks: readonly Uint8Array[];
  },
): LogRecord[] | undefined {
  const { found, epoch, chunks } = log;
  const { shape, slots } = job;
  const rest = chunks.slice(payloadsOf(found).length);
  const records = [
    ...found,
    { epoch, kind: "barrier", payload: new Uint8Array(0) } as const,
    ...rest.map((payload) => ({ epoch, kind: "data", payload }) as const),
  ];
  if (records.length >= shape.slots) return undefined;
  const size = slotBytes(shape);
  for (const i of records.keys()) slots.set(encodeRecord(shape, records, i), (i + 1) * size);
  return records;
}

/** Lets slot after slot go, and tells what is durable. `first`: slots up to the barrier's, claim apart. */
function* append(
  context: ProgramContext,
  job: LogJob,
  log: {
    readonly records: readonly LogRecord[];
    readonly first: number;
    readonly epoch: number;
    readonly recovered: number;
  },
): Steps<Outcome> {
  const { records, first, epoch, recovered } = log;
  const { cpu, options } = job;
  const end = 1 + records.length;
  const startPs = cpu.now;
  const sentAt = new Float64Array(end), latency = new Float64Array(end).fill(-1);
  let durable = 1;
  const told = new Told();
  const advance = () => {
    const from = job.limit;
    // What is durable counts only behind the barrier; until then the window begins at the claim.
    job.limit = Math.min(end, durable + options.depth);
    if (job.limit > from) {
      sentAt.fill(cpu.now, from, job.limit);
      changed(job);
    }
  };
  advance();
  for (;;) {
    const before = durable;
    if (!(yield* until(context, job, () => quorumHas(job, before + 1)))) break;
    while (durable < end && quorumHas(job, durable + 1)) {
      latency[durable] = cpu.now - sentAt[durable]!;
      durable++;
    }
    if (durable > first) tell(job, { records, durable }, told);
    if (durable === end) break;
    advance();
  }
  const times = { startPs, endPs: cpu.now };
  const isBehind = () => job.replicas.some(({ acked }) => acked < end);
  if (durable === end) yield* until(context, job, () => !isBehind(), options.lingerPs);
  const status = durable === end ? "done" as const : "failed" as const;
  const error = status === "done" ? {} : { error: "no quorum has answered for too long" };
  const latencyPs = summarize(latency.subarray(first + 1));
  const total = payloadsOf(records).length;
  return {
    status,
    ...error,
    epoch,
    recovered,
    durable: told.payloads.count,
    records: total,
    latencyPs,
    ...times,
  };
}

/** How far it has been told. */
class Told {
  readonly payloads = new PayloadCount();
  records = 0;
}

/** Says how many data records are durable, of so many slots. */
function tell(
  job: LogJob,
  so: { readonly records: readonly LogRecord[]; readonly durable: number },
  told: Told,
): void {
  const { cpu, shape, options, replicas } = job;
  const before = told.payloads.count;
  while (told.records < so.durable - 1) told.payloads.add(so.records[told.records++]!);
  const { count: durable, crc } = told.payloads;
  if (durable === before) return;
  cpu.report("progress", { program: "log", written: durable, durable });
  if (cpu.noting) {
    cpu.note({
      kind: "log",
      log: shape.name,
      replicas: replicas.map(({ host, place }) => ({ host, at: place })),
      quorum: options.quorum,
      recordBytes: shape.recordBytes,
      slots: shape.slots,
      durable,
      crc,
      promised: quorumHas({ ...job, replicas: replicas.filter((r) => r.promises) }, so.durable),
    });
  }
}

/** Whether so many replicas as count have the first `slots` slots. */
function quorumHas({ replicas, options }: LogJob, slots: number): boolean {
  return replicas.filter(({ acked }) => acked >= slots).length >= options.quorum;
}

/** Keeps a thread at every replica until `holds`. @returns false where nothing has changed for too long. */
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

function reportOf({ options, shape, replicas }: LogJob) {
  const { method, quorum, file } = options;
  const { name, recordBytes, slots } = shape;
  return {
    name,
    file,
    method,
    quorum,
    recordBytes,
    slots,
    replicas: replicas.map(({ host, acked, tries, lost }) => ({
      host,
      acked,
      tries,
      ...(lost !== undefined && { lost }),
    })),
  };
}
