/** What two cards of one host share, and what they do not. */
import { deepEqual as same, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../fabric/base/rng.ts";
import { NEVER, type Time } from "../../fabric/base/time.ts";
import { signalOf, SIGNALS, type Steps } from "./cpu/program.ts";
import { SCM_BASE } from "./memory/address_map.ts";
import type { Host } from "./host.ts";
import { HostRig, pattern, type PlanChanges } from "./testing/host_testing.ts";

const TWO = { rnics: ["a-rnic", "a-rnic2"] };
const NS = 1_000;

/** A DMA write that has arrived from a card. */
function write(rig: HostRig, card: number, address: number, data: Uint8Array<ArrayBuffer>): void {
  rig.arrive(rig.now, { kind: "memory-write", address, data, noSnoop: false }, card);
}

function read(rig: HostRig, card: number, tag: number, address: number): void {
  rig.arrive(
    rig.now,
    { kind: "memory-read", tag, address, length: 64, noSnoop: false },
    card,
  );
}

function completions(rig: HostRig) {
  return rig.sent.flatMap(({ message, port, departAt }) =>
    message.kind === "completion" ? [{ port, tag: message.tag, data: message.data, departAt }] : []
  );
}

describe("a host with two cards", () => {
  it("P-03: holds a card's read behind that card's writes, and not behind the other's", () => {
    const rig = new HostRig(TWO);
    const data = pattern(16_384, 1), last = data.length - 64;
    write(rig, 0, SCM_BASE, data);
    read(rig, 0, 5, SCM_BASE + last);
    read(rig, 1, 5, SCM_BASE + last);
    rig.run();
    const found = completions(rig);
    same(found.map(({ port, tag }) => [port, tag]), [[1, 5], [0, 5]], "each by its own bus");
    same(found[0]!.data, new Uint8Array(64), "it has not flushed what the other card has written");
    same(found[1]!.data, data.subarray(last));
    ok(found[0]!.departAt < found[1]!.departAt);
  });

  it("has the writes of both in one memory, in the order of time", () => {
    const rig = new HostRig(TWO);
    write(rig, 1, SCM_BASE, pattern(64, 2));
    rig.run(rig.now + 1);
    write(rig, 0, SCM_BASE, pattern(64, 3));
    rig.run();
    same(rig.survivors.subarray(0, 64), pattern(64, 3));
    equal(rig.node.statistics().dmaWrites, 2);
  });

  it("loses what is on its way from both where power fails, and nothing else", () => {
    const rig = new HostRig({ ...TWO, ddio: true });
    write(rig, 0, SCM_BASE, pattern(64, 2));
    write(rig, 1, SCM_BASE + 4096, pattern(64, 3));
    rig.run(rig.now + 1);
    const { bytes, ranges } = rig.node.loss!();
    equal(bytes.iio, 128);
    same(ranges.map(({ from }) => from), [0, 4096]);
  });

  it("wakes the thread that waits for its card's command alone when that card fails", () => {
    const ended: string[] = [];
    const rig = new HostRig(TWO, {
      programs: {
        *one(cpu) {
          const reply = yield* cpu.command({ op: "query-device" });
          ended.push(`one ${reply.status}`);
        },
        *two(cpu) {
          const second = cpu.at!(1);
          const reply = yield* second.command({ op: "query-device" });
          ended.push(`two ${reply.status} ${second.card}`);
          yield* second.waitSignal(signalOf(SIGNALS.busUp, 1), NEVER);
          ended.push(`two ${second.card}`);
        },
      },
    });
    rig.run(rig.now + 20 * 1_000 * NS);
    const commands = rig.sent.filter(({ message }) => message.kind === "command");
    same(commands.map(({ port }) => port), [0, 1]);
    const ids = commands.map(({ message }) => message.kind === "command" ? message.id : -1);
    ok(ids[0] !== ids[1], "one number of a command at a host");
    rig.step({ kind: "link", port: 1, up: false });
    rig.run(rig.now + 1);
    same(ended, ["two error undefined"]);
    rig.step({ kind: "link", port: 1, up: true });
    const reply = { status: "error", errno: "EBUSY", reason: "" } as const;
    rig.arrive(rig.now, { kind: "reply", id: ids[0]!, reply }, 0);
    rig.run(rig.now + 1);
    same(ended, ["two error undefined", "one error", "two 1"]);
  });

  it("lets an order wait for its own card's power, whatever the other card does", () => {
    const began: Time[] = [];
    const rig = new HostRig({ ...TWO, programs: [] }, {
      options: {
        *reopen({ cpu, state }): Steps<void> {
          yield* cpu.sleep(500);
          Object.assign(state, { card: cpu.card });
        },
      },
      programs: {
        *ordered(cpu) {
          began.push(cpu.now);
          yield* cpu.sleep(1);
        },
      },
    });
    const at = 3_000 * NS;
    rig.run(at);
    rig.step({ kind: "link", port: 1, up: false });
    const program = { run: "ordered", at: 0, service: false, options: {}, rnic: 1 };
    rig.step({ kind: "run", program: { ...program, order: 1 } });
    rig.step({ kind: "link", port: 0, up: false });
    rig.step({ kind: "link", port: 0, up: true });
    rig.run(at + 1_000);
    rig.step({ kind: "link", port: 1, up: true });
    rig.run();
    same(began, [at + 1_500]);
  });

  it("H-23: voids the line that one card keeps when the other writes it, and not when itself does", () => {
    const rig = new HostRig(TWO);
    const tracked = { kind: "memory-read", length: 8, noSnoop: false, tracked: true } as const;
    rig.arrive(rig.now, { ...tracked, tag: 1, address: SCM_BASE }, 0);
    rig.run();
    write(rig, 0, SCM_BASE, pattern(8, 1));
    rig.run();
    const voided = () => rig.sent.filter(({ message }) => message.kind === "snoop-invalidate");
    same(voided(), [], "its own write");
    write(rig, 1, SCM_BASE, pattern(8, 2));
    rig.run();
    same(voided().map(({ port }) => port), [0]);
  });

  it("keeps a card to the pages that are mapped for it", () => {
    const rig = new HostRig({ ...TWO, iommu: { iotlb: 4 } });
    (rig.node as Host).iommu!.map([SCM_BASE], 1);
    write(rig, 0, SCM_BASE, pattern(64, 1));
    write(rig, 1, SCM_BASE + 64, pattern(64, 2));
    rig.run();
    same(rig.survivors.subarray(0, 64), new Uint8Array(64));
    same(rig.survivors.subarray(64, 128), pattern(64, 2));
    equal(rig.node.statistics().iommuFaults, 1);
  });
});

/** Writes of both cards at random instants; how often the run is asked for what is durable in between is random, too. */
function played(
  seed: number,
  looks: boolean,
  changes: PlanChanges,
): { rig: HostRig; log: string[] } {
  const rng = rngFor(seed, "cards"), looking = rngFor(seed, "looks"), log: string[] = [];
  const rig = new HostRig({ ...TWO, ...changes }, {
    options: {
      memoryLog: {
        durable: (at, offset, bytes) => void log.push(`${at} ${offset} ${bytes.toHex()}`),
        dirty: () => {},
        clean: () => {},
      },
    },
  });
  let at: Time = rig.now;
  for (let i = 0; i < 40; i++) {
    at += rng.below(30) * NS;
    const address = SCM_BASE + 64 * rng.below(12);
    const data = pattern(8 + 8 * rng.below(60), i + 1);
    rig.arrive(at, { kind: "memory-write", address, data, noSnoop: false }, rng.below(2));
  }
  const end = at + 10_000 * NS;
  while (rig.now < end) {
    rig.run(looks ? Math.min(end, rig.now + 1 + looking.below(9) * NS) : end);
  }
  rig.run();
  return { rig, log };
}

describe("the I/O controllers of two cards", () => {
  for (
    const [name, changes] of Object.entries(
      {
        "flow 1": {},
        "flow 2, eadr": { ddio: true, domain: "eadr" },
        wsp: { ddio: true, domain: "wsp" },
      } satisfies Record<string, PlanChanges>,
    )
  ) {
    it(`leave the same, whenever the clock asks what is durable: ${name}`, () => {
      for (let seed = 0; seed < 12; seed++) {
        const [once, often] = [played(seed, false, changes), played(seed, true, changes)];
        same(once.rig.survivors, often.rig.survivors);
        same([...once.log].sort(), [...often.log].sort());
        const memory = (once.rig.node as Host).memory.peek(SCM_BASE, 2048);
        if (name !== "flow 1") same(once.rig.survivors.subarray(0, 2048), memory, `seed ${seed}`);
        const times = once.log.map((line) => Number(line.split(" ")[0]));
        same(times, times.toSorted((x, y) => x - y), "the record's times never decrease");
      }
    });
  }
});
