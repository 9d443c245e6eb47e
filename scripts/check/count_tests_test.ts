import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import { countTests as countAndName } from "./count_tests.ts";

function testcase(name: string, body = ""): string {
  return `        <testcase name="${name}" classname="./a_test.ts" time="0.1" line="1" col="1">
            ${body}
        </testcase>\n`;
}

function report(...cases: string[]): string {
  return `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="deno test" tests="9" failures="9" errors="0" time="0.4">
    <testsuite name="./a_test.ts" tests="9" disabled="0" errors="0" failures="9">
${cases.join("")}    </testsuite>
</testsuites>`;
}

const FAILURE = '<failure message="1 !== 2">AssertionError: 1 !== 2</failure>';

function countTests(junit: string) {
  const { failures, ...counts } = countAndName(junit);
  assert.equal(failures.length, counts.failed);
  return counts;
}

describe("countTests", () => {
  it("counts the innermost tests, not what they stand in", () => {
    const junit = report(
      testcase("outer"),
      testcase("outer &gt; inner"),
      testcase("outer &gt; inner &gt; a"),
      testcase("outer &gt; inner &gt; b"),
      testcase("alone"),
    );
    assert.deepEqual(countTests(junit), { passed: 3, failed: 0, skipped: 0 });
  });

  it("counts a failure once, though every suite around it failed too", () => {
    const junit = report(
      testcase("outer", FAILURE),
      testcase("outer &gt; a", FAILURE),
      testcase("outer &gt; b"),
    );
    assert.deepEqual(countTests(junit), { passed: 1, failed: 1, skipped: 0 });
  });

  it("names a failed test by its file, with what was wrong in one line", () => {
    const failure =
      '<failure message="1 &lt; 2&#10;    but &quot;a&quot; &amp;amp;">at x</failure>';
    const inside = testcase("outer &gt; a", failure).replace("./a_test.ts", "ext:deno_node/x.ts");
    for (const a of [testcase("outer &gt; a", failure), testcase("outer", failure) + inside]) {
      assert.deepEqual(countAndName(report(a)).failures, [
        'a_test.ts: outer > a: 1 < 2 but "a" &amp;',
      ]);
    }
  });

  it("counts a skipped test by itself", () => {
    const junit = report(testcase("a", "<skipped/>"), testcase("b"));
    assert.deepEqual(countTests(junit), { passed: 1, failed: 0, skipped: 1 });
  });

  it("counts tests of the same name in two files twice", () => {
    assert.deepEqual(countTests(report(testcase("a"), testcase("a", FAILURE))), {
      passed: 1,
      failed: 1,
      skipped: 0,
    });
  });

  it("finds nothing in a report without tests", () => {
    const empty = '<testsuites name="deno test" tests="0" failures="0"></testsuites>';
    assert.deepEqual(countTests(empty), { passed: 0, failed: 0, skipped: 0 });
  });
});
