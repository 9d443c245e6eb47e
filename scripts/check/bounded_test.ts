import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { ifThere } from "../../console/base/files.ts";
import { runBounded, tellsOfTest, testUnderWay } from "./bounded.ts";
import { atSomePace } from "../../tests/support/eventually.ts";

/** @param text a process' id. It may be there still for its parent to ask how it ended; it has no command line then. */
function assertGone(text: string): void {
  const left = ifThere(() => Deno.readTextFileSync(`/proc/${text.trim()}/cmdline`));
  assert.ok(left === undefined || left === "", left);
}

describe("runBounded", () => {
  it("gives both outputs, and whether the program succeeded", async () => {
    const args = ["-c", "echo one; echo two >&2; exit 3"];
    const { success, isLate, text } = await runBounded("sh", args, { withinMs: 600_000 });
    assert.deepEqual([success, isLate], [false, false]);
    assert.deepEqual(text.split("\n").sort(), ["", "one", "two"]);
  });

  it("tells the processor time of a program and its children", async () => {
    const busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    const { processorSeconds } = await runBounded("sh", ["-c", `sh -c '${busy}'; true`], {
      withinMs: 600_000,
    });
    assert.ok(processorSeconds! > 0, `${processorSeconds} s`);
  });

  it("ends a program that takes longer, and what it has started in a session of its own", async () => {
    const script = "setsid sleep 1000 & echo $!; trap '' TERM; sleep 1000";
    const { isLate, text, processorSeconds } = await runBounded("sh", ["-c", script], {
      withinMs: 300,
    });
    assert.ok(isLate);
    assert.equal(processorSeconds, undefined);
    assert.match(text, /^\d+\n$/);
    assertGone(text);
  });

  it("ends a program when its signal is aborted, with what it has started", async () => {
    const ending = new AbortController();
    const { success, isLate, text } = await runBounded("sh", ["-c", "sleep 1000 & echo $!; wait"], {
      withinMs: 600_000,
      signal: ending.signal,
      onOutput: () => ending.abort(),
    });
    assert.deepEqual([success, isLate], [false, true]);
    assertGone(text);
  });

  it("gives a program variables", async () => {
    const { text } = await runBounded("sh", ["-c", "echo $GIVEN"], {
      withinMs: 600_000,
      env: { GIVEN: "17" },
    });
    assert.equal(text, "17\n");
  });
});

describe("runBounded, of what says when a part of it has ended", () => {
  it("goes on for as long as it says something, and ends it when it has said nothing for so long", async () => {
    await atSomePace(async (slower) => {
      const limits = { withinMs: 600_000, silentMs: 700 * slower };
      const speaks = `for i in 1 2 3 4; do sleep ${0.2 * slower}; echo $i; done`;
      const talking = await runBounded("sh", ["-c", speaks], limits);
      assert.deepEqual([talking.success, talking.isLate], [true, false]);
      const silent = await runBounded("sh", ["-c", `${speaks}; sleep 1000`], limits);
      assert.ok(silent.isLate);
      assert.equal(silent.text, "1\n2\n3\n4\n");
    });
  });
});

describe("runBounded, of what goes on to say what it waits for", () => {
  const waits = (line: string) => `while true; do sleep 0.1; echo ${line}; done`;
  const limitsOf = (slower: number) => {
    return { withinMs: 600_000, silentMs: 700 * slower, isWord: tellsOfTest };
  };

  it("ends it when no test has ended for so long", async () => {
    const begins = "echo 'running 1 test from ./a_test.ts'";
    await atSomePace(async (slower) => {
      const { isLate, text } = await runBounded(
        "sh",
        ["-c", `${begins}; ${waits("waits for b ...")}`],
        limitsOf(slower),
      );
      assert.ok(isLate);
      assert.match(text, /^running 1 test from .*\nwaits for b \.\.\.\nwaits for b/);
    });
  });

  it("goes on where a test ends, whose line comes in parts and between others", async () => {
    await atSomePace(async (slower) => {
      const pause = `sleep ${0.1 * slower}`;
      const script = `for i in 1 2 3 4 5 6; do printf 'one ...'; ${pause}; echo err >&2; ` +
        `${pause}; echo ' ok (3ms)'; done`;
      const { success, isLate } = await runBounded("sh", ["-c", script], limitsOf(slower));
      assert.deepEqual([success, isLate], [true, false]);
    });
  });
});

describe("tellsOfTest", () => {
  it("tells the beginning of a file and the end of a test from all else", () => {
    const told = [
      "\x1b[38;5;245mrunning 2 tests from ./a_test.ts\x1b[0m",
      "  one ... \x1b[32mok\x1b[0m \x1b[38;5;245m(3ms)\x1b[0m",
      "outer ... FAILED (due to 1 failed step) (1s)",
      "./a_test.ts => one ... ignored (0ms)",
    ];
    assert.deepEqual(told.filter(tellsOfTest), told);
    const others = ["", "outer ...", "waits for b ...", "------- output -------", "it is ok (3ms)"];
    assert.deepEqual(others.filter(tellsOfTest), []);
  });
});

describe("testUnderWay", () => {
  const BEGUN = "\x1b[38;5;245mrunning 2 tests from ./a_test.ts\x1b[0m\nouter ...\n" +
    "  one ... \x1b[32mok\x1b[0m (3ms)\n  inner ...\n    two ...";

  it("names the file, the suites and the test that has not ended", () => {
    assert.equal(testUnderWay(BEGUN), "./a_test.ts: outer > inner > two");
    const printed = `${BEGUN}\n------- output -------\nhi\n----- output end -----\n`;
    assert.equal(testUnderWay(printed), "./a_test.ts: outer > inner > two");
  });

  it("names nothing where each has ended", () => {
    assert.equal(
      testUnderWay(`${BEGUN} ok (1s)\n  inner ... ok (1s)\nouter ... FAILED (1s)\n`),
      undefined,
    );
    assert.equal(testUnderWay(""), undefined);
  });
});
