import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { newStageSpent } from "./state/coherence_state.ts";
import type { Device } from "../state/device.ts";
import { spendConversion, spendLookUp, spentOn } from "./timing.ts";

const LOOK_UP_PS = 30, CONVERT_PS = 10, PORT_PS = 5;

function card() {
  const timing = { lookUpPs: LOOK_UP_PS, convertPs: CONVERT_PS };
  const device = { now: 0, stageAt: 0, timing, coherence: { spent: newStageSpent() } };
  /** An input, which the port takes its time for. */
  const input = (now: number) => Object.assign(device, { now, stageAt: now + PORT_PS });
  return { device: device as unknown as Device, input };
}

describe("what a coherent card spends", () => {
  it("C-11: is told by module, and sums up to the time at which what is caused leaves", () => {
    const { device, input } = card();
    input(100);
    spendLookUp(device);
    spendConversion(device);
    assert.deepEqual(spentOn(device, "home"), {
      untilPs: 145,
      by: { conversion: CONVERT_PS, directory: LOOK_UP_PS, card: PORT_PS },
    });
    assert.deepEqual(spentOn(device, "far").by, {
      conversion: CONVERT_PS,
      "remote cache": LOOK_UP_PS,
      card: PORT_PS,
    });
  });

  it("C-11: is of each input by itself, also of two at one instant", () => {
    const { device, input } = card();
    input(100);
    spendLookUp(device);
    input(100);
    spendConversion(device);
    const second = { conversion: CONVERT_PS, directory: 0, card: PORT_PS };
    assert.deepEqual(spentOn(device, "home"), { untilPs: 115, by: second });
    input(100);
    assert.deepEqual(spentOn(device, "home"), {
      untilPs: 105,
      by: { conversion: 0, directory: 0, card: PORT_PS },
    });
    input(200);
    spendLookUp(device);
    spendLookUp(device);
    assert.deepEqual(spentOn(device, "home").by.directory, 2 * LOOK_UP_PS);
  });
});
