import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { VIRTUAL_SCM_BASE } from "../../../nodes/host/memory/address_map.ts";
import type { Steps } from "../../../nodes/host/cpu/program.ts";
import type { OwnProgram } from "../../../nodes/host/own_programs.ts";
import type { RecoveryContext } from "../../../nodes/host/recovery/protocol.ts";
import type { TraceStep } from "../../../fabric/node.ts";
import { makePlan } from "../../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../../fabric/rack/scenario/variants.ts";
import type { Entry } from "../history.ts";
import type { RackRun } from "../rerun.ts";
import { Robustness } from "./robustness.ts";
import { isOfWrites, StrictHistory, type StrictWrite, valueOf } from "./strict_history.ts";

/** Where the least byte of a word is. */
const ENDIAN = valueOf(Uint8Array.of(1, 0, 0, 0, 0, 0, 0, 0)) === 1n ? 0 : 7;

/** What the run has written: these words, with zeros. */
const WRITTEN = [0, 8, 16];

it("Robustness judges words that a recovery reads before it writes them, and each recovery by itself", () => {
  const history = {
    versions: (_host: string, word: number) =>
      WRITTEN.includes(word) ? [{ value: 0n, write: undefined, at: 0 }] : undefined,
    visibleBefore: () => [],
  } as unknown as StrictHistory;
  const robustness = new Robustness(history, new Set(["log"]));
  let writes = true;
  function* recover({ cpu }: RecoveryContext): Steps<void> {
    cpu.load(VIRTUAL_SCM_BASE, 8);
    if (writes) cpu.store(VIRTUAL_SCM_BASE + 8, new Uint8Array(8));
    yield* cpu.settle();
    cpu.load(VIRTUAL_SCM_BASE, 24);
  }
  const program = { recover } as unknown as OwnProgram;
  const own = robustness.watch({ log: () => program, other: () => program });
  same(own["other"]!(), program, "that of another program is not watched");
  function* settle(): Steps<void> {}
  const cpu = { scm: { length: 64 }, now: 0, load: () => new Uint8Array(24), store() {}, settle };
  const context = { host: "b", options: {}, cpu } as unknown as RecoveryContext;
  let words = 0;
  for (writes of [true, false, true]) {
    robustness.begin();
    same(own["log"]!().recover!(context).next().done, true, "it waits for nothing");
    same(robustness.finding(100), undefined);
    // What one has written is its own, and its own alone.
    words += writes ? 2 : 3;
    same([robustness.words, robustness.unexplained], [words, 0]);
  }
});

it("Robustness: what has happened by one write stays so, whatever an earlier one says of its initiator", () => {
  const write = (initiator: string, order: number): StrictWrite => ({
    ...{ initiator, order, beganAt: order, host: "b", from: 16, to: 24 },
    ...{ visibleAt: order, request: undefined, by: "core" as const },
  });
  const versions = (last: StrictWrite) => [
    { value: 0n, write: undefined, at: 0 },
    { value: 1n, write: last, at: 1 },
  ];
  // Behind the first word's write the fifth of x has happened, behind the second's the second of x.
  const words = [versions(write("p", 1)), versions(write("q", 1)), versions(write("x", 5))];
  const history = {
    versions: (_host: string, word: number) => words[word / 8],
    visibleBefore: (_at: number, initiator: string) =>
      initiator === "p" ? [["x", 5]] : initiator === "q" ? [["x", 2]] : [],
  } as unknown as StrictHistory;
  const robustness = new Robustness(history, new Set(["log"]));
  function* recover({ cpu }: RecoveryContext): Steps<void> {
    yield* cpu.settle();
    for (const word of [0, 8, 16]) cpu.load(VIRTUAL_SCM_BASE + word, 8);
  }
  const own = robustness.watch({ log: () => ({ recover }) as unknown as OwnProgram });
  function* settle(): Steps<void> {}
  const found = (...bytes: readonly number[]) => {
    robustness.begin();
    const load = (address: number) =>
      new Uint8Array(8).fill(0).with(
        ENDIAN,
        bytes[(address - VIRTUAL_SCM_BASE) / 8]!,
      );
    const cpu = { scm: { length: 64 }, now: 0, load, settle };
    own["log"]!().recover!({ host: "b", options: {}, cpu } as unknown as RecoveryContext).next();
    return robustness.finding(100)?.pair.missing.initiator;
  };
  same(found(1, 1, 1), undefined);
  same(found(0, 0, 0), undefined);
  same(found(0, 1, 0), undefined, "the fifth of x need not have happened");
  same(found(1, 0, 0), "x");
  same(found(1, 1, 0), "x");
  same(robustness.unexplained, 0);
});

