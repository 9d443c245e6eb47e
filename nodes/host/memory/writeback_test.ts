/** What a power failure finds in SCM although this host's cache had not given it up (P-04). */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { SCM_BASE } from "./address_map.ts";
import { HostRig, RIG_TIMING } from "../testing/host_testing.ts";
import type { Cpu, Steps } from "../cpu/program.ts";

const early = { kind: "writeback", buffered: false } as const;

function stores(word: number) {
  return {
    *stores(cpu: Cpu): Steps<void> {
      cpu.store(cpu.scm.address + 64, new Uint8Array(64).fill(word));
      yield* cpu.sleep(1_000_000);
      yield* cpu.flush(cpu.scm.address + 64, 64);
    },
  };
}

describe("Early write-backs", () => {
  it("P-04: words of a dirty line survive from then on, the others when it is flushed", () => {
    const rig = new HostRig({}, { programs: stores(7) });
    const other = new HostRig({}, { programs: stores(7) });
    rig.run(1_500_000);
    rig.step({ ...early, from: 72, to: 88 });
    assert.deepEqual(rig.durable.map(({ offset, data }) => [offset, ...data]), [
      [72, ...new Array(16).fill(7)],
    ]);
    rig.run();
    other.run();
    assert.deepEqual([...rig.survivors.subarray(64, 128)], new Array(64).fill(7));
    assert.deepEqual(rig.now, other.now, "nothing else notices");
    assert.deepEqual(rig.node.statistics(), other.node.statistics());
  });

  it("P-41: what a core stores a moment later may be there, where the order says so itself", () => {
    const rig = new HostRig({}, { programs: stores(7) });
    rig.run(1_500_000);
    rig.step({ ...early, from: 72, to: 80, data: "0807060504030201" });
    assert.deepEqual(rig.durable.map(({ offset, data }) => [offset, ...data]), [
      [72, 8, 7, 6, 5, 4, 3, 2, 1],
    ]);
  });

  it("P-41 (in part): part of a device's write may have got through, by words", () => {
    const rig = new HostRig();
    rig.run();
    const data = new Uint8Array(64).fill(9);
    const message = { kind: "memory-write", address: SCM_BASE, data, noSnoop: false } as const;
    rig.arrive(rig.now + 10, message);
    rig.run(rig.now + 11);
    rig.step({ ...early, from: 0, to: 8 });
    rig.step({ ...early, from: 32, to: 40, buffered: true });
    const [visible, brought] = rig.durable;
    assert.deepEqual(visible, { offset: 0, data: new Uint8Array(8) }, "it is not there yet");
    assert.deepEqual(brought, { offset: 32, data: new Uint8Array(8).fill(9) });
    rig.run();
    assert.deepEqual([...rig.survivors.subarray(0, 64)], [...data]);
  });

  it("P-41: of a device's write, what has left the IIO does not come again over a core's store", () => {
    const [bootPs, at] = [RIG_TIMING.bootPs, 1_500_000];
    const programs = {
      *stores(cpu: Cpu): Steps<void> {
        yield* cpu.sleep(at - bootPs);
        cpu.store(cpu.scm.address, new Uint8Array(8).fill(7));
      },
    };
    // The first of two pieces of 4 ns leaves 500 ps before the store, the other one behind it.
    const rig = new HostRig({ ddio: true }, { programs });
    const data = new Uint8Array(128).fill(9);
    rig.arrive(at - 500 - 4_000 - RIG_TIMING.iioPs, {
      kind: "memory-write",
      address: SCM_BASE,
      data,
      noSnoop: false,
    });
    rig.run(at + 1_000);
    rig.step({ ...early, from: 0, to: 72, buffered: true });
    assert.deepEqual(rig.durable.map(({ offset, data }) => [offset, ...data]), [
      [0, ...new Array(8).fill(7), ...new Array(64).fill(9)],
    ]);
  });
});
