/** Hints in each encoding by each transport (H-30, `hints_ways.yaml`). */
import {
  type Connection,
  type Cq,
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_WRITE,
  type Mr,
  type Pd,
  type ProgramContext,
  type SendRequest,
  type Steps,
} from "rackmesh";
import {
  admit,
  connectTo,
  countersOf,
  flagsFor,
  MAX_INLINE,
  microseconds,
  remoteOf,
} from "./peer.ts";

const SERVICE = "ways";
/** 224.0.10.1, and the Q_Key of its members. */
const GROUP = 0xe000_0a01, Q_KEY = 7;
/** Its packet has room for a hint. */
const COMMAND_BYTES = 64;
/** Private data of a connection that is a carrier. */
const CARRIERS = { rc: 1, uc: 2 } as const;

/** `by:` of a client. H-08 [0113]: a carrier is RC or UC. */
const CARRIER_TYPES = {
  "own": undefined,
  "carrier": "rc",
  "uc-carrier": "uc",
  "group": undefined,
} as const;

function wayOf(by: unknown = "own"): keyof typeof CARRIER_TYPES {
  if (typeof by === "string" && Object.hasOwn(CARRIER_TYPES, by)) {
    return by as keyof typeof CARRIER_TYPES;
  }
  throw new Error(`by is ${by}: expected own, carrier, uc-carrier or group`);
}

export default function* ways(context: ProgramContext): Steps<void> {
  yield* context.options.role === "server" ? serve(context) : measure(context);
}

/** Hints for all peers, or those of all (H-08, figure 9). */
function* joinGroup({ device: { verbs: v } }: ProgramContext, pd: Pd, cq: Cq): Steps<void> {
  const rings = { maxSendWr: 1, maxRecvWr: 1, maxInlineData: MAX_INLINE };
  const options = { type: "ud", hints: "group", sendCq: cq, recvCq: cq, ...rings } as const;
  const qp = v.must(yield* v.createQp(pd, options));
  const steps = [{ state: "init", qKey: Q_KEY }, { state: "rtr" }, { state: "rts", sqPsn: 0 }];
  for (const step of steps) v.must(yield* v.modifyQp(qp, step as { state: "rtr" }));
  v.must(yield* v.attachMcast(qp, GROUP));
}

function* serve(context: ProgramContext): Steps<void> {
  const { cpu, device, options } = context;
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  yield* joinGroup(context, pd, cq);
  const listener = v.must(v.listen(device, SERVICE));
  const connections: Connection[] = [];
  for (let left = Number(options.clients); left > 0;) {
    const event = yield* v.waitEvent(listener);
    if (event?.kind === "request") {
      const [mark] = event.request.privateData;
      const carrier = (["rc", "uc"] as const).find((type) => CARRIERS[type] === mark);
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
      const own = { ...qp, ...(carrier && { type: carrier, hints: "carrier" as const }) };
      connections.push(yield* admit({ device, listener }, event.request, { qp: own, mr }));
    } else if (event?.kind === "closed") {
      const closed = connections.find(({ endpoint }) => endpoint === event.endpoint)!;
      connections.splice(connections.indexOf(closed), 1);
      yield* v.disconnect(closed);
      // Its data's connection is the last that a client ends.
      if (connections.length === 0) left--;
    }
  }
}

interface Server {
  readonly data: Connection;
  readonly carrier: Connection | undefined;
}

function* measure(context: ProgramContext): Steps<void> {
  const { cpu, device, options } = context;
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 32 }));
  const ahead = Number(options.ahead), bytes = Number(options.bytes);
  const buffer = cpu.allocate(Math.max(bytes, ahead));
  const mr = v.must(yield* v.regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE }));
  const by = wayOf(options.by);
  if (by === "group") yield* joinGroup(context, pd, cq);
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 8, maxRecvWr: 8, maxInlineData: MAX_INLINE };
  const type = CARRIER_TYPES[by];
  const servers: Server[] = [];
  for (const to of options.servers as string[]) {
    const connect = (type?: "rc" | "uc") =>
      connectTo(device, {
        to,
        service: SERVICE,
        qp: { ...qp, ...(type && { type, hints: "carrier" }) },
        ...(type && { privateData: Uint8Array.of(CARRIERS[type]) }),
      });
    const carrier = type && (yield* connect(type));
    servers.push({ data: yield* connect(), carrier });
  }
  // The cards' initial messages about hints have arrived.
  yield* cpu.sleep(100e6);
  const command = ({ data }: Server) => writeOf(data, mr, { offset: 0, length: COMMAND_BYTES });
  const timeOf = function* (offset: number, length: number): Steps<number> {
    const began = cpu.now;
    let left = 0;
    for (const server of servers) {
      const { data, carrier } = server;
      const work = [
        ...carrier === undefined ? [command(server)] : [],
        writeOf(data, mr, { offset: 0, length: ahead }),
        ...length === 0 ? [] : [writeOf(data, mr, { offset, length })],
      ];
      v.must(yield* v.postSend(data.qp, work));
      left += work.length;
    }
    // A command posted alone goes with its doorbell: it would go before the card knows of the work.
    if (type !== undefined) yield* cpu.sleep(10e6);
    for (const server of servers) {
      if (server.carrier === undefined) continue;
      v.must(yield* v.postSend(server.carrier.qp, command({ ...server, data: server.carrier })));
      left++;
    }
    while (left > 0) {
      for (const { status } of yield* v.waitCompletion(cq)) {
        if (status !== "SUCCESS") throw new Error(`A write ended with ${status}`);
        left--;
      }
    }
    return microseconds(cpu.now - began);
  };
  // The memory of the work ahead is there from now on.
  yield* timeOf(0, 0);
  const cold = yield* timeOf(ahead, bytes);
  const warm = yield* timeOf(ahead, bytes);
  const stall = Math.round((cold - warm) * 100) / 100;
  const counters = yield* countersOf(cpu);
  const { hintBytesOut = 0, hintsSent = 0, bytesOut = 0, hintHoldPs: heldPs = 0 } = counters;
  const latencyPs = { median: cold * 1e6, p99: cold * 1e6, max: cold * 1e6 };
  cpu.report("result", {
    program: "hints",
    workload: "behind other work",
    to: "both servers",
    ...(type !== undefined && { by }),
    messages: servers.length,
    failed: 0,
    latencyPs,
    stallPs: stall * 1e6,
    heldPs,
    hintsSent,
    hintBytesOut,
    bytesOut,
  });
  for (const { data, carrier } of servers) {
    if (carrier !== undefined) yield* v.disconnect(carrier);
    yield* v.disconnect(data);
  }
}

function writeOf(
  connection: Connection,
  mr: Mr,
  { offset, length }: { readonly offset: number; readonly length: number },
): SendRequest {
  const sges = [{ address: mr.address, length, lkey: mr.lkey }];
  const sendFlags = flagsFor(length);
  return { opcode: "write", sendFlags, sges, remote: remoteOf(connection, offset) };
}
