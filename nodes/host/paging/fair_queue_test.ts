import assert from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { FairQueue } from "./fair_queue.ts";

function drained(queue: FairQueue<string>): string[] {
  const items: string[] = [];
  for (let item = queue.shift(); item !== undefined; item = queue.shift()) items.push(item);
  return items;
}

it("FairQueue serves requesters in turn, an item each, whatever each of them has (H-24)", () => {
  const queue = new FairQueue<string>();
  for (const item of ["a1", "a2", "a3"]) queue.push(item, 1);
  queue.push("b1", 2);
  for (const item of ["c1", "c2"]) queue.push(item, 3);
  assert.deepEqual(drained(queue), ["a1", "b1", "c1", "a2", "c2", "a3"]);
  assert.equal(queue.isEmpty, true);
});

it("FairQueue has a requester wait behind the others once it was served", () => {
  const queue = new FairQueue<string>();
  queue.push("a1", 1);
  queue.push("b1", 2);
  queue.push("a2", 1);
  assert.equal(queue.shift(), "a1");
  queue.push("a3", 1);
  assert.deepEqual(drained(queue), ["b1", "a2", "a3"]);
});
