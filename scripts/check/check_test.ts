import { deepEqual, equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { filesOf, LONGEST, type Outcome, runGroups, type Stage, unitsOf } from "./check.ts";

const [A, B, C] = ["a", "b", "c"].map((name): Stage => ({ name, args: [] }));
const SLOW: Stage = { name: "slow", args: [], slow: true };

function outcomeOf({ name }: Stage, failed = 0): Outcome {
  return {
    stage: name,
    seconds: 0,
    processorSeconds: 0,
    passed: 2,
    failed,
    skipped: 0,
    failures: [],
  };
}

describe("runGroups", () => {
  for (const failing of ["a", "b", "c"]) {
    it(`runs all stages though ${failing} fails, and then the exit code is 1`, async () => {
      const run = (stage: Stage) =>
        Promise.resolve(outcomeOf(stage, stage.name === failing ? 3 : 0));
      const { outcomes, text, code } = await runGroups([[A!, B!], [C!]], { isQuick: false, run });
      deepEqual(outcomes.map(({ stage }) => stage), ["a", "b", "c"]);
      deepEqual([text, code], ["6 passed, 3 failed", 1]);
    });
  }

  it("has exit code 0 where nothing failed, and skips a stage that has nothing to run", async () => {
    const run = (stage: Stage) => Promise.resolve(stage === B ? null : outcomeOf(stage));
    const { outcomes, text, code } = await runGroups([[A!, B!]], { isQuick: false, run });
    deepEqual([outcomes.length, text, code], [1, "2 passed, 0 failed", 0]);
  });

  it("runs the stages of a group at the same time, and a group when the one before has ended", async () => {
    const events: string[] = [];
    const first = Promise.withResolvers<void>();
    const run = async (stage: Stage) => {
      events.push(`${stage.name} begins`);
      if (stage === A) await first.promise;
      else first.resolve();
      events.push(`${stage.name} ends`);
      return outcomeOf(stage);
    };
    await runGroups([[A!, B!], [C!]], { isQuick: false, run });
    deepEqual(events.slice(0, 2), ["a begins", "b begins"]);
    deepEqual(events.slice(-2), ["c begins", "c ends"]);
    equal(events.length, 6);
  });

  it("leaves out slow stages where it is to be quick", async () => {
    const run = (stage: Stage) => Promise.resolve(outcomeOf(stage));
    for (const [isQuick, names] of [[true, ["a"]], [false, ["a", "slow"]]] as const) {
      const { outcomes } = await runGroups([[A!], [SLOW]], { isQuick, run });
      deepEqual(outcomes.map(({ stage }) => stage), names);
    }
  });
});

describe("unitsOf", () => {
  const units = unitsOf(["tests"], ["tests/seeds", "tests/tools/cli_test.ts"]);
  const files = units.flatMap((unit) => unit.files);

  it("has every test file once, but for what is left out", () => {
    deepEqual(files.toSorted(), filesOf(["tests"], ["tests/seeds", "tests/tools/cli_test.ts"]));
    equal(new Set(files).size, files.length);
    for (
      const file of ["tests/support/command_test.ts", "tests/checks/mutations/mutations_test.ts"]
    ) {
      equal(files.includes(file), true, file);
    }
    deepEqual(files.filter((file) => /seeds|cli_test/.test(file)), []);
  });

  it("begins with the longest, and runs short ones of a folder together", () => {
    equal(units[0]!.name, LONGEST[0]);
    const verbs = units.find(({ name }) => name === "tests/verbs")!;
    equal(verbs.files.includes("tests/verbs/doorbell_test.ts"), true);
    const crash = units.find(({ name }) => name === "tests/crash")!;
    equal(crash.files.includes("tests/crash/matrix_test.ts"), false);
  });

  it("names nothing as long that is not there", () => {
    const names = new Set(unitsOf(["tests"], []).map(({ name }) => name));
    deepEqual(LONGEST.filter((name) => !names.has(name)), []);
  });
});
