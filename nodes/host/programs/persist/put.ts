/**
 * Writes a file into an object of another host's SCM by a method of `put_methods.ts`, and reports confirmed bytes and
 * latencies.
 *
 * It writes beside the existing object of that name, in reserved space with a `pending` entry; when every message has
 * completed, the service publishes it, by one 8-byte word of the directory, and frees the old space. So a `put` that
 * fails or is cut short, at any instant and on any device, leaves the old object or the new one; with no old one, none.
 * With no room for both, the old object is removed first (`withdrawn`). An object in one of the scenario's `regions` has
 * one place, and is incomplete from the first byte to the last. Several puts of one name write separate places, and the
 * last published one is the object; in a region, a later one disconnects an earlier one. Space is reused when no object
 * and no requester has it.
 */
import { IBV_ACCESS_LOCAL_WRITE } from "../../verbs/flags.ts";
import { CRC_MAKERS, POLICIES, PUT_METHODS } from "../../../../fabric/rack/plan/vocabulary.ts";
import { VERIFY_LEVELS } from "../../../../fabric/wire/roce/verify_eth.ts";
import type { Cpu, Steps } from "../../cpu/program.ts";
import { countOption, type Options, textOption, wordOption } from "../common/options.ts";
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
  publish,
  type Region,
  runClient,
  waitingOptions,
} from "./persist_client.ts";
import { outcomeOf } from "../common/summary.ts";
import { HEADER_BYTES, isPersistentWrite, policyOf } from "../common/persist_protocol.ts";
import { methodPlan, type Stage } from "./put_methods.ts";
import { MADE_UP, madeUpBytes } from "../common/made_up.ts";
import {
  auditObject,
  auditStage,
  promises,
  rangeOf,
  reportProgress,
  resultOf,
  type Stored,
  tracePosts,
  traceRecvs,
  traceStage,
} from "./put_report.ts";
import type { SendRequest, WorkCompletion } from "../../verbs/objects.ts";
import type { ProgramContext } from "../../program_context.ts";
import {
  createPut,
  follow,
  headerBytes,
  messageToRewrite,
  PERSISTED,
  type Put,
  PUT_DEFAULTS,
  type PutOptions,
  requestsOf,
  STAGES,
  takeSlot,
  WRITTEN,
} from "./put_messages.ts";

function readOptions(options: Options): PutOptions {
  const { inline } = options;
  const file = options.file === undefined ? MADE_UP : textOption(options, "file");
  return {
    to: textOption(options, "to"),
    file,
    name: textOption(options, "name", file === MADE_UP ? "data" : file.split("/").at(-1)!),
    method: wordOption(options, "method", { words: PUT_METHODS, otherwise: "persist-opcode" }),
    messageBytes: countOption(options, "size", { least: 1, otherwise: 4096 }),
    depth: countOption(options, "depth", { least: 1, otherwise: 16 }),
    inline: typeof inline === "boolean" ? inline : undefined,
    level: wordOption(options, "level", { words: VERIFY_LEVELS, otherwise: PUT_DEFAULTS.level }),
    crcBy: wordOption(options, "crc", { words: CRC_MAKERS, otherwise: PUT_DEFAULTS.crcBy }),
    rewrites: countOption(options, "rewrites", { least: 0, otherwise: PUT_DEFAULTS.rewrites }),
    claims: options.claims === true,
  };
}

function dataOf(
  cpu: Cpu,
  from: { readonly options: PutOptions; readonly given: Options },
): Uint8Array | undefined {
  const { options, given } = from;
  if (given.content instanceof Uint8Array) return given.content;
  if (options.file !== MADE_UP) return cpu.input(options.file);
  const bytes = countOption(given, "bytes", { least: 1, otherwise: 64 * 1024 });
  return madeUpBytes(bytes, options.name);
}

/** This host's traffic so far, in both directions, in frames and their captured bytes; undefined of a dead card. */
function* takeFigures(cpu: Cpu): Steps<{ frames: number; bytes: number } | undefined> {
  const reply = yield* cpu.command({ op: "query-statistics" });
  if (reply.status !== "ok" || reply.op !== "query-statistics") return undefined;
  const { framesIn = 0, framesOut = 0, bytesIn = 0, bytesOut = 0 } = reply.counters;
  return { frames: framesIn + framesOut, bytes: bytesIn + bytesOut };
}

