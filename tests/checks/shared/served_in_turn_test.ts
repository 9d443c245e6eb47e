import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { LineTurnRecord, TimedRecord } from "../../../fabric/audit.ts";
import { findingsOf, noted, recordOf } from "../../../console/checks/record_testing.ts";
import { servedInTurn } from "../../../console/checks/shared/served_in_turn.ts";
import { used } from "../../../console/checks/shared/shared_testing.ts";

type Parts = Parameters<typeof findingsOf>[1];

/** `1 taken GetS`: of far card 1, at home's card, for line 0 unless it says `line 1`; one each picosecond from 100 on. */
function turns(...texts: readonly string[]): TimedRecord[] {
  return texts.map((text, i) => {
    const [agent, step, request, , line = "0"] = text.split(" ");
    const note = {
      ...{ kind: "line-turn", region: "s", line: Number(line), agent: Number(agent) },
      ...{ step, request },
    } as LineTurnRecord;
    return noted(100 + i, note, { node: "a-rnic" });
  });
}

function found(texts: readonly string[], parts: Parts = {}): string[] {
  return findingsOf(servedInTurn, { ...parts, notes: [...used(), ...turns(...texts)] });
}

const TAKEN = ["1 taken GetS", "2 taken GetM", "0 taken GetM", "0 taken Put"];

describe("C-09: requests at home's card", () => {
  it("begin in the order of their coming", () => {
    const begun = ["1 begun GetS", "2 begun GetM", "0 begun GetM", "0 begun Put"];
    assert.deepEqual(found([...TAKEN, ...begun]), []);
  });

  it("may be passed over once, as by what the local cache gives back, and not twice", () => {
    assert.deepEqual(found([...TAKEN, "0 begun Put", "1 begun GetS", "2 begun GetM"]), []);
    assert.deepEqual(found([...TAKEN, "0 begun Put", "2 begun GetM", "1 begun GetS"]), [
      "a-rnic: GetS of far card 1 waits for line 0 of s at 105 ps while 2 that came later were " +
      "served, the last one GetM of far card 2",
    ]);
    // It is said once, however often it is passed over then.
    const more = ["0 begun Put", "2 begun GetM", "0 begun GetM"];
    assert.equal(found([...TAKEN, ...more]).length, 1);
  });

  it("are passed over by what begins, not by what is dropped, and on their own line alone", () => {
    assert.deepEqual(found([...TAKEN, "2 dropped GetM", "0 dropped GetM", "0 begun Put"]), []);
    const other = ["2 taken GetS line 1", "2 taken GetM line 1"];
    assert.deepEqual(
      found(["1 taken GetS", ...other, "2 begun GetS line 1", "2 begun GetM line 1"]),
      [],
    );
  });

  it("are begun and dropped once, after they were taken", () => {
    assert.deepEqual(found(["1 taken GetS", "1 begun GetS", "1 begun GetS"]), [
      "a-rnic: GetS of far card 1 for line 0 of s at 102 ps was never taken",
    ]);
    assert.equal(found(["1 dropped GetS"]).length, 1);
    assert.equal(found(["1 taken GetS", "1 begun GetM"]).length, 1);
  });

  it("are forgotten where the card's power fails", () => {
    const power: Parts["power"] = [
      { at: 102, action: "kill", node: "a-rnic" },
      { at: 102, action: "start", node: "a-rnic" },
    ];
    const texts = ["1 taken GetS", "1 taken GetM", "2 taken GetM", "2 begun GetM"];
    const again = ["2 taken GetS", "2 begun GetS"];
    assert.deepEqual(found([...texts, ...again], { power }), []);
    assert.equal(found([...texts, ...again]).length, 2);
  });

  it("are counted where they begin", () => {
    const run = recordOf({ notes: [...used(), ...turns(...TAKEN, "1 begun GetS")] });
    assert.equal(servedInTurn.subjects(run), 1);
  });
});
