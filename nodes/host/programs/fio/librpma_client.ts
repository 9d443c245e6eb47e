/**
 * Clients of librpma: WRITE, then a flush of the written range. `librpma_apm_client` flushes by a
 * READ of the same queue pair, which is answered when the WRITEs before it have reached memory
 * (Appliance Persistency Method); `librpma_gpspm_client` by a SEND, which the server answers when
 * its CPU has made the range persistent (General Purpose Server Persistency Method).
 */
import type { SendRequest } from "../../verbs/objects.ts";
import type { Connection } from "../../cm/connection.ts";
import { disconnect } from "../../cm/connection.ts";
import type { CmDevice } from "../../cm/gsi.ts";
import type { Steps } from "../../cpu/program.ts";
import { pollCq } from "../../verbs/completion_queue.ts";
import { createCq } from "../../verbs/create_cq.ts";
import { must } from "../../verbs/device.ts";
import { IBV_SEND_SIGNALED } from "../../verbs/flags.ts";
import { allocPd, regMr } from "../../verbs/memory_region.ts";
import type { Cq, Mr, Pd, WorkCompletion } from "../../verbs/objects.ts";
import { postRecv, postSend, sge } from "../../verbs/post.ts";
import {
  ACCESS,
  checked,
  connectTo,
  endingOnFailure,
  engineError,
  filledBuffer,
  nextCompletion,
} from "./connection.ts";
import type { Engine, IoUnit } from "./io_loop.ts";
import type { FioJob } from "./job.ts";
import {
  decodeFlushResponse,
  decodeWorkspace,
  encodeFlushRequest,
  type FlushRequest,
  MESSAGE_BYTES,
  type Workspace,
} from "./messages.ts";

/** Bytes of a flushing READ (RPMA_FLUSH_APM_RAW_SIZE). */
const RAW_BYTES = 8;
/** A request and its answer (IO_U_BUF_LEN). */
const SLOT_BYTES = 2 * MESSAGE_BYTES;

const RECVS_LEAST = 16;

export interface RpmaClient {
  readonly engine: Engine;
  readonly connection: Connection;
  readonly workspace: Workspace;
  readonly close: () => Steps<void>;
}

interface Client {
  readonly device: CmDevice;
  readonly job: FioJob;
  readonly connection: Connection;
  readonly cq: Cq;
  readonly data: Mr;
  readonly blockBytes: number;
  readonly workspace: Workspace;
  /** For gpspm: requests and their answers, in turn. */
  readonly messages: { readonly mr: Mr; readonly slots: number; next: number } | undefined;
  /** For apm: the target of flushing READs. */
  readonly raw: Mr;
  readonly inFlight: IoUnit[];
  readonly ready: IoUnit[];
  readonly flushesMax: number;
  flushes: number;
  sendsPosted: number;
  sendsCompleted: number;
  recvsCompleted: number;
}

/** Outstanding work requests, by `client_init` of both engines. */
export function queueSizes(
  job: Pick<FioJob, "engine" | "readPercent" | "random" | "sync" | "iodepth" | "batch">,
): { readonly sends: number; readonly messages: number } {
  const { engine, readPercent, random, sync, iodepth, batch } = job;
  const batches = Math.ceil(iodepth / batch);
  if (engine === "librpma_gpspm_client") {
    const messages = random ? iodepth : sync ? 1 : batches;
    return { sends: (sync && !random ? 1 : iodepth) + messages, messages };
  }
  const isMixed = readPercent > 0 && readPercent < 100;
  if (random || isMixed) return { sends: 2 * iodepth, messages: 0 };
  if (readPercent === 100) return { sends: sync ? 1 : iodepth, messages: 0 };
  return { sends: sync ? 2 : iodepth + batches, messages: 0 };
}

/** @throws EngineError, ProgramError */
export function* openRpmaClient(device: CmDevice, job: FioJob): Steps<RpmaClient> {
  const isGpspm = job.engine === "librpma_gpspm_client";
  const { sends, messages } = queueSizes(job);
  const pd = allocPd(device);
  // The last entry is for gpspm's termination notice.
  const cq = must(yield* createCq(device, { entries: sends + messages + 1 }));
  const connection = yield* connectTo(device, job, {
    qp: {
      pd,
      sendCq: cq,
      recvCq: cq,
      maxSendWr: sends,
      // the server's send queue has its iodepth, which the client does not know.
      maxRecvWr: isGpspm ? Math.max(messages, RECVS_LEAST) : 0,
      ...(!isGpspm && { oneSided: true }),
    },
  });
  return yield* endingOnFailure(
    connection,
    () => beginOn(connection, { job, pd, cq, messages, sends }),
  );
}

