import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { AccessRecord, TimedRecord } from "../../../fabric/audit.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { orderOf, type RunOrder } from "./order.ts";

interface Did {
  readonly by: string;
  readonly op: AccessRecord["op"];
  readonly from: Time;
  readonly to: Time;
  readonly offset?: number;
  readonly region?: string;
}

function orderedBy(all: readonly Did[]): RunOrder {
  const notes = all.flatMap(({ by, op, from, to, offset = 0, region = "s" }, id) => {
    const access = { kind: "access", id, region, offset, length: 8, op } as const;
    const accessed = { kind: "accessed", id, result: "done" } as const;
    return [
      { time: from, node: by, by, note: access },
      { time: to, node: by, by, note: accessed },
    ];
  }) as unknown as TimedRecord[];
  return orderOf(notes.sort((x, y) => x.time - y.time));
}

/** Races of 8-byte accesses, as `a before b`. */
function racesOf(...all: readonly Did[]): string[] {
  const { races } = orderedBy(all);
  return races.map(({ first, second }) => `${first.by} before ${second.by}`).sort();
}

describe("races", () => {
  const store = { by: "a", op: "store", from: 10, to: 20 } as const;

  it("are pairs of programs' accesses to shared bytes of which one writes", () => {
    const load = { by: "b", op: "load", from: 30, to: 40 } as const;
    same(racesOf(store, load), ["a before b"]);
    same(racesOf(store, { ...load, op: "add" }), ["a before b"]);
    same(racesOf(store, { ...load, offset: 7 }), ["a before b"]);
    same(racesOf(store, { ...load, offset: 8 }), [], "beside it");
    same(racesOf({ ...store, offset: 8 }, load), []);
    same(racesOf(store, { ...load, region: "t" }), []);
    same(racesOf({ ...store, op: "load" }, load), [], "two loads");
    same(racesOf(store, { ...load, by: "a" }), [], "of one program");
  });

  it("are two of accesses that were under way at once: records do not say which was first", () => {
    const load = { by: "b", op: "load", from: 19, to: 25 } as const;
    same(racesOf(store, load), ["a before b", "b before a"]);
    same(racesOf(store, { ...load, from: 20 }), ["a before b"]);
  });

  it("are those that nothing between orders", () => {
    const next = { by: "b", op: "store", from: 30, to: 40 } as const;
    const last = { by: "c", op: "store", from: 50, to: 60 } as const;
    same(racesOf(store, next, last), ["a before b", "b before c"], "a is before c by b");
  });
});

describe("looks at what has not changed", () => {
  /** One access after the other, of 8 bytes each: who does what where. @returns those that are steps. */
  const stepsOf = (text: string) => {
    const all = text.split(" ").map((each, i): Did => {
      const [by, op, at] = each.split("");
      const time = { from: 10 * i, to: 10 * i + 5 };
      return { by: by!, op: op === "l" ? "load" : "store", offset: 8 * Number(at), ...time };
    });
    return orderedBy(all).steps.map(({ by, note: { op, offset } }) => `${by}${op[0]}${offset / 8}`)
      .join(" ");
  };

  it("count up to the second one", () => {
    same(stepsOf("al0 al0 al0 al0"), "al0 al0");
    same(stepsOf("al0 al0 bl0 bl0 al0 bl0"), "al0 al0 bl0 bl0", "of each program");
    same(stepsOf("al0 al1 al0 al1 al0 al1"), "al0 al1 al0 al1", "of each place");
  });

  it("count anew behind a write to it, and behind any write of the program that looks", () => {
    same(stepsOf("al0 al0 bs0 al0 al0 al0"), "al0 al0 bs0 al0 al0");
    same(stepsOf("al0 al0 bs1 al0"), "al0 al0 bs1", "beside it");
    same(stepsOf("al0 al0 as1 al0 al0 al0"), "al0 al0 as1 al0 al0");
  });
});
