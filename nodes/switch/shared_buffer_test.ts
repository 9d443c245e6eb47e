/** The limits of what may wait, to the byte. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { SwitchPlan } from "../../fabric/rack/plan/plan.ts";
import {
  createSharedBuffer,
  hasRoom,
  occupy,
  type Passage,
  type SharedBuffer,
  vacate,
} from "./shared_buffer.ts";
import { planWith, PORTS, RATE } from "./switch_testing.ts";

const LOSSLESS = 3;
const XOFF = 1_000, XON = 600, HEADROOM = 500;

function bufferOf(change: Partial<SwitchPlan> = {}): SharedBuffer {
  const port = { bitsPerSecond: RATE, headroomBytes: HEADROOM };
  const pfc = {
    lossless: 1 << LOSSLESS,
    xoffBytes: XOFF,
    xonBytes: XON,
    mac: 1,
    ports: Array.from({ length: PORTS }, () => port),
  };
  return createSharedBuffer(planWith({ congestion: { ecn: null, pfc }, ...change }));
}

function passage(bytes: number, given: Partial<Passage> = {}): Passage {
  return { from: 0, to: 3, priority: LOSSLESS, bytes, ...given };
}

describe("a lossless priority of an input port", () => {
  it("is not to be paused at XOFF, and is from the first byte above it on", () => {
    const buffer = bufferOf();
    assert.equal(occupy(buffer, passage(XOFF)), false, "at XOFF");
    assert.equal(occupy(buffer, passage(1)), true, "one byte above");
    assert.equal(occupy(buffer, passage(1)), true, "and it stays so");
  });

  it("may go on at XON, not one byte above it", () => {
    const buffer = bufferOf();
    occupy(buffer, passage(XOFF));
    assert.equal(vacate(buffer, passage(XOFF - XON - 1)), false, "one byte above");
    assert.equal(vacate(buffer, passage(1)), true, "at XON");
    assert.equal(vacate(buffer, passage(1)), true, "and below");
  });

  it("has the headroom on top of XOFF, to the last byte", () => {
    const buffer = bufferOf();
    occupy(buffer, passage(XOFF));
    assert.equal(hasRoom(buffer, passage(HEADROOM)), true);
    assert.equal(hasRoom(buffer, passage(HEADROOM + 1)), false);
    occupy(buffer, passage(HEADROOM));
    assert.equal(hasRoom(buffer, passage(1)), false);
    vacate(buffer, passage(1));
    assert.equal(hasRoom(buffer, passage(1)), true);
  });

  it("is counted by itself: other inputs and priorities do not fill it, outputs make no difference", () => {
    const buffer = bufferOf();
    occupy(buffer, passage(XOFF));
    assert.equal(occupy(buffer, passage(XOFF, { from: 1 })), false);
    assert.equal(occupy(buffer, passage(9_999, { priority: LOSSLESS + 1 })), false);
    assert.equal(occupy(buffer, passage(1, { to: 2 })), true);
  });
});

describe("lossy frames", () => {
  const lossy = (bytes: number, to = 3) => passage(bytes, { priority: 0, to });

  it("have their output queue's bytes to the last, and never ask for a pause", () => {
    const buffer = bufferOf({ queueBytes: 100 });
    assert.equal(hasRoom(buffer, lossy(100)), true);
    assert.equal(hasRoom(buffer, lossy(101)), false);
    assert.equal(occupy(buffer, lossy(100)), false);
    assert.equal(hasRoom(buffer, lossy(1)), false);
    assert.equal(hasRoom(buffer, lossy(100, 2)), true, "another output's queue");
    assert.equal(vacate(buffer, lossy(1)), false);
    assert.equal(hasRoom(buffer, lossy(1)), true);
  });

  it("have the bytes of all output queues together to the last", () => {
    const buffer = bufferOf({ queueBytes: 100, bufferBytes: 150 });
    occupy(buffer, lossy(100));
    assert.equal(hasRoom(buffer, lossy(50, 2)), true);
    assert.equal(hasRoom(buffer, lossy(51, 2)), false);
    assert.equal(hasRoom(buffer, passage(XOFF)), true, "lossless frames do not share them");
  });
});
