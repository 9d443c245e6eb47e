/**
 * A requester's connection to a host's `persistd`: terms and policy (P-29), receives, and opening
 * objects; and the course of the programs that have one: `put`, `append`, `get`, `list`.
 */
import { PS_PER_US, type Time } from "../../../../fabric/base/time.ts";
import { connect } from "../../cm/connect.ts";
import { type Connection, disconnect, type Refusal, refused } from "../../cm/connection.ts";
import { createCq, destroyCq, waitCompletion } from "../../verbs/completion_queue.ts";
import { failed } from "../../verbs/device.ts";
import { allocPd, deallocPd, deregMr, regMr } from "../../verbs/memory_region.ts";
import { postRecv, postSend, sge } from "../../verbs/post.ts";
import { type Buffer, OutOfMemory } from "../../memory/address_map.ts";
import type { Cpu, Steps } from "../../cpu/program.ts";
import {
  CONTROL_BYTES,
  decodeMessage,
  decodeServerTerms,
  encodeMessage,
  encodeTerms,
  NAMES_BYTES,
  type PersistMessage,
  type ServerTerms,
  SERVICE,
  slotsFor,
  type Terms,
} from "../common/persist_protocol.ts";
import { completionOption, countOption, microsecondsOption } from "../common/options.ts";
import { outcomeOf } from "../common/summary.ts";
import type { ProgramContext } from "../../program_context.ts";
import type {
  Access,
  Cq,
  Mr,
  Pd,
  PostError,
  RecvRequest,
  SendRequest,
  WorkCompletion,
} from "../../verbs/objects.ts";
import type { CmDevice } from "../../cm/gsi.ts";

export interface PersistClient {
  readonly device: CmDevice;
  readonly connection: Connection;
  readonly pd: Pd;
  readonly cq: Cq;
  readonly server: ServerTerms;
  /** What the queue pair does (P-29), `auto` having been resolved. */
  readonly policy: "persistence" | "reception";
  readonly mode: "poll" | "interrupt";
  readonly idlePs: Time;
  readonly recvMr: Mr;
  readonly recvBytes: number;
  /** Receive slots that are not posted. */
  readonly freeRecvs: number[];
  /** Place for one request that is not on the data path. */
  readonly controlMr: Mr;
}

export interface ClientOptions {
  readonly to: string;
  readonly terms: Terms;
  readonly mode: "poll" | "interrupt";
  /** How often, and how far apart, a host that does not answer or listen (yet) is asked again. */
  readonly attempts: number;
  readonly pausePs: Time;
  /** How long nothing may complete while something is outstanding. */
  readonly idlePs: Time;
}

/** The options of a program by which it waits for its peer: `completion`, `attempts`, `pauseUs`, `idleUs`. */
export function waitingOptions(
  { device, options }: Pick<ProgramContext, "device" | "options">,
  idleUs = 50_000,
): Omit<ClientOptions, "to" | "terms"> {
  return {
    mode: completionOption(options, device),
    attempts: countOption(options, "attempts", { least: 1, otherwise: 10 }),
    pausePs: microsecondsOption(options, "pauseUs", 200),
    idlePs: microsecondsOption(options, "idleUs", idleUs),
  };
}

/** Why a program could not go on, as its result says it. */
export interface Failure {
  readonly error: string;
}

export function isFailure<T>(answer: T | Failure): answer is Failure {
  return typeof answer === "object" && answer !== null && "error" in answer;
}

/** Memory, or a failure where there is no more. */
export function allocate(cpu: Cpu, bytes: number): Buffer | Failure {
  try {
    return cpu.allocate(bytes);
  } catch (error) {
    if (error instanceof OutOfMemory) return { error: error.message };
    throw error;
  }
}

/** Receives posted beyond the connection's depth. */
const SPARE_RECVS = 4;

/** The host may be booting, or its service; anything else is an answer. */
const WORTH_ANOTHER_TRY: ReadonlySet<Refusal["refused"]> = new Set(["timeout", "no-service"]);

/** Memory of its own for each, registered; what was taken is given back where one cannot be had. */
export function* makeRegions(
  pd: Pd,
  wanted: readonly { readonly bytes: number; readonly access: readonly Access[] }[],
): Steps<Mr[] | Failure> {
  const regions: Mr[] = [];
  for (const { bytes, access } of wanted) {
    const buffer = allocate(pd.device.cpu, bytes);
    const region = isFailure(buffer) ? buffer : yield* regMr(pd, buffer, { access });
    if (!isFailure(region) && !failed(region)) {
      regions.push(region);
      continue;
    }
    if (!isFailure(buffer)) pd.device.cpu.free(buffer);
    yield* giveBack(regions);
    return isFailure(region) ? region : { error: region.reason };
  }
  return regions;
}

/**
 * Deregisters regions of {@link makeRegions} and gives their memory back. The queue pairs that used them
 * are gone; what the RNIC wrote last is in the host's buffers at least.
 */
