import { deepEqual as same, doesNotThrow, equal, throws } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import type { FaultPlan, HostPlan } from "../../fabric/rack/plan/plan.ts";
import { crashedHostOf, holdJournal } from "./crashed_host.ts";
import { HeldHistory } from "./held_history.ts";
import { instantsOf } from "./instants.ts";
import { faultsWith, PostCrashRuns, type Victim } from "./post_crash_run.ts";
import { type RackRun, runRack } from "./rerun.ts";
import type { ExploredRack } from "./types.ts";
import { SCM_BASE } from "../../nodes/host/memory/address_map.ts";

const NOTICE = 10;

function victimOf(domain: "adr" | "wsp" = "adr"): Victim {
  return {
    host: "b",
    config: { rnics: ["b-rnic"], domain } as unknown as HostPlan,
    noticePs: NOTICE,
  };
}

/** A recorded run that ends at 300. */
function runOf(run: Partial<RackRun>): RackRun {
  const none = { histories: new Map(), held: new Map(), sendings: new Map(), lives: new Map() };
  return { reports: [], notes: [], endPs: 300, ...none, ...run } as unknown as RackRun;
}

const fault = (at: number, action: FaultPlan["action"], node = "b"): FaultPlan => ({
  at,
  action,
  node,
});

describe("faultsWith", () => {
  it("has of a host's faults what comes before the failure: at its instant it does not come back", () => {
    const cut = { hosts: ["b"], at: 50 };
    same(faultsWith([fault(10, "kill"), fault(50, "start")], cut), [fault(10, "kill")]);
    same(faultsWith([fault(10, "kill"), fault(49, "start")], cut), [
      fault(10, "kill"),
      fault(49, "start"),
      fault(50, "kill"),
    ]);
    same(faultsWith([fault(50, "kill"), fault(60, "start")], cut), [fault(50, "kill")]);
    same(faultsWith([fault(50, "kill", "a"), fault(60, "start", "a")], cut), [
      fault(50, "kill", "a"),
      fault(50, "kill"),
      fault(60, "start", "a"),
    ], "others' stay");
  });
});

describe("PostCrashRuns", () => {
  const frames = [20, 20, 31, 300];
  const sendings = new Map([["b-rnic", { frames }]]) as unknown as RackRun["sendings"];
  const runs = new PostCrashRuns({} as ExploredRack, {
    recording: runOf({ sendings }),
    victim: victimOf(),
  }, { histories: false, keep: 0 });

  it("P-12: survivors see the frames of before the card has detected the failure, none of that instant", () => {
    const seen = [9, 10, 11, 20, 21, 22, 289, 290, 291].map((at) => runs.framesBy(at));
    same(seen, [0, 0, 2, 2, 2, 3, 3, 3, 4]);
  });

  it("P-12: an edge is where they see another one", () => {
    for (const edge of runs.edges()) {
      equal(runs.framesBy(edge) > runs.framesBy(edge - 1), true, `at ${edge}`);
    }
  });
});

describe("PostCrashRuns of a rack", () => {
  const text = "name: two\nhosts: { a: {}, b: {} }\nprograms: []\n";
  const [variant] = variants(parseScenario(text, "two.yaml"));
  const rack: ExploredRack = { plan: makePlan(variant!), inputs: {}, own: {} };
  const recorded = runRack(rack, { histories: true });

  /** The run that a failure of `b` at 1 µs shows, where `a` has reported this the first time only. */
  function runOfFailure(time: number): () => void {
    const reports = [...recorded.reports, { time, node: "a", topic: "told", value: 1 }];
    const runs = new PostCrashRuns(rack, {
      recording: { ...recorded, reports },
      victim: victimOf(),
    }, {
      histories: false,
      keep: 0,
    });
    return () => void runs.at(1_000_000);
  }

  it("P-12: is to be as before up to the failure, and may be another behind it, and at its instant", () => {
    throws(
      runOfFailure(999_999),
      /went another way: a reported "told" at 999999 ps the first time only/,
    );
    for (const time of [1_000_000, 1_000_001]) doesNotThrow(runOfFailure(time));
  });

  it("P-12: is one run for all instants with equally many frames, also where others were asked for meanwhile", () => {
    const sendings = new Map([["b-rnic", { frames: [2_000_000, 4_000_000] }]]);
    const recording = { ...recorded, sendings } as unknown as RackRun;
    for (const [keep, made] of [[2, 3], [1, 4]] as const) {
      const runs = new PostCrashRuns(rack, { recording, victim: victimOf() }, {
        histories: false,
        keep,
      });
      const seen = [1, 1.5, 3, 5, 3.5, 3, 1].map((us) => runs.at(us * 1_000_000));
      same(seen.map(({ frames }) => frames), [0, 0, 1, 2, 1, 1, 0]);
      same(seen.slice(0, 4).map(({ cutAt }) => cutAt), [1, 1, 3, 5].map((us) => us * 1_000_000));
      equal(runs.count, made, `${keep} are kept`);
      equal(seen[6], seen[0], "the first is kept");
    }
  });
});

describe("instantsOf", () => {
  it("has the instant at which the scenario takes the power: what came right before is found then", () => {
    const histories = new Map([["b", { entries: [{ at: 99 }, { at: 150 }, { at: 210 }] }]]);
    const lives = new Map([["b", [{ from: 0, to: 100 }, { from: 200, to: Infinity }]]]);
    const recording = runOf({ lives, histories } as unknown as Partial<RackRun>);
    const at = (more: { readonly from?: number; readonly until?: number } = {}) =>
      instantsOf(recording, { victims: [victimOf()], runs: undefined, ...more });
    same(at(), [1, 100, 211, 301], "none while it has no power");
    same(at({ from: 100, until: 211 }), [100]);
    same(at({ from: 205 }), [205, 211, 301]);
  });
});

describe("a card that keeps writes for its host (wsp)", () => {
  const lives = new Map([
    ["b", [{ from: 0, to: Infinity }]],
    ["b-rnic", [{ from: 0, to: 95 }, { from: 200, to: Infinity }]],
  ]);

  /** Of its first life: one write, which never arrives. */
  function held(): HeldHistory[] {
    const first = new HeldHistory();
    const message = {
      kind: "memory-write",
      address: SCM_BASE,
      data: Uint8Array.of(7),
      noSnoop: true,
    } as const;
    first.written(40, { message, arrivesAt: 250 });
    return [first, new HeldHistory()];
  }

  it("P-41: has instants where that begins, and where the card loses it or begins anew", () => {
    const recording = runOf({ lives, held: new Map([["b-rnic", held()]]) });
    const instants = instantsOf(recording, { victims: [victimOf("wsp")], runs: undefined });
    // Seen from the failure: the card goes on until it detects it, NOTICE later.
    for (const at of [31, 86, 191]) equal(instants.includes(at), true, `${at} of ${instants}`);
    const without = instantsOf(recording, { victims: [victimOf()], runs: undefined });
    same(without, [1, 301]);
  });

  it("P-41: keeps nothing where the card itself fails before it has detected that", () => {
    const recording = runOf({ lives, held: new Map([["b-rnic", held()]]) });
    const crashed = crashedHostOf(recording, victimOf("wsp"));
    const kept = [30, 31, 85, 86, 90, 150, 195, 210].map((at) => {
      holdJournal(crashed, recording, at);
      return crashed.state.image.read(0, 1)[0];
    });
    same(kept, [0, 7, 7, 0, 0, 0, 0, 0]);
  });
});
