/**
 * Appends records to a log in another host's SCM by compound updates: the record, then the tail
 * (`compound_methods.ts`). Reports the number of records confirmed durable.
 */
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_FLUSH_PERSISTENT,
  IBV_SEND_SIGNALED,
} from "../../verbs/flags.ts";
import { POLICIES } from "../../../../fabric/rack/plan/vocabulary.ts";
import { assert } from "../../../../fabric/base/assert.ts";
import { sge } from "../../verbs/post.ts";
import type { Steps } from "../../cpu/program.ts";
import {
  type Append,
  type AppendOptions,
  createAppend,
  logBytes,
  rangeOf,
  readOptions,
  recordOf,
  RECORDS_AT,
  TAIL_BYTES,
  tailOf,
} from "./append_job.ts";
import {
  encodeMessage,
  encodePendingMessage,
  HEADER_BYTES,
  immediateOf,
  policyOf,
  wordTailBytes,
} from "../common/persist_protocol.ts";
import { auditRound, auditWrites, resultOf, traceRound } from "./append_report.ts";
import { compoundPlan, type CompoundRequest } from "./compound_methods.ts";
import { wordOption } from "../common/options.ts";
import { announcesWrites } from "../persist/put_methods.ts";
import {
  answeredBy,
  failedCompletion,
  type Failure,
  isFailure,
  isReceive,
  makeRegions,
  measured,
  nextCompletions,
  openObject,
  type PersistClient,
  post,
  postRecvs,
  type Region,
  runClient,
  waitingOptions,
} from "../persist/persist_client.ts";
import type { SendRequest, WorkCompletion } from "../../verbs/objects.ts";
import type { ProgramContext } from "../../program_context.ts";
import { flagsFor } from "../common/send_flags.ts";

/**
 * Requests of an update over all rounds; `wrId` is this times the update's number plus the
 * request's index.
 */
const REQUESTS_MAX = 4;
/**
 * Places in an update's buffer: the tail, a byte for a READ's response, a message about the tail
 * alone, and one with the record behind it.
 */
const READ_AT = TAIL_BYTES, TAIL_MESSAGE_AT = 16, MESSAGE_AT = 64;
const COMMIT_BYTES = HEADER_BYTES + wordTailBytes(TAIL_BYTES);
const RECORD_AT = MESSAGE_AT + COMMIT_BYTES;

/**
 * The program. Options: `to`; `name` of the log (log), which must not exist; `records` (64) of
 * `size` (256) bytes; `method` (persist-opcode); `update` (ordered); `depth` (1) outstanding
 * updates; `policy` (auto), `completion`, `attempts`, `pauseUs`, `idleUs` as in `put`. Reports
 * `result`.
 */
export function* append(context: ProgramContext): Steps<void> {
  const { cpu, options: given } = context;
  const read = readOptions(given);
  const options = { ...read, depth: Math.min(read.depth, read.records) };
  const { to, method, recordBytes, depth } = options;
  const policy = wordOption(given, "policy", { words: POLICIES, otherwise: "auto" });
  const terms = {
    method,
    ...(announcesWrites(method)
      ? { messageBytes: recordBytes, headBytes: RECORDS_AT }
      // The tail and its address follow a plain message's header.
      : { messageBytes: recordBytes + wordTailBytes(TAIL_BYTES) }),
    // An update has up to four requests.
    depth: 2 * depth,
    policy: policyOf(method, policy),
  };
  yield* runClient(context, { to, terms, ...waitingOptions(context) }, {
    report: { program: "append", ...options },
    prepare: (client) => prepare(client, options),
    *run(job) {
      return resultOf(job, yield* measured(cpu, transfer(job)));
    },
  });
}

/** An existing log is not overwritten: its records may be in use. */
function* openLog(client: PersistClient, options: AppendOptions): Steps<Region | Failure> {
  const { name } = options;
  const there = yield* openObject(client, { name });
  if (!isFailure(there)) return { error: `There is a log ${name} already` };
  if (!there.error.endsWith("not-found")) return there;
  return yield* openObject(client, { name, length: logBytes(options) });
}

