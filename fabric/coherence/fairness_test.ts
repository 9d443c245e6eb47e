/** Who is served next at home's card and in a cache, where many ask: who came first (`inTurn`). */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { farAccess } from "./far_card.ts";
import { homeAccess } from "./home_card.ts";
import { FRESH, TOKENS } from "./invariants.ts";
import { inTurn, type Request } from "./home_card_state.ts";
import type { Access } from "./access.ts";
import type { WireMessage } from "../wire/roce/coherence_messages.ts";
import { smallest } from "./mutations_testing.ts";
import {
  act,
  deliver,
  deliveries,
  type Events,
  newSystem,
  type System,
  type SystemSize,
} from "./system.ts";

const VERBS = 40;

/** Who was answered, in order: by agent and ticket. */
class Rack {
  readonly system: System;
  readonly answered: string[] = [];

  constructor(size: SystemSize) {
    this.system = newSystem({ size, contents: TOKENS, initial: () => FRESH });
  }

  note({ answers }: Events): void {
    for (const { by, answer } of answers) this.answered.push(`${by}.${answer.access.ticket}`);
  }

  access(by: number, access: Access): void {
    const { home, fars } = this.system;
    this.note(act(this.system, by, (out) => {
      const card = fars[by - 1];
      if (card === undefined) homeAccess(home, access, out);
      else farAccess(card, access, out);
    }));
  }

  /** Lets messages arrive, in the order in which they can. */
  step(): boolean {
    const [next] = deliveries(this.system);
    if (next !== undefined) this.note(deliver(this.system, next));
    return next !== undefined;
  }

  drain(): void {
    while (this.step());
  }
}

/** How many accesses of home's verbs were answered before this one. */
function verbsBefore(rack: Rack, who: string): number {
  const at = rack.answered.indexOf(who);
  assert.ok(at >= 0, `${who} was not answered`);
  return rack.answered.slice(0, at).filter((each) => each.startsWith("0.")).length;
}

describe("home's card", () => {
  for (const kind of ["load", "store", "own"] as const) {
    it(`C-09: a far card's ${kind} is served among any number of verbs on its line, and does not wait for all`, () => {
      const rack = new Rack(smallest(1));
      for (let ticket = 0; ticket < VERBS; ticket++) {
        rack.access(0, { kind: "load", line: 0, ticket });
      }
      rack.access(1, { kind, line: 0, change: "atomic", ticket: 1 });
      rack.drain();
      assert.equal(rack.answered.length, VERBS + 1);
      assert.ok(verbsBefore(rack, "1.1") <= 2, `behind ${verbsBefore(rack, "1.1")} verbs`);
    });
  }

  it("C-09: verbs are served among any number of requests of far cards", () => {
    const size = smallest(2);
    const rack = new Rack({ ...size, home: { ...size.home, slots: 2 } });
    const stores = [0, 0, 0];
    const store = (by: number) =>
      rack.access(by, { kind: "store", line: 0, change: "atomic", ticket: ++stores[by]! });
    store(1), store(2);
    for (let left = 6; left > 0; left--) rack.step();
    rack.access(0, { kind: "load", line: 0, ticket: 0 });
    const before = rack.answered.length;
    // Each far card asks again as soon as it has had its line.
    while (rack.step() && rack.answered.length < 60) {
      for (const by of [1, 2]) {
        const { active, waiting } = rack.system.fars[by - 1]!;
        if (active.size + waiting.length === 0) store(by);
      }
    }
    const behind = rack.answered.indexOf("0.0") - before;
    assert.ok(behind >= 0 && behind <= 4, `the verb was answered behind ${behind} others`);
  });

  it("C-09: a request that waits for the directory's only entry gets it before later ones of lines that are lent", () => {
    const size = smallest(1, 2);
    const rack = new Rack({ ...size, home: { ...size.home, slots: 2 } });
    for (let ticket = 0; ticket < VERBS; ticket++) {
      rack.access(0, { kind: "load", line: 0, ticket });
    }
    rack.access(1, { kind: "load", line: 1, ticket: 1 });
    rack.drain();
    assert.ok(verbsBefore(rack, "1.1") <= 2, `behind ${verbsBefore(rack, "1.1")} verbs`);
  });
});

