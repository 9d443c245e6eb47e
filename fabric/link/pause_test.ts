import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { NEVER } from "../base/time.ts";
import { decodePfc } from "../wire/roce/pfc.ts";
import {
  askPause,
  askResume,
  createPauseRequests,
  createPauses,
  endPauses,
  forgetRequests,
  isPaused,
  pausedTime,
  pauseTime,
  takePfc,
} from "./pause.ts";

const RATE = 100e9;
/** 512 bits at 100 Gb/s. */
const QUANTUM_PS = 5_120;

function pfc(priority: number, quanta: number) {
  const all = new Array<number | undefined>(8).fill(undefined);
  all[priority] = quanta;
  return { sourceMac: 1, quanta: all };
}

describe("pauseTime", () => {
  it("is 512 bit times a quantum: 335.5 us at most at 100 Gb/s", () => {
    assert.equal(pauseTime(1, RATE), QUANTUM_PS);
    assert.equal(pauseTime(0xffff, RATE), 335_539_200);
    assert.equal(pauseTime(1, 3e12), 171, "rounded up");
  });
});

describe("takePfc", () => {
  it("pauses one priority until the time is over", () => {
    const pauses = createPauses(RATE);
    takePfc(pauses, 1_000, pfc(3, 2));
    assert.equal(isPaused(pauses, 3, 1_000 + 2 * QUANTUM_PS - 1), true);
    assert.equal(isPaused(pauses, 3, 1_000 + 2 * QUANTUM_PS), false);
    assert.equal(isPaused(pauses, 2, 1_001), false);
  });

  it("counts the paused time once, whether a pause expires, is prolonged or is ended", () => {
    const pauses = createPauses(RATE);
    takePfc(pauses, 0, pfc(3, 1));
    assert.equal(pausedTime(pauses, 100), 100);
    assert.equal(pausedTime(pauses, 1e6), QUANTUM_PS, "expired");
    takePfc(pauses, 1e6, pfc(3, 100));
    takePfc(pauses, 1e6 + 1_000, pfc(3, 100));
    takePfc(pauses, 1e6 + 3_000, pfc(3, 0));
    assert.equal(isPaused(pauses, 3, 1e6 + 3_000), false);
    assert.equal(pausedTime(pauses, 2e6), QUANTUM_PS + 3_000);
    takePfc(pauses, 2e6, pfc(3, 0));
    assert.equal(pausedTime(pauses, 3e6), QUANTUM_PS + 3_000, "going on twice changes nothing");
  });

  it("adds priorities up, and ends all when the cable goes down", () => {
    const pauses = createPauses(RATE);
    takePfc(pauses, 0, pfc(3, 100));
    takePfc(pauses, 0, pfc(4, 100));
    endPauses(pauses, 1_000);
    assert.equal(isPaused(pauses, 4, 1_000), false);
    assert.equal(pausedTime(pauses, 9_000), 2_000);
  });
});

describe("askPause", () => {
  it("asks for the longest pause, and again at half of it", () => {
    const requests = createPauseRequests(7, RATE);
    assert.equal(decodePfc(askPause(requests, 1_000, 1 << 3))?.quanta[3], 0xffff);
    assert.equal(requests.refreshAt, 1_000 + 167_769_600);
    const both = decodePfc(askPause(requests, 2_000, 1 << 4));
    assert.deepEqual(both?.quanta.slice(3, 5), [0xffff, 0xffff]);
    const one = decodePfc(askResume(requests, 1 << 3));
    assert.deepEqual(one?.quanta.slice(3, 5), [0, undefined]);
    assert.notEqual(requests.refreshAt, NEVER, "the other one is still asked for");
    askResume(requests, 1 << 4);
    assert.equal(requests.refreshAt, NEVER);
  });

  it("forgets what it asked for when the other end is gone", () => {
    const requests = createPauseRequests(7, RATE);
    askPause(requests, 0, 1);
    forgetRequests(requests);
    assert.deepEqual([requests.asked, requests.refreshAt], [0, NEVER]);
  });
});
