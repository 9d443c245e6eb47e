/**
 * Protocols that are right only as long as cores and cards are as fast as the model's: `rack explore` stalls each of
 * them, and finds it. The same protocol in the right order is safe with each stall.
 */
import { deepStrictEqual as same, match, ok, strictEqual as equal } from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_SEND_INLINE,
  IBV_SEND_SIGNALED,
} from "../../nodes/host/verbs/flags.ts";
import type { Qp, WorkCompletion } from "../../nodes/host/verbs/objects.ts";
import { must } from "../../nodes/host/verbs/device.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import { explore } from "../../console/explore/explore.ts";
import { Explorer } from "../../console/explore/explore_scenario.ts";
import { verdictWords } from "../../console/api/explore_text.ts";
import { faultLines } from "../../console/explore/counterexample.ts";
import { PS_PER_MS } from "../../fabric/base/time.ts";
import { failureIn } from "../../console/explore/failures.ts";
import { type RackRun, runRack } from "../../console/explore/rerun.ts";
import {
  EXPLORE_DEFAULTS,
  type ExploredRack,
  type ExploreOptions,
} from "../../console/explore/types.ts";
import { faultsIn } from "../../console/rack/fault_lines.ts";
import { stallsOfRun } from "../../console/explore/disturbed/disturbances.ts";
import { CommandRig } from "../support/command.ts";
import { ownRack, putRack, rackOf } from "./explored_rack.ts";

const AT = 8192, BYTES = Uint8Array.from({ length: 64 }, (_, i) => i + 1);
const QUEUES = { maxSendWr: 4, maxRecvWr: 4, maxInlineData: 64 };

type Order = "flushes meanwhile" | "flushes first";
/** Of the message behind the WRITE: then nothing but time orders the two. */
type Queue = "the WRITE's queue" | "a queue of its own";

/** A WRITE into SCM, a SEND behind it; the server flushes what was written, and answers. */
function loggedBy(order: Order, queue: Queue = "the WRITE's queue"): ExploredRack {
  const program = function* (context: ProgramContext): Steps<void> {
    yield* context.options.to === undefined ? serve(context, order) : append(context, queue);
  };
  return rackOf(
    `
name: acknowledged
seed: 5
defaults: { services: none }
hosts: { a: {}, b: { ddio: on, scm: { size: 64KiB } } }
programs:
  - { on: b, program: ./log.ts }
  - { on: a, program: ./log.ts, to: b, at: 100us }
`,
    { "./log.ts": { program } },
  );
}

function* serve({ cpu, device }: ProgramContext, order: Order): Steps<void> {
  const { allocPd, createCq, regMr, listen, waitEvent, accept, refused } = device.verbs;
  const { postRecv, postSend, waitCompletion, sge } = device.verbs;
  const pd = allocPd(device), cq = must(yield* createCq(device, { entries: 8 }));
  const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  const log = must(yield* regMr(pd, cpu.scm, { offset: AT, length: 64, access }));
  const mr = must(yield* regMr(pd, cpu.allocate(64), { access: IBV_ACCESS_LOCAL_WRITE }));
  const listener = must(listen(device, "log"));
  const place = new BigUint64Array([BigInt(log.address), BigInt(log.rkey)]);
  const connections: Qp[] = [];
  while (connections.length < 2) {
    const event = yield* waitEvent(listener);
    if (event?.kind !== "request") continue;
    const wrId = connections.length;
    const connection = yield* accept(listener, event.request, {
      qp: { pd, sendCq: cq, recvCq: cq, ...QUEUES },
      privateData: new Uint8Array(place.buffer),
      *prepare(qp) {
        must(yield* postRecv(qp, { wrId, sges: [sge(mr, 0, 8)] }));
      },
    });
    if (refused(connection)) throw new Error(connection.reason);
    connections.push(connection.qp);
  }
  const answer = {
    opcode: "send",
    sendFlags: IBV_SEND_INLINE | IBV_SEND_SIGNALED,
    sges: [sge(mr, 8, 8)],
  } as const;
  const [{ wrId }] = (yield* waitCompletion(cq)) as [WorkCompletion];
  const flush = () => cpu.flush(cpu.scm.address + AT, 64);
  if (order === "flushes first") yield* flush();
  else {
    // Another thread flushes meanwhile.
    cpu.spawn("flusher", function* () {
      yield* flush();
    });
  }
  must(yield* postSend(connections[Number(wrId)]!, answer));
  yield* waitCompletion(cq);
  // A requester may have to send again: queue pairs end with their program.
  yield* cpu.sleep(20 * PS_PER_MS);
}

