/** Programs on memory that computers share, of `scripts/scenarios/coherent_*.yaml`: what they find, and what is compared. */
import { deepEqual as same, equal, match, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { CrashView } from "../../nodes/host/recovery/protocol.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import access, { check as checkAccess } from "../../scripts/scenarios/coherent_access.ts";
import cost, { check as checkCost } from "../../scripts/scenarios/coherent_cost.ts";
import lock, { check as checkLock } from "../../scripts/scenarios/coherent_lock.ts";
import queue, { check as checkQueue } from "../../scripts/scenarios/coherent_queue.ts";
import { sharedReport } from "../../console/reports/shared_report.ts";
import { type Reported, SimulatedRack } from "../support/simulated_rack.ts";

const SHIPPED = new URL("../../scripts/scenarios/", import.meta.url);
const PROGRAMS: Readonly<Record<string, Program>> = {
  "./coherent_access.ts": access,
  "./coherent_cost.ts": cost,
  "./coherent_queue.ts": queue,
  "./coherent_lock.ts": lock,
};

/** A shipped scenario with some of its numbers made smaller. */
async function run(file: string, smaller: Readonly<Record<string, string>>) {
  let text = await Deno.readTextFile(new URL(file, SHIPPED));
  for (const [words, others] of Object.entries(smaller)) {
    ok(text.includes(words), `${file} has no ${words}`);
    text = text.replaceAll(words, others);
  }
  return new SimulatedRack(text, { programs: PROGRAMS }).run();
}

function viewOf(
  { plan }: SimulatedRack,
  reports: readonly Reported[],
  cut: readonly string[] = [],
): CrashView {
  const hosts = plan.nodes.flatMap((node) => {
    if (node.kind !== "host") return [];
    const options = node.config.programs.find(({ run }) => run.startsWith("./"))?.options ?? {};
    return [[node.name, { options, survived: !cut.includes(node.name) }] as const];
  });
  const view: Pick<CrashView, "cut" | "at" | "notes" | "reports"> = {
    cut,
    at: 0,
    notes: [],
    reports,
  };
  return { ...view, hosts: Object.fromEntries(hosts) as unknown as CrashView["hosts"] };
}

/** The reports, of which those of a topic are changed. */
function changed(
  reports: readonly Reported[],
  topic: string,
  change: (value: Reported["value"]) => Reported["value"],
): Reported[] {
  return reports.map((each) =>
    each.topic === topic ? { ...each, value: change(each.value) } : each
  );
}

interface Latency {
  readonly median: number;
}

function sharedOf(rack: SimulatedRack) {
  return sharedReport("x", { reports: rack.reports })!;
}

describe("coherent_cost.yaml", () => {
  it("C-06, C-07, C-11: who keeps a copy serves it alone; others ask over the network", async () => {
    const rack = await run("coherent_cost.yaml", {});
    same(checkCost(viewOf(rack, rack.reports)), []);
    const { costs } = sharedOf(rack);
    const of = (placement: string, access: string, after: string) =>
      costs.find((row) =>
        row.placement === placement && row.access === access && row.after === after
      )!;
    for (const access of ["far load", "far store"]) {
      const after = access === "far load" ? "its own load" : "its own store";
      const [remote, local, pcie] = ["remote", "local", "none"].map((each) =>
        of(each, access, after)
      );
      // C-07: the far card serves it, and says nothing; C-06: home's card does, a frame and its ACK each way.
      equal(remote!.networkMessages, 0);
      equal(local!.networkMessages, 4);
      ok(remote!.tookPs < 0.25 * local!.tookPs && local!.tookPs < pcie!.tookPs, access);
    }
    for (const access of ["home load", "home store"]) {
      const [remote, local] = ["remote", "local"].map((each) => of(each, access, "far's store"));
      // C-08: home's core has the line back from where it is kept.
      equal(local!.networkMessages, 0);
      ok(local!.busMessages > 0 && remote!.networkMessages > 0);
      ok(local!.tookPs < 0.5 * remote!.tookPs, access);
    }
    ok(of("remote", "far load", "nothing").tookPs < of("none", "far load", "nothing").tookPs);
    const lines = rack.reports.filter(({ topic }, i) => topic !== "result" || i % 2 === 0);
    ok(checkCost(viewOf(rack, lines)).length > 0, "a host that does not tell all is found");
    const others = rack.reports.filter(({ node }) => !node.endsWith("-local"));
    equal(checkCost(viewOf(rack, others)).length, 2);
    same(checkCost(viewOf(rack, others, ["far-local"])), [], "its peer has not done all either");
  });
});

describe("coherent_placement.yaml", () => {
  const SMALLER = {
    "warmUp: 200": "warmUp: 20",
    "accesses: 400": "accesses: 60",
    "shares: 0 10 25 50 75 90 100": "shares: 0 50 100",
  };

  it("C-11: behind PCIe cards a far access is a message each way, and home's meet no other computer", async () => {
    const rack = await run("coherent_placement.yaml", SMALLER);
    same(checkAccess(viewOf(rack, rack.reports)), []);
    const results = (host: string) => rack.reported("result", host);
    same(results("far-pcie").map((row) => row!.farPercent), [0, 50, 100]);
    for (const row of results("home-pcie").slice(0, 2)) {
      ok((row!.loadPs as Latency).median < 100e3, "a load of the own cache");
    }
    for (const row of results("far-pcie").slice(1)) {
      ok((row!.loadPs as Latency).median > 1e6, "a round trip");
      // A request and its answer each.
      equal(row!.networkMessages, (row!.farPercent as number) * 60 / 100);
    }
  });

  it("C-09: its check finds a line that the computers see differently, and one that neither stored last", async () => {
    const rack = await run("coherent_placement.yaml", SMALLER);
    interface Lines {
      readonly side: string;
      readonly found: readonly bigint[];
    }
    const other = (sides: readonly string[]) =>
      changed(rack.reports, "lines", (value) => {
        const { side, found } = value as unknown as Lines;
        return sides.includes(side) ? { ...value, found: [999n, ...found.slice(1)] } : value;
      });
    match(checkAccess(viewOf(rack, other(["far"])))[0]!, /line 0 differs/);
    match(checkAccess(viewOf(rack, other(["home", "far"])))[0]!, /line 0 has 999, .* of none/);
    const silent = rack.reports.filter(({ topic, node }) =>
      topic !== "lines" || node !== "far-pcie"
    );
    match(checkAccess(viewOf(rack, silent))[0]!, /far computer has not said/);
  });
});

describe("coherent_placement.yaml, its placements", () => {
  it("C-04: local costs less below the crossover, remote above, and auto is moved to what does", async () => {
    const rack = await run("coherent_placement.yaml", {
      "warmUp: 200": "warmUp: 120",
      "accesses: 400": "accesses: 80",
      "shares: 0 10 25 50 75 90 100": "shares: 10 100",
    });
    same(checkAccess(viewOf(rack, rack.reports)), []);
    const { accesses, crossovers } = sharedOf(rack);
    const mean = (placement: string, farPercent: number) =>
      accesses.find((row) => row.placement === placement && row.farPercent === farPercent)!.meanPs;
    ok(mean("local", 10) < mean("remote", 10) && mean("remote", 100) < mean("local", 100));
    equal(crossovers.length, 1);
    const [{ below, above, fromPercent, toPercent }] = crossovers as [typeof crossovers[number]];
    same([below, fromPercent, above, toPercent], ["local", 10, "remote", 100]);
    equal(mean("auto", 10), mean("local", 10));
    equal(mean("auto", 100), mean("remote", 100));
    const { regionMoves } = rack.simulator.statistics()["home-auto"]!;
    equal(regionMoves, 2, "to local for the first phase, and back for the second");
  });
});

describe("coherent_queue.yaml", () => {
  it("C-11: every message comes in order, soon where its consumer has the memory, late where it polls", async () => {
    const rack = await run("coherent_queue.yaml", { "messages: 200": "messages: 40" });
    same(checkQueue(viewOf(rack, rack.reports)), []);
    const paced = (placement: string, way: string) =>
      sharedOf(rack).queues.find((row) =>
        row.placement === placement && row.way === way && row.load === "paced"
      )!;
    const [there, back] = [paced("none", "far to home"), paced("none", "home to far")];
    ok(there.latencyPs.median < back.latencyPs.median);
    ok(back.looksPerMessage > 3, "the far consumer polls");
    // Decision 19: told that its copy is gone, it looks twice for a message, before it waits and when it wakes.
    const told = paced("remote", "home to far");
    ok(told.latencyPs.median < back.latencyPs.median && told.looksPerMessage < 2.2);
    const short = changed(rack.reports, "result", (value) => ({ ...value, taken: 39 }));
    equal(checkQueue(viewOf(rack, short)).length, rack.plan.nodes.length / 2 | 0);
  });
});

describe("coherent_lock.yaml", () => {
  it("C-11: no section's addition is lost, and its check finds one that is", async () => {
    const rack = await run("coherent_lock.yaml", {
      "sections: 100": "sections: 20",
      "tickets: 200": "tickets: 40",
    });
    same(checkLock(viewOf(rack, rack.reports)), []);
    for (const host of ["home-local", "far-local", "home-remote", "far-remote"]) {
      equal(rack.reported("result", host)[0]!.counter, 40, host);
    }
    for (const host of ["far-pcie", "far2-pcie"]) {
      const [row] = rack.reported("result", host);
      equal(row!.counter, 40);
      ok((row!.latencyPs as Latency).median > 2e6, "an atomic and a look at least");
    }
    const lost = changed(rack.reports, "result", (value) => ({ ...value, counter: 39 }));
    match(checkLock(viewOf(rack, lost))[0]!, /the counter is 39 after 40 sections/);
  });

  it("C-10, C-11: who waits for a computer that died says after a bounded time what it saw, and ends", async () => {
    const dead = ["far-local", "far-pcie"];
    const faults = dead.map((host) => `  - { at: 1200us, kill: ${host} }\n`).join("");
    const rack = await run("coherent_lock.yaml", {
      "pause: 10us\n": `pause: 10us\n    patience: 300us\nfaults:\n${faults}`,
    });
    const failed = rack.reports.filter(({ topic }) => topic === "program-failed");
    same(failed, []);
    for (const host of ["home-local", "home-pcie", "far2-pcie"]) {
      const [result, ...more] = rack.reported("result", host);
      same(more, [], host);
      const seen = result!.givenUp as { of: string; word: number; waitedPs: number };
      const { of, word, waitedPs } = seen;
      equal(of, "the ticket served");
      ok(word > 0 && word < 200, `${host} saw ${word}`);
      // The last look takes a round trip at most.
      ok(waitedPs >= 300e6 && waitedPs < 310e6, `${host} waited ${waitedPs} ps`);
    }
    const ended = rack.reports.filter(({ topic }) => topic === "program-ended");
    equal(ended.length, 7 - dead.length, "all others end");
    for (const host of ["home-remote", "far-remote"]) {
      equal(rack.reported("result", host)[0]!.counter, 200, host);
    }
    same(checkLock(viewOf(rack, rack.reports, dead)), []);
  });
});
