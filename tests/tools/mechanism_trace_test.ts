/** Ladders of hints and of queue information over the whole rack: each step once, in order, at its time. */
import { deepEqual as same, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_ATOMIC,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_SEND_SIGNALED,
} from "../../nodes/host/verbs/flags.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import { ladderDocument, operationIn } from "../../console/rack/trace_operation.ts";
import { perfettoOf } from "../../fabric/capture/perfetto.ts";
import { StepLog } from "../../console/replay/step_log.ts";
import type { Ladder, TraceLine } from "../../fabric/trace/trace.ts";
import { ladderText } from "../../fabric/trace/trace_text.ts";
import { PS_PER_MS, PS_PER_US } from "../../fabric/base/time.ts";
import { admit, connectTo, nextRequest, remoteOf } from "../../scripts/scenarios/peer.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const SERVICE = "cold", PAGE = 4096, PAGES = 2;
const ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
  IBV_ACCESS_REMOTE_ATOMIC;

/** A READ of cold pages, a WRITE to them, a fetch-add to a word of them; each when the one before has ended. */
function* cold({ cpu, device, options }: ProgramContext): Steps<void> {
  const v = device.verbs, pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 16 }));
  const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 8, maxRecvWr: 8 };
  const memory = function* () {
    return v.must(yield* v.regMr(pd, cpu.allocate(PAGES * PAGE), { access: ACCESS }));
  };
  if (options.role === "server") {
    const listener = v.must(v.listen(device, SERVICE));
    for (let left = Number(options.clients); left > 0; left--) {
      const request = yield* nextRequest(device, listener);
      yield* admit({ device, listener }, request, { qp, mr: yield* memory() });
    }
    // Its memory is there until it ends.
    yield* cpu.sleep(20 * PS_PER_MS);
    return;
  }
  const mr = yield* memory();
  const connection = yield* connectTo(device, { to: "server", service: SERVICE, qp });
  // What both cards say of hints at the start has arrived by then.
  yield* cpu.sleep(200 * PS_PER_US);
  const all = { sendFlags: IBV_SEND_SIGNALED, remote: remoteOf(connection) } as const;
  const sges = [v.sge(mr, 0, PAGES * PAGE)], word = [v.sge(mr, 0, 8)];
  for (
    const request of [
      { opcode: "read", sges, ...all },
      { opcode: "write", sges, ...all },
      { opcode: "fetch-add", sges: word, ...all, atomic: { swapAdd: 1n, compare: 0n } },
    ] as const
  ) {
    v.must(yield* v.postSend(connection.qp, request));
    const [completion] = yield* v.waitCompletion(cq);
    equal(completion!.status, "SUCCESS");
  }
}

function trace(hosts: string, clients: readonly string[]) {
  const programs = clients.map((on) => `  - { on: ${on}, program: ./cold.ts, role: client }`);
  const rack = new SimulatedRack(
    `
name: mechanisms
seed: 3
profile: clx-optane-cx5
defaults: { services: none }
hosts:
${hosts}
programs:
  - { on: server, program: ./cold.ts, role: server, clients: ${clients.length} }
${programs.join("\n")}
`,
    { trace: true, programs: { "./cold.ts": cold } },
  ).run();
  const lines = rack.traces.map(({ time, node, step }): TraceLine => ({ time, node, ...step }));
  return { lines, plan: rack.plan, label: "" };
}

const stepsOf = ({ rows }: Ladder) => rows.map(({ node, step }) => `${node} ${step}`);

