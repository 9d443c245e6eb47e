import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import { type Floors, floorsBelow, HOST_FLOORS, RNIC_FLOORS } from "./floors.ts";
import { checkImport } from "./layers.ts";

/** A file of each part, with the number of its floor. */
function filesOf(floors: Floors, folder: string) {
  return floors.flatMap((parts, floor) =>
    parts.map((part) => ({
      floor,
      part,
      file: `${folder}${part}${part.endsWith("/") ? "x.ts" : ""}`,
    }))
  );
}

describe("floorsBelow", () => {
  for (
    const [folder, floors] of [["nodes/host/", HOST_FLOORS], ["nodes/rnic/", RNIC_FLOORS]] as const
  ) {
    it(`lets a part of ${folder} import itself and lower floors, and nothing else of it`, () => {
      const files = filesOf(floors, folder);
      for (const from of files) {
        for (const to of files) {
          const may = to.floor < from.floor || to.part === from.part;
          assert.equal(floorsBelow(from.file, to.file) === null, may, `${from.file} → ${to.file}`);
        }
      }
    });
  }

  it("names what may be imported instead", () => {
    const found = floorsBelow("nodes/host/cpu/cpu.ts", "nodes/host/verbs/device.ts");
    assert.equal(found, "cpu/ memory/");
  });

  it("has the state of a room on the floor of the card's own, and the room above it", () => {
    const own = "nodes/rnic/state/device.ts", room = "nodes/rnic/hints/state/hint_state.ts";
    assert.equal(floorsBelow(own, room), null);
    assert.equal(floorsBelow(room, own), null);
    assert.notEqual(floorsBelow(room, "nodes/rnic/hints/words.ts"), null);
    assert.equal(floorsBelow("nodes/rnic/hints/words.ts", room), null);
  });

  it("refuses a file that stands on no floor, on either side", () => {
    assert.notEqual(floorsBelow("nodes/host/attic/x.ts", "nodes/host/memory/llc.ts"), null);
    assert.notEqual(floorsBelow("nodes/host/host.ts", "nodes/host/attic/x.ts"), null);
  });

  it("says nothing of other folders", () => {
    assert.equal(floorsBelow("nodes/make_host.ts", "nodes/host/host.ts"), null);
    assert.equal(floorsBelow("nodes/host/memory/llc.ts", "fabric/node.ts"), null);
  });
});

describe("checkImport between floors", () => {
  const up = { line: 1, specifier: "../cpu/cpu.ts", target: "nodes/host/cpu/cpu.ts" };

  it("refuses an import of a higher floor, types included", () => {
    const breach = checkImport({ ...up, file: "nodes/host/memory/llc.ts" });
    assert.equal(breach?.found, "imports nodes/host/cpu/cpu.ts");
    assert.equal(breach?.allowed, "only memory/");
  });

  it("lets a test look at any floor of its folder", () => {
    assert.equal(checkImport({ ...up, file: "nodes/host/memory/llc_test.ts" }), null);
    assert.equal(checkImport({ ...up, file: "nodes/host/testing/host_testing.ts" }), null);
  });
});
