/**
 * For tests only: the seed of property tests, and the values that several draw. The seed is fixed, so that a test that
 * fails fails again; what tries others is `tests/seeds/properties_test.ts`, with seeds drawn from the commit.
 */
import { deepStrictEqual } from "node:assert/strict";
import fc from "fast-check";

const SEED = 0x5eed;

/**
 * The parameters of `fc.assert`, with a seed and a report of how to repeat the failure.
 * @param given what the test asks for; its own seed, where it names one, is the fixed one.
 */
export function seeded<T>(given: fc.Parameters<T> = {}): fc.Parameters<T> {
  const drawn = fc.readConfigureGlobal()?.seed;
  const seed = drawn ?? given.seed ?? SEED;
  const file = callerOf(new Error().stack ?? "");
  const command = drawn === undefined
    ? `deno test --no-prompt ${file}`
    : `RACKMESH_TEST_SEED=${drawn} deno test --allow-all tests/seeds/properties_test.ts`;
  return {
    ...given,
    seed,
    reporter(details) {
      if (!details.failed) return;
      const message = `${fc.defaultReportMessage(details)}\n\nIt fails again by: ${command}`;
      throw new Error(message, { cause: details.errorInstance });
    },
  };
}

/** Fails with both values where the code and its model differ. */
export function sameAsModel(found: unknown, expected: unknown, what = ""): void {
  try {
    deepStrictEqual(found, expected);
  } catch (error) {
    throw new Error(`${what}: ${(error as Error).message}`, { cause: error });
  }
}

/** The test file that a stack leads to: `fabric/base/slab_test.ts`, as far as the tree has folders. */
function callerOf(stack: string): string {
  const path = stack.split("\n").slice(2)[0]?.match(/file:\/\/(.*?):\d+/)?.[1];
  return path?.match(/.*\/((?:fabric|nodes|console|scripts|tests)\/.*)/)?.[1] ?? path ?? "";
}

/** Plain data, as it may cross the bus. */
export const plainData: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: "medium" },
    fc.integer(),
    fc.maxSafeInteger(),
    fc.double().map((x) => x === 0 ? 0 : x),
    fc.bigInt({ min: -(2n ** 64n) + 1n, max: 2n ** 64n - 1n }),
    fc.boolean(),
    fc.constantFrom(null, undefined),
    fc.string({ maxLength: 300, unit: "grapheme" }),
    fc.uint8Array({ maxLength: 300 }),
    fc.array(tie("value"), { maxLength: 30 }),
    fc.dictionary(fc.string().filter((key) => key !== "__proto__"), tie("value"), {
      noNullPrototype: true,
    }),
  ),
})).value.filter((value) => value !== undefined);
