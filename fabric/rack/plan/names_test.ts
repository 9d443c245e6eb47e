import { deepEqual, equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  hostOfRnic,
  indexOfRnic,
  machineOf,
  MAX_RNICS,
  namesInRange,
  rnicName,
  rnicNames,
} from "./names.ts";

describe("names of RNICs", () => {
  it("are the host's with the number of the RNIC, but for the first one", () => {
    deepEqual(rnicNames("a", 3), ["a-rnic", "a-rnic2", "a-rnic3"]);
    equal(rnicName("a"), "a-rnic");
  });

  it("name their host and their place in it", () => {
    for (const host of ["a", "h-12", "x-rnic1"]) {
      for (const [index, name] of rnicNames(host, MAX_RNICS).entries()) {
        deepEqual([hostOfRnic(name), indexOfRnic(name), machineOf(name)], [host, index, host]);
      }
    }
  });

  it("are no other names", () => {
    for (
      const name of ["a", "tor", "a-rnic0", "a-rnic1", "a-rnic01", "a-rnicx", "-rnic", "rnic2"]
    ) {
      deepEqual([hostOfRnic(name), indexOfRnic(name), machineOf(name)], [
        undefined,
        undefined,
        name,
      ]);
    }
  });
});

describe("namesInRange", () => {
  it("denotes hosts, and an RNIC of each", () => {
    deepEqual(namesInRange("h08..h10"), ["h08", "h09", "h10"]);
    deepEqual(namesInRange("h1..h2-rnic"), ["h1-rnic", "h2-rnic"]);
    deepEqual(namesInRange("h1..h2-rnic2"), ["h1-rnic2", "h2-rnic2"]);
    deepEqual(namesInRange("h1-rnic2..h2-rnic2"), ["h1-rnic2..h2-rnic2"]);
    deepEqual(namesInRange("h2..h1-rnic2"), ["h2..h1-rnic2"]);
  });
});
