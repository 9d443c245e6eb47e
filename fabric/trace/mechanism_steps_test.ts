import { deepStrictEqual as same, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { MECHANISM_NUMBERS, MECHANISM_STEPS, mechanismOf } from "./mechanism_steps.ts";
import { matcherOf, predicateText, stepProblem } from "./predicate.ts";
import { STEP_WORDS } from "./step_words.ts";
import { arrowOf, documentText, stepIn, tracedAs } from "./trace_figures.ts";

const WORDS = Object.keys(MECHANISM_STEPS);

describe("steps of hints and of queue information", () => {
  it("are asked for by word or number, wherever steps are: find, until, breaks, the page's list", () => {
    for (const word of WORDS) {
      const { number = word, text } = mechanismOf(word)!;
      for (const step of [word, number]) {
        equal(stepProblem(step), undefined, step);
        const isMeant = matcherOf({ step, node: "b" });
        ok(isMeant("b", { step: word, text }), step);
        ok(!isMeant("a", { step: word, text }) && !isMeant("b", { step: "S907", text }), step);
        ok(predicateText({ step, node: "b" }).startsWith(`b ${text}`), step);
      }
      ok(Object.hasOwn(STEP_WORDS, word), `${word} is none of the words that help and page name`);
    }
  });

  it("have the documents' numbers in ladders, each once, and cite where they stand", () => {
    const own = { isOwn: true, write: 2 } as const;
    equal(stepIn(undefined, { step: "hint-out", ...own }), "608");
    equal(stepIn(9, { step: "queue-read", ...own }), "203.2");
    equal(stepIn(9, { step: "address-read", ...own }), "address-read", "003_ numbers it nowhere");
    equal(new Set(MECHANISM_NUMBERS).size, MECHANISM_NUMBERS.length);
    for (const number of MECHANISM_NUMBERS) {
      equal(arrowOf(number), arrowOf(tracedAs(number)[0]!), number);
      ok(documentText(number) !== undefined);
    }
    // A WQE that is read, or comes along, has its place in figure 2 alone.
    const uncited = WORDS.filter((word) => !/\[0\d{3}\]|\([QH]-\d\d/.test(documentText(word)!));
    same(uncited, ["wqe-read", "wqe-carried"]);
  });
});
