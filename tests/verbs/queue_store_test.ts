/** where queue information lies, by every rule of placement and both layouts: the same, at other costs. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { QUEUE_STORES, type QueueStore } from "../../fabric/rack/plan/queue_plan.ts";
import {
  encodeField,
  fieldAddress,
  PLACEMENTS,
} from "../../fabric/wire/host_bus/queue_placement.ts";
import { PROFILES } from "../../fabric/rack/plan/profile.ts";
import { connected } from "../support/two_programs.ts";

const MESSAGES = 8;
const { pluggedLoadPs, dramLoadPs } = PROFILES["clx-optane-cx5"].host;

/** SENDs and WRITEs, each waited for, without a cache of queue information; what came of them, and the time. */
function traffic(queues: object, store: QueueStore) {
  const completions: unknown[] = [];
  let ps = 0, received: Uint8Array = new Uint8Array(0), breach = "";
  const rack = connected(
    function* ({ cpu, device }, { qp, mr }, table) {
      const { postSend, waitCompletion, storeSpace2, sge, must } = device.verbs;
      const va = yield* table.get({ cpu, device } as never, "va");
      const rkey = yield* table.get({ cpu, device } as never, "rkey");
      const since = cpu.now;
      for (let i = 0; i < MESSAGES; i++) {
        cpu.store(mr.address, new Uint8Array(64).fill(i + 1));
        const sges = [sge(mr, 0, 64)];
        const remote = { va: va + 64 * i, rkey };
        must(yield* postSend(qp, { opcode: "write", wrId: 2 * i, sges, remote }));
        must(yield* postSend(qp, { opcode: "send", wrId: 2 * i + 1, sges }));
        for (let left = 2; left > 0;) {
          const done = yield* waitCompletion(qp.sendCq);
          left -= done.length;
          for (const { wrId, status } of done) completions.push([wrId, status]);
        }
      }
      ps = cpu.now - since;
      // The rules of Q-04 hold there, too, and the lock of space 2.
      const { state } = device, { queue, depth } = qp.sq;
      const state1 = fieldAddress(state.store, state, { queue, field: "state" });
      try {
        cpu.store(state1, encodeField("state", "err"));
      } catch (error) {
        breach = (error as Error).message;
      }
      must(yield* storeSpace2(device, { queue, offset: 0, data: encodeField("depth", depth) }));
      table.put("done");
    },
    function* (context, { qp, mr }, table) {
      const { device: { verbs }, cpu } = context;
      const { postRecv, waitCompletion, sge, must } = verbs;
      for (let i = 0; i < MESSAGES; i++) {
        must(yield* postRecv(qp, { wrId: i, sges: [sge(mr, 4096 + 64 * i, 64)] }));
      }
      table.put("rkey", mr.rkey);
      table.put("va", mr.address);
      for (let left = MESSAGES; left > 0;) {
        const done = yield* waitCompletion(qp.recvCq);
        left -= done.length;
        for (const { wrId, status } of done) completions.push(["recv", wrId, status]);
      }
      yield* table.get(context, "done");
      received = cpu.load(mr.address, 8192).slice();
    },
    { ddio: "off", queues: { ...queues, cache: "none", store } },
  );
  const { pluggedLoads = 0 } = rack.simulator.statistics()["a"]!;
  return { completions, ps, received, breach, pluggedLoads };
}

describe("where queue information lies", () => {
  for (const placement of Object.keys(PLACEMENTS)) {
    for (const layout of ["areas", "record"]) {
      it(`Q-03, Q-05: by ${placement} in ${layout}: the same completions and memory, rules and lock; what is read takes longer where memory is plugged in`, () => {
        const [host, node] = QUEUE_STORES.map((store) => traffic({ placement, layout }, store));
        assert.equal(host!.completions.length, 3 * MESSAGES);
        const ordered = (run: typeof host) => run!.completions.map(String).toSorted();
        assert.deepEqual(ordered(node), ordered(host));
        assert.deepEqual(node!.received, host!.received);
        assert.ok(host!.received.some((byte) => byte !== 0));
        for (const { breach } of [host!, node!]) assert.match(breach, /space 1 of queue \d+/);
        assert.equal(host!.pluggedLoads, 0);
        assert.ok(node!.pluggedLoads >= MESSAGES, `${node!.pluggedLoads}`);
        const more = node!.ps - host!.ps;
        // A cold queue waits for its slowest read, once for each message at least.
        assert.ok(more >= MESSAGES * (pluggedLoadPs - dramLoadPs), `${more} ps more`);
      });
    }
  }
});