describe("a cache", () => {
  it("C-07: an access that waits for its own line holds up none that needs a place elsewhere", () => {
    const size = { ...smallest(1, 2), remoteCache: { lines: 2, writeBacks: 1 } };
    const rack = new Rack(size);
    const [card] = rack.system.fars;
    rack.access(1, { kind: "load", line: 0, ticket: 0 });
    rack.access(1, { kind: "store", line: 0, change: "full", ticket: 1 });
    rack.access(1, { kind: "load", line: 1, ticket: 2 });
    assert.deepEqual(card!.waiting.map(({ ticket }) => ticket), [1]);
    assert.deepEqual(rack.system.wires[0]!.req.map(({ line }) => line), [0, 1]);
    rack.drain();
    assert.deepEqual(rack.answered.toSorted(), ["1.0", "1.1", "1.2"]);
  });

  it("C-09, decision 18: an access that has to ask again comes before those behind it, on its line and elsewhere", () => {
    const rack = new Rack(smallest(1, 2));
    const { home, fars: [card] } = rack.system;
    // Home keeps the copies elsewhere than the far card believes: it is told so, and asks again.
    home.placements.set(0, { place: "remote", version: 1 });
    rack.access(1, { kind: "store", line: 0, change: "full", ticket: 0 });
    rack.access(1, { kind: "load", line: 0, ticket: 1 });
    rack.access(1, { kind: "load", line: 1, ticket: 2 });
    let told = 0;
    while (rack.step()) {
      if (told > 0 || card!.placements.get(0)?.version !== 1) continue;
      told++;
      assert.equal(card!.active.get(0)?.ticket, 0, "it has asked again");
      assert.deepEqual(card!.waiting.map(({ ticket }) => ticket), [1, 2]);
    }
    assert.equal(told, 1);
    assert.deepEqual(rack.answered, ["1.0", "1.1", "1.2"]);
  });

  it("C-06, C-07: what waits for a write-back buffer is not passed over by those that need a place alone", () => {
    const size = smallest(1, 4);
    const rack = new Rack({ ...size, home: { ...size.home, slots: 8, entries: 4 } });
    const { home } = rack.system;
    home.placements.set(0, { place: "local", version: 0 });
    rack.system.fars[0]!.placements.set(0, { place: "local", version: 0 });
    // The local cache's only place is taken by a line that is dirty.
    rack.access(1, { kind: "store", line: 0, change: "full", ticket: 1 });
    rack.drain();
    rack.access(0, { kind: "load", line: 1, ticket: 0 });
    let ticket = 1;
    while (ticket < 60 && !rack.answered.includes("0.0")) {
      const { active, waiting } = rack.system.fars[0]!;
      const line = 2 + ticket % 2;
      if (active.size + waiting.length === 0) {
        rack.access(1, { kind: "store", line, change: "full", ticket: ++ticket });
      }
      // What the far card has asked for is there before anything else happens at home.
      const { wires } = rack.system;
      if (wires[0]!.req.length > 0) {
        rack.note(deliver(rack.system, { from: "req", agent: 1, index: 0 }));
      } else if (!rack.step()) break;
    }
    assert.ok(rack.answered.includes("0.0"), "the verb was not answered");
    assert.ok(ticket < 6, `the verb was answered behind ${ticket} stores`);
  });
});

describe("inTurn", () => {
  it("C-09: keeps the order of coming, and has what the local cache gives back go ahead, nothing of a far card's", () => {
    const request = (text: string): Request => {
      const [agent, kind] = text.split(" ");
      const message = { agent: Number(agent), kind, line: 0, life: 0, homeLife: 1 } as WireMessage;
      return { message, isBegun: false, access: null };
    };
    const of = (...texts: string[]) =>
      inTurn(texts.map(request)).map(({ message: { agent, kind } }) => `${agent} ${kind}`);
    const far = ["1 GetS", "2 Put", "0 GetM", "1 Put", "2 Flush"];
    assert.deepEqual(of(...far), far);
    assert.deepEqual(of(...far, "0 Put", "1 Read", "0 Put"), ["0 Put", "0 Put", ...far, "1 Read"]);
  });
});
