/**
 * What hints save of the stall of a message whose pages are not there (H-30): clients whose cards announce their
 * requests in different ways write into the memory of a server (`hints_cold_pages.yaml`), each in its turn: a
 * message alone, then another behind other work. Each is written twice, and what it takes longer the first time
 * is its stall.
 *
 *   rack run scripts/scenarios/hints_cold_pages.yaml
 */
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Connection } from "../../nodes/host/cm/connection.ts";
import type { Cq, Mr, SendRequest } from "../../nodes/host/verbs/objects.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";

const SERVICE = "hints";
/** Of the server's card, as they stand in its results. */
const COUNTERS = [
  "pageFaults",
  "pageFaultDrops",
  "hintsIn",
  "hintPageRequests",
  "hintPagesUseful",
  "hintPagesLate",
  "hintPagesWasted",
] as const;

export default function* coldPages(context: ProgramContext): Steps<void> {
  yield* context.options.role === "server" ? serve(context) : measure(context);
}

/** A region for each client: room for the work ahead, and for the two messages. */
function* serve({ cpu, device, options }: ProgramContext): Steps<void> {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const listener = v.must(v.listen(device, SERVICE));
  let before: Readonly<Record<string, number>> = {};
  for (let i = 0; i < Number(options.clients); i++) {
    const event = yield* v.waitEvent(listener);
    if (event?.kind !== "request") throw new Error(`A request was expected: ${event?.kind}`);
    const buffer = cpu.allocate(Number(options.ahead) + 2 * Number(options.bytes));
    const mr = v.must(yield* v.regMr(pd, buffer, { access: ["localWrite", "remoteWrite"] }));
    const place = new DataView(new ArrayBuffer(16));
    place.setBigUint64(0, BigInt(mr.address));
    place.setUint32(8, mr.rkey);
    const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 8, maxRecvWr: 8 };
    const privateData = new Uint8Array(place.buffer);
    const connection = v.must(yield* v.accept(listener, event.request, { qp, privateData }));
    if (v.refused(connection)) throw new Error(`The client has gone: ${connection.reason}`);
    // The client disconnects when it has measured.
    for (let ended = yield* v.waitEvent(listener); ended?.kind !== "closed";) {
      ended = yield* v.waitEvent(listener);
    }
    const counters = yield* countersOf(cpu);
    const since = (name: string) => (counters[name] ?? 0) - (before[name] ?? 0);
    const counts = Object.fromEntries(COUNTERS.map((name) => [name, since(name)]));
    const stall = microseconds(since("pageStallPs"));
    const client = connection.peer.host;
    cpu.report("result", { program: "hints", host: cpu.host, client, ...counts, stall });
    before = counters;
    yield* v.disconnect(connection);
  }
}

function* countersOf(
  cpu: ProgramContext["cpu"],
): Steps<Readonly<Record<string, number>>> {
  const reply = yield* cpu.command({ op: "query-statistics" });
  return reply.status === "ok" && reply.op === "query-statistics" ? reply.counters : {};
}

interface Client {
  readonly context: ProgramContext;
  readonly connection: Connection;
  readonly cq: Cq;
  readonly mr: Mr;
}

function* measure(context: ProgramContext): Steps<void> {
  const { cpu, device, options } = context;
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const bytes = Number(options.bytes), ahead = Number(options.ahead);
  const buffer = cpu.allocate(Math.max(bytes, ahead));
  const mr = v.must(yield* v.regMr(pd, buffer, { access: ["localWrite"] }));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 8, maxRecvWr: 8 };
  const connection = yield* v.connect(device, { to: "server", service: SERVICE, qp });
  if (v.refused(connection)) throw new Error(`The server refuses: ${connection.reason}`);
  const client = { context, connection, cq, mr };
  const others = writeOf(client, 0, ahead);
  yield* timeOf(client, [others]);
  for (const [i, before] of [[], [others]].entries()) {
    const work = [...before, writeOf(client, ahead + i * bytes, bytes)];
    const held = yield* heldPs(cpu);
    const cold = yield* timeOf(client, work);
    const wait = microseconds((yield* heldPs(cpu)) - held);
    const warm = yield* timeOf(client, work);
    const stall = Math.round((cold - warm) * 100) / 100;
    const behind = i === 0 ? 0 : ahead;
    const row = { behind, unit: "us", cold, warm, stall, held: wait };
    cpu.report("result", { program: "hints", host: cpu.host, ...row });
  }
  const { hintBytesOut = 0, hintsSent = 0, bytesOut = 1 } = yield* countersOf(cpu);
  const overhead = `${(100 * hintBytesOut / bytesOut).toFixed(4)} %`;
  cpu.report("result", { program: "hints", host: cpu.host, hintsSent, hintBytesOut, overhead });
  yield* v.disconnect(connection);
}

/** How long the card has held requests back behind hints so far. */
function* heldPs(cpu: ProgramContext["cpu"]): Steps<number> {
  return (yield* countersOf(cpu)).hintHoldPs ?? 0;
}

/** A WRITE of so many bytes to an offset of the server's region. */
function writeOf({ context, connection, mr }: Client, offset: number, length: number): SendRequest {
  const { buffer, byteOffset } = connection.privateData;
  const place = new DataView(buffer, byteOffset);
  const remote = { va: Number(place.getBigUint64(0)) + offset, rkey: place.getUint32(8) };
  return { opcode: "write", sges: [context.device.verbs.sge(mr, 0, length)], remote };
}

/** Posts work, and waits until all of it has completed. @returns how long that took, in microseconds. */
function* timeOf(
  { context: { cpu, device: { verbs: v } }, connection, cq }: Client,
  work: readonly SendRequest[],
): Steps<number> {
  const began = cpu.now;
  v.must(yield* v.postSend(connection.qp, work));
  for (let left = work.length; left > 0;) {
    for (const { status } of yield* v.waitCompletion(cq)) {
      if (status !== "SUCCESS") throw new Error(`A write ended with ${status}`);
      left--;
    }
  }
  return microseconds(cpu.now - began);
}

function microseconds(ps: number): number {
  return Math.round(ps / 1e4) / 100;
}
