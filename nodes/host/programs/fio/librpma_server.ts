/**
 * Servers of librpma: a workspace and one client per thread. The gpspm server also makes ranges
 * persistent on request.
 */
import type { Buffer } from "../../memory/address_map.ts";
import { type Connection, disconnect, waitDisconnect } from "../../cm/connection.ts";
import type { CmDevice } from "../../cm/gsi.ts";
import type { Steps } from "../../cpu/program.ts";
import { createCq } from "../../verbs/create_cq.ts";
import { must } from "../../verbs/device.ts";
import { IBV_SEND_SIGNALED } from "../../verbs/flags.ts";
import { allocPd, regMr } from "../../verbs/memory_region.ts";
import type { Cq, Mr, Qp, WorkCompletion } from "../../verbs/objects.ts";
import { postRecv, postSend, sge } from "../../verbs/post.ts";
import {
  acceptOne,
  ACCESS,
  checked,
  endingOnFailure,
  engineError,
  listenOn,
  nextCompletion,
} from "./connection.ts";
import type { FioJob } from "./job.ts";
import {
  decodeFlushRequest,
  encodeFlushResponse,
  encodeWorkspace,
  type FlushRequest,
  MESSAGE_BYTES,
} from "./messages.ts";

export interface ServerMemory {
  readonly buffer: Buffer;
  readonly offset: number;
  readonly length: number;
}

/** Returns when the client ends. @throws EngineError, ProgramError */
export function* serveRpma(device: CmDevice, job: FioJob, memory: ServerMemory): Steps<void> {
  const listener = listenOn(device, job);
  const pd = allocPd(device);
  const { buffer, offset, length } = memory;
  const workspace = must(yield* regMr(pd, buffer, { offset, length, access: ACCESS }));
  const isGpspm = job.engine === "librpma_gpspm_server";
  const messages = isGpspm ? job.iodepth : 0;
  const slots = must(
    yield* regMr(pd, device.cpu.allocate(Math.max(1, messages) * 2 * MESSAGE_BYTES), {
      access: ACCESS,
    }),
  );
  const cq = must(yield* createCq(device, { entries: Math.max(2, 2 * messages) }));
  const connection = yield* acceptOne(job, {
    listener,
    options: () => ({
      qp: { pd, sendCq: cq, recvCq: cq, maxSendWr: messages, maxRecvWr: messages },
      privateData: encodeWorkspace({
        messages,
        directWriteToPmem: job.directWriteToPmem,
        va: workspace.address,
        rkey: workspace.rkey,
        bytes: length,
        isPersistent: job.memory === "scm",
      }),
      prepare: (qp) => postSlots({ qp, slots, messages }),
    }),
  });
  if (isGpspm) {
    const server = { device, job, connection, cq, slots, workspace, queued: [], room: messages };
    yield* endingOnFailure(connection, () => serveFlushes(server));
  }
  yield* waitDisconnect(connection);
  yield* disconnect(connection);
}

function* postSlots(
  { qp, slots, messages }: { readonly qp: Qp; readonly slots: Mr; readonly messages: number },
): Steps<void> {
  for (let wrId = 0; wrId < messages; wrId++) {
    must(yield* postRecv(qp, { wrId, sges: [sge(slots, recvAt(wrId), MESSAGE_BYTES)] }));
  }
}

function sendAt(slot: number): number {
  return 2 * slot * MESSAGE_BYTES;
}

function recvAt(slot: number): number {
  return sendAt(slot) + MESSAGE_BYTES;
}

interface FlushServer {
  readonly device: CmDevice;
  readonly job: FioJob;
  readonly connection: Connection;
  readonly cq: Cq;
  readonly slots: Mr;
  readonly workspace: Mr;
  readonly queued: WorkCompletion[];
  room: number;
}

/** `server_queue`: until the termination notice, or the client's end. */
function* serveFlushes(server: FlushServer): Steps<void> {
  const { cq, connection, job: { busyWaitPolling }, queued } = server;
  const mode = busyWaitPolling ? "poll" : "interrupt";
  for (;;) {
    const completion = yield* nextCompletion(cq, connection, mode);
    if (completion === undefined) {
      throw engineError("EIO", "the client has disconnected without its termination notice");
    }
    if (checked(completion).opcode === "send") server.room++;
    else queued.push(completion);
    while (queued.length > 0 && server.room > 0) {
      if (yield* answer(server, queued.shift()!)) return;
    }
  }
}

function* answer(server: FlushServer, { wrId, byteLen }: WorkCompletion): Steps<boolean> {
  const { device: { cpu }, connection: { qp }, slots, workspace } = server;
  const request = decodeFlushRequest(cpu.load(slots.address + recvAt(wrId), byteLen));
  if (request === undefined) {
    throw engineError("EIO", "a message of the client is no flush request");
  }
  if (request.length === 0 && request.offset === 0) return true;
  refuseRange(request, workspace);
  yield* cpu.flush(workspace.address + request.offset, request.length);
  must(yield* postRecv(qp, { wrId, sges: [sge(slots, recvAt(wrId), MESSAGE_BYTES)] }));
  const bytes = encodeFlushResponse(request.context);
  cpu.store(slots.address + sendAt(wrId), bytes);
  server.room--;
  const sges = [sge(slots, sendAt(wrId), bytes.length)];
  must(yield* postSend(qp, { opcode: "send", wrId, sges, sendFlags: IBV_SEND_SIGNALED }));
  return false;
}

function refuseRange({ offset, length }: FlushRequest, { length: workspace }: Mr): void {
  if (offset + length <= workspace) return;
  throw engineError(
    "EINVAL",
    `a flush of ${length} B at ${offset}: the workspace has ${workspace} B`,
  );
}
