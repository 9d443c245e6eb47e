/**
 * More queue pairs in use than a card has contexts for (H-30, `hints_many_queues.yaml`). With
 * `carrier` a client has one more queue pair, which carries the hints of all (H-08, figure 8).
 */
import {
  type Connection,
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_WRITE,
  type ProgramContext,
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
  remoteOf,
} from "./peer.ts";

const SERVICE = "queues", CARRIER = "carrier";

export default function* manyQueues(context: ProgramContext): Steps<void> {
  yield* context.options.role === "server" ? serve(context) : measure(context);
}

function* serve({ cpu, device, options }: ProgramContext): Steps<void> {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const buffer = cpu.allocate(Number(options.queuePairs) * Number(options.bytes));
  const mr = v.must(
    yield* v.regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE }),
  );
  const listener = v.must(v.listen(device, SERVICE));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 2, maxRecvWr: 2, maxInlineData: MAX_INLINE };
  let before: Counts = {};
  const connections: Connection[] = [];
  let isTold = false;
  for (let left = Number(options.clients); left > 0;) {
    const event = yield* v.waitEvent(listener);
    if (event?.kind === "request") {
      const hints = event.request.privateData[0] === 1 ? { hints: "carrier" as const } : {};
      const own = { qp: { ...qp, ...hints }, mr };
      connections.push(yield* admit({ device, listener }, event.request, own));
    } else if (event?.kind === "closed") {
      const closed = connections.find(({ endpoint }) => endpoint === event.endpoint)!;
      if (!isTold) before = yield* tellServed(cpu, { client: closed.peer.host, before });
      isTold = true;
      connections.splice(connections.indexOf(closed), 1);
      yield* v.disconnect(closed);
      if (connections.length > 0) continue;
      isTold = false;
      left--;
    }
  }
}

function* measure({ cpu, device, options }: ProgramContext): Steps<void> {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const count = Number(options.queuePairs), bytes = Number(options.bytes);
  const cq = v.must(yield* v.createCq(device, { entries: 2 * count }));
  const mr = v.must(yield* v.regMr(pd, cpu.allocate(bytes), { access: IBV_ACCESS_LOCAL_WRITE }));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 2, maxRecvWr: 2, maxInlineData: MAX_INLINE };
  const connections: Connection[] = [];
  const carriers = options.carrier === true ? 1 : 0;
  for (let i = 0; i < count + carriers; i++) {
    const isCarrier = i === count;
    const connection = yield* connectTo(device, {
      to: "server",
      service: SERVICE,
      qp: { ...qp, ...(isCarrier && { hints: CARRIER }) },
      privateData: Uint8Array.of(isCarrier ? 1 : 0),
    });
    connections.push(connection);
  }
  // Both cards' initial messages about hints have arrived.
  yield* cpu.sleep(100e6);
  const before = yield* countersOf(cpu);
  const latencies: number[] = [];
  for (let round = 0; round < Number(options.rounds); round++) {
    const began: number[] = [];
    for (const [i, connection] of connections.slice(0, count).entries()) {
      const remote = remoteOf(connection, i * bytes);
      const sendFlags = flagsFor(bytes);
      const request = { opcode: "write", sendFlags, wrId: i, sges: [v.sge(mr)], remote } as const;
      began.push(cpu.now);
      v.must(yield* v.postSend(connection.qp, request));
    }
    for (let left = count; left > 0;) {
      for (const { status, wrId } of yield* v.waitCompletion(cq)) {
        if (status !== "SUCCESS") throw new Error(`A write ended with ${status}`);
        latencies.push(cpu.now - began[wrId]!);
        left--;
      }
    }
  }
  const workload = `${count} queue pairs`, by = carriers === 1 ? "carrier" : "own";
  yield* tellMeasured(cpu, { workload, to: "server", by, latencies, failed: 0, before });
  for (const connection of connections) yield* v.disconnect(connection);
}
