import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { FarResult } from "../../../fabric/wire/host_bus/region_messages.ts";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { Cpu } from "../cpu/program.ts";
import type { RegionAccess } from "./line_access.ts";
import { RegionHandle } from "./region_handle.ts";
import { StoreBuffer } from "./store_buffer.ts";

/** A handle whose stores leave its buffer at once, and end so, one after the other. */
function handleOf(results: readonly FarResult[], { isOpened = true } = {}) {
  let begun = 0, isKnown = true;
  const buffer = new StoreBuffer({
    entries: 8,
    drainPs: 1,
    begin() {
      const result = results[begun++]!;
      isKnown = result !== "refused";
      return [begun, { result, cost: {} }];
    },
    paid: () => {},
    knows: () => isKnown,
    reopen(_region, then) {
      isKnown = isOpened;
      then(1, isKnown);
    },
    reopened: "reopened",
    ticket: () => 0,
    woken: () => {},
  });
  const its = {
    buffer: () => buffer,
    storePs: 1,
    isReady: () => true,
    nextId: () => 0,
    stored: () => {},
  } as unknown as RegionAccess;
  const cpu = {
    now: 0,
    owedPs: 0,
    charge: () => {},
    *settle() {},
    *sfence() {},
  } as unknown as Cpu;
  const region = { name: "s", bytes: 4096 } as SharedRegion;
  const handle = new RegionHandle(its, { region, isHome: false, cpu });
  return { buffer, handle };
}

/** What a call throws, as a name and where: it waits for nothing. */
function told(steps: Generator): string {
  try {
    assert.equal(steps.next().done, true);
    return "nothing";
  } catch (error) {
    const { name, ranges = [] } = error as Error & { ranges?: { offset: number }[] };
    return [name, ...ranges.map(({ offset }) => offset)].join(" ");
  }
}

describe("stores that fail in a store buffer", () => {
  it("are all told, of one way to fail by each call", () => {
    const { buffer, handle } = handleOf(["lost", "done", "fenced", "lost"]);
    for (const line of [0, 2, 4, 6]) {
      assert.equal(told(handle.store(64 * line, new Uint8Array(8))), "nothing");
    }
    buffer.run(1);
    const calls = Array.from({ length: 3 }, () => told(handle.fence()));
    assert.deepEqual(calls, ["RegionLost 0 384", "RegionFenced 256", "nothing"]);
  });

  it("are told where they are refused again, and not where they are done then", () => {
    const again = handleOf(["refused", "done"]);
    told(again.handle.store(0, new Uint8Array(8)));
    again.buffer.run(1);
    assert.equal(told(again.handle.fence()), "nothing");
    // Each store is tried once more, whatever became of those before it.
    const both = handleOf(["refused", "done", "refused", "done"]);
    for (const line of [0, 1]) told(both.handle.store(64 * line, new Uint8Array(8)));
    both.buffer.run(1);
    assert.deepEqual([told(both.handle.fence()), both.buffer.size], ["nothing", 0]);
    for (
      const refused of [
        handleOf(["refused", "refused"]),
        handleOf(["refused"], { isOpened: false }),
      ]
    ) {
      told(refused.handle.store(0, new Uint8Array(8)));
      refused.buffer.run(1);
      const calls = [told(refused.handle.fence()), told(refused.handle.fence())];
      assert.deepEqual(calls, ["RegionRefused", "nothing"]);
    }
  });
});

describe("a core that waits for its store buffer", () => {
  it("goes on where the card knows a region no more, waits for the registration, and for the rest behind it", () => {
    const woken: number[] = [];
    let isKnown = false, then: (now: number, isKnown: boolean) => void = () => {};
    let tickets = 10;
    const buffer = new StoreBuffer({
      entries: 8,
      drainPs: 5,
      begin: () => [tickets++, undefined],
      paid: () => {},
      knows: () => isKnown,
      reopen: (_region, done) => void (then = done),
      reopened: "reopened",
      ticket: () => tickets++,
      woken: (ticket) => void woken.push(ticket),
    });
    const region = { name: "s" } as SharedRegion;
    const change = { kind: "write", mask: 1n, bytes: new Uint8Array(64) } as const;
    const store = { id: 0, region, piece: { line: 0, from: 0, to: 1 }, change, heldUntil: 0 };
    buffer.add({ ...store, onBegin: () => {}, onEnd: () => {} }, 0);
    const core = buffer.drained();
    const waits = (kind: "done") => {
      const { value, done } = core.next({ kind });
      return done ? "goes on" : value.kind === "line" ? value.id : value.kind;
    };
    const first = waits("done");
    assert.equal(typeof first, "number");
    buffer.run(5);
    assert.deepEqual(woken, [first], "the driver may need this core");
    assert.equal(waits("done"), "any");
    isKnown = true;
    then(20, true);
    const second = waits("done");
    assert.equal(typeof second, "number");
    assert.equal(buffer.nextAt, 20);
    buffer.run(20);
    assert.equal(buffer.ended(second as number + 1, { result: "done", cost: {} }, 30), true);
    assert.deepEqual(woken, [first, second]);
    assert.equal(waits("done"), "goes on");
    assert.equal(buffer.size, 0);
  });
});

describe("a load that passes stores", () => {
  it("finds the newest store that has a byte of it, in its region and line, and whether it has all", () => {
    const region = { name: "s" } as SharedRegion, other = { name: "t" } as SharedRegion;
    const change = { kind: "write", mask: 1n, bytes: new Uint8Array(64) } as const;
    const stored = [
      [region, { line: 0, from: 8, to: 16 }],
      [region, { line: 0, from: 12, to: 14 }],
      [region, { line: 1, from: 0, to: 64 }],
      [other, { line: 0, from: 0, to: 64 }],
      [region, { line: 0, from: 20, to: 21 }],
    ] as const;
    const buffer = new StoreBuffer({
      ...{ entries: 8, drainPs: 5, begin: () => [0, undefined], paid: () => {} },
      ...{ knows: () => true, reopen: () => {}, reopened: "reopened", ticket: () => 0 },
      woken: () => {},
    });
    for (const [id, [region, piece]] of stored.entries()) {
      buffer.add({ id, region, piece, change, heldUntil: 0, onBegin() {}, onEnd() {} }, 0);
    }
    const isOver = (id: number, from: number, to: number) => {
      const [of, piece] = stored[id]!;
      return of === region && piece.line === 0 && piece.from < to && piece.to > from;
    };
    for (let from = 5; from < 24; from++) {
      for (let to = from + 1; to < 25; to++) {
        const found = buffer.find(region, { line: 0, from, to });
        const newest = stored.map((_, id) => id).findLast((id) => isOver(id, from, to));
        assert.equal(found?.store.id, newest, `[${from}, ${to})`);
        if (newest === undefined) continue;
        const [, piece] = stored[newest]!;
        assert.equal(found!.isWhole, piece.from <= from && piece.to >= to, `[${from}, ${to})`);
      }
    }
  });
});
