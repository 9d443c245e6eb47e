import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import { AddressMap } from "../memory/address_map.ts";
import { RecoveryBoot, type RecoveryMachine } from "./recovery_machine.ts";
import type { MemoryLog } from "../memory/memory_log.ts";
import type { Recover } from "./protocol.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";

const SCM_BYTES = 2 ** 16;
const { scm } = new AddressMap({ dramBytes: 4096, scmBytes: SCM_BYTES });

function machine(domain: RecoveryMachine["domain"] = "adr", log?: MemoryLog) {
  const bytes = new Uint8Array(SCM_BYTES);
  const cold: RecoveryMachine = {
    host: "b",
    domain,
    scm,
    image: {
      read: (offset, length) => bytes.subarray(offset, offset + length),
      write: (offset, data) => bytes.set(data, offset),
    },
    ...(log && { log }),
  };
  return { bytes, cold };
}

describe("a recovery on a cold machine", () => {
  it("P-05: finds what is persistent, and answers", () => {
    const { bytes, cold } = machine();
    bytes.set([1, 2, 3], 100);
    // deno-lint-ignore require-yield -- it has nothing to wait for
    const recover: Recover = function* ({ cpu, host, options }) {
      return { host, options, found: [...cpu.load(cpu.scm.address + 100, 3)] };
    };
    const answer = new RecoveryBoot(cold).recover(recover, { role: "server" });
    assert.deepEqual(answer, { host: "b", options: { role: "server" }, found: [1, 2, 3] });
  });

  it("P-04 (in part): what it stores is seen by it at once, and persistent when it is flushed", () => {
    const { bytes, cold } = machine();
    const seen: number[][] = [];
    const recover: Recover = function* ({ cpu }) {
      const at = cpu.scm.address + 60;
      cpu.store(at, Uint8Array.of(7, 8, 9, 10, 11, 12));
      seen.push([...cpu.load(at, 6)], [...bytes.subarray(60, 66)]);
      yield* cpu.flush(at, 1);
      seen.push([...bytes.subarray(60, 66)]);
      yield* cpu.ntStore(cpu.scm.address + 128, Uint8Array.of(5));
      seen.push([bytes[128]!]);
    };
    const boot = new RecoveryBoot(cold);
    boot.recover(recover, {});
    assert.deepEqual(seen, [[7, 8, 9, 10, 11, 12], [0, 0, 0, 0, 0, 0], [7, 8, 9, 10, 0, 0], [5]]);
    assert.deepEqual([...boot.read(60, 6)], [7, 8, 9, 10, 11, 12], "as cores see it");
  });

  it("P-01: a cache that survives makes every store persistent", () => {
    const { bytes, cold } = machine("eadr");
    // deno-lint-ignore require-yield -- it has nothing to wait for
    new RecoveryBoot(cold).recover(function* ({ cpu }) {
      cpu.store(cpu.scm.address + 8, Uint8Array.of(1));
    }, {});
    assert.equal(bytes[8], 1);
  });

  it("is stopped where it waits without end, and outside SCM", () => {
    const { cold } = machine();
    const endless: Recover = function* ({ cpu }) {
      for (;;) yield { kind: "time", at: cpu.now };
    };
    assert.throws(() => new RecoveryBoot(cold).recover(endless, {}), /waits without end/);
    const patient: Recover = function* ({ cpu }) {
      for (;;) yield* cpu.sleep(1_000);
    };
    assert.throws(() => new RecoveryBoot(cold).recover(patient, {}), /waits without end/);
    // deno-lint-ignore require-yield -- it fails at once
    const stray: Recover = function* ({ cpu }) {
      cpu.load(cpu.scm.address + SCM_BYTES - 4, 8);
    };
    assert.throws(() => new RecoveryBoot(cold).recover(stray, {}), /a recovery has SCM only/);
  });

  it("says what a user's recover has to be, and to answer", () => {
    const { cold } = machine();
    const plain = (() => 1) as unknown as Recover;
    assert.throws(
      () => new RecoveryBoot(cold).recover(plain, {}),
      /recover must be a generator function/,
    );
    const late = (async function* () {}) as unknown as Recover;
    assert.throws(
      () => new RecoveryBoot(cold).recover(late, {}),
      /recover must be .* none that is async/,
    );
    // deno-lint-ignore require-yield -- it only answers
    const strange: Recover = function* () {
      return { found: new Map() };
    };
    assert.throws(() => new RecoveryBoot(cold).recover(strange, {}), /answers a Map at \.found/);
  });

  it("tells its log all that a power failure during it may leave", () => {
    const anyStep = fc.record({
      kind: fc.constantFrom("store", "flush", "ntStore"),
      at: fc.integer({ min: 0, max: 500 }),
      length: fc.integer({ min: 1, max: 150 }),
    });
    fc.assert(
      fc.property(fc.array(anyStep, { maxLength: 20 }), (steps) => {
        const told = new Uint8Array(SCM_BYTES);
        const dirty = new Map<number, Uint8Array>();
        let last = 0;
        const log: MemoryLog = {
          durable(at, offset, bytes) {
            assert.ok(at >= last, "times never fall");
            last = at;
            told.set(bytes, offset);
          },
          dirty: (_at, line, bytes) => void dirty.set(line, bytes.slice()),
          clean: (_at, line) => void dirty.delete(line),
        };
        const { bytes, cold } = machine("adr", log);
        const boot = new RecoveryBoot(cold);
        boot.recover(function* ({ cpu }) {
          for (const [i, { kind, at, length }] of steps.entries()) {
            const data = new Uint8Array(length).fill(i + 1);
            if (kind === "store") cpu.store(cpu.scm.address + at, data);
            else if (kind === "ntStore") yield* cpu.ntStore(cpu.scm.address + at, data);
            else yield* cpu.flush(cpu.scm.address + at, length);
          }
        }, {});
        assert.deepEqual(told, bytes, "what is persistent");
        const seen = told.slice();
        for (const [line, data] of dirty) seen.set(data, line);
        assert.deepEqual(
          new Uint8Array(boot.read(0, 1024)),
          seen.subarray(0, 1024),
          "what cores see",
        );
      }),
      seeded(),
    );
  });
});
