/** `rack explore` on programs that share a region: how their accesses may interleave, in both memory models. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { type HoldPlan, withHolds } from "../../fabric/rack/plan/plan.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import { explore } from "../../console/explore/explore.ts";
import { exploreScenario } from "../../console/explore/explore_scenario.ts";
import { faultLines } from "../../console/explore/counterexample.ts";
import { orderOf } from "../../console/explore/interleavings/order.ts";
import { exploredText } from "../../console/explore/report.ts";
import { runRack } from "../../console/explore/rerun.ts";
import {
  EXPLORE_DEFAULTS,
  type ExploredRack,
  type ExploreOptions,
} from "../../console/explore/types.ts";
import { faultsIn } from "../../console/rack/fault_lines.ts";
import type { CrashView } from "../../nodes/host/recovery/protocol.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import type { Cpu, Region, Steps } from "../../nodes/host/cpu/program.ts";
import { sharedScenario } from "./shared_rack.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";

const OPTIONS: ExploreOptions = { ...EXPLORE_DEFAULTS, cut: "none" };

const word = (value: number) => new Uint8Array(new BigUint64Array([BigInt(value)]).buffer);

function* look(region: Region, offset: number): Steps<number> {
  return (yield* region.load(offset, 8))[0]!;
}

type Check = (view: Pick<CrashView, "reports">) => readonly string[];

function rackOf(
  program: Program,
  { memory = "sc", hosts = ["a", "b"], check, lines = 8 }: {
    readonly memory?: "sc" | "tso";
    readonly hosts?: readonly string[];
    readonly check?: Check;
    readonly lines?: number;
  } = {},
): ExploredRack {
  const text = sharedScenario({ hosts, memory: "dram", lines })
    .replace("services: none", `services: none, memory: ${memory}`);
  const [variant] = variants(parseScenario(text, "shared.yaml"));
  const own = { "./shared.ts": () => ({ program, ...(check && { check }) }) };
  return { plan: makePlan(variant!), inputs: {}, own };
}

const FLAG = [0, 64] as const, TURN = 128, COUNT = 192;

/** Two sections of Peterson's lock, which count. */
function peterson(kind: "right" | "fenced" | "looks first"): Program {
  return function* ({ cpu }) {
    const own = cpu.host === "a" ? 0 : 1, other = 1 - own;
    const region = yield* cpu.region("s");
    // The second one comes when the first one is through.
    yield* cpu.sleep((250 + 12 * own) * PS_PER_US - cpu.now);
    const set = function* (): Steps<void> {
      yield* region.store(FLAG[own]!, word(1));
      yield* region.store(TURN, word(other));
      if (kind === "fenced") yield* region.fence();
    };
    const wait = function* (): Steps<void> {
      for (;;) {
        if ((yield* look(region, FLAG[other]!)) === 0) return;
        if ((yield* look(region, TURN)) === own) return;
      }
    };
    if (kind === "looks first") {
      yield* wait();
      yield* set();
    } else {
      yield* set();
      yield* wait();
    }
    const count = yield* look(region, COUNT);
    yield* region.store(COUNT, word(count + 1));
    yield* region.store(FLAG[own]!, word(0));
    yield* region.fence();
    yield* cpu.sleep(100 * PS_PER_US);
    cpu.report("count", yield* look(region, COUNT));
  };
}

const counts: Check = ({ reports }) =>
  reports.flatMap(({ node, topic, value }) =>
    topic === "count" && value !== 2 ? [`${node} counts ${value}`] : []
  );

