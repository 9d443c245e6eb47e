/** Which writes make a word on the chip void (H-23). */
import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { HINT_PLAN } from "../../../fabric/rack/plan/hint_plan.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { type Charge, createHints, type Word } from "./state/hint_state.ts";
import { overwriteWords, snoopLine, wordKey } from "./words.ts";

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
