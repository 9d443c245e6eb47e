/** every form of doorbell from posts on, and doorbells that get lost: what is posted is done. */
import { IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_ATOMIC } from "../../nodes/host/verbs/flags.ts";
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { ACCESS } from "../../fabric/wire/host_bus/rnic_command.ts";
import type { Qp } from "../../nodes/host/verbs/objects.ts";
import { connected } from "../support/two_programs.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import stalePointer from "../../scripts/scenarios/stale_pointer.ts";

/** Work requests of a burst, by doorbells: a list is fetched, what is alone may go with its doorbell. */
const ROUNDS = 20, LISTS = [1, 2, 1], BURST = 4;

/**
 * Three queue pairs add up 1, 2, 3, … into words of the other host, in bursts that wrap their rings:
 * the sums tell whether one was lost or doubled, their order whether one came before another.
 * @returns what the requester's card counted.
 */
function play(
  queues: object,
  { blueFlame = "on", rnic = {} }: { readonly blueFlame?: "on" | "off"; readonly rnic?: object } =
    {},
): Record<string, number> {
  const rack = connected(
    function* (context, { qp, mr, connect }, table) {
      const { postSend, waitCompletion, sge, must } = context.device.verbs;
      const va = yield* table.get(context, "va"), rkey = yield* table.get(context, "rkey");
      const qps: Qp[] = [qp, yield* connect("two"), yield* connect("three")];
      const done: number[][] = [[], [], []], posted = [0, 0, 0];
      for (let round = 0; round < ROUNDS; round++) {
        for (const [i, each] of qps.entries()) {
          for (const length of LISTS) {
            const list = Array.from({ length }, () => ({
              opcode: "fetch-add" as const,
              wrId: posted[i]!++,
              sges: [sge(mr, 64 * i, 8)],
              remote: { va: va + 8 * i, rkey },
              atomic: { swapAdd: 1n, compare: 0n },
            }));
            must(yield* postSend(each, list));
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
      const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
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
    { queues, blueFlame, timing: { rnic } },
    { access: ACCESS.remoteAtomic },
  );
  return rack.simulator.statistics()["a-rnic"]!;
}

const RETRY = { retry: "20us" };
/** A card that takes doorbells slowly, so that they wait in its doorbell space. */
const SLOW = { gatherReadsMax: 1 };

describe("doorbells", () => {
  for (const form of ["fifo", "message"]) {
    for (const carries of ["pointer", "number"]) {
      it(`Q-06: as ${form} with the ${carries}, cached or not, all that is posted is done once and in order`, () => {
        for (
          const [cache, blueFlame] of [[{ entries: 64 }, "off"], ["none", "off"], [
            "none",
            "on",
          ]] as const
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
    const slow = { blueFlame: "off", rnic: SLOW } as const;
    const full = play({ readPointer: "batched", doorbell: { ...RETRY, slots: 1 } }, slow);
    assert.ok(full["doorbellsDropped"]! > 20, `${full["doorbellsDropped"]} were dropped`);
    const doorbell = { ...RETRY, slots: 8, coalesced: "50%" };
    const merged = play({ readPointer: "batched", doorbell }, slow);
    assert.ok(merged["doorbellsCoalesced"]! > 20, `${merged["doorbellsCoalesced"]} were`);
  });

  for (const form of ["fifo", "message"]) {
    it(`Q-06: BlueFlame as ${form}, with doorbells lost, coalesced and dropped: all is done once and in order`, () => {
      const doorbell = { ...RETRY, form, lost: "10%", coalesced: "50%", slots: 2 };
      const options = { blueFlame: "on", rnic: SLOW } as const;
      const counts = play({ readPointer: "batched", doorbell }, options);
      const { blueFlameTaken, blueFlameFetched, doorbellsLost } = counts;
      assert.ok(blueFlameTaken! > 20, `${blueFlameTaken} WQEs came with their doorbell`);
      assert.ok(blueFlameFetched! > 5, `${blueFlameFetched} came and were fetched`);
      assert.ok(doorbellsLost! > 10, `${doorbellsLost} were lost`);
      // A message waits nowhere.
      const waits = form === "fifo";
      const { doorbellsCoalesced = 0, doorbellsDropped = 0 } = counts;
      assert.equal(doorbellsCoalesced > 5, waits, `${doorbellsCoalesced} were coalesced`);
      assert.equal(doorbellsDropped > 5, waits, `${doorbellsDropped} were dropped`);
    });
  }

  it("Q-10, Q-11: stale_pointer.yaml: the classic scheme has stale pointers and loses nothing, three-space has none", async () => {
    const shipped = new URL("../../scripts/scenarios/stale_pointer.yaml", import.meta.url);
    const programs = { "./stale_pointer.ts": stalePointer };
    const rack = new SimulatedRack(await Deno.readTextFile(shipped), { programs }).run();
    // Each client has read back that all of its numbers are there, or there is no result of it.
    assert.deepEqual(rack.reported("program-failed"), []);
    const [classic, number, pointer] = ["classic", "number", "pointer"].map((host) =>
      rack.reported("result", host)[0] as Record<string, number>
    );
    assert.equal(classic!["doorbells"], 400);
    assert.ok(classic!["stalePointers"]! > 40, `${classic!["stalePointers"]} stale pointers`);
    assert.deepEqual([number!["stalePointers"], pointer!["stalePointers"]], [0, 0]);
    const reads = [classic, number, pointer].map((counted) => counted!["readsPerDoorbell"]!);
    assert.ok(reads[0]! > 1 && reads[1]! <= 1 && reads[2]! === 0, `${reads}`);
    const all = rack.simulator.statistics();
    const told = Object.keys(all).filter((node) => "stalePointers" in all[node]!);
    assert.deepEqual(
      told,
      ["classic-rnic", "number-rnic", "pointer-rnic"],
      "where schemes are named",
    );
  });
});
