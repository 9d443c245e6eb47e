import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { InvariantError } from "../../fabric/base/assert.ts";
import type { ProgramPlan } from "../../fabric/rack/plan/plan.ts";
import { QUEUE_PLAN } from "../../fabric/rack/plan/queue_plan.ts";
import {
  CARD_MEMORY_BASE,
  CARD_MEMORY_BYTES,
} from "../../fabric/wire/host_bus/queue_information.ts";
import { entryAddress, layOut, PLACEMENTS } from "../../fabric/wire/host_bus/queue_placement.ts";
import { hostProcessingPs } from "../../fabric/rack/plan/processing.ts";
import { NEVER } from "../../fabric/base/time.ts";
import { SCM_BASE } from "./memory/address_map.ts";
import { Host } from "./host.ts";
import { HostRig, noDriver, pattern, RIG_TIMING, rigPlan } from "./testing/host_testing.ts";
import { type Cpu, SIGNALS, type Steps } from "./cpu/program.ts";
import type { Program } from "./program_context.ts";
import type { OpenDevice } from "./open_device.ts";

const BOOT = RIG_TIMING.bootPs;
const { mmioPs, storePs, commandPs } = RIG_TIMING;

function plan(run: string, changes: Partial<ProgramPlan> = {}): ProgramPlan {
  return { run, at: 0, service: false, options: {}, ...changes };
}

/** Says when it started and with which options. */
// deno-lint-ignore require-yield -- it only reports
const reporting: Program = function* ({ cpu, options }) {
  cpu.report("started", [cpu.now, options]);
};

describe("Host, ordered to run a program by number", () => {
  it("has the number in what the program reports and in its failure, for the process that ordered it", () => {
    // deno-lint-ignore require-yield -- it only reports
    const failing: Program = function* ({ cpu }) {
      cpu.report("result", { n: 1 });
      cpu.report("started", [1]);
      throw new Error("no");
    };
    const rig = new HostRig({}, { options: { programs: { failing } } });
    rig.run();
    rig.step({ kind: "run", program: plan("failing", { order: 5 }) });
    rig.run();
    assert.deepEqual(rig.reported("result"), [{ n: 1, order: 5 }]);
    assert.deepEqual(rig.reported("started"), [[1]]);
    const [failure] = rig.reported("program-failed") as [{ order: number; message: string }];
    assert.deepEqual([failure.order, failure.message], [5, "no"]);
  });

  it("fails where what it throws cannot be read, and the host goes on", () => {
    const throws = () => {
      throw new Error("nested");
    };
    const thrown = [
      Object.defineProperty(new Error("no"), "message", { get: throws }),
      Object.defineProperty(new Error("no"), "stack", { get: throws }),
      Object.defineProperty({}, "field", { get: throws, enumerable: true }),
      new Proxy(new Error("no"), { get: throws }),
    ];
    for (const error of thrown) {
      // deno-lint-ignore require-yield -- it only throws
      const failing: Program = function* () {
        throw error;
      };
      const rig = new HostRig({}, { options: { programs: { failing } } });
      rig.run();
      rig.step({ kind: "run", program: plan("failing", { order: 5 }) });
      rig.run();
      const [failure] = rig.reported("program-failed") as [{ message: string; stack: string }];
      assert.match(`${failure.message} ${failure.stack}`, /what was thrown cannot be read/);
    }
  });
});

