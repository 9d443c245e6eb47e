/** What is said of programs that have not ended: for what they wait, where, and since when. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { UnfinishedProgram } from "../../../fabric/node.ts";
import { NEVER } from "../../../fabric/base/time.ts";
import { HostRig, pattern } from "../testing/host_testing.ts";
import type { Cpu, Steps } from "./program.ts";
import { siteIn } from "./wait_site.ts";

const BOOT = 1_000_000;

type CpuProgram = (cpu: Cpu) => Steps<void>;

/** The unfinished programs of a host after all that happens before `until`. */
function leftOf(
  programs: Readonly<Record<string, CpuProgram>>,
  until = NEVER,
): UnfinishedProgram[] {
  const rig = new HostRig({}, { programs });
  rig.run(until);
  return rig.node.unfinished!();
}

describe("Host.unfinished", () => {
  it("has nothing of programs that ran through or threw", () => {
    const left = leftOf({
      *ends(cpu) {
        yield* cpu.sleep(1_000);
      },
      // deno-lint-ignore require-yield -- it throws at once
      *throws() {
        throw new Error("own");
      },
    });
    assert.deepEqual(left, []);
  });

  it("names a wait's kind and its begin", () => {
    const [left, ...rest] = leftOf({
      *waits(cpu) {
        yield* cpu.sleep(1_000);
        yield* inner(cpu);
      },
    });
    assert.deepEqual(rest, []);
    assert.deepEqual(left, {
      program: "waits#0",
      serves: false,
      waitsFor: "the signal never",
      since: BOOT + 1_000,
    });
  });

  it("says the same when asked again, and the program goes on as if nothing had asked", () => {
    let went = 0;
    const rig = new HostRig({}, {
      programs: {
        *pays(cpu: Cpu) {
          cpu.store(cpu.scm.address, pattern(8));
          yield* cpu.sleep(1_000);
          went++;
          yield* cpu.waitMemory(cpu.scm.address, 8, BOOT + 5_000_000);
          went++;
        },
      },
    });
    while (rig.now < BOOT) rig.next();
    const asked = rig.node.unfinished!();
    assert.deepEqual(rig.node.unfinished!(), asked);
    assert.equal(asked.length, 1);
    rig.run();
    assert.equal(went, 2);
    assert.deepEqual(rig.node.unfinished!(), []);
  });

  it("does not move a program on that yields a wait of its own making", () => {
    const went: number[] = [];
    const rig = new HostRig({}, {
      programs: {
        *own(cpu: Cpu) {
          for (const at of [2_000, 4_000]) {
            yield { kind: "time", at: BOOT + at };
            went.push(cpu.now);
          }
        },
      },
    });
    rig.run(BOOT + 1_000);
    const asked = rig.node.unfinished!();
    assert.deepEqual(asked.map(({ program, at }) => [program, at]), [["own#0", undefined]]);
    rig.run();
    assert.deepEqual(went, [BOOT + 2_000, BOOT + 4_000]);
  });

  it("has the threads of a program, and calls whose yield* is missing", () => {
    const left = leftOf({
      *parent(cpu) {
        const { spawn } = cpu as unknown as {
          spawn(name: string, thread: () => Steps<void>): void;
        };
        spawn("child", () => inner(cpu));
        cpu.sleep(5);
        yield* cpu.waitInterrupt(77, NEVER);
      },
    });
    assert.deepEqual(left.map(({ program }) => program), ["parent#0", "parent#0/child"]);
    assert.match(left[0]!.waitsFor, /^interrupt 77; the call of sleep was not awaited: /);
  });
});

function* inner(cpu: Cpu): Steps<void> {
  yield* cpu.waitSignal("never", NEVER);
}

describe("siteIn", () => {
  it("finds the program's own frame below those of the host, and what it called", () => {
    const host = new URL("..", import.meta.url).href;
    const stack = `Error
    at answered (${host}cpu/wait_site.ts:20:16)
    at hold (${host}cpu/wait_site.ts:12:9)
    at hold.next (<anonymous>)
    at waitCompletion (${host}verbs/completion_queue.ts:281:3)
    at waitCompletion.next (<anonymous>)
    at helper (file:///home/x/my%20p.ts:7:16)
    at helper.next (<anonymous>)
    at default (file:///home/x/main.ts:1:1)`;
    assert.deepEqual(siteIn(stack), { line: "my%20p.ts:7:16", call: "waitCompletion" });
    assert.deepEqual(siteIn(stack.slice(0, stack.indexOf("at helper"))), {});
  });
});
