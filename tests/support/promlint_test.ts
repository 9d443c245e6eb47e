import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { promProblems } from "./promlint.ts";

const GOOD = `# HELP x_bytes_total Bytes.
# TYPE x_bytes_total counter
x_bytes_total{node="a"} 3

# HELP x_wait_seconds A wait.
# TYPE x_wait_seconds histogram
x_wait_seconds_bucket{node="a",le="0.5"} 1
x_wait_seconds_bucket{node="a",le="+Inf"} 2
x_wait_seconds_sum{node="a"} 1.5
x_wait_seconds_count{node="a"} 2
`;

describe("promProblems", () => {
  it("finds each breach of the guide, and nothing in what keeps to it", () => {
    assert.deepEqual(promProblems(GOOD), []);
    const breaches = [
      ["# HELP x_bytes_total Bytes.\n", "", /no HELP/],
      ["Bytes.", "bytes", /no sentence/],
      [/x_bytes_total/g, "x_bytes", /only counters end in _total/],
      [/x_wait_seconds/g, "x_wait_ms", /no base unit/],
      [/x_wait_seconds/g, "x_wait_histogram", /has its type/],
      [/x_wait/g, "x_waitTime", /no line of the format|snake_case/],
      ['le="0.5"} 1', 'le="0.5"} 3', /not cumulative/],
      ['_count{node="a"} 2', '_count{node="a"} 3', /not all/],
      ['x_wait_seconds_sum{node="a"} 1.5\n', "", /no sum/],
      ['total{node="a"} 3', 'total{node="a"} 3\nx_bytes_total{node="a"} 4', /twice/],
      ['total{node="a"} 3', 'total{node="a"} -3', /below 0/],
      ['total{node="a"} 3', 'total{node="a"} three', /no number/],
    ] as const;
    for (const [from, to, expected] of breaches) {
      const found = promProblems(GOOD.replace(from, to)).join("; ");
      assert.match(found, expected, `${from} as ${to}`);
    }
  });
});
