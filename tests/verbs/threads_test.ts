/** Threads of a program share what it has made on the RNIC, and each pays for what it does. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_MS, PS_PER_US } from "../../fabric/base/time.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { WorkCompletion } from "../../nodes/host/verbs/objects.ts";
import { type Body, connected, type Ends } from "../support/two_programs.ts";

/** Offset in SCM, behind what services keep there. */
const AT = 1 << 20;

/** The peer: it waits for the other's end. */
const idle: Body = function* (context, _ends, table) {
  yield* table.get(context, "end");
};

/** Runs the body on `a`, beside a peer that is idle. */
function onA(body: (context: ProgramContext, ends: Ends) => Steps<void>) {
  return connected(
    function* (context, ends, table) {
      table.put("mr", ends.mr.address);
      yield* body(context, ends);
      table.put("end");
    },
    idle,
  );
}

describe("cpu.spawn: a thread", () => {
  it("polls its creator's completion queue at its own cost, while the creator sleeps", () => {
    let polled: WorkCompletion[] = [];
    const paid = { creator: -1, thread: -1, polls: 0 };
    const rack = onA(function* ({ cpu, device }, { qp, mr, remote }) {
      const { postSend, pollCq, sge, must } = device.verbs;
      const cq = qp.sendCq;
      let isPolled = false;
      cpu.spawn("poller", function* (own) {
        const before = own.cpu.workPs;
        while (polled.length === 0) {
          polled = yield* pollCq(cq, 4);
          paid.polls++;
        }
        paid.thread = own.cpu.workPs - before;
        isPolled = true;
        own.cpu.signal("polled");
      });
      yield* cpu.sleep(20 * PS_PER_US);
      must(
        yield* postSend(qp, { opcode: "read", wrId: 5, sges: [sge(mr, 0, 64)], remote }),
      );
      const before = cpu.workPs;
      yield* cpu.sleep(PS_PER_MS);
      paid.creator = cpu.workPs - before;
      assert.ok(isPolled, "the thread has found the completion meanwhile");
    });
    assert.deepEqual(polled.map(({ wrId }) => wrId), [5]);
    const node = rack.plan.nodes.find(({ name }) => name === "a")!;
    assert.ok(node.kind === "host");
    const { pollPs } = node.config.timing;
    assert.ok(paid.polls > 20, `it has polled ${paid.polls} times: time has passed at each`);
    assert.ok(paid.thread >= paid.polls * pollPs, JSON.stringify(paid));
    assert.equal(paid.creator, 0, "the creator has slept");
  });

  it("waits for completions of a queue beside its creator: each completion is one's", () => {
    const taken: string[] = [];
    onA(function* ({ cpu, device }, { qp, mr, remote }) {
      const { postSend, waitCompletion, sge, must } = device.verbs;
      const deadline = cpu.now + PS_PER_MS;
      function* take(who: string): Steps<void> {
        while (taken.length < 6) {
          for (const { wrId } of yield* waitCompletion(qp.sendCq, { most: 1, deadline })) {
            taken.push(`${wrId} ${who}`);
          }
          if (cpu.now >= deadline) return;
        }
      }
      cpu.spawn("first", () => take("first"));
      cpu.spawn("second", () => take("second"));
      for (let wrId = 0; wrId < 6; wrId++) {
        const sges = [sge(mr, 64 * wrId, 64)];
        must(yield* postSend(qp, { opcode: "read", wrId, sges, remote }));
        yield* cpu.sleep(10 * PS_PER_US);
      }
    });
    assert.deepEqual(taken.map((each) => each.split(" ")[0]), ["0", "1", "2", "3", "4", "5"]);
    assert.ok(taken.every((each) => /first|second/.test(each)));
  });

  it("has a name of its own among those that run, and may have that of one that has ended", () => {
    let said = "";
    onA(function* ({ cpu }) {
      const drawn: number[] = [];
      function* draw(own: { readonly cpu: typeof cpu }): Steps<void> {
        drawn.push(own.cpu.random());
        yield* own.cpu.sleep(PS_PER_US);
      }
      cpu.spawn("one", draw);
      assert.throws(() => cpu.spawn("one", draw), (error: Error) => {
        said = `${error.name} ${error.message}`;
        return true;
      });
      cpu.spawn("other", draw);
      yield* cpu.sleep(PS_PER_MS);
      cpu.spawn("one", draw);
      yield* cpu.sleep(PS_PER_MS);
      assert.equal(drawn.length, 3);
      assert.notEqual(drawn[0], drawn[1]);
    });
    const found = 'name is "one", as that of a thread that runs: expected one of its own';
    assert.equal(
      said.replace(/threads_test\.ts:\d+:\d+/, "…"),
      `ProgramError EINVAL: spawn at …: ${found}`,
    );
  });

  it("is refused with EAGAIN where the host runs as many as it can, and those that run come to their end", () => {
    let said = "", started = 0, ended = 0;
    onA(function* ({ cpu }) {
      function* short(own: { readonly cpu: typeof cpu }): Steps<void> {
        yield* own.cpu.settle();
        ended++;
      }
      assert.throws(() => {
        for (; started < 100_000; started++) cpu.spawn(`thread ${started}`, short);
      }, (error: Error) => {
        said = error.message;
        return true;
      });
      yield* cpu.sleep(20 * PS_PER_MS);
      cpu.spawn("one more", short);
      yield* cpu.sleep(PS_PER_MS);
    });
    assert.match(
      said,
      /^EAGAIN: spawn at threads_test\.ts:\d+:\d+: a runs 16384 programs and threads: expected at most 16384$/,
    );
    assert.equal(ended, started + 1);
    assert.ok(started > 16_000, `${started}`);
  });

  it("posts to its creator's queue pair, and the creator gets the completion", () => {
    const work: number[] = [];
    onA(function* ({ cpu, device }, { qp, mr, remote }) {
      const { postSend, waitCompletion, sge, must } = device.verbs;
      const before = cpu.workPs;
      cpu.spawn("poster", function* (own) {
        const start = own.cpu.workPs;
        const sges = [sge(mr, 0, 8)];
        must(yield* postSend(qp, { opcode: "read", wrId: 9, sges, remote }));
        work.push(own.cpu.workPs - start);
      });
      yield* cpu.sleep(PS_PER_US);
      work.push(cpu.workPs - before);
      const [completion] = yield* waitCompletion(qp.sendCq);
      assert.deepEqual([completion!.wrId, completion!.status], [9, "SUCCESS"]);
    });
    const [thread, creator] = work;
    assert.ok(thread! > 0, "its post has cost it time");
    assert.equal(creator, 0, "the creator has slept meanwhile");
  });

  it("that calls by its creator's cpu computes on its own core, whose fence makes its stores persistent", () => {
    const work: number[] = [];
    const rack = onA(function* ({ cpu }) {
      const before = cpu.workPs;
      const at = cpu.scm.address + AT;
      cpu.spawn("stores", function* (own) {
        const start = own.cpu.workPs;
        // As in a closure that names the outer cpu.
        cpu.ntstore(at, new Uint8Array(256).fill(7));
        cpu.store(at + 4096, new Uint8Array(256).fill(8));
        cpu.clwb(at + 4096, 256);
        yield* own.cpu.sfence();
        work.push(own.cpu.workPs - start);
      });
      yield* cpu.sleep(PS_PER_MS);
      work.push(cpu.workPs - before);
    });
    const [thread, creator] = work;
    assert.ok(thread! > 0);
    assert.equal(creator, 0);
    const scm = rack.scm.get("a")!;
    assert.deepEqual([...new Set(scm.subarray(AT, AT + 256))], [7], "ntstore, sfence");
    assert.deepEqual([...new Set(scm.subarray(AT + 4096, AT + 4096 + 256))], [8], "clwb, sfence");
  });
});
