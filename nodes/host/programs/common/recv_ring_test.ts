import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { AddressMap } from "../../memory/address_map.ts";
import { RecoveryBoot, type RecoveryMachine } from "../../recovery/recovery_machine.ts";
import type { Cpu } from "../../cpu/program.ts";
import { encodePendingMessage } from "./persist_protocol.ts";
import { freeMemory } from "../persist/persistd_memory.ts";
import { beginEpoch, createRing, findRings, type RecvRing, replay } from "./recv_ring.ts";
import { createObject, openDirectory } from "./scm_directory.ts";
import type { Client, Server } from "../persist/persistd_memory.ts";

const { scm } = new AddressMap({ dramBytes: 4096, scmBytes: 2 ** 18 });

function coldMachine(): { readonly bytes: Uint8Array; readonly cold: RecoveryMachine } {
  const bytes = new Uint8Array(2 ** 18);
  const image: RecoveryMachine["image"] = {
    read: (offset, length) => bytes.subarray(offset, offset + length),
    write: (offset, data) => bytes.set(data, offset),
  };
  return { bytes, cold: { host: "b", domain: "adr", scm, image } };
}

describe("receive buffers after a power failure", () => {
  it("P-41 (in part): a deposit that is torn over an earlier use's leftover hides none that is whole", () => {
    const { bytes, cold } = coldMachine();
    let count = -1, object = 0;
    new RecoveryBoot(cold).recover(function* (context) {
      const cpu = context.cpu as unknown as Cpu;
      const directory = yield* openDirectory(cpu);
      const data = (yield* createObject(cpu, directory, { name: "data", length: 64 }))!;
      const ring = (yield* createRing(cpu, directory, { slots: 4, slotBytes: 64 }))!;
      object = data.offset;
      const pending = (sequence: number, epoch: number) => {
        const { offset: scmOffset, generation } = data;
        const id = sequence;
        const at = { id, scmOffset: scmOffset + 8 * sequence, sequence, generation, epoch };
        return encodePendingMessage(at, Uint8Array.of(epoch, 2, 3, 4, 5, 6, 7, sequence));
      };
      const put = (slot: number, given: Uint8Array, from = 0) =>
        bytes.set(given.subarray(from), offsetOf(ring) + 64 * slot + from);
      yield* beginEpoch(cpu, ring);
      // The last requester had asked for something else once more: its pending messages lay a slot further on.
      for (const sequence of [1, 2]) put(sequence + 1, pending(sequence, ring.epoch));
      yield* beginEpoch(cpu, ring);
      for (const sequence of [1, 2]) put(sequence, pending(sequence, ring.epoch));
      // The third is on its way: its words from the fifth on are in memory.
      put(3, pending(3, ring.epoch), 32);
      const again = findRings(cpu, directory)[0]!;
      const store = (va: number, given: Uint8Array) => cpu.ntStore(va, given);
      count = yield* replay({ cpu, directory, store }, again);
    }, {});
    assert.equal(count, 2);
    assert.deepEqual([...bytes.subarray(object + 16, object + 24)], [2, 2, 3, 4, 5, 6, 7, 2]);
  });
});

describe("receive buffers of a requester that is gone", () => {
  it("P-41: take nothing that comes late, though their first missing deposit is what comes", () => {
    const { bytes, cold } = coldMachine();
    let count = -1;
    new RecoveryBoot(cold).recover(function* (context) {
      const cpu = context.cpu as unknown as Cpu;
      const directory = yield* openDirectory(cpu);
      const data = (yield* createObject(cpu, directory, { name: "data", length: 64 }))!;
      const ring = (yield* createRing(cpu, directory, { slots: 4, slotBytes: 64 }))!;
      yield* beginEpoch(cpu, ring);
      const at = { id: 1, scmOffset: data.offset, sequence: 1, epoch: ring.epoch };
      const late = encodePendingMessage({ ...at, generation: data.generation }, Uint8Array.of(9));
      const store = (va: number, given: Uint8Array) => cpu.ntStore(va, given);
      const client = { memory: { ring }, terms: { method: "send-read" } } as unknown as Client;
      const server = { cpu, directory, copy: "nt-store", freeMemory: [] } as unknown as Server;
      yield* freeMemory(server, client);
      // The IIO still had it when the queue pair was gone; then power fails.
      bytes.set(late, offsetOf(ring));
      count = yield* replay({ cpu, directory, store }, findRings(cpu, directory)[0]!);
    }, {});
    assert.equal(count, 0);
  });
});

function offsetOf({ first }: RecvRing): number {
  return first - scm.address;
}
