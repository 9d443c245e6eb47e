import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { conservation } from "../../console/checks/wire_checks.ts";
import { fill, findingsOf, PLAN, planOf } from "../../console/checks/record_testing.ts";
import { WireLedger } from "../../console/checks/wire_ledger.ts";
import { livesOf } from "../../console/checks/lives.ts";

const CABLE = PLAN.cables.find(({ kind, a }) => kind === "network" && a.node === "a-rnic") ??
  PLAN.cables.find(({ kind, b }) => kind === "network" && b.node === "a-rnic")!;
const LATENCY = CABLE.latencyPs;
/** From the card to the switch. */
const [NEAR, FAR] = CABLE.a.node === "a-rnic" ? [CABLE.a, CABLE.b] : [CABLE.b, CABLE.a];

const A = fill(1, 64), B = fill(2, 64), C = fill(3, 64);

/** A frame at an end of the cable from a's card to the switch. */
function seen(kind: "sent" | "received", time: number, frame: Uint8Array) {
  const { node, port } = kind === "sent" ? NEAR : FAR;
  const index = PLAN.nodes.findIndex(({ name }) => name === node);
  const at = { kind, time, node: index, event: time, port, startPs: time, endPs: time + 10 };
  return { ...at, frame: frame.slice(), text: "" } as const;
}

const sent = (time: number, frame: Uint8Array) => seen("sent", time, frame);
const received = (time: number, frame: Uint8Array) => seen("received", time + LATENCY, frame);

/** A frame inside a's card, which takes 10 ps. */
function looped(end: "sent" | "received", time: number, frame: Uint8Array) {
  const index = PLAN.nodes.findIndex(({ name }) => name === "a-rnic");
  const startPs = end === "sent" ? time : time - 10;
  const at = { kind: "looped", end, time, node: index, event: time } as const;
  return { ...at, startPs, endPs: startPs + 10, frame: frame.slice() } as const;
}

function find(
  all: readonly (ReturnType<typeof seen> | ReturnType<typeof looped>)[],
  of: { readonly plan?: RackPlan; readonly until?: number } = {},
): string[] {
  const { plan = PLAN, until } = of;
  const wire = new WireLedger(plan, livesOf(plan, plan.faults));
  for (const each of all) wire.see(each);
  return findingsOf(conservation, { plan, wire, ...(until !== undefined && { until }) });
}