function* giveBack(regions: readonly Mr[]): Steps<void> {
  // ENOENT where the RNIC has failed since: then the region is gone already.
  for (const region of regions) yield* deregMr(region);
  for (const { pd, address } of regions) pd.device.cpu.free({ address });
}

/**
 * Connects, posts the receives; what was taken is given back where it fails. A policy that is left to the
 * responder becomes the one for what flushes there.
 */
export function* openClient(
  device: CmDevice,
  options: ClientOptions,
): Steps<PersistClient | Failure> {
  const { terms } = options;
  const slots = slotsFor(terms.depth);
  const recvBytes = terms.method === "read" ? NAMES_BYTES : CONTROL_BYTES;
  const cq = yield* createCq(device, { entries: 2 * slots });
  if (failed(cq)) return { error: cq.reason };
  const pd = allocPd(device);
  const regions = yield* makeRegions(pd, [
    { bytes: slots * recvBytes, access: ["localWrite"] },
    { bytes: CONTROL_BYTES, access: [] },
  ]);
  if (isFailure(regions)) {
    yield* giveBackQueue({ cq, pd });
    return regions;
  }
  const recvMr = regions[0]!, controlMr = regions[1]!;
  const reached = yield* reach(device, options, { pd, cq });
  if (isFailure(reached)) {
    yield* giveBack(regions);
    yield* giveBackQueue({ cq, pd });
    return reached;
  }
  const { connection, server, policy } = reached;
  const { mode, idlePs } = options;
  const client: PersistClient = {
    device,
    connection,
    pd,
    cq,
    server,
    policy,
    mode,
    idlePs,
    recvMr,
    recvBytes,
    freeRecvs: Array.from({ length: slots }, (_, slot) => slots - 1 - slot),
    controlMr,
  };
  // One for every answer that may come before the program has posted one for it.
  const refusal = yield* postRecvs(client, terms.depth + SPARE_RECVS);
  if (refusal === undefined) return client;
  yield* releaseClient(client, []);
  return refusal;
}

function* giveBackQueue({ cq, pd }: Pick<PersistClient, "cq" | "pd">): Steps<void> {
  yield* destroyCq(cq);
  deallocPd(pd);
}

interface Reached {
  readonly connection: Connection;
  readonly server: ServerTerms;
  readonly policy: "persistence" | "reception";
}

function* reach(
  device: CmDevice,
  options: ClientOptions,
  queues: { readonly pd: Pd; readonly cq: Cq },
): Steps<Reached | Failure> {
  let { policy } = options.terms;
  let attempt = 0;
  for (;;) {
    const persistCompletion = policy === "auto" ? "persistence" as const : policy;
    const answer = yield* tryOnce(device, options, { ...queues, policy, persistCompletion });
    if (!refused(answer)) {
      const server = decodeServerTerms(answer.privateData);
      if (server === undefined) {
        yield* disconnect(answer);
        return { error: "protocol" };
      }
      return { connection: answer, server, policy: persistCompletion };
    }
    const server = decodeServerTerms(answer.privateData);
    if (answer.refused === "rejected" && policy === "auto" && server?.flush === "cpu") {
      policy = "reception";
      continue;
    }
    attempt++;
    if (!WORTH_ANOTHER_TRY.has(answer.refused) || attempt >= options.attempts) {
      return { error: `connect: ${answer.refused}: ${answer.reason}` };
    }
    yield* device.cpu.sleep(options.pausePs);
  }
}

function tryOnce(
  device: CmDevice,
  options: ClientOptions,
  attempt: {
    readonly pd: Pd;
    readonly cq: Cq;
    readonly policy: Terms["policy"];
    readonly persistCompletion: "persistence" | "reception";
  },
): Steps<Connection | Refusal> {
  const { pd, cq, policy, persistCompletion } = attempt;
  const slots = slotsFor(options.terms.depth);
  return connect(device, {
    to: options.to,
    service: SERVICE,
    privateData: encodeTerms({ ...options.terms, policy }),
    qp: { pd, sendCq: cq, recvCq: cq, maxSendWr: slots, maxRecvWr: slots, persistCompletion },
  });
}

/** What a program does with a connection; `report` is a part of its result in any case. */
export interface ClientProgram<Job> {
  readonly report: Readonly<Record<string, unknown>>;
  readonly prepare: (client: PersistClient) => Steps<Job | Failure>;
  /** @returns the program's result. */
  readonly run: (job: Job) => Steps<Record<string, unknown>>;
}

/** Connects, runs the program, reports its `result` and ends the connection. */
export function* runClient<Job>(
  { cpu, device }: Pick<ProgramContext, "cpu" | "device">,
  options: ClientOptions,
  { report, prepare, run }: ClientProgram<Job>,
): Steps<void> {
  const client = yield* openClient(device, options);
  const job = isFailure(client) ? client : yield* prepare(client);
  const result = isFailure(job) ? { ...report, ...outcomeOf(job.error) } : yield* run(job);
  cpu.report("result", result);
  if (!isFailure(client)) yield* closeClient(client);
}

