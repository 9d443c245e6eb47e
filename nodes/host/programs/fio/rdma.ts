/**
 * The rdma engine: after an exchange of information blocks the client uses the server's buffers:
 * for each I/O the one of its number, or a random one in a random job (`fio_rmt_id`). Both ends
 * sleep until a completion's event. A server takes part only in `verb=send`; else it waits for the
 * client's last message.
 */
import { PS_PER_S } from "../../../../fabric/base/time.ts";
import { type Rng, rngFor } from "../../../../fabric/base/rng.ts";
import { type Connection, disconnect } from "../../cm/connection.ts";
import type { CmDevice } from "../../cm/gsi.ts";
import type { Steps } from "../../cpu/program.ts";
import { takeCompletions } from "../../verbs/completion_queue.ts";
import { createCq } from "../../verbs/create_cq.ts";
import { must } from "../../verbs/device.ts";
import { IBV_SEND_SIGNALED } from "../../verbs/flags.ts";
import { allocPd, regMr } from "../../verbs/memory_region.ts";
import type { Cq, Mr, Pd, Qp, WorkCompletion } from "../../verbs/objects.ts";
import { postRecv, postSend, sge } from "../../verbs/post.ts";
import {
  acceptOne,
  ACCESS,
  checked,
  connectTo,
  endingOnFailure,
  engineError,
  filledBuffer,
  listenOn,
  nextCompletion,
} from "./connection.ts";
import type { Engine, IoUnit } from "./io_loop.ts";
import { type FioJob, RDMA_IODEPTH_MAX, type Verb } from "./job.ts";
import { decodeInfo, encodeInfo, INFO_BYTES, type InfoBlock } from "./messages.ts";

/** No buffer has this number. */
const INFO_WR = RDMA_IODEPTH_MAX;
/** Half a second for the server to post its receives. */
const SETTLE_PS = PS_PER_S / 2;
/** rdma_connect(3); the engine asks for no RNR retry. */
const TRANSPORT = { retryCnt: 7, rnrRetry: 0 } as const;

interface End {
  readonly device: CmDevice;
  readonly job: FioJob;
  readonly pd: Pd;
  readonly cq: Cq;
  readonly data: Mr;
  readonly blockBytes: number;
  /** The block to send, then the received one. */
  readonly info: Mr;
}

interface Peer extends End {
  readonly connection: Connection;
  readonly inFlight: Map<number, IoUnit>;
}

export interface RdmaEnd {
  readonly engine: Engine;
  readonly connection: Connection;
  readonly verb: Verb;
  /** Waits for the client's last message. */
  readonly waitForEnd: () => Steps<void>;
  readonly close: () => Steps<void>;
}

function blockBytesOf({ blockSizes: { read, write } }: FioJob): number {
  return Math.max(read.most, write.most);
}

/** fio_rdmaio_setup_qp takes twice the depth. */
const DEPTH_LEAST = 16;

function depthOf({ iodepth }: FioJob): number {
  return Math.max(DEPTH_LEAST, 2 * iodepth);
}

function* openEnd(device: CmDevice, job: FioJob): Steps<End> {
  const { cpu } = device;
  const pd = allocPd(device);
  const blockBytes = blockBytesOf(job);
  const cq = must(yield* createCq(device, { entries: 2 * depthOf(job) }));
  const buffer = yield* filledBuffer(cpu, blockBytes * job.iodepth);
  const data = must(yield* regMr(pd, buffer, { access: ACCESS }));
  const info = must(yield* regMr(pd, cpu.allocate(2 * INFO_BYTES), { access: ACCESS }));
  return { device, job, pd, cq, data, blockBytes, info };
}

function qpOf({ pd, cq, job }: End) {
  const maxRecvWr = depthOf(job);
  // a server sends only information blocks, for which every client has receives.
  const maxSendWr = job.isServer ? DEPTH_LEAST : maxRecvWr;
  return { pd, sendCq: cq, recvCq: cq, maxSendWr, maxRecvWr };
}

function* postInfoRecv({ info }: End, qp: Qp): Steps<void> {
  must(yield* postRecv(qp, { wrId: INFO_WR, sges: [sge(info, INFO_BYTES, INFO_BYTES)] }));
}

function* sendInfo({ device, info, connection: { qp } }: Peer, block: InfoBlock): Steps<void> {
  device.cpu.store(info.address, encodeInfo(block));
  const sges = [sge(info, 0, INFO_BYTES)];
  must(yield* postSend(qp, { opcode: "send", wrId: INFO_WR, sges, sendFlags: IBV_SEND_SIGNALED }));
}

function* receiveInfo(peer: Peer): Steps<InfoBlock> {
  for (;;) {
    const { opcode, byteLen } = yield* completionOf(peer);
    if (opcode !== "recv") continue;
    const { device: { cpu }, info } = peer;
    const block = decodeInfo(cpu.load(info.address + INFO_BYTES, byteLen));
    if (block === undefined) throw engineError("EIO", `received bogus data, size ${byteLen}`);
    return block;
  }
}

function* completionOf({ cq, connection }: Peer): Steps<WorkCompletion> {
  const completion = yield* nextCompletion(cq, connection, "interrupt");
  if (completion !== undefined) return checked(completion);
  throw engineError("EIO", `${connection.peer.host} has disconnected`);
}

/** @throws EngineError, ProgramError */
export function* openRdmaClient(device: CmDevice, job: FioJob): Steps<RdmaEnd> {
  const end = yield* openEnd(device, job);
  const connection = yield* connectTo(device, job, { qp: qpOf(end), transport: TRANSPORT });
  return yield* endingOnFailure(connection, () => beginClient(end, connection));
}

