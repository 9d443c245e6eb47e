import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type Cqe, CQE_BYTES, encodeCqe } from "../../../fabric/wire/host_bus/cqe.ts";
import type { Cq } from "../verbs/objects.ts";
import { LocalPolls } from "./local_polls.ts";

const ENTRY = { opcode: "requester", status: "SUCCESS", va: 0n } as unknown as Cqe;
const OTHERS = 2 ** 16;
const ENTRIES = 4;

/** Queues of 4 entries in memory that is all in the cache, but for what `absent` names. */
function queues() {
  const memory = new Uint8Array(1 << 16), absent = new Set<number>(), held = new Set<unknown>();
  const polls = new LocalPolls({
    peek: (at, length) => memory.slice(at, at + length),
    physical: (address) => address - 1000,
    isCached: (at) => !absent.has(at),
  });
  let next = 0;
  const create = () => {
    const place = { taken: 0 };
    held.add(place);
    const address = 1000 + next++ * ENTRIES * CQE_BYTES;
    // Nothing has been written yet: the owner bit of the pass before.
    memory.fill(1, address - 1000, address - 1000 + ENTRIES * CQE_BYTES);
    const cq = { place, address, entries: ENTRIES, device: { state: { held } } } as unknown as Cq;
    return { cq, place, at: (entry: number) => address - 1000 + entry * CQE_BYTES };
  };
  const write = (at: number, owner: 0 | 1) => memory.set(encodeCqe(ENTRY, owner), at);
  return { polls, create, write, absent, held };
}

describe("LocalPolls", () => {
  it("asks for a queue with an entry until it is taken, also in later passes of the ring", () => {
    const { polls, create, write } = queues();
    const one = create(), two = create();
    assert.deepEqual([polls.add(one.cq), polls.add(two.cq)], [1, 2]);
    for (let taken = 0; taken < 3 * ENTRIES; taken++) {
      assert.equal(polls.ask(), OTHERS);
      write(two.at(taken % ENTRIES), (Math.floor(taken / ENTRIES) & 1) as 0 | 1);
      assert.equal(polls.ask(), OTHERS + 2);
      two.place.taken++;
    }
  });

  it("asks for one whose next entry is not in the cache, where a poll takes longer", () => {
    const { polls, create, absent } = queues();
    const one = create();
    polls.add(one.cq);
    absent.add(one.at(1));
    assert.equal(polls.ask(), OTHERS);
    one.place.taken++;
    assert.equal(polls.ask(), OTHERS + 1);
  });

  it("asks for one that the card has lost, gives a bit out again, and asks for all beyond its bits", () => {
    const { polls, create, held } = queues();
    const all = Array.from({ length: 18 }, create);
    const bits = all.map(({ cq }) => polls.add(cq));
    assert.deepEqual(bits, [...Array.from({ length: 16 }, (_, i) => 2 ** i), OTHERS, OTHERS]);
    held.delete(all[3]!.place);
    assert.equal(polls.ask(), OTHERS + 8);
    polls.remove(all[3]!.cq);
    assert.equal(polls.ask(), OTHERS);
    assert.equal(polls.add(all[17]!.cq), 8);
  });
});