function* prepare(client: PersistClient, options: AppendOptions): Steps<Append | Failure> {
  const { method, update, depth } = options;
  const { server: { flush: flusher, receive }, policy } = client;
  const plan = compoundPlan({ method, flusher, receive, policy, update });
  if (plan === undefined) return { error: `${method} has no update that is ${update}` };
  const region = yield* openLog(client, options);
  if (isFailure(region)) return region;
  if (method === "send-read" && region.ring === undefined) return { error: "protocol" };
  const slotBytes = Math.ceil((RECORD_AT + options.recordBytes) / MESSAGE_AT) * MESSAGE_AT;
  const regions = yield* makeRegions(client.pd, [
    { bytes: depth * slotBytes, access: IBV_ACCESS_LOCAL_WRITE },
  ]);
  if (isFailure(regions)) return regions;
  return createAppend({ options, client, region, plan, slots: regions[0]!, slotBytes });
}

function* transfer(append: Append): Steps<Failure | undefined> {
  const { client, options: { records }, cpu } = append;
  while (append.outstanding > 0 || append.next < records) {
    const begun = append.next;
    const requests = [...secondRounds(append), ...firstRounds(append)];
    if (requests.length > 0) {
      yield* cpu.settle();
      append.postedAt.fill(cpu.now, begun, append.next);
      const refusal = yield* post(client, requests);
      if (refusal !== undefined) return refusal;
    }
    const completions = yield* nextCompletions(client);
    if (isFailure(completions)) return completions;
    let receives = 0;
    for (const completion of completions) {
      if (completion.status !== "SUCCESS") return failedCompletion(completion);
      if (handle(append, completion) === "receive") receives++;
    }
    append.requests.recv += receives;
    const refusal = receives > 0 ? yield* postRecvs(client, receives) : undefined;
    if (refusal !== undefined) return refusal;
  }
  return undefined;
}

/** A tail must not overtake an earlier one. */
function secondRounds(append: Append): SendRequest[] {
  const { plan, updates } = append;
  const requests: SendRequest[] = [];
  if (plan.rounds.length === 1) return requests;
  for (;;) {
    const update = updates[append.nextSecond];
    if (update === undefined || update.completions + update.answers > 0) return requests;
    requests.push(...roundOf(append, append.nextSecond++));
  }
}

function firstRounds(append: Append): SendRequest[] {
  const { freeSlots, options: { records }, updates } = append;
  const requests: SendRequest[] = [];
  while (append.next < records) {
    const slot = freeSlots.pop();
    if (slot === undefined) break;
    const index = append.next++;
    updates[index] = { slot, round: 0, completions: 0, answers: 0 };
    append.outstanding++;
    if (append.cpu.auditing) auditWrites(append, index);
    requests.push(...roundOf(append, index));
  }
  return requests;
}

function roundOf(append: Append, index: number): SendRequest[] {
  const { plan, updates } = append;
  const update = updates[index]!;
  const round = plan.rounds[update.round]!;
  const before = plan.rounds.slice(0, update.round).flat().length;
  const requests = round.map((request, i) => {
    const isSignaled = plan.confirmedBy === "each" || i === round.length - 1;
    if (isSignaled) update.completions++;
    const wrId = REQUESTS_MAX * index + before + i;
    const sends = requestOf(append, index, request);
    const { sendFlags = IBV_SEND_SIGNALED } = sends;
    return {
      ...sends,
      wrId,
      sendFlags: isSignaled ? sendFlags : sendFlags & ~IBV_SEND_SIGNALED,
    };
  });
  update.answers = plan.confirmedBy === "each"
    ? round.length
    : plan.confirmedBy === "answer"
    ? 1
    : 0;
  update.round++;
  append.rounds++;
  if (append.cpu.tracing) traceRound(append, index, requests);
  return requests;
}