/**
 * The program. Options: `to`; `file`, its `content` in an order to a running rack, or `bytes` (64
 * KiB) of generated data; `name` of the object (the file's); `method` (persist-opcode), `size` of a
 * message (4096), `depth` (16), `policy` (auto), `completion` (the host's), `inline`, `attempts`
 * (10), `pauseUs` (200), `idleUs` (50000); for verified writes `level` (verify-crc), `crc` (card)
 * and `rewrites` (3); `claims: true`, which is wrong on purpose, treats the confirmations of every
 * method as a promise. Reports `progress` and `result`.
 */
export function* put(context: ProgramContext): Steps<void> {
  const { cpu, options: given } = context;
  const options = readOptions(given);
  const { to, name, file, method, messageBytes, depth: wanted } = options;
  const report = { program: "put", to, file, name, method, messageBytes, depth: wanted };
  const data = dataOf(cpu, { options, given });
  if (data === undefined || data.length === 0) {
    cpu.report("result", { ...report, ...outcomeOf(`No input ${options.file}`) });
    return;
  }
  const depth = Math.min(wanted, Math.ceil(data.length / messageBytes));
  const policy = policyOf(
    method,
    wordOption(given, "policy", { words: POLICIES, otherwise: "auto" }),
  );
  const terms = { method, messageBytes, depth, policy };
  yield* runClient(context, { to, terms, ...waitingOptions(context) }, {
    report,
    *prepare(client) {
      const region = yield* openObject(client, {
        name: options.name,
        length: data.length,
        replaces: true,
      });
      if (isFailure(region)) return region;
      return yield* prepare(client, { options: { ...options, depth }, region, data });
    },
    *run(job) {
      auditObject(job, { state: "begun" });
      const before = yield* takeFigures(cpu);
      const run = yield* measured(cpu, transfer(job, paceOf(job)));
      const after = yield* takeFigures(cpu);
      const wire = before && after &&
        { frames: after.frames - before.frames, bytes: after.bytes - before.bytes };
      const stored = run.error === undefined ? yield* store(job) : { error: run.error };
      return resultOf(job, { ...run, ...(wire && { wire }), ...stored });
    },
  });
}

function* store(put: Put): Steps<Stored> {
  const { options: { claims }, cpu } = put;
  const complete = claims || promises(put);
  yield* cpu.settle();
  auditObject(put, { state: "asked", complete });
  const failure = yield* publish(put.client, { complete });
  if (failure !== undefined) return failure;
  auditObject(put, { state: "stored", complete });
  return { error: undefined, stored: complete ? "complete" : "incomplete" };
}

export function* prepare(
  client: PersistClient,
  { options, region, data }: {
    readonly options: PutOptions;
    readonly region: Region;
    readonly data: Uint8Array;
  },
): Steps<Put | Failure> {
  if (options.method === "send-read" && region.ring === undefined) return { error: "protocol" };
  const { method, level } = options;
  const { server, policy } = client;
  const plan = methodPlan(method, { ...server, policy, level });
  const slotBytes = options.messageBytes + headerBytes(options.method);
  const scratchBytes = plan.second === "compare" ? options.messageBytes : HEADER_BYTES;
  const regions = yield* makeRegions(client.pd, [
    { bytes: options.depth * slotBytes, access: 0 },
    { bytes: options.depth * scratchBytes, access: IBV_ACCESS_LOCAL_WRITE },
  ]);
  if (isFailure(regions)) return regions;
  const slots = regions[0]!, scratch = regions[1]!;
  return createPut({
    options,
    client,
    region,
    plan,
    data,
    slots,
    slotBytes,
    scratch,
    scratchBytes,
  });
}

/** A `put` begins messages within `depth`, a log as it releases them. */
export interface Pace {
  readonly hasNext: () => boolean;
  readonly isOver: () => boolean;
  readonly beforePost?: (requests: readonly SendRequest[]) => void;
  readonly nextCompletions: () => Steps<readonly WorkCompletion[] | Failure>;
  readonly afterCompletions: () => void;
}

