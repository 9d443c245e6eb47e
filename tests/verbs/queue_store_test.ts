/** where queue information lies, by every rule of placement and both layouts: the same, at other costs; and what power failures leave of it. */
import { IBV_ACCESS_LOCAL_WRITE } from "../../nodes/host/verbs/flags.ts";
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { QUEUE_STORES, type QueueStore } from "../../fabric/rack/plan/queue_plan.ts";
import {
  encodeField,
  fieldAddress,
  PLACEMENTS,
  type QueueFields,
} from "../../fabric/wire/host_bus/queue_placement.ts";
import { PROFILES } from "../../fabric/rack/plan/profile.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import { PS_PER_MS } from "../../fabric/base/time.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import { connected } from "../support/two_programs.ts";

const MESSAGES = 8;
const { host: { pluggedLoadPs, dramLoadPs, mmioPs }, bus: { latencyPs: busPs } } =
  PROFILES["clx-optane-cx5"];

/** SENDs and WRITEs, each waited for, without a cache of queue information; what came of them, and the time. */
type Run = ReturnType<typeof traffic>;

function traffic(queues: object, store: QueueStore) {
  const completions: unknown[] = [];
  const breaches: string[] = [];
  let ps = 0, readPs = 0, received: Uint8Array = new Uint8Array(0);
  const rack = connected(
    function* ({ cpu, device }, { qp, mr }, table) {
      const { postSend, waitCompletion, storeSpace2, sge, must } = device.verbs;
      const { queueInformation, writeSpace2 } = device.verbs;
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
      const placeOf = (field: "state" | "depth") =>
        fieldAddress(state.store, state, { queue, field });
      function* breachOf(field: "state" | "depth", bytes: Uint8Array): Steps<string> {
        const before = yield* cpu.read(placeOf(field), bytes.length);
        let told = "stored";
        try {
          cpu.store(placeOf(field), bytes);
          // A store into the card's memory is posted: its refusal comes back.
          yield* cpu.sleep(10_000_000);
        } catch (error) {
          told = (error as Error).message.replace(/0x[0-9a-f]+/, "X").replace(
            /queue \d+/,
            "queue Q",
          );
        }
        assert.deepEqual(yield* cpu.read(placeOf(field), bytes.length), before);
        return told;
      }
      breaches.push(yield* breachOf("state", encodeField("state", "err")));
      const halved = encodeField("depth", depth / 2);
      breaches.push(yield* breachOf("depth", halved));
      table.put("queue", queue);
      yield* table.get({ cpu, device } as never, "locked");
      breaches.push(yield* breachOf("depth", halved));
      table.put("tried");
      yield* table.get({ cpu, device } as never, "unlocked");
      // By value, and under the lock.
      const change = { queue, offset: state.store.offsets.depth };
      must(yield* writeSpace2(device, { ...change, data: encodeField("depth", depth) }));
      assert.equal(qp.sq.depth, depth);
      must(yield* storeSpace2(device, { ...change, data: halved }));
      assert.equal(qp.sq.depth, depth / 2);
      const info = must(yield* queueInformation(device, queue));
      assert.equal(info.depth, depth / 2);
      assert.equal(info.owner, qp.qpn);
      assert.equal(info.hostPointer, qp.sq.write);
      const since1 = cpu.now;
      yield* cpu.read(placeOf("state"), 1);
      yield* cpu.settle();
      readPs = cpu.now - since1;
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
    {
      // Another program has the lock, and fails.
      *failing(context, table) {
        const { cpu } = context;
        const queue = yield* table.get(context, "queue");
        assert.equal((yield* cpu.command({ op: "lock-space2", queue })).status, "ok");
        table.put("locked");
        yield* table.get(context, "tried");
        assert.equal((yield* cpu.command({ op: "unlock-space2", queue })).status, "ok");
        table.put("unlocked");
        throw new Error("as a process that is killed");
      },
    },
  );
  const { a, "a-rnic": card } = rack.simulator.statistics();
  return { completions, ps, readPs, received, breaches, host: a!, card: card! };
}

/** Posts receives, and says in every life what is stored of the number that their queue had in the first. */
const POSTS: Program = function* ({ cpu, device }) {
  const { allocPd, createCq, createQp, modifyQp, postRecv, queueInformation, regMr, sge, must } =
    device.verbs;
  const { kept } = device.state;
  const found = must(yield* queueInformation(device, RQ));
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 8 }));
  const ends = { sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4, sqSigAll: true };
  const qp = must(yield* createQp(pd, { type: "rc", ...ends }));
  must(yield* modifyQp(qp, { state: "init", accessFlags: 0 }));
  const made = must(yield* queueInformation(device, RQ));
  const mr = must(yield* regMr(pd, cpu.allocate(64), { access: IBV_ACCESS_LOCAL_WRITE }));
  for (let i = 0; i < 3; i++) must(yield* postRecv(qp, { sges: [sge(mr)] }));
  yield* cpu.settle();
  const posted = must(yield* queueInformation(device, RQ));
  cpu.report("queue", { queue: qp.rq.queue, kept, found, made, posted });
  // Until its host has lost its power.
  yield* cpu.sleep(10 * PS_PER_MS);
};
/** Its number: those before it are the connection manager's, the completion queue's and the send queue's. */
const RQ = 5;

