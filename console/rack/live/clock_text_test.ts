import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import { clockText } from "./clock_text.ts";

const clock = { limit: Infinity, paused: false, finished: false, pace: 0 } as ClockStatus;

describe("clockText", () => {
  it("names the next event, where there is one to come", () => {
    assert.equal(clockText({ ...clock, now: 2e6, next: 3e6 }), "2 us, next event at 3 us");
    assert.equal(clockText({ ...clock, now: 2e6, next: Infinity }), "2 us, nothing is to happen");
  });

  it("does not name as the next event one of a process that is behind the others", () => {
    assert.equal(clockText({ ...clock, now: 3e6, next: 2e6 }), "3 us, under way");
  });
});