function* beginOn(
  connection: Connection,
  { job, pd, cq, messages, sends }: {
    readonly job: FioJob;
    readonly pd: Pd;
    readonly cq: Cq;
    readonly messages: number;
    readonly sends: number;
  },
): Steps<RpmaClient> {
  const { device } = connection;
  const { cpu } = device;
  const isGpspm = job.engine === "librpma_gpspm_client";
  const workspace = decodeWorkspace(connection.privateData);
  if (workspace === undefined) {
    throw engineError("EIO", `${job.to} has no librpma server on port ${job.port}`);
  }
  refuseWorkspace(job, workspace, messages);
  const blockBytes = Math.max(job.blockSizes.read.most, job.blockSizes.write.most);
  const buffer = yield* filledBuffer(cpu, blockBytes * job.iodepth);
  const data = must(yield* regMr(pd, buffer, { access: ACCESS }));
  const raw = must(yield* regMr(pd, cpu.allocate(RAW_BYTES), { access: ACCESS }));
  const slots = must(
    yield* regMr(pd, cpu.allocate(Math.max(1, messages) * SLOT_BYTES), { access: ACCESS }),
  );
  const client: Client = {
    device,
    job,
    connection,
    cq,
    data,
    blockBytes,
    workspace,
    messages: isGpspm ? { mr: slots, slots: messages, next: 0 } : undefined,
    raw,
    inFlight: [],
    ready: [],
    flushesMax: isGpspm ? messages : Math.max(1, sends - job.iodepth),
    flushes: 0,
    sendsPosted: 0,
    sendsCompleted: 0,
    recvsCompleted: 0,
  };
  return {
    workspace,
    engine: {
      commit: (units) => commit(client, units),
      getEvents: (least, most) => getEvents(client, least, most),
      sync: (unit) => runOne(client, unit),
    },
    connection,
    close: () => close(client),
  };
}

function refuseWorkspace(job: FioJob, workspace: Workspace, messages: number): void {
  const { isPersistent, directWriteToPmem } = workspace;
  if (job.engine === "librpma_apm_client") {
    if (!isPersistent || directWriteToPmem) return;
    const found = "the server's memory is persistent and direct_write_to_pmem is 0";
    throw engineError("EINVAL", `${found}: expected 1, or librpma_gpspm engines`);
  }
  if (messages <= workspace.messages) return;
  const found = `the server's iodepth is ${workspace.messages}`;
  throw engineError("EINVAL", `${found}: expected ${messages}, as many as the client's flushes`);
}

/** `librpma_fio_client_commit`: one flush for a sequence, but one for each random I/O. */
function* commit(client: Client, units: readonly IoUnit[]): Steps<void> {
  const { random } = client.job;
  let first: IoUnit | undefined;
  let length = 0;
  for (const [i, unit] of units.entries()) {
    const next = units[i + 1];
    if (unit.direction === "read") {
      yield* postRead(client, unit, next === undefined || next.direction === "write");
      continue;
    }
    yield* postWrite(client, unit);
    first ??= unit;
    length += unit.bytes;
    // A sequence goes on at the workspace's beginning behind its end: a separate range.
    const goesOn = next?.direction === "write" && next.offset === unit.offset + unit.bytes;
    if (!random && goesOn) continue;
    yield* flush(client, { offset: first.offset, length, context: unit.index });
    first = undefined;
    length = 0;
  }
}

function* post(client: Client, request: SendRequest): Steps<void> {
  must(yield* postSend(client.connection.qp, request));
}

function placeOf({ data, blockBytes }: Client, { index, bytes }: IoUnit) {
  return sge(data, index * blockBytes, bytes);
}

function remoteAt({ workspace }: Client, offset: number) {
  return { va: workspace.va + offset, rkey: workspace.rkey };
}

function* postRead(client: Client, unit: IoUnit, signaled: boolean): Steps<void> {
  yield* post(client, {
    opcode: "read",
    wrId: unit.index,
    sges: [placeOf(client, unit)],
    remote: remoteAt(client, unit.offset),
    sendFlags: signaled ? IBV_SEND_SIGNALED : 0,
  });
  client.inFlight.push(unit);
}

/** RPMA_F_COMPLETION_ON_ERROR: the flush has the completion. */
function* postWrite(client: Client, unit: IoUnit): Steps<void> {
  yield* post(client, {
    opcode: "write",
    wrId: unit.index,
    sges: [placeOf(client, unit)],
    remote: remoteAt(client, unit.offset),
  });
  client.inFlight.push(unit);
}

