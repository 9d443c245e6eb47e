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

describe("a store in a buffer", () => {
  const access = (by: string, id: number, of: Partial<AccessRecord>) => [
    {
      node: by,
      by,
      note: { kind: "access", id, region: "s", offset: 0, length: 8, op: "load", ...of },
    },
    { node: by, by, note: { kind: "accessed", id, result: "done" } },
  ];
  const push = (by: string, id: number) => ({ node: by, by, note: { kind: "buffered", id } });
  const leaves = (by: string, id: number) => access(by, 10 + id, { op: "store", buffered: id });
  const fence = (by: string) => ({ node: by, by, note: { kind: "store-fence" } });
  const flag = (by: string, op: "store" | "load") => access(by, 20, { op, offset: 64 });
  const notesOf = (...all: readonly (object | readonly object[])[]) =>
    all.flat().map((each, time) => ({ time, ...each })) as unknown as TimedRecord[];
  const races = (...all: readonly (object | readonly object[])[]) =>
    orderOf(notesOf(...all)).races.map(({ first, second }) => {
      const name = ({ by, kind, number }: typeof first) => `${by} ${kind} ${number}`;
      return `${name(first)}, ${name(second)}`;
    });

  it("is a step of its own when it leaves, with the number that it had when its program stored it", () => {
    const [load] = ["b access 1"];
    same(races(push("a", 1), access("b", 1, {}), leaves("a", 1)), [`${load}, a store 1`]);
    same(races(push("a", 1), leaves("a", 1), access("b", 1, {})), [`a store 1, ${load}`]);
    same(races(push("a", 1), push("a", 2), leaves("a", 1), leaves("a", 2), access("b", 1, {})), [
      `a store 2, ${load}`,
    ]);
  });

  it("is before what its program does behind a fence, and not before the rest", () => {
    const told = [flag("a", "store"), flag("b", "load"), access("b", 1, {})];
    const ofFlag = "a access 1, b access 1";
    same(races(push("a", 1), leaves("a", 1), fence("a"), ...told), [ofFlag]);
    same(races(push("a", 1), leaves("a", 1), ...told), [ofFlag, "a store 1, b access 2"]);
  });

  it("is behind what its program did before it", () => {
    // What b has written, a has seen before it stored: nothing of it is to be turned round.
    const seen = [access("b", 1, { op: "store" }), access("a", 1, {})];
    same(races(...seen, push("a", 1), leaves("a", 1)), ["b access 1, a access 1"]);
    same(races(push("a", 1), ...seen, leaves("a", 1)), [
      ...["b access 1, a access 1", "b access 1, a store 1"],
    ]);
  });

  it("says nothing of loads that are forwarded from it, of flushes, and of an access that was refused and comes again", () => {
    const forwarded = access("b", 1, { forwarded: 3 } as Partial<AccessRecord>);
    const refused = [access("b", 2, {})[0]!, {
      node: "b",
      by: "b",
      note: { kind: "accessed", id: 2, result: "refused" },
    }];
    const flush = access("b", 3, { op: "flush" });
    const store = access("a", 9, { op: "store" });
    same(races(store, access("b", 4, {})), ["a access 1, b access 1"]);
    same(races(forwarded, store, access("b", 4, {})), ["a access 1, b access 1"]);
    same(races(store, refused, access("b", 4, {})), ["a access 1, b access 1"]);
    same(races(flush, store, access("b", 4, {})), ["a access 1, b access 2"]);
  });

  it("is something else than a look: what its program looks at behind it is a step", () => {
    const look = (id: number) => access("a", id, { offset: 8 });
    const steps = (...all: readonly (object | readonly object[])[]) =>
      orderOf(notesOf(...all)).steps.length;
    same(steps(look(1), look(2), look(3)), 2);
    same(steps(look(1), look(2), push("a", 4), look(3)), 3);
    same(steps(look(1), look(2), push("b", 4), look(3)), 2, "of another program");
  });
});
