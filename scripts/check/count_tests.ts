/** Counts tests in a JUnit report of `deno test`. */

export interface TestCount {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** Deno's separator of nested suite and test names, escaped as in XML. */
const NESTED = " &gt; ";

/**
 * Tests that passed and failed. Only the innermost ones count: a `describe` is reported as a test
 * case too, and is recognised by the names nested in it. Skipped tests are counted by themselves.
 */
export function countTests(junit: string): TestCount {
  const cases = [
    ...junit.matchAll(/<testcase name="([^"]*)"([^>]*)>([^]*?)(?=<testcase |<\/testsuite>)/g),
  ];
  const suites = new Set<string>();
  for (const [, name = ""] of cases) {
    const parts = name.split(NESTED);
    for (let i = 1; i < parts.length; i++) suites.add(parts.slice(0, i).join(NESTED));
  }
  let passed = 0, failed = 0, skipped = 0;
  for (const [, name = "", , body = ""] of cases) {
    if (suites.has(name)) continue;
    if (/<skipped\b/.test(body)) skipped++;
    else if (/<(failure|error)\b/.test(body)) failed++;
    else passed++;
  }
  return { passed, failed, skipped };
}
