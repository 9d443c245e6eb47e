/** Decision 19: a core of a far host that waits for a change of a line is woken, however few lines its card has room for. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import { recordOfShared, recordOfText, sharedRack, sharedScenario } from "./shared_rack.ts";

/** Home's core stores then. */
const STORED_AT = 300 * PS_PER_US;
const SMALLEST = ", remoteCache: 1, writeBacks: 1";

describe("a wait for a change of a shared region", () => {
  it("C-03, decision 19: ends though the copy left the card as its core got it, for another core's line", () => {
    const woken: Time[] = [];
    // Both cores of b miss at a time: the card's one place goes to the second line with the first one's grant.
    const waits: Program = function* ({ cpu }) {
      const region = yield* cpu.region("s");
      if (region.isHome) {
        yield* cpu.sleep(STORED_AT - cpu.now);
        yield* region.store(0, new Uint8Array(8).fill(1));
        return;
      }
      yield* cpu.sleep(100 * PS_PER_US - cpu.now);
      assert.equal(yield* region.waitChange(0, 8, 2 * STORED_AT), "changed");
      woken.push(cpu.now);
    };
    const loads: Program = function* ({ cpu }) {
      const region = yield* cpu.region("s");
      // While the other core's request is under way.
      yield* cpu.sleep(100_300_000 - cpu.now);
      yield* region.load(64, 8);
    };
    const text = sharedScenario({ hosts: ["a", "b"], more: SMALLEST })
      .replace("\nfaults", "\n  - { on: b, program: ./loads.ts }\nfaults");
    const { reports } = recordOfText(text, { "./shared.ts": waits, "./loads.ts": loads });
    // C-03: both programs of b open the region at once.
    assert.deepEqual(reports.map(({ topic }) => topic), Array(3).fill("program-ended"));
    assert.equal(woken.length, 1);
    const late = woken[0]! - STORED_AT;
    assert.ok(late > 0 && late < 20 * PS_PER_US, `${late} ps`);
  });

  it("C-03: of two lines, ends soon, whenever the first one changes while it looks at the second", () => {
    const begin = 100 * PS_PER_US;
    for (let step = 0; step < 40; step++) {
      // 100 ns apart: a look at both takes about a microsecond.
      const storedAt = begin + step * 100_000;
      let answer = "", woken = 0;
      const waits: Program = function* ({ cpu }) {
        const region = yield* cpu.region("s");
        if (region.isHome) {
          yield* cpu.sleep(storedAt - cpu.now);
          yield* region.store(0, new Uint8Array(8).fill(1));
          return;
        }
        yield* region.load(0, 8);
        yield* cpu.sleep(begin - cpu.now);
        answer = yield* region.waitChange(0, 128, begin + STORED_AT);
        woken = cpu.now;
      };
      recordOfShared(sharedRack({ hosts: ["a", "b"], program: waits }));
      assert.equal(answer, "changed");
      assert.ok(
        woken - storedAt < 10 * PS_PER_US,
        `stored ${step} steps on: ${woken - storedAt} ps later`,
      );
    }
  });
});
