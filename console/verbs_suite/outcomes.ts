/**
 * What rdma-core's tests came to, from the lines of Python's unittest (`-v`), and how that differs from
 * what is known (`skips.ts`).
 */
import { knownSkip } from "./skips.ts";

export type Outcome = "pass" | "skip" | "fail" | "none";

export interface TestOutcome {
  /** `tests.test_qp.QPTest.test_create_rc_qp`. */
  readonly test: string;
  /** `none`: the program ended before it did. */
  readonly outcome: Outcome;
  /** The reason of a skip in the test's words; a failure's lines. */
  readonly said?: string;
}

/** A test that did not do what is known of it. */
export interface Difference extends TestOutcome {
  readonly expected: "pass" | "skip";
  /** Why it is known to skip. */
  readonly why?: string;
}

const NAMED = /^(\w+) \((tests\.[\w.]+)\)(.*)$/;
const ENDED =
  /(?:^|\.\.\. )(ok|FAIL|ERROR|skipped|expected failure|unexpected success)(?: (['"])(.*)\2)?$/;
const RULE = /^(=|-){70}$/;

/** Takes lines as they come. */
export class OutcomeReader {
  readonly #outcomes = new Map<string, TestOutcome>();
  readonly #failures = new Map<string, string[]>();
  #running: string | undefined;
  #failed: string | undefined;

  /** Tests that have ended so far. */
  get count(): number {
    return this.#outcomes.size;
  }

  take(line: string): void {
    if (RULE.test(line)) {
      if (line.startsWith("=")) this.#failed = undefined;
      return;
    }
    const about = /^(?:FAIL|ERROR): (\w+) \((tests\.[\w.]+)\)/.exec(line);
    if (about !== null) {
      this.#failed = idOf(about[1]!, about[2]!);
      this.#failures.set(this.#failed, []);
      return;
    }
    if (/^Ran \d+ tests? in /.test(line)) this.#failed = undefined;
    if (this.#failed !== undefined) {
      this.#failures.get(this.#failed)!.push(line);
      return;
    }
    const named = NAMED.exec(line);
    if (named !== null) this.#running = idOf(named[1]!, named[2]!);
    const ended = ENDED.exec(named?.[3] ?? line);
    if (ended === null || this.#running === undefined) return;
    const [, word, , said] = ended;
    this.#outcomes.set(this.#running, {
      test: this.#running,
      outcome: word === "ok" ? "pass" : word === "skipped" ? "skip" : "fail",
      ...(said !== undefined && { said }),
    });
    this.#running = undefined;
  }

  /** In the order of `tests`. */
  outcomes(tests: readonly string[]): TestOutcome[] {
    return tests.map((test) => {
      const outcome = this.#outcomes.get(test) ?? { test, outcome: "none" as const };
      const lines = this.#failures.get(test);
      if (lines === undefined) return outcome;
      // A class's tearDown may fail behind a test that has ended well.
      return { ...outcome, outcome: "fail" as const, said: lines.join("\n").trim() };
    });
  }
}

/** unittest of Python 3.11 and newer has the method's name in both; older ones only in front. */
function idOf(method: string, name: string): string {
  return name.endsWith(`.${method}`) ? name : `${name}.${method}`;
}

/** Undefined where it is as known. */
export function differenceOf(one: TestOutcome): Difference | undefined {
  const known = knownSkip(one.test);
  if (known === undefined) {
    return one.outcome === "pass" ? undefined : { ...one, expected: "pass" };
  }
  const isKnown = one.outcome === "skip"
    ? known.says.test(one.said ?? "")
    : one.outcome === "pass" && known.byMachine === true;
  return isKnown ? undefined : { ...one, expected: "skip", why: known.why };
}
