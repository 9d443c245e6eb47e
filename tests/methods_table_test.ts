/** The README's table of the methods is the one that this tree makes. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { measureMethods, withMethods } from "../scripts/bench/methods.ts";
import { measureVerified, withVerified } from "../scripts/bench/verified.ts";

describe("The README's table of methods", () => {
  it("P-40: is what a run gives, to the digit (deno task bench --only m --write)", async () => {
    const readme = await Deno.readTextFile(new URL("../README.md", import.meta.url));
    assert.equal(readme, withMethods(readme, measureMethods(7)));
  });

  it("V-10: of verified writes is what a run gives, too", async () => {
    const readme = await Deno.readTextFile(new URL("../README.md", import.meta.url));
    assert.equal(readme, withVerified(readme, measureVerified(7)));
  });
});
