import { deepEqual as same, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../fabric/base/property_testing.ts";
import { NEVER, type Time } from "../../fabric/base/time.ts";
import { SCM_BASE } from "../../nodes/host/memory/address_map.ts";
import type { JournalWrite } from "../../nodes/rnic/state/dma_state.ts";
import { HeldHistory } from "./held_history.ts";
import { Pages } from "./history.ts";

const NOTICE = 10, LAST = 60;

/** A write of one byte into a journal. */
function entryOf(address: number, byte: number, arrivesAt: Time): JournalWrite {
  const data = Uint8Array.of(byte);
  const message = {
    kind: "memory-write",
    address: SCM_BASE + address,
    data,
    noSnoop: true,
  } as const;
  return { message, arrivesAt };
}

function imageOf(history: HeldHistory, at: Time): Uint8Array {
  const image = new Pages();
  for (const { offset, bytes } of history.heldAt(at, NOTICE)) image.write(offset, bytes);
  return image.read(0, 8);
}

describe("HeldHistory", () => {
  it("P-41: keeps what had not arrived at the failure, and what came before the card detected it", () => {
    const history = new HeldHistory();
    history.written(5, entryOf(0, 1, 20));
    history.written(29, entryOf(1, 2, 50));
    history.written(30, entryOf(2, 3, 50));
    same(imageOf(history, 20), Uint8Array.of(1, 2, 0, 0, 0, 0, 0, 0));
    same(imageOf(history, 21), Uint8Array.of(0, 2, 3, 0, 0, 0, 0, 0));
  });

  it("decision 12: has lines of the local cache until they leave it", () => {
    const history = new HeldHistory();
    const line = { address: SCM_BASE, data: Uint8Array.of(7) };
    history.cached(5, [line]);
    history.cached(8, []);
    same(history.cachedAt(5), []);
    same(history.cachedAt(6), [{ offset: 0, bytes: line.data }]);
    same(history.cachedAt(9), []);
  });

  it("decision 12: a write that waits for a line is over what the cache has of it", () => {
    const history = new HeldHistory(), entry = entryOf(0, 1, NEVER);
    history.written(1, entry);
    entry.arrivesAt = 40;
    history.cached(2, [{ address: SCM_BASE, data: Uint8Array.of(7) }]);
    same(imageOf(history, 10)[0], 1);
    // The card has done it, and the line is newer.
    same(imageOf(history, 31)[0], 7);
  });

  it("P-05: nothing changes between its edges", () => {
    const step = fc.record({
      after: fc.nat(8),
      is: fc.constantFrom("journal", "waits", "cache"),
      at: fc.nat(3),
      byte: fc.integer({ min: 1, max: 255 }),
      takes: fc.nat(30),
    });
    let changes = 0;
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const history = new HeldHistory();
        let now = 1;
        for (const { after, is, at, byte, takes } of steps) {
          now += after;
          if (is === "cache") {
            const line = { address: SCM_BASE + at, data: Uint8Array.of(byte) };
            history.cached(now, byte % 3 === 0 ? [] : [line]);
            continue;
          }
          const entry = entryOf(at, byte, is === "waits" ? NEVER : now + takes);
          history.written(now, entry);
          entry.arrivesAt = now + takes;
        }
        const edges = new Set(history.edges(NOTICE));
        for (let at = 2; at < LAST + 40; at++) {
          if (edges.has(at)) changes++;
          else same(imageOf(history, at), imageOf(history, at - 1), `at ${at}`);
        }
      }),
      seeded(),
    );
    ok(changes > 100, `${changes} edges`);
  });
});
