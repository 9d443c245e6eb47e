/** every form of doorbell from posts on, and doorbells that get lost: what is posted is done. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { ACCESS } from "../../fabric/wire/host_bus/rnic_command.ts";
import type { Qp } from "../../nodes/host/verbs/objects.ts";
import { connected } from "../support/two_programs.ts";

const ROUNDS = 20, BURST = 4;

/**
 * Three queue pairs add up 1, 2, 3, … into words of the other host, in bursts that wrap their rings:
 * the sums tell whether one was lost or doubled, their order whether one came before another.
 * @returns what the requester's card counted.
 */
function play(queues: object, options: object = {}): Record<string, number> {
  const rack = connected(
    function* (context, { qp, mr, connect }, table) {
      const { postSend, waitCompletion, sge, must } = context.device.verbs;
      const va = yield* table.get(context, "va"), rkey = yield* table.get(context, "rkey");
      const qps: Qp[] = [qp, yield* connect("two"), yield* connect("three")];
      const done: number[][] = [[], [], []], posted = [0, 0, 0];
      for (let round = 0; round < ROUNDS; round++) {
        for (const [i, each] of qps.entries()) {
          for (let burst = 0; burst < BURST; burst++) {
            const wrId = posted[i]!++;
            must(
              yield* postSend(each, {
                opcode: "fetch-add",
                wrId,
                sges: [sge(mr, 64 * i, 8)],
                remote: { va: va + 8 * i, rkey },
                atomic: { swapAdd: 1n, compare: 0n },
              }),
            );
          }
        }
        for (const [i, each] of qps.entries()) {
          while (done[i]!.length < posted[i]!) {
            for (const { wrId, status } of yield* waitCompletion(each.sendCq)) {
              assert.equal(status, "SUCCESS");
              done[i]!.push(wrId);
            }
          }
          const last = context.cpu.load(mr.address + 64 * i, 8);
          assert.equal(new DataView(last.buffer, last.byteOffset).getUint8(0), posted[i]! - 1);
        }
      }
      for (const order of done) assert.deepEqual(order, order.toSorted((x, y) => x - y));
      table.put("ended");
    },
    function* (context, { pd, connect }, table) {
      const { regMr, must } = context.device.verbs;
      const access = ["localWrite", "remoteAtomic"] as const;
      const words = must(yield* regMr(pd, context.cpu.allocate(4096), { access }));
      table.put("va", words.address);
      table.put("rkey", words.rkey);
      yield* connect("two");
      yield* connect("three");
      yield* table.get(context, "ended");
      for (let i = 0; i < 3; i++) {
        assert.equal(context.cpu.load(words.address + 8 * i, 1)[0], BURST * ROUNDS, "added up");
      }
    },
    { queues, ...options },
    { access: ACCESS.remoteAtomic },
  );
  return rack.simulator.statistics()["a-rnic"]!;
}

const RETRY = { retry: "20us" };

describe("doorbells", () => {
  for (const form of ["fifo", "message"]) {
    for (const carries of ["pointer", "number"]) {
      it(`Q-06: as ${form} with the ${carries}, cached or not, all that is posted is done once and in order`, () => {
        for (
          const [cache, blueFlame] of [[{ entries: 64 }, "off"], ["none", "off"], ["none", "on"]]
        ) {
          const counts = play({ cache, doorbell: { form, carries } }, { blueFlame });
          assert.equal(counts["doorbellsRefused"], 0);
          if (cache !== "none") {
            const perDoorbell = counts["dmaReadsPerDoorbell"]!;
            if (carries === "pointer") assert.ok(perDoorbell < 0.1, "the pointer comes along");
            else assert.ok(perDoorbell >= 0.3, "it is read from space 3");
          }
        }
      });
    }
  }

  for (const readPointer of ["batched", "at-eviction"]) {
    it(`Q-06: lost doorbells are rung for again by the driver, read pointer ${readPointer}`, () => {
      for (const carries of ["pointer", "number"]) {
        const doorbell = { ...RETRY, carries, lost: "30%" };
        const counts = play({ readPointer, doorbell });
        assert.ok(counts["doorbellsLost"]! > 20, "that many never came");
      }
    });
  }

  it("Q-06: a doorbell that finds the doorbell space full is dropped, and rung for again", () => {
    // WQEs that come with their doorbells are served at once: none would wait.
    const slow = { blueFlame: "off", timing: { rnic: { gatherReadsMax: 1 } } };
    const full = play({ readPointer: "batched", doorbell: { ...RETRY, slots: 1 } }, slow);
    assert.ok(full["doorbellsDropped"]! > 20, `${full["doorbellsDropped"]} were dropped`);
    const doorbell = { ...RETRY, slots: 8, coalesced: "50%" };
    const merged = play({ readPointer: "batched", doorbell }, slow);
    assert.ok(merged["doorbellsCoalesced"]! > 20, `${merged["doorbellsCoalesced"]} were`);
  });
});
