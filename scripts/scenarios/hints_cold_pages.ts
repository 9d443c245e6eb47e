/**
 * Clients write a message into absent pages, in turn (H-30, `hints_cold_pages.yaml`): alone, then
 * another behind other work. Each is written twice, and the extra time of the first is its stall.
 */
import {
  type Connection,
  type Cq,
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_WRITE,
  type Mr,
  type ProgramContext,
  type SendRequest,
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

export default function* coldPages(context: ProgramContext): Steps<void> {
  yield* context.options.role === "server" ? serve(context) : measure(context);
}

function* serve({ cpu, device, options }: ProgramContext): Steps<void> {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const listener = v.must(v.listen(device, SERVICE));
  let before: Counts = {};
  for (let i = 0; i < 2 * Number(options.clients); i++) {
    const request = yield* nextRequest(device, listener);
    const buffer = cpu.allocate(Number(options.ahead) + Number(options.bytes));
    const mr = v.must(
      yield* v.regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE }),
    );
    const qp = {
      pd,
      sendCq: cq,
      recvCq: cq,
      maxSendWr: 8,
      maxRecvWr: 8,
      maxInlineData: MAX_INLINE,
    };
    const connection = yield* admit({ device, listener }, request, { qp, mr });
    // The client disconnects when it has measured.
    for (let ended = yield* v.waitEvent(listener); ended?.kind !== "closed";) {
      ended = yield* v.waitEvent(listener);
    }
    before = yield* tellServed(cpu, { client: connection.peer.host, before });
    yield* v.disconnect(connection);
  }
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
  const bytes = Number(options.bytes), ahead = Number(options.ahead), to = "server";
  const mr = v.must(
    yield* v.regMr(pd, cpu.allocate(Math.max(bytes, ahead)), { access: IBV_ACCESS_LOCAL_WRITE }),
  );
  for (const behind of [0, ahead]) {
    const qp = {
      pd,
      sendCq: cq,
      recvCq: cq,
      maxSendWr: 8,
      maxRecvWr: 8,
      maxInlineData: MAX_INLINE,
    };
    const connection = yield* connectTo(device, { to, service: SERVICE, qp });
    const client = { context, connection, cq, mr };
    const others = writeOf(client, 0, ahead);
    yield* timeOf(client, [others]);
    const work = [...behind === 0 ? [] : [others], writeOf(client, ahead, bytes)];
    const before = yield* countersOf(cpu);
    const cold = yield* timeOf(client, work);
    const between = yield* countersOf(cpu);
    const stallPs = cold - (yield* timeOf(client, work));
    const heldPs = (between.hintHoldPs ?? 0) - (before.hintHoldPs ?? 0);
    const workload = behind === 0 ? "alone" : "behind other work";
    const cost = { latencies: [cold], failed: 0, stallPs, heldPs };
    yield* tellMeasured(cpu, { workload, to, ...cost, before });
    yield* v.disconnect(connection);
  }
}

function writeOf({ context, connection, mr }: Client, offset: number, length: number): SendRequest {
  const sges = [context.device.verbs.sge(mr, 0, length)];
  const sendFlags = flagsFor(length);
  return { opcode: "write", sendFlags, sges, remote: remoteOf(connection, offset) };
}

/** Until all work has completed. @returns its time, in ps. */
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
  return cpu.now - began;
}
