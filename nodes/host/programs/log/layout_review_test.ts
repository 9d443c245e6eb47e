import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import {
  chooseLog,
  encodeClaim,
  encodeRecord,
  type LogRecord,
  type LogShape,
  nextEpoch,
  payloadsOf,
  scanLog,
  slotBytes,
} from "./layout.ts";
import { seeded } from "../../../../fabric/base/property_testing.ts";

const SHAPE: LogShape = { name: "log", recordBytes: 20, slots: 10 };
const FILE = Array.from({ length: 4 }, (_, i) => new Uint8Array(20).fill(i + 1));

describe("a replicated log whose slots get into memory in any order", () => {
  it("P-41: never loses or repeats what was told durable", () => {
    const replicas = 3, quorum = 2;
    const anyClient = fc.record({
      reads: fc.shuffledSubarray([0, 1, 2], { minLength: 2, maxLength: 2 }),
      claims: fc.subarray([0, 1, 2]),
      reached: fc.array(fc.integer({ min: 0, max: 8 }), { minLength: 3, maxLength: 3 }),
      early: fc.array(fc.integer({ min: 0, max: 255 }), { minLength: 3, maxLength: 3 }),
    });
    fc.assert(
      fc.property(fc.array(anyClient, { minLength: 1, maxLength: 6 }), (clients) => {
        const logs = Array.from(
          { length: replicas },
          () => new Uint8Array(SHAPE.slots * slotBytes(SHAPE)),
        );
        const size = slotBytes(SHAPE);
        let durable: Uint8Array[] = [];
        for (const [number, { reads, claims, reached, early }] of clients.entries()) {
          const scans = reads.map((i) => scanLog(SHAPE, logs[i]!));
          const found = chooseLog(scans);
          const payloads = payloadsOf(found);
          assert.deepEqual(payloads, FILE.slice(0, payloads.length), `client ${number}`);
          assert.ok(payloads.length >= durable.length, `lost before client ${number}`);
          const epoch = nextEpoch(scans);
          for (const i of claims) logs[i]!.set(encodeClaim(SHAPE, epoch).subarray(0, 8));
          if (claims.length < quorum) continue;
          const barrier: LogRecord = { epoch, kind: "barrier", payload: new Uint8Array(0) };
          const rest = FILE.slice(payloads.length).map((payload): LogRecord => {
            return { epoch, kind: "data", payload };
          });
          const mine = [...found, barrier, ...rest];
          if (mine.length >= SHAPE.slots) return;
          for (const i of claims) {
            for (const k of mine.keys()) {
              if (k >= reached[i]! && ((early[i]! >> k) & 1) === 0) continue;
              logs[i]!.set(encodeRecord(SHAPE, mine, k), (k + 1) * size);
            }
          }
          const acked = reached.map((slots, i) => claims.includes(i) ? slots : 0)
            .sort((x, y) => y - x)[quorum - 1]!;
          const told = acked > found.length ? payloadsOf(mine.slice(0, acked)) : [];
          if (told.length > durable.length) durable = told;
        }
      }),
      seeded({ numRuns: 3_000, seed: 5 }),
    );
  });
});
