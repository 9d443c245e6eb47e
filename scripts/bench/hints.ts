/** (r) Hints (H-30). */
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import { waitCompletion } from "../../nodes/host/verbs/completion_queue.ts";
import { createCq } from "../../nodes/host/verbs/create_cq.ts";
import { connect } from "../../nodes/host/cm/connect.ts";
import { refused } from "../../nodes/host/cm/connection.ts";
import { must, ProgramError } from "../../nodes/host/verbs/device.ts";
import { allocPd, regMr } from "../../nodes/host/verbs/memory_region.ts";
import type { SendRequest } from "../../nodes/host/verbs/objects.ts";
import { postSend, sge } from "../../nodes/host/verbs/post.ts";
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { formatSize } from "../../fabric/rack/plan/units.ts";
import workload from "../scenarios/hints_workload.ts";
import { planOf, simulatorOf } from "./bench_rack.ts";
import { countCalls } from "./calls.ts";
import { type Figure, type Measured, repeat } from "./figure.ts";
import { cpuMs } from "./traffic_rack.ts";
import { flagsFor, SMALL_INLINE } from "../../nodes/host/programs/common/send_flags.ts";

export async function measureHints({ seed, quick }: Measured): Promise<Figure[]> {
  return [
    ...measureStall(seed),
    ...measureUseless(seed),
    ...await measureCalls(seed),
    ...measureCost({ seed, quick }),
  ];
}

const MIB = 2 ** 20;
/** 5: a round trip of the network. */
const LEADS_US = [0, 5, 100, 200, 300, 400, 500, 550];

function measureStall(seed: number): Figure[] {
  const without = stallPs({ seed, bytes: MIB, client: "{}" });
  const ahead = (leadPs: Time) => {
    const send = leadPs === 0 ? "at-once" : `${leadPs / 1e3}ns`;
    return stallPs({ seed, bytes: MIB, client: `{ hints: { send: ${send} } }` });
  };
  const row = (what: string, ps: Time): Figure => ({
    group: "r",
    what: `a cold WRITE of 1 MiB stalls: ${what}`,
    unit: "µs",
    values: [ps / PS_PER_US],
  });
  // A page request's round trip: to the driver, and until the pages are there.
  const onePage = stallPs({ seed, bytes: 4096, client: "{}" });
  const removed = (lead: Time) => 100 * (1 - ahead(lead) / without);
  const target = { is: "at least", value: 90 } as const;
  return [
    row("without hints", without),
    ...LEADS_US.map((us) => row(`hint ${us} µs ahead`, ahead(us * PS_PER_US))),
    {
      group: "r",
      what: `of it gone: hint the round trip of one page ahead, ${
        Math.round(onePage / PS_PER_US)
      } µs`,
      unit: "%",
      values: [removed(onePage)],
      target,
    },
    {
      group: "r",
      what: `of it gone: hint the round trip of its pages ahead, ${
        Math.round(without / PS_PER_US)
      } µs`,
      unit: "%",
      values: [removed(without)],
      target,
    },
  ];
}

function stallPs(
  { seed, bytes, client }: {
    readonly seed: number;
    readonly bytes: number;
    readonly client: string;
  },
): Time {
  const job = `program: ./hints_workload.ts, workload: huge, bytes: ${bytes}`;
  const plan = planOf(`
name: stall
seed: ${seed}
profile: clx-optane-cx5
defaults: { services: none }
hosts: { server: { pin: false, hints: on }, client: ${client} }
programs:
  - { on: server, role: server, clients: 1, ${job} }
  - { on: client, at: 1ms, role: client, ${job} }
`);
  let found: Time | undefined;
  simulatorOf(plan, (_time, _node, topic, value) => {
    if (topic === "result") found = (value as { stallPs?: Time }).stallPs ?? found;
  }, { own: { "./hints_workload.ts": () => ({ program: workload }) } }).run();
  if (found === undefined) throw new Error(`${client}: no stall was measured`);
  return found;
}

interface Load {
  readonly seed: number;
  readonly bytes: number;
  readonly messages: number;
  readonly depth: number;
  readonly hints: "on" | "off" | "{ backOff: off }";
}

interface LoadRun {
  readonly virtualPs: Time;
  readonly cpuMs: number;
  readonly hints: number;
  readonly events: number;
}

