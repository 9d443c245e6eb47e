/**
 * C-10 with SCM behind the region: what a flush has covered is in home's persistence domain, wherever the dirty copy
 * was (decision 12). The explorer cuts home's power at every instant; tables that answer too early are found by it.
 */
import assert from "node:assert/strict";
import { afterEach, describe, it } from "@std/testing/bdd";
import { explore } from "../../console/explore/explore.ts";
import { EXPLORE_DEFAULTS, type Verdict } from "../../console/explore/types.ts";
import {
  HOME_TABLE,
  type HomeRow,
  type HomeTable,
  NONE,
} from "../../fabric/coherence/home_card_table.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import { type SharedOf, sharedRack } from "./shared_rack.ts";

/** Each host stores to a line of its own and to one that both write, and flushes what it has stored. */
const FLUSHES: Program = function* ({ cpu }) {
  const region = yield* cpu.region("s");
  const own = region.isHome ? 64 : 0, shared = 128;
  for (let i = 1; i <= 3; i++) {
    yield* region.store(own, new Uint8Array(8).fill(i));
    yield* region.flush(own, 8);
    yield* region.store(shared, new Uint8Array(8).fill(region.isHome ? i : 16 + i));
    yield* region.flush(shared, 8);
  }
};

/** A far host stores to all lines and flushes them by one request. */
const FLUSH_OF_ALL: Program = function* ({ cpu }) {
  const region = yield* cpu.region("s");
  if (region.isHome) return;
  for (let i = 1; i <= 2; i++) {
    yield* region.store(0, new Uint8Array(region.bytes).fill(i));
    yield* region.flush(0, region.bytes);
  }
};

async function explored(of: SharedOf = {}): Promise<Verdict> {
  const rack = sharedRack({ hosts: ["a", "b"], lines: 3, program: FLUSHES, ...of });
  return await explore(rack, { ...EXPLORE_DEFAULTS, cut: "each" });
}

/** Rows of the real table that a test replaces, and puts back. */
const replaced: (() => void)[] = [];

function replace<State extends keyof HomeTable>(
  state: State,
  event: string,
  change: (row: HomeRow) => HomeRow,
): void {
  const rows = HOME_TABLE[state] as Record<string, HomeRow>;
  const row = rows[event];
  assert.ok(row !== undefined, `${state} has no ${event}`);
  rows[event] = change(row);
  replaced.push(() => rows[event] = row);
}

describe("C-10: a flush of a shared region", () => {
  afterEach(() => {
    for (const restore of replaced.splice(0)) restore();
  });

  for (const placement of ["remote", "local"] as const) {
    it(`C-10: survives power failures of either host at every instant, and survivors are answered, copies kept ${placement}`, async () => {
      const { verdict, hosts, exhaustive, promises, writes, why } = await explored({ placement });
      assert.equal(verdict, "safe", why);
      assert.ok(exhaustive);
      assert.deepEqual(hosts, ["a", "b"]);
      assert.deepEqual([writes, promises], [12, 12]);
    });
  }

  for (const placement of ["remote", "local"] as const) {
    it(`C-10, decision 8: a far host's flush of several lines covers each of them, copies kept ${placement}`, async () => {
      const { verdict, promises, why } = await explored({ placement, program: FLUSH_OF_ALL });
      assert.equal(verdict, "safe", why);
      assert.equal(promises, 6);
    });
  }

  it("promises nothing where the region is in DRAM, where survivors are answered all the same", async () => {
    const { verdict, promises, why } = await explored({ memory: "dram" });
    assert.deepEqual([verdict, promises], ["safe", 0], why);
  });

  it("C-10: that is answered before memory has accepted it is found", async () => {
    for (const state of ["P1 owned", "P1 free"] as const) {
      if (HOME_TABLE[state]?.RecSData === undefined) continue;
      replace(state, "RecSData", (row) => (...of) => {
        const { line, send = [] } = row(...of);
        const [{ serving }] = of;
        return { line, send: [{ to: serving?.agent ?? NONE, kind: "FlushAck" }, ...send] };
      });
    }
    const { verdict, counterexample } = await explored();
    assert.equal(verdict, "unsafe");
    assert.match(counterexample!.found, /is lost: store \d+ of b/);
  });
});
