/**
 * WRITEs over many queue pairs into the buffer of `sink` on another host, without perftest's record
 * of latencies.
 */
import { waitCompletion } from "../../nodes/host/verbs/completion_queue.ts";
import { createCq } from "../../nodes/host/verbs/create_cq.ts";
import { connect } from "../../nodes/host/cm/connect.ts";
import { type Connection, refused } from "../../nodes/host/cm/connection.ts";
import { must, ProgramError } from "../../nodes/host/verbs/device.ts";
import { allocPd, regMr } from "../../nodes/host/verbs/memory_region.ts";
import { postSend, sge } from "../../nodes/host/verbs/post.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { CmDevice } from "../../nodes/host/cm/gsi.ts";
import type { Cq, Mr } from "../../nodes/host/verbs/objects.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import { flagsFor, SMALL_INLINE } from "../../nodes/host/programs/common/send_flags.ts";

const SERVICE = "sink";

export interface Traffic {
  readonly to: string;
  readonly qps: number;
  readonly bytes: number;
  readonly messages: number;
  /** Outstanding messages, over all queue pairs, which alternate. */
  readonly depth: number;
  readonly pathMtu: 256 | 512 | 1024 | 2048 | 4096;
  /** Every host has its connections by then. */
  readonly startPs: Time;
}

export interface TrafficResult {
  readonly virtualPs: Time;
}

/** Reports `progress`, and writes from `startPs` on. @throws ProgramError on any failure. */
export function* traffic({ cpu, device, options }: ProgramContext): Steps<void> {
  const job = options as unknown as Traffic;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 2 * job.depth }));
  const mr = must(yield* regMr(pd, cpu.allocate(job.bytes), { access: 0 }));
  const connections: Connection[] = [];
  for (let i = 0; i < job.qps; i++) {
    connections.push(yield* open(device, job, { pd, cq }));
  }
  cpu.report("progress", { connections: connections.length });
  if (cpu.now >= job.startPs) throw new ProgramError(`${cpu.host}: connected too late`);
  yield* cpu.sleep(job.startPs - cpu.now);
  yield* write(job, { cq, mr, connections });
  const result: TrafficResult = { virtualPs: cpu.now - job.startPs };
  cpu.report("result", result);
}

function* open(
  device: CmDevice,
  job: Traffic,
  { pd, cq }: { readonly pd: Mr["pd"]; readonly cq: Cq },
): Steps<Connection> {
  const { to, pathMtu, depth } = job;
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: depth, maxRecvWr: 1, ...SMALL_INLINE };
  const connection = yield* connect(device, { to, service: SERVICE, pathMtu, qp });
  if (refused(connection)) throw new ProgramError(`${to} refuses: ${connection.reason}`);
  return connection;
}

function* write(
  job: Traffic,
  over: { readonly cq: Cq; readonly mr: Mr; readonly connections: readonly Connection[] },
): Steps<void> {
  const { bytes, messages, depth } = job;
  const { cq, mr, connections } = over;
  const { buffer, byteOffset } = connections[0]!.privateData;
  const place = new DataView(buffer, byteOffset);
  const remote = { va: Number(place.getBigUint64(0)), rkey: place.getUint32(8) };
  const request = {
    opcode: "write",
    sendFlags: flagsFor(bytes),
    sges: [sge(mr, 0, bytes)],
    remote,
  } as const;
  let posted = 0, completed = 0;
  while (completed < messages) {
    while (posted < messages && posted - completed < depth) {
      const { qp } = connections[posted++ % connections.length]!;
      must(yield* postSend(qp, request));
    }
    for (const { status } of yield* waitCompletion(cq)) {
      if (status !== "SUCCESS") throw new ProgramError(`Completed with ${status}`);
      completed++;
    }
  }
}
