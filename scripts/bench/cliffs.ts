/** (p) How a card slows down where its caches are too small. */
import type { Cq, Mr } from "../../nodes/host/verbs/objects.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Connection } from "../../nodes/host/cm/connection.ts";
import { PS_PER_S, PS_PER_US, type Time } from "../../fabric/base/time.ts";
import type { Simulator } from "../../fabric/partition/simulator.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { formatSize } from "../../fabric/rack/plan/units.ts";
import { waitCompletion } from "../../nodes/host/verbs/completion_queue.ts";
import { createCq } from "../../nodes/host/verbs/create_cq.ts";
import { connect } from "../../nodes/host/cm/connect.ts";
import { refused } from "../../nodes/host/cm/connection.ts";
import { must, ProgramError } from "../../nodes/host/verbs/device.ts";
import { allocPd, regMr } from "../../nodes/host/verbs/memory_region.ts";
import { postSend, sge } from "../../nodes/host/verbs/post.ts";
import { planOf, simulatorOf } from "./bench_rack.ts";
import type { PutTable } from "./put_table.ts";
import { flagsFor, SMALL_INLINE } from "../../nodes/host/programs/common/send_flags.ts";

export interface CliffRun {
  /** Of all programs together, each drawn as often as any other. */
  readonly qps: number;
  readonly programs: number;
  readonly depth: number;
  /** Counted, of all programs; as many go before them, while caches fill. */
  readonly messages: number;
  /** Of the responder's memory, to which WRITEs of 64 B go. */
  readonly bytes: number;
  readonly seed: number;
  readonly queueEntries?: number;
  readonly layout?: "areas" | "record";
  readonly translationEntries?: number;
}

export interface CliffFigure {
  readonly messagesPerSecond: number;
  /** DMA reads of both cards, for a message. */
  readonly queueReads: number;
  readonly translationReads: number;
}

const MESSAGE_BYTES = 64;
const SERVICE = "sink";
/** Upper bound of a queue pair's connection; the rest is boot. */
const CONNECT_PS = 200 * PS_PER_US, BOOT_PS = 2_000 * PS_PER_US;

interface Job extends Pick<CliffRun, "qps" | "depth" | "messages" | "bytes"> {
  readonly startPs: Time;
}

function* writer({ cpu, device, options }: ProgramContext): Steps<void> {
  const { qps, depth, messages, bytes, startPs } = options as unknown as Job;
  const pd = allocPd(device);
  const cq: Cq = must(yield* createCq(device, { entries: 2 * depth }));
  const mr: Mr = must(yield* regMr(pd, cpu.allocate(MESSAGE_BYTES), { access: 0 }));
  const connections: Connection[] = [];
  const caps = { pd, sendCq: cq, recvCq: cq, maxSendWr: depth, maxRecvWr: 1, ...SMALL_INLINE };
  while (connections.length < qps) {
    const connection = yield* connect(device, { to: "h2", service: SERVICE, qp: caps });
    if (refused(connection)) throw new ProgramError(`h2 refuses: ${connection.reason}`);
    connections.push(connection);
  }
  if (cpu.now >= startPs) throw new ProgramError("Connected too late");
  const { buffer, byteOffset } = connections[0]!.privateData;
  const place = new DataView(buffer, byteOffset);
  const base = Number(place.getBigUint64(0)), rkey = place.getUint32(8);
  yield* cpu.sleep(startPs - cpu.now);
  let posted = 0, completed = 0, since = startPs;
  while (completed < 2 * messages) {
    while (posted < 2 * messages && posted - completed < depth) {
      posted++;
      const { qp } = connections[Math.floor(cpu.random() * qps)]!;
      const at = Math.floor(cpu.random() * bytes / MESSAGE_BYTES) * MESSAGE_BYTES;
      const remote = { va: base + at, rkey };
      const sges = [sge(mr, 0, MESSAGE_BYTES)];
      must(
        yield* postSend(qp, { opcode: "write", sendFlags: flagsFor(MESSAGE_BYTES), sges, remote }),
      );
    }
    for (const { status } of yield* waitCompletion(cq)) {
      if (status !== "SUCCESS") throw new ProgramError(`Completed with ${status}`);
      completed++;
      if (completed === messages) {
        since = cpu.now;
        cpu.report("half", {});
      }
    }
  }
  cpu.report("result", { ps: cpu.now - since });
}

