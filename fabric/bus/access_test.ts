import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { accessOfLanes, accessOfProcesses, answererOf, laneVerb, USERS } from "./access.ts";
import { ANY } from "./subjects.ts";

const RACK = {
  plan: { cables: [] },
  partitions: [{ name: "a", nodes: ["a"] }, { name: "b", nodes: ["b"] }],
};

describe("accessOfLanes", () => {
  it("lets each process hear what is asked of itself, and the supervisor alone ask", () => {
    const before = accessOfProcesses({ ...RACK, run: ANY });
    const asked = (user: string) => `rack.*.control.lane-${user}`;
    const workers = [USERS.timekeeper, "a", "b"];
    for (const [user, { publish, subscribe }] of accessOfLanes(RACK)) {
      const was = before.get(user)!;
      const more = (now: readonly string[], then: readonly string[]) =>
        now.filter((pattern) => !then.includes(pattern));
      assert.deepEqual(
        more(publish, was.publish),
        user === USERS.supervisor ? workers.map(asked) : [],
        user,
      );
      assert.deepEqual(
        more(subscribe, was.subscribe),
        workers.includes(user) ? [asked(user)] : [],
        user,
      );
    }
    for (const user of workers) assert.equal(answererOf(laneVerb(user)), user);
  });
});
