/**
 * The card's port to the coherent bus against an agent that answers when it likes: what the bus keeps in order
 * (each direction of the link) and nothing more.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import {
  type CoherentMessage,
  type LineAnswer,
  type LineData,
  linesOf,
} from "../../../fabric/wire/host_bus/coherent.ts";
import { createDevice } from "../device.ts";
import type { Device } from "../state/device.ts";
import { sendBehindWrites } from "../state/coherent_port_state.ts";
import type { Continuation } from "../state/dma_state.ts";
import type { TxFrame } from "../state/tx_frame.ts";
import type { PersistRecord } from "../state/responder_state.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { NO_BYTES } from "../transmit/send.ts";
import { takeFinished, takeLineAnswer, takeLineData } from "./coherent_port.ts";
import { dmaRead, dmaWrite, takeCompletion } from "./dma.ts";

const MEMORY_BYTES = 2048;

function payloadOf(job: object): Continuation {
  const gather = { jobs: [job as TxFrame], bytes: 0, missing: 0, data: NO_BYTES, failed: false };
  return { kind: "payload", gather, offset: 0 };
}
const OWN = payloadOf({ read: undefined }), FOR_PEER = payloadOf({ read: {} });

/** A host of one memory, whose agent holds each message until it is told to take it. */
class Rig {
  readonly device: Device;
  readonly toAgent: CoherentMessage[] = [];
  readonly toCard: (LineAnswer | LineData)[] = [];
  readonly memory = new Uint8Array(MEMORY_BYTES);
  /** Lines that the card owns. */
  readonly owned = new Set<number>();
  /** Bytes of all writes in order, and how many of them are in memory. */
  readonly written: { readonly address: number; readonly value: number }[] = [];
  committed = 0;
  readonly interrupts: number[] = [];
  readonly reads = new Map<number, { readonly after: number; readonly isForPeer: boolean }>();
  mostOwned = 0;
  ended = 0;

  constructor(busLinesMax: number) {
    const { timing } = rnicPlan("a");
    const attach = { bitsPerSecond: 192e9 };
    const plan = rnicPlan("a", { attach, timing: { ...timing, busLinesMax } });
    this.device = createDevice("a-rnic", plan, { seed: 1 });
    this.device.out = {
      ...this.device.out,
      send: (_port, message, departAt) => {
        assert.ok(message.kind === "coherent");
        this.toAgent.push(message);
        return departAt;
      },
    };
  }

  write(address: number, data: Uint8Array<ArrayBuffer>): void {
    for (const [i, value] of data.entries()) this.written.push({ address: address + i, value });
    dmaWrite(this.device, { address, data });
  }

  read(address: number, length: number, isForPeer: boolean): void {
    const after = this.written.length;
    const { outstanding } = this.device.dma;
    const before = new Set(outstanding.keys().filter((tag) => outstanding[tag] !== undefined));
    const continuation = isForPeer ? FOR_PEER : OWN;
    dmaRead(this.device, { address, length, continuation });
    const tag = outstanding.findIndex((read, tag) => read !== undefined && !before.has(tag));
    if (tag >= 0) this.reads.set(tag, { after, isForPeer });
  }

  /** The agent takes the card's oldest message. */
  takeAtAgent(): void {
    const message = this.toAgent.shift();
    if (message === undefined) return;
    const { op } = message, kind = "coherent" as const;
    switch (op) {
      case "InvItoE": {
        const { tag, address, lines } = message;
        for (let i = 0; i < lines; i++) {
          const at = address + i * LINE_BYTES;
          assert.ok(!this.owned.has(at), "asked for what it owns");
          this.owned.add(at);
        }
        this.mostOwned = Math.max(this.mostOwned, this.owned.size);
        this.toCard.push({ kind, op: "GntE", tag, address, lines });
        return;
      }
      case "WbMtoI":
      case "WbMtoE": {
        const { tag, address, data } = message;
        for (const [i, value] of data.entries()) {
          assert.deepEqual(this.written[this.committed], { address: address + i, value });
          this.memory[address + i] = value;
          this.committed++;
        }
        const first = address - address % LINE_BYTES, lines = linesOf(address, data.length);
        for (let i = 0; i < lines; i++) {
          const at = first + i * LINE_BYTES;
          assert.ok(this.owned.has(at), "writes what it does not own");
          if (op === "WbMtoI") this.owned.delete(at);
        }
        this.toCard.push({ kind, op: "Cmp", tag, address: first, lines });
        return;
      }
      case "RdCur": {
        const { tag, address, lines } = message;
        const { after, isForPeer } = this.reads.get(tag)!;
        if (isForPeer) assert.ok(this.committed >= after, "P-03: a peer's read passes a write");
        const data = this.memory.slice(address, address + lines * LINE_BYTES);
        this.toCard.push({ kind, op: "DataC", tag, address, state: "I", data });
        return;
      }
      case "IntPhysical":
        assert.ok(this.committed >= this.interrupts[0]!, "an interrupt passes a write");
        this.interrupts.shift();
        return;
      default:
        assert.fail(`The card sends a ${op}`);
    }
  }

