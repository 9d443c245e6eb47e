/** Each thing that a coherent card still has at rest is told, of both its ends. */
import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { FarCard } from "../../../fabric/coherence/far_card.ts";
import { NONE } from "../../../fabric/coherence/home_card_table.ts";
import { LOCAL_CACHE } from "../../../fabric/wire/roce/coherence_messages.ts";
import { createDevice } from "../device.ts";
import { heldAtRest } from "../firmware/at_rest.ts";
import { regionPlan } from "../testing/region_testing.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { COHERENCE } from "./extension.ts";
import type { Coherence, FarEnd, HomeEnd } from "./state/coherence_state.ts";

/** What the books have is not looked at. */
// deno-lint-ignore no-explicit-any
const ANY: any = {};
const CLEAN = { phase: "idle", snoop: null, sharers: 0, owner: NONE };

const line = (card: FarCard, state: string) => void card.lines.set(5, { state } as typeof ANY);
const lent = ({ card }: HomeEnd, its: object) =>
  void card.lines.set(5, { ...CLEAN, ...its } as typeof ANY);

const AT_HOME: Readonly<Record<string, (home: HomeEnd) => void>> = {
  "1 requests at the directory": ({ card }) => card.requests.push(ANY),
  "2 requests at the directory": ({ card, inbox }) => (card.requests.push(ANY), inbox.push(ANY)),
  "1 transactions of the directory": (home) => lent(home, { snoop: ANY }),
  "1 lines lent to far cards": (home) => lent(home, { sharers: 2 }),
  "1 leases of far cards": ({ card }) => card.leases.set(1, ANY),
  "1 lines to be purged": ({ card }) => card.purges.add(5),
  "1 accesses of the local cache": ({ card }) => card.local.waiting.push(ANY),
  "2 accesses of the local cache": ({ card: { local } }) => {
    local.waiting.push(ANY);
    local.active.set(5, ANY);
  },
  "1 lines of the local cache under way": ({ card }) => line(card.local, "IS"),
  "1 deregistrations under way": ({ closing }) => closing.set(1, ANY),
  "1 greetings not answered": (home) => {
    for (const region of home.regions) home.exposed.set(region.id, region);
    home.card.now = home.opensAt;
    home.greetings.set(1, ANY);
  },
};

const AT_FAR: Readonly<Record<string, (far: FarEnd) => void>> = {
  "2 accesses of the remote cache": ({ card }) => {
    card.waiting.push(ANY);
    card.active.set(5, ANY);
  },
  "1 accesses of cores to shared regions": ({ accesses }) => accesses.set(1, ANY),
  "1 lines of the remote cache": ({ card }) => line(card, "S"),
  "1 requests without a credit": ({ outbox }) => outbox.push(ANY),
  "3 credits of home taken": (far) => far.credits = 3,
  "1 registrations not answered": ({ asked }) => asked.set(0, ANY),
  "1 greetings without an answer": (far) => far.greeting = ANY,
};

const NOTHING: Readonly<Record<string, (home: HomeEnd) => void>> = {
  "a line of the local cache alone": (home) => lent(home, { sharers: 1 << LOCAL_CACHE }),
  "one that it owns": (home) => lent(home, { owner: LOCAL_CACHE }),
  "one that is stable there": ({ card }) => line(card.local, "M"),
  "a greeting before all regions are exposed": ({ greetings }) => greetings.set(1, ANY),
  "one before earlier leases are over": (home) => {
    for (const region of home.regions) home.exposed.set(region.id, region);
    Object.assign(home, { opensAt: home.card.now + 1 });
    home.greetings.set(1, ANY);
  },
};

function cardOf(name: "a" | "b"): { readonly held: () => unknown; readonly coherence: Coherence } {
  const device = createDevice(name, rnicPlan(name, { shared: [regionPlan()] }), { seed: 1 });
  COHERENCE.start(device);
  return { held: () => heldAtRest(device), coherence: device.coherence! };
}

describe("what a coherent card has at rest", () => {
  for (const [name, spoils] of [["a", AT_HOME], ["b", AT_FAR]] as const) {
    for (const text of Object.keys(spoils)) {
      it(`tells ${text}`, () => {
        const { held, coherence: { home, fars } } = cardOf(name);
        same(held(), []);
        const [far] = fars.values();
        if (name === "a") AT_HOME[text]!(home!);
        else AT_FAR[text]!(far!);
        same(held(), [{ kind: "leaked", text }]);
      });
    }
  }

  for (const [what, change] of Object.entries(NOTHING)) {
    it(`says nothing of ${what}`, () => {
      const { held, coherence } = cardOf("a");
      change(coherence.home!);
      same(held(), []);
    });
  }

  it("tells queue pairs whose link is over, and messages of links that are not acknowledged", () => {
    const { held, coherence: { links } } = cardOf("b");
    const work = { requester: { work: { length: 2 } } };
    links.set(work as typeof ANY, { isFailed: false } as typeof ANY);
    const over = "1 queue pairs of links that are over";
    const messages = "2 messages of links without an acknowledgement";
    same(held(), [over, messages].map((text) => ({ kind: "leaked", text })));
    links.set(work as typeof ANY, { isFailed: true } as typeof ANY);
    same(held(), [{ kind: "leaked", text: over }]);
  });
});
