import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { createPowerTracker, type PowerFault } from "./power.ts";

/** `kill b`, `start b-rnic`, `start b off` …, one a microsecond. */
function faults(...lines: string[]): PowerFault[] {
  return lines.map((line, i) => {
    const [action, node, card] = line.split(" ") as ["kill" | "start", string, "off"?];
    return { at: (i + 1) * 1_000_000, action, node, ...(card && { card }) };
  });
}

/** What single nodes suffer, as `kill b` …; a refused fault is `refused`. */
function outcomes(...lines: string[]): string[][] {
  const all = faults(...lines);
  const power = createPowerTracker(all);
  return all.map((fault) => {
    if (power.refusal(fault) !== undefined) return ["refused"];
    return power.apply(fault).map(({ action, node }) => `${action} ${node}`);
  });
}

describe("createPowerTracker", () => {
  it("cuts a host's power only: its RNIC is held off by the bus that is gone", () => {
    assert.deepEqual(outcomes("kill b", "start b"), [["kill b"], ["start b"]]);
  });

  it("lets a card fail and come back under a living host", () => {
    assert.deepEqual(outcomes("kill b-rnic", "start b-rnic"), [["kill b-rnic"], ["start b-rnic"]]);
  });

  it("brings a failed card back with a power cycle of its machine", () => {
    assert.deepEqual(outcomes("kill b-rnic", "kill b", "start b", "kill b-rnic"), [
      ["kill b-rnic"],
      ["kill b"],
      ["start b", "start b-rnic"],
      ["kill b-rnic"],
    ]);
  });

  it("leaves a card to its own start, before or after that of its machine", () => {
    const off = [["kill b-rnic"], ["kill b"]];
    const both = ["kill b-rnic", "kill b"];
    assert.deepEqual(outcomes(...both, "start b", "start b-rnic"), [
      ...off,
      ["start b"],
      ["start b-rnic"],
    ]);
    assert.deepEqual(outcomes(...both, "start b-rnic", "start b"), [
      ...off,
      ["start b-rnic"],
      ["start b"],
    ]);
  });

  it("lets a card fail whose host has no power, and comes back with it or by itself", () => {
    const off = [["kill b"], ["kill b-rnic"]], both = ["kill b", "kill b-rnic"];
    assert.deepEqual(outcomes(...both, "start b"), [...off, ["start b", "start b-rnic"]]);
    assert.deepEqual(outcomes(...both, "start b-rnic", "start b"), [
      ...off,
      ["start b-rnic"],
      ["start b"],
    ]);
  });

  it("leaves a dead card off where the start of its machine says so", () => {
    const off = [["kill b-rnic"], ["kill b"]];
    assert.deepEqual(outcomes("kill b-rnic", "kill b", "start b off", "start b-rnic"), [
      ...off,
      ["start b"],
      ["start b-rnic"],
    ]);
    assert.deepEqual(outcomes("kill b-rnic", "kill b", "start b off"), [...off, ["start b"]]);
    assert.deepEqual(outcomes("kill b", "start b off").at(-1), ["refused"]);
    assert.deepEqual(outcomes("kill b-rnic", "kill b off").at(-1), ["refused"]);
    const [fault] = faults("start b off");
    const power = createPowerTracker([fault!]);
    assert.equal("card" in power.apply(fault!)[0]!, false);
  });

  it("brings all failed cards of a machine back, but one with a start of its own", () => {
    const off = [["kill b-rnic2"], ["kill b-rnic"], ["kill c-rnic2"], ["kill b"]];
    const all = ["kill b-rnic2", "kill b-rnic", "kill c-rnic2", "kill b"];
    assert.deepEqual(outcomes(...all, "start b"), [
      ...off,
      ["start b", "start b-rnic", "start b-rnic2"],
    ]);
    assert.deepEqual(outcomes(...all, "start b", "start b-rnic2"), [
      ...off,
      ["start b", "start b-rnic"],
      ["start b-rnic2"],
    ]);
    assert.deepEqual(outcomes(...all, "start b off").at(-1), ["start b"]);
  });

  it("has no card for a switch", () => {
    assert.deepEqual(outcomes("kill tor", "start tor"), [["kill tor"], ["start tor"]]);
  });

  it("refuses what cannot happen", () => {
    assert.deepEqual(outcomes("start b"), [["refused"]]);
    assert.deepEqual(outcomes("kill b", "kill b").at(-1), ["refused"]);
    assert.deepEqual(outcomes("kill b", "start b-rnic").at(-1), ["refused"]);
    assert.deepEqual(outcomes("kill b-rnic", "kill b-rnic").at(-1), ["refused"]);
  });

  it("stamps what it adds with the fault's time", () => {
    const all = faults("kill b-rnic", "kill b", "start b");
    const power = createPowerTracker(all);
    for (const fault of all) {
      for (const { at } of power.apply(fault)) assert.equal(at, fault.at);
    }
  });
});