describe("ladders of hints", () => {
  const traced = trace(
    `  server: { ddio: off, pin: false, hints: { kinds: [prefetch, atomic] } }
  client: { hints: { send: 600us, kinds: [prefetch, atomic] } }
  off: {}`,
    ["client", "off"],
  );
  const [read, write, add] = [0, 1, 2].map((index) =>
    operationIn(traced, { index, on: "client" }).ladder
  ) as [Ladder, Ladder, Ladder];

  it("H-03, H-06, H-20, H-21: a cold, hinted READ has hint, decision, page request and mapping, each once, before it leaves", () => {
    same(stepsOf(read).slice(0, 14), [
      "client wqe",
      "client 202.1",
      "client-rnic 202.2",
      "client-rnic 203.1",
      "client-rnic 203.4",
      "client-rnic 204.2",
      "client-rnic 608",
      "server-rnic 610",
      "server-rnic 612.1",
      "server-rnic 612.2",
      "server pages-in",
      "server-rnic pages-mapped",
      "client-rnic S209",
      "client-rnic S210",
    ], ladderText(read));
    const at = (step: string) => read.rows.find((row) => row.step === step)!.time / PS_PER_US;
    ok(at("610") - at("608") < 1.5, "a cable");
    equal(at("612.1"), at("610"));
    // The firmware's time for a page fault, the thread's and its command's.
    ok(at("612.2") - at("612.1") > 400 && at("pages-mapped") - at("612.2") > 5, ladderText(read));
    equal(Math.round(at("S209") - at("608")), 600, "H-06: the agreed wait");
    ok(!stepsOf(read).some((step) => step.endsWith("page-fault")), "all was there in time");
    const decision = read.rows.find(({ step }) => step === "612.1")!;
    ok(/READ of 8192 B at VA .*: pages 0 to 1 of rkey .* are away/.test(decision.text));
  });

  it("H-21, H-23: an atomic's ladder has its word's preload, ahead of the request", () => {
    const steps = stepsOf(add);
    const places = ["608", "610", "612.1", "612.3", "atomic"].map((name) =>
      steps.findIndex((step) => step.endsWith(` ${name}`))
    );
    same(places, places.toSorted((x, y) => x - y), ladderText(add));
    ok(places[0]! > 0, ladderText(add));
    equal(steps.filter((step) => step.endsWith(" 612.3")).length, 1);
  });

  it("H-20: where all is there the decision says so, and nothing is requested", () => {
    const decisions = write.rows.filter(({ step }) => step === "612.1");
    equal(decisions.length, 1, ladderText(write));
  });

  it("without hints a cold READ has the page fault, its request and the mapping, and no hint", () => {
    const ladder = operationIn(traced, { index: 0, on: "off" }).ladder;
    const steps = stepsOf(ladder);
    ok(!steps.some((step) => / 6\d\d/.test(step)), ladderText(ladder));
    const paged = steps.filter((step) => / pages?-/.test(step));
    // One page at a time: the message's first, then what it goes on to.
    same(paged, [
      "server-rnic page-fault",
      "server-rnic page-request",
      "server pages-in",
      "server-rnic pages-mapped",
      "server-rnic page-fault",
      "server pages-in",
      "server-rnic pages-mapped",
    ], ladderText(ladder));
  });

  it("--json has the documents' words, with paragraph and requirement, and the time since the begin", () => {
    const { rows } = ladderDocument(traced, read);
    const decision = rows.find(({ step }) => step === "612.1")!;
    equal(decision.document, "determines pre-emptive actions [0160] (H-20)");
    ok(decision.sincePs > 0 && ladderText(read).includes(decision.document!));
  });
});

