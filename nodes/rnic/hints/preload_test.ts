/** H-21: which words of atomics may be read ahead: those that the card knows the place of, and may write. */
import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { Fifo } from "../../../fabric/base/fifo.ts";
import { createDevice } from "../device.ts";
import type { Region } from "../state/memory.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { HINT_PLAN } from "../../../fabric/rack/plan/hint_plan.ts";
import { wordKey } from "./words.ts";
import type { Charge } from "./state/hint_state.ts";
import { createTable } from "../state/translation_table.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { holdTable } from "../paging/translation_cache.ts";
import { addressOfWord, beginPreload } from "./preload.ts";

const PAGE = 4096, BASE = 0x10_0000;

it("H-21: a word is read ahead where its page may be written, and its translation is on the chip", () => {
  const device = createDevice("a", rnicPlan("a"), { seed: 1 });
  const table = createTable(0x100, { pages: 4 });
  holdTable(device, table);
  for (const rights of [0, 1, 2] as const) {
    table.demand![rights]!.rights = rights;
    table.pages[rights] = (7 + rights) * PAGE;
  }
  const region = {
    table,
    pageBase: BASE,
    pageBytes: PAGE,
    pages: table.pages,
  } as unknown as Region;
  const at = (va: number) => addressOfWord(device, region, BASE + va);
  same([at(8), at(PAGE + 8), at(2 * PAGE + 8)], [undefined, undefined, 9 * PAGE + 8]);
  same([1, 4, 7].map((bytes) => at(2 * PAGE + bytes)), [undefined, undefined, undefined]);
  device.paging.cached.clear();
  same(at(2 * PAGE + 8), undefined, "its translation would have to be read first");
});

it("H-23: none is read while a write stands before it, or an atomic writes it", () => {
  for (const [isBehind, isBusy] of [[true, false], [false, true], [true, true]] as const) {
    const device = createDevice("a", rnicPlan("a", { hints: HINT_PLAN }), { seed: 1 });
    const address = 64;
    if (isBusy) device.atomicWords.set(address, new Fifo());
    const charge = { key: wordKey(address), kind: "word" } as Charge;
    const place = { address, charge, qp: {} as QueuePair, psn: 0, isBehind };
    const word = beginPreload(device, device.hints!, place);
    same([word.state, device.hints!.words.get(address)], ["behind", word]);
    same(device.hints!.wordCounters.hintWordsRead, 0);
  }
});
