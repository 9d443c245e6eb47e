/**
 * Bulk WRITEs to load cables and switches: `bulk` writes into a buffer of `sink` on another host
 * for a duration.
 */
import { IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE } from "../verbs/flags.ts";
import { PS_PER_S, type Time } from "../../../fabric/base/time.ts";
import { connect } from "../cm/connect.ts";
import { type Connection, disconnect, refused } from "../cm/connection.ts";
import { accept, listen, waitEvent } from "../cm/listen.ts";
import { waitCompletion } from "../verbs/completion_queue.ts";
import { createCq } from "../verbs/create_cq.ts";
import { must } from "../verbs/device.ts";
import { allocPd, regMr } from "../verbs/memory_region.ts";
import { postSend, sge } from "../verbs/post.ts";
import type { Steps } from "../cpu/program.ts";
import { countOption, microsecondsOption, textOption } from "./common/options.ts";
import { outcomeOf, summarize } from "./common/summary.ts";
import type { Cq, Mr } from "../verbs/objects.ts";
import type { ProgramContext } from "../program_context.ts";
import { flagsFor, SMALL_INLINE } from "./common/send_flags.ts";

const SERVICE = "sink";
/** Private data of a REP: VA 8 B, rkey 4 B, length 4 B. */
const PLACE_BYTES = 16;
const PARTS = 10;

/** The service. Option: `bytes` (256 KiB) of the buffer that all writers share. */
export function* sink({ cpu, device, options }: ProgramContext): Steps<void> {
  const bytes = countOption(options, "bytes", { least: 64, otherwise: 256 * 1024 });
  const listener = must(listen(device, SERVICE));
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 16 }));
  const mr = must(
    yield* regMr(pd, cpu.allocate(bytes), {
      access: IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
    }),
  );
  const place = new DataView(new ArrayBuffer(PLACE_BYTES));
  place.setBigUint64(0, BigInt(mr.address));
  place.setUint32(8, mr.rkey);
  place.setUint32(12, mr.length);
  const privateData = new Uint8Array(place.buffer);
  for (;;) {
    const event = yield* waitEvent(listener);
    if (event?.kind !== "request") continue;
    const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 1, maxRecvWr: 1, ...SMALL_INLINE };
    yield* accept(listener, event.request, { qp, privateData });
  }
}

/**
 * The program. Options: `to`; `size` of a message (64 KiB), `depth` (8), `beginUs`: the virtual
 * time of the first message (once connected), `timeUs` (1000), after which no message is posted;
 * `scatter` (off): messages go to random places instead of consecutive ones. Reports a `result`
 * with rates in bit/s, in total and for each tenth of the time.
 */
export function* bulk({ cpu, device, options }: ProgramContext): Steps<void> {
  const to = textOption(options, "to");
  const messageBytes = countOption(options, "size", { least: 1, otherwise: 64 * 1024 });
  const depth = countOption(options, "depth", { least: 1, otherwise: 8 });
  const timePs = microsecondsOption(options, "timeUs", 1_000);
  const beginPs = microsecondsOption(options, "beginUs", 0);
  const scatter = options["scatter"] === true;
  const { weight } = device;
  const report = {
    program: "bulk",
    to,
    messageBytes,
    depth,
    ...(weight !== undefined && { weight }),
  };
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 2 * depth }));
  const mr = must(yield* regMr(pd, cpu.allocate(messageBytes), { access: 0 }));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: depth, maxRecvWr: 1, ...SMALL_INLINE };
  const connection = yield* connect(device, { to, service: SERVICE, qp });
  if (refused(connection)) {
    cpu.report("result", { ...report, ...outcomeOf(connection.reason) });
    return;
  }
  // Connections are set up while the cables are idle; then all hosts begin at once.
  if (cpu.now < beginPs) yield* cpu.sleep(beginPs - cpu.now);
  const startPs = cpu.now;
  const parts = new Float64Array(PARTS), latencies: Time[] = [];
  const error = yield* transfer(connection, { cq, mr, depth, timePs, scatter, parts, latencies });
  const messages = latencies.length;
  const seconds = (cpu.now - startPs) / PS_PER_S;
  const partSeconds = timePs / PARTS / PS_PER_S;
  cpu.report("result", {
    ...report,
    ...outcomeOf(error),
    messages,
    messagesPerSecond: seconds > 0 ? Math.round(messages / seconds) : 0,
    bytes: messages * messageBytes,
    throughputBps: seconds > 0 ? Math.round(messages * messageBytes * 8 / seconds) : 0,
    partsBps: [...parts].map((bytes) => Math.round(bytes * 8 / partSeconds)),
    latencyPs: summarize(Float64Array.from(latencies)),
    startPs,
    endPs: cpu.now,
  });
  yield* disconnect(connection);
}

function placeIn(privateData: Uint8Array) {
  const { buffer, byteOffset } = privateData;
  const view = new DataView(buffer, byteOffset);
  return {
    va: Number(view.getBigUint64(0)),
    rkey: view.getUint32(8),
    length: view.getUint32(12),
  };
}

function* transfer(
  { qp, device: { cpu }, privateData }: Connection,
  { cq, mr, depth, timePs, scatter, parts, latencies }: {
    readonly cq: Cq;
    readonly mr: Mr;
    readonly depth: number;
    readonly timePs: Time;
    readonly scatter: boolean;
    readonly parts: Float64Array;
    readonly latencies: Time[];
  },
): Steps<string | undefined> {
  const place = placeIn(privateData), messageBytes = mr.length;
  const sendFlags = flagsFor(messageBytes);
  const startPs = cpu.now, endPs = startPs + timePs;
  const room = Math.max(1, Math.floor(place.length / messageBytes));
  if (place.length < messageBytes) return `The sink has ${place.length} B only`;
  const postedAt: Time[] = [];
  let next = 0, outstanding = 0;
  while (outstanding > 0 || cpu.now < endPs) {
    const requests = [];
    while (outstanding < depth && cpu.now < endPs) {
      const at = scatter ? Math.floor(cpu.random() * room) : next % room;
      const va = place.va + at * messageBytes;
      const remote = { va, rkey: place.rkey };
      const sges = [sge(mr, 0, messageBytes)];
      requests.push({ opcode: "write", sendFlags, wrId: next++, sges, remote } as const);
      postedAt.push(cpu.now);
      outstanding++;
    }
    if (requests.length > 0) {
      const refusal = yield* postSend(qp, requests);
      if (refusal !== undefined) return `${refusal.errno}: ${refusal.reason}`;
    }
    for (const { status, wrId } of yield* waitCompletion(cq)) {
      if (status !== "SUCCESS") return status;
      outstanding--;
      const latencyPs = cpu.now - postedAt[wrId]!;
      latencies.push(latencyPs);
      cpu.measured({ operation: "bulk", method: "write", latencyPs });
      const part = Math.floor((cpu.now - startPs) * PARTS / timePs);
      if (part < PARTS) parts[part]! += messageBytes;
    }
  }
  return undefined;
}
