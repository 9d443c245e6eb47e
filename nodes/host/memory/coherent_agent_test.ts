/** The host on the coherent bus, on a bench: the test plays the card. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { CoherentMessage, LineWrite } from "../../../fabric/wire/host_bus/coherent.ts";
import { NEVER } from "../../../fabric/base/time.ts";
import { PORTS } from "../../../fabric/node.ts";
import { HostRig, pattern, type PlanChanges, RIG_TIMING } from "../testing/host_testing.ts";
import { SCM_BASE } from "./address_map.ts";
import type { Host } from "../host.ts";
import type { Cpu, Steps } from "../cpu/program.ts";

const START = 2_000_000;
const { iioPs, dmaReadDramPs, dmaReadLlcPs, mmioPs } = RIG_TIMING;
const kind = "coherent";

function rig(changes: PlanChanges = {}): { rig: HostRig; host: Host } {
  const rig = new HostRig({ attach: "coherent", ...changes });
  rig.run(START);
  return { rig, host: rig.node as Host };
}

function push(address: number, data: Uint8Array<ArrayBuffer>, toMemory = false): LineWrite {
  return { kind, op: "WbMtoI", tag: 1, address, data, toMemory };
}

function opsOf({ sent }: HostRig): string[] {
  return sent.map(({ message }) => message.kind === "coherent" ? message.op : message.kind);
}

describe("CoherentAgent", () => {
  it("grants lines after a look into the LLC, and completes their bytes when they are visible", () => {
    const { rig: card, host } = rig();
    card.arrive(START, { kind, op: "InvItoE", tag: 4, address: SCM_BASE, lines: 2 });
    card.run(START);
    const grant = { kind, op: "GntE", tag: 4, address: SCM_BASE, lines: 2 } as const;
    assert.deepEqual(card.sent, [{ departAt: START + dmaReadLlcPs, port: 0, message: grant }]);
    card.arrive(START, push(SCM_BASE, pattern(100)));
    card.run(START + iioPs);
    assert.deepEqual(opsOf(card), ["GntE"]);
    card.run(START + iioPs + 8_000);
    assert.deepEqual(opsOf(card), ["GntE", "Cmp"]);
    assert.deepEqual(host.memory.peek(SCM_BASE, 100), pattern(100));
    assert.deepEqual(card.survivors.subarray(0, 100), pattern(100), "P-01: flow 1 is durable");
  });

  it("P-02, C-02: the flow bit leads past the LLC where the architecture looks at it", () => {
    const table = [
      ["ddio", false, true, "I"],
      ["ddio", true, true, "M"],
      ["ddio+ns", true, false, "M"],
      ["ddio+ns", true, true, "I"],
    ] as const;
    for (const [architecture, ddio, toMemory, state] of table) {
      const { rig: card, host } = rig({ architecture, ddio });
      card.arrive(START, push(SCM_BASE + 64, pattern(64), toMemory));
      card.run(START + 1_000_000);
      assert.equal(host.memory.lineState(SCM_BASE + 64), state);
      const survives = card.survivors[65] === pattern(64)[1];
      assert.equal(survives, state === "I", "P-04, P-05: as on PCIe");
    }
  });

  it("C-02: at every instant, a core that sees the flag sees the data", () => {
    const { rig: card, host } = rig({ ddio: true });
    const data = SCM_BASE + 40, flag = 4096;
    for (let n = 1; n <= 8; n++) {
      card.arrive(START + n * 7_000, push(data, new Uint8Array(400).fill(n)));
      card.arrive(START + n * 7_000, push(flag, new Uint8Array([n])));
    }
    let seen = 0;
    while (card.nextAt !== NEVER) {
      card.run(card.nextAt);
      seen = host.memory.peek(flag, 1)[0]!;
      for (const byte of host.memory.peek(data, 400)) assert.ok(byte >= seen);
    }
    assert.equal(seen, 8);
  });

  it("answers reads at once, whatever waits, and leaves the LLC's line as it is", () => {
    const { rig: card, host } = rig({ ddio: true });
    card.arrive(START, push(0, pattern(64)));
    card.run(START + 1_000_000);
    const at = card.now;
    card.arrive(at, push(640, pattern(64)));
    card.arrive(at, { kind, op: "RdCur", tag: 7, address: 0, lines: 1 });
    card.arrive(at, { kind, op: "RdCur", tag: 8, address: 1024, lines: 2 });
    card.run(at + 1_000_000);
    const answers = card.sent.filter(({ message }) =>
      message.kind === kind && message.op === "DataC"
    );
    assert.deepEqual(answers.map(({ departAt }) => departAt - at), [
      dmaReadLlcPs,
      dmaReadDramPs + 8_000,
    ]);
    const first = answers[0]!.message as CoherentMessage & { readonly op: "DataC" };
    assert.deepEqual([first.tag, first.state, first.data], [7, "I", pattern(64)]);
    assert.equal(host.memory.lineState(0), "M");
  });

  it("C-05 (in part): a copy for the card leaves the line clean, and a store snoops it", () => {
    function* store(cpu: Cpu): Steps<void> {
      yield* cpu.sleep(5_000_000);
      cpu.store(cpu.scm.address + 192, pattern(64));
      yield* cpu.sleep(1_000_000);
      cpu.store(cpu.scm.address + 130, pattern(8));
    }
    const card = new HostRig({ attach: "coherent", ddio: true }, { programs: { store } });
    const { memory } = card.node as Host;
    card.arrive(START, push(SCM_BASE + 128, pattern(64)));
    card.run(START + 1_000_000);
    assert.equal(memory.lineState(SCM_BASE + 128), "M");
    card.arrive(card.now, { kind, op: "RdCode", tag: 2, address: SCM_BASE + 128, lines: 1 });
    card.run(card.now + 1_000_000);
    assert.equal(memory.lineState(SCM_BASE + 128), "E");
    card.run(20_000_000);
    assert.deepEqual(opsOf(card), ["Cmp", "DataC", "SnpInv"], "for the card's line alone");
    assert.equal(memory.lineState(SCM_BASE + 128), "M");
  });

  it("refuses lines that are not there, and completes writes to them in their turn", () => {
    const { rig: card } = rig();
    const nowhere = 2 ** 21;
    card.arrive(START, push(0, pattern(64)));
    card.arrive(START, push(nowhere, pattern(64)));
    card.arrive(START, { kind, op: "RdCur", tag: 9, address: nowhere, lines: 1 });
    card.run(START);
    assert.deepEqual(opsOf(card), []);
    card.run(START + 1_000_000);
    assert.deepEqual(opsOf(card).toSorted(), ["Cmp", "Cmp", "FailedCmp"]);
    const cmps = card.sent.filter(({ message }) => message.kind === kind && message.op === "Cmp");
    assert.deepEqual(cmps.map(({ message }) => "address" in message && message.address), [
      0,
      nowhere,
    ]);
  });

  it("completes a write to lines that are not there at once, where nothing is before it", () => {
    const { rig: card } = rig();
    card.arrive(START, push(2 ** 21, pattern(64)));
    card.run(START);
    assert.deepEqual(opsOf(card), ["Cmp"]);
  });

  it("owes a card nothing that is gone", () => {
    const { rig: card } = rig();
    card.arrive(START, push(0, pattern(64)));
    card.run(START);
    card.step({ kind: "link", port: PORTS.hostBus, up: false });
    card.step({ kind: "link", port: PORTS.hostBus, up: true });
    card.arrive(START, push(64, pattern(64)));
    card.run(START + 1_000_000);
    const cmps = card.sent.map(({ message }) => "address" in message && message.address);
    assert.deepEqual(cmps, [64]);
    assert.ok(card.sent[0]!.departAt >= START + iioPs + mmioPs);
  });
});
