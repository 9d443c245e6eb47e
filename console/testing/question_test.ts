/** What a test may ask for: options, faults and words of a scenario, refused as their author wrote them. */
import {
  deepStrictEqual as same,
  match,
  rejects,
  strictEqual as equal,
  throws,
} from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { TEST_NAMES } from "../../fabric/rack/plan/option_rows.ts";
import type { Refusal } from "../../fabric/rack/plan/problem.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { fromFileUrl, projectFile } from "../base/paths.ts";
import { changedScenario, choicesOf, readQuestion } from "./question.ts";

const scenario = fromFileUrl(projectFile("scripts/scenarios/two_queues.yaml"));

function asked(options: Record<string, unknown>, kind = "run") {
  return readQuestion({ kind, options: { scenario, ...options } });
}

describe("the question of a test", () => {
  it("is read with sizes and times as the command has them", () => {
    const { options } = asked({ size: "4KiB", depth: 4, seed: 9, method: "write-flush" });
    same(choicesOf(options), {
      packing: "all",
      isTyped: true,
      seed: 9,
      method: "write-flush",
      size: 4096,
      depth: 4,
    });
    const explored = asked({ from: "40us", cut: "b" }, "explore");
    equal(explored.kind === "explore" && explored.options.from, 40_000_000);
  });

  const wrong: readonly (readonly [string, Record<string, unknown>, string])[] = [
    ["run", { sede: 7 }, "the option sede: expected one that there is"],
    ["run", { seed: -1 }, "seed is -1: expected a whole number ≥ 0, below 2^53"],
    ["run", { size: "3" }, 'size is "3": expected a size from 8 B to 1 MiB, like 4KiB'],
    ["run", { ddio: "up" }, 'ddio is "up": expected on or off'],
    ["run", { limit: 7 }, "the option limit: expected one that there is"],
    ["explore", { tear: 12 }, "tear is 12: expected a multiple of 8"],
    ["explore", { from: "soon" }, 'from is "soon": expected a time such as 40us'],
    ["explore", { from: "2us", until: "1us" }, "from is 2us: expected a time before until (1us)"],
    ["explore", { cut: "none", preemptions: 0 }, 'cut is "none" with preemptions 0'],
    ["explore", { cut: "none", from: "1us" }, 'cut is "none" with from'],
    ["explore", { preemptions: 9 }, "preemptions is 9: expected a whole number from 0 to 8"],
    ["explore", { stall: "soon" }, 'stall is "soon": expected a time'],
  ];
  for (const [kind, options, message] of wrong) {
    it(`is refused with ${JSON.stringify(options)} of ${kind}`, () => {
      throws(() => asked(options, kind), (error: Refusal) => {
        const { message: found } = error.inNames(TEST_NAMES);
        equal(found.slice(0, message.length), message);
        return true;
      });
    });
  }

  it("leaves a scenario that it does not change where it is", async () => {
    const { source: { path }, folder } = await changedScenario(asked({}).options);
    same([path, folder], [scenario, undefined]);
  });

  it("adds faults to a scenario's own and sets words, in a copy whose paths are absolute", async () => {
    const faults = [{ at: "12us", kill: "b" }];
    const { options } = asked({ faults, set: { records: 5 } });
    const { source: { path, text }, folder } = await changedScenario(options);
    try {
      equal(await Deno.readTextFile(path), text);
      const { faults: power, programs } = parseScenario(text, path);
      same(power, [{ at: 12_000_000, action: "kill", node: "b" }]);
      equal(programs[1]!.options["records"], 5);
      match(programs[1]!.run, /^\/.*\/scripts\/scenarios\/two_queues\.ts$/);
    } finally {
      await Deno.remove(folder!, { recursive: true });
    }
  });

  it("C-04: has the rules of judges at absolute paths in the copy", async () => {
    const own = await Deno.realPath(await Deno.makeTempDir());
    const path = `${own}/judged.yaml`;
    await Deno.writeTextFile(
      path,
      "name: judged\ndefaults: { attach: coherent }\nhosts: { a: {}, b: {} }\n" +
        "shared: [{ name: s, home: a, far: [b], bytes: 64, judge: ./r.ts }]\n",
    );
    const { options } = readQuestion({
      kind: "run",
      options: { scenario: path, set: { seed: 2 } },
    });
    const { source, folder } = await changedScenario(options);
    try {
      equal(source.scenario.shared[0]!.judge?.rule, `${own}/r.ts`);
    } finally {
      await Deno.remove(folder!, { recursive: true });
      await Deno.remove(own, { recursive: true });
    }
  });

  it("refuses faults and words by the names that the test gave them", async () => {
    const refused = async (options: Record<string, unknown>, message: RegExp) =>
      await rejects(
        changedScenario(asked(options).options).catch((error) => {
          throw error.inNames(TEST_NAMES);
        }),
        message,
      );
    await refused(
      { faults: [{ at: "12us", kil: "b" }] },
      /^Refusal: faults\[0\]\.kil is an unknown/,
    );
    await refused(
      { faults: [{ at: "12us", kill: "b" }, { at: "13us", kill: "z" }] },
      /^Refusal: faults\[1\]\.kill is "z": expected a node of this rack/,
    );
    await refused(
      { set: { recordz: 3 } },
      /^Refusal: set recordz is no word of this scenario: .*records/,
    );
    await refused(
      { scenario: "/nowhere.yaml" },
      /^Refusal: Cannot read the scenario \/nowhere\.yaml/,
    );
  });
});
