/**
 * Memory on demand (`paging.yaml`): a client writes a word into a server's last page, then the
 * message four times: cold, warm, after its pages were taken back, and after that with a prefetch.
 */
import {
  type Connection,
  type Cq,
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_ADVISE_MR_FLAG_FLUSH,
  IBV_SEND_SIGNALED,
  type Mr,
  type ProgramContext,
  type Steps,
} from "rackmesh";
import {
  admit,
  connectTo,
  countersOf,
  flagsFor,
  MAX_INLINE,
  microseconds,
  nextRequest,
  remoteOf,
} from "./peer.ts";

const SERVICE = "paging";
/** Of the client to a server, as a SEND's immediate data; the answer has the same. */
const ORDERS = { pageOut: 1, prefetch: 2, statistics: 3 } as const;
const WORD_BYTES = 8;
const COUNTERS = [
  "pageFaults",
  "pagesAsked",
  "pageFaultsMerged",
  "pageFaultDrops",
  "pageFaultRnrNaks",
  "pageFaultPauses",
] as const;

export default function* paging(context: ProgramContext): Steps<void> {
  yield* context.options.role === "server" ? serve(context) : measure(context);
}

function* serve({ cpu, device, options }: ProgramContext): Steps<void> {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const buffer = cpu.allocate(Number(options.bytes));
  const mr = v.must(
    yield* v.regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE }),
  );
  const listener = v.must(v.listen(device, SERVICE));
  const request = yield* nextRequest(device, listener);
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 8, maxRecvWr: 8, maxInlineData: MAX_INLINE };
  const connection = yield* admit({ device, listener }, request, { qp, mr });
  v.must(yield* v.postRecv(connection.qp, Array.from({ length: 8 }, () => ({ sges: [] }))));
  for (;;) {
    const [order] = yield* v.waitCompletion(cq);
    if (order?.opcode !== "recv-immediate") continue;
    if (order.immData === ORDERS.pageOut) {
      // Pinned memory stays where it is: the verb says so, and nothing is different then.
      yield* v.madvise(device, { buffer, advice: "pageout" });
    } else if (order.immData === ORDERS.prefetch) {
      const sges = [v.sge(mr)];
      v.must(
        yield* v.adviseMr({ pd, sges, advice: "prefetchWrite", flags: IBV_ADVISE_MR_FLAG_FLUSH }),
      );
    } else {
      yield* tell({ cpu, device, options });
    }
    const immediate = order.immData;
    v.must(
      yield* v.postSend(connection.qp, {
        opcode: "send-immediate",
        immediate,
        sendFlags: IBV_SEND_SIGNALED,
      }),
    );
    if (immediate === ORDERS.statistics) return;
  }
}

function* tell({ cpu }: ProgramContext): Steps<void> {
  const counters = yield* countersOf(cpu);
  const counts = Object.fromEntries(COUNTERS.map((name) => [name, counters[name] ?? 0]));
  const stall = microseconds(counters.pageStallPs ?? 0);
  cpu.report("result", { program: "paging", host: cpu.host, ...counts, stall });
}

function* measure({ cpu, device, options }: ProgramContext): Steps<void> {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const bytes = Number(options.bytes);
  const mr = v.must(yield* v.regMr(pd, cpu.allocate(bytes), { access: IBV_ACCESS_LOCAL_WRITE }));
  for (const to of String(options.servers).split(" ")) {
    const qp = {
      pd,
      sendCq: cq,
      recvCq: cq,
      maxSendWr: 8,
      maxRecvWr: 8,
      maxInlineData: MAX_INLINE,
    };
    const connection = yield* connectTo(device, { to, service: SERVICE, qp });
    v.must(yield* v.postRecv(connection.qp, Array.from({ length: 8 }, () => ({ sges: [] }))));
    const peer = { connection, cq, mr };
    const last = { offset: bytes - WORD_BYTES, length: WORD_BYTES };
    const word = yield* write({ cpu, device, options }, peer, last);
    const cold = yield* write({ cpu, device, options }, peer);
    const warm = yield* write({ cpu, device, options }, peer);
    yield* order({ cpu, device, options }, peer, ORDERS.pageOut);
    const pagedOut = yield* write({ cpu, device, options }, peer);
    yield* order({ cpu, device, options }, peer, ORDERS.pageOut);
    const began = cpu.now;
    yield* order({ cpu, device, options }, peer, ORDERS.prefetch);
    const prefetch = microseconds(cpu.now - began);
    const prefetched = yield* write({ cpu, device, options }, peer);
    const latencies = { word, cold, warm, pagedOut, prefetch, prefetched };
    cpu.report("result", { program: "paging", to, unit: "us", ...latencies });
    yield* order({ cpu, device, options }, peer, ORDERS.statistics);
    yield* v.disconnect(connection);
  }
}

interface Peer {
  readonly connection: Connection;
  readonly cq: Cq;
  readonly mr: Mr;
}

/** Or a part of the message. @returns the time in microseconds. */
function* write(
  { cpu, device }: ProgramContext,
  { connection, cq, mr }: Peer,
  { offset, length } = { offset: 0, length: mr.length },
): Steps<number> {
  const v = device.verbs;
  const remote = remoteOf(connection, offset);
  const sges = [v.sge(mr, offset, length)];
  const began = cpu.now;
  const sendFlags = flagsFor(length);
  v.must(yield* v.postSend(connection.qp, { opcode: "write", sendFlags, sges, remote }));
  const [done] = yield* v.waitCompletion(cq);
  if (done!.status !== "SUCCESS") throw new Error(`The write ended with ${done!.status}`);
  return microseconds(cpu.now - began);
}

function* order(
  { device }: ProgramContext,
  { connection, cq }: Peer,
  immediate: number,
): Steps<void> {
  const v = device.verbs;
  v.must(
    yield* v.postSend(connection.qp, { opcode: "send-immediate", immediate, sendFlags: 0 }),
  );
  const [answer] = yield* v.waitCompletion(cq);
  if (answer!.status !== "SUCCESS") throw new Error(`The order ended with ${answer!.status}`);
}
