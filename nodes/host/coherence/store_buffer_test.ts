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