describe("a timeline of them", () => {
  it("has instants with number and word, and slices of page requests and look-ups at their length", () => {
    const { lines, plan } = trace(
      `  server: { ddio: off, pin: false, hints: on }
  client: { blueFlame: off, hints: on, queues: { scheme: classic } }`,
      ["client"],
    );
    const names = plan.nodes.map(({ name }) => name);
    const events = lines.map(({ time, node: name, ...step }, event) => {
      const node = names.indexOf(name);
      return { time, node, seen: [{ kind: "step" as const, time, node, event, step }] };
    });
    const text = [...perfettoOf([{ label: "", plan, events }])].join("");
    const { traceEvents } = JSON.parse(text) as { traceEvents: TimelineEvent[] };
    const instants = new Set(traceEvents.filter(({ ph }) => ph === "i").map(({ name }) => name));
    for (const name of ["608 hint-out", "610 hint-in", "612.1 hint-decision", "address-read"]) {
      ok(instants.has(name), `${name} is in ${[...instants].join(", ")}`);
    }
    const tracks = new Map(
      traceEvents.filter(({ name }) => name === "thread_name").map(({ pid, tid, args }) =>
        [String(args.name), `${pid}/${tid}`] as const
      ),
    );
    const slicesOf = (track: string) =>
      traceEvents.filter(({ ph, pid, tid }) => ph === "X" && tracks.get(track) === `${pid}/${tid}`);
    const [request] = slicesOf("page requests");
    const from = lines.find(({ step }) => /page-request/.test(step))!.time;
    const to = lines.findLast(({ step }) => step === "pages-mapped")!.time;
    same([request!.ts, request!.dur], [from / PS_PER_US, (to - from) / PS_PER_US]);
    const known = lines.find(({ step }) => step === "queue-known")!.time;
    const lookUp = slicesOf("queue information").find(({ ts, dur }) =>
      Math.abs(ts + dur - known / PS_PER_US) < 1e-3
    );
    ok(lookUp !== undefined, "of both reads together");
  });
});

interface TimelineEvent {
  readonly ph: string;
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  readonly ts: number;
  readonly dur: number;
  readonly args: Readonly<Record<string, unknown>>;
}

describe("StepLog", () => {
  it("gives back what joins these lines: a replay's ladders are those of the trace", () => {
    const { lines, plan } = trace("  server: { pin: false, hints: on }\n  client: { hints: on }", [
      "client",
    ]);
    const log = new StepLog();
    const steps = lines.filter(({ busy }) => busy === undefined);
    for (const [order, { time, node, ...step }] of steps.entries()) {
      log.push({ time, node, order }, step);
    }
    const kept = steps.map((_, i) => log.at(i));
    same(kept.map(({ order: _, ...line }) => line), steps);
    const from = (read: readonly TraceLine[]) =>
      operationIn({ lines: read, plan, label: "" }, { index: 0, on: "client" }).ladder;
    same(from(kept), from(steps));
    ok(kept.some(({ pages }) => pages !== undefined) && kept.some(({ units }) => units));
  });
});

describe("ladders of doorbells", () => {
  const traced = trace(
    `  server: { ddio: off }
  number: { blueFlame: off, queues: { doorbell: { carries: number } } }
  classic: { blueFlame: off, queues: { scheme: classic } }`,
    ["number", "classic"],
  );

  it("Q-06 to Q-08: one with the number alone has the read of space 3, and the newer pointer", () => {
    const { ladder } = operationIn(traced, { index: 1, on: "number" });
    same(stepsOf(ladder).slice(0, 9), [
      "number wqe",
      "number 202.1",
      "number-rnic 202.2",
      "number-rnic 203.1",
      "number-rnic 203.2",
      "number-rnic 203.3",
      "number-rnic 203.4",
      "number-rnic 204.1",
      "number-rnic S202",
    ], ladderText(ladder));
  });

  it("Q-10: with the classic scheme there are two reads, the second behind the first", () => {
    const { ladder } = operationIn(traced, { index: 1, on: "classic" });
    same(stepsOf(ladder).slice(0, 10), [
      "classic wqe",
      "classic 202.1",
      "classic-rnic 202.2",
      "classic-rnic 203.1",
      "classic-rnic address-read",
      "classic-rnic pointer-read",
      "classic-rnic 203.3",
      "classic-rnic 203.4",
      "classic-rnic 204.1",
      "classic-rnic S202",
    ], ladderText(ladder));
    const at = (step: string) => ladder.rows.find((row) => row.step === step)!.time;
    ok(at("pointer-read") > at("address-read") && at("203.3") > at("pointer-read"));
  });
});
