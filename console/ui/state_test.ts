import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { changed, parsePlace, type Place, placeText } from "./state.ts";

describe("placeText", () => {
  it("is read again by parsePlace, whatever is selected", () => {
    const selections: readonly Place["select"][] = [
      { kind: "device", name: "b-rnic" },
      { kind: "cable", name: "leaf1/spine1#2" },
      { kind: "queue pair", device: "a-rnic", number: 17 },
      { kind: "operation", number: 4 },
      { kind: "line", host: "b", address: 4096 },
      undefined,
    ];
    for (const select of selections) {
      const place: Place = {
        view: "memory",
        run: "20261123-a b&c",
        variant: "write-read_ddio_off",
        at: 222_441_179,
        ...(select !== undefined && { select }),
        more: { compare: "x" },
      };
      assert.deepEqual(parsePlace(placeText(place)), place);
    }
  });

  it("leaves out what an address says wrong", () => {
    assert.deepEqual(parsePlace("#/nowhere?at=-1&select=line~b~x&run="), {
      view: "rack",
      more: {},
    });
    assert.deepEqual(parsePlace(""), { view: "rack", more: {} });
  });
});

describe("changed", () => {
  const from: Place = {
    view: "rack",
    run: "r",
    variant: "v",
    select: { kind: "device", name: "b" },
    at: 5,
    more: { x: "y" },
  };

  it("keeps selection and instant from view to view, and drops what one view added", () => {
    assert.deepEqual(changed(from, { view: "memory" }), { ...from, view: "memory", more: {} });
    assert.deepEqual(changed(from, { at: undefined }).at, undefined);
  });

  it("forgets the instant with another variant of the run, not what is selected", () => {
    const { at: _, ...without } = from;
    assert.deepEqual(changed(from, { variant: "w" }), { ...without, variant: "w" });
    assert.deepEqual(changed(from, { variant: "v" }), from);
    assert.deepEqual(changed(from, { variant: "w", at: 7 }), { ...from, variant: "w", at: 7 });
  });

  it("forgets variant, selection and instant with another run", () => {
    assert.deepEqual(changed(from, { run: "other" }), {
      view: "rack",
      run: "other",
      more: from.more,
    });
    assert.deepEqual(changed(from, { run: "r" }), from);
    // The first one is found by the page: the address meant it.
    const { run: _, ...without } = from;
    assert.deepEqual(changed(without, { run: "r" }), from);
  });
});
