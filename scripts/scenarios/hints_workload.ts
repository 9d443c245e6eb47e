/**
 * Workloads (H-30), each between a client and a server whose memory is not there:
 *
 *     small      `count` WRITEs of `bytes` each, a page apart
 *     storage    READs and WRITEs of `bytes` each, of blocks that are drawn, each of them once
 *     huge       one WRITE of `bytes`, then again: the extra time of the first is its stall
 *     rpc        `count` requests by SEND, each into a receive buffer of its own, and a reply to each
 *
 * Clients take turns, so that the server's card counts for one at a time.
 */
import {
  type Connection,
  type Cq,
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_SEND_SIGNALED,
  type Mr,
  type ProgramContext,
  type SendRequest,
  sizeOption,
  type Steps,
} from "rackmesh";
import { tellMeasured, tellServed } from "./hints_measured.ts";
import {
  admit,
  connectTo,
  countersOf,
  type Counts,
  flagsFor,
  MAX_INLINE,
  nextRequest,
  remoteOf,
} from "./peer.ts";

const SERVICE = "hints";
const PAGE = 4096;
/** Both cards' initial messages about hints have arrived by then. */
const AGREED_PS = 100e6;

export default function* workload(context: ProgramContext): Steps<void> {
  yield* context.options.role === "server" ? serve(context) : measure(context);
}

interface Job {
  readonly workload: string;
  readonly bytes: number;
  readonly count: number;
  /** Outstanding messages. */
  readonly depth: number;
  readonly stride: number;
}

function jobOf({ options }: ProgramContext): Job {
  const bytes = sizeOption(options, "bytes"), count = Number(options.count ?? 1);
  const stride = Math.ceil(bytes / PAGE) * PAGE;
  return {
    workload: String(options.workload),
    bytes,
    count,
    depth: Number(options.depth ?? 1),
    stride,
  };
}

function* serve(context: ProgramContext): Steps<void> {
  const { cpu, device, options } = context;
  const { workload, bytes, count, depth, stride } = jobOf(context);
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 4 * count + 16 }));
  const listener = v.must(v.listen(device, SERVICE));
  let before: Counts = {};
  for (let left = Number(options.clients); left > 0; left--) {
    const request = yield* nextRequest(device, listener);
    const buffer = cpu.allocate(count * stride);
    const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    const mr = v.must(yield* v.regMr(pd, buffer, { access }));
    const isRpc = workload === "rpc";
    const maxRecvWr = isRpc ? Math.max(count, depth) : depth;
    const qp = {
      pd,
      sendCq: cq,
      recvCq: cq,
      maxSendWr: depth,
      maxRecvWr,
      maxInlineData: MAX_INLINE,
    };
    const connection = yield* admit({ device, listener }, request, { qp, mr });
    if (isRpc) yield* answer(context, { connection, cq, mr }, { bytes, count, stride });
    for (let ended = yield* v.waitEvent(listener); ended?.kind !== "closed";) {
      ended = yield* v.waitEvent(listener);
    }
    before = yield* tellServed(cpu, { client: connection.peer.host, before });
    yield* v.disconnect(connection);
    v.must(yield* v.deregMr(mr));
  }
}

interface End {
  readonly connection: Connection;
  readonly cq: Cq;
  readonly mr: Mr;
}

/** A reply of the same length to each request, out of the buffer that it came into. */
function* answer(
  { device: { verbs: v } }: ProgramContext,
  { connection: { qp }, cq, mr }: End,
  { bytes, count, stride }: Pick<Job, "bytes" | "count" | "stride">,
): Steps<void> {
  const sges = (i: number) => [v.sge(mr, i * stride, bytes)], sendFlags = flagsFor(bytes);
  const receives = Array.from({ length: count }, (_, i) => ({ wrId: i, sges: sges(i) }));
  v.must(yield* v.postRecv(qp, receives));
  for (let replied = 0; replied < count;) {
    for (const { status, opcode, wrId } of yield* v.waitCompletion(cq)) {
      if (status !== "SUCCESS") return;
      if (opcode === "send") replied++;
      else v.must(yield* v.postSend(qp, { opcode: "send", sendFlags, sges: sges(wrId) }));
    }
  }
}

