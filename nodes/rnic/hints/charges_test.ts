/** H-30: what becomes of each kind of fetch, by how a request finds it, in counters, lead times and the quota. */
import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { HINT_PLAN } from "../../../fabric/rack/plan/hint_plan.ts";
import type { Device } from "../state/device.ts";
import { HINTS } from "./extension.ts";
import { createTable } from "../state/translation_table.ts";
import {
  accountOf,
  chargeKey,
  contextKey,
  redeemContext,
  redeemLine,
  redeemPage,
  release,
} from "./charges.ts";
import { type Charge, createHints, type HintCounters } from "./state/hint_state.ts";
import { LEAD_OUTCOMES } from "./state/leads.ts";

const REQUESTER = 7, PLACE = 2;

interface Case {
  readonly kind: "page" | "line" | "context";
  readonly found: "there" | "coming" | "gone";
  /** Place of the element in its hint. */
  readonly position: number;
  readonly counts: Partial<HintCounters>;
  readonly lead: typeof LEAD_OUTCOMES[number];
}

const NAMES = { page: "Pages", line: "Lines", context: "Contexts" } as const;
const FOUND = { there: "Useful", coming: "Late", gone: "Wasted" } as const;
const LEADS = { there: "useful", coming: "late", gone: "wasted" } as const;

const CASES = (["page", "line", "context"] as const).flatMap((kind) =>
  (["there", "coming", "gone"] as const).flatMap((found) =>
    [0, 1].map((position): Case => {
      const behindFirst = kind === "page" ? "hintPagesLateBehindFirst" : "hintMissesBehindFirst";
      const isBehind = found === "coming" && position > 0;
      const counts = {
        [`hint${NAMES[kind]}${FOUND[found]}`]: 1,
        ...isBehind && { [behindFirst]: 1 },
      };
      return { kind, found, position, counts, lead: LEADS[found] };
    })
  )
);

describe("a fetch for a hint (H-30)", () => {
  for (const { kind, found, position, counts, lead } of CASES) {
    it(`${kind} of element ${position}, ${found}: ${Object.keys(counts)}`, () => {
      const hints = createHints(HINT_PLAN)!;
      const table = createTable(0x100, { pages: 64 });
      const key = kind === "context" ? contextKey(PLACE) : chargeKey(table, kind, PLACE);
      const charge: Charge = {
        ...{ key, kind, requester: REQUESTER, until: 0, position },
        lead: { at: 0, counted: undefined },
      };
      hints.charges.set(key, charge);
      hints.charged.set(accountOf(charge), 2);
      const redeem = (place: number) => {
        const now = 5;
        if (kind === "context") return redeemContext(hints, { queue: place, now }, found);
        if (kind === "line") return redeemLine(hints, { table, line: place, now }, found);
        table.demand![place]!.asked = found === "coming" ? 2 : 0;
        redeemPage(hints, { table, page: place, now }, found === "there");
      };
      // Another one, and the same one twice.
      for (const place of [PLACE + 1, PLACE, PLACE]) redeem(place);
      const counted = Object.entries(hints.counters).filter(([, count]) => count > 0);
      same(Object.fromEntries(counted), counts);
      same(
        LEAD_OUTCOMES.map((each) => hints.leads[each][0]),
        LEAD_OUTCOMES.map((each) => Number(each === lead)),
      );
      same([hints.charges.size, hints.charged.get(accountOf(charge))], [0, 1]);
    });
  }

  it("H-24: is in the quota of its requester and kind alone", () => {
    const hints = createHints(HINT_PLAN)!;
    const lead = { at: 0, counted: undefined };
    const kinds = ["page", "line", "context", "word"] as const;
    const all = [6, 7].flatMap((requester) =>
      kinds.map((kind, i): Charge => (
        { key: requester * 10 + i, kind, requester, until: 0, position: 0, lead }
      ))
    );
    for (const charge of all) {
      hints.charges.set(charge.key, charge);
      hints.charged.set(accountOf(charge), 1);
    }
    same(hints.charged.size, all.length);
    const device = { hints } as Device;
    same(HINTS.statistics(device, "program").hintPagesUnused, 2, "of which two are pages");
    for (const [i, charge] of all.entries()) {
      release(hints, charge);
      same([...hints.charged.keys()], all.slice(i + 1).map(accountOf));
    }
  });
});
