import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { decodeCqe, encodeCqe } from "./cqe.ts";
import { entryOfEvent, eventOfEntry } from "./event_entry.ts";
import { EVENTS } from "./pcie_testing.ts";

describe("entryOfEvent", () => {
  it("gives every event back from the bytes of a completion queue's entry", () => {
    for (const event of EVENTS) {
      const entry = decodeCqe(encodeCqe(entryOfEvent(event), 0), 3, 16);
      assert.deepEqual(eventOfEntry(entry!), event);
    }
  });

  it("tells no event from a completion, nor one of a number that is not known", () => {
    const [event] = EVENTS;
    assert.equal(eventOfEntry({ ...entryOfEvent(event!), opcode: "requester" }), undefined);
    assert.equal(eventOfEntry({ ...entryOfEvent(event!), wqeOpcode: 200 }), undefined);
  });
});
