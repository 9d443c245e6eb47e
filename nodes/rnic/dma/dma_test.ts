import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { TraceStep } from "../../../fabric/node.ts";
import type { MemoryRead } from "../../../fabric/wire/host_bus/pcie.ts";
import type { Device } from "../state/device.ts";
import { canRead, dmaRead, takeCompletion } from "./dma.ts";
import type { Gather, TxFrame } from "../state/tx_frame.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { NO_BYTES } from "../transmit/send.ts";
import type { AtomicTurn, PersistRecord, SingleService } from "../state/responder_state.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import type { Continuation } from "../state/dma_state.ts";
import { createDevice } from "../device.ts";

const PAYLOAD = { kind: "payload", gather: gatherFor({ read: undefined }), offset: 0 } as const;
const READ_DATA = { ...PAYLOAD, gather: gatherFor({ read: {} }) };

function gatherFor(job: object): Gather {
  return { jobs: [job as TxFrame], bytes: 0, missing: 0, data: NO_BYTES, failed: false };
}

function rig(limits: { readonly dmaReadsMax: number; readonly gatherReadsMax: number }) {
  const { timing } = rnicPlan("a");
  const plan = rnicPlan("a", { timing: { ...timing, ...limits } });
  const device = createDevice("a-rnic", plan, { seed: 1 });
  const reads: MemoryRead[] = [];
  device.out = {
    ...device.out,
    send(_port, message, departAt) {
      assert.ok(message.kind === "memory-read");
      reads.push(message);
      return departAt;
    },
  };
  return { device, reads };
}

function read(device: Device, continuation: Continuation, length: number): void {
  dmaRead(device, { address: 0, length, noSnoop: false, continuation });
}

function answer(device: Device, { tag, length }: MemoryRead): void {
  takeCompletion(device, {
    kind: "completion",
    tag,
    status: "success",
    data: new Uint8Array(length),
  });
}

describe("dmaRead", () => {
  it("has a limit for what this card sends and one for what peers read", () => {
    const { device, reads } = rig({ dmaReadsMax: 2, gatherReadsMax: 3 });
    for (let i = 0; i < 4; i++) read(device, READ_DATA, 512);
    assert.equal(reads.length, 2);
    assert.ok(!canRead(device.dma.responder) && canRead(device.dma.gather));
    for (let i = 0; i < 4; i++) read(device, PAYLOAD, 512);
    assert.equal(reads.length, 5);
    assert.equal(new Set(reads.map(({ tag }) => tag)).size, 5, "tags of their own");
    answer(device, reads[0]!);
    assert.equal(reads.length, 6, "a READ's, as a READ's has completed");
    assert.equal(device.dma.responder.waiting.length, 1);
    assert.equal(device.dma.gather.waiting.length, 1);
  });

  it("counts requests of the bus: a long read is several", () => {
    const { device, reads } = rig({ dmaReadsMax: 1, gatherReadsMax: 9 });
    read(device, PAYLOAD, 4096);
    assert.equal(device.dma.gather.freeRequests, 1);
    // The last one that goes out may exceed the limit.
    read(device, PAYLOAD, 1025);
    assert.equal(device.dma.gather.freeRequests, -2);
    read(device, PAYLOAD, 1);
    assert.equal(reads.length, 2);
    answer(device, reads[1]!);
    assert.equal(reads.length, 3);
    answer(device, reads[0]!);
    answer(device, reads[2]!);
    assert.equal(device.dma.gather.freeRequests, 9);
  });

  it("S906: traces what goes out for a peer, with its tag and once for each message it is for", () => {
    const { device, reads } = rig({ dmaReadsMax: 2, gatherReadsMax: 3 });
    const traces: TraceStep[] = [];
    device.out = { ...device.out, tracing: true, trace: (step) => void traces.push(step) };
    const qp = { type: "ud", qpn: 17 } as QueuePair;
    const records = [{ firstPsn: 5 }, { firstPsn: 7 }] as PersistRecord[];
    read(device, { kind: "lsb", qp, life: 0, records }, 1);
    read(device, PAYLOAD, 64);
    read(device, { ...PAYLOAD, gather: gatherFor({ qp, read: { psn: 8 } }) }, 512);
    const service = { psn: 9 } as SingleService;
    read(device, { kind: "atomic", turn: { qp, service } as AtomicTurn }, 8);
    const seen = () => traces.map(({ step, psn, tag, inbound }) => [step, psn, tag, inbound]);
    const [lsb, , data] = reads;
    const both = [["S906", 5, lsb!.tag, true], ["S906", 7, lsb!.tag, true]];
    const part = ["dma-read", 8, data!.tag, true];
    assert.deepEqual(seen(), [...both, part], "not the payload of this card's own");
    answer(device, lsb!);
    assert.deepEqual(seen(), [...both, part, ["dma-read", 9, reads[3]!.tag, true]]);
    assert.equal(reads[3]!.tag, lsb!.tag, "the tag is another's now");
  });
});
