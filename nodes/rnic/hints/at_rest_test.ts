/** Each book of hints that does not add up is told. */
import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { HINT_PLAN } from "../../../fabric/rack/plan/hint_plan.ts";
import { createDevice } from "../device.ts";
import { heldAtRest } from "../firmware/at_rest.ts";
import type { Device } from "../state/device.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { accountOf } from "./charges.ts";
import type { Charge, Hints, Word } from "./state/hint_state.ts";
import { wordKey } from "./words.ts";

const CHARGE: Charge = {
  ...{ key: wordKey(64), kind: "word", requester: 5, until: 0, position: 0 },
  lead: { at: 0, counted: undefined },
};
const WORD = { address: 64, charge: CHARGE, state: "behind" } as Word;

/** A word that is read ahead, in all books. */
function hold(hints: Hints): void {
  hints.words.set(WORD.address, WORD);
  hints.charges.set(CHARGE.key, CHARGE);
  hints.charged.set(accountOf(CHARGE), 1);
  hints.byTime.push(CHARGE);
}

const WRONG: Readonly<Record<string, (hints: Hints, device: Device) => void>> = {
  "1 fetches for hints that no quota has": ({ charged }) => charged.set(accountOf(CHARGE), 2),
  "1 fetches for hints that never get old": ({ byTime }) => byTime.clear(),
  "1 words read ahead that no quota has": (hints) => {
    hints.charges.clear();
    hints.charged.clear();
  },
  "1 words in a quota that are not on the chip": ({ words }) => words.clear(),
  "1 reads of words that have not ended": ({ words }) =>
    words.set(64, { ...WORD, state: "coming" }),
  "2 remembered scopes counted wrong": ({ quiet, hinting }) => {
    quiet.size++;
    hinting.size--;
  },
  "1 fetches of a page for hints without an effect": ({ counters }) => counters.hintPagesAsked++,
  "1 fetches of a line for hints without an effect": ({ counters }) => counters.hintLinesLate++,
  "1 fetches of a context for hints without an effect": ({ counters }) =>
    counters.hintContextsWasted++,
};

describe("what hints hold at rest", () => {
  for (const [text, spoil] of Object.entries(WRONG)) {
    it(`tells ${text}`, () => {
      const device = createDevice("a", rnicPlan("a", { hints: HINT_PLAN }), { seed: 1 });
      hold(device.hints!);
      same(heldAtRest(device), []);
      spoil(device.hints!, device);
      same(heldAtRest(device), [{ kind: "leaked", text }]);
    });
  }
});
