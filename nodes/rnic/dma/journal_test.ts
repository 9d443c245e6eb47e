import { deepEqual, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import type { Outputs } from "../../../fabric/node.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import type { MemoryWrite } from "../../../fabric/wire/host_bus/pcie.ts";
import { createJournal, type HeldWrites, noteInJournal, survivePowerFailure } from "./journal.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import type { Journal } from "../state/dma_state.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";

const LATENCY: Time = 150;
const NOTICE: Time = 220;
const FLUSH_ON_FAIL = { busLatencyPs: LATENCY, noticePs: NOTICE };

function journalOf(): Journal {
  return createJournal({ ...rnicPlan("b"), flushOnFail: FLUSH_ON_FAIL })!;
}

/** A write whose address says which it is. */
function write(address: number): MemoryWrite {
  const data = new Uint8Array([address & 0xff]);
  return { kind: "memory-write", address, data, noSnoop: false };
}

/** The bus goes down, or is back. @returns what is sent and reported then. */
function change(journal: Journal, event: { readonly up: boolean; readonly now: Time }) {
  const sent: number[] = [], reported: HeldWrites[] = [];
  const out: Pick<Outputs, "report"> = {
    report(topic, value) {
      equal(topic, "held");
      reported.push(value as HeldWrites);
    },
  };
  const send: Parameters<typeof survivePowerFailure>[1]["send"] = ({ message }) => {
    ok(message.kind === "memory-write");
    sent.push(message.address);
    return event.now + 30;
  };
  survivePowerFailure(journal, { ...event, send, out });
  equal(reported.length, 1);
  return { sent, held: reported[0]!.writes };
}

describe("Journal", () => {
  it("is kept by a card whose plan has it only", () => {
    equal(createJournal(rnicPlan("b")), undefined);
    noteInJournal({ journal: undefined, now: 0 }, write(1), 10);
  });

  it("P-41: holds what had not arrived when power failed, and gives it back once, in order", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 200 }), { minLength: 1, maxLength: 40 }),
        fc.integer({ min: 0, max: 4000 }),
        (gaps, death) => {
          const journal = journalOf();
          const expected: number[] = [];
          let freeAt = 0;
          for (const [i, gap] of gaps.entries()) {
            // The bus takes a write a while after the card hands it over.
            const now = freeAt;
            freeAt += gap;
            if (now >= death + NOTICE) break;
            noteInJournal({ journal, now }, write(i), freeAt);
            // At the instant of the failure the host takes nothing any more.
            if (freeAt + LATENCY >= death) expected.push(i);
          }
          const down = change(journal, { up: false, now: death + NOTICE });
          deepEqual(down.sent, []);
          deepEqual(down.held.map(({ address }) => address), expected);
          const back = change(journal, { up: true, now: death + NOTICE + 1000 });
          deepEqual(back, { sent: expected, held: [] });
          deepEqual(change(journal, { up: true, now: death + 9000 }).sent, []);
        },
      ),
      seeded({ seed: 41, numRuns: 500 }),
    );
  });

  it("P-41: does not give back what the host has got, whose cores may have written over it since", () => {
    const journal = journalOf();
    noteInJournal({ journal, now: 0 }, write(1), 100);
    noteInJournal({ journal, now: 0 }, write(2), 101);
    const down = change(journal, { up: false, now: 101 + LATENCY + NOTICE });
    deepEqual(down.held, [{ address: 2, data: "02" }]);
  });

  it("P-41: does not give back what has come before an earlier write that waits", () => {
    const journal = journalOf();
    noteInJournal({ journal, now: 0 }, write(1), NEVER);
    noteInJournal({ journal, now: 0 }, write(2), 100);
    const down = change(journal, { up: false, now: 101 + LATENCY + NOTICE });
    deepEqual(down.held.map(({ address }) => address), [1]);
    deepEqual(change(journal, { up: true, now: 5000 }).sent, [1]);
  });

  it("P-05: a second failure before the first is over loses nothing", () => {
    const journal = journalOf();
    noteInJournal({ journal, now: 0 }, write(1), 100);
    change(journal, { up: false, now: 100 });
    const again = change(journal, { up: false, now: 150 });
    deepEqual(again.held.map(({ address }) => address), [1]);
  });

  it("P-41: what is given back is held again where power fails before it has come", () => {
    const journal = journalOf();
    for (const i of [1, 2]) noteInJournal({ journal, now: 0 }, write(i), 100);
    change(journal, { up: false, now: 100 });
    // It departs 30 later, takes no time on this bus, and is there 180 later.
    deepEqual(change(journal, { up: true, now: 5000 }), { sent: [1, 2], held: [] });
    const again = change(journal, { up: false, now: 5180 + NOTICE });
    deepEqual(again.held.map(({ address }) => address), [1, 2]);
    deepEqual(change(journal, { up: true, now: 9000 }).sent, [1, 2]);
    deepEqual(change(journal, { up: false, now: 9181 + NOTICE }).held, [], "it had come");
  });

  it("forgets what no failure can concern any more", () => {
    const journal = journalOf();
    for (let i = 0; i < 1000; i++) noteInJournal({ journal, now: 100 * i }, write(i), 100 * i + 50);
    ok(journal.writes.length < 10, `${journal.writes.length} writes are kept`);
  });
});
