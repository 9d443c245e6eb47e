/** Figures 2 and 3 as the RNIC tells them: persistence by today's standard requests (P-10, P-11). */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_MS } from "../../../fabric/base/time.ts";
import { mechanismOf } from "../../../fabric/trace/mechanism_steps.ts";
import { arrowOf } from "../../../fabric/trace/trace_figures.ts";
import { go, type Pair, post } from "../testing/pair_testing.ts";
import { FLOW_1, FLOW_2, persistingPair } from "../testing/pm_testing.ts";
import { psnAdd } from "../state/psn.ts";

describe("ladders of the baselines", () => {
  function steps(p: Pair): string[] {
    const own = p.rig.traces.filter(({ step: { step } }) => mechanismOf(step) === undefined);
    return own.map(({ node, step }) => `${node} ${step.step}`);
  }

  it("P-10: WRITE, then READ: S202 to S206, S209 to S213", () => {
    const p = persistingPair(FLOW_1);
    p.rig.tracing = true;
    post(p, "write", { length: 64 });
    go(p);
    p.rig.send(p.rig.a, p.a, {
      opcode: "read",
      remote: { va: BigInt(p.to.va), rkey: p.to.key },
      sges: [{ address: p.from.va, length: 64, lkey: p.from.key }],
    });
    p.rig.run();
    assert.deepEqual(steps(p), [
      ...["a S202", "a S203", "b S204", "b S205", "a S206"],
      ...["a S209", "a S210", "b S211", "b dma-read", "b S212", "a S213"],
    ]);
  });

  it("§1.4: a NAK and an RNR NAK are lines of their own, with what they say", () => {
    const p = persistingPair(FLOW_1);
    p.rig.tracing = true;
    // Of three WRITEs the second is lost; a SEND then finds no receive WQE.
    p.rig.fate = (from, _frame, count) => from === "a" && count === 1 ? "drop" : "pass";
    for (let i = 0; i < 3; i++) post(p, "write", { length: 64 });
    go(p);
    p.rig.send(p.rig.a, p.a, { opcode: "send", inline: new Uint8Array(16) });
    p.rig.runFor(PS_PER_MS);
    const psn = p.rig.traces.find(({ step }) => step.step === "S203")!.step.psn!;
    const naks = p.rig.traces.filter(({ step }) => step.step.endsWith("nak"));
    assert.deepEqual(
      naks.slice(0, 2).map(({ node, step }) => [node, step.step, step.text, step.inbound]),
      [
        ["b", "nak", `NAK PSN sequence error, PSN ${psnAdd(psn, 1)}`, true],
        ["b", "rnr-nak", `RNR NAK timer 10 us, PSN ${psnAdd(psn, 3)}`, true],
      ],
    );
    assert.equal(arrowOf("nak"), "peer");
    assert.equal(arrowOf("rnr-nak"), "peer");
  });

  it("P-11: WRITE, SEND, answer: S302 to S306, S309 to S315, S318 to S324", () => {
    const p = persistingPair(FLOW_2);
    p.rig.tracing = true;
    p.rig.recv(p.rig.b, p.b, [{ address: p.to.va + 4096, length: 64, lkey: p.to.key }]);
    p.rig.recv(p.rig.a, p.a, [{ address: p.from.va + 4096, length: 64, lkey: p.from.key }]);
    post(p, "write", { length: 64 });
    go(p);
    p.rig.send(p.rig.a, p.a, { opcode: "send", inline: new Uint8Array(16) });
    p.rig.run();
    p.rig.send(p.rig.b, p.b, { opcode: "send", inline: new Uint8Array(16) });
    p.rig.run();
    assert.deepEqual(steps(p), [
      ...["a S302", "a S303", "b S304", "b S305", "a S306"],
      ...["a S309", "a S310", "b S312", "b S313", "b S314", "a S315"],
      ...["b S322", "b S323", "a S318", "a S324", "a send-ack", "b send-complete"],
    ]);
  });
});