interface Told {
  readonly queue: number;
  readonly kept: number;
  readonly found: QueueFields;
  readonly made: QueueFields;
  readonly posted: QueueFields;
}

/** What the program has said in its lives. */
function lives(store: QueueStore, faults: readonly string[]): Told[] {
  const rack = new SimulatedRack(
    `
name: kept
defaults: { services: none }
hosts: { a: { queues: { store: ${store} } } }
programs: [{ on: a, run: ./posts.ts, at: 10us, restart: true }]
faults: [${faults.join(", ")}]
`,
    { programs: { "./posts.ts": POSTS } },
  ).run();
  assert.deepEqual(rack.reported("program-failed", "a"), []);
  return rack.reported("queue", "a") as unknown as Told[];
}

describe("queue information when power fails", () => {
  const die = ["{ kill: a, at: 2ms }", "{ start: a, at: 3ms }"];
  it("Q-04: the host's death leaves at the card what is stored there, until the number is used again", () => {
    const [before, after, ...more] = lives("device", die);
    assert.deepEqual(more, []);
    assert.deepEqual([before!.queue, after!.queue], [RQ, RQ]);
    assert.equal(before!.kept, 0);
    assert.equal(before!.found.valid, false);
    assert.equal(before!.posted.hostPointer, 2, "three units are filled");
    assert.equal(after!.kept, RQ + 1, "those of the connection manager, too");
    assert.deepEqual(after!.found, before!.posted, "the queue of the life before");
    // The new queue has nothing of it: a pointer of the life before would be taken for WQEs.
    const { made, posted } = after!;
    assert.equal(made.hostPointer, made.depth - 1, "empty");
    assert.ok(made.stamp > before!.posted.stamp);
    assert.equal(posted.hostPointer, 2);
  });

  it("Q-04: it goes with the card's power, and elsewhere with the host", () => {
    const lost = [
      lives("device", ["{ kill: a-rnic, at: 2500us }", ...die].toSorted()),
      lives("host", die),
      lives("node", die),
    ];
    for (const [, after] of lost) {
      assert.equal(after!.kept, 0);
      assert.equal(after!.found.valid, false);
      assert.equal(after!.found.stamp, 0);
      assert.equal(after!.posted.hostPointer, 2);
    }
  });
});

const ONLY_RNIC =
  "Cannot store 1 B at X: they touch space 1 of queue Q, which only the RNIC writes";
const NOT_LOCKED =
  /^Cannot store 4 B at X: they touch space 2 of queue Q, which is not locked: expected lock-space2 granted to .*left/;
const LOCKED =
  /^Cannot store 4 B at X: they touch space 2 of queue Q, which is locked by .*failing.*: expected lock-space2 granted to .*left/;

describe("where queue information lies", () => {
  for (const placement of Object.keys(PLACEMENTS)) {
    for (const layout of ["areas", "record"]) {
      it(`Q-03, Q-04, Q-05: by ${placement} in ${layout}: the same completions, memory, rules and errors at the host, plugged in, and at the card; each at its own cost`, () => {
        const runs = QUEUE_STORES.map((store) => traffic({ placement, layout }, store));
        const [host, node, device] = runs as [Run, Run, Run];
        assert.equal(host.completions.length, 3 * MESSAGES);
        assert.ok(host.received.some((byte) => byte !== 0));
        const ordered = (run: Run) => run.completions.map(String).toSorted();
        for (const run of runs) {
          assert.deepEqual(ordered(run), ordered(host));
          assert.deepEqual(run.received, host.received);
          const [state, unlocked, locked] = run.breaches;
          assert.equal(state, ONLY_RNIC);
          assert.match(unlocked!, NOT_LOCKED);
          assert.match(locked!, LOCKED);
        }
        assert.equal(host.host["pluggedLoads"], undefined);
        assert.ok(node.host["pluggedLoads"]! >= MESSAGES, `${node.host["pluggedLoads"]}`);
        const more = node.ps - host.ps;
        // A cold queue waits for its slowest read, once for each message at least.
        assert.ok(more >= MESSAGES * (pluggedLoadPs - dramLoadPs), `${more} ps more`);
        // The card reads on the chip; cores pay: a store is MMIO, a load a round trip on the bus.
        assert.ok(host.card["doorbellReads"]! >= MESSAGES);
        assert.equal(device.card["doorbellReads"], 0);
        assert.equal(device.card["queueReads"], 0);
        const { dmaReads = 0 } = device.card;
        assert.ok(dmaReads <= host.card["dmaReads"]! - host.card["queueReads"]!, `${dmaReads}`);
        assert.ok(device.host["cardStores"]! >= 2 * MESSAGES);
        assert.equal(device.host["cardStoresRefused"], 3);
        assert.equal(device.card["storesRefused"], 3);
        assert.ok(device.readPs >= mmioPs + 2 * busPs, `${device.readPs} ps`);
        assert.ok(host.readPs < device.readPs / 2, `${host.readPs} ps`);
      });
    }
  }
});
