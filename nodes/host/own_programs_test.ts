import { deepStrictEqual as same, equal, ok, throws } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { hasHooks, type Instantiate, makerOf, SHADOWED, surroundings } from "./own_programs.ts";

const printed: unknown[][] = [];
const globals = { real: 1, setTimeout: () => 1 };
const around = surroundings(globals, (...values) => void printed.push(values));

/** A maker of a module whose top level is this function. */
function made(top: (exports: Record<string, unknown>, names: Record<string, unknown>) => void) {
  const instantiate: Instantiate = (_, exports, shadows) => top(exports, shadows);
  return makerOf(instantiate, around);
}

function* program() {}

describe("makerOf", () => {
  it("makes instances whose module variables are their own", () => {
    const make = made((exports) => {
      let calls = 0;
      exports["default"] = program;
      exports["check"] = () => String(++calls);
    });
    const [first, second] = [make(), make()];
    const view = undefined as never;
    same([first.check!(view), first.check!(view), second.check!(view)], ["1", "2", "1"]);
    ok(hasHooks(make));
  });

  it("refuses what is no program, and hooks that are no functions", () => {
    throws(made((exports) => exports["answer"] = 42), /no default export that is a function/);
    const hooked = made((exports) => Object.assign(exports, { default: program, recover: 5 }));
    throws(hooked, /exports recover as a number: expected a function/);
    ok(!hasHooks(made((exports) => exports["default"] = program)));
  });
});

describe("what an instance sees in the place of globals", () => {
  // deno-lint-ignore no-explicit-any -- the names stand for globals of any type
  function seen<T>(use: (names: Record<string, any>) => T): T {
    let result: T | undefined;
    made((exports, names) => {
      exports["default"] = program;
      result = use(names);
    })();
    return result!;
  }

  it("throws by its name where it is called, constructed or read", () => {
    throws(
      () => seen(({ setTimeout }) => setTimeout(() => {}, 1)),
      /found setTimeout: .*cpu.sleep/,
    );
    throws(() => seen(({ Promise }) => new Promise()), /found Promise: .*function\*.*yield\*/);
    throws(() => seen(({ Date }) => Date.now()), /found Date: .*cpu.now/);
    throws(() => seen(({ Deno }) => Deno.exit(1)), /found Deno/);
    throws(() => seen(({ Deno }) => Deno.exit = 1), /found Deno/);
    throws(() => seen(({ Math: own }) => own.random()), /found Math.random: .*cpu.random/);
    throws(() => seen(({ globalThis }) => globalThis.setTimeout()), /found setTimeout/);
  });

  it("can be asked for its type, and has the rest of Math", () => {
    equal(seen(({ setTimeout }) => typeof setTimeout), "function");
    equal(seen(({ Date }) => ({}) instanceof Date), false);
    equal(seen(({ Math }) => Math.max(1, 2)), 2);
  });

  it("has its own globals in front of the real ones", () => {
    equal(seen(({ globalThis }) => globalThis.real), 1);
    equal(seen(({ globalThis }) => globalThis.mark = 2), 2);
    equal(seen(({ globalThis }) => globalThis.mark), undefined);
    ok(!("mark" in globals));
  });

  it("prints with every function of console", () => {
    seen(({ console }) => console.log("a", 1));
    seen(({ console }) => console.table("b"));
    same(printed, [["a", 1], ["b"]]);
  });

  it("has a value for every name", () => {
    seen((names) => same(Object.keys(names).sort(), SHADOWED.toSorted()));
  });
});
