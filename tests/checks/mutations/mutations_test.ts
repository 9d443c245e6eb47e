/**
 * P-41: no checker is blind. Real runs that keep every promise, changed in every way that breaks one: each change
 * is found, wherever in the run it is made, by the checker whose promise it breaks.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { findingsIn } from "../../support/seen_run.ts";
import { CHECKERS } from "../../../console/checks/all.ts";
import { ANSWERS } from "./answers.ts";
import { COMPLETIONS } from "./completions.ts";
import { CONSERVATION } from "./conservation.ts";
import { LINE_RATE } from "./line_rate.ts";
import { PERSISTENCE } from "./persistence.ts";
import { LOG_RECORDS } from "./replicated_log.ts";
import { type Mutations, runOf, SCENARIOS } from "./runs.ts";
import { ANSWERED, LOADS, STATES, TURNS } from "./shared.ts";
import { SHUTDOWNS } from "./shutdowns.ts";
import { SILENCE } from "./silence.ts";
import { WHOLE_OBJECTS } from "./whole_objects.ts";

/** By the checker whose promise they break. */
const MUTATIONS: Readonly<Record<string, Mutations>> = {
  "survives-what-was-reported": PERSISTENCE,
  "completes-once-in-order": COMPLETIONS,
  "frames-are-conserved": CONSERVATION,
  "silent-without-power": SILENCE,
  "durable-records-are-kept": LOG_RECORDS,
  "answers-in-order": ANSWERS,
  "ports-keep-their-rate": LINE_RATE,
  "objects-are-whole": WHOLE_OBJECTS,
  "loads-return-the-last-store": LOADS,
  "single-writer-or-readers": STATES,
  "every-access-is-answered": ANSWERED,
  "requests-are-served-in-turn": TURNS,
  "shutdowns-end-in-time": SHUTDOWNS,
};

describe("P-41: a real run that was changed", () => {
  it("is known to every checker, which finds nothing wrong before the change", () => {
    assert.deepEqual(Object.keys(MUTATIONS), CHECKERS.map(({ name }) => name));
    for (const name of Object.keys(SCENARIOS) as (keyof typeof SCENARIOS)[]) {
      for (const checker of CHECKERS) assert.equal(findingsIn(runOf(name), checker), 0, name);
    }
  });

  for (const checker of CHECKERS) {
    for (const [what, { of, least, mutants }] of Object.entries(MUTATIONS[checker.name] ?? {})) {
      it(`${checker.name} finds, wherever it is: ${what}`, () => {
        let count = 0;
        const missed: string[] = [];
        for (const [where, run] of mutants(runOf(of))) {
          count++;
          if (findingsIn(run, checker) === 0) missed.push(where);
        }
        assert.deepEqual(missed.slice(0, 5), [], `${missed.length} of ${count} missed`);
        assert.ok(count >= least, `only ${count} places`);
      });
    }
  }
});
