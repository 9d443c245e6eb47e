import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { VIRTUAL_SCM_BASE } from "../../../nodes/host/memory/address_map.ts";
import type { Steps } from "../../../nodes/host/cpu/program.ts";
import type { OwnProgram } from "../../../nodes/host/own_programs.ts";
import type { RecoveryContext } from "../../../nodes/host/recovery/protocol.ts";
import { Robustness } from "./robustness.ts";
import type { StrictHistory } from "./strict_history.ts";

/** What the run has written: these words, with zeros. */
const WRITTEN = [0, 8, 16];

it("Robustness judges words that a recovery reads before it writes them, and each recovery by itself", () => {
  const history = {
    versions: (_host: string, word: number) =>
      WRITTEN.includes(word) ? [{ value: 0n, write: undefined, at: 0 }] : undefined,
    visibleBefore: () => [],
  } as unknown as StrictHistory;
  const robustness = new Robustness(history, new Set(["log"]));
  let writes = true;
  function* recover({ cpu }: RecoveryContext): Steps<void> {
    cpu.load(VIRTUAL_SCM_BASE, 8);
    if (writes) cpu.store(VIRTUAL_SCM_BASE + 8, new Uint8Array(8));
    yield* cpu.settle();
    cpu.load(VIRTUAL_SCM_BASE, 24);
  }
  const program = { recover } as unknown as OwnProgram;
  const own = robustness.watch({ log: () => program, other: () => program });
  same(own["other"]!(), program, "that of another program is not watched");
  function* settle(): Steps<void> {}
  const cpu = { scm: { length: 64 }, now: 0, load: () => new Uint8Array(24), store() {}, settle };
  const context = { host: "b", options: {}, cpu } as unknown as RecoveryContext;
  let words = 0;
  for (writes of [true, false, true]) {
    robustness.begin();
    same(own["log"]!().recover!(context).next().done, true, "it waits for nothing");
    same(robustness.finding(100), undefined);
    // What one has written is its own, and its own alone.
    words += writes ? 2 : 3;
    same([robustness.words, robustness.unexplained], [words, 0]);
  }
});
