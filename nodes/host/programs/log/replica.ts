/**
 * A thread of the log's client for one replica and one connection: reads the replica's log until enough logs are known,
 * then sends slots from the first unconfirmed one. It ends with its connection; the client starts another.
 *
 * After a failure only confirmed slots count as persistent: a READ may return bytes from the cache
 * of a host of which only the card has failed.
 */
import { NEVER } from "../../../../fabric/base/time.ts";
import { waitCompletion } from "../../verbs/completion_queue.ts";
import type { Steps } from "../../cpu/program.ts";
import {
  type Failure,
  isFailure,
  openClient,
  openObject,
  releaseClient,
} from "../persist/persist_client.ts";
import { policyOf } from "../common/persist_protocol.ts";
import { promisesPersistence } from "../persist/put_methods.ts";
import { prepare, transfer } from "../persist/put.ts";
import { slotBytes } from "./layout.ts";
import { changed, type LogJob, readsNeeded, type Replica } from "./log_job.ts";
import { RECORD_BYTES } from "./plan.ts";
import { fetchLog, type Segment, segmentName, segmentOf } from "./segments.ts";
import type { ThreadContext } from "../../program_context.ts";
import { PERSISTED, type Put, PUT_DEFAULTS } from "../persist/put_messages.ts";

export function* serveReplica(
  context: ThreadContext,
  job: LogJob,
  replica: Replica,
): Steps<void> {
  replica.tries++;
  const failure = (yield* scan(context, job, replica)) ??
    (yield* replicate(context, job, replica));
  replica.lost = failure?.error;
  if (failure !== undefined && !job.over) {
    replica.behindSince ??= context.cpu.now;
    yield* context.cpu.sleep(job.options.pausePs);
  }
  replica.running = false;
  changed(job);
}

function* scan(
  { device }: ThreadContext,
  job: LogJob,
  replica: Replica,
): Steps<Failure | undefined> {
  const { options, found } = job;
  const enough = readsNeeded(job);
  if (found.size >= enough) return undefined;
  const log = yield* fetchLog(device, {
    from: replica.host,
    name: options.name,
    recordBytes: options.recordBytes ?? RECORD_BYTES,
    mode: options.mode,
    ...patience(options),
  });
  if (isFailure(log)) return log;
  if (found.size < enough) found.set(replica.host, log);
  changed(job);
  return undefined;
}

/** A thread makes a single attempt: the client schedules the next. */
function patience({ pausePs, idlePs }: LogJob["options"]) {
  return { attempts: 1, pausePs, idlePs };
}

function* replicate(
  { device, cpu }: ThreadContext,
  job: LogJob,
  replica: Replica,
): Steps<Failure | undefined> {
  while (job.limit === 0 && !job.over) {
    const { changes } = job;
    yield* cpu.settle();
    if (job.changes === changes) yield* cpu.waitSignal(job.signal, NEVER);
  }
  const { options, plan } = job;
  if (plan === undefined) return undefined;
  const { method, depth, mode } = options;
  const messageBytes = slotBytes(plan.shape);
  const terms = { method, messageBytes, depth, policy: policyOf(method, "auto") };
  const client = yield* openClient(device, { to: replica.host, terms, mode, ...patience(options) });
  if (isFailure(client)) return client;
  replica.promises = promisesPersistence(method, client.server);
  const segment = segmentOf(plan.segments, replica.acked);
  const { index, first, end } = segment;
  const name = segmentName(plan.shape.name, index);
  // Exclusive, as a late packet of the client's earlier life could overwrite confirmed slots.
  const length = (end - first) * messageBytes;
  const region = yield* openObject(client, { name, length, alone: true });
  if (!isFailure(region)) replica.places[index] = region.scmOffset;
  const put = isFailure(region) ? region : yield* prepare(client, {
    region,
    data: plan.slots.subarray(first * messageBytes, end * messageBytes),
    options: { ...PUT_DEFAULTS, ...options, name, to: replica.host, messageBytes },
  });
  const failure = isFailure(put) ? put : yield* stream(put, job, { replica, segment });
  yield* releaseClient(client, isFailure(put) ? [] : [put.slots, put.scratch]);
  return failure;
}

/** The messages of its `put` are the segment's slots. */
interface Part {
  readonly replica: Replica;
  readonly segment: Segment;
}

function stream(put: Put, job: LogJob, part: Part): Steps<Failure | undefined> {
  const { replica, segment: { first, end } } = part;
  const isLast = end === job.plan?.shape.slots;
  put.next = replica.acked - first;
  const hasNext = () => !job.over && put.next < Math.min(job.limit, end) - first;
  return transfer(put, {
    hasNext,
    isOver: () => job.over || (!isLast && replica.acked >= end),
    nextCompletions: () => nextOf(put, job, hasNext),
    afterCompletions: () => takeAcks(put, job, part),
  });
}

/** Returns none when a slot is released or the client has ended; a failure after a timeout. */
function* nextOf(put: Put, job: LogJob, hasNext: () => boolean) {
  const { cpu, client: { cq, mode, idlePs } } = put;
  const hasMore = () => job.over ? put.outstanding === 0 : put.freeSlots.length > 0 && hasNext();
  const deadline = put.outstanding > 0 ? cpu.now + idlePs : NEVER;
  const also = { signal: job.signal, ready: hasMore };
  const completions = yield* waitCompletion(cq, { mode, deadline, also });
  if (completions.length > 0 || hasMore() || put.outstanding === 0) return completions;
  return { error: "Nothing has completed for too long" };
}

function takeAcks(put: Put, job: LogJob, { replica, segment }: Part): void {
  const before = replica.acked;
  const has = (slot: number) => slot < put.next && (put.flags[slot]! & PERSISTED) !== 0;
  while (has(replica.acked - segment.first)) replica.acked++;
  if (replica.acked === before) return;
  const { behindSince, caughtUp } = replica;
  if (replica.acked >= job.durable && behindSince !== undefined) {
    const { now } = put.cpu;
    replica.behindSince = undefined;
    caughtUp.times++;
    caughtUp.lastAt = now;
    caughtUp.longestPs = Math.max(caughtUp.longestPs, now - behindSince);
  }
  changed(job);
}
