/**
 * A requester's connection to a host's `persistd`, with its policy (P-29), and the common main
 * function of `put`, `append`, `get`, `list`, `remove`.
 */
import { type AccessFlags, IBV_ACCESS_LOCAL_WRITE } from "../../verbs/flags.ts";
import { PS_PER_US, type Time } from "../../../../fabric/base/time.ts";
import { connect } from "../../cm/connect.ts";
import { type Connection, disconnect, type Refusal, refused } from "../../cm/connection.ts";
import { waitCompletion } from "../../verbs/completion_queue.ts";
import { createCq, destroyCq } from "../../verbs/create_cq.ts";
import { allocated, failed } from "../../verbs/device.ts";
import { allocPd, deallocPd, deregMr, regMr } from "../../verbs/memory_region.ts";
import { postRecv, postSend, sge } from "../../verbs/post.ts";
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
  Cq,
  Mr,
  Pd,
  PostError,
  RecvRequest,
  SendRequest,
  WorkCompletion,
} from "../../verbs/objects.ts";
import type { CmDevice } from "../../cm/gsi.ts";
import { flagsFor, SMALL_INLINE } from "../common/send_flags.ts";

export interface PersistClient {
  readonly device: CmDevice;
  readonly connection: Connection;
  readonly pd: Pd;
  readonly cq: Cq;
  readonly server: ServerTerms;
  /** P-29: `auto` is resolved. */
  readonly policy: "persistence" | "reception";
  readonly mode: "poll" | "interrupt";
  readonly idlePs: Time;
  readonly recvMr: Mr;
  readonly recvBytes: number;
  readonly freeRecvs: number[];
  readonly controlMr: Mr;
}

export interface ClientOptions {
  readonly to: string;
  readonly terms: Terms;
  readonly mode: "poll" | "interrupt";
  /** A host or service may be booting: how often to try, and the wait between. */
  readonly attempts: number;
  readonly pausePs: Time;
  readonly idlePs: Time;
}

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

export interface Failure {
  readonly error: string;
}

export function failedCompletion({ status, reason }: WorkCompletion): Failure {
  return { error: reason === undefined ? status : `${status}: ${reason}` };
}

export function isFailure<T>(answer: T | Failure): answer is Failure {
  return typeof answer === "object" && answer !== null && "error" in answer;
}

const SPARE_RECVS = 4;

/** The host or service may still be booting; other refusals are final. */
const WORTH_ANOTHER_TRY: ReadonlySet<Refusal["refused"]> = new Set(["timeout", "no-service"]);

export function* makeRegions(
  pd: Pd,
  wanted: readonly { readonly bytes: number; readonly access: AccessFlags }[],
): Steps<Mr[] | Failure> {
  const regions: Mr[] = [];
  for (const { bytes, access } of wanted) {
    const buffer = allocated(() => pd.device.cpu.allocate(bytes));
    const region = failed(buffer) ? buffer : yield* regMr(pd, buffer, { access });
    if (!failed(region)) {
      regions.push(region);
      continue;
    }
    if (!failed(buffer)) pd.device.cpu.free(buffer);
    yield* giveBack(regions);
    return { error: region.reason };
  }
  return regions;
}

/**
 * To be called when their queue pairs are destroyed and the RNIC's last writes have reached at
 * least the host's buffers.
 */
function* giveBack(regions: readonly Mr[]): Steps<void> {
  // ENOENT after a failure of the RNIC: the region is gone.
  for (const region of regions) yield* deregMr(region);
  for (const { pd, address } of regions) pd.device.cpu.free({ address });
}

/** Frees all where it fails. The responder's flush mechanism resolves `auto`. */
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
    { bytes: slots * recvBytes, access: IBV_ACCESS_LOCAL_WRITE },
    { bytes: CONTROL_BYTES, access: 0 },
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
  const { mode, idlePs } = options;
  const client: PersistClient = {
    ...reached,
    device,
    pd,
    cq,
    mode,
    idlePs,
    recvMr,
    recvBytes,
    freeRecvs: Array.from({ length: slots }, (_, slot) => slots - 1 - slot),
    controlMr,
  };
  // Answers may arrive before the program has posted its receive.
  const refusal = yield* postRecvs(client, terms.depth + SPARE_RECVS);
  if (refusal === undefined) return client;
  yield* releaseClient(client, []);
  return refusal;
}

function* giveBackQueue({ cq, pd }: Pick<PersistClient, "cq" | "pd">): Steps<void> {
  yield* destroyCq(cq);
  deallocPd(pd);
}