describe("Host boot", () => {
  it("opens the device, then starts each program at its time after the boot", () => {
    const rig = new HostRig({
      programs: [
        plan("p", { at: 500, options: { n: 1 } }),
        plan("p", { at: 30_000_000, options: { n: 2 } }),
      ],
    }, {
      options: {
        programs: { p: reporting },
        *boot(cpu: Cpu): Steps<OpenDevice> {
          cpu.report("booting", cpu.now);
          yield* cpu.sleep(1_000_000);
          return { cpu, state: { contexts: new Map() }, verbs: {} } as unknown as OpenDevice;
        },
      },
    });
    rig.run();
    assert.deepEqual(rig.reported("booting"), [BOOT]);
    assert.deepEqual(rig.reported("started"), [
      [BOOT + 1_000_000, { n: 1 }],
      [BOOT + 30_000_000, { n: 2 }],
    ]);
  });

  it("starts services at every boot, other programs at the first only", () => {
    for (const life of [0, 1]) {
      const rig = new HostRig({
        programs: [plan("p", { options: { once: true } }), plan("p", { service: true })],
      }, { options: { programs: { p: reporting }, life } });
      rig.run();
      assert.equal(rig.reported("started").length, life === 0 ? 2 : 1);
    }
  });

  it("starts its own services first, at every boot", () => {
    for (const life of [0, 1]) {
      const programs = { cm: reporting, p: reporting };
      const rig = new HostRig({ programs: [plan("p", { options: { n: 1 } })] }, {
        options: { programs, services: ["cm"], life },
      });
      rig.run();
      const started = [[BOOT, {}], [BOOT, { n: 1 }]];
      assert.deepEqual(rig.reported("started"), life === 0 ? started : started.slice(0, 1));
    }
  });

  it("starts what it is asked to run, at once or when the device is open", () => {
    const rig = new HostRig({}, { options: { programs: { p: reporting } } });
    rig.step({ kind: "run", program: plan("p") });
    rig.run(5_000_000);
    rig.step({ kind: "run", program: plan("p", { at: 7 }) });
    rig.run();
    assert.deepEqual(rig.reported("started"), [[BOOT, {}], [5_000_007, {}]]);
  });

  it("gives each program the device over its own core", () => {
    const rig = new HostRig({ programs: [plan("p"), plan("p")] }, {
      options: {
        programs: {
          // deno-lint-ignore require-yield -- it only looks
          *p({ cpu, device }) {
            cpu.report("own", [device.cpu.program, cpu.program]);
          },
        },
      },
    });
    rig.run();
    assert.deepEqual(rig.reported("own"), [["p#0", "p#0"], ["p#1", "p#1"]]);
  });

  it("reports a program that is not there by name, and what there is", () => {
    const rig = new HostRig({ programs: [plan("toString")] }, {
      options: { programs: { put: reporting, get: reporting } },
    });
    rig.run();
    const [failure] = rig.reported("program-failed") as { message: string }[];
    assert.equal(failure!.message, "Cannot run toString: the host has the programs get, put");
  });

  it("P-05: finds in SCM what an earlier life left, and DRAM and LLC empty", () => {
    const first = new HostRig({}, {
      programs: {
        *stores(cpu) {
          const dram = cpu.allocate(8);
          cpu.store(dram.address, pattern(8));
          cpu.store(cpu.scm.address, pattern(8, 1));
          cpu.store(cpu.scm.address + 64, pattern(8, 2));
          yield* cpu.flush(cpu.scm.address, 8);
        },
      },
    });
    first.run();
    const left = first.survivors;
    const second = new HostRig({}, {
      options: { image: (offset, length) => left.subarray(offset, offset + length) },
      programs: {
        // deno-lint-ignore require-yield -- it only looks
        *looks(cpu) {
          const dram = cpu.allocate(8);
          const places = [dram.address, cpu.scm.address, cpu.scm.address + 64];
          for (const place of places) cpu.report("found", [...cpu.load(place, 8)]);
        },
      },
    });
    second.run();
    const zeros = Array(8).fill(0);
    assert.deepEqual(second.reported("found"), [zeros, [...pattern(8, 1)], zeros]);
  });

  it("refuses inputs before power, and power twice", () => {
    const out = { send: () => 0, tracing: false, trace() {}, report() {} };
    const node = new Host("a", rigPlan(), {
      seed: 1,
      life: 0,
      addresses: {},
      inputs: {},
      programs: {},
      boot: noDriver,
    });
    assert.throws(() => node.step(0, { kind: "wake" }, out), InvariantError);
    node.step(0, { kind: "power" }, out);
    assert.throws(() => node.step(0, { kind: "power" }, out), InvariantError);
  });
});

