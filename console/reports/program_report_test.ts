import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { programText } from "./program_report.ts";

function bulk(node: string, to: string): Parameters<typeof programText>[0][number] {
  const latencyPs = { count: 2, min: 1e6, median: 2e6, p99: 3e6, max: 3e6, mean: 2e6 };
  const value = {
    program: "bulk",
    status: "done",
    to,
    messageBytes: 32_768,
    depth: 8,
    messages: 12,
    throughputBps: 12.5e9,
    partsBps: [10e9, 15e9],
    latencyPs,
  };
  return { node, variant: "x", value };
}

describe("programText", () => {
  it("shows bulk transfers as a table, hosts in the order of their numbers", () => {
    const [text, ...more] = programText([bulk("s10", "r"), bulk("s2", "v"), bulk("s2", "r")]);
    assert.deepEqual(more, []);
    const [, , ...rows] = text!.split("\n");
    assert.deepEqual(rows.map((row) => row.split(/ +/).slice(0, 2)), [
      ["s2", "r"],
      ["s2", "v"],
      ["s10", "r"],
    ]);
    assert.match(rows[0]!, /32768 +8 +12 +12\.50 +10\.00 +15\.00 +2 us +3 us +3 us +done$/);
  });

  it("shows what another program reported as JSON", () => {
    const results = [{ node: "a", variant: "x", value: { program: "mine", records: 3 } }];
    assert.deepEqual(programText(results), ['x: a: {"program":"mine","records":3}']);
  });

  it("shows bytes and bigints of it, which JSON has not", () => {
    const value = { at: 2n ** 63n, records: 3n, privateData: Uint8Array.of(1, 255) };
    const text = 'x: a: {"at":"9223372036854775808","records":3,"privateData":"01ff"}';
    assert.deepEqual(programText([{ node: "a", variant: "x", value }]), [text]);
  });

  it("shows where a program was when what it called of ours has thrown", () => {
    const stack = [
      "AddressFault: Cannot access 0x0: no memory is mapped there",
      "    at AddressMap.run (file:///rack/nodes/host/address_map.ts:97:11)",
      "    at ProgramCpu.load (file:///rack/nodes/host/cpu.ts:101:7)",
      "    at mine (file:///home/me/mine.ts:9:7)",
      "    at mine.next (<anonymous>)",
      "    at Processor.run (file:///rack/nodes/host/processor.ts:144:24)",
    ].join("\n");
    const results = [{ node: "a", variant: "x", value: { message: "Cannot access 0x0", stack } }];
    assert.deepEqual(programText(results), [
      "x: a: Cannot access 0x0\n    at mine (file:///home/me/mine.ts:9:7)",
    ]);
  });

  it("shows a failure as its message and the program's own frames", () => {
    const stack = [
      "Error: out of ideas",
      "    at think (file:///home/me/mine.ts:7:3)",
      "    at think.next (<anonymous>)",
      "    at Object.it.<computed> [as next] (data:application/javascript;base64,ZXhw:30:42)",
      "    at Object.mine [as program] (file:///home/me/mine.ts:21:5)",
      "    at mine.next (<anonymous>)",
      "    at Processor.run (file:///rack/nodes/host/processor.ts:144:24)",
    ].join("\n");
    const results = [{ node: "a", variant: "x", value: { message: "out of ideas", stack } }];
    assert.deepEqual(programText(results), [
      "x: a: out of ideas\n    at think (file:///home/me/mine.ts:7:3)" +
      "\n    at Object.mine [as program] (file:///home/me/mine.ts:21:5)",
    ]);
  });

  it("shows a bulk transfer that never began as what it reported", () => {
    const value = { program: "bulk", status: "failed", to: "r", error: "no-service" };
    assert.match(programText([{ node: "a", variant: "x", value }])[0]!, /no-service/);
  });
});
