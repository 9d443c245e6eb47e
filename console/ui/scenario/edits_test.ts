import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { editsIn } from "./edits.ts";

it("editsIn reads what was kept, and takes nothing else for it", () => {
  same(editsIn('[["persist_pair","name: x"]]'), new Map([["persist_pair", "name: x"]]));
  for (const text of [null, "", "{", "7", "{}", '["ab"]', '[["a"]]', '[["a",1]]']) {
    same(editsIn(text), new Map(), String(text));
  }
});