function* append({ cpu, device, options }: ProgramContext, queue: Queue): Steps<void> {
  const { allocPd, createCq, regMr, connect, refused } = device.verbs;
  const { postRecv, postSend, waitCompletion, sge } = device.verbs;
  const pd = allocPd(device), cq = must(yield* createCq(device, { entries: 8 }));
  const mr = must(yield* regMr(pd, cpu.allocate(128), { access: IBV_ACCESS_LOCAL_WRITE }));
  cpu.store(mr.address, BYTES);
  const qps: Qp[] = [];
  let remote = { va: 0, rkey: 0 };
  for (let i = 0; i < 2; i++) {
    const connection = yield* connect(device, {
      to: String(options.to),
      service: "log",
      qp: { pd, sendCq: cq, recvCq: cq, ...QUEUES },
    });
    if (refused(connection)) throw new Error(connection.reason);
    const [va, rkey] = new BigUint64Array(connection.privateData.slice(0, 16).buffer);
    remote = { va: Number(va), rkey: Number(rkey) };
    qps.push(connection.qp);
  }
  const [first, second] = qps as [Qp, Qp], last = queue === "the WRITE's queue" ? first : second;
  must(yield* postRecv(last, { sges: [sge(mr, 64, 8)] }));
  cpu.note({ kind: "writes", id: 0, on: "b", at: AT, bytes: BYTES });
  const write = { opcode: "write", sges: [sge(mr, 0, 64)], remote } as const;
  must(yield* postSend(first, { ...write, sendFlags: IBV_SEND_INLINE | IBV_SEND_SIGNALED }));
  const message = { opcode: "send", sges: [sge(mr, 64, 8)] } as const;
  must(yield* postSend(last, { ...message, sendFlags: IBV_SEND_INLINE | IBV_SEND_SIGNALED }));
  for (let done = 0; done < 3;) {
    for (const { status } of yield* waitCompletion(cq)) {
      if (status !== "SUCCESS") return;
      done++;
    }
  }
  cpu.note({ kind: "persistent", id: 0, promised: true });
}

function exploring(rack: ExploredRack, more: Partial<ExploreOptions> = {}) {
  return explore(rack, { ...EXPLORE_DEFAULTS, ...more });
}

describe("rack explore: stalls", () => {
  it("finds an acknowledgement that does not wait for the flush, which is as fast as the network", async () => {
    const rack = loggedBy("flushes meanwhile");
    const plain = await exploring(rack);
    same([plain.verdict, verdictWords(plain)], ["safe", "safe at this timing"]);
    const { verdict, counterexample, stalls } = await exploring(rack, { stalls: 64 });
    equal(verdict, "unsafe");
    match(counterexample!.found, /^b: SCM at 0x2000 is lost: write 0 of a\/0/);
    same(counterexample!.stalls!.map(({ node, by }) => [node, by]), [[
      "b",
      "b/0/./log.ts#1/flusher",
    ]]);
    ok(stalls!.tried < stalls!.places);
    const all = faultsIn(faultLines(counterexample!).join("\n"), "faults.jsonl");
    same(all.stalls, counterexample!.stalls);
    const plan = { ...rack.plan, faults: all.faults, stalls: all.stalls };
    equal(failureIn(rack, runRack({ ...rack, plan }), {})?.found, counterexample!.found);
    equal(failureIn(rack, runRack({ ...rack, plan: { ...plan, stalls: [] } }), {}), undefined);
  });

  it("finds nothing in a protocol that is right, and says how much of it was tried", async () => {
    const found = await exploring(loggedBy("flushes first"), { stalls: 16 });
    const { verdict, stalls } = found;
    same([verdict, verdictWords(found)], ["safe", "safe for everything tried"]);
    ok(stalls!.tried === 16 && stalls!.places > 16, JSON.stringify(stalls));
    ok(stalls!.orders > 1 && stalls!.crashPoints >= stalls!.orders, JSON.stringify(stalls));
  });

  /** Two records of one core, each flushed before it is promised. */
  const program = function* ({ cpu }: ProgramContext): Steps<void> {
    for (const id of [0, 1]) {
      const at = AT + 64 * id;
      cpu.note({ kind: "writes", id, on: "b", at, bytes: BYTES });
      cpu.store(cpu.scm.address + at, BYTES);
      yield* cpu.flush(cpu.scm.address + at, 64);
      if (id === 1) yield* cpu.sleep(5_000_000);
      cpu.note({ kind: "persistent", id, promised: true });
    }
  };

  it("is exhaustive where each place was tried, and no order is judged twice", async () => {
    const found = await exploring(ownRack({ program }), { stalls: Number.MAX_SAFE_INTEGER });
    const { stalls, exhaustive } = found;
    equal(
      verdictWords(found),
      "safe for everything tried, exhaustive but for the stalls",
    );
    same([exhaustive, stalls!.tried], [true, stalls!.places]);
    ok(stalls!.orders < stalls!.tried / 2, JSON.stringify(stalls));
  });

  it("says the least time from memory to a promise", async () => {
    const { slack } = await exploring(ownRack({ program }));
    same([slack!.by, slack!.id, slack!.on], ["b/0/./own.ts#1", 0, "b"]);
    equal(slack!.ps, slack!.promisedPs - slack!.durablePs);
    ok(slack!.ps < 5_000_000, "of write 0, as write 1 is promised late");
    const { slack: none } = await exploring(ownRack({ program }, ", domain: eadr"));
    equal(none, undefined, "caches keep it: it need not be in memory");
  });

  it("delays a card's message, and those behind it, by the stall's length", () => {
    const rack = putRack({ method: "persist-opcode", ddio: "off" });
    const recording = runRack(rack, { histories: true });
    const ps = 3_000_000, most = Number.MAX_SAFE_INTEGER;
    const { chosen } = stallsOfRun(rack, { recording, most, ps });
    const writesOf = (run: RackRun) => run.sendings.get("b-rnic")!.busWrites;
    const [first] = writesOf(recording);
    const { stall } = chosen.find(({ at, kind }) =>
      at === first!.at && kind === "b-rnic memory-write"
    )!;
    same([stall!.node, stall!.by], ["b", "b-rnic/0"]);
    const plan = { ...rack.plan, stalls: [stall!] };
    const stalled = runRack({ ...rack, plan }, { histories: true });
    equal(writesOf(stalled)[0]!.arrivesAt - first!.arrivesAt, ps);
    equal(writesOf(stalled)[0]!.at, first!.at);
  });

  it("finds a protocol that is right only while no frame is lost", async () => {
    const rack = loggedBy("flushes first", "a queue of its own");
    equal((await exploring(rack)).verdict, "safe", "as long as all frames come");
    const { verdict, counterexample, frames } = await exploring(rack, { frames: 40 });
    equal(verdict, "unsafe");
    match(counterexample!.found, /^b: SCM at 0x2000 is lost/);
    const [fault] = counterexample!.linkFaults!;
    ok(fault!.action !== "reorder" && frames!.tried < frames!.places);
    const all = faultsIn(faultLines(counterexample!).join("\n"), "faults.jsonl");
    same(all.linkFaults, counterexample!.linkFaults);
    const plan = { ...rack.plan, faults: all.faults, linkFaults: all.linkFaults };
    equal(failureIn(rack, runRack({ ...rack, plan }), {})?.found, counterexample!.found);
    const right = await exploring(loggedBy("flushes first"), { frames: 12 });
    equal(right.verdict, "safe", right.counterexample?.found);
    ok(right.frames!.orders > 3, JSON.stringify(right.frames));
  });

  it("keeps its verdict for any number of processes", async () => {
    const options = { ...EXPLORE_DEFAULTS, stalls: 6 };
    const { plan } = putRack({ method: "persist-opcode", ddio: "off" });
    const verdicts = [];
    for (const jobs of [1, 2]) {
      await using explorer = new Explorer(jobs);
      const rack = { plan, inputs: {}, programs: {} };
      const { wallMs: _, perSecond: _rate, ...verdict } = await explorer.explore(
        rack,
        options,
        () => {},
      );
      verdicts.push(verdict);
    }
    same(verdicts[1], verdicts[0]);
    equal(verdicts[0]!.stalls!.tried, 6);
  });
});

