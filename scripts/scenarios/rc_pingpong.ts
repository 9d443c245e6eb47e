/**
 * A port, to lay beside the example of that name in rdma-core (libibverbs/examples): two ends send
 * a buffer to and fro over an RC queue pair that the program connects itself, state by state. The
 * data that the example sends over TCP (QPN, PSN, GID) go here as private data of librdmacm's
 * messages: there are no sockets.
 *
 * The end that has `server` in its options is the client. The other options are the example's:
 * `size`, `mtu`, `rxDepth`, `iters`, `events` (sleep on completion events), `chk` (check the
 * received content).
 */
import {
  type CompChannel,
  type Cq,
  IBV_ACCESS_LOCAL_WRITE,
  IBV_SEND_INLINE,
  IBV_SEND_SIGNALED,
  type Mr,
  must,
  type OpenDevice,
  type PathMtu,
  type ProgramContext,
  type ProgramCpu,
  PS_PER_US,
  type Qp,
  type RdmaCmEvent,
  type RdmaCmEventType,
  type RdmaEventChannel,
  type SendFlags,
  sizeOption,
  type Steps,
  type WorkCompletion,
} from "rackmesh";

const RECV_WRID = 1, SEND_WRID = 2;
const PORT = 18515;

/** One end needs it of the other before their queue pairs can be connected. */
interface Destination {
  readonly qpn: number;
  readonly psn: number;
  readonly address: number;
}

/** `struct pingpong_context`. */
interface Pingpong {
  readonly cpu: ProgramCpu;
  readonly device: OpenDevice;
  readonly channel: CompChannel | undefined;
  readonly mr: Mr;
  readonly cq: Cq;
  readonly qp: Qp;
  readonly size: number;
  readonly rxDepth: number;
  readonly mtu: PathMtu;
  readonly sendFlags: SendFlags;
}

export default function* rcPingpong({ cpu, device, options }: ProgramContext): Steps<void> {
  const { server, iters = 1000, chk = false } = options as Options;
  const context = yield* open({ cpu, device, options });
  const { mr, size, rxDepth } = context;
  cpu.store(mr.address, new Uint8Array(size).fill(server === undefined ? 0x7b : 0x7c));
  let posts = yield* postRecvs(context, rxDepth);
  yield* server === undefined ? answerClient(context) : askServer(context, server);

  const from = cpu.now;
  // The client begins; the server answers each received buffer.
  let pending = RECV_WRID;
  if (server !== undefined) {
    yield* postSend(context);
    pending |= SEND_WRID;
  }
  let received = 0, sent = 0;
  while (received < iters || sent < iters) {
    for (const { wrId, status, reason } of yield* nextCompletions(context)) {
      if (status !== "SUCCESS") throw new Error(`Work request ${wrId}: ${status}, ${reason}`);
      if (wrId === SEND_WRID) sent++;
      else {
        received++;
        if (--posts <= 1) posts += yield* postRecvs(context, rxDepth - posts);
        const [last] = chk ? cpu.load(mr.address + size - 1, 1) : [0x7c];
        if (last !== 0x7c) throw new Error(`Message ${received} ends with ${last}: expected 124`);
      }
      pending &= ~wrId;
      if (sent < iters && pending === 0) {
        yield* postSend(context);
        pending = RECV_WRID | SEND_WRID;
      }
    }
  }
  const tookPs = cpu.now - from;
  cpu.log(`${iters} iters of ${size} bytes: ${tookPs / iters / PS_PER_US} us/iter`);
  cpu.report("result", { program: "rc_pingpong", iters, size, tookPs });
}

interface Options {
  readonly server?: string;
  readonly rxDepth?: number;
  readonly iters?: number;
  readonly mtu?: PathMtu;
  readonly events?: boolean;
  readonly chk?: boolean;
}

/**
 * `pp_init_ctx`: buffer, channel, protection domain, region, completion queue, a queue pair in
 * INIT.
 */
function* open({ cpu, device, options }: ProgramContext): Steps<Pingpong> {
  const { createCompChannel, allocPd, regMr, createCq, reqNotifyCq } = device.verbs;
  const { createQp, queryQp, modifyQp } = device.verbs;
  const { rxDepth = 500, mtu = 1024, events = false } = options as Options;
  const size = sizeOption(options, "size", 4096);
  const channel = events ? createCompChannel(device) : undefined;
  const pd = allocPd(device);
  const mr = must(yield* regMr(pd, cpu.allocate(size), { access: IBV_ACCESS_LOCAL_WRITE }));
  const cq = must(yield* createCq(device, { entries: rxDepth + 1, ...(channel && { channel }) }));
  if (channel !== undefined) must(yield* reqNotifyCq(cq));
  const qp = must(
    yield* createQp(pd, { type: "rc", sendCq: cq, recvCq: cq, maxSendWr: 1, maxRecvWr: rxDepth }),
  );
  const { caps } = must(yield* queryQp(qp));
  const sendFlags = IBV_SEND_SIGNALED | (caps.maxInlineData >= size ? IBV_SEND_INLINE : 0);
  must(yield* modifyQp(qp, { state: "init", accessFlags: 0 }));
  return { cpu, device, channel, mr, cq, qp, size, rxDepth, mtu, sendFlags };
}

