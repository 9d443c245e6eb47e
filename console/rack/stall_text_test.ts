import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { MemberStatus } from "../../fabric/clock/record.ts";
import { stallText } from "./stall_text.ts";

function member(partition: string, status: MemberStatus["status"]): MemberStatus {
  const next = 112_403_000;
  return { partition, status, sinceMs: 3_140, next, reached: 0, now: 0, events: 0, heldBy: "" };
}

describe("stallText", () => {
  it("names the busy partitions, since when and with what", () => {
    assert.equal(
      stallText([member("a", "running"), member("b", "idle")]),
      "time is not moving: it waits for a, busy for 3.1 s with what happens at 112.403 us",
    );
  });

  it("names the own programs of a busy partition, one of which may never wait", () => {
    const host = (name: string, run: string) => ({
      kind: "host",
      name,
      config: { programs: [{ run }] },
    });
    const rack = {
      plan: { nodes: [host("a", "./mine.ts"), host("b", "./mine.ts"), host("c", "put")] },
      partitions: [{ name: "both", nodes: ["a", "c"] }, { name: "b", nodes: ["b"] }],
      programs: { "./mine.ts": "" },
    } as unknown as Parameters<typeof stallText>[1];
    assert.match(
      stallText([member("both", "running"), member("b", "idle")], rack),
      /us \(it runs \.\/mine\.ts on a, which has to wait, yield\*\)$/,
    );
  });

  it("names a process that is not there", () => {
    assert.match(stallText([member("b", "absent")]), /the process of b, absent for 3\.1 s$/);
  });

  it("shows the states where time waits for no partition", () => {
    assert.equal(stallText([member("a", "idle")]), "time is not moving: a idle");
  });
});
