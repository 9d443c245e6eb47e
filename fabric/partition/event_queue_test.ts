import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import fc from "fast-check";
import { compareEvents, type Event, EVENT_KINDS, EventQueue } from "./event_queue.ts";
import { NEVER } from "../base/time.ts";
import { seeded } from "../base/property_testing.ts";

function event(time: number, key: Partial<Event> = {}): Event {
  return {
    time,
    kind: EVENT_KINDS.message,
    source: 0,
    counter: 0,
    target: 0,
    sourceLife: 0,
    targetLife: 0,
    input: { kind: "wake" },
    ...key,
  };
}

describe("compareEvents", () => {
  it("orders by time, then kind, source, counter, life and target", () => {
    const inOrder = [
      event(1, { kind: EVENT_KINDS.wake, source: 9 }),
      event(2, { kind: EVENT_KINDS.powerOff, source: 9 }),
      event(2, { kind: EVENT_KINDS.link, source: 9 }),
      event(2, { source: 1, counter: 5 }),
      event(2, { source: 2, counter: 3, target: 9 }),
      event(2, { source: 2, counter: 4 }),
      event(2, { source: 2, counter: 4, sourceLife: 1 }),
      event(2, { source: 2, counter: 4, sourceLife: 1, target: 1 }),
      event(2, { kind: EVENT_KINDS.wake }),
    ];
    for (const [i, x] of inOrder.entries()) {
      for (const [j, y] of inOrder.entries()) {
        assert.equal(Math.sign(compareEvents(x, y)), Math.sign(i - j));
      }
    }
  });

  it("calls two events of one key a bug", () => {
    assert.throws(() => compareEvents(event(1), event(1)), /one key/);
  });
});

describe("EventQueue", () => {
  it("gives back in order what was put in in any order", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(20), { maxLength: 60 }), (times) => {
        const queue = new EventQueue();
        times.forEach((time, counter) => queue.push(event(time, { counter })));
        const out: Event[] = [];
        while (queue.nextTime !== NEVER) out.push(queue.pop());
        assert.equal(out.length, times.length);
        for (let i = 1; i < out.length; i++) assert(compareEvents(out[i - 1]!, out[i]!) < 0);
      }),
      seeded({ seed: 7 }),
    );
  });

  it("orders events of one instant as compareEvents does, taken and put in by turns", () => {
    const small = fc.nat(2);
    const key = fc.record({ kind: fc.nat(6), source: small, counter: small, sourceLife: small });
    fc.assert(
      fc.property(
        fc.uniqueArray(key, { selector: (k) => JSON.stringify(k), maxLength: 150 }),
        (keys) => {
          const queue = new EventQueue();
          const waiting: Event[] = [];
          for (const [i, each] of keys.entries()) {
            const next = event(1, each);
            queue.push(next);
            waiting.push(next);
            waiting.sort(compareEvents);
            if (i % 3 === 2) assert.equal(queue.pop(), waiting.shift());
          }
          for (const next of waiting) assert.equal(queue.pop(), next);
          assert.equal(queue.nextTime, NEVER);
        },
      ),
      seeded({ seed: 7 }),
    );
  });

  it("refuses an event whose source or counter it cannot order", () => {
    const queue = new EventQueue();
    queue.push(event(1, { source: 2 ** 14 - 1, counter: 2 ** 36 - 1 }));
    assert.throws(() => queue.push(event(1, { source: 2 ** 14 })), /beyond/);
    assert.throws(() => queue.push(event(1, { counter: 2 ** 36 })), /beyond/);
  });

  it("refuses an event before the one taken last", () => {
    const queue = new EventQueue();
    queue.push(event(10));
    queue.pop();
    assert.equal(queue.now, 10);
    assert.throws(() => queue.push(event(9)), /before 10 ps/);
  });

  it("refuses to be emptied further", () => {
    assert.throws(() => new EventQueue().pop(), /empty/);
  });
});
