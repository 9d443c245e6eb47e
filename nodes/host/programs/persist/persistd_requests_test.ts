import { IBV_ACCESS_LOCAL_WRITE } from "../../verbs/flags.ts";
import { deepEqual, equal } from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import { encodePersistRanges } from "../../../../fabric/wire/host_bus/persist_ranges.ts";
import { decodeSendWqe, WQE_UNIT_BYTES } from "../../../../fabric/wire/host_bus/wqe.ts";
import { createCq } from "../../verbs/create_cq.ts";
import type { Connection } from "../../cm/connection.ts";
import { must } from "../../verbs/device.ts";
import { allocPd, regMr } from "../../verbs/memory_region.ts";
import { createQp } from "../../verbs/queue_pair.ts";
import { bootDevice } from "../../open_device.ts";
import { VerbsRig } from "../../testing/verbs_testing.ts";
import { CONTROL_BYTES } from "../common/persist_protocol.ts";
import { persist } from "./persistd_requests.ts";
import type { Qp, WorkCompletion } from "../../verbs/objects.ts";
import type { Client, ClientMemory, Server } from "./persistd_memory.ts";

/** The receive slot that the RNIC has consumed, and the PSN of the peer's request. */
const SLOT = 1, PSN = 77;

/** Places of SCM, in bytes: two that were written plainly before, and the message's own. */
const EARLIER = [{ at: 4096, length: 128 }, { at: 65_536, length: 64 }] as const;
const OWN = { at: 8192, length: 64 } as const;

let rig: VerbsRig, qp: Qp, server: Server, client: Client;

beforeEach(() => {
  rig = new VerbsRig();
  const device = rig.run(bootDevice(rig, rig.plan, {}));
  const pd = allocPd(device);
  const cq = must(rig.run(createCq(device, { entries: 16 })));
  const slots = rig.allocate(4 * CONTROL_BYTES);
  const recvMr = must(rig.run(regMr(pd, slots, { access: IBV_ACCESS_LOCAL_WRITE })));
  const queues = { sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4 };
  qp = must(rig.run(createQp(pd, { type: "rc", ...queues })));
  qp.life.state = "rts";
  server = { cpu: rig } as unknown as Server;
  const connection = { qp, label: "a to b" } as unknown as Connection;
  const memory = { ring: { slotBytes: CONTROL_BYTES } } as ClientMemory;
  client = { connection, recvMr, memory, gone: false } as unknown as Client;
  // What the peer has written is in the cache.
  for (const { at, length } of [...EARLIER, OWN]) rig.store(rig.scm.address + at, filled(length));
});

/** The completion of a persistent WRITE behind so many ranges that were written plainly. */
function completionOf(ranges: typeof EARLIER | readonly [], own: { length: number }) {
  const told = ranges.map(({ at, length }) => ({
    va: BigInt(rig.scm.address + at),
    length: BigInt(length),
  }));
  rig.store(client.recvMr.address + SLOT * CONTROL_BYTES, encodePersistRanges(told));
  return {
    opcode: "recv-persistence",
    wrId: SLOT,
    psn: PSN,
    va: rig.scm.address + OWN.at,
    byteLen: own.length,
    immData: ranges.length,
  } as WorkCompletion;
}

/** SCM as a power failure at the doorbell of the answer would leave it. */
function durableWhenAnswered(completion: WorkCompletion): Uint8Array {
  const before: Uint8Array[] = [];
  const ring = rig.registerWrite.bind(rig);
  rig.registerWrite = function* (offset, bytes) {
    before.push(rig.durable.slice());
    yield* ring(offset, bytes);
  };
  rig.run(persist(server, client, completion));
  equal(before.length, 1, "one answer");
  return before[0]!;
}

function filled(length: number): Uint8Array {
  return new Uint8Array(length).fill(7);
}

function found(memory: Uint8Array, { at, length }: { at: number; length: number }): Uint8Array {
  return memory.slice(at, at + length);
}

describe("persist", () => {
  it("P-26, P-31: answers when earlier plain WRITEs are in memory, and the message's own", () => {
    const durable = durableWhenAnswered(completionOf(EARLIER, OWN));
    for (const range of [...EARLIER, OWN]) {
      deepEqual(found(durable, range), filled(range.length), `at ${range.at}`);
    }
  });

  it("P-31: so it does for an empty persistent WRITE, which has no bytes of its own", () => {
    const durable = durableWhenAnswered(completionOf(EARLIER, { length: 0 }));
    for (const range of EARLIER) {
      deepEqual(found(durable, range), filled(range.length), `at ${range.at}`);
    }
  });

  it("P-26: says the PSN of the peer's request in its answer", () => {
    durableWhenAnswered(completionOf([], OWN));
    const wqe = decodeSendWqe(rig.load(qp.sq.address, WQE_UNIT_BYTES))!;
    deepEqual([wqe.opcode, wqe.immediate], ["persistence-ack", PSN]);
  });
});
