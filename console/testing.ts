/**
 * The module for tests of a user's own protocol in any test runner: a test file imports it as `rackmesh/testing`. It
 * imports no package, so that no name of the user's is taken.
 *
 *     import { rack } from "rackmesh/testing";
 *
 *     const scenario = new URL("log.yaml", import.meta.url);
 *
 *     Deno.test("every record is in SCM", async () => {
 *       const run = await rack(scenario, { seed: 3 }).run();
 *       if (run.memory("b").region("log")[0] !== 1) throw new Error(run.text);
 *     });
 *
 *     Deno.test("no power failure loses a record", async () => {
 *       await rack(scenario).explore();
 *     });
 *
 * Each run is a process of its own, which the test's process starts: `deno test --allow-run=deno` is all that a test
 * needs. Programs of the scenario are confined in it as `rack run` confines them.
 */
import { ask } from "./testing/ask.ts";
import { RackExploration, RackRun } from "./testing/results.ts";
import type { ExploreTestOptions, RackTestOptions, RunTestOptions } from "./testing/types.ts";

export { RackFailure } from "./testing/failure.ts";
export { HostMemory, RackExploration, RackRun, RackVariant } from "./testing/results.ts";
export type {
  Check,
  Counterexample,
  Explored,
  ExploreTestOptions,
  MethodFigures,
  Packet,
  PacketChoice,
  PowerFault,
  ProgramReport,
  RackReport,
  RackTestOptions,
  RunTestOptions,
  ScenarioFault,
  Verdict,
} from "./testing/types.ts";

/** A scenario's rack, to be run or explored any number of times; the same each time. */
export interface Rack {
  /**
   * Runs every variant of the scenario in one process (`rack run --pack all`), and checks it.
   *
   *     const run = await rack("log.yaml", { faults: [{ at: "12us", kill: "b" }] }).run();
   *     run.results("a");                       // values that programs of host a reported as "result"
   *     run.memory("b").region("log");          // what is in SCM, power or not
   *
   * @throws RackFailure where a check fails that `fails` does not name, or one does not fail that it
   * names: with the text that the command prints. Where the scenario or an option is wrong: with what
   * was found and what was expected.
   */
  run(options?: RunTestOptions): Promise<RackRun>;
  /**
   * Cuts the power at every instant of every variant (`rack explore`).
   *
   *     await rack("log.yaml").explore();                                  // safe, or the test fails
   *     await rack("two_queues.yaml").explore({ verdict: "unsafe" });      // a mistake that is known
   *
   * @throws RackFailure where a variant has another verdict than `verdict` (default: `safe`): with the
   * counterexample, and the command that shows it again.
   */
  explore(options?: ExploreTestOptions): Promise<RackExploration>;
}

/**
 * The rack of a scenario, with faults and choices of a test.
 *
 * @param scenario a path, which begins in the folder that the test runs in, or a `file:` URL.
 *
 * @example A test of `my_protocol.yaml`, which lies beside it
 * ```ts
 * import { rack } from "rackmesh/testing";
 *
 * const scenario = new URL("my_protocol.yaml", import.meta.url);
 *
 * Deno.test("what was reported before b failed is in its SCM", async () => {
 *   const faults = [{ at: "285us", kill: "b" }];
 *   const run = await rack(scenario, { seed: 7, set: { records: 20 }, faults })
 *     .run({ fails: ["programs-run-through"] });
 *   const { records } = run.results<{ records: number }>("a")[0]!;
 *   const log = run.memory("b").region("log");
 *   if (records === 0 || log[64 * (records - 1)] !== records) throw new Error(run.text);
 * });
 * ```
 */
export function rack(scenario: string | URL, options: RackTestOptions = {}): Rack {
  const common = { scenario: pathOf(scenario), ...options, input: pathOf(options.input) };
  return {
    async run({ signal, ...own } = {}) {
      const answer = await ask({ kind: "run", options: { ...common, ...own } }, signal);
      return RackRun.of(answer, own);
    },
    async explore({ signal, ...own } = {}) {
      const answer = await ask({ kind: "explore", options: { ...common, ...own } }, signal);
      return RackExploration.of(answer, own);
    },
  };
}

function pathOf<Given extends string | URL | undefined>(
  given: Given,
): string | (Given & undefined) {
  if (!(given instanceof URL)) return given as string | (Given & undefined);
  if (given.protocol === "file:") return decodeURIComponent(given.pathname);
  throw new TypeError(`Found the scenario or input ${given.href}: expected a path or a file: URL`);
}
