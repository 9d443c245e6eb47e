/** Home's end: requests that wait for a slot, greetings that come too early, the region's lease. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { loseFarCard } from "../../../fabric/coherence/home_card.ts";
import { slotsHeld } from "../../../fabric/coherence/home_card_state.ts";
import { TABLES } from "../../../fabric/coherence/tables.ts";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { WireMessage } from "../../../fabric/wire/roce/coherence_messages.ts";
import type { Device } from "../state/device.ts";
import { REGION_AT, REGION_LINES, regionPlan, RegionRig } from "../testing/region_testing.ts";
import { newFarEnd } from "./far.ts";
import { actAtHome, newHomeEnd, takeOfFar } from "./home.ts";
import { type Coherence, newCoherenceCounters, newStageSpent } from "./state/coherence_state.ts";

const FIRST = REGION_AT / 64;
const CARDS = [
  { host: "b", address: 0x0a00_0002, agent: 1 },
  { host: "c", address: 0x0a00_0003, agent: 2 },
];

/** Home's end alone, with far cards that are up, and a host that answers nothing. */
function bench(sizes: Partial<SharedRegion>) {
  const regions = [regionPlan({ ...sizes, far: CARDS })];
  const home = newHomeEnd({ regions, life: 1, startedAt: 0, tables: TABLES });
  for (const { agent } of CARDS) home.card.lives.set(agent, 1);
  const counters = newCoherenceCounters();
  const coherence = { regions, home, counters, spent: newStageSpent() } as unknown as Coherence;
  const out = { send: () => 0 };
  const timing = { lookUpPs: 0, convertPs: 0 };
  const device = { now: 0, stageAt: 0, timing, coherence, out } as unknown as Device;
  const ask = (agent: number, line: number) => {
    const message: WireMessage = {
      ...{ kind: "GetS", line: FIRST + line, agent, life: 1, homeLife: 1 },
      placement: { place: "remote", version: 0 },
    };
    takeOfFar(device, { coherence, home }, message);
  };
  const lose = (agent: number) =>
    actAtHome(
      device,
      { coherence, home, from: "card" },
      (card, out) => loseFarCard(card, agent, out),
    );
  return { home, ask, lose };
}

describe("requests that wait for a slot at home", () => {
  it("decision 9: take all slots that become free at once, in the order of coming", () => {
    const { home, ask, lose } = bench({ slots: 3, entries: 1 });
    // The only entry is c's; b's requests hold a slot each and wait for an entry.
    ask(2, 0), ask(1, 1), ask(1, 2);
    assert.deepEqual([slotsHeld(home.card), home.inbox.length], [3, 0]);
    for (const line of [3, 4, 5]) ask(2, line);
    assert.deepEqual([slotsHeld(home.card), home.inbox.length], [3, 3]);
    lose(1);
    const taken = home.card.requests.map(({ message: { agent, line } }) => [agent, line - FIRST]);
    assert.deepEqual(taken, [[2, 0], [2, 3], [2, 4]]);
    assert.equal(home.inbox.length, 1);
  });
});

/** A second region of the same home, behind the first. */
function second(given: Partial<SharedRegion> = {}): SharedRegion {
  return regionPlan({ id: 1, name: "t", address: REGION_AT + REGION_LINES * 64, ...given });
}

describe("a greeting", () => {
  it("C-03: is answered when home's host has exposed all of its regions, and then at once", () => {
    const r = new RegionRig(regionPlan(), {}, [regionPlan(), second()]), { a, b } = r.rig;
    const expose = (region: number) => r.rig.command(a, { op: "register-region", region });
    assert.equal(expose(0).status, "ok");
    const id = b.host.nextCommand++;
    const command = { op: "register-region", region: 1 } as const;
    r.rig.toRnic(b, { kind: "command", id, command });
    const reply = (): RnicReply | undefined => b.host.replies.get(id);
    r.rig.runFor(40 * PS_PER_US);
    assert.ok(r.counter("a", "coherenceReceivedHello") > 0, "it has greeted");
    assert.equal(r.counter("b", "coherenceReceivedWelcome"), 0, "and waits");
    assert.equal(reply(), undefined);
    const greetings = r.counter("b", "coherenceSentHello");
    assert.equal(expose(1).status, "ok");
    r.rig.run(() => reply() !== undefined);
    assert.deepEqual(reply(), { status: "ok", op: "done" });
    assert.equal(r.counter("b", "coherenceSentHello"), greetings, "the one that waited counts");
  });
});

describe("regions of one home with different leases", () => {
  it("decision 13: a far card serves for the shortest one, and home gives nothing away before the longest", () => {
    const short = regionPlan({ leasePs: 50 * PS_PER_US, leaseMarginPs: 5 * PS_PER_US });
    const long = second({ leasePs: 200 * PS_PER_US, leaseMarginPs: 2 * PS_PER_US });
    for (const regions of [[short, long], [long, short]]) {
      const home = newHomeEnd({ regions, life: 2, startedAt: 1_000, tables: TABLES });
      assert.deepEqual(home.card.times, { lease: long.leasePs, grace: short.leaseMarginPs });
      assert.equal(home.opensAt, 1_000 + long.leasePs + short.leaseMarginPs);
      const far = newFarEnd({ home: 0x0a00_0001, regions, agent: 1, life: 1, table: TABLES.far });
      assert.equal(far.card.lease!.lease, short.leasePs);
    }
  });
});