  /** The card takes the agent's oldest message. */
  takeAtCard(): void {
    const answer = this.toCard.shift();
    if (answer === undefined) return;
    const port = this.device.port!;
    const completion = answer.op === "DataC"
      ? takeLineData(this.device, port, answer)
      : takeLineAnswer(this.device, port, answer);
    if (completion === undefined) return;
    const { after } = this.reads.get(completion.tag)!;
    this.reads.delete(completion.tag);
    const { address, length } = takeCompletion(this.device, completion)!;
    assert.equal(completion.data.length, length);
    // Values rise with the writes: never one older than the last write before the read.
    const newest = new Map(this.written.slice(0, after).map((byte) => [byte.address, byte.value]));
    for (const [i, value] of completion.data.entries()) {
      assert.ok(value >= (newest.get(address + i) ?? 0), "a read of the card's own is stale");
    }
    this.ended++;
  }

  run(): void {
    while (this.toAgent.length + this.toCard.length > 0) {
      this.takeAtAgent();
      this.takeAtCard();
    }
  }
}

type Action =
  | { readonly do: "write" | "own" | "peer"; readonly at: number; readonly length: number }
  | { readonly do: "interrupt" | "agent" | "card" };

const place = { at: fc.nat(MEMORY_BYTES - 601), length: fc.integer({ min: 1, max: 600 }) };
const near = { at: fc.integer({ min: 100, max: 260 }), length: fc.integer({ min: 1, max: 80 }) };
const action: fc.Arbitrary<Action> = fc.oneof(
  fc.record({ do: fc.constantFrom("write", "own", "peer"), ...place }),
  fc.record({ do: fc.constantFrom("write", "write", "own"), ...near }),
  fc.record({ do: fc.constantFrom("interrupt", "agent", "agent", "card", "card") }),
) as fc.Arbitrary<Action>;

describe("CoherentPort", () => {
  it("C-02: writes take effect in order, reads and interrupts see them, with any number of credits", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(1, 2, 3, 5, 8, 128),
        fc.array(action, { maxLength: 60 }),
        (credits, actions) => {
          const rig = new Rig(credits);
          let value = 0;
          for (const each of actions) {
            switch (each.do) {
              case "write":
                rig.write(each.at, new Uint8Array(each.length).fill(++value));
                break;
              case "own":
              case "peer":
                // The engines' own limits are `dma_test.ts`'s.
                if (rig.reads.size < 10) rig.read(each.at, each.length, each.do === "peer");
                break;
              case "interrupt":
                rig.interrupts.push(rig.written.length);
                sendBehindWrites(rig.device, { kind: "interrupt", vector: 1 }, 0);
                break;
              case "agent":
                rig.takeAtAgent();
                break;
              case "card":
                rig.takeAtCard();
            }
            assert.ok(rig.owned.size <= credits, "more lines than credits");
          }
          rig.run();
          const { port } = rig.device;
          assert.equal(rig.committed, rig.written.length, "every write ends");
          assert.equal(rig.reads.size, 0, "every read ends");
          assert.equal(rig.interrupts.length, 0, "every interrupt ends");
          assert.equal(rig.owned.size, 0, "decision 4: nothing stays in the card");
          assert.equal(port!.lines.size + port!.held.length + port!.queuedBytes, 0);
          assert.deepEqual([port!.readCredits, port!.writeCredits], [credits, credits]);
          assert.equal(port!.done, port!.asked);
        },
      ),
      seeded({ numRuns: 1500 }),
    );
  });

  it("decision 5: asks for the lines of several writes in parallel", () => {
    const rig = new Rig(128);
    for (let i = 0; i < 3; i++) rig.write(i * 512, new Uint8Array(512));
    assert.deepEqual(rig.toAgent.map(({ op }) => op), ["InvItoE", "InvItoE", "InvItoE"]);
  });

  it("keeps a line that the next write needs, and asks for it once", () => {
    const rig = new Rig(128);
    for (let i = 0; i < 4; i++) rig.write(64 + 8 * i, new Uint8Array(8).fill(i + 1));
    rig.run();
    const { busLinesOwned, busLinesKept, busLinesWritten } = rig.device.port!.counters;
    assert.deepEqual([busLinesOwned, busLinesKept, busLinesWritten], [1, 3, 4]);
  });

  it("P-24: an LSB read reads nothing, and ends when all earlier writes are complete", () => {
    const rig = new Rig(128);
    rig.write(0, new Uint8Array(600).fill(7));
    const qp = { life: 0 } as QueuePair;
    const records: PersistRecord[] = [];
    dmaRead(rig.device, {
      address: 0,
      length: 1,
      continuation: { kind: "lsb", qp, life: 0, records },
    });
    for (let done = false; !done;) {
      assert.equal(takeFinished(rig.device), undefined);
      rig.takeAtAgent();
      rig.takeAtCard();
      done = rig.device.port!.done === rig.device.port!.asked;
    }
    assert.equal(takeFinished(rig.device)?.status, "success");
    assert.equal(rig.device.port!.counters.busLinesRead, 0);
  });

  it("ends a read that the agent refuses as PCIe's does", () => {
    const rig = new Rig(128);
    rig.read(0, 1024, true);
    const port = rig.device.port!;
    const [first, second] = rig.toAgent.splice(0);
    assert.ok(first?.op === "RdCur" && second?.op === "RdCur");
    const { tag, address, lines } = first;
    const refusal = { kind: "coherent", op: "FailedCmp", tag, address, lines } as const;
    assert.equal(takeLineAnswer(rig.device, port, refusal), undefined);
    const data = new Uint8Array(512), state = "I";
    const rest: LineData = { ...second, op: "DataC", state, data } as unknown as LineData;
    const completion = takeLineData(rig.device, port, rest);
    assert.equal(completion?.status, "unsupported-request");
    assert.equal(completion.data.length, 0);
  });
});