/** Counts in SCM. A thread flushes, and the program does not wait for it: a microsecond has always been enough. */
const HOPES = `
export default function* ({ cpu }) {
  cpu.store(cpu.scm.address, Uint8Array.of(1, 0, 0, 0, 0, 0, 0, 0));
  cpu.spawn("flusher", function* () {
    yield* cpu.flush(cpu.scm.address, 8);
  });
  yield* cpu.sleep(1_000_000);
  cpu.report("counted", 1);
}
export function* recover({ cpu }) {
  return cpu.load(cpu.scm.address, 1)[0];
}
export function check({ cut, hosts, reports }) {
  const said = reports.some(({ topic }) => topic === "counted");
  if (cut.includes("b") && said && hosts.b.recovered === 0) return "the count is lost";
}
`;

describe("rack explore --stalls", () => {
  let rig: CommandRig, scenario: string;

  beforeAll(async () => {
    rig = await CommandRig.open();
    await rig.file("hopes.ts", HOPES);
    scenario = await rig.file(
      "hopes.yaml",
      `
name: hopes
hosts: { b: { services: none, scm: { size: 64KiB } } }
programs: [{ on: b, program: ./hopes.ts, at: 100us }]
`,
    );
  });

  afterAll(() => rig.close());

  it("says of a verdict without stalls that it is one on this timing", async () => {
    const { code, stdout, stderr } = await rig.run(["explore", scenario, "--stalls", "0"]);
    equal(code, 0, stderr);
    match(stdout, /^safe at this timing hopes: /);
  });

  it("shows who stalled, where and for how long, and the command that it names shows it again", async () => {
    const { code, stdout, stderr } = await rig.run(["explore", scenario, "--stall", "20us"]);
    equal(code, 1, stderr);
    match(
      stdout,
      /the core of b\/0\/\.\/hopes\.ts#\d+\/flusher, at its rest \d+, stands still from \d+ ps \(.*\) on for 20 us/,
    );
    match(stdout, /check: the count is lost/);
    const [, again] = /To see it again:\n {2}rack (.*)/.exec(stdout)!;
    const shown = await rig.run([...again!.split(" "), "--json"]);
    equal(shown.code, 1, shown.stderr);
    const { checks } = JSON.parse(shown.stdout);
    const broken = checks.filter(({ holds }: { holds: boolean }) => !holds);
    match(broken.map(({ detail }: { detail: string }) => detail).join(), /the count is lost/);
  });
});
