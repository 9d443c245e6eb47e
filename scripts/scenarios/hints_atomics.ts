/**
 * Contended atomics with hints (H-23, H-30; `hints_atomics.yaml`): where a client's card announces
 * them, the server's card reads the word ahead and executes them on the chip. With `stores` a core
 * of the server stores into the word's cache line meanwhile, which makes such copies void.
 */
import {
  type Connection,
  type Cq,
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_ATOMIC,
  IBV_SEND_SIGNALED,
  type Mr,
  type ProgramContext,
  type SendRequest,
  type Steps,
  summarize,
} from "rackmesh";
import { admit, connectTo, countersOf, type Counts, microseconds, remoteOf } from "./peer.ts";

const SERVICE = "atomics";
const WORD_BYTES = 8;
const COUNTERS = [
  "atomicsExecuted",
  "hintsIn",
  "hintWordsRead",
  "hintWordsUseful",
  "hintWordsLate",
  "hintWordsSnooped",
  "hintWordsWasted",
] as const;
const STORE_PS = 2e6;

export default function* atomics(context: ProgramContext): Steps<void> {
  yield* context.options.role === "server" ? serve(context) : measure(context);
}

function* serve({ cpu, device, options }: ProgramContext): Steps<void> {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const buffer = cpu.allocate(64);
  const mr = v.must(
    yield* v.regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC }),
  );
  const listener = v.must(v.listen(device, SERVICE));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 2, maxRecvWr: 2 };
  let before: Counts = {};
  let connections: Connection[] = [];
  let isStoring = false;
  for (let left = Number(options.clients); left > 0;) {
    const event = yield* v.waitEvent(listener);
    if (event?.kind === "request") {
      connections.push(yield* admit({ device, listener }, event.request, { qp, mr }));
      if (event.request.privateData[0] !== 1 || isStoring) continue;
      isStoring = true;
      cpu.spawn("stores", function* ({ cpu: core }) {
        for (let count = 1; isStoring; count++) {
          core.store(buffer.address + WORD_BYTES, Uint8Array.of(count & 0xff));
          yield* core.sleep(STORE_PS);
        }
      });
    } else if (event?.kind === "closed") {
      const client = connections[0]!.peer.host;
      // The client has measured, and closes all of its connections.
      for (const connection of connections) yield* v.disconnect(connection);
      for (let others = connections.length - 1; others > 0;) {
        if ((yield* v.waitEvent(listener))?.kind === "closed") others--;
      }
      connections = [];
      isStoring = false;
      const counters = yield* countersOf(cpu);
      const counts = COUNTERS.map((name) => [name, (counters[name] ?? 0) - (before[name] ?? 0)]);
      before = counters;
      const { buffer: bytes, byteOffset } = cpu.load(buffer.address, WORD_BYTES);
      const word = Number(new DataView(bytes, byteOffset).getBigUint64(0, true));
      const row = { program: "hints", host: cpu.host, client, word };
      cpu.report("result", { ...row, ...Object.fromEntries(counts) });
      left--;
    }
  }
}

interface Client {
  readonly context: ProgramContext;
  readonly connections: readonly Connection[];
  readonly cq: Cq;
  readonly mr: Mr;
}

function* measure(context: ProgramContext): Steps<void> {
  const { cpu, device, options } = context;
  const v = device.verbs;
  const pd = v.allocPd(device);
  const count = Number(options.queuePairs), depth = Number(options.depth);
  const cq = v.must(yield* v.createCq(device, { entries: 2 * count * depth }));
  const mr = v.must(
    yield* v.regMr(pd, cpu.allocate(WORD_BYTES), { access: IBV_ACCESS_LOCAL_WRITE }),
  );
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 2 * depth, maxRecvWr: 2 };
  const privateData = Uint8Array.of(options.stores === true ? 1 : 0);
  const connections: Connection[] = [];
  for (let i = 0; i < count; i++) {
    const ends = { to: "server", service: SERVICE, qp, privateData };
    connections.push(yield* connectTo(device, ends));
  }
  // Both cards' initial messages about hints have arrived.
  yield* cpu.sleep(100e6);
  const client = { context, connections, cq, mr };
  const rounds = Number(options.rounds);
  const patterns = [[1, 1, "alone"], [1, depth, "list"], [count, depth, "contended"]] as const;
  for (const [queuePairs, atomics, pattern] of patterns) {
    const times: number[] = [];
    const began = cpu.now;
    for (let round = 0; round < rounds; round++) {
      times.push(...yield* add(client, queuePairs, atomics));
    }
    const rate = Math.round(times.length / (cpu.now - began) * 1e8) / 100;
    const { median, p99 } = summarize(Float64Array.from(times))!;
    const figures = { median: microseconds(median), p99: microseconds(p99) };
    const row = { program: "hints", host: cpu.host, pattern, unit: "us", ...figures };
    cpu.report("result", { ...row, millionsPerSecond: rate });
  }
  const { hintBytesOut = 0, hintsSent = 0, bytesOut = 1 } = yield* countersOf(cpu);
  const overhead = `${(100 * hintBytesOut / bytesOut).toFixed(1)} %`;
  cpu.report("result", { program: "hints", host: cpu.host, hintsSent, hintBytesOut, overhead });
  for (const connection of connections) yield* v.disconnect(connection);
}

/** Several FETCH & ADDs by each. @returns the time of each, in ps. */
function* add(
  { context: { cpu, device: { verbs: v } }, connections, cq, mr }: Client,
  queuePairs: number,
  atomics: number,
): Steps<number[]> {
  const began = cpu.now;
  const times: number[] = [];
  for (const connection of connections.slice(0, queuePairs)) {
    const request: SendRequest = {
      opcode: "fetch-add",
      sendFlags: IBV_SEND_SIGNALED,
      sges: [v.sge(mr)],
      remote: remoteOf(connection),
      atomic: { swapAdd: 1n, compare: 0n },
    };
    v.must(yield* v.postSend(connection.qp, new Array<SendRequest>(atomics).fill(request)));
  }
  while (times.length < queuePairs * atomics) {
    for (const { status } of yield* v.waitCompletion(cq)) {
      if (status !== "SUCCESS") throw new Error(`An atomic ended with ${status}`);
      times.push(cpu.now - began);
    }
  }
  return times;
}
