/** What is lost is said, never silently old (decisions 13 and 14 of the page), and paths that once went wrong. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type Exploration, stepsAlong } from "./explore.ts";
import { farAccess } from "./far_card.ts";
import { homeAccess, move } from "./home_card.ts";
import { homePlacement } from "./home_card_state.ts";
import { hostAccess } from "./host_agent.ts";
import { BYTE_CONTENTS } from "./line_bytes.ts";
import { type LineChange, WHOLE_LINE } from "../wire/host_bus/line_change.ts";
import type { Access, Answer } from "./access.ts";
import { LOST } from "../wire/roce/coherence_messages.ts";
import { smallest } from "./mutations_testing.ts";
import { act, deliver, deliveries, HOST, newSystem, type System } from "./system.ts";

function write(mask: bigint): LineChange {
  return { kind: "write", mask, bytes: new Uint8Array(64).fill(7) };
}
const LOAD: Access & { kind: "load" } = { kind: "load", line: 0, ticket: 0 };
const PART: Access & { kind: "store" } = { kind: "store", line: 0, change: write(1n), ticket: 0 };
const WHOLE: Access & { kind: "store" } = { ...PART, change: write(WHOLE_LINE) };

type Accessor = (system: System, access: Access & { kind: "load" | "store" }) => Answer[];

/** Lets one of them do an access, and all messages arrive. @returns the answers. */
function accessor(by: number): Accessor {
  return (system, access) => {
    const first = act(system, by, (out) => {
      const [card] = system.fars;
      if (by === HOST) hostAccess(system.host, access, out);
      else if (by === 0) homeAccess(system.home, access, out);
      else if (card !== undefined) farAccess(card, access, out);
    });
    const answers = [...first.answers];
    for (let [next] = deliveries(system); next !== undefined; [next] = deliveries(system)) {
      answers.push(...deliver(system, next).answers);
    }
    return answers.map(({ answer }) => answer);
  };
}

function lostLine(place: "local" | "remote"): System {
  const system = newSystem({ size: smallest(1), contents: BYTE_CONTENTS, initial: () => LOST });
  if (place === "local") act(system, 0, (out) => move(system.home, { region: 0, place }, out));
  return system;
}

/** The system at the end of a path. @throws where a step breaks a promise. */
function walked(given: Exploration, path: readonly string[]): System {
  let system: System | undefined;
  for (const { take } of stepsAlong(given, path)) system = take();
  return system!;
}

describe("a line that is lost", () => {
  const who = [
    { name: "home's core", by: HOST, place: "remote" },
    { name: "a verb", by: 0, place: "remote" },
    { name: "a far core", by: 1, place: "remote" },
    { name: "a far core whose copy is kept at home", by: 1, place: "local" },
  ] as const;

  for (const { name, by, place } of who) {
    it(`C-10 (in part): is told to a load and to a store of a part; a whole line clears it: ${name}`, () => {
      const does = accessor(by);
      const system = lostLine(place);
      const results = [LOAD, PART, WHOLE, PART].map((access) =>
        does(system, access).map(({ result }) => result)
      );
      assert.deepEqual(results, [["lost"], ["lost"], ["done"], ["done"]]);
      const [read] = does(system, LOAD);
      assert.equal(read?.result, "done");
      assert.deepEqual(read?.data, new Uint8Array(64).fill(7));
    });
  }
});

describe("a path that once went wrong", () => {
  it("C-10 (in part): a grant to a card that has got a new life, and a snoop that waits behind it", () => {
    const path = [
      "card 2: load 0",
      "GetS 0, 2 → home",
      "RdData 0, card → agent",
      "GrantS 0, agent → card",
      "DataS 0, home → 2",
      "Complete 0, 2 → home",
      "card 1: store 0",
      "GetM 0, 1 → home",
      "RdInvOwn 0, card → agent",
      "GrantE 0, agent → card",
      "Inv 0, home → 2",
      "home's core: load 0",
      "SnpData 0, agent → card",
      "card 1's lease ends",
      "Hello 0, 1 → home",
      "InvAck 0, 2 → home",
      "WbMtoI 0, card → agent",
      "Cmp 0, agent → card",
      "RspI 0, card → agent",
    ];
    const { host } = walked({ size: smallest(2), with: ["losses"] }, path);
    assert.deepEqual(host.waiting, []);
  });

  it("C-09: a verb that waits for a place which a move has freed", () => {
    const size = { ...smallest(2, 2), home: { ...smallest(2, 2).home, slots: 3 } };
    const system = newSystem({ size, contents: BYTE_CONTENTS, initial: () => new Uint8Array(64) });
    const [first, second] = system.fars;
    assert.ok(first !== undefined && second !== undefined);
    act(system, 0, (out) => move(system.home, { region: 0, place: "local" }, out));
    for (const card of system.fars) card.placements.set(0, homePlacement(system.home, 0));
    // Line 1 is busy, so the local cache's request for it does not begin; it has the only place.
    const flush: Access = { kind: "flush", line: 1, ticket: 0 };
    act(system, 1, (out) => farAccess(first, flush, out));
    deliver(system, { from: "req", agent: 1, index: 0 });
    act(system, 2, (out) => farAccess(second, { ...LOAD, line: 1 }, out));
    deliver(system, { from: "req", agent: 2, index: 0 });
    act(system, 0, (out) => homeAccess(system.home, LOAD, out));
    assert.equal(system.home.local.waiting.length, 1);
    act(system, 0, (out) => move(system.home, { region: 0, place: "remote" }, out));
    assert.equal(system.home.local.waiting.length, 0);
  });

  it("C-12: a write-back that crosses a snoop's recall is acknowledged when memory has the content", () => {
    const path = [
      "card 1: store 0",
      "GetM 0, 1 → home",
      "RdInvOwn 0, card → agent",
      "GrantE 0, agent → card",
      "DataE 0, home → 1",
      "Complete 0, 1 → home",
      "Dirty 0, 1 → home",
      "home's core: load 0",
      "SnpData 0, agent → card",
      "card 1 evicts 0",
      "Put 0, 1 → home",
      "RecS 0, home → 1",
      "RecIData 0, 1 → home",
      "BusFlush 0, card → agent",
      "RspI 0, card → agent",
      "Cmp 0, agent → card",
      "WbAck 0, home → 1",
    ];
    walked({ size: smallest(1) }, path);
  });
});
