/**
 * A thread of the log's client for one replica and one connection: reads what is there, as long as that
 * is not known of enough replicas, then sends slot after slot from the first that the replica has not
 * said is persistent. It ends when the connection does; the client starts another.
 *
 * After a failure nothing is taken for persistent that was not said to be: what a READ finds may be in
 * a cache of a host whose card alone has failed.
 */
import { NEVER } from "../../../../fabric/time/time.ts";
import { OutOfMemory } from "../../address_map.ts";
import { waitCompletion } from "../../completion_queue.ts";
import { postSend, type SendRequest } from "../../post.ts";
import type { Steps, ThreadContext } from "../../program.ts";
import {
  closeClient,
  type Failure,
  isFailure,
  openClient,
  openObject,
  type PersistClient,
} from "../persist_client.ts";
import { PERSISTED, type Put } from "../put_job.ts";
import { promisesPersistence } from "../put_methods.ts";
import { handle, postDueRecvs, prepare } from "../put.ts";
import { begin } from "../put_requests.ts";
import { fetchObject } from "../get.ts";
import { logBytes, readQuorum, scanLog, slotBytes } from "./layout.ts";
import { changed, type LogJob, type Replica } from "./log_job.ts";

/** Serves the replica until its connection ends, or the client does. */
export function* serveReplica(
  context: ThreadContext,
  job: LogJob,
  replica: Replica,
): Steps<void> {
  replica.tries++;
  const failure = yield* tryOnce(context, job, replica);
  replica.lost = failure?.error;
  if (failure !== undefined && !job.over) yield* context.cpu.sleep(job.options.pausePs);
  replica.running = false;
  changed(job);
}

/** What a try has taken of memory is not given back, so that it may give out. @returns why it ended. */
function* tryOnce(
  context: ThreadContext,
  job: LogJob,
  replica: Replica,
): Steps<Failure | undefined> {
  try {
    return (yield* scan(context, job, replica)) ?? (yield* replicate(context, job, replica));
  } catch (error) {
    if (!(error instanceof OutOfMemory)) throw error;
    return { error: error.message };
  }
}

/** Reads the replica's log where that is still wanted. */
function* scan(
  { device }: ThreadContext,
  job: LogJob,
  replica: Replica,
): Steps<Failure | undefined> {
  const { options, shape, scans, replicas } = job;
  const enough = readQuorum(replicas.length, options.quorum);
  if (scans.size >= enough) return undefined;
  const bytes = yield* fetchObject(device, {
    from: replica.host,
    name: shape.name,
    messageBytes: 4096,
    depth: 8,
    mode: options.mode,
    ...patience(options),
  });
  if (isFailure(bytes) && !bytes.error.endsWith("not-found")) return bytes;
  // Who has no log, or one of another shape, has nothing of this one.
  const isOurs = !isFailure(bytes) && bytes.length === logBytes(shape);
  if (scans.size < enough) {
    scans.set(replica.host, isOurs ? scanLog(shape, bytes) : { claimed: 0, records: [] });
  }
  changed(job);
  return undefined;
}

/** One try: the client decides when there is another. */
function patience({ pausePs, idlePs }: LogJob["options"]) {
  return { attempts: 1, pausePs, idlePs };
}

function* replicate(
  { device, cpu }: ThreadContext,
  job: LogJob,
  replica: Replica,
): Steps<Failure | undefined> {
  const { options, shape, slots } = job;
  const { method, depth, mode } = options;
  const messageBytes = slotBytes(shape);
  // The write that persists completes as suits who flushes there (P-29); the others have one way.
  const policy = method === "persist-opcode" || method === "persist-address"
    ? "auto" as const
    : "persistence" as const;
  const terms = { method, messageBytes, depth, policy };
  while (job.limit === 0 && !job.over) yield* waitChange(job, cpu);
  const client = yield* openClient(device, { to: replica.host, terms, mode, ...patience(options) });
  if (isFailure(client)) return client;
  replica.promises = promisesPersistence(method, client.server);
  const object = { name: shape.name, length: logBytes(shape) };
  const region = yield* openObject(client, object);
  if (!isFailure(region)) replica.place = region.scmOffset;
  const put = isFailure(region) ? region : yield* prepare(client, {
    options: { ...options, to: replica.host, name: shape.name, messageBytes, inline: undefined },
    region,
    data: slots,
  });
  const failure = isFailure(put) ? put : yield* stream(put, job, replica);
  yield* closeClient(client);
  return failure;
}

function* waitChange(job: LogJob, cpu: ThreadContext["cpu"]): Steps<void> {
  const { changes } = job;
  yield* cpu.settle();
  if (job.changes === changes) yield* cpu.waitSignal(job.signal, NEVER);
}

/** Sends slots as the client lets them go, and says which the replica has. @returns why it stopped. */
function* stream(put: Put, job: LogJob, replica: Replica): Steps<Failure | undefined> {
  put.next = replica.acked;
  let followUps: SendRequest[] = [];
  while (!job.over || put.outstanding > 0) {
    const requests = followUps, first = put.next;
    followUps = [];
    while (put.freeSlots.length > 0 && put.next < job.limit && !job.over) {
      requests.push(...begin(put, put.next++));
    }
    if (requests.length > 0) {
      yield* put.cpu.settle();
      put.postedAt.fill(put.cpu.now, first, put.next);
      const refusal = yield* postSend(put.client.connection.qp, requests);
      if (refusal !== undefined) return { error: `${refusal.errno}: ${refusal.reason}` };
    }
    const completions = yield* nextOf(put, job);
    if (isFailure(completions)) return completions;
    for (const completion of completions) {
      if (completion.status !== "SUCCESS") return { error: completion.status };
      const followUp = handle(put, completion);
      if (followUp !== undefined) followUps.push(followUp);
    }
    const refusal = yield* postDueRecvs(put);
    if (refusal !== undefined) return refusal;
    takeAcks(put, job, replica);
  }
  return undefined;
}

/** Completions; none where the client lets more go, or has ended. Silence with work out is a failure. */
function* nextOf(put: Put, job: LogJob) {
  const { client, next, cpu } = put;
  const { cq, mode, idlePs }: PersistClient = client;
  const hasMore = () =>
    job.over ? put.outstanding === 0 : put.freeSlots.length > 0 && next < job.limit;
  const deadline = put.outstanding > 0 ? cpu.now + idlePs : NEVER;
  const also = { signal: job.signal, ready: hasMore };
  const completions = yield* waitCompletion(cq, { mode, deadline, also });
  if (completions.length > 0 || hasMore() || put.outstanding === 0) return completions;
  return { error: "Nothing has completed for too long" };
}

/** A promise is for its own slot: what counts is how far there is no gap. */
function takeAcks(put: Put, job: LogJob, replica: Replica): void {
  const before = replica.acked;
  while (replica.acked < put.next && put.flags[replica.acked]! & PERSISTED) replica.acked++;
  if (replica.acked > before) changed(job);
}
