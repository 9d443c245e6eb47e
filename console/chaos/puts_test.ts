import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../fabric/base/rng.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { faultsIn, programLine } from "../rack/fault_lines.ts";
import type { Reference } from "./progress.ts";
import { drawPuts, PUT_OBJECT, withPuts } from "./puts.ts";

const FILES = ["/f/0", "/f/1", "/f/2"];

function draw(seed: number, text = "hosts: { a: {}, b: {}, c: {} }\nprograms: []\n") {
  const plan = makePlan(variants(parseScenario(`name: x\n${text}`, "x.yaml"))[0]!);
  return drawPuts(rngFor(seed, "puts"), { plan, from: 200_000_000, files: FILES });
}

const SEEDS = Array.from({ length: 60 }, (_, seed) => seed);

describe("drawPuts", () => {
  it("writes one object again and again, from other hosts, by any method, in most rounds", () => {
    const rounds = SEEDS.map((seed) => draw(seed)).filter((puts) => puts.length > 0);
    assert.ok(rounds.length > 30 && rounds.length < 50, String(rounds.length));
    const methods = new Set<unknown>();
    for (const puts of rounds) {
      const [first] = puts;
      assert.ok(puts.length >= 2);
      assert.deepEqual([first!.at, first!.options["method"]], [0, "send-flush"]);
      for (const { on, run, options } of puts) {
        const { to, name, file, method } = options;
        assert.deepEqual([run, name, to], ["put", PUT_OBJECT, first!.options["to"]]);
        assert.notEqual(on, to);
        assert.ok(FILES.includes(String(file)));
        methods.add(method);
      }
    }
    assert.ok(methods.size > 8, String(methods.size));
    assert.deepEqual(draw(5), draw(5));
  });

  it("leaves a user's own protocol, a run that ends at a time and a small SCM alone", () => {
    const off = [
      "hosts: { a: {}, b: {} }\nprograms: [{ on: a, program: ./own.ts }]\n",
      "hosts: { a: {}, b: {} }\nprograms: []\nuntil: 3ms\n",
      "hosts: { a: {}, b: {} }\ndefaults: { scm: { size: 1MiB } }\nprograms: []\n",
    ];
    for (const text of off) assert.ok(SEEDS.every((seed) => draw(seed, text).length === 0), text);
  });

  it("is read again from the lines of a record", () => {
    const puts = SEEDS.map((seed) => draw(seed)).find((drawn) => drawn.length > 1)!;
    const text = puts.map((put) => `${programLine(put)}\n`).join("");
    assert.deepEqual(faultsIn(text, "f").morePrograms, puts);
    const odd = text.replace(`"run":"put"`, `"run":7`);
    assert.throws(() => faultsIn(odd, "f"), /f:1: run: found 7, expected a line of a run's/);
  });
});

describe("withPuts", () => {
  it("expects a result of each put, and has actions taken while they write", () => {
    const results = new Map([["a", 1]]);
    const busy = { from: 3, to: 4 };
    const reference: Reference = { results, from: 2, length: 5, busy };
    assert.equal(withPuts(reference, []), reference);
    const puts = [10, 20, 30].map((at) => ({
      on: at === 20 ? "b" : "a",
      run: "put",
      at,
      options: {},
    }));
    const more = withPuts(reference, puts);
    assert.deepEqual([...more.results], [["a", 3], ["b", 1]]);
    assert.ok(more.busy.from > 20 && more.busy.to > more.busy.from + 10);
    assert.equal(more.length, more.busy.to);
  });
});
