/**
 * Verbs of one host, as many outstanding as its queue pair allows, on a line that two far hosts use: home's card serves
 * all of them in turn, so no far host waits for longer than a few of them, let alone until its lease ends.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../fabric/base/time.ts";
import { servedInTurn } from "../../console/checks/shared/served_in_turn.ts";
import { answered } from "../../console/checks/shared/answered.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import { must } from "../../nodes/host/verbs/errors.ts";
import { IBV_SEND_SIGNALED } from "../../nodes/host/verbs/flags.ts";
import { sge } from "../../nodes/host/verbs/post.ts";
import { recordOfText } from "./shared_rack.ts";
import { connectToHome, exposeScm } from "./verbs_to_home.ts";

const DEPTH = 16, ADDS = 20, FROM = 400 * PS_PER_US, UNTIL = 500 * PS_PER_US;

const SCENARIO = (placement: string) => `
name: verbs-beside-cores
seed: 1
defaults: { services: none, attach: coherent, scm: { size: 2MiB } }
hosts: { a: {}, b: {}, c: {}, d: { attach: pcie } }
shared: [ { name: s, home: a, far: [b, c], memory: scm, at: 1MiB, bytes: 4KiB, placement: ${placement}, lease: 50us } ]
programs: [ { on: all, program: ./verbs.ts } ]
until: 1ms
`;

function* home(context: ProgramContext): Steps<void> {
  yield* exposeScm(context, { offset: 1 << 20, length: 4096 });
  yield* context.cpu.sleep(UNTIL);
}

/** Reads one word again and again, {@link DEPTH} at a time. */
function* reader(context: ProgramContext): Steps<void> {
  const { cpu, device } = context;
  const { postSend, waitCompletion } = device.verbs;
  yield* cpu.sleep(100 * PS_PER_US);
  const { qp, cq, mr, remote } = yield* connectToHome(context);
  yield* cpu.sleep(FROM - 10 * PS_PER_US - cpu.now);
  let posted = 0, done = 0;
  while (cpu.now < UNTIL) {
    for (; posted - done < DEPTH; posted++) {
      must(
        yield* postSend(qp, {
          opcode: "read",
          wrId: posted,
          sges: [sge(mr, 64 * (posted % DEPTH), 8)],
          remote,
          sendFlags: IBV_SEND_SIGNALED,
        }),
      );
    }
    done += (yield* waitCompletion(cq)).length;
  }
  cpu.report("read", { done });
}

const PROGRAM: Program = function* (context) {
  const { cpu } = context;
  if (cpu.host === "a") return yield* home(context);
  if (cpu.host === "d") return yield* reader(context);
  const region = yield* cpu.region("s");
  yield* cpu.sleep(FROM - cpu.now);
  for (let i = 0; i < ADDS; i++) yield* region.fetchAdd(0, 1n);
  cpu.report("added", { at: cpu.now });
};

describe("verbs beside the cores of far hosts", () => {
  for (const placement of ["remote", "local"]) {
    it(`C-09, C-10: ${DEPTH} READs outstanding hold no far host up, copies kept ${placement}`, () => {
      const record = recordOfText(SCENARIO(placement), { "./verbs.ts": PROGRAM });
      const { reports } = record;
      const failed = reports.filter(({ topic }) => topic === "program-failed");
      assert.deepEqual(failed.map(({ value }) => value), []);
      const added = reports.filter(({ topic }) => topic === "added");
      assert.deepEqual(added.map(({ node }) => node).sort(), ["b", "c"]);
      // Its reads go on all the time.
      const read = reports.find(({ topic }) => topic === "read")?.value as { done: number };
      assert.ok(read.done > 10 * DEPTH, `${read.done} READs`);
      assert.deepEqual([answered, servedInTurn].flatMap((each) => each.check(record)), []);
      assert.ok(servedInTurn.subjects!(record) > ADDS);
    });
  }
});