describe("P-41: frames on a cable", () => {
  it("arrive as they were sent, in order and once", () => {
    assert.deepEqual(find([sent(0, A), sent(20, B), received(0, A), received(20, B)]), []);
  });

  it("do not come from nowhere, or twice, or changed", () => {
    const [text] = find([received(0, A)]);
    assert.match(text!, /receives a frame that was not sent, or once too often \(a-rnic->/);
    assert.equal(find([sent(0, A), received(0, A), received(5, A)]).length, 1);
    const damaged = A.slice();
    damaged[9] = 0;
    assert.equal(find([sent(0, A), received(0, damaged)]).length, 2, "and the sent one is missing");
  });

  it("do not arrive sooner than the cable is long", () => {
    assert.match(find([sent(1, A), received(0, A)])[0]!, /sooner than it can be there/);
  });

  it("do not overtake each other", () => {
    const found = find([sent(0, A), sent(20, B), received(20, B), received(21, A)]);
    assert.match(found[0]!, /receives a frame before an earlier one/);
  });

  it("are not lost, unless the run was over before", () => {
    assert.match(find([sent(0, A)])[0]!, /never receives what a-rnic sent at 0 ps/);
    assert.deepEqual(find([sent(0, A)], { until: LATENCY }), []);
    assert.equal(find([sent(0, A)], { until: LATENCY + 11 }).length, 1);
  });

  it("are lost where the cable loses, or an end of it loses power", () => {
    const all = [sent(0, A), sent(20, B), received(20, B)];
    assert.deepEqual(find(all, { plan: planOf(["{ link: a, loss: 1% }"]) }), []);
    for (const node of ["a-rnic", "tor"]) {
      const meanwhile = planOf([`{ at: ${LATENCY}ps, kill: ${node} }`]);
      assert.deepEqual(find([sent(0, A), sent(20, B)], { plan: meanwhile }), []);
      const later = planOf([`{ at: 5us, kill: ${node} }`]);
      assert.equal(find([sent(0, A), sent(20, B)], { plan: later }).length, 2);
      assert.notDeepEqual(find(all, { plan: later }), [], "it has been overtaken");
    }
    assert.notDeepEqual(find(all, { plan: planOf(["{ link: b, loss: 1% }"]) }), []);
  });

  it("are lost while the cable loses or is cut, and not before or after", () => {
    const faults = [
      ["{ link: a, loss: 1%, from: 2us, until: 4us }"],
      ["{ link: a, loss: 1%, from: 2us }", "{ at: 4us, heal: a }"],
      ["{ at: 2us, cut: a-rnic/tor }", "{ at: 4us, heal: a-rnic/tor }"],
      ["{ at: 2us, cut: a-rnic->tor }", "{ at: 4us, heal: a-rnic->tor }"],
    ];
    for (const each of faults) {
      const plan = planOf(each);
      const lost = (time: number) => find([sent(time, A)], { plan }).length;
      assert.deepEqual(
        [1_000_000, 2_000_000, 3_999_999, 5_000_000].map(lost),
        [1, 0, 0, 1],
        each[0],
      );
    }
    const cut = planOf(faults[2]!);
    assert.deepEqual(find([sent(2_000_000 - LATENCY, A)], { plan: cut }), [], "it is on its way");
    const otherWay = planOf(["{ at: 2us, cut: tor->a-rnic }"]);
    assert.equal(find([sent(3_000_000, A)], { plan: otherWay }).length, 1);
  });

  it("are lost to a node that has no power, until it has it again", () => {
    const plan = planOf(["{ at: 1us, kill: tor }", "{ at: 2us, start: tor }"]);
    assert.deepEqual(find([sent(1_500_000, A)], { plan }), []);
    assert.deepEqual(find([sent(2_010_000, A)], { plan }), [], "the sender knows nothing of it");
    assert.equal(find([sent(2_500_000, A)], { plan }).length, 1);
  });

  it("may be alike: which of them was lost is the cable's to know", () => {
    const loss = planOf(["{ link: a, loss: 1%, from: 2us, until: 4us }"]);
    const cut = planOf(["{ at: 2us, cut: a-rnic/tor }", "{ at: 4us, heal: a-rnic/tor }"]);
    for (const plan of [loss, cut]) {
      const all = [sent(3_000_000, A), sent(6_000_000, A), received(6_000_000, A)];
      assert.deepEqual(find(all, { plan }), [], "the first");
      assert.deepEqual(find([...all, sent(7e6, B), received(7e6, B)], { plan }), []);
      const missing = [
        sent(3e6, A),
        received(3e6, A),
        sent(6e6, A),
        sent(7e6, B),
        received(7e6, B),
      ];
      assert.equal(find(missing, { plan }).length, 2, "the second, which nothing may lose");
      assert.equal(find([...all, received(6_000_010, A), received(7e6, A)], { plan }).length, 1);
    }
  });

  it("C-01 (in part): may be sent again with the very bytes where the cable doubles", () => {
    const plan = planOf(["{ link: a, duplicate: 1% }"]);
    const again = [sent(0, A), received(0, A), sent(9e5, A), received(9e5, A)];
    assert.deepEqual(find(again, { plan }), [], "no frame is doubled");
    assert.deepEqual(find([...again, received(9e5 + 10, A)], { plan }), [], "the second is");
    const both = [...again.slice(0, 2), received(10, A), ...again.slice(2), received(9e5 + 10, A)];
    assert.deepEqual(find(both, { plan }), [], "both are");
    assert.equal(find([...both, received(9e5 + 20, A)], { plan }).length, 1, "one too often");
    assert.equal(find([...again, sent(2e6, A)], { plan }).length, 1, "the third is missing");
    // A duplicate that arrives before a frame which is on its way is not the one behind that.
    const doubled = [sent(0, A), sent(10, B), sent(20, A), received(0, A), received(40, A)];
    assert.deepEqual(find([...doubled, received(50, B), received(60, A)], { plan }), []);
  });

  it("are lost with a process that was killed, whenever it had sent them", () => {
    const wire = new WireLedger(PLAN, livesOf(PLAN, [{ at: 9e6, action: "kill", node: "a-rnic" }]));
    for (const each of [sent(0, A), sent(20, B), received(20, B)]) wire.see(each);
    assert.deepEqual(findingsOf(conservation, { wire }), []);
  });

  it("may come to a process that was killed at the last instant that is known of it", () => {
    const at = 9_000_000;
    const find = (time: number, power = livesOf(PLAN, [{ at, action: "kill", node: "tor" }])) => {
      const wire = new WireLedger(PLAN, power);
      // It went on to 9.5 µs, which counts as before its death.
      for (const each of [received(time - LATENCY, A), sent(9_300_000, A)]) wire.see(each);
      return findingsOf(conservation, { wire });
    };
    assert.deepEqual(find(at - 1), []);
    assert.equal(find(at - 2).length, 1);
    assert.equal(find(at - 1, livesOf(PLAN, [])).length, 2);
    const wire = new WireLedger(PLAN, livesOf(PLAN, [{ at, action: "kill", node: "tor" }]));
    for (const each of [sent(at - 2, A), received(at - 1 - LATENCY, A)]) wire.see(each);
    assert.deepEqual(findingsOf(conservation, { wire }), []);
  });

  it("are late where the cable delays or holds them back, and lost no sooner", () => {
    for (const fault of ["delay: 3us, jitter: 1us, share: 1%", "reorder: 1%, hold: 4us"]) {
      const plan = planOf([`{ link: a, ${fault} }`]);
      assert.deepEqual(find([sent(0, A)], { plan, until: LATENCY + 4_000_000 }), [], fault);
      assert.equal(find([sent(0, A)], { plan, until: LATENCY + 4_001_000 }).length, 1, fault);
    }
  });

  it("come twice where the cable doubles, and no more often", () => {
    const plan = planOf(["{ link: a, duplicate: 1% }"]);
    const all = [sent(0, A), sent(20, B), received(0, A), received(20, B), received(22, A)];
    assert.deepEqual(find(all, { plan }), []);
    assert.equal(find([...all, received(23, A)], { plan }).length, 1);
    assert.notDeepEqual(find(all), []);
  });

  it("do not overtake each other where the cable loses and doubles", () => {
    const plan = planOf(["{ link: a, loss: 1% }", "{ link: a, duplicate: 1% }"]);
    const all = [sent(0, A), sent(20, B), received(20, B), received(22, B)];
    assert.deepEqual(find(all, { plan }), []);
    assert.equal(find([...all, received(23, A)], { plan }).length, 1, "A is given up");
  });

  it("change by a bit where the cable damages", () => {
    const plan = planOf(["{ link: a, corrupt: 1% }"]);
    const flipped = A.slice();
    flipped[3]! ^= 4;
    assert.deepEqual(find([sent(0, A), received(0, flipped)], { plan }), []);
    flipped[4]! ^= 4;
    assert.notDeepEqual(find([sent(0, A), received(0, flipped)], { plan }), []);
  });

  it("V-08: change by a bit and have another ICRC where the damage was sealed", () => {
    const sealed = planOf(["{ link: a, corrupt: 1%, past: icrc }"]);
    const resealed = A.slice();
    resealed[3]! ^= 4;
    resealed.set([9, 9, 9, 9], 60);
    const all = () => [sent(0, A), sent(20, B), received(0, resealed), received(20, B)];
    assert.deepEqual(find(all(), { plan: sealed }), []);
    assert.notDeepEqual(find(all(), { plan: planOf(["{ link: a, corrupt: 1% }"]) }), []);
    resealed[4]! ^= 4;
    assert.notDeepEqual(find(all(), { plan: sealed }), [], "one fault turns over one bit");
  });

  it("V-08: damage is told of the frame that it is least of", () => {
    const two = planOf(["{ link: a, corrupt: 1% }", "{ link: a, corrupt: 1% }"]);
    const near = A.slice(), flipped = A.slice();
    near[5]! ^= 1;
    flipped[3]! ^= 4;
    const all = [sent(0, near), sent(20, A), received(0, near), received(20, flipped)];
    assert.deepEqual(find(all, { plan: two }), []);
    const swapped = [sent(0, near), sent(20, A), received(20, flipped), received(21, near)];
    assert.match(find(swapped, { plan: two })[0]!, /before an earlier one/);
  });

  it("overtake where the cable reorders", () => {
    const plan = planOf(["{ link: a, reorder: 1% }"]);
    const all = [
      sent(0, A),
      sent(20, B),
      sent(40, C),
      received(20, B),
      received(40, C),
      received(41, A),
    ];
    assert.deepEqual(find(all, { plan }), []);
    assert.notDeepEqual(find(all), []);
  });
});

describe("P-41: frames that a card sends to its own address", () => {
  const out = (time: number, frame: Uint8Array) => looped("sent", time, frame);
  const back = (time: number, frame: Uint8Array) => looped("received", time, frame);

  it("come back as they were sent, in order and once", () => {
    assert.deepEqual(
      find([out(0, A), back(10, A), out(10, B), out(20, A), back(20, B), back(30, A)]),
      [],
    );
  });

  it("do not come from nowhere, twice, changed, early or out of order", () => {
    assert.match(find([back(10, A)])[0]!, /a-rnic turns round a frame that it has not sent next/);
    assert.equal(find([out(0, A), back(10, A), back(11, A)]).length, 1);
    assert.equal(find([out(0, A), back(10, B)]).length, 1);
    assert.match(find([out(0, A), back(9, A)])[0]!, /before it has sent it/);
    assert.equal(find([out(0, A), out(10, B), back(20, B), back(20, A)]).length, 2);
  });

  it("are not lost, unless the run was over or the card or its host had no power", () => {
    assert.match(find([out(0, A)])[0]!, /a-rnic never receives what it sent to itself at 0 ps/);
    assert.deepEqual(find([out(0, A)], { until: 10 }), []);
    for (const node of ["a-rnic", "a"]) {
      assert.deepEqual(find([out(0, A)], { plan: planOf([`{ at: 5ps, kill: ${node} }`]) }), []);
      assert.equal(find([out(0, A)], { plan: planOf([`{ at: 11ps, kill: ${node} }`]) }).length, 1);
    }
  });

  it("do not overlap", () => {
    const wire = new WireLedger(PLAN, livesOf(PLAN, []));
    for (const each of [out(0, A), out(9, B)]) wire.see(each);
    assert.match(wire.overlapping[0]!.text, /turns a frame round from 9 ps on/);
  });
});