function* beginClient(end: End, connection: Connection): Steps<RdmaEnd> {
  const { job, device } = end;
  const peer: Peer = { ...end, connection, inFlight: new Map() };
  yield* postInfoRecv(end, connection.qp);
  const { verb, iodepth, random } = job;
  const { blockBytes } = end;
  yield* sendInfo(peer, { verb, blockBytes, buffers: [], count: iodepth });
  const server = yield* receiveInfo(peer);
  if (blockBytes > server.blockBytes) {
    const found = `the server's block has ${server.blockBytes} B`;
    throw engineError("EINVAL", `${found}: expected at least the client's ${blockBytes} B`);
  }
  // client_recv: each number's I/O needs a buffer of the server.
  const buffers = server.buffers.length;
  if (verb !== "send" && !random && buffers < iodepth) {
    throw engineError("EINVAL", `the server's iodepth is ${buffers}: expected at least ${iodepth}`);
  }
  yield* device.cpu.sleep(SETTLE_PS);
  const rng = rngFor(0, "fio rdma");
  return {
    verb,
    connection,
    engine: {
      commit: (units) => commitSends(peer, units, { server, rng }),
      getEvents: (least, most) => getEvents(peer, least, most),
    },
    *waitForEnd() {},
    close: () => closeClient(peer),
  };
}

function* commitSends(
  peer: Peer,
  units: readonly IoUnit[],
  { server, rng }: { readonly server: InfoBlock; readonly rng: Rng },
): Steps<void> {
  const { job: { verb, random }, data, blockBytes, connection: { qp } } = peer;
  for (const unit of units) {
    const { index: wrId, bytes } = unit;
    const request = {
      wrId,
      sges: [sge(data, wrId * blockBytes, bytes)],
      sendFlags: IBV_SEND_SIGNALED,
    };
    if (verb === "send") must(yield* postSend(qp, { opcode: "send", ...request }));
    else {
      const remote = server.buffers[random ? rng.below(server.buffers.length) : wrId]!;
      const opcode = verb === "read" ? "read" : "write";
      must(yield* postSend(qp, { opcode, ...request, remote }));
    }
    peer.inFlight.set(wrId, unit);
  }
}

function* closeClient(peer: Peer): Steps<void> {
  const { connection, job, blockBytes } = peer;
  const { verb, iodepth: count } = job;
  if (verb !== "send" && connection.qp.life.state === "rts") {
    yield* sendInfo(peer, { verb, blockBytes, buffers: [], count });
    while ((yield* completionOf(peer)).opcode !== "send");
  }
  yield* disconnect(connection);
}

/** Serves one client. @throws EngineError, ProgramError */
export function* openRdmaServer(device: CmDevice, job: FioJob): Steps<RdmaEnd> {
  const listener = listenOn(device, job);
  const end = yield* openEnd(device, job);
  const connection = yield* acceptOne(job, {
    listener,
    options: () => ({
      qp: qpOf(end),
      transport: TRANSPORT,
      prepare: (qp) => postInfoRecv(end, qp),
    }),
  });
  return yield* endingOnFailure(connection, () => beginServer(end, connection));
}

function* beginServer(end: End, connection: Connection): Steps<RdmaEnd> {
  const { job, data, blockBytes } = end;
  const peer: Peer = { ...end, connection, inFlight: new Map() };
  const client = yield* receiveInfo(peer);
  if (blockBytes < client.blockBytes) {
    const found = `the server's block has ${blockBytes} B`;
    throw engineError("EINVAL", `${found}: expected at least the client's ${client.blockBytes} B`);
  }
  const buffers = Array.from({ length: job.iodepth }, (_, i) => {
    return { va: data.address + i * blockBytes, rkey: data.rkey, bytes: blockBytes };
  });
  // The receive is for the client's last message; a client that sends its data has none.
  if (client.verb !== "send") yield* postInfoRecv(end, connection.qp);
  yield* sendInfo(peer, { verb: client.verb, blockBytes, buffers, count: job.iodepth });
  while ((yield* completionOf(peer)).opcode !== "send");
  return {
    verb: client.verb,
    connection,
    engine: {
      commit: (units) => commitRecvs(peer, units),
      getEvents: (least, most) => getEvents(peer, least, most),
    },
    *waitForEnd() {
      for (;;) {
        const completion = yield* nextCompletion(peer.cq, connection, "interrupt");
        if (completion === undefined || checked(completion).opcode === "recv") return;
      }
    },
    close: () => disconnect(connection),
  };
}

function* commitRecvs(peer: Peer, units: readonly IoUnit[]): Steps<void> {
  const { data, blockBytes, connection: { qp } } = peer;
  for (const unit of units) {
    const { index: wrId, bytes } = unit;
    must(yield* postRecv(qp, { wrId, sges: [sge(data, wrId * blockBytes, bytes)] }));
    peer.inFlight.set(wrId, unit);
  }
}

/** `fio_rdmaio_getevents`: all present completions are taken. */
function* getEvents(peer: Peer, least: number, most: number): Steps<IoUnit[]> {
  const units: IoUnit[] = [];
  const { cq, connection, job: { isServer } } = peer;
  const take = (completion: WorkCompletion) => {
    const { wrId, opcode, byteLen } = checked(completion);
    const unit = peer.inFlight.get(wrId);
    if (unit === undefined) return;
    peer.inFlight.delete(wrId);
    if (opcode === "recv") unit.moved = byteLen;
    units.push(unit);
  };
  while (units.length < least) {
    const completion = yield* nextCompletion(cq, connection, "interrupt");
    // The client may end before the server has all of its size.
    if (completion === undefined && isServer) break;
    if (completion === undefined) {
      throw engineError("EIO", `${connection.peer.host} has disconnected`);
    }
    take(completion);
    for (const each of takeCompletions(cq, most)) take(each);
  }
  return units;
}