/** Into memory that is present, though hints are wanted for it: none of them is of use. */
function* writer({ cpu, device, options }: ProgramContext): Steps<void> {
  const { bytes, messages, depth } = options as unknown as Load;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 2 * depth }));
  const mr = must(yield* regMr(pd, cpu.allocate(bytes), { access: 0 }));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: depth, maxRecvWr: 1, ...SMALL_INLINE };
  const connection = yield* connect(device, { to: "b", service: "sink", qp });
  if (refused(connection)) throw new ProgramError(`b refuses: ${connection.reason}`);
  const { qp: queuePair, privateData: { buffer, byteOffset } } = connection;
  const place = new DataView(buffer, byteOffset);
  const remote = { va: Number(place.getBigUint64(0)), rkey: place.getUint32(8) };
  const request: SendRequest = {
    opcode: "write",
    sendFlags: flagsFor(bytes),
    sges: [sge(mr, 0, bytes)],
    remote,
  };
  function* write(count: number): Steps<void> {
    for (let posted = 0, completed = 0; completed < count;) {
      const next = Math.min(count, completed + depth) - posted;
      if (next > 0) must(yield* postSend(queuePair, Array(next).fill(request)));
      posted += Math.max(0, next);
      for (const { status } of yield* waitCompletion(cq)) {
        if (status !== "SUCCESS") throw new ProgramError(`Completed with ${status}`);
        completed++;
      }
    }
  }
  // Its pages come with the first message; the cards' messages about hints arrive meanwhile.
  yield* write(1);
  yield* cpu.sleep(1_000 * PS_PER_US);
  cpu.report("began", {});
  const began = cpu.now;
  yield* write(messages);
  cpu.report("result", { virtualPs: cpu.now - began });
}

function runLoad({ seed, hints, bytes, messages, depth }: Load): LoadRun {
  const plan = planOf(`
name: useless
seed: ${seed}
profile: clx-optane-cx5
defaults: { services: none, pin: false, hints: ${hints} }
hosts: { a: {}, b: {} }
programs:
  - { on: b, run: sink, bytes: ${bytes} }
  - { on: a, at: 200us, program: ./writer.ts, bytes: ${bytes}, messages: ${messages}, depth: ${depth} }
`);
  let begun = 0, cpu = 0, virtualPs: Time | undefined;
  const simulator = simulatorOf(plan, (_time, _node, topic, value) => {
    if (topic === "began") begun = cpuMs();
    if (topic !== "result") return;
    cpu = cpuMs() - begun;
    virtualPs = (value as { virtualPs: Time }).virtualPs;
  }, { own: { "./writer.ts": () => ({ program: writer }) } });
  simulator.run();
  if (virtualPs === undefined) throw new Error(`hints ${hints}: the writer has not ended`);
  const { hintsSent: sent = 0 } = simulator.statistics()["a-rnic"] ?? {};
  return { virtualPs, cpuMs: cpu, hints: sent, events: simulator.events };
}

const SIZES = [64, 512, 1024, 2048, 4096, 65_536];
const DEPTH = 32;

function measureUseless(seed: number): Figure[] {
  return SIZES.map((bytes): Figure => {
    const load = { seed, bytes, messages: 1024, depth: DEPTH };
    const without = runLoad({ ...load, hints: "off" });
    const hinted = runLoad({ ...load, hints: "on" });
    if (hinted.hints === 0) throw new Error("The load has been without hints");
    return {
      group: "r",
      what: `WRITEs of ${formatSize(bytes)}, hints that are of no use: less throughput`,
      unit: "%",
      values: [100 * (1 - without.virtualPs / hinted.virtualPs)],
      target: { is: "at most", value: 2 },
    };
  });
}

/** Calls of hints' code for each message: the difference of a long run and a short one is exact. */
async function measureCalls(seed: number): Promise<Figure[]> {
  const LONG = 1024, SHORT = 256;
  const figures: Figure[] = [];
  // One after the other, as V8 counts for the whole process.
  for (const hints of ["off", "on"] as const) {
    const calls = (messages: number) =>
      countCalls("/hints/", () => runLoad({ seed, bytes: 64, depth: DEPTH, hints, messages }));
    const each = (await calls(LONG) - await calls(SHORT)) / (LONG - SHORT);
    figures.push({
      group: "r",
      what: `calls of functions of hints for each WRITE, hints ${hints}`,
      unit: "",
      values: [each],
      ...(hints === "off" && { target: { is: "at most", value: 0 } as const }),
    });
  }
  return figures;
}

function measureCost({ seed, quick }: Measured): Figure[] {
  const ALL = "{ backOff: off }";
  return [64, 4096].flatMap((bytes) =>
    (["off", "on", ALL] as const).map((hints): Figure => {
      const load = { seed, bytes, messages: quick ? 2_000 : 20_000, depth: DEPTH };
      const runs = repeat(quick ? 3 : 9, () => {
        const [without, with_] = (["off", hints] as const)
          .map((each) => runLoad({ ...load, hints: each }));
        return with_!.cpuMs / without!.cpuMs;
      });
      return {
        group: "r",
        what: `WRITEs of ${formatSize(bytes)}: processor time of a message, ${COSTS[hints]}`,
        unit: "×",
        values: runs,
        ...(hints !== "off" && { target: { is: "at most", value: 1.3 } as const }),
      };
    })
  );
}

const COSTS = {
  // Only other load of the machine.
  "off": "without hints over without",
  "on": "with hints over without",
  "{ backOff: off }": "all announced",
} as const satisfies Record<Load["hints"], string>;
