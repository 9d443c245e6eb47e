/**
 * READs of another host's DRAM, one after the other, of lines that no cache holds. perftest fills its
 * buffers, so that its READs find small ones in the LLC.
 */
import { median } from "./figure.ts";
import { planOf, simulatorOf } from "./bench_rack.ts";
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { connect } from "../../nodes/host/cm/connect.ts";
import { refused } from "../../nodes/host/cm/connection.ts";
import { accept, listen, waitEvent } from "../../nodes/host/cm/listen.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import { waitCompletion } from "../../nodes/host/verbs/completion_queue.ts";
import { createCq } from "../../nodes/host/verbs/create_cq.ts";
import { must, ProgramError } from "../../nodes/host/verbs/device.ts";
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_READ,
  IBV_SEND_SIGNALED,
} from "../../nodes/host/verbs/flags.ts";
import { allocPd, regMr } from "../../nodes/host/verbs/memory_region.ts";
import { postSend, sge } from "../../nodes/host/verbs/post.ts";

const SERVICE = "readable";
const COUNT = 16;

interface Job {
  readonly bytes: number;
}

function* readable({ cpu, device, options }: ProgramContext): Steps<void> {
  const { bytes } = options as unknown as Job;
  const listener = must(listen(device, SERVICE));
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 1 }));
  const memory = cpu.allocate(COUNT * bytes);
  const mr = must(yield* regMr(pd, memory, { access: IBV_ACCESS_REMOTE_READ }));
  const place = new DataView(new ArrayBuffer(12));
  place.setBigUint64(0, BigInt(mr.address));
  place.setUint32(8, mr.rkey);
  const privateData = new Uint8Array(place.buffer);
  for (;;) {
    const event = yield* waitEvent(listener);
    if (event?.kind !== "request") continue;
    const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 1, maxRecvWr: 1 };
    yield* accept(listener, event.request, { qp, privateData });
  }
}

function* reader({ cpu, device, options }: ProgramContext): Steps<void> {
  const { bytes } = options as unknown as Job;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 2 }));
  const mr = must(yield* regMr(pd, cpu.allocate(bytes), { access: IBV_ACCESS_LOCAL_WRITE }));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 1, maxRecvWr: 1 };
  const connection = yield* connect(device, { to: "b", service: SERVICE, qp });
  if (refused(connection)) throw new ProgramError(`b refuses: ${connection.reason}`);
  const { buffer, byteOffset } = connection.privateData;
  const place = new DataView(buffer, byteOffset);
  const base = Number(place.getBigUint64(0)), rkey = place.getUint32(8);
  const latencies: Time[] = [];
  for (let i = 0; i < COUNT; i++) {
    const since = cpu.now;
    const remote = { va: base + i * bytes, rkey };
    const sges = [sge(mr, 0, bytes)];
    must(
      yield* postSend(connection.qp, {
        opcode: "read",
        sendFlags: IBV_SEND_SIGNALED,
        sges,
        remote,
      }),
    );
    const [completion] = yield* waitCompletion(cq);
    if (completion?.status !== "SUCCESS") {
      throw new ProgramError(`Completed with ${completion?.status}`);
    }
    latencies.push(cpu.now - since);
  }
  cpu.report("result", { latencies });
}

/** Median of {@link COUNT} READs over a direct cable, post → CQE taken. @throws Error where one fails. */
export function readDramPs(bytes: number, seed: number): Time {
  const plan = planOf(`
name: reads
seed: ${seed}
profile: clx-optane-cx5
fabric: { topology: direct }
defaults: { services: none, dram: 64MiB }
hosts: { a: {}, b: {} }
`);
  const run = { a: "reader", b: "readable" } as const;
  const nodes = plan.nodes.map((node) => {
    if (node.kind !== "host") return node;
    const program = {
      run: run[node.name as "a" | "b"],
      at: node.name === "a" ? 200 * PS_PER_US : 0,
      service: false,
      options: { bytes },
    };
    return { ...node, config: { ...node.config, programs: [program] } };
  });
  let latencies: readonly Time[] = [];
  simulatorOf({ ...plan, nodes }, (_time, _node, topic, value) => {
    if (topic === "result") ({ latencies } = value as { readonly latencies: readonly Time[] });
  }, { own: { reader: () => ({ program: reader }), readable: () => ({ program: readable }) } })
    .run();
  if (latencies.length < COUNT) throw new Error(`${latencies.length} of ${COUNT} READs are done`);
  return median(latencies);
}
