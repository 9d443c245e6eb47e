/** A loop of empty `pollCq`: few steps, and each completion at the instant at which single polls would take it. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_MS, PS_PER_S, type Time, TIME_END } from "../../fabric/base/time.ts";
import { seeded } from "../../fabric/base/property_testing.ts";
import { takeCompletions } from "../../nodes/host/verbs/completion_queue.ts";
import type { Cq, WorkCompletion } from "../../nodes/host/verbs/objects.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Program, ThreadContext } from "../../nodes/host/program_context.ts";
import { bringUp, connected, Table } from "../support/two_programs.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

/** What `pollCq` would be with a step for each poll. */
function* pollOnce({ cpu }: ThreadContext, cq: Cq): Steps<WorkCompletion[]> {
  const completions = takeCompletions(cq, 1);
  yield* cpu.settle();
  return completions;
}

function* poll({ device }: ThreadContext, cq: Cq): Steps<WorkCompletion[]> {
  return yield* device.verbs.pollCq(cq, 1);
}

interface Arrivals {
  /** When each SEND leaves, after the one before. */
  readonly gaps: readonly { readonly ns: number; readonly ps: number }[];
  /** Completion queues that the program polls in turn. */
  readonly queues: number;
  readonly cores: number;
  /** Another thread of the host that works now and then, in ns; on the poller's core where there is one. */
  readonly beside: number | undefined;
  /** A second thread polls a queue of its own meanwhile. */
  readonly isSecond: boolean;
}

interface Seen {
  readonly taken: (readonly [wrId: number, at: Time, workPs: Time])[];
  readonly flagAt: Time[];
  readonly events: number;
}

/** What the program on `a` sees of SENDs of `b`, and the rack's number of events. */
function seenWith(
  how: (context: ThreadContext, cq: Cq) => Steps<WorkCompletion[]>,
  { gaps, queues, cores, beside, isSecond }: Arrivals,
): Seen {
  const taken: [number, Time, Time][] = [], flagAt: Time[] = [];
  const rack = connected(
    function* (context, { qp, mr }, table) {
      const { createCq, postRecv, sge, must } = context.device.verbs;
      const { cpu } = context;
      const others: Cq[] = [];
      while (others.length < queues) {
        others.push(must(yield* createCq(context.device, { entries: 4 })));
      }
      for (let wrId = 0; wrId < gaps.length; wrId++) {
        must(yield* postRecv(qp, { wrId, sges: [sge(mr, 64 * wrId, 64)] }));
      }
      let works = 0, isOver = false;
      if (beside !== undefined) {
        cpu.spawn("beside", function* (own) {
          while (!isOver) {
            yield* own.cpu.sleep(beside * 1_000);
            own.cpu.charge(12_345);
            works++;
          }
        });
      }
      if (isSecond) {
        cpu.spawn("second", function* (own) {
          while (!isOver) yield* how(own, others[queues - 1]!);
        });
      }
      table.put("ready");
      const cqs = [qp.recvCq, ...others.slice(1)];
      let worked = 0;
      for (let next = 0; taken.length < gaps.length; next++) {
        const [completion] = yield* how(context, cqs[next % cqs.length]!);
        if (completion !== undefined) taken.push([completion.wrId, cpu.now, cpu.workPs]);
        if (works > worked) flagAt.push(cpu.now);
        worked = works;
      }
      isOver = true;
      table.put("end");
    },
    function* (context, { qp, mr }, table) {
      const { postSend, sge, must, waitCompletion } = context.device.verbs;
      yield* table.get(context, "ready");
      for (const { ns, ps } of gaps) {
        yield* context.cpu.sleep(ns * 1_000 + ps);
        must(yield* postSend(qp, { opcode: "send", sges: [sge(mr, 0, 64)] }));
        yield* waitCompletion(qp.sendCq);
      }
      yield* table.get(context, "end");
    },
    { cores, services: "none" },
  );
  return { taken, flagAt, events: rack.simulator.events };
}

const gaps = fc.array(fc.record({ ns: fc.nat(20_000), ps: fc.nat(999) }), {
  minLength: 1,
  maxLength: 3,
});
const arrivals: fc.Arbitrary<Arrivals> = fc.oneof(
  fc.record({
    gaps,
    queues: fc.constant(1),
    cores: fc.integer({ min: 1, max: 3 }),
    beside: fc.option(fc.integer({ min: 500, max: 20_000 }), { nil: undefined }),
    isSecond: fc.boolean(),
  }),
  // An event between the polls of a round is noticed at its end: only the cards' are early enough.
  fc.record({
    gaps,
    queues: fc.integer({ min: 2, max: 3 }),
    cores: fc.constant(3),
    beside: fc.constant(undefined),
    isSecond: fc.boolean(),
  }),
);

describe("pollCq in a loop", () => {
  it("takes each completion at the picosecond, and at the cost, of a loop of single polls", () => {
    let steps = 0, single = 0;
    fc.assert(
      fc.property(arrivals, (drawn) => {
        const { events, ...seen } = seenWith(poll, drawn);
        const { events: all, ...expected } = seenWith(pollOnce, drawn);
        steps += events;
        single += all;
        assert.deepEqual(seen, expected);
      }),
      seeded({ numRuns: 8 }),
    );
    assert.ok(steps < single, `${steps} steps, ${single} of single polls`);
  });

  it("is at the end of virtual time in few steps where the peer's power has failed, and ends there", () => {
    const table = new Table();
    let polls = 0, last: Time = 0, polledPs: Time = 0;
    const spins: Program = function* (context) {
      const { cpu, device } = context;
      const { allocPd, createCq, createQp, pollCq, must } = device.verbs;
      const qp = must(
        yield* createQp(allocPd(device), {
          type: "rc",
          sendCq: must(yield* createCq(device, { entries: 16 })),
          recvCq: must(yield* createCq(device, { entries: 16 })),
          maxSendWr: 8,
          maxRecvWr: 8,
        }),
      );
      const side = cpu.host === "a" ? "left" : "right";
      yield* bringUp(context, table, { qp, side, name: "qp" });
      if (side === "right") return yield* cpu.sleep(PS_PER_S);
      const before = cpu.workPs, from = cpu.now;
      let completions: WorkCompletion[];
      do {
        completions = yield* pollCq(qp.recvCq, 1);
        polls++;
        last = cpu.now;
        polledPs = cpu.workPs - before - (last - from);
      } while (completions.length === 0);
    };
    const rack = new SimulatedRack(
      `
name: spin
hosts: { a: {}, b: {} }
programs: [{ on: a, run: ./spins.ts }, { on: b, run: ./spins.ts }]
faults: [{ at: 500us, kill: b }]
`,
      { programs: { "./spins.ts": spins } },
    ).run(2 * TIME_END);
    const { events } = rack.simulator;
    assert.ok(last > TIME_END * 0.999 && last <= TIME_END, `it has polled until ${last} ps`);
    const left = rack.simulator.unfinished().map(({ value }) => value);
    const waits = left.find(({ program }) => program.startsWith("./spins.ts"));
    assert.match(waits!.waitsFor, /a completion in a loop of polls \(pollCq\)/);
    assert.ok(waits!.since < PS_PER_MS, "since the first of the polls");
    assert.equal(polledPs, 0, "every instant is paid as work, as that of single polls is");
    assert.ok(polls < 15_000 && events < 25_000, `${polls} polls returned, ${events} steps`);
  });
});
