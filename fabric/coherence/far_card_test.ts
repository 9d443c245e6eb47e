/** Bounds of a cache: write-back buffers (decisions 9, 12). */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { WireKind } from "../wire/roce/coherence_messages.ts";
import { LOCAL_CACHE } from "../wire/roce/coherence_messages.ts";
import { canEvict, evict, farAccess, farLine, farReceive, newFarCard } from "./far_card.ts";
import { FAR_TABLE } from "./far_card_table.ts";
import { BYTE_CONTENTS } from "./line_bytes.ts";
import { newOutput } from "./output.ts";

const DATA = new Uint8Array(64);

/** The local cache with dirty lines 0 to 3. */
function cache(writeBacks: number) {
  const card = newFarCard({
    ...{ agent: LOCAL_CACHE, table: FAR_TABLE, contents: BYTE_CONTENTS, regionOf: () => 0 },
    size: { lines: 8, writeBacks },
  });
  card.isUp = true;
  for (const line of [0, 1, 2, 3]) card.lines.set(line, { state: "M", data: DATA });
  const hear = (kind: WireKind, line: number, data?: Uint8Array<ArrayBuffer>) => {
    const out = newOutput();
    const message = { kind, line, agent: LOCAL_CACHE, life: 0, homeLife: 0, data };
    farReceive(card, message, out);
    return out;
  };
  return { card, hear };
}

describe("a cache's write-back buffers", () => {
  it("decision 9: are taken by write-backs until each is acknowledged: no line is evicted without one", () => {
    const { card, hear } = cache(2);
    for (const line of [0, 1]) evict(card, line, newOutput());
    assert.deepEqual([canEvict(card, 2), canEvict(card, 3)], [false, false]);
    hear("WbAck", 0);
    assert.deepEqual([farLine(card, 0).state, canEvict(card, 2)], ["I", true]);
  });

  it("decisions 6, 9: are reserved by accesses that leave nothing behind, from their begin on", () => {
    const { card, hear } = cache(1), out = newOutput();
    const verb = { kind: "own", passes: true } as const;
    farAccess(card, { ...verb, line: 4, ticket: 1 }, out);
    farAccess(card, { ...verb, line: 5, ticket: 2 }, out);
    assert.deepEqual(out.wire.map(({ kind, line }) => [kind, line]), [["GetM", 4]]);
    assert.equal(card.waiting.length, 1, "the second one waits for the buffer");
    assert.equal(canEvict(card, 0), false, "it is the verb's");
    const done = hear("DataE", 4, DATA);
    assert.deepEqual(done.answers.map(({ access: { ticket } }) => ticket), [1]);
    assert.ok(done.wire.some(({ kind, line }) => kind === "Put" && line === 4));
    assert.deepEqual([card.waiting.length, canEvict(card, 0)], [1, false]);
    const freed = hear("WbAck", 4);
    assert.deepEqual(freed.wire.map(({ kind, line }) => [kind, line]), [["GetM", 5]]);
    assert.equal(canEvict(card, 0), false);
  });
});