function* postRecvs({ device, qp, mr }: Pingpong, count: number): Steps<number> {
  const { postRecv, sge } = device.verbs;
  for (let i = 0; i < count; i++) must(yield* postRecv(qp, { wrId: RECV_WRID, sges: [sge(mr)] }));
  return count;
}

function* postSend({ device, qp, mr, sendFlags }: Pingpong): Steps<void> {
  const { postSend, sge } = device.verbs;
  must(yield* postSend(qp, { opcode: "send", wrId: SEND_WRID, sges: [sge(mr)], sendFlags }));
}

/**
 * Sleeps until the channel has an event, if there is one: no event that comes meanwhile is missed.
 * Else it polls: `waitCompletion` is the loop around `pollCq`, and a run ends where nothing can
 * complete any more.
 */
function* nextCompletions({ device, channel, cq }: Pingpong): Steps<WorkCompletion[]> {
  const { getChannelEvent, ackCqEvents, reqNotifyCq, pollCq, waitCompletion } = device.verbs;
  if (channel === undefined) return yield* waitCompletion(cq, { mode: "poll", most: 2 });
  must(yield* getChannelEvent(channel));
  must(ackCqEvents(cq, 1));
  must(yield* reqNotifyCq(cq));
  return yield* pollCq(cq, 2);
}

/** `pp_connect_ctx`: INIT to RTR to RTS. */
function* connectQp({ device, qp, mtu }: Pingpong, psn: number, peer: Destination): Steps<void> {
  const { modifyQp } = device.verbs;
  must(
    yield* modifyQp(qp, {
      state: "rtr",
      pathMtu: mtu,
      destQpn: peer.qpn,
      destAddress: peer.address,
      rqPsn: peer.psn,
      maxDestRdAtomic: 1,
      minRnrTimer: 12,
    }),
  );
  const timers = { timeout: 14, retryCnt: 7, rnrRetry: 7 };
  must(yield* modifyQp(qp, { state: "rts", ...timers, sqPsn: psn, maxRdAtomic: 1 }));
}

/**
 * `pp_client_exch_dest`: tells the server this end's destination, and connects to the one it
 * answers.
 */
function* askServer(context: Pingpong, server: string): Steps<void> {
  const { cpu, device, qp } = context;
  const { rdmaCreateEventChannel, rdmaCreateId, rdmaResolveAddr, rdmaResolveRoute } = device.verbs;
  const { rdmaConnect, rdmaEstablish } = device.verbs;
  const events = rdmaCreateEventChannel(device);
  const id = must(rdmaCreateId(events, { ps: "tcp" }));
  must(rdmaResolveAddr(id, { to: server, port: PORT }));
  yield* nextEvent(device, events, "ADDR_RESOLVED");
  must(rdmaResolveRoute(id));
  yield* nextEvent(device, events, "ROUTE_RESOLVED");
  const mine = destinationOf(cpu, qp);
  // The queue pair is the program's own: the id knows its number alone.
  must(yield* rdmaConnect(id, { qpNum: qp.qpn, privateData: encoded(mine) }));
  const { param } = yield* nextEvent(device, events, "CONNECT_RESPONSE");
  yield* connectQp(context, mine.psn, decoded(param.conn!.privateData));
  must(yield* rdmaEstablish(id));
}

/** `pp_server_exch_dest`: connects to the client's destination, then answers with its own. */
function* answerClient(context: Pingpong): Steps<void> {
  const { cpu, device, qp } = context;
  const { rdmaCreateEventChannel, rdmaCreateId, rdmaBindAddr, rdmaListen, rdmaAccept } =
    device.verbs;
  const events = rdmaCreateEventChannel(device);
  const listener = must(rdmaCreateId(events, { ps: "tcp" }));
  must(rdmaBindAddr(listener, { port: PORT }));
  must(rdmaListen(listener));
  const { id, param } = yield* nextEvent(device, events, "CONNECT_REQUEST");
  const mine = destinationOf(cpu, qp);
  yield* connectQp(context, mine.psn, decoded(param.conn!.privateData));
  must(yield* rdmaAccept(id, { qpNum: qp.qpn, privateData: encoded(mine) }));
  yield* nextEvent(device, events, "ESTABLISHED");
}

function* nextEvent(
  device: OpenDevice,
  events: RdmaEventChannel,
  expected: RdmaCmEventType,
): Steps<RdmaCmEvent> {
  const { rdmaGetCmEvent, rdmaAckCmEvent } = device.verbs;
  const event = must(yield* rdmaGetCmEvent(events));
  must(rdmaAckCmEvent(event));
  if (event.event === expected) return event;
  throw new Error(`Found ${event.event} (${event.reason}): expected ${expected}`);
}

function destinationOf(cpu: ProgramCpu, { qpn }: Qp): Destination {
  return { qpn, psn: Math.floor(cpu.random() * 2 ** 24), address: cpu.addresses[cpu.host]! };
}

function encoded({ qpn, psn, address }: Destination): Uint8Array {
  const view = new DataView(new ArrayBuffer(12));
  [qpn, psn, address].forEach((word, i) => view.setUint32(4 * i, word));
  return new Uint8Array(view.buffer);
}

function decoded({ buffer, byteOffset }: Uint8Array): Destination {
  const view = new DataView(buffer, byteOffset, 12);
  return { qpn: view.getUint32(0), psn: view.getUint32(4), address: view.getUint32(8) };
}