function* measure(context: ProgramContext): Steps<void> {
  const { cpu, device } = context;
  const job = jobOf(context);
  const { workload, bytes, count, depth } = job;
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 4 * depth + 16 }));
  const mr = v.must(yield* v.regMr(pd, cpu.allocate(bytes), { access: IBV_ACCESS_LOCAL_WRITE }));
  const isRpc = workload === "rpc";
  const maxRecvWr = isRpc ? Math.max(count, depth) : depth;
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: depth, maxRecvWr, maxInlineData: MAX_INLINE };
  const to = String(context.options.to ?? "server");
  const connection = yield* connectTo(device, { to, service: SERVICE, qp });
  const end = { connection, cq, mr };
  if (isRpc) {
    const sges = [v.sge(mr)];
    v.must(yield* v.postRecv(connection.qp, Array.from({ length: count }, () => ({ sges }))));
  }
  yield* cpu.sleep(AGREED_PS);
  const before = yield* countersOf(cpu);
  const requests = requestsOf(context, end, job);
  const cold = yield* run(context, end, { requests, depth, isRpc });
  const stall: { stallPs?: number } = {};
  if (workload === "huge") {
    const warm = yield* run(context, end, { requests, depth, isRpc });
    stall.stallPs = (cold.latencies[0] ?? 0) - (warm.latencies[0] ?? 0);
  }
  yield* tellMeasured(cpu, { workload: nameOf(job), to, ...cold, ...stall, before });
  yield* v.disconnect(connection);
}

function nameOf({ workload, bytes, count }: Job): string {
  return `${workload}: ${count} of ${bytes} B`;
}

function requestsOf(
  { cpu, device: { verbs: v } }: ProgramContext,
  { connection, mr }: End,
  { workload, count, stride }: Job,
): SendRequest[] {
  const sges = [v.sge(mr)];
  const blocks = Array.from({ length: count }, (_, i) => i);
  if (workload === "storage") {
    for (let i = count - 1; i > 0; i--) {
      const other = Math.floor(cpu.random() * (i + 1));
      [blocks[i], blocks[other]] = [blocks[other]!, blocks[i]!];
    }
  }
  return blocks.map((block, i): SendRequest => {
    const sendFlags = flagsFor(mr.length);
    if (workload === "rpc") return { opcode: "send", sendFlags, wrId: i, sges };
    const remote = remoteOf(connection, block * stride);
    const isRead = workload === "storage" && i % 2 === 1;
    if (isRead) return { opcode: "read", sendFlags: IBV_SEND_SIGNALED, wrId: i, sges, remote };
    return { opcode: "write", sendFlags, wrId: i, sges, remote };
  });
}

function* run(
  { cpu, device: { verbs: v } }: ProgramContext,
  { connection: { qp }, cq }: End,
  { requests, depth, isRpc }: {
    readonly requests: readonly SendRequest[];
    readonly depth: number;
    readonly isRpc: boolean;
  },
): Steps<{ latencies: number[]; failed: number }> {
  const began: number[] = [], latencies: number[] = [];
  let failed = 0, replies = 0;
  while (latencies.length + failed < requests.length) {
    const ended = latencies.length + failed;
    const next = requests.slice(began.length, ended + depth);
    if (next.length > 0) {
      began.push(...next.map(() => cpu.now));
      v.must(yield* v.postSend(qp, next));
    }
    for (const { status, opcode, wrId } of yield* v.waitCompletion(cq)) {
      const isReply = opcode === "recv";
      if (isReply !== isRpc) continue;
      // Replies come in the order of the calls.
      if (status === "SUCCESS") latencies.push(cpu.now - began[isReply ? replies++ : wrId]!);
      else failed++;
    }
  }
  return { latencies, failed };
}
