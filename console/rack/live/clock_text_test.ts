import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { ClockStatus } from "../../../fabric/clock/clock_service.ts";
import { clockText, isTimeHeld, whyParts, whyText } from "./clock_text.ts";

const clock = {
  limit: Infinity,
  paused: false,
  finished: false,
  pace: 0,
  why: [],
} as unknown as ClockStatus;

describe("clockText", () => {
  it("names the next event, where there is one to come", () => {
    assert.equal(clockText({ ...clock, now: 2e6, next: 3e6 }), "2 us, next event at 3 us");
    assert.equal(clockText({ ...clock, now: 2e6, next: Infinity }), "2 us, nothing is to happen");
  });

  it("does not name as the next event one of a process that is behind the others", () => {
    assert.equal(clockText({ ...clock, now: 3e6, next: 2e6 }), "3 us, under way");
  });
});

describe("whyText", () => {
  const paced = { ...clock, now: 2e6, pace: 1e7 };
  const why = (status: string, sinceMs: number) => [{ partition: "b", status, sinceMs }] as never;

  it("names a pace where time moves at it, and not where it stands", () => {
    assert.match(whyText({ ...paced, next: 3e6 }), /: it moves at a pace of 10 us a second\.$/);
    assert.match(whyText({ ...paced, next: Infinity }), /: no event is scheduled/);
    assert.equal(isTimeHeld({ ...paced, next: 3e6 }), false);
    assert.equal(isTimeHeld({ ...paced, next: 3e6, limit: 2e6 }), true);
    assert.match(whyText({ ...paced, next: 3e6, limit: 2e6 }), /: held at 2 us\.$/);
  });

  it("has the names of processes apart, wherever their letters stand in the sentence", () => {
    const namedA = (status: string, sinceMs: number) => {
      const row = { partition: "a", status, sinceMs };
      return whyParts({ ...paced, next: 3e6, why: [row, { ...row, partition: "t" }] as never });
    };
    const time = "Virtual time is 2 us: it";
    assert.deepEqual(namedA("running", 4), [`${time} moves at a pace of 10 us a second.`]);
    assert.deepEqual(namedA("absent", 9), [
      ...[`${time} waits for the process of `, { process: "a" }, ", ", { process: "t" }, "."],
    ]);
    assert.deepEqual(namedA("running", 4_000), [
      ...[`${time} waits for `, { process: "a" }, ", which has been running for 4.0 s."],
    ]);
  });

  it("names the process that time waits for at a pace, too", () => {
    assert.match(whyText({ ...paced, next: 3e6, why: why("absent", 9) }), /the process of b\.$/);
    assert.match(
      whyText({ ...paced, next: 3e6, why: why("running", 4_000) }),
      /for b, .* for 4\.0 s\.$/,
    );
    assert.match(whyText({ ...paced, next: 3e6, why: why("running", 4) }), /: it moves at a pace/);
  });
});
