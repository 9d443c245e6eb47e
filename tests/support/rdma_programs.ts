/** Programs with librdmacm's ids on the hosts of a rack: what their tests share. */
import assert from "node:assert/strict";
import type { Observation } from "../../fabric/capture/observation.ts";
import { PS_PER_MS } from "../../fabric/base/time.ts";
import { decodeCm } from "../../fabric/wire/roce/cm.ts";
import { GSI_QPN } from "../../fabric/wire/roce/bth.ts";
import { decodePacket, isRefusal } from "../../fabric/wire/roce/packet.ts";
import type { RdmaCmEvent } from "../../nodes/host/cm/rdma_event.ts";
import type { RdmaEventChannel, RdmaId, RdmaIdOptions } from "../../nodes/host/cm/rdma_id.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";
import { IBV_ACCESS_LOCAL_WRITE } from "../../nodes/host/verbs/flags.ts";
import type { Cq, Mr, Pd } from "../../nodes/host/verbs/objects.ts";
import { SimulatedRack } from "./simulated_rack.ts";

export const PORT = 7471;
export const BYTES = 256;
/** Programs stay beyond the end of the run. */
const RUN_PS = 100 * PS_PER_MS, AFTER_PS = 2 * RUN_PS;

/** What each program of a test begins with. */
export interface RdmaSide {
  readonly context: ProgramContext;
  readonly v: ProgramContext["device"]["verbs"];
  readonly channel: RdmaEventChannel;
  readonly pd: Pd;
  readonly cq: Cq;
  readonly mr: Mr;
  /** Options of its queue pairs. */
  readonly qp: { sendCq: Cq; recvCq: Cq; maxSendWr: number; maxRecvWr: number };
  /** What was taken of the channel: `ESTABLISHED`, with its status where that is not 0. */
  readonly log: string[];
}

export function* sideOf(context: ProgramContext): Steps<RdmaSide> {
  const { device, cpu } = context;
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 64 }));
  const access = IBV_ACCESS_LOCAL_WRITE;
  const mr = v.must(yield* v.regMr(pd, cpu.allocate(BYTES), { access }));
  const qp = { sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4 };
  return { context, v, channel: v.rdmaCreateEventChannel(device), pd, cq, mr, qp, log: [] };
}

/** The next event, acknowledged; it must be this one. */
export function* expectEvent(side: RdmaSide, event: string): Steps<RdmaCmEvent> {
  const { v, channel, log, context: { cpu } } = side;
  const answer = yield* v.rdmaGetCmEvent(channel, { deadline: cpu.now + 30 * PS_PER_MS });
  assert.ok(answer !== "timeout", `${event} is expected, and no event comes`);
  const found = v.must(answer);
  log.push(found.status === 0 ? found.event : `${found.event} ${found.status}`);
  assert.equal(found.event, event, `${log.join(", ")}: ${found.reason}`);
  v.must(v.rdmaAckCmEvent(found));
  return found;
}

/** No event comes for 5 ms. */
export function* expectNothing({ v, channel, context: { cpu } }: RdmaSide): Steps<void> {
  const found = yield* v.rdmaGetCmEvent(channel, { deadline: cpu.now + 5 * PS_PER_MS });
  assert.equal(found, "timeout");
}

/** An id that listens on {@link PORT}. */
export function listenOn({ v, channel }: RdmaSide, ps: RdmaIdOptions["ps"] = "tcp"): RdmaId {
  const id = v.must(v.rdmaCreateId(channel, { ps }));
  v.must(v.rdmaBindAddr(id, { port: PORT }));
  v.must(v.rdmaListen(id));
  return id;
}

/** An id with a resolved route to {@link PORT} of a host. */
export function* routeTo(
  side: RdmaSide,
  to: string,
  { ps = "tcp", port = PORT }: { readonly ps?: RdmaIdOptions["ps"]; readonly port?: number } = {},
): Steps<RdmaId> {
  const { v, channel } = side;
  const id = v.must(v.rdmaCreateId(channel, { ps }));
  v.must(v.rdmaResolveAddr(id, { to, port }));
  yield* expectEvent(side, "ADDR_RESOLVED");
  v.must(v.rdmaResolveRoute(id));
  yield* expectEvent(side, "ROUTE_RESOLVED");
  return id;
}

