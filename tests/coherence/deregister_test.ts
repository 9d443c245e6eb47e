/**
 * Decision 21: home deregisters a region that far hosts go on accessing: it ends within a bound, nothing that was
 * stored is lost, and far hosts are told which region they may not use any more, until home registers it again.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../fabric/base/time.ts";
import type { RunRecord } from "../../console/checks/run_record.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import { findingsOfShared, recordOfShared, type SharedOf, sharedRack } from "./shared_rack.ts";

const CLOSE_US = 100, AGAIN_US = 600, END_US = 800;

/**
 * Far hosts add to a word of line 0 and load line 1, without a pause, until they are refused; fences and losses they take, as long as the test lasts. Home
 * deregisters the region under way and loads the sum; then it registers the region again, and all add once more.
 */
const program: Program = function* ({ cpu }) {
  const region = yield* cpu.region("s");
  let sum = 0;
  if (region.isHome) {
    yield* region.store(64, Uint8Array.of(7));
    yield* cpu.sleep(CLOSE_US * PS_PER_US - cpu.now);
    yield* region.deregister();
    cpu.report("closed", cpu.now);
    yield* cpu.sleep(AGAIN_US * PS_PER_US - cpu.now);
    const again = yield* cpu.region("s");
    try {
      cpu.report("sum", Number(yield* again.fetchAdd(0, 0n)));
    } catch (error) {
      cpu.report("sum", (error as Error).name);
    }
    return;
  }
  try {
    while (cpu.now < END_US * PS_PER_US) {
      try {
        yield* region.fetchAdd(0, 1n);
        sum++;
        yield* region.load(64, 8);
      } catch (error) {
        if (!/^Region(Fenced|Lost)$/.test((error as Error).name)) throw error;
      }
    }
  } catch (error) {
    cpu.report("refused", { text: String(error), at: cpu.now, sum });
  }
  if (cpu.now < END_US * PS_PER_US) yield* cpu.sleep(END_US * PS_PER_US - cpu.now);
  try {
    const again = yield* cpu.region("s");
    cpu.report("again", [...(yield* again.load(64, 1))]);
  } catch (error) {
    cpu.report("again", (error as Error).name);
  }
};

interface Refused {
  readonly text: string;
  readonly at: number;
  readonly sum: number;
}

function reported(record: RunRecord, topic: string, host: string): unknown[] {
  return record.reports.filter((each) => each.node === host && each.topic === topic)
    .map(({ value }) => value);
}

function closedOf(of: SharedOf): RunRecord {
  const record = recordOfShared(sharedRack({ ...of, program }));
  assert.deepEqual(findingsOfShared(record), []);
  assert.deepEqual(record.reports.filter(({ topic }) => topic === "program-failed"), []);
  return record;
}

const SMALLEST = ", remoteCache: 1, localCache: 1, slots: 1, entries: 1, writeBacks: 1";
const LOSSY = ["a", "b", "c"].map((host) => `{ link: ${host}, loss: 1% }`);

describe("home's deregistration of a region that far hosts go on accessing", () => {
  const RACKS: Readonly<Record<string, SharedOf>> = {
    "copies kept remote": {},
    "copies kept local": { placement: "local" },
    "all tables one entry long": { more: SMALLEST },
    "kept local, all tables one entry long": { placement: "local", more: SMALLEST },
    "over cables that lose frames": { faults: LOSSY },
  };
  for (const [name, rack] of Object.entries(RACKS)) {
    it(`C-09, decision 21: ends, and far hosts are told by the region's name: ${name}`, () => {
      const record = closedOf(rack);
      const [closed] = reported(record, "closed", "a") as number[];
      // Two round trips of the network, and what is under way; with losses some time-outs.
      const boundUs = rack.faults === undefined ? 20 : 300;
      assert.ok(closed! < (CLOSE_US + boundUs) * PS_PER_US, `closed at ${closed} ps`);
      const told = ["b", "c"].map((host) => reported(record, "refused", host)[0] as Refused);
      for (const { text, at, sum } of told) {
        assert.match(text, /^RegionRefused: Cannot register region s: .* refuses it to far card/);
        assert.ok(at < (CLOSE_US + 2 * boundUs) * PS_PER_US, `refused at ${at} ps`);
        assert.ok(sum > 0);
      }
      const sums = told.reduce((total, { sum }) => total + sum, 0);
      assert.deepEqual(reported(record, "sum", "a"), [sums]);
      for (const host of ["b", "c"]) assert.deepEqual(reported(record, "again", host), [[7]]);
    });
  }

  const FAULTS: Readonly<Record<string, readonly string[]>> = {
    "is cut off": ["{ at: 90us, cut: b }"],
    "is cut off in the midst of it": ["{ at: 100.5us, cut: b }"],
    "has died": ["{ at: 90us, kill: b }"],
    "dies in the midst of it": ["{ at: 101us, kill: b }"],
  };
  for (const [name, faults] of Object.entries(FAULTS)) {
    it(`C-10, decision 21: ends where a far host ${name}`, () => {
      const record = closedOf({ faults });
      const [closed] = reported(record, "closed", "a") as number[];
      assert.ok(closed! < 400 * PS_PER_US, `closed at ${closed} ps`);
      assert.equal(reported(record, "refused", "c").length, 1);
    });
  }

  it("C-10, decision 21: a far host that was cut off meanwhile is refused when it is back", () => {
    const record = closedOf({ faults: ["{ at: 90us, cut: b }", "{ at: 450us, heal: b }"] });
    const [refused] = reported(record, "refused", "b") as Refused[];
    assert.match(refused!.text, /^RegionRefused: Cannot register region s: /);
    assert.ok(refused!.at < AGAIN_US * PS_PER_US, `refused at ${refused!.at} ps`);
    assert.deepEqual(reported(record, "again", "b"), [[7]]);
  });
});
