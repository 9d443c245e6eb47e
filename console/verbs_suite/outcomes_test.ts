import { deepEqual, equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { differenceOf, OutcomeReader, type TestOutcome } from "./outcomes.ts";
import { KNOWN_SKIPS, matches } from "./skips.ts";

const LINES = `test_open_dev (tests.test_device.DeviceTest.test_open_dev)
Test ibv_open_device() ... ok
test_create_cq (tests.test_cq.CQAPITest.test_create_cq) ... ok
test_xrc (tests.test_qpex.QpExTestCase.test_xrc) ... skipped 'Create XRCD is not supported'
test_dm (tests.test_device.DMTest) ... skipped "it's none"
test_pd (tests.test_pd.PDTest.test_pd)
Says (it) ... more ... FAIL
test_mr (tests.test_mr.MRTest.test_mr) ... ok
test_last (tests.test_mr.MRTest.test_last) ...

======================================================================
FAIL: test_pd (tests.test_pd.PDTest.test_pd)
Says (it)
----------------------------------------------------------------------
Traceback (most recent call last):
AssertionError: 22 != 0

======================================================================
ERROR: test_mr (tests.test_mr.MRTest.test_mr)
----------------------------------------------------------------------
OSError: at its end

----------------------------------------------------------------------
Ran 6 tests in 0.000s

FAILED (failures=1, errors=1)`.split("\n");

describe("OutcomeReader", () => {
  it("reads each test's end, a skip's reason and a failure's lines", () => {
    const reader = new OutcomeReader();
    for (const line of LINES) reader.take(line);
    equal(reader.count, 6);
    const tests = [
      "tests.test_device.DeviceTest.test_open_dev",
      "tests.test_cq.CQAPITest.test_create_cq",
      "tests.test_qpex.QpExTestCase.test_xrc",
      "tests.test_device.DMTest.test_dm",
      "tests.test_pd.PDTest.test_pd",
      "tests.test_mr.MRTest.test_mr",
      "tests.test_mr.MRTest.test_last",
    ];
    deepEqual(reader.outcomes(tests).map(({ outcome, said }) => [outcome, said]), [
      ["pass", undefined],
      ["pass", undefined],
      ["skip", "Create XRCD is not supported"],
      ["skip", "it's none"],
      ["fail", "Says (it)\nTraceback (most recent call last):\nAssertionError: 22 != 0"],
      ["fail", "OSError: at its end"],
      ["none", undefined],
    ]);
  });
});

describe("differenceOf", () => {
  const XRC = "tests.test_atomic.AtomicTest.test_xrc_atomic_cmp_and_swap";
  const HUGE = "tests.test_odp.OdpTestCase.test_odp_rc_huge_traffic";
  const PLAIN = "tests.test_pd.PDTest.test_alloc_pd";

  it("tells what newly passes, newly skips, skips for another reason, fails or has no end", () => {
    const said = "Create XRCD is not supported";
    const rows: readonly (readonly [TestOutcome, boolean])[] = [
      [{ test: XRC, outcome: "skip", said }, false],
      [{ test: XRC, outcome: "skip", said: "Another" }, true],
      [{ test: XRC, outcome: "skip" }, true],
      [{ test: XRC, outcome: "pass" }, true],
      [{ test: XRC, outcome: "fail", said }, true],
      [{ test: HUGE, outcome: "pass" }, false],
      [{ test: HUGE, outcome: "fail" }, true],
      [{ test: PLAIN, outcome: "pass" }, false],
      [{ test: PLAIN, outcome: "skip", said }, true],
      [{ test: PLAIN, outcome: "fail" }, true],
      [{ test: PLAIN, outcome: "none" }, true],
    ];
    deepEqual(
      rows.map(([one]) => differenceOf(one) !== undefined),
      rows.map(([, isOne]) => isOne),
    );
  });
});

describe("KNOWN_SKIPS", () => {
  it("has patterns in which a star stands for anything, and a point for itself", () => {
    equal(matches("qp.QPTest.test_raw", "qp.*_raw"), true);
    equal(matches("qpex.QPTest.test_raw", "qp.*_raw"), false);
    equal(matches("qp.QPTest.test_raw_qp", "qp.*_raw"), false);
  });

  it("names no test twice", () => {
    const all = KNOWN_SKIPS.flatMap(({ tests }) => tests);
    const plain = all.map((pattern) => pattern.replaceAll("*", "x"));
    for (const name of plain) {
      equal(all.filter((pattern) => matches(name, pattern)).length, 1, name);
    }
  });
});