function* reach(
  device: CmDevice,
  options: ClientOptions,
  { pd, cq }: { readonly pd: Pd; readonly cq: Cq },
): Steps<Pick<PersistClient, "connection" | "server" | "policy"> | Failure> {
  const slots = slotsFor(options.terms.depth);
  let { policy } = options.terms;
  let attempt = 0;
  for (;;) {
    const persistCompletion = policy === "auto" ? "persistence" as const : policy;
    const answer = yield* connect(device, {
      to: options.to,
      service: SERVICE,
      privateData: encodeTerms({ ...options.terms, policy }),
      qp: {
        pd,
        sendCq: cq,
        recvCq: cq,
        maxSendWr: slots,
        maxRecvWr: slots,
        persistCompletion,
        ...SMALL_INLINE,
      },
    });
    const server = decodeServerTerms(answer.privateData);
    if (!refused(answer)) {
      if (server !== undefined) return { connection: answer, server, policy: persistCompletion };
      yield* disconnect(answer);
      return { error: "protocol" };
    }
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

/** At most `depth` messages are outstanding. Arrays are by message. */
export function createWindow(depth: number, count: number) {
  return {
    freeSlots: Array.from({ length: depth }, (_, slot) => depth - 1 - slot),
    postedAt: new Float64Array(count),
    latency: new Float64Array(count).fill(-1),
    /** Persistence is reported by PSN (P-28). */
    byPsn: new Map<number, number>(),
    requests: { write: 0, read: 0, send: 0, flush: 0, recv: 0 },
    next: 0,
    outstanding: 0,
    /** Duplicate or unmatched confirmations: 0 by P-30. */
    unexpected: 0,
  };
}

/** @returns times, CPU time, and the reason of an early end. */
export function* measured(cpu: Cpu, transfer: Steps<Failure | undefined>): Steps<Measured> {
  const startPs = cpu.now, workPs = cpu.workPs;
  const failure = yield* transfer;
  return { startPs, endPs: cpu.now, cpuPs: cpu.workPs - workPs, error: failure?.error };
}

export interface Measured {
  readonly startPs: Time;
  readonly endPs: Time;
  readonly cpuPs: Time;
  readonly error: string | undefined;
}

export interface ClientProgram<Job> {
  readonly report: Readonly<Record<string, unknown>>;
  readonly prepare: (client: PersistClient) => Steps<Job | Failure>;
  readonly run: (job: Job) => Steps<Record<string, unknown>>;
}

export function* runClient<Job>(
  { cpu, device }: Pick<ProgramContext, "cpu" | "device">,
  options: ClientOptions,
  { report, prepare, run }: ClientProgram<Job>,
): Steps<void> {
  const client = yield* openClient(device, options);
  const job = isFailure(client) ? client : yield* prepare(client);
  const result = isFailure(job) ? { ...report, ...outcomeOf(job.error) } : yield* run(job);
  cpu.report("result", result);
  if (!isFailure(client)) yield* disconnect(client.connection);
}

/** @returns the reason of a failure. */
export function* post(
  { connection }: PersistClient,
  requests: SendRequest | readonly SendRequest[],
): Steps<Failure | undefined> {
  return failureOf(yield* postSend(connection.qp, requests));
}

function failureOf(refusal: PostError | undefined): Failure | undefined {
  return refusal && { error: `${refusal.errno}: ${refusal.reason}` };
}

/** `wrId` is the slot. @returns the reason of a failure. */
export function* postRecvs(client: PersistClient, count: number): Steps<Failure | undefined> {
  const { recvMr, recvBytes, freeRecvs, connection } = client;
  const requests: RecvRequest[] = freeRecvs.splice(freeRecvs.length - count).map((slot) => {
    return { wrId: slot, sges: [sge(recvMr, slot * recvBytes, recvBytes)] };
  });
  return failureOf(yield* postRecv(connection.qp, requests));
}

/** @returns undefined for an invalid message. */
export function received(
  client: PersistClient,
  completion: WorkCompletion,
): PersistMessage | undefined {
  const { recvMr, recvBytes } = client;
  const at = recvMr.address + completion.wrId * recvBytes;
  return decodeMessage(client.device.cpu.load(at, completion.byteLen));
}

/**
 * @returns the program's message that is answered: by its number, or by the PSN of a persisted write (P-28), which leaves `byPsn`.
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

/** @returns a failure after the timeout. */
export function* nextCompletions(client: PersistClient): Steps<WorkCompletion[] | Failure> {
  const { mode, idlePs, device } = client;
  const deadline = device.cpu.now + idlePs;
  const completions = yield* waitCompletion(client.cq, { mode, deadline });
  if (completions.length > 0) return completions;
  return { error: `Nothing has completed for ${idlePs / PS_PER_US} µs` };
}

export function* ask(
  client: PersistClient,
  message: PersistMessage,
): Steps<PersistMessage | Failure> {
  const { controlMr, device } = client;
  const bytes = encodeMessage(message);
  device.cpu.store(controlMr.address, bytes);
  const sges = [sge(controlMr, 0, bytes.length)];
  const refusal = yield* post(client, {
    opcode: "send",
    sendFlags: flagsFor(bytes.length),
    sges,
  });
  if (refusal !== undefined) return refusal;
  let answer: PersistMessage | undefined;
  let sent = false;
  while (answer === undefined || !sent) {
    const completions = yield* nextCompletions(client);
    if (isFailure(completions)) return completions;
    for (const completion of completions) {
      if (completion.status !== "SUCCESS") return failedCompletion(completion);
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

interface Opening {
  readonly name: string;
  readonly length?: number;
  readonly alone?: true;
  /** The object is written beside the old one, until {@link publish}. */
  readonly replaces?: true;
  /** For reading: an incomplete object counts, too. */
  readonly partial?: boolean;
}

export function* openObject(client: PersistClient, object: Opening): Steps<Region | Failure> {
  const { name, length, alone, replaces, partial } = object;
  const way = { ...(alone && { alone }), ...(replaces && { replaces }) };
  const message: PersistMessage = length === undefined
    ? { type: "open-read", id: 0, name, ...(partial && { partial }) }
    : { type: "open-write", id: 0, name, length, ...way };
  const answer = yield* ask(client, message);
  if (isFailure(answer)) return answer;
  return answer.type === "region" ? answer : { error: "protocol" };
}

export function* publish(
  client: PersistClient,
  { complete }: { readonly complete: boolean },
): Steps<Failure | undefined> {
  const answer = yield* ask(client, { type: "publish", id: 0, complete });
  if (isFailure(answer)) return { error: `publish: ${answer.error}` };
  return answer.type === "publish" ? undefined : { error: "publish: protocol" };
}

/** For a program that connects often. @param regions further ones of {@link makeRegions}. */
export function* releaseClient(client: PersistClient, regions: readonly Mr[]): Steps<void> {
  yield* disconnect(client.connection);
  yield* giveBack([client.recvMr, client.controlMr, ...regions]);
  yield* giveBackQueue(client);
}
