import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { EXIT } from "../../../fabric/base/exit.ts";
import { RackError } from "../../base/rack_error.ts";
import { compareDigests } from "./resume_run.ts";

describe("compareDigests", () => {
  const expected = { run: "r", at: 2_000, nodes: [["a", "01"], ["b", "02"]] as [string, string][] };
  const partitionsWith = (b: string) => [
    { partition: "a", reached: 2_000, nodes: [["a", "01", 1] as const] },
    { partition: "b", reached: null, nodes: [["b", b, 1] as const] },
  ];

  it("takes the run's digests, and names the first device that has another", () => {
    compareDigests({ partitions: partitionsWith("02") }, expected);
    assert.throws(() => compareDigests({ partitions: partitionsWith("03") }, expected), (error) => {
      assert.ok(error instanceof RackError && error.code === EXIT.failed);
      assert.match(
        error.message,
        /other events on b .* than in r before 2 ns: digest 03, expected 02/,
      );
      return true;
    });
    const [a] = partitionsWith("02");
    assert.throws(() => compareDigests({ partitions: [a!] }, expected), /on b /);
  });
});
