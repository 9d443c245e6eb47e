import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import type { Device } from "../state/device.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import { isNewer, takePointer } from "./queue_information.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";

describe("isNewer", () => {
  const ring = { read: 2, depth: 16, recycled: false };

  it("Q-08: before any unit is used twice, the pointer farther from the read pointer is newer", () => {
    assert.equal(isNewer({ pointer: 9, stamp: 1 }, { pointer: 5, stamp: 2 }, ring), true);
    assert.equal(isNewer({ pointer: 5, stamp: 2 }, { pointer: 9, stamp: 1 }, ring), false);
    assert.equal(isNewer({ pointer: 5, stamp: 9 }, { pointer: 5, stamp: 1 }, ring), false);
  });

  it("Q-08: an empty queue's pointer, one behind the read pointer, is older than any filled one", () => {
    assert.equal(isNewer({ pointer: 2, stamp: 5 }, { pointer: 1, stamp: 0 }, ring), true);
    const start = { read: 0, depth: 16, recycled: false };
    assert.equal(isNewer({ pointer: 0, stamp: 5 }, { pointer: 15, stamp: 0 }, start), true);
  });

  it("Q-08: once units are used again the pointer stored later is newer, near or far", () => {
    const again = { ...ring, recycled: true };
    assert.equal(isNewer({ pointer: 5, stamp: 2 }, { pointer: 9, stamp: 1 }, again), true);
    assert.equal(isNewer({ pointer: 9, stamp: 1 }, { pointer: 5, stamp: 2 }, again), false);
  });

  it("Q-08: a pointer behind the read pointer may be of the next pass: time decides", () => {
    assert.equal(isNewer({ pointer: 0, stamp: 7 }, { pointer: 9, stamp: 3 }, ring), true);
    assert.equal(isNewer({ pointer: 0, stamp: 1 }, { pointer: 9, stamp: 3 }, ring), false);
  });

  it("Q-08: agrees with the order of posting in every history of a ring", () => {
    const steps = fc.array(fc.record({ post: fc.nat(6), take: fc.nat(6) }), { maxLength: 30 });
    fc.assert(
      fc.property(fc.constantFrom(4, 8, 16), steps, fc.nat(), fc.nat(), (depth, list, x, y) => {
        let written = 0, taken = 0, stamp = 1;
        const posted = [{ pointer: depth - 1, stamp: 0, count: 0 }];
        for (const { post, take } of list) {
          const room = Math.min(post, depth - 1 - (written - taken));
          if (room > 0) {
            written += room;
            posted.push({ pointer: (written - 1) % depth, stamp: ++stamp, count: written });
          }
          taken = Math.min(written, taken + take);
        }
        const now = { read: taken % depth, depth, recycled: taken >= depth };
        const candidate = posted[x % posted.length]!;
        // The RNIC never takes what its cached pointer does not say is filled.
        const possible = posted.filter(({ count }) => count >= taken);
        const cached = possible[y % possible.length]!;
        if (candidate.count === cached.count) return;
        assert.equal(isNewer(candidate, cached, now), candidate.count > cached.count);
      }),
      seeded({ seed: 8, numRuns: 500 }),
    );
  });
});

describe("takePointer", () => {
  const device = { out: { tracing: false } } as Device;

  it("Q-08: believes none that lies in no unit of the ring, whatever its stamp, and none that was never stored", () => {
    for (const kind of ["sq", "rq", "srq", "cq"] as const) {
      for (const recycled of [false, true]) {
        const entry = { kind, depth: 8, own: 2, host: 3, stamp: 5, recycled } as QueueEntry;
        const host = () => [entry.host, entry.stamp];
        for (const pointer of [8, 9, 2 ** 16]) {
          takePointer(device, entry, { pointer, stamp: 9 }, "memory");
          assert.deepEqual(host(), [3, 5], `${pointer} of 8`);
        }
        takePointer(device, entry, { pointer: 4, stamp: 0 }, "doorbell");
        assert.deepEqual(host(), [3, 5]);
        takePointer(device, entry, { pointer: 7, stamp: 9 }, "doorbell");
        assert.deepEqual(host(), [7, 9]);
      }
    }
  });
});
