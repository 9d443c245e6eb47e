import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import type { Time } from "../../fabric/base/time.ts";
import { type DeclaredWrite, Landing, MemoryRecord } from "./memory_record.ts";

const BYTES = new Uint8Array(64).fill(7);

/** A write of a line that is declared, and on the bus. */
function underWay(record: MemoryRecord, issuedAt: Time): [declared: Landing, passed: Landing] {
  const landing = new Landing(128, BYTES), passed = new Landing(128, BYTES);
  const never = { visibleAt: Infinity, claimedAt: Infinity, promisedAt: Infinity };
  const write: DeclaredWrite = { by: "p", id: 1, node: "a", on: "b", landing, issuedAt, ...never };
  record.declare(write);
  record.pass({
    landing: passed,
    card: "b-rnic",
    cardAt: issuedAt,
    sentAt: issuedAt,
    busAt: issuedAt,
    arrivesAt: issuedAt + 5,
  });
  return [landing, passed];
}

it("MemoryRecord: what was on its way in an earlier life never lands, whatever the next one writes there", () => {
  const record = new MemoryRecord();
  const landings = [...underWay(record, 10)];
  record.beginLife(50);
  record.durable(60, 128, BYTES);
  same(landings.map(({ doneAt }) => doneAt), [Infinity, Infinity]);
  const next = underWay(record, 70);
  record.dirty(80, 128, BYTES);
  same(next.map(({ doneAt }) => doneAt), [80, 80]);
});
