import { deepStrictEqual as same, rejects } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { inOrder } from "./in_order.ts";

describe("inOrder", () => {
  it("tries nothing behind the first failure, and says which it was", async () => {
    const works: (() => Promise<void>)[] = [], tried: string[] = [];
    const step = inOrder((_, work) => void works.push(work));
    for (const name of ["one", "two", "three"]) {
      step(name, () => {
        tried.push(name);
        return name === "two" ? Promise.reject(new Error("no")) : Promise.resolve();
      });
    }
    const [one, two, three] = works;
    await one!();
    await rejects(two!, /^Error: no$/);
    await rejects(three!, /not tried, as "two" has failed/);
    same(tried, ["one", "two"]);
  });
});