/** One point of a curve. @throws Error where a program fails or does not finish. */
export function runCliff(run: CliffRun): CliffFigure {
  const { qps, programs, messages } = run;
  const times: Time[] = [];
  let halves = 0, before = NO_READS;
  const simulator = simulatorOf(planFor(run), (_time, _node, topic, value) => {
    if (topic === "half" && ++halves === programs) before = readsOf(simulator);
    if (topic === "result") times.push((value as { readonly ps: Time }).ps);
  }, { own: { writer: () => ({ program: writer }) } });
  simulator.run();
  if (times.length < programs) {
    throw new Error(
      `${times.length} of ${programs} programs over ${qps} queue pairs have finished`,
    );
  }
  const after = readsOf(simulator);
  return {
    messagesPerSecond: times.reduce(
      (sum, ps) => sum + messages / programs * PS_PER_S / ps,
      0,
    ),
    queueReads: (after.queue - before.queue) / messages,
    translationReads: (after.translation - before.translation) / messages,
  };
}

const NO_READS = { queue: 0, translation: 0 };

function readsOf(simulator: Simulator): typeof NO_READS {
  const cards = Object.values(simulator.statistics());
  const sum = (name: string) => cards.reduce((all, each) => all + (each[name] ?? 0), 0);
  return { queue: sum("queueReads"), translation: sum("translationMisses") };
}

function planFor(run: CliffRun): RackPlan {
  const { qps, programs, depth, messages, bytes, seed, layout = "record" } = run;
  const { queueEntries, translationEntries } = run;
  const cache = queueEntries === undefined ? "" : `, cache: { entries: ${queueEntries} }`;
  const queues = `queues: { count: ${4 * qps + 64}, layout: ${layout}${cache} }`;
  const translations = translationEntries === undefined
    ? ""
    : `, translationCache: { entries: ${translationEntries} }`;
  const plan = planOf(
    [
      "name: cliffs",
      `seed: ${seed}`,
      "profile: clx-optane-cx5",
      "hosts:",
      `  h1..h2: { dram: 4GiB, cores: ${programs}, services: none, ${queues}${translations} }`,
    ].join("\n") + "\n",
  );
  const startPs = BOOT_PS + qps * CONNECT_PS;
  const job = { qps: qps / programs, depth, messages: messages / programs, bytes, startPs };
  const started = { at: 200 * PS_PER_US, service: false };
  const writers = Array.from(
    { length: programs },
    () => ({ ...started, run: "writer", options: job }),
  );
  const sink = [{ run: "sink", at: 0, service: false, options: { bytes } }];
  return {
    ...plan,
    nodes: plan.nodes.map((node) =>
      node.kind === "host"
        ? { ...node, config: { ...node.config, programs: node.name === "h2" ? sink : writers } }
        : node
    ),
  };
}

const QPS = [12, 1200, 2400, 4800, 9600] as const;
const QUICK_QPS = [12, 120] as const;
const MIB = 2 ** 20;
const MEMORY = [64 * MIB, 256 * MIB, 512 * MIB, 1024 * MIB, 2048 * MIB] as const;
const QUICK_MEMORY = [64 * MIB] as const;

/** 12 cores with 16 messages outstanding each keep the card busy; one with 4 waits for each. */
const LOADS = [
  { programs: 12, depth: 16, layouts: ["record", "areas"] },
  { programs: 1, depth: 4, layouts: ["record"] },
] as const;

export interface CliffRow extends CliffFigure, Pick<CliffRun, "programs" | "depth"> {
  readonly what: string;
  readonly layout: NonNullable<CliffRun["layout"]>;
}

export function measureCliffs(
  { seed, quick }: { readonly seed: number; readonly quick: boolean },
): CliffRow[] {
  const row = (what: string, run: CliffRun): CliffRow => {
    const { programs, depth, layout = "record" } = run;
    return { what, programs, depth, layout, ...runCliff(run) };
  };
  return LOADS.flatMap(({ layouts, ...load }) => [
    ...layouts.flatMap((layout) =>
      (quick ? QUICK_QPS : QPS).map((qps) =>
        row(`${qps} queue pairs`, {
          ...load,
          qps,
          layout,
          seed,
          bytes: 4096,
          messages: Math.max(4_800, 2 * qps),
        })
      )
    ),
    ...(quick ? QUICK_MEMORY : MEMORY).map((bytes) =>
      row(`${formatSize(bytes)} of memory`, {
        ...load,
        qps: 12,
        seed,
        bytes,
        messages: 9_600,
      })
    ),
  ]);
}

export function cliffsTable(rows: readonly CliffRow[]): PutTable {
  const header = ["outstanding", "against", "layout", "million WRITEs/s"];
  return {
    name: "cliffs",
    header: [...header, "reads of queue information for one", "of translations"],
    rows: rows.map(({ programs, depth, what, layout, ...figure }) => [
      String(programs * depth),
      what,
      layout,
      (figure.messagesPerSecond / 1e6).toFixed(2),
      figure.queueReads.toFixed(2),
      figure.translationReads.toFixed(2),
    ]),
  };
}