function requestOf(append: Append, index: number, request: CompoundRequest): SendRequest {
  const { options, region, slots, slotBytes, requests, updates, cpu } = append;
  const [from, to] = rangeOf(options, index, request.part);
  const slot = updates[index]!.slot * slotBytes;
  const remote = { va: region.va + from, rkey: region.rkey };
  const { opcode } = request;
  switch (opcode) {
    case "read":
      requests.read++;
      return { opcode, sges: [sge(slots, slot + READ_AT, 1)], remote: region.ring ?? remote };
    case "flush":
      requests.flush++;
      return {
        opcode,
        remote,
        flush: { placement: IBV_FLUSH_PERSISTENT, selectivity: "range", length: to - from },
      };
    case "send": {
      requests.send++;
      const bytes = messageOf(append, index, request);
      const at = slot + (request.part === "tail" ? TAIL_MESSAGE_AT : MESSAGE_AT);
      cpu.store(slots.address + at, bytes);
      return {
        opcode,
        sendFlags: flagsFor(bytes.length),
        sges: [sge(slots, at, bytes.length)],
      };
    }
    default: {
      requests.write++;
      const isTail = request.part === "tail";
      const offset = slot + (isTail ? 0 : RECORD_AT);
      cpu.store(slots.address + offset, isTail ? tailOf(index + 1) : recordOf(options, index));
      return {
        opcode,
        sendFlags: flagsFor(to - from),
        sges: [sge(slots, offset, to - from)],
        remote,
        ...(opcode === "write-immediate" &&
          { immediate: immediateOf({ message: index, isHead: isTail }) }),
      };
    }
  }
}

function messageOf(append: Append, index: number, request: CompoundRequest): Uint8Array {
  const { options, region } = append;
  const { message, part } = request;
  const isCommit = message === "commit" || message === "commit-data";
  const [from, to] = rangeOf(options, index, isCommit ? "record" : part);
  const range = { id: index, va: region.va + from, length: to - from };
  const tail = tailOf(index + 1);
  const then = { va: region.va, bytes: tail };
  switch (message) {
    case "commit":
      return encodeMessage({ type: "commit", ...range, then });
    case "commit-data": {
      const head = encodeMessage({ type: "commit-data", ...range, then });
      const bytes = new Uint8Array(head.length + options.recordBytes);
      bytes.set(head);
      bytes.set(recordOf(options, index), head.length);
      return bytes;
    }
    case "deposit": {
      const scmOffset = region.scmOffset + from, sequence = ++append.deposits;
      assert(region.ring !== undefined, "A region for pending messages has no receive buffers");
      const place = { id: index, scmOffset, sequence, ...region.ring };
      return encodePendingMessage(place, part === "tail" ? tail : recordOf(options, index));
    }
    default:
      return encodeMessage({ type: "persist-mark", ...range });
  }
}

function handle(append: Append, completion: WorkCompletion): "receive" | "send" {
  const { client, plan, byPsn } = append;
  if (isReceive(completion)) {
    const index = answeredBy(client, completion, byPsn);
    const update = index === undefined ? undefined : append.updates[index];
    if (update === undefined || update.answers === 0) {
      append.unexpected++;
    } else {
      update.answers--;
      recordProgress(append, index!);
    }
    return "receive";
  }
  const index = Math.floor(completion.wrId / REQUESTS_MAX);
  if (plan.confirmedBy === "each") byPsn.set(completion.psn, index);
  append.updates[index]!.completions--;
  recordProgress(append, index);
  return "send";
}

function recordProgress(append: Append, index: number): void {
  const { plan, cpu, updates, isConfirmed, freeSlots } = append;
  const update = updates[index]!;
  if (update.completions + update.answers > 0) return;
  auditRound(append, index);
  if (update.round < plan.rounds.length) return;
  const latencyPs = cpu.now - append.postedAt[index]!;
  append.latency[index] = latencyPs;
  const { method, recordBytes } = append.options;
  const promisedBytes = plan.promises ? recordBytes : 0;
  cpu.measured({ operation: "append", method, latencyPs, promisedBytes });
  append.outstanding--;
  freeSlots.push(update.slot);
  isConfirmed[index] = 1;
  while (isConfirmed[append.confirmed] === 1) append.confirmed++;
}
