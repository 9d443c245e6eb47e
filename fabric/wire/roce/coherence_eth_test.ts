import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  COHERENCE_CHANGES,
  COHERENCE_COMMANDS,
  COHERENCE_ETH_FIELDS,
  COHERENCE_STATES,
  COHERENCE_STATUS,
  coherencePayloadName,
  FORMS,
} from "./coherence_eth.ts";
import { OPCODE_ROWS } from "./opcode.ts";

describe("COHERENCE_COMMANDS", () => {
  it("C-02: has commands for the messages of each opcode, no name twice, each with a form", () => {
    const operations = OPCODE_ROWS.filter(({ headers }) => headers.includes("coherenceEth"))
      .map(({ operation }) => operation);
    assert.deepEqual(operations, Object.keys(COHERENCE_COMMANDS));
    const names = Object.values(COHERENCE_COMMANDS).flat();
    assert.equal(new Set(names).size, names.length);
    assert.deepEqual(Object.keys(FORMS).sort(), names.toSorted());
  });
});

describe("COHERENCE_STATES", () => {
  it("C-05: states, changes and statuses fit their fields, and the document's four states are named", () => {
    const lists = { state: COHERENCE_STATES, change: COHERENCE_CHANGES, status: COHERENCE_STATUS };
    for (const [field, names] of Object.entries(lists)) {
      const [, bits] = COHERENCE_ETH_FIELDS.find(([name]) => name === field)!;
      assert.ok(names.length <= 2 ** bits, field);
    }
    assert.deepEqual(COHERENCE_STATES.slice(1), ["invalid", "shared", "exclusive", "modified"]);
  });
});

describe("coherencePayloadName", () => {
  it("names the payload of each change of a Write, and none of a message without", () => {
    const names = COHERENCE_CHANGES.map((_, change) => coherencePayloadName("Write", change));
    assert.deepEqual(names, [undefined, "coherenceMask", "coherenceAdd", "coherenceSwap"]);
    assert.equal(coherencePayloadName("Inv", 0), undefined);
    assert.equal(coherencePayloadName("Counts", 0), "coherenceCounts");
  });
});
