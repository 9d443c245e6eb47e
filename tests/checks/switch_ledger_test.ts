import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { markCongestion } from "../../fabric/wire/roce/frame_peek.ts";
import { livesOf } from "../../console/checks/lives.ts";
import { planOf } from "../../console/checks/record_testing.ts";
import { SwitchLedger } from "../../console/checks/switch_ledger.ts";
import { WireLedger } from "../../console/checks/wire_ledger.ts";

/** A RoCE frame to one host or to a group, ECN-capable, with a number in its payload. */
function frame(number: number, to: "host" | "group" = "host"): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(80);
  const view = new DataView(bytes.buffer);
  bytes[0] = to === "group" ? 1 : 2;
  view.setUint16(12, 0x0800);
  bytes.set([0x45, 0b10], 14);
  bytes[14 + 9] = 17;
  view.setUint16(14 + 20 + 2, 4791);
  view.setUint32(60, number);
  view.setUint32(76, 7_000 + number);
  return bytes;
}

/** Frames arrive at port 0, and leave by port 1 unless a test names another. */
const IN = { port: 0, time: 100 };
const OUT = { ...IN, port: 1 };

describe("P-41: a switch", () => {
  it("sends what it has received, once, and nothing else", () => {
    const ledger = new SwitchLedger(4);
    ledger.receive(frame(1), IN);
    assert.equal(ledger.send(frame(2), OUT), false);
    assert.equal(ledger.send(frame(1), IN), false, "not back to where it came from");
    assert.equal(ledger.send(frame(1), OUT), true);
    assert.equal(ledger.send(frame(1), OUT), false);
    ledger.receive(frame(1), IN);
    assert.equal(ledger.send(frame(1), OUT), true, "a repeated frame is forwarded again");
  });

  it("may mark it, and change nothing else of it", () => {
    for (const at of [1, 20, 40, 60, 79]) {
      const ledger = new SwitchLedger(4);
      ledger.receive(frame(1), IN);
      const changed = frame(1);
      changed[at]! ^= 1;
      assert.equal(ledger.send(changed, OUT), false, `byte ${at}`);
      const marked = markCongestion(frame(1));
      marked[60]! ^= 1;
      assert.equal(ledger.send(marked, OUT), false, "marked, and changed");
      assert.equal(ledger.send(markCongestion(frame(1)), OUT), true);
    }
    const unmarked = new SwitchLedger(4);
    unmarked.receive(markCongestion(frame(1)), IN);
    assert.equal(unmarked.send(frame(1), OUT), false, "a mark stays");
  });

  it("sends what is for a group to each other port", () => {
    const ledger = new SwitchLedger(4);
    ledger.receive(frame(1, "group"), IN);
    const send = (port: number) => ledger.send(frame(1, "group"), { ...OUT, port });
    assert.deepEqual([0, 1, 1, 2, 2, 3, 3].map(send), [
      false,
      true,
      false,
      true,
      false,
      true,
      false,
    ]);
  });

  it("has lost what was inside when its power failed", () => {
    const plan = planOf(["{ at: 1us, kill: tor }", "{ at: 2us, start: tor }"]);
    const node = plan.nodes.findIndex(({ name }) => name === "tor");
    const ports = plan.cables.flatMap(({ a, b }) => [a, b]).filter((end) => end.node === "tor");
    const [from, to] = ports.map(({ port }) => port);
    const foundAt = (time: number) => {
      const wire = new WireLedger(plan, livesOf(plan, plan.faults));
      const seen = { node, event: 0, startPs: time, endPs: time, frame: frame(1), text: "" };
      wire.see({ ...seen, kind: "received", time: 500_000, port: from! });
      wire.see({ ...seen, kind: "sent", time, port: to! });
      return wire.unexplained.filter(({ text }) => text.includes("sends a frame")).length;
    };
    assert.equal(foundAt(900_000), 0);
    assert.equal(foundAt(2_100_000), 1);
  });

  it("sends frames of its own that are no RoCE: PAUSE, reports, routes", () => {
    const ledger = new SwitchLedger(4);
    const pause = new Uint8Array(60);
    new DataView(pause.buffer).setUint16(12, 0x8808);
    assert.equal(ledger.send(pause, OUT), true);
  });

  it("is not judged any more once it has dropped more frames than the ledger keeps", () => {
    const ledger = new SwitchLedger(4);
    for (let i = 0; i < 65_536; i++) ledger.receive(frame(i), IN);
    assert.equal(ledger.send(frame(70_000), OUT), false);
    ledger.receive(frame(65_536), IN);
    assert.equal(ledger.send(frame(70_000), OUT), true);
  });
});
