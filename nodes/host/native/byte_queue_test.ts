import { deepStrictEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { ByteQueue } from "./byte_queue.ts";

const operation = fc.oneof(
  fc.record({ push: fc.integer({ min: 0, max: 20 }) }),
  fc.record({ take: fc.integer({ min: 0, max: 50 }) }),
  fc.record({ peek: fc.integer({ min: 0, max: 50 }) }),
);

describe("ByteQueue", () => {
  it("gives bytes whole and in order, whatever is pushed, taken and looked at", () => {
    fc.assert(
      fc.property(fc.array(operation), (operations) => {
        const queue = new ByteQueue();
        let next = 0, model: number[] = [];
        for (const each of operations) {
          if ("push" in each) {
            const bytes = Uint8Array.from({ length: each.push }, () => next++ & 0xff);
            queue.push(bytes);
            model.push(...bytes);
          } else if ("take" in each) {
            same([...queue.take(each.take)], model.slice(0, each.take));
            model = model.slice(each.take);
          } else same([...queue.peek(each.peek)], model.slice(0, each.peek));
          same(queue.length, model.length);
        }
        queue.clear();
        same([queue.length, queue.take(9).length], [0, 0]);
      }),
      seeded(),
    );
  });
});
