/** Which writes make a word on the chip void (H-23). */
import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { HINT_PLAN } from "../../../fabric/rack/plan/hint_plan.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { type Charge, createHints, type Word } from "./state/hint_state.ts";
import type { AtomicTask } from "../state/operation.ts";
import { compareOperands, overwriteWords, snoopLine, wordKey } from "./words.ts";

/** A chip with the word at 128 on it, or to be read behind a write. */
function chipWith(state: Word["state"]) {
  const hints = createHints(HINT_PLAN)!;
  const address = 128;
  const lead = { at: 0, counted: undefined };
  const place = { kind: "word", requester: 1, position: 0, until: 1, lead } as const;
  const charge: Charge = { key: wordKey(address), ...place };
  const announced = { qp: {} as QueuePair, psn: 0, charge, address, announced: [] };
  const word: Word = { ...announced, state, value: 0n, uses: 1, used: false, turn: undefined };
  hints.words.set(address, word);
  hints.charges.set(charge.key, charge);
  hints.charged.set(3 + 4 * place.requester, 1);
  return { hints, word };
}

/** Bytes [from, to) that have one of the word's. */
const INTO = [[120, 129], [128, 129], [128, 136], [132, 133], [135, 136], [135, 200], [0, 4096]];
const BESIDE = [[120, 128], [136, 144], [0, 128], [136, 137]];

it("H-23: a write of any of its bytes makes a word void, one beside it does not", () => {
  for (const [from, to] of [...INTO, ...BESIDE] as [number, number][]) {
    const isInto = INTO.some(([begin, end]) => begin === from && end === to);
    const write = { address: from, length: to - from, keepsWord: false };
    const here = chipWith("here");
    same(overwriteWords(here.hints, write), []);
    same(here.word.state, isInto ? "gone" : "here", `[${from}, ${to})`);
    same(here.hints.charges.size, isInto ? 0 : 1);
    // It is read behind the write that it stands behind.
    const behind = chipWith("behind");
    same(overwriteWords(behind.hints, write), isInto ? [behind.word] : []);
    const own = chipWith("here");
    same(overwriteWords(own.hints, { address: 128, length: 8, keepsWord: true }), []);
    same(own.word.state, "here", "its new value");
  }
});

it("H-23: a store of a core makes the words of its line void, and of no other", () => {
  for (const [line, state] of [[64, "here"], [128, "gone"], [192, "here"]] as const) {
    const { hints, word } = chipWith("here");
    snoopLine(hints, line);
    same(word.state, state);
  }
});

it("H-03 [0086]: operands are compared as far as the operation has them, of the atomic with that number alone", () => {
  for (
    const [compares, swapAdd, compare, isSame] of [
      [true, 5n, 6n, true],
      [true, 5n, 7n, false],
      [true, 4n, 6n, false],
      [false, 5n, 7n, true],
      [false, 4n, 6n, false],
    ] as const
  ) {
    const { hints, word } = chipWith("here");
    word.announced.push({ qp: word.qp, psn: 3, operands: { swapAdd: 5n, compare: 6n } });
    const task = { swapAdd, compare, rule: { compares } } as unknown as AtomicTask;
    for (const psn of [2, 3, 3]) compareOperands(hints, word, { qp: word.qp, psn, task });
    const { hintOperandsSame, hintOperandsOther } = hints.operandCounters;
    same([hintOperandsSame, hintOperandsOther], isSame ? [1, 0] : [0, 1]);
  }
});