it("isOfWrites: posts, and what names a packet or a work request, alone", () => {
  const of = (step: object) => isOfWrites(step as TraceStep);
  same([{ step: "wqe" }, { step: "S203", psn: 0 }, { step: "S203", wqe: 0 }].map(of), [
    true,
    true,
    true,
  ]);
  same([{ step: "power" }, { step: "S203", qpn: 5 }].map(of), [false, false]);
});

it("Robustness: a value that recurs may be the later one, behind what has happened", () => {
  const write = (initiator: string, order: number): StrictWrite => ({
    ...{ initiator, order, beganAt: order, host: "b", from: 8, to: 16 },
    ...{ visibleAt: order, request: undefined, by: "core" as const },
  });
  const version = (value: bigint, write?: StrictWrite) => ({ value, write, at: 0 });
  const words = [
    [version(0n), version(1n, write("p", 1))],
    [version(0n), version(1n, write("x", 1)), version(0n, write("x", 2))],
  ];
  // Behind the first word's write both of x have happened.
  const history = {
    versions: (_host: string, word: number) => words[word / 8],
    visibleBefore: (_at: number, initiator: string) => initiator === "p" ? [["x", 2]] : [],
  } as unknown as StrictHistory;
  const robustness = new Robustness(history, new Set(["log"]));
  function* settle(): Steps<void> {}
  const missing = (...bytes: readonly number[]) => {
    function* recover({ cpu }: RecoveryContext): Steps<void> {
      yield* cpu.settle();
      for (const word of [0, 8]) cpu.load(VIRTUAL_SCM_BASE + word, 8);
    }
    const own = robustness.watch({ log: () => ({ recover }) as unknown as OwnProgram });
    robustness.begin();
    const load = (address: number) =>
      new Uint8Array(8).with(ENDIAN, bytes[(address - VIRTUAL_SCM_BASE) / 8]!);
    const cpu = { scm: { length: 64 }, now: 0, load, settle };
    own["log"]!().recover!({ host: "b", options: {}, cpu } as unknown as RecoveryContext).next();
    return robustness.finding(100)?.pair.missing.order;
  };
  same([missing(1, 0), missing(0, 0), missing(0, 1)], [undefined, undefined, undefined]);
  same(missing(1, 1), 2, "the second of x");
});

it("StrictHistory: bytes are those of the card's write that has come by then, else a core's", () => {
  const [variant] = variants(parseScenario(
    "name: two\nhosts: { a: {}, b: {} }\nprograms: []\n",
    "two.yaml",
  ));
  const bytes = new Uint8Array(8).fill(5);
  const by = (arrivesAt: number) => {
    const entries: Entry[] = [{ kind: "durable", at: 20, offset: 64, bytes, unit: 8 }];
    const busWrites = [{ at: 5, arrivesAt, offset: 64, bytes }];
    const run = {
      ...{ plan: makePlan(variant!), histories: new Map([["b", { entries }]]), held: new Map() },
      sendings: new Map([["b-rnic", { busWrites, lines: [], placed: [] }]]),
      lives: new Map([["b", [{ from: 0, to: 1000 }]]]),
    } as unknown as RackRun;
    const history = new StrictHistory(run, []);
    return [...history.visibleBefore(1000, "a")].map(([initiator]) => initiator).sort();
  };
  same([by(10), by(20), by(21)], [["b-rnic"], ["b-rnic"], ["b", "b-rnic"]]);
});
