/** What a doorbell does, as the RNIC tells it (document 003_, figure 2), and the classic scheme beside it. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { formatTime, PS_PER_NS } from "../../../fabric/base/time.ts";
import { QUEUE_PLAN, type QueuePlan } from "../../../fabric/rack/plan/queue_plan.ts";
import { Rig } from "../testing/rnic_testing.ts";

/** @param entries of the cache of queue information: with one, no queue's stays there. */
function pair(plan: Partial<QueuePlan>, entries: number) {
  const queueCache = { entries, evict: "oldest", amount: 1 } as const;
  const own = { queueCache, queuePlan: { ...QUEUE_PLAN, ...plan } };
  const rig = new Rig({ plans: { a: own, b: own } });
  const from = rig.register(rig.a, { length: 4096 });
  const to = rig.register(rig.b, { length: 4096 });
  const ends = rig.connect({ depth: 16, rqDepth: 16 });
  rig.tracing = true;
  const post = (bell: "pointer" | "number") => {
    const remote = { va: BigInt(to.va), rkey: to.key };
    const sges = [{ address: from.va, length: 8, lkey: from.key }];
    rig.enqueueSend(rig.a, ends.a, { opcode: "write", remote, sges });
    rig.ring(rig.a, ends.a.sq, bell);
  };
  const { sq: { queue } } = ends.a;
  /** What the sender's card has said of its send queue. */
  const said = () =>
    rig.traces.filter(({ node, step }) => node === "a" && step.queue === queue).map((
      { time, step },
    ) => ({ time, ...step }));
  return { rig, ...ends, queue, post, said };
}

describe("a doorbell's ladder", () => {
  it("Q-06, Q-07, Q-08: of a queue that is not cached it has the read, what came, and the newer pointer", () => {
    const { rig, a, queue, post, said } = pair({ layout: "record" }, 1);
    // A queue that was just made is cached: the first WRITE's completion puts it out.
    post("pointer");
    rig.run();
    rig.traces.length = 0;
    post("pointer");
    rig.run();
    const steps = said();
    assert.deepEqual(steps.map(({ step }) => step), [
      ...["doorbell-taken", "queue-read", "queue-known", "pointer-compared", "pointer-compared"],
      "wqe-read",
    ]);
    const [taken, read, known, fromMemory, compared, fetched] = steps;
    const { stamp } = a.sq;
    assert.deepEqual([taken!.stamp, fromMemory!.stamp, compared!.stamp], [stamp, stamp, stamp]);
    assert.match(read!.text, new RegExp(`^record of send queue ${queue}: \\d+ B at 0x`));
    assert.ok(known!.time > read!.time);
    const took = formatTime(known!.time - read!.time);
    assert.ok(
      known!.text.startsWith(`send queue ${queue} after ${took}: read pointer 1, depth 16`),
    );
    assert.match(known!.text, /; evicts \w+ queue \d+$/, "a cache of one");
    assert.match(fromMemory!.text, /pointer 1 is newer, by \w+: 1 \(memory\) is 1, stored at /);
    assert.match(compared!.text, /they are the same: 1 \(doorbell\) is 1, stored at /);
    assert.deepEqual(fetched!.units, [1, 2]);
    assert.ok(steps.every(({ qpn, connection }) => qpn === a.qpn && connection !== undefined));
  });

  it("Q-07, Q-08: of one that is cached nothing is read, and the doorbell's pointer is the newer one", () => {
    const { rig, post, said } = pair({}, 64);
    post("pointer");
    rig.run();
    const steps = said().map(({ step }) => step).join(" ");
    assert.equal(steps, "doorbell-taken queue-cached pointer-compared wqe-read");
    assert.match(said()[2]!.text, /: pointer 1 is newer, by \w+: 1 \(doorbell\) is 0, stored at /);
  });

  it("Q-10: with the classic scheme it has two reads, one behind the other: address, then pointer", () => {
    const { rig, post, said } = pair({ scheme: "classic" }, 64);
    post("number");
    rig.run();
    const steps = said();
    const expected = "doorbell-taken queue-cached address-read pointer-read queue-known " +
      "pointer-compared wqe-read";
    assert.equal(steps.map(({ step }) => step).join(" "), expected);
    const [, , address, pointer, known] = steps;
    assert.ok(pointer!.time > address!.time && known!.time > pointer!.time, "each waits");
    assert.ok(known!.text.includes(`after ${formatTime(known!.time - address!.time)}`));
  });

  it("Q-10, Q-11: a stale pointer names its queue, both pointers and both times", () => {
    const { rig, a, queue, post, said } = pair({ scheme: "classic" }, 64);
    const stored: { readonly pointer: number; readonly stamp: number }[] = [];
    for (let round = 0; round < 12; round++) {
      for (let i = 0; i < 6; i++) {
        post("number");
        stored.push({ pointer: a.sq.write, stamp: a.sq.stamp });
        // Some ring while the card is at work with the one before.
        rig.runFor(60 * round * PS_PER_NS);
      }
      rig.run();
      rig.poll(rig.a, a.sendCq);
    }
    const stale = said().filter(({ step }) => step === "stale-pointer");
    const { stalePointers } = rig.a.rnic.statistics();
    assert.ok(stale.length > 0);
    assert.equal(stale.length, stalePointers);
    for (const { text, stamp } of stale) {
      const newest = stored.find((each) => each.stamp === stamp)!;
      const words =
        /^send queue (\d+): (\d+), stored at (.+), where (\d+), stored at (.+) was there/
          .exec(text);
      assert.ok(words !== null, text);
      const [, its, used, usedAt, newer, newerAt] = words;
      assert.deepEqual([Number(its), Number(newer)], [queue, newest.pointer]);
      assert.equal(newerAt, formatTime(newest.stamp));
      const known = stored.findLast((each) =>
        each.pointer === Number(used) && each.stamp < newest.stamp
      )!;
      assert.equal(usedAt, formatTime(known.stamp));
    }
  });

  it("Q-07: a packet that waits for its context says so, beside the read that it waits for", () => {
    const { rig, b, post } = pair({ layout: "record" }, 1);
    // Its queue's entry takes the place of the context.
    rig.createCq(rig.b);
    rig.traces.length = 0;
    post("pointer");
    rig.run();
    const steps = rig.traces.filter(({ node, step }) =>
      node === "b" && step.queue === b.rq.queue && step.stamp === undefined
    ).map(({ step }) => step);
    const wait = steps.find(({ step }) => step === "context-wait")!;
    const { psn } = rig.traces.find(({ node, step }) => node === "a" && step.psn !== undefined)!
      .step;
    assert.deepEqual([wait.psn, wait.inbound, wait.qpn], [psn, true, b.qpn]);
    const names = steps.map(({ step }) => step).join(" ");
    assert.equal(names, "queue-read context-wait queue-known");
  });

  it("Q-06: one that is not served says why", () => {
    const doorbell = { form: "fifo", carries: "pointer", lostPpm: 999_999 } as const;
    const { rig, a, queue, post, said } = pair({ doorbell }, 64);
    post("pointer");
    rig.run();
    const told = said().map(({ step, text, stamp }) => ({ step, text, stamp }));
    const text = `of send queue ${queue}: lost on its way`;
    assert.deepEqual(told, [{ step: "doorbell-lost", text, stamp: a.sq.stamp }]);
  });
});
