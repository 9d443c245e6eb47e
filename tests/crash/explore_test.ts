/** The exploration itself: whose power is cut, when it stops, what it counts, and what it must not miss. */
import {
  deepStrictEqual as same,
  match,
  ok,
  rejects,
  strictEqual as equal,
} from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { CrashView } from "../../nodes/host/recovery/protocol.ts";
import { explore } from "../../console/explore/explore.ts";
import { EXPLORE_DEFAULTS, type ExploreProgress } from "../../console/explore/types.ts";
import { afterCut, ownRack, putRack, rackOf } from "./explored_rack.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";

const WORD = Uint8Array.of(1, 0, 0, 0, 0, 0, 0, 0);

/** Stores a word on its host and makes it persistent. */
function* storing({ cpu }: ProgramContext): Steps<void> {
  cpu.store(cpu.scm.address, WORD);
  yield* cpu.flush(cpu.scm.address, 8);
}

/** Reports what it was told to report once its word is persistent. */
function* reporting({ cpu }: ProgramContext): Steps<void> {
  yield* storing({ cpu } as ProgramContext);
  cpu.report("stored", {});
}

function isThere(view: CrashView, host: string): boolean {
  return view.hosts[host]!.scm(0, 8)[0] === 1;
}

describe("explore", () => {
  it("cuts those that are written to, unless it is told whom", async () => {
    const rack = putRack({ method: "persist-opcode", ddio: "off" });
    // Where it cuts is known before it cuts: one crash point is enough.
    const limit = 1;
    const hostsOf = async (cut?: "each" | "all" | { host: string }) => {
      const options = { ...EXPLORE_DEFAULTS, limit, ...(cut && { cut }) };
      return (await explore(rack, options)).hosts;
    };
    same(await hostsOf(), ["b"]);
    same(await hostsOf({ host: "a" }), ["a"]);
    same(await hostsOf("each"), ["a", "b"]);
    same(await hostsOf("all"), ["a", "b"]);
    await rejects(() => hostsOf({ host: "tor" }), /tor is no host of the rack/);
  });

  it("P-41: shows a check all reports before the power failure, and those of the survivors after it", async () => {
    const seen = { without: 0, early: 0, reported: 0 };
    const check = (view: CrashView) => {
      same(view.cut, ["b"]);
      equal(view.hosts.a!.survived, true);
      equal(view.hosts.b!.survived, false);
      const isReported = view.reports.some(({ topic, node }) => topic === "stored" && node === "b");
      if (isReported) seen.reported++;
      else if (isThere(view, "b")) seen.early++;
      else seen.without++;
      return isReported && !isThere(view, "b") ? "it was reported, and is not there" : undefined;
    };
    const rack = ownRack({ program: reporting, check });
    const { verdict, counterexample } = await explore(rack, {
      ...EXPLORE_DEFAULTS,
      cut: { host: "b" },
    });
    equal(verdict, "safe", counterexample?.found);
    ok(seen.without > 0 && seen.early > 0 && seen.reported > 0, JSON.stringify(seen));
  });

  it("cuts all at once, each with its own choices", async () => {
    const found = new Set<string>();
    const check = (view: CrashView) => {
      same(view.cut, ["a", "b"]);
      found.add(`${isThere(view, "a")} ${isThere(view, "b")}`);
      return undefined;
    };
    const rack = rackOf(
      `
name: two
hosts: { a: { services: none, scm: { size: 64KiB } }, b: { services: none, scm: { size: 64KiB } } }
programs:
  - { on: [a, b], program: ./own.ts }
`,
      { "./own.ts": { program: storing, check: afterCut(check) } },
    );
    const { verdict } = await explore(rack, { ...EXPLORE_DEFAULTS, cut: "all" });
    equal(verdict, "safe");
    same([...found].sort(), ["false false", "false true", "true false", "true true"]);
  });

  it("P-05: explores the second life of a host that the scenario cuts and starts", async () => {
    const lives = new Set<boolean>();
    const check = (view: CrashView) => {
      lives.add(view.at > 100e6);
      return undefined;
    };
    const rack = rackOf(
      `
name: twice
hosts: { a: { services: none }, b: { services: none, scm: { size: 64KiB } } }
programs:
  - { on: b, program: ./own.ts, restart: true }
faults: [{ at: 80us, kill: b }, { at: 100us, start: b }]
`,
      { "./own.ts": { program: storing, check } },
    );
    const { verdict } = await explore(rack, { ...EXPLORE_DEFAULTS, cut: { host: "b" } });
    equal(verdict, "safe");
    same([...lives].sort(), [false, true]);
  });

  it("says how far it is, and what it has not seen where it is stopped", async () => {
    const rack = putRack({ method: "persist-opcode", ddio: "on" });
    const whole = await explore(rack, EXPLORE_DEFAULTS);
    equal(whole.verdict, "safe");
    const { crashPoints, instants, continuations, writes, promises } = whole;
    ok(crashPoints > instants, "lines of the cache are choices");
    ok(continuations > 3 && continuations < instants / 10);
    same([writes, promises], [1, 1]);
    const limited = await explore(rack, { ...EXPLORE_DEFAULTS, limit: 50 });
    equal(limited.verdict, "partial");
    match(limited.why!, /50 crash points/);
    ok(limited.crashPoints >= 50 && limited.crashPoints < 70);
    const told: ExploreProgress[] = [];
    const stopped = await explore(
      rack,
      { ...EXPLORE_DEFAULTS, stopped: () => told.length > 0 },
      (progress) => told.push(progress),
    );
    equal(stopped.verdict, "partial");
    match(stopped.why!, /^it was interrupted after 1 of about \d+ runs of the rack, one for each/);
    ok(told.every(({ share }) => share >= 0 && share <= 1));
  });

  it("says at how many instants there were more choices than were asked for", async () => {
    const program = function* ({ cpu }: ProgramContext): Steps<void> {
      yield* cpu.ntStore(cpu.scm.address, new Uint8Array(64).fill(1));
    };
    const check = (view: CrashView) => {
      view.hosts.b!.scm(0, 64);
      return undefined;
    };
    const rack = ownRack({ program, check });
    const all = await explore(rack, { ...EXPLORE_DEFAULTS, cut: { host: "b" } });
    const few = await explore(rack, { ...EXPLORE_DEFAULTS, choices: 20, cut: { host: "b" } });
    same([few.verdict, few.why, few.bounded], [
      "partial",
      "not every choice was tried (--choices), but at 1 instant the first and the last of 8 words in the " +
      "order of arrival",
      1,
    ]);
    ok(few.paths < all.paths && few.paths <= 20 + few.instants + 2, `${few.paths}`);
    const more = await explore(rack, { ...EXPLORE_DEFAULTS, choices: 100, cut: { host: "b" } });
    same(more.covered, [
      { cells: 8, unit: "words", strength: 4, inOrder: true, aside: 1, instants: 1 },
    ]);
    match(
      more.why!,
      /at 1 instant every four of 8 words in every combination, .* each alone there/,
    );
    same([all.verdict, all.bounded, all.covered], ["safe", 0, []]);
    ok(all.crashPoints >= 256, "each of eight words is there or not");
  });

  it("explores no instants but those that are asked for", async () => {
    const rack = putRack({ method: "write-only", ddio: "off" });
    const options = { ...EXPLORE_DEFAULTS, claims: true };
    const { counterexample } = await explore(rack, options);
    const at = counterexample!.atPs;
    const only = await explore(rack, { ...options, from: at, until: at + 1 });
    equal(only.counterexample?.atPs, at);
    equal(only.instants, 1);
    equal((await explore(rack, { ...options, until: at })).verdict, "safe");
  });

  it("P-41: finds what is lost under bad cables as well, and in the middle of many", async () => {
    const faults = "[{ link: b, loss: 3% }, { link: a, reorder: 3%, by: 2, hold: 20us }]";
    const of = { ddio: "on", bytes: 3000, size: 300, depth: 4, faults } as const;
    const claimed = await explore(putRack({ ...of, method: "write-read" }), {
      ...EXPLORE_DEFAULTS,
      claims: true,
    });
    equal(claimed.verdict, "unsafe");
    const kept = await explore(putRack({ ...of, method: "write-send" }), EXPLORE_DEFAULTS);
    equal(kept.verdict, "safe");
    ok(kept.promises === 10);
  });
});
