import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  COHERENCE_COMMANDS,
  COHERENCE_ETH_BYTES,
  COHERENCE_ETH_FIELDS,
  COHERENCE_STATES,
} from "./coherence_eth.ts";
import { EXTENSION_HEADERS } from "./extension_headers.ts";
import { OPCODE_ROWS } from "./opcode.ts";
import { OWN_LINE } from "./vendor_testing.ts";

describe("COHERENCE_COMMANDS", () => {
  it("C-02 (in part): has commands for the messages of each opcode, no name twice", () => {
    const operations = OPCODE_ROWS.filter(({ headers }) => headers.includes("coherenceEth"))
      .map(({ operation }) => operation);
    assert.deepEqual(operations, Object.keys(COHERENCE_COMMANDS));
    const names = Object.values(COHERENCE_COMMANDS).flat();
    assert.equal(new Set(names).size, names.length);
  });
});

describe("COHERENCE_STATES", () => {
  it("C-05 (in part): fit their field", () => {
    const [, bits] = COHERENCE_ETH_FIELDS.find(([name]) => name === "state")!;
    assert.equal(COHERENCE_STATES.length, 2 ** bits);
  });
});

describe("COHERENCE_ETH_FIELDS", () => {
  it("C-07 (in part): says that the line is wanted alone, by a far card", () => {
    const view = new DataView(new ArrayBuffer(COHERENCE_ETH_BYTES));
    EXTENSION_HEADERS.coherenceEth.write(view, 0, OWN_LINE);
    assert.equal(
      new Uint8Array(view.buffer).toHex(),
      "0103a000" + "000055aa" + "00000009" + "00000040" + "00007f0000000040",
    );
  });
});