/** Posts requests. @returns why they cannot be. */
export function* post(
  { connection }: PersistClient,
  requests: SendRequest | readonly SendRequest[],
): Steps<Failure | undefined> {
  return failureOf(yield* postSend(connection.qp, requests));
}

function failureOf(refusal: PostError | undefined): Failure | undefined {
  return refusal && { error: `${refusal.errno}: ${refusal.reason}` };
}

/** Posts so many of the free receives; `wrId` is the slot. @returns why it cannot. */
export function* postRecvs(client: PersistClient, count: number): Steps<Failure | undefined> {
  const { recvMr, recvBytes, freeRecvs, connection } = client;
  const requests: RecvRequest[] = freeRecvs.splice(freeRecvs.length - count).map((slot) => {
    return { wrId: slot, sges: [sge(recvMr, slot * recvBytes, recvBytes)] };
  });
  return failureOf(yield* postRecv(connection.qp, requests));
}

/** The message that a receive brought; undefined where it is none. */
export function received(
  client: PersistClient,
  completion: WorkCompletion,
): PersistMessage | undefined {
  const { recvMr, recvBytes } = client;
  const at = recvMr.address + completion.wrId * recvBytes;
  return decodeMessage(client.device.cpu.load(at, completion.byteLen));
}

/**
 * Takes the completion of a receive in. @returns the message of this program that the answer is about: by
 * its number, or by the PSN of a persisted write (P-28), which `byPsn` forgets.
 */
export function answeredBy(
  client: PersistClient,
  completion: WorkCompletion,
  byPsn: Map<number, number>,
): number | undefined {
  client.freeRecvs.push(completion.wrId);
  if (completion.opcode === "recv-persistence") {
    const index = byPsn.get(completion.psn);
    byPsn.delete(completion.psn);
    return index;
  }
  const message = received(client, completion);
  return message?.type === "flushed" ? message.id : undefined;
}

export function isReceive({ opcode }: WorkCompletion): boolean {
  return opcode === "recv" || opcode === "recv-persistence";
}

/** Waits for completions; a failure where nothing completes for too long. */
export function* nextCompletions(client: PersistClient): Steps<WorkCompletion[] | Failure> {
  const { mode, idlePs, device } = client;
  const deadline = device.cpu.now + idlePs;
  const completions = yield* waitCompletion(client.cq, { mode, deadline });
  if (completions.length > 0) return completions;
  return { error: `Nothing has completed for ${idlePs / PS_PER_US} µs` };
}

/** Sends a request off the data path and waits for its answer. */
export function* ask(
  client: PersistClient,
  message: PersistMessage,
): Steps<PersistMessage | Failure> {
  const { controlMr, device } = client;
  const bytes = encodeMessage(message);
  device.cpu.store(controlMr.address, bytes);
  const sges = [sge(controlMr, 0, bytes.length)];
  const refusal = yield* post(client, { opcode: "send", sges });
  if (refusal !== undefined) return refusal;
  let answer: PersistMessage | undefined;
  let sent = false;
  while (answer === undefined || !sent) {
    const completions = yield* nextCompletions(client);
    if (isFailure(completions)) return completions;
    for (const completion of completions) {
      if (completion.status !== "SUCCESS") return { error: completion.status };
      if (completion.opcode !== "recv") {
        sent = true;
        continue;
      }
      answer = received(client, completion);
      if (answer === undefined) return { error: "protocol" };
      client.freeRecvs.push(completion.wrId);
      yield* postRecvs(client, 1);
    }
  }
  return answer.type === "refused" ? { error: `the responder refused it: ${answer.why}` } : answer;
}

export type Region = Extract<PersistMessage, { type: "region" }>;

/** Opens an object: to be written with `length` bytes, by this client only where `alone`, or as it is. */
export function* openObject(
  client: PersistClient,
  object: { readonly name: string; readonly length?: number; readonly alone?: true },
): Steps<Region | Failure> {
  const { name, length, alone } = object;
  const message: PersistMessage = length === undefined
    ? { type: "open-read", id: 0, name }
    : { type: "open-write", id: 0, name, length, ...(alone && { alone }) };
  const answer = yield* ask(client, message);
  if (isFailure(answer)) return answer;
  return answer.type === "region" ? answer : { error: "protocol" };
}

/** Ends the connection. What it has taken of the host is left to the program's end. */
export function* closeClient(client: PersistClient): Steps<void> {
  yield* disconnect(client.connection);
}

/**
 * Ends the connection and gives back all that it has taken, for a program that connects often.
 * @param regions more of {@link makeRegions}, for its data.
 */
export function* releaseClient(client: PersistClient, regions: readonly Mr[]): Steps<void> {
  yield* disconnect(client.connection);
  yield* giveBack([client.recvMr, client.controlMr, ...regions]);
  yield* giveBackQueue(client);
}
