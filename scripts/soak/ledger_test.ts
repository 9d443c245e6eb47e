import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { Ledger } from "./ledger.ts";

const PLACE = { host: "b", name: "object" };

function ledgerWith(confirmed: string, sent?: string): Ledger {
  const ledger = new Ledger();
  ledger.sent(PLACE, confirmed);
  ledger.confirmed(PLACE, confirmed);
  if (sent !== undefined) ledger.sent(PLACE, sent);
  return ledger;
}

describe("Ledger.judge", () => {
  it("wants the confirmed object, or one that was sent later", () => {
    const ledger = ledgerWith("old", "new");
    assert.equal(ledger.judge(PLACE, { sha256: "old" }), undefined);
    assert.equal(ledger.judge(PLACE, { sha256: "new" }), undefined);
    assert.match(
      ledger.judge(PLACE, { sha256: "mixed" })!,
      /neither the confirmed one nor a newer/,
    );
    for (const found of ["missing", "incomplete"] as const) {
      assert.match(ledger.judge(PLACE, found)!, new RegExp(`object on b is ${found}`));
    }
  });

  it("wants no older one than the confirmed, but for orders whose end is unknown", () => {
    const ledger = ledgerWith("old");
    ledger.sent(PLACE, "lost");
    ledger.abandoned(PLACE, "lost");
    ledger.sent(PLACE, "new");
    ledger.confirmed(PLACE, "new");
    assert.match(ledger.judge(PLACE, { sha256: "old" })!, /neither/);
    assert.equal(ledger.judge(PLACE, { sha256: "lost" }), undefined);
  });

  it("takes anything where nothing was confirmed, but for a content that was never sent", () => {
    const ledger = new Ledger();
    ledger.sent(PLACE, "sent");
    assert.equal(ledger.judge(PLACE, "missing"), undefined);
    assert.equal(ledger.judge(PLACE, { sha256: "sent" }), undefined);
    assert.match(ledger.judge(PLACE, { sha256: "other" })!, /none that was confirmed/);
  });
});