describe("Host bus", () => {
  it("sends a register write when what was owed is paid, and the core goes on when it has left", () => {
    const times: number[] = [];
    const rig = new HostRig({}, {
      programs: {
        *rings(cpu) {
          const bytes = Uint8Array.of(1, 2, 3, 4);
          cpu.charge(1000);
          yield* cpu.registerWrite(0x800, bytes);
          bytes.fill(9);
          yield* cpu.settle();
          times.push(cpu.now);
        },
      },
    });
    rig.run();
    const data = Uint8Array.of(1, 2, 3, 4);
    assert.equal(rig.sent[0]!.departAt, BOOT + 1000 + mmioPs);
    assert.deepEqual({ ...rig.sent[0]!.message, data: new Uint8Array(data) }, {
      kind: "register-write",
      offset: 0x800,
      data,
    });
    assert.deepEqual(times, [BOOT + 1000 + mmioPs]);
  });

  it("sends write-combined lines one by one, at the price of their stores and one fence", () => {
    const times: number[] = [];
    const rig = new HostRig({}, {
      programs: {
        *rings(cpu) {
          const lines = Uint8Array.from({ length: 128 }, (_, i) => i);
          yield* cpu.writeCombined(0x1000, lines);
          lines.fill(0);
          yield* cpu.settle();
          times.push(cpu.now);
        },
      },
    });
    rig.run();
    const left = BOOT + 2 * storePs + mmioPs;
    assert.deepEqual(times, [left]);
    const sent = rig.sent.map(({ departAt, message }) => {
      assert.ok(message.kind === "register-write");
      return [departAt, message.offset, message.data.length, message.data[0]];
    });
    assert.deepEqual(sent, [[left, 0x1000, 64, 0], [left, 0x1040, 64, 64]]);
  });

  describe("with queue information at the card (Q-03)", () => {
    const queuePlan = { ...QUEUE_PLAN, store: "device" } as const;
    const at = CARD_MEMORY_BASE + 0x30;

    it("stores into it by MMIO writes of a line at most, in order, with the process's number", () => {
      const paid: number[] = [];
      const rig = new HostRig({ queuePlan }, {
        programs: {
          *first(cpu) {
            const from = cpu.workPs;
            cpu.store(at, pattern(32));
            yield* cpu.settle();
            paid.push(cpu.workPs - from);
            assert.throws(() => cpu.load(at, 4), /expected yield\* cpu.read/);
            assert.throws(
              () => cpu.store(CARD_MEMORY_BASE + CARD_MEMORY_BYTES - 4, new Uint8Array(8)),
              /leave the card's memory/,
            );
          },
          *second(cpu) {
            yield* cpu.sleep(1_000_000);
            cpu.ntstore(at, pattern(8));
            yield* cpu.ntStore(at, pattern(8));
          },
        },
      });
      rig.run();
      assert.deepEqual(rig.reported("program-failed"), []);
      const sent = rig.sent.map(({ message }) => {
        assert.ok(message.kind === "register-write");
        return [message.offset - at, message.data.length, message.by];
      });
      assert.deepEqual(sent, [[0, 16, 0], [16, 16, 0], [0, 8, 1], [0, 8, 1]]);
      assert.deepEqual(paid, [2 * mmioPs], "each message is an uncached store");
    });

    it("loads from it by an MMIO read, which holds its core until the answer is there, behind the card's writes", () => {
      const order: [string, number][] = [];
      const data = pattern(8);
      const rig = new HostRig({ queuePlan, cores: 1 }, {
        programs: {
          *loads(cpu) {
            assert.deepEqual(yield* cpu.read(at, 8), data);
            order.push(["loaded", cpu.now]);
            assert.deepEqual(yield* cpu.read(at, 2), new Uint8Array([0xff, 0xff]));
            order.push(["gone", cpu.now]);
          },
          // deno-lint-ignore require-yield -- it only says when it has its turn
          *other(cpu) {
            order.push(["other", cpu.now]);
          },
        },
      });
      rig.run(BOOT + mmioPs);
      const [{ message }] = rig.sent as [typeof rig.sent[0]];
      assert.deepEqual(message, { kind: "register-read", tag: 0, offset: at, length: 8 });
      const answered = BOOT + 2_000_000;
      rig.arrive(answered, {
        kind: "memory-write",
        address: 4096,
        data: pattern(64),
        noSnoop: false,
      });
      rig.arrive(answered, { kind: "completion", tag: 0, status: "success", data });
      rig.run(answered + 1_000_000);
      const loaded = order.find(([what]) => what === "loaded")![1];
      assert.ok(loaded > answered, "the write is in memory first (P-03)");
      assert.deepEqual(order, [["other", loaded], ["loaded", loaded]]);
      assert.ok(rig.node.statistics!()["cpuPs"]! >= loaded - BOOT - mmioPs, "the core was busy");
      // The card fails: all ones, as of a device that is not there.
      rig.step({ kind: "link", port: 0, up: false });
      rig.run();
      assert.equal(order.at(-1)![0], "gone");
      assert.deepEqual(rig.reported("program-failed"), []);
    });
  });

  it("a read of a card that is gone is not answered to the next one", () => {
    const rig = new HostRig();
    rig.run(BOOT);
    const answers = () => rig.sent.filter(({ message }) => message.kind === "completion").length;
    const read = {
      kind: "memory-read",
      tag: 5,
      address: SCM_BASE,
      length: 64,
      noSnoop: false,
    } as const;
    rig.arrive(BOOT, read);
    rig.run(BOOT + 1);
    rig.step({ kind: "link", port: 0, up: false });
    rig.step({ kind: "link", port: 0, up: true });
    rig.run();
    assert.equal(answers(), 0);
    rig.arrive(rig.now, read);
    rig.run();
    assert.equal(answers(), 1, "the next one's is");
  });

  it("matches replies to commands by their id, in any order", () => {
    function program(word: string) {
      return function* (cpu: Cpu): Steps<void> {
        cpu.report(word, yield* cpu.command({ op: "destroy-qp", qpn: word.length }));
      };
    }
    const rig = new HostRig({}, { programs: { x: program("x"), yy: program("yy") } });
    rig.run(BOOT + commandPs);
    const ids = rig.sent.map(({ message }) => {
      assert.ok(message.kind === "command" && message.command.op === "destroy-qp");
      return [message.id, message.command.qpn];
    });
    assert.deepEqual(ids.map(([, qpn]) => qpn), [1, 2]);
    assert.equal(rig.sent[0]!.departAt, BOOT + commandPs);
    const refused = { status: "error", errno: "ENOENT", reason: "no such QP" } as const;
    rig.arrive(BOOT + commandPs + 10, { kind: "reply", id: ids[1]![0]!, reply: refused });
    rig.arrive(BOOT + commandPs + 20, {
      kind: "reply",
      id: ids[0]![0]!,
      reply: { status: "ok", op: "done" },
    });
    rig.arrive(BOOT + commandPs + 30, {
      kind: "reply",
      id: 99,
      reply: { status: "ok", op: "done" },
    });
    rig.run();
    assert.deepEqual(rig.reports.slice(0, 1).map(({ topic, value }) => [topic, value]), [
      ["yy", refused],
    ]);
    assert.deepEqual(rig.reported("x"), [{ status: "ok", op: "done" }]);
    assert.equal(rig.node.statistics().strayReplies, 1);
  });

  it("Q-04: a lock granted by message counts from the grant's arrival, not from when its program has a core", () => {
    const store = layOut(PLACEMENTS.default, "areas");
    const init = { status: "ok", op: "init", address: 1, mac: 1, mtu: 1024 } as const;
    let entry = 0;
    const rig = new HostRig({ cores: 1 }, {
      programs: {
        *holder(cpu) {
          const { address, pages: [from] } = cpu.allocateContiguous(3 * 4096);
          const [space1, space2, space3] = [from!, from! + 4096, from! + 8192];
          const spaces = { queues: 4, space1, space2, space3 };
          const persistence = { flow: 1, flush: "read", noSnoop: false } as const;
          entry = entryAddress(store, spaces, { queue: 3, space: 2 });
          yield* cpu.command({ op: "init", spaces, persistence });
          yield* cpu.command({ op: "lock-space2", queue: 3 });
          cpu.report("resumed", cpu.now);
          cpu.store(address + entry - from!, new Uint8Array(4));
        },
        *busy(cpu) {
          yield* cpu.sleep(BOOT + 3.5 * commandPs - cpu.now);
          cpu.charge(2 * commandPs);
          yield* cpu.settle();
        },
      },
    });
    // The card grants the lock and takes it back, both while the other program has the core.
    const granted = BOOT + 4 * commandPs, until = granted + 10 * commandPs;
    rig.arrive(BOOT + 2 * commandPs, { kind: "reply", id: 0, reply: init });
    rig.arrive(granted, {
      kind: "reply",
      id: 1,
      reply: { status: "ok", op: "lock-space2", until },
    });
    rig.run(granted);
    const data = new Uint8Array(store.bytes[2]);
    rig.arrive(granted + 10, { kind: "memory-write", address: entry, data, noSnoop: false });
    rig.run();
    assert.deepEqual(rig.reported("resumed"), [BOOT + 5.5 * commandPs]);
    const [failure] = rig.reported("program-failed") as [{ message: string }];
    assert.match(failure.message, /is not locked/);
  });

  it("keeps its promise about processing for every message it sends", () => {
    const rig = new HostRig({}, {
      programs: {
        *busy(cpu) {
          yield* cpu.registerWrite(0, Uint8Array.of(1));
          yield* cpu.registerWrite(0, Uint8Array.of(2));
          yield* cpu.command({ op: "query-statistics" });
        },
      },
    });
    assert.equal(rig.node.processingPs, hostProcessingPs(RIG_TIMING));
    rig.arrive(BOOT, { kind: "memory-read", tag: 0, address: 0, length: 8, noSnoop: false });
    // The rig checks each departure against the promise.
    rig.run();
    assert.equal(rig.sent.length, 4);
  });

  it("a failed RNIC ends commands with an error and its reads; what it has written stays", () => {
    const rig = new HostRig({}, {
      programs: {
        *commands(cpu) {
          cpu.report("first", yield* cpu.command({ op: "query-statistics" }));
          cpu.report("second", yield* cpu.command({ op: "query-statistics" }));
        },
        *watches(cpu) {
          cpu.report("down", [yield* cpu.waitSignal(SIGNALS.busDown, NEVER), cpu.now]);
          cpu.report("up", [yield* cpu.waitSignal(SIGNALS.busUp, NEVER), cpu.now]);
        },
        *interrupted(cpu) {
          cpu.report("interrupt", yield* cpu.waitInterrupt(1, NEVER));
        },
      },
    });
    const at = BOOT + commandPs + 1_000_000;
    rig.arrive(at - 30, {
      kind: "memory-write",
      address: SCM_BASE,
      data: pattern(64),
      noSnoop: false,
    });
    rig.arrive(at - 20, {
      kind: "memory-read",
      tag: 1,
      address: SCM_BASE,
      length: 1,
      noSnoop: false,
    });
    rig.arrive(at - 10, { kind: "interrupt", vector: 1 });
    rig.run(at);
    rig.step({ kind: "link", port: 0, up: false });
    rig.run(at + 10_000_000);
    assert.deepEqual(
      [...rig.reported("first"), ...rig.reported("second")].map((reply) =>
        (reply as { errno: string }).errno
      ),
      ["EINVAL", "EINVAL"],
    );
    assert.deepEqual(rig.reported("down"), [["signaled", at]]);
    assert.deepEqual(rig.reported("interrupt"), ["raised"]);
    assert.deepEqual([...rig.survivors.subarray(0, 64)], [...pattern(64)]);
    assert.deepEqual(rig.sent.map(({ message }) => message.kind), ["command"]);
    rig.step({ kind: "link", port: 0, up: true });
    rig.run();
    assert.deepEqual(rig.reported("up"), [["signaled", at + 10_000_000]]);
  });

  it("opens the device again when the RNIC is back", () => {
    const rig = new HostRig({}, {
      options: {
        *reopen({ cpu, state }: OpenDevice): Steps<void> {
          cpu.report("reopened", cpu.now);
          Object.assign(state, { card: cpu.card });
          yield* cpu.command({ op: "query-statistics" });
        },
      },
    });
    rig.run(3_000_000);
    rig.step({ kind: "link", port: 0, up: true });
    assert.deepEqual(rig.reported("reopened"), [], "it was up");
    rig.step({ kind: "link", port: 0, up: false });
    rig.step({ kind: "link", port: 0, up: true });
    rig.run();
    assert.deepEqual(rig.reported("reopened"), [3_000_000]);
    assert.equal(rig.sent.length, 1);
  });

  it("starts a program that is ordered meanwhile when the card is open again", () => {
    const rig = new HostRig({}, {
      options: {
        *reopen({ cpu, state }: OpenDevice): Steps<void> {
          yield* cpu.sleep(500);
          Object.assign(state, { card: cpu.card });
        },
      },
      programs: {
        *ordered(cpu) {
          cpu.report("began", cpu.now);
          yield* cpu.sleep(1);
        },
      },
    });
    rig.run(3_000_000);
    rig.step({ kind: "link", port: 0, up: false });
    rig.step({ kind: "link", port: 0, up: true });
    rig.step({ kind: "run", program: plan("ordered") });
    rig.run();
    assert.deepEqual(rig.reported("began"), [BOOT, 3_000_500]);
  });

  for (
    const [what, upAfter, beganAfter] of [
      ["is up again", 200, 700],
      ["has not come up, a millisecond later,", Infinity, 1_000_000_000],
    ] as const
  ) {
    it(`starts a program that is ordered without a card when the card ${what}`, () => {
      const rig = new HostRig({}, {
        options: {
          *reopen({ cpu, state }: OpenDevice): Steps<void> {
            yield* cpu.sleep(500);
            Object.assign(state, { card: cpu.card });
          },
        },
        programs: {
          *ordered(cpu) {
            cpu.report("began", cpu.now);
            yield* cpu.sleep(1);
          },
        },
      });
      rig.run(3_000_000);
      rig.step({ kind: "link", port: 0, up: false });
      rig.step({ kind: "run", program: { ...plan("ordered"), order: 1 } });
      rig.run(3_000_000 + Math.min(upAfter, 1_000));
      if (upAfter < Infinity) rig.step({ kind: "link", port: 0, up: true });
      rig.run();
      assert.deepEqual(rig.reported("began").slice(1), [3_000_000 + beganAfter]);
    });
  }

  it("passes the firmware's events to the driver, the report and waiting programs", () => {
    const handled: unknown[] = [];
    const rig = new HostRig({}, {
      options: { onEvent: (_, event) => void handled.push(event) },
      programs: {
        *waits(cpu) {
          cpu.report("woken", yield* cpu.waitSignal(SIGNALS.rnicEvent, NEVER));
        },
      },
    });
    const event = { type: "QP_FATAL", qpn: 5 } as const;
    rig.run(BOOT);
    rig.arrive(BOOT + 5, { kind: "event", event });
    rig.run();
    assert.deepEqual([handled, rig.reported("rnic-event")], [[event], [event]]);
    assert.deepEqual(rig.reported("woken"), ["signaled"]);
  });

  it("takes a queue's event behind the writes before it: its completions are seen then", () => {
    const rig = new HostRig({}, {
      programs: {
        *waits(cpu) {
          yield* cpu.waitSignal(SIGNALS.rnicEvent, NEVER);
          cpu.report("seen", [...cpu.load(cpu.scm.address, 1)]);
        },
      },
    });
    rig.run(BOOT);
    const write = { kind: "memory-write", address: SCM_BASE, noSnoop: false } as const;
    rig.arrive(BOOT + 5, { ...write, data: Uint8Array.of(7) });
    rig.arrive(BOOT + 5, { kind: "event", event: { type: "SQ_DRAINED", qpn: 5 } });
    rig.run();
    assert.deepEqual(rig.reported("seen"), [[7]]);
  });

  it("shows DMA in the ladder: what waits, and where it went", () => {
    const rig = new HostRig();
    rig.arrive(BOOT, {
      kind: "memory-write",
      address: SCM_BASE + 64,
      data: pattern(8),
      noSnoop: true,
    });
    rig.arrive(BOOT, { kind: "memory-read", tag: 7, address: 0x40, length: 1, noSnoop: false });
    rig.run();
    assert.deepEqual(rig.traces.map(({ tag }) => tag), [7, undefined]);
    assert.deepEqual(rig.traces.map(({ step, text }) => `${step}: ${text}`), [
      "iio-read: DMA read of 1 B at DRAM+0x40, behind 8 B in the IIO",
      "imc: 8 B at SCM+0x40 (NS) is accepted by the iMC",
    ]);
  });

  it("counts what it does", () => {
    const rig = new HostRig({ ddio: true });
    rig.arrive(BOOT, { kind: "memory-write", address: 0, data: pattern(100), noSnoop: false });
    rig.arrive(BOOT + 9, { kind: "memory-read", tag: 0, address: 0, length: 50, noSnoop: false });
    rig.run();
    const counted = rig.node.statistics();
    for (const [name, value] of Object.entries(counted)) {
      assert.ok(Number.isSafeInteger(value), `${name} is ${value}`);
    }
    const { dmaReads, dmaReadBytes, dmaWrites, dmaWriteBytes, iioBytesMax, llcMisses } = counted;
    assert.deepEqual([dmaReads, dmaReadBytes, dmaWrites, dmaWriteBytes, iioBytesMax, llcMisses], [
      1,
      50,
      1,
      100,
      100,
      2,
    ]);
  });
});
