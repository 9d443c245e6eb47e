import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { Deadlines } from "../../../fabric/base/deadlines.ts";
import { NEVER, PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import { createDevice } from "../device.ts";
import { regionPlan } from "../testing/region_testing.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { CARD_QPN, connect, disconnect, newLink, sendMessage } from "./link.ts";
import { cardQueuePairFailed, coherenceSlots, createCoherence } from "./serve.ts";

describe("a link of two cards", () => {
  it("decision 8: gives all that its queue pairs have back, however often a far card begins a new life", () => {
    const shared = [regionPlan()];
    const device = createDevice("a", rnicPlan("a", { shared }), { seed: 1 });
    device.deadlines = new Deadlines(8 * (coherenceSlots(device) + 8));
    const coherence = createCoherence(device)!;
    const taken = () => [
      device.slots.filter((qp) => qp !== undefined).length,
      device.queuePairs.size,
      coherence.links.size,
    ];
    const before = taken();
    const numbers = new Set<number>();
    for (let life = 1; life <= 5; life++) {
      const of = { role: "home", peer: 0x0a00_0002, agent: 1, life } as const;
      const link = newLink(device, coherence, of);
      connect(device, coherence, { link, peer: { qpn: 0xc0_0000, psn: 7 } });
      assert.deepEqual(taken(), before.map((count) => count + 3));
      assert.equal(new Set(link.queuePairs.map(({ slot }) => slot)).size, 3);
      numbers.add(link.firstQpn).add(link.firstPsn);
      disconnect(device, coherence, link);
      assert.deepEqual(taken(), before);
      assert.deepEqual(link.queuePairs, []);
    }
    assert.equal(numbers.size, 10, "no number or first PSN is that of an earlier link");
  });

  it("decision 13: sends nothing more by any of its queue pairs once one of them has failed", () => {
    const shared = [regionPlan()];
    const device = createDevice("a", rnicPlan("a", { shared }), { seed: 1 });
    device.deadlines = new Deadlines(8 * (coherenceSlots(device) + 8));
    const coherence = createCoherence(device)!;
    const link = newLink(device, coherence, { role: "home", peer: 0x0a00_0002, agent: 1, life: 1 });
    connect(device, coherence, { link, peer: { qpn: 0xc0_0000, psn: 7 } });
    const say = (kind: "RecI" | "WbAck" | "Flush") => {
      const message = { kind, line: 8, agent: 1, life: 1, homeLife: 1 };
      sendMessage(device, link, { message, region: 0 });
    };
    const queued = () => link.queuePairs.map(({ requester }) => requester.work.length);
    say("RecI"), say("WbAck");
    assert.deepEqual(queued(), [0, 1, 1]);
    link.isFailed = true;
    say("RecI"), say("WbAck"), say("Flush");
    assert.deepEqual(queued(), [0, 1, 1]);
  });

  it("decision 13: that fails ends the far card's life at once, and at home stops the renewal of its lease alone", () => {
    const shared = [regionPlan()], LEASE_END = shared[0]!.leasePs + shared[0]!.leaseMarginPs;
    const cardOf = (side: "a" | "b") => {
      const device = createDevice(side, rnicPlan(side, { shared }), { seed: 1 });
      device.deadlines = new Deadlines(8 * (coherenceSlots(device) + 8));
      device.coherence = createCoherence(device)!;
      device.now = 1_000;
      return { device, coherence: device.coherence };
    };
    const made = ({ device, coherence }: ReturnType<typeof cardOf>, role: "home" | "far") => {
      const peer = role === "home" ? 0x0a00_0002 : 0x0a00_0001;
      const link = newLink(device, coherence, { role, peer, agent: 1, life: 1 });
      connect(device, coherence, { link, peer: { qpn: 0xc0_0000, psn: 7 } });
      return link;
    };
    const atHome = cardOf("a"), home = atHome.coherence.home!, link = made(atHome, "home");
    home.card.lives.set(1, 1);
    home.card.now = 1_000;
    cardQueuePairFailed(atHome.device, link.queuePairs[1]!);
    assert.equal(link.isFailed, true);
    assert.deepEqual([...home.card.lives.keys()].includes(1), true, "it may still serve");
    assert.deepEqual(home.card.leases.get(1), {
      ...{ until: 1_000 + LEASE_END, echo: null, isStopped: true },
    });

    const atFar = cardOf("b"), far = atFar.coherence.fars.get(0x0a00_0001)!;
    const earlier = made(atFar, "far");
    far.link = made(atFar, "far");
    cardQueuePairFailed(atFar.device, earlier.queuePairs[0]!);
    assert.equal(far.renewAt, NEVER, "a link that is not its own any more");
    cardQueuePairFailed(atFar.device, far.link.queuePairs[2]!);
    assert.deepEqual([far.link.isFailed, far.renewAt], [true, 1_000]);
  });

  /** The numbers of the first links of a card that starts at this time. */
  function numbersOf(startedAt: Time, count: number): number[] {
    const shared = [regionPlan()];
    const device = createDevice("a", rnicPlan("a", { shared }), { seed: 1 });
    device.startedAt = startedAt;
    device.deadlines = new Deadlines(8 * (coherenceSlots(device) + 8));
    const coherence = createCoherence(device)!;
    return Array.from({ length: count }, (_, life) => {
      const of = { role: "home", peer: 0x0a00_0002, agent: 1, life } as const;
      return newLink(device, coherence, of).firstQpn;
    });
  }

  it("decision 14: has other numbers than those of the card's earlier starts, so that their frames are none of its", () => {
    const starts = [0, PS_PER_US, 100 * PS_PER_US, 2_000_000 * PS_PER_US].map((at) =>
      numbersOf(at, 1)
    );
    assert.equal(new Set(starts.flat()).size, starts.length);
  });

  it("decision 8: has numbers of 24 bits, none of them that of greetings, whenever the card has started", () => {
    for (const started of [0, 0xf_fffe, 0xf_ffff, 0x1f_fffd, 0x1f_fffe, 0x1f_ffff]) {
      const first = numbersOf(started * PS_PER_US, 3);
      assert.equal(new Set(first).size, 3);
      for (const qpn of first) {
        assert.ok(
          qpn >= 0xc0_0000 && qpn + 2 < CARD_QPN,
          `0x${qpn.toString(16)}, from ${started} us`,
        );
      }
    }
  });
});
