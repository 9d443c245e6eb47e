import { PollStreak } from "../cpu/spin.ts";
import { deepEqual as same, equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { EXIT_PS, WORK_PRESETS } from "../../../fabric/rack/plan/hint_work.ts";
import type { AtsMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import { Ats } from "./ats.ts";
import type { RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { HostTiming } from "../../../fabric/rack/plan/plan.ts";
import type { Steps } from "../cpu/program.ts";
import type { Processor } from "../cpu/processor.ts";
import { HintThread, type HintThreadParts, hostWorkPs } from "./hint_thread.ts";
import { PageThread, type ThreadParts } from "./page_thread.ts";
import type { Pager } from "./pager.ts";

const NS = 1000;
type TaskPlan<T> = Parameters<typeof Processor.prototype.add<T>>[0];
function* nothing(): Steps<void> {}

describe("hostWorkPs", () => {
  it("H-20: is what the core's pieces take, with a worker's wake in the kernel and a guest's exits", () => {
    const timing = { interruptPs: 3_500 * NS };
    const job = { job: "prepare", elements: 4, timing } as const;
    const pieces = 4 * (20 + 101 + 101) * NS;
    equal(hostWorkPs(WORK_PRESETS.driver, job), pieces);
    equal(hostWorkPs(WORK_PRESETS.hypervisor, job), pieces + 3 * EXIT_PS);
    const kernel = { parse: "firmware", check: "driver", decide: "os" } as const;
    equal(hostWorkPs(kernel, job), 4 * 202 * NS + timing.interruptPs);
    equal(hostWorkPs(WORK_PRESETS.driver, { ...job, job: "announce" }), 0);
  });
});

describe("HintThread", () => {
  it("H-20: an interrupt later it does one job after the other, each at its core's cost, and says so", () => {
    const did: (string | number)[] = [], begun: number[] = [];
    const timing = { interruptPs: 3_500 * NS } as HostTiming;
    let run: (() => void) | undefined;
    const thread = new HintThread({
      name: "hints",
      machine: { now: 10 * NS, timing },
      work: WORK_PRESETS.driver,
      onFailure: () => {},
      cpu: () => ({
        charge: (ps) => void did.push(ps),
        *settle(): Steps<void> {
          yield* nothing();
          did.push("settled");
        },
        *command(command): Steps<RnicReply> {
          yield* nothing();
          did.push(`${command.op} ${"id" in command ? command.id : ""}`);
          return { status: "ok", op: "done" };
        },
      }),
      processor: {
        add<T>({ startAt, start, onReturn }: TaskPlan<T>): void {
          begun.push(startAt);
          run = () => {
            const { done, value } = start({
              owed: 0,
              paidPs: 0,
              core: 0,
              writeBacks: [],
              writtenBackAt: 0,
              streak: new PollStreak({ eventAt: 0 }),
            }).next(
              undefined as never,
            );
            equal(done, true, "nothing is waited for");
            onReturn?.(value as T);
          };
        },
      },
    });
    const event = { type: "HINT_WORK", job: "prepare", elements: 1 } as const;
    thread.take({ ...event, id: 3 });
    thread.take({ ...event, id: 4, elements: 2 });
    same(begun, [3_510 * NS], "one thread for both");
    run!();
    const one = [222 * NS, "settled", "hint-work 3"];
    same(did, [...one, 444 * NS, "settled", "hint-work 4"], "its time has passed when it says so");
    same([thread.jobs, thread.workPs], [2, 666 * NS]);
    thread.take({ ...event, id: 5 });
    thread.reset();
    run!();
    equal(thread.jobs, 2, "a card that has failed waits for nothing");
  });
});

describe("kernel threads", () => {
  /** A processor that keeps what it is to run. */
  function processor() {
    const tasks: (() => void)[] = [];
    return {
      tasks,
      add<T>({ onReturn }: TaskPlan<T>): void {
        tasks.push(() => onReturn?.(undefined as T));
      },
    };
  }

  it("run again for what comes as they end, and else not", () => {
    const { tasks, ...own } = processor();
    const timing = { interruptPs: 1 } as HostTiming;
    const none = () => {
      throw new Error("nothing is run here");
    };
    const parts = { machine: { now: 0, timing }, work: undefined, cpu: none, onFailure: none };
    const hints = new HintThread({ ...parts, name: "hints", processor: own });
    const event = { type: "HINT_WORK", job: "prepare", elements: 1 } as const;
    for (const id of [1, 2]) hints.take({ ...event, id });
    equal(tasks.length, 1);
    // It ends, and what has come since its last look is still there.
    tasks.shift()!();
    equal(tasks.length, 1);
    hints.reset();
    tasks.shift()!();
    equal(tasks.length, 0);
    const paging = { hasWork: false };
    const machine = { now: 0, timing, paging };
    const thread = new PageThread({ ...parts, machine, processor: own } as unknown as ThreadParts);
    thread.serve();
    equal(tasks.length, 0, "there is nothing to be done");
    paging.hasWork = true;
    for (let i = 0; i < 2; i++) thread.serve();
    equal(tasks.length, 1);
    tasks.shift()!();
    equal(tasks.length, 1);
    paging.hasWork = false;
    tasks.shift()!();
    equal(tasks.length, 0);
  });

  it("press at their time from the boot on, or at once where that is over", () => {
    const begun: number[] = [];
    const processor = { add: <T>({ startAt }: TaskPlan<T>) => void begun.push(startAt) };
    const plan = { at: 5, everyPs: 1, times: 1, pages: 1 };
    for (const now of [0, 14, 15, 20]) {
      const thread = new PageThread({ machine: { now }, processor } as unknown as ThreadParts);
      thread.press(plan, 10);
    }
    same(begun, [15, 15, 15, 20]);
  });

  it("run again when they have failed, for what is left, and say so once", () => {
    const tasks: ((error: Error) => void)[] = [], failed: string[] = [];
    const own = {
      add: <T>({ onFailure }: TaskPlan<T>) => void tasks.push((error) => onFailure?.(error)),
    };
    const parts = {
      ...{ work: undefined, processor: own, cpu: () => ({}) },
      onFailure: (name: string, error: Error) => void failed.push(`${name}: ${error.message}`),
    };
    const machine = { now: 0, timing: { interruptPs: 1 }, paging: { hasWork: true } };
    const hints = new HintThread(
      { ...parts, name: "hints", machine } as unknown as HintThreadParts,
    );
    hints.take({ type: "HINT_WORK", job: "prepare", elements: 1, id: 1 });
    const paging = new PageThread({ ...parts, machine } as unknown as ThreadParts);
    paging.serve();
    for (const task of tasks.splice(0)) task(new Error("a trap"));
    same([tasks.length, failed], [2, ["hints: a trap", "paging: a trap"]]);
  });
});

describe("Ats", () => {
  const message = (step: AtsMessage["step"], first: number, count: number): AtsMessage => ({
    kind: "ats",
    step,
    key: 5,
    first,
    count,
    ahead: 0,
    write: true,
    frames: [],
  });

  it("H-21: walks the table for one message after the other, and says of each page where it is", () => {
    const sent: AtsMessage[] = [], faults: number[] = [];
    const region = { rights: new Uint8Array([2, 2, 0, 1]) };
    const pager = {
      regionOf: (card: number, key: number) => card === 0 && key === 5 ? region : undefined,
      framesOf: (_: unknown, { first, count }: { first: number; count: number }) =>
        Array.from({ length: count }, (_, i) => 4096 * (first + i + 1)),
      fault: ({ first }: { first: number }) => void faults.push(first),
    } as unknown as Pager;
    const ats = new Ats({
      work: WORK_PRESETS.iommu,
      pager,
      card: 0,
      send: (each) => sent.push(each),
    });
    ats.take(message("page-request", 7, 1), 0);
    ats.take(message("translate", 0, 4), 100 * NS);
    equal(ats.nextAt, 260 * NS);
    ats.run(260 * NS - 1);
    same([ats.held, ats.pageRequests], [2, 0], "not before its time");
    ats.run(260 * NS);
    same(faults, [7]);
    // The walk of the second message begins when that of the first one has ended.
    equal(ats.nextAt, (2 * 260 + 4 * 33) * NS);
    ats.run(ats.nextAt);
    same(sent.map(({ step, first, frames, write }) => [step, first, frames, write]), [
      ["translated", 0, [4096, 8192], true],
      ["translated", 2, [], false],
      ["translated", 3, [16384], false],
    ]);
    // What hints alone want comes last, a message of each requester in turn.
    const inOrder = new Ats({ work: {}, pager, card: 0, send: () => {} });
    faults.length = 0;
    for (const [first, hintsOf] of [[0], [1, 7], [2, 7], [3, 8], [4], [5]]) {
      const asks = message("page-request", first!, 1);
      inOrder.take(hintsOf === undefined ? asks : { ...asks, hintsOf }, 0);
    }
    equal(inOrder.held, 6);
    while (inOrder.held > 0) inOrder.run(inOrder.nextAt);
    same(faults.splice(0), [0, 4, 5, 1, 3, 2]);
    // Of a card that has failed nothing is answered: neither what is being walked nor what waits behind it.
    ats.take(message("translate", 0, 1), 0);
    ats.take(message("page-request", 8, 1), 0);
    ats.take({ ...message("page-request", 9, 1), hintsOf: 1 }, 0);
    ats.reset();
    equal(ats.nextAt, Infinity);
    ats.take(message("page-request", 10, 1), 1_000 * NS);
    while (ats.nextAt < Infinity) ats.run(ats.nextAt);
    same([faults, sent.length], [[10], 3]);
  });
});