/** Listens and accepts the first request, with a queue pair of the id; ESTABLISHED is the next event. */
export function* acceptOne(side: RdmaSide): Steps<RdmaId> {
  const { v, pd, qp } = side;
  listenOn(side);
  const { id } = yield* expectEvent(side, "CONNECT_REQUEST");
  v.must(yield* v.rdmaCreateQp(id, pd, qp));
  v.must(yield* v.rdmaAccept(id));
  return id;
}

/** Asks {@link PORT} of a host for a connection, with a queue pair of the id; its outcome is the next event. */
export function* connectTo(side: RdmaSide, to: string): Steps<RdmaId> {
  const { v, pd, qp } = side;
  const id = yield* routeTo(side, to);
  v.must(yield* v.rdmaCreateQp(id, pd, qp));
  v.must(yield* v.rdmaConnect(id));
  return id;
}

export interface RdmaRun {
  readonly rack: SimulatedRack;
  /** Types of the CM's messages at the cards' ports and inside them, with their senders. */
  readonly sent: string[];
  /** Frames that cards have sent at their ports. */
  readonly atPort: { readonly count: number };
  /** The CM's frames, in the order of `sent`. */
  readonly frames: readonly Uint8Array<ArrayBuffer>[];
}

/**
 * Runs the server on host `b`, or on `on`, and the client on host `a`, which begins when the server listens.
 * Both must come to their ends.
 */
export function runRdma(
  server: (side: RdmaSide) => Steps<void>,
  client: (side: RdmaSide) => Steps<void>,
  { on = "b", faults = [], fails }: {
    readonly on?: "a" | "b";
    readonly faults?: readonly string[];
    /** What the server throws. */
    readonly fails?: string;
  } = {},
): RdmaRun {
  const sent: string[] = [];
  const atPort = { count: 0 };
  const frames: Uint8Array<ArrayBuffer>[] = [];
  const see = (seen: Observation) => {
    const isSent = seen.kind === "sent" || (seen.kind === "looped" && seen.end === "sent");
    if (!isSent || seen.frame === undefined) return;
    const { name, kind } = rack.plan.nodes[seen.node]!;
    if (kind === "rnic" && seen.kind === "sent") atPort.count++;
    const packet = decodePacket(seen.frame);
    if (kind !== "rnic" || isRefusal(packet) || packet.bth.destQpn !== GSI_QPN) return;
    sent.push(`${name[0]} ${decodeCm(packet.payload)?.type}`);
    frames.push(seen.frame);
  };
  const programOf = (name: string, body: (side: RdmaSide) => Steps<void>): Program =>
    function* (context) {
      yield* body(yield* sideOf(context));
      context.cpu.report("end", name);
      // What it has made would be taken back with its end, and the other told of that.
      yield* context.cpu.sleep(AFTER_PS);
    };
  const programs = {
    "./server.ts": programOf("server", server),
    "./client.ts": programOf("client", client),
  };
  const rack = new SimulatedRack(
    `
name: rdma-cm
hosts: { a: { services: none }, b: { services: none } }
programs: [{ on: ${on}, run: ./server.ts }, { on: a, run: ./client.ts, at: 300us }]
faults: [${faults.join(", ")}]
`,
    { programs, observer: { scope: "wire", see, commit: () => {} } },
  );
  rack.run(RUN_PS);
  const failures = rack.reported("program-failed").map(({ message }) => message);
  assert.deepEqual(failures, fails === undefined ? [] : [fails]);
  const ends = rack.reported("end").map(String).sort();
  assert.ok(ends.includes("client"), "the client comes to its end");
  if (faults.length === 0 && fails === undefined) assert.deepEqual(ends, ["client", "server"]);
  return { rack, sent, atPort, frames };
}