function* flush(client: Client, request: FlushRequest): Steps<void> {
  const { messages, raw, flushesMax, connection: { qp } } = client;
  while (client.flushes >= flushesMax || client.sendsPosted - client.sendsCompleted >= flushesMax) {
    client.ready.push(...takeCompleted(client, yield* completionOf(client)));
  }
  client.flushes++;
  if (messages === undefined) {
    return yield* post(client, {
      opcode: "read",
      wrId: request.context,
      sges: [sge(raw, 0, RAW_BYTES)],
      remote: remoteAt(client, request.offset),
      sendFlags: IBV_SEND_SIGNALED,
    });
  }
  const at = (messages.next % messages.slots) * SLOT_BYTES + MESSAGE_BYTES;
  must(yield* postRecv(qp, { wrId: at, sges: [sge(messages.mr, at, MESSAGE_BYTES)] }));
  yield* sendRequest(client, request);
}

function* sendRequest(client: Client, request: FlushRequest): Steps<void> {
  const { device: { cpu } } = client;
  const messages = client.messages!;
  const at = (messages.next++ % messages.slots) * SLOT_BYTES;
  const bytes = encodeFlushRequest(request);
  cpu.store(messages.mr.address + at, bytes);
  client.sendsPosted++;
  yield* post(client, {
    opcode: "send",
    sges: [sge(messages.mr, at, bytes.length)],
    sendFlags: IBV_SEND_SIGNALED,
  });
}

function unitIndexOf(client: Client, completion: WorkCompletion): number | undefined {
  const { messages, device: { cpu } } = client;
  const { opcode, wrId, byteLen } = checked(completion);
  if (messages === undefined) return wrId;
  if (opcode === "send") {
    client.sendsCompleted++;
    return undefined;
  }
  client.recvsCompleted++;
  const index = decodeFlushResponse(cpu.load(messages.mr.address + wrId, byteLen));
  if (index === undefined) throw engineError("EIO", "the server's answer is no flush response");
  return index;
}

/** Takes I/O up to the completed one, which covers earlier ones. */
function takeCompleted(client: Client, completion: WorkCompletion): IoUnit[] {
  const index = unitIndexOf(client, completion);
  if (index === undefined) return [];
  const count = client.inFlight.findIndex((unit) => unit.index === index) + 1;
  if (count === 0) throw engineError("EIO", `no I/O ${index} is in flight, and it has completed`);
  const units = client.inFlight.splice(0, count);
  if (units[count - 1]!.direction === "write") client.flushes--;
  return units;
}

/** `librpma_fio_client_getevents`: completions of SENDs are taken at the pace of their answers. */
function* getEvents(client: Client, least: number, most: number): Steps<IoUnit[]> {
  const { cq } = client;
  const units = client.ready.splice(0);
  const areSendsBehind = () => client.sendsCompleted < client.recvsCompleted;
  while (units.length < most || areSendsBehind()) {
    const mayEnd = units.length >= least && !areSendsBehind();
    const completion = mayEnd ? (yield* pollCq(cq, 1))[0] : yield* completionOf(client);
    if (completion === undefined) break;
    units.push(...takeCompleted(client, completion));
  }
  return units;
}

function* completionOf({ cq, connection, job }: Client): Steps<WorkCompletion> {
  const completion = yield* nextCompletion(cq, connection, "poll");
  if (completion !== undefined) return completion;
  throw engineError("EIO", `${job.to} has disconnected`);
}

/** `client_queue_sync`. */
function* runOne(client: Client, unit: IoUnit): Steps<void> {
  unit.issue = client.device.cpu.now;
  if (unit.direction === "read") yield* postRead(client, unit, true);
  else {
    yield* postWrite(client, unit);
    yield* flush(client, { offset: unit.offset, length: unit.bytes, context: unit.index });
  }
  while (client.inFlight.length > 0) takeCompleted(client, yield* completionOf(client));
  yield* takeSends(client);
}

/** The next SENDs need room (`io_complete_all_sends`). */
function* takeSends(client: Client): Steps<void> {
  while (client.sendsCompleted < client.sendsPosted) {
    takeCompleted(client, yield* completionOf(client));
  }
}

function* close(client: Client): Steps<void> {
  const { messages, connection } = client;
  if (messages !== undefined && connection.qp.life.state === "rts") {
    yield* takeSends(client);
    yield* sendRequest(client, { offset: 0, length: 0, context: 0 });
    yield* takeSends(client);
  }
  yield* disconnect(connection);
}
