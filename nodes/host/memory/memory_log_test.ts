import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import type { MemoryWrite } from "../../../fabric/wire/host_bus/pcie.ts";
import { SCM_BASE } from "./address_map.ts";
import {
  HostRig,
  pattern,
  type PlanChanges,
  RIG_TIMING,
  rigPlan,
} from "../testing/host_testing.ts";
import type { MemoryLog } from "./memory_log.ts";
import { LogBook } from "./memory_log_testing.ts";
import { MemoryPlay, operations } from "./memory_play_testing.ts";
import { MemorySystem } from "./memory_system.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";

const START = 2_000_000;
const { iioPs } = RIG_TIMING;
/** 64 B at the drain's rate. */
const PIECE_PS = 4000;

function write(address: number, data: Uint8Array<ArrayBuffer>): MemoryWrite {
  return { kind: "memory-write", address, data, noSnoop: false };
}

function rig(changes: PlanChanges, memoryLog: MemoryLog): HostRig {
  const host = new HostRig(changes, { options: { memoryLog } });
  host.run(START);
  return host;
}

describe("MemoryLog", () => {
  it("P-04, P-05: knows what is durable, and every content of a line since it was clean", () => {
    fc.assert(
      fc.property(operations, fc.constantFrom("adr", "eadr", "wsp"), (list, domain) => {
        const play = new MemoryPlay(domain);
        for (const operation of list) {
          play.apply(operation);
          assert.deepEqual(play.book.image, play.survivors());
          if (domain === "wsp") assert.equal(play.book.dirtyLines.size, 0);
          else assert.deepEqual(play.book.newest(), play.seen(), "what cores and devices see");
        }
      }),
      seeded({ numRuns: 200 }),
    );
  });

  it("P-41 (in part): a write-combining buffer that is full is written at once, of another each word for itself", () => {
    const book = new LogBook(4096);
    const memory = new MemorySystem(rigPlan({ scmBytes: 4096 }), undefined, { log: book });
    const core = {};
    memory.advance(5);
    memory.combining.store(core, SCM_BASE, pattern(64));
    memory.combining.store(core, SCM_BASE + 64 + 8, pattern(16));
    memory.combining.store(core, SCM_BASE + 64 + 40, pattern(8));
    memory.advance(6);
    for (let i = 0; i < 2; i++) memory.combining.release(memory.combining.oldestOf(core)!);
    assert.deepEqual(book.calls, [
      [5, "dirty", 0, 0b1111_1111],
      [5, "dirty", 64, 0b0000_0110],
      [5, "dirty", 64, 0b0010_0000],
      [6, "durable", 0, 64, 64],
      [6, "clean", 0],
      [6, "durable", 64 + 8, 16, 8],
      [6, "durable", 64 + 40, 8, 8],
      [6, "clean", 64],
    ]);
  });

  it("P-41 (in part): says which words a core has stored, and that a device's came together", () => {
    const book = new LogBook(4096);
    const memory = new MemorySystem(rigPlan({ scmBytes: 4096 }), undefined, { log: book });
    memory.advance(5);
    memory.store(SCM_BASE + 60, pattern(20));
    memory.advance(6);
    memory.dmaWriteCache(SCM_BASE + 64, pattern(64, 2));
    memory.advance(7);
    memory.writeBackRange(SCM_BASE + 64, 1);
    assert.deepEqual(book.calls, [
      [5, "dirty", 0, 0b1000_0000],
      [5, "dirty", 64, 0b11],
      [6, "dirty", 64, 0],
      [7, "durable", 64, 64, 64],
      [7, "clean", 64],
    ]);
    const [first, second] = book.dirtyLines.get(0) ?? [];
    assert.equal(second, undefined);
    assert.deepEqual(first!.bytes.subarray(60), pattern(20).subarray(0, 4));
  });

  it("P-02: has every piece of a write into the LLC at its own time, without an event more", () => {
    const changes = { ddio: true };
    const book = new LogBook(1 << 18);
    const hosts = [rig(changes, book), new HostRig(changes)];
    hosts[1]!.run(START);
    for (const host of hosts) {
      host.arrive(START, write(SCM_BASE + 100, pattern(220)));
      host.run();
    }
    assert.equal(hosts[0]!.steps, hosts[1]!.steps);
    assert.equal(hosts[0]!.now, hosts[1]!.now);
    assert.deepEqual(hosts[0]!.node.statistics(), hosts[1]!.node.statistics());
    const first = START + iioPs + 1750;
    assert.deepEqual(book.calls.map(([at, kind, line]) => [at, kind, line]), [
      [first, "dirty", 64],
      [first + PIECE_PS, "dirty", 128],
      [first + 2 * PIECE_PS, "dirty", 192],
      [first + 3 * PIECE_PS, "dirty", 256],
    ]);
  });

  it("P-05: has what flow 1 makes durable at the instant from which a failure leaves it", () => {
    const book = new LogBook(1 << 18);
    const host = rig({}, book);
    host.arrive(START, write(SCM_BASE + 100, pattern(412)));
    host.run();
    let image = new Uint8Array(1 << 18);
    for (const { at, offset, bytes } of book.durables) {
      const again = new HostRig();
      again.run(START);
      again.arrive(START, write(SCM_BASE + 100, pattern(412)));
      again.run(at - 1);
      assert.deepEqual(again.survivors, image, `before ${at} ps`);
      image = Uint8Array.from(image);
      image.set(bytes, offset);
      again.run(at);
      assert.deepEqual(again.survivors, image, `with ${at} ps`);
    }
    assert.equal(book.durables.length, 7);
  });
});