/** Two programs that count, with atomics or without, in the text of a file of one's own. */
function counted(isWrong: boolean): string {
  return `
const word = (value) => new Uint8Array(new BigUint64Array([BigInt(value)]).buffer);
export default function* ({ cpu }) {
  const region = yield* cpu.region("s");
  yield* cpu.sleep((cpu.host === "a" ? 250 : 265) * 1e6 - cpu.now);
  for (let i = 0; i < 3; i++) {
    ${isWrong ? "yield* region.store(0, word(1 + (yield* region.load(0, 8))[0]));" : ""}
    ${isWrong ? "" : "yield* region.fetchAdd(0, 1n);"}
  }
  yield* cpu.sleep(200e6);
  cpu.report("count", (yield* region.load(0, 8))[0]);
}
export function check({ reports }) {
  return reports.flatMap(({ topic, value }) => topic === "count" && value !== 6 ? ["it counts " + value] : []);
}`;
}

describe("explore varies how programs interleave on shared regions", () => {
  it("finds Peterson's lock whose flag is set after the look, and its run again by the holds", async () => {
    const rack = rackOf(peterson("looks first"), { check: counts });
    const verdict = await explore(rack, OPTIONS);
    assert.equal(verdict.verdict, "unsafe");
    const { counterexample } = verdict;
    assert.match(counterexample!.found, /counts 1/);
    assert.deepEqual(counterexample!.hosts, []);
    const text = exploredText([{
      label: "lock",
      verdict,
      command: null,
      faults: null,
      variant: {} as never,
    }]);
    assert.match(
      text,
      /unsafe .*interleavings? in \d+ runs? with at most 2 preemptions of up to 50 us/,
    );
    assert.match(
      text,
      /Programs interleave so, without a power failure:\n {2}a\/0\/.* stops before its access/,
    );
    // As `rack run --faults` reads and runs it.
    const { holds } = faultsIn(faultLines(counterexample!).join("\n"), "faults.jsonl");
    assert.deepEqual(holds, counterexample!.holds);
    const again = runRack({ ...rack, plan: withHolds(rack.plan, holds) });
    assert.ok(counts({ reports: again.reports } as never).length > 0);
    assert.deepEqual(counts({ reports: runRack(rack).reports } as never), []);
  });

  it("finds Peterson's lock without its fence with `memory: tso`, and says which store waits", async () => {
    const verdict = await explore(
      rackOf(peterson("right"), { memory: "tso", check: counts }),
      OPTIONS,
    );
    assert.equal(verdict.verdict, "unsafe");
    assert.ok(verdict.counterexample!.holds!.some(({ step }) => step === "store"));
  });

  for (const [kind, memory] of [["right", "sc"], ["fenced", "tso"]] as const) {
    it(`calls Peterson's lock safe that is ${kind} with \`memory: ${memory}\`, and says what was left`, async () => {
      const verdict = await explore(rackOf(peterson(kind), { memory, check: counts }), OPTIONS);
      assert.equal(verdict.verdict, "safe", verdict.counterexample?.ladder);
      const { orders, runs, untried } = verdict.interleavings!;
      assert.ok(orders > 5 && runs >= orders - 1, `${orders} in ${runs}`);
      const text = exploredText([{
        label: "",
        verdict,
        command: null,
        faults: null,
        variant: {} as never,
      }]);
      assert.ok(untried > 0);
      assert.match(text, new RegExp(`${untried} pairs of accesses not tried the other way round`));
    });
  }

  it("finds a lost update of two loads and stores, but none of atomics", async () => {
    const program = (isAtomic: boolean): Program =>
      function* ({ cpu }) {
        const region = yield* cpu.region("s");
        yield* cpu.sleep((cpu.host === "a" ? 250 : 265) * PS_PER_US - cpu.now);
        if (isAtomic) yield* region.fetchAdd(COUNT, 1n);
        else yield* region.store(COUNT, word(1 + (yield* look(region, COUNT))));
        yield* cpu.sleep(150 * PS_PER_US);
        cpu.report("count", yield* look(region, COUNT));
      };
    const verdictOf = (isAtomic: boolean) =>
      explore(rackOf(program(isAtomic), { check: counts }), OPTIONS);
    assert.equal((await verdictOf(false)).verdict, "unsafe");
    const { verdict, interleavings } = await verdictOf(true);
    assert.equal(verdict, "safe");
    assert.equal(interleavings!.orders, 2);
  });

  it("reduces: accesses to different words, and loads, have one order", async () => {
    const verdict = await explore(
      rackOf(function* ({ cpu }) {
        const region = yield* cpu.region("s");
        const own = cpu.host === "a" ? 0 : 8;
        yield* cpu.sleep(250 * PS_PER_US - cpu.now);
        for (let i = 0; i < 4; i++) {
          yield* region.store(own, word(i));
          yield* look(region, 64);
        }
        cpu.report("done", true);
      }),
      OPTIONS,
    );
    assert.equal(verdict.verdict, "unchecked");
    assert.match(verdict.why!, /no two programs access the same bytes/);
    const three = await explore(
      rackOf(function* ({ cpu }) {
        const region = yield* cpu.region("s");
        yield* cpu.sleep((250 + 10 * (cpu.host.charCodeAt(0) - 97)) * PS_PER_US - cpu.now);
        if (cpu.host === "a") yield* region.store(0, word(1));
        else yield* look(region, 0);
        cpu.report("done", true);
      }, { hosts: ["a", "b", "c"] }),
      { ...OPTIONS, preemptions: 8 },
    );
    // Each of two loads before or behind one store.
    assert.equal(three.interleavings!.orders, 4);
    assert.equal(three.interleavings!.untried, 0);
  });

  it("is bounded, and says so: preemptions, their length, runs", async () => {
    const rack = rackOf(peterson("right"), { check: counts });
    const one = await explore(rack, { ...OPTIONS, preemptions: 1 });
    const two = await explore(rack, OPTIONS);
    assert.ok(one.interleavings!.orders < two.interleavings!.orders);
    const short = await explore(rack, { ...OPTIONS, stall: PS_PER_US });
    assert.ok(short.interleavings!.orders < two.interleavings!.orders);
    assert.ok(short.interleavings!.untried > 0);
    const few = await explore(rack, { ...OPTIONS, interleavings: 3 });
    assert.equal(few.verdict, "partial");
    assert.match(few.why!, /more interleavings .* than were tried \(--interleavings 3\)/);
    assert.ok(few.interleavings!.untried > 0);
    let looks = 0;
    const stopped = await explore(rack, { ...OPTIONS, stopped: () => ++looks > 3 });
    assert.equal(stopped.verdict, "partial");
    assert.match(stopped.why!, /interrupted after \d+ interleavings/);
    assert.ok(stopped.interleavings!.untried > 0);
  });

  it("is partial where an interleaving has no end, as a look that comes first is made for ever", async () => {
    const program: Program = function* ({ cpu }) {
      const region = yield* cpu.region("s");
      yield* cpu.sleep((cpu.host === "a" ? 250 : 260) * PS_PER_US - cpu.now);
      if (cpu.host === "a") yield* region.store(COUNT, word(1));
      else if ((yield* look(region, COUNT)) === 0) { for (;;) yield* cpu.sleep(PS_PER_US); }
      cpu.report("count", 2);
    };
    const { verdict, why, interleavings } = await explore(
      rackOf(program, { check: counts }),
      OPTIONS,
    );
    assert.equal(verdict, "partial");
    assert.match(why!, /^1 interleaving has no end/);
    assert.equal(interleavings!.orders, 1, "what has no end has no order");
  });

  describe("close to the scenario's end", () => {
    const END = 265 * PS_PER_US;
    /** a stores and works on until 261 us, and b looks at 260 us: where a waits for b, it works on until 271 us. */
    const late = (end: (cpu: Cpu) => void): ExploredRack => {
      const rack = rackOf(function* ({ cpu }) {
        const region = yield* cpu.region("s");
        yield* cpu.sleep((cpu.host === "a" ? 250 : 260) * PS_PER_US - cpu.now);
        if (cpu.host === "b") yield* look(region, COUNT);
        else {
          yield* region.store(COUNT, word(1));
          yield* cpu.sleep(10 * PS_PER_US);
          end(cpu);
        }
        cpu.report("count", 2);
      }, { check: counts });
      return { ...rack, plan: { ...rack.plan, until: END } };
    };

    it("programs that are stopped have as much more time, and do not fail for want of it", async () => {
      let isLate = false;
      const rack = late((cpu) => void (isLate ||= cpu.now > END));
      const { verdict, interleavings } = await explore(rack, OPTIONS);
      assert.equal(verdict, "safe");
      assert.equal(interleavings!.orders, 2);
      assert.ok(isLate, "a was stopped");
    });

    it("is partial of an interleaving that fails only behind the scenario's end, as no run repeats that", async () => {
      const rack = late((cpu) => assert.ok(cpu.now < END, "late"));
      const { verdict, why } = await explore(rack, OPTIONS);
      assert.equal(verdict, "partial");
      assert.match(why!, /^1 interleaving has no end/);
    });
  });

  it("varies none where none is wanted, or only some instants", async () => {
    const rack = rackOf(peterson("looks first"), { check: counts });
    const { cut: _, ...rest } = OPTIONS;
    const none = await explore(rack, { ...rest, preemptions: 0, from: 1, until: 2 });
    assert.equal(none.interleavings, undefined);
    const window = await explore(rack, { ...rest, from: 1, until: 2 });
    assert.equal(window.interleavings, undefined);
  });

  it("says of a run that fails by itself that it has failed", async () => {
    const rack = rackOf(function* ({ cpu }) {
      const region = yield* cpu.region("s");
      yield* region.store(0, word(1));
      throw new Error("no");
    });
    const verdict = await explore(rack, OPTIONS);
    assert.equal(verdict.verdict, "failed");
  });

  it("holds a program before its nth access, and a store in its buffer, until that time", () => {
    const rack = rackOf(function* ({ cpu }) {
      if (cpu.host !== "b") return;
      const region = yield* cpu.region("s");
      yield* region.store(0, word(1));
      yield* region.load(64, 8);
      yield* region.load(128, 8);
      cpu.report("done", cpu.now);
    }, { memory: "tso" });
    const { notes } = runRack(rack);
    const { by, node } = notes.find(({ note }) => note.kind === "buffered")!;
    const until = 300 * PS_PER_US;
    const stepsOf = (hold: Omit<HoldPlan, "node" | "by" | "until">) =>
      orderOf(
        runRack({ ...rack, plan: withHolds(rack.plan, [{ node, by, until, ...hold }]) }).notes,
      )
        .steps.map(({ kind, number, begin }) => [kind, number, begin >= until]);
    assert.deepEqual(stepsOf({ step: "access", number: 2 }), [
      ["access", 1, false],
      ["store", 1, false],
      ["access", 2, true],
    ]);
    assert.deepEqual(stepsOf({ step: "store", number: 1 }), [
      ["access", 1, false],
      ["access", 2, false],
      ["store", 1, true],
    ]);
  });

  it("comes to one verdict with any number of processes, shows how far it is, and ends early", async () => {
    const folder = await Deno.makeTempDir({ prefix: "rackmesh-interleavings-" });
    try {
      const text = sharedScenario({ hosts: ["a", "b"], memory: "dram" });
      await Deno.writeTextFile(`${folder}/shared.yaml`, text);
      const exploredOf = async (
        { jobs, isWrong = false, stopAfter = Infinity, cut = "none" }: {
          readonly jobs: number;
          readonly isWrong?: boolean;
          readonly stopAfter?: number;
          readonly cut?: "none" | "all";
        },
      ) => {
        await Deno.writeTextFile(`${folder}/shared.ts`, counted(isWrong));
        const titles: string[] = [], shares: number[] = [];
        const { explored: [found] } = await exploreScenario(
          await readScenario(`${folder}/shared.yaml`),
          {
            prepare: { packing: "all" },
            explore: { ...OPTIONS, cut, stopped: () => titles.length >= stopAfter },
            jobs,
            onProgress(title, share) {
              titles.push(title);
              shares.push(share);
            },
          },
        );
        if (found!.faults !== null) {
          await Deno.remove(found!.faults.replace(/\/[^/]*$/, ""), { recursive: true });
        }
        assert.deepEqual(shares, shares.toSorted((x, y) => x - y));
        const { wallMs: _, perSecond: __, ...verdict } = found!.verdict;
        return { verdict, titles, shares };
      };
      for (const isWrong of [false, true]) {
        const alone = await exploredOf({ jobs: 1, isWrong });
        assert.equal(alone.verdict.verdict, isWrong ? "unsafe" : "safe");
        const together = await exploredOf({ jobs: isWrong ? 2 : 3, isWrong });
        assert.deepEqual(together.verdict, alone.verdict);
        if (isWrong) continue;
        assert.match(alone.titles[0]!, /: 1 run of interleavings$/);
        assert.equal(alone.shares.at(-1), 1);
      }
      const { verdict } = await exploredOf({ jobs: 2, stopAfter: 2 });
      assert.equal(verdict.verdict, "partial");
      assert.match(verdict.why!, /^it was interrupted after [1-9]\d* interleavings$/);
      // Interleavings are the first half of an exploration that cuts power, too.
      const both = await exploredOf({ jobs: 2, cut: "all", stopAfter: 2 });
      assert.ok(both.shares.every((share) => share <= 0.5));
      assert.match(both.verdict.why!, /it was interrupted after .*; it was interrupted after/);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });

  it("explores a scenario's own programs in their process, and gives the command that shows it again", async () => {
    const folder = await Deno.makeTempDir({ prefix: "rackmesh-interleavings-" });
    try {
      const program = (isFenced: boolean) => `
const word = (value) => new Uint8Array(new BigUint64Array([BigInt(value)]).buffer);
export default function* ({ cpu }) {
  const own = cpu.host === "a" ? 0 : 64;
  const region = yield* cpu.region("s");
  yield* region.load(64 - own, 8);
  yield* cpu.sleep((250 + own / 4) * 1e6 - cpu.now);
  yield* region.store(own, word(1));
  ${isFenced ? "yield* region.fence();" : ""}
  cpu.report("seen", (yield* region.load(64 - own, 8))[0]);
}
export function check({ reports }) {
  const seen = reports.filter(({ topic }) => topic === "seen");
  return seen.length === 2 && seen.every(({ value }) => value === 0) ? ["both see 0"] : [];
}`;
      const text = sharedScenario({ hosts: ["a", "b"], memory: "dram" })
        .replace("services: none", "services: none, memory: tso");
      await Deno.writeTextFile(`${folder}/shared.yaml`, text);
      const exploredOf = async (isFenced: boolean) => {
        await Deno.writeTextFile(`${folder}/shared.ts`, program(isFenced));
        const prepare = { packing: "all" } as const;
        const found = await exploreScenario(await readScenario(`${folder}/shared.yaml`), {
          prepare,
          explore: OPTIONS,
        });
        return found.explored[0]!;
      };
      const { verdict: right } = await exploredOf(true);
      assert.equal(right.verdict, "safe", right.why);
      const { verdict, command, faults } = await exploredOf(false);
      assert.equal(verdict.verdict, "unsafe");
      assert.match(verdict.counterexample!.found, /both see 0/);
      assert.match(command!, /^rack run .*shared\.yaml.* --pack all --faults /);
      const { holds } = faultsIn(await Deno.readTextFile(faults!), faults!);
      assert.deepEqual(holds, verdict.counterexample!.holds);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });
});