function paceOf(put: Put): Pace {
  return {
    hasNext: () => put.next < put.count,
    isOver: () => put.next === put.count,
    beforePost: (requests) => {
      if (put.cpu.tracing) tracePosts(put, requests);
    },
    nextCompletions: () => nextCompletions(put.client),
    afterCompletions: () => reportProgress(put),
  };
}

/** @returns the reason of an early end. */
export function* transfer(put: Put, pace: Pace): Steps<Failure | undefined> {
  const { client, cpu } = put;
  let followUps: SendRequest[] = [];
  while (put.outstanding > 0 || !pace.isOver()) {
    const first = put.next;
    const requests = followUps;
    followUps = [];
    while (put.freeSlots.length > 0 && pace.hasNext()) {
      const index = put.next++;
      takeSlot(put, index);
      requests.push(...requestsOf(put, index));
    }
    if (requests.length > 0) {
      yield* cpu.settle();
      put.postedAt.fill(cpu.now, first, put.next);
      pace.beforePost?.(requests);
      const refusal = yield* post(client, requests);
      if (refusal !== undefined) return refusal;
    }
    const completions = yield* pace.nextCompletions();
    if (isFailure(completions)) return completions;
    for (const completion of completions) {
      const again = yield* messageToRewrite(put, completion);
      if (isFailure(again)) return again;
      if (again !== undefined) {
        followUps.push(...requestsOf(put, again));
        continue;
      }
      if (completion.status !== "SUCCESS") return failedCompletion(completion);
      const followUp = handle(put, completion);
      if (followUp !== undefined) followUps.push(followUp);
    }
    // S317, S1012: for answers to finished first requests.
    const due = put.recvsDue.splice(0);
    put.requests.recv += due.length;
    if (cpu.tracing && due.length > 0) traceRecvs(put, due);
    const refusal = due.length > 0 ? yield* postRecvs(client, due.length) : undefined;
    if (refusal !== undefined) return refusal;
    pace.afterCompletions();
  }
  return undefined;
}

function handle(put: Put, completion: WorkCompletion): SendRequest | undefined {
  const { plan } = put;
  if (isReceive(completion)) {
    const index = answeredBy(put.client, completion, put.byPsn);
    const awaited = index === undefined ? 0 : put.awaited[index] ?? 0;
    if (awaited & STAGES.reply) recordStage(put, index!, { stage: "reply", completion });
    else put.unexpected++;
    return undefined;
  }
  const index = Math.floor(completion.wrId / 2);
  const stage = completion.wrId % 2 === 0 ? "first" : "second";
  recordStage(put, index, { stage, completion });
  if (stage === plan.recvAfter) put.recvsDue.push(index);
  if (stage === "first" && plan.second !== undefined && !plan.together) return follow(put, index);
  if (plan.recvAfter !== undefined && isPersistentWrite(put.options.method)) {
    put.byPsn.set(completion.psn, index);
  }
  return undefined;
}

function recordStage(
  put: Put,
  index: number,
  event: { readonly stage: Stage; readonly completion: WorkCompletion },
): void {
  const { plan, cpu } = put;
  const { stage } = event;
  if (cpu.tracing) traceStage(put, index, event);
  if (cpu.auditing) auditStage(put, index, stage);
  if (stage === plan.writtenBy) {
    put.flags[index]! |= WRITTEN;
    put.written++;
  }
  if (stage === plan.persistedBy) {
    put.flags[index]! |= PERSISTED;
    put.persisted++;
    put.latency[index] = cpu.now - put.postedAt[index]!;
    const [from, to] = rangeOf(put, index);
    cpu.measured({
      operation: "put",
      method: put.options.method,
      latencyPs: put.latency[index]!,
      promisedBytes: promises(put) ? to - from : 0,
    });
  }
  put.awaited[index]! &= ~STAGES[stage];
  // An answer may overtake its request's completion, whose data may have to be sent again.
  if (put.awaited[index] !== 0) return;
  put.outstanding--;
  put.freeSlots.push(put.slotOf[index]!);
}
