import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import plugin from "./lint_plugin.ts";
import { ROOT } from "../../console/base/paths.ts";

/** What our rules say of `source` at `path`: rule names without the plugin's, in source order. */
function rulesBroken(path: string, source: string): string[] {
  return Deno.lint.runPlugin(plugin, `${ROOT}/${path}`, source)
    .toSorted((a, b) => a.range[0] - b.range[0])
    .map((found) => found.id.replace("rackmesh/", ""));
}

const MODEL = "nodes/rnic/responder/responder.ts";
const SHARED = "console/rack/live/power.ts";
const MODEL_TEST = "nodes/rnic/responder_test.ts";

/** Source that breaks one rule in a model, and nothing else. */
const BREACHES: readonly (readonly [rule: string, source: string])[] = [
  ["no-ambient-time", "export const t = Date.now();"],
  ["no-ambient-time", "export const t = new Date();"],
  ["no-ambient-time", "export const t = performance.now();"],
  ["no-ambient-time", "const { now } = performance; now();"],
  ["no-ambient-time", "setTimeout(() => {}, 1);"],
  ["no-ambient-time", "setInterval(() => {}, 1);"],
  ["no-ambient-time", "queueMicrotask(() => {});"],
  ["no-ambient-time", "const later = setTimeout; later(() => {});"],
  ["no-ambient-time", "export const clocks = { performance };"],
  ["no-world", "Deno.exit(1);"],
  ["no-world", "console.log(1);"],
  ["no-world", "fetch('http://a');"],
  ["no-world", "globalThis.x = 1;"],
  ["no-world", "export const home = process.env.HOME;"],
  ["no-world", "export const held = new WeakRef({});"],
  ["no-crypto", "crypto.getRandomValues(new Uint8Array(1));"],
  ["no-crypto", "export const id = crypto.randomUUID();"],
  ["no-math-random", "export const n = Math.random();"],
  ["no-math-random", 'export const n = Math["random"]();'],
  ["no-math-random", "const { random } = Math; random();"],
  ["no-async", "export async function f() {}"],
  ["no-async", "export const f = async () => {};"],
  ["no-async", "await f();"],
  ["no-async", "for await (const x of xs) x();"],
  ["no-async", 'import("./other.ts");'],
  ["no-promise", "export const p = Promise.resolve();"],
  ["no-for-in", "for (const key in table) key;"],
  ["no-locale", "export const order = a.localeCompare(b);"],
  ["no-locale", "export const text = n.toLocaleString();"],
  ["no-locale", "export const format = new Intl.NumberFormat();"],
  ["no-enum", "export enum Flow { llc, imc }"],
  ["no-enum", "export const enum Flow { llc, imc }"],
  ["no-barrel", 'export * from "./a.ts";\nexport { b } from "./b.ts";'],
  ["no-inheritance", "export class Nic extends Device {}"],
  ["no-inheritance", "export const Nic = class extends Device {};"],
  ["no-decorator", "class A { @logged f() {} }"],
  ["property-seed", "fc.assert(fc.property(any, holds));"],
  ["property-seed", "fc.assert(fc.property(any, holds), { seed: 7 });"],
  ["property-seed", "fc.check(fc.property(any, holds), given(7));"],
];

/** Source that breaks one rule in what the command and the web page share. */
const SHARED_BREACHES: readonly (readonly [rule: string, source: string])[] = [
  ["no-print", "console.log(1);"],
  ["no-print", 'export const name = prompt("name");'],
  ["no-terminal", "Deno.exit(1);"],
  ["no-terminal", "Deno.exitCode = 1;"],
  ["no-terminal", "export const [scenario] = Deno.args;"],
  ["no-terminal", 'export const words = Deno["args"];'],
  ["no-terminal", "const { exit } = Deno; exit(1);"],
  ["no-terminal", "Deno.stderr.writeSync(bytes);"],
  ["no-terminal", 'Deno.addSignalListener("SIGINT", () => {});'],
  ["no-terminal", 'export const red = "\\x1b[31m";'],
  ["no-terminal", "export const red = (text: string) => `\\x1b[31m${text}`;"],
];

/** Source that a careless rule would refuse. */
const INNOCENT: readonly string[] = [
  "fc.assert(fc.property(any, holds), seeded());",
  "fc.assert(fc.property(any, holds), seeded({ numRuns: 7 })); assert(x); fc.array(any);",
  "export interface Wqe { fetch: number; process(): void; console?: string }",
  "export function step(performance: number) { return performance; }",
  'import { fetch } from "./wqe_fetch.ts"; fetch(1);',
  "import { load as fetch } from './load.ts'; fetch(1);",
  "export const row = { Date: 1, self: 2 };",
  "export function read(row: Row) { return row.fetch + row.process; }",
  "export function read({ process }: Row) { return process; }",
  "export function read({ process: [self, ...caches] }: Row) { return self + caches.length; }",
  "export function read(process = 1) { return process; }",
  "export class Queue { process = 1; fetch() { return this.process; } }",
  "export type Step = (at: Date) => Promise<void>;",
  "export const ceiling = Math.ceil(1.5) + Math.max(1, 2);",
  "export function* program() { yield 1; }",
  "for (const x of [1]) x;",
  "export class Refusal extends Error {}",
  'export { beforeEach, describe } from "node:test";',
  'export { a } from "./a.ts";\nexport const b = 1;',
  "process: for (;;) break process;",
];

describe("lint plugin", () => {
  it("refuses every breach in a model, by its rule and no other", () => {
    for (const [rule, source] of BREACHES) {
      assert.deepEqual(rulesBroken(MODEL, source), [rule], source);
    }
  });

  it("refuses what prints, ends or reads options in what command and web page share", () => {
    for (const [rule, source] of SHARED_BREACHES) {
      assert.deepEqual(rulesBroken(SHARED, source), [rule], source);
      for (
        const entry of ["console/rack/supervise.ts", "console/server/main.ts", "scripts/rack.ts"]
      ) {
        assert.deepEqual(rulesBroken(entry, source), [], entry);
      }
    }
    const innocent = "const args = []; run.exit(); Deno.readTextFileSync(run.args); await f(args);";
    assert.deepEqual(rulesBroken(SHARED, innocent), []);
  });

  it("has a breach for every rule", () => {
    const tried = new Set([...BREACHES, ...SHARED_BREACHES].map(([rule]) => rule));
    assert.deepEqual([...tried].sort(), Object.keys(plugin.rules).sort());
  });

  it("names a replacement in every message", () => {
    for (const [path, breaches] of [[MODEL, BREACHES], [SHARED, SHARED_BREACHES]] as const) {
      for (const [, source] of breaches) {
        for (const found of Deno.lint.runPlugin(plugin, `${ROOT}/${path}`, source)) {
          assert.match(found.hint ?? "", /\w{3}/, source);
        }
      }
    }
  });

  it("lets pass what only looks like a breach", () => {
    for (const source of INNOCENT) assert.deepEqual(rulesBroken(MODEL, source), [], source);
  });

  it("reports a name once where it is written once", () => {
    assert.deepEqual(rulesBroken(MODEL, "export const x = { performance };"), ["no-ambient-time"]);
    assert.deepEqual(rulesBroken(MODEL, "Deno.exit(); Deno.exit();"), ["no-world", "no-world"]);
  });

  it("lets the files that are for it touch the world, and only those", () => {
    const source = "await fetch(`http://a/${Date.now()}`); console.log(Deno.pid);";
    const worldFiles = [
      "fabric/bus/nats_bus.ts",
      "fabric/runner/runner.ts",
      "fabric/clock/timekeeper_main.ts",
      "nodes/main.ts",
      "nodes/host/main.ts",
      "nodes/host/store/scm_file.ts",
      "console/server/main.ts",
      "scripts/rack.ts",
    ];
    for (const path of worldFiles) assert.deepEqual(rulesBroken(path, source), [], path);
    for (const path of ["fabric/runner_loop.ts", "nodes/rnic/scm_file.ts", "fabric/domain.ts"]) {
      assert.equal(rulesBroken(path, source).length, 5, path);
    }
  });

  it("lets tests of models be async and print, but not ask the clock or draw numbers", () => {
    assert.deepEqual(rulesBroken(MODEL_TEST, "await f(); console.log(1);"), []);
    assert.deepEqual(rulesBroken(MODEL_TEST, "Date.now(); crypto.randomUUID(); Math.random();"), [
      "no-ambient-time",
      "no-crypto",
      "no-math-random",
    ]);
  });

  it("lets the bus be asynchronous, on virtual time and seeded numbers like the rest", () => {
    const path = "fabric/bus/codec.ts";
    assert.deepEqual(rulesBroken(path, "export async function f() { await Promise.all([]); }"), []);
    assert.deepEqual(rulesBroken(path, "setTimeout(() => {}, 1);"), ["no-ambient-time"]);
  });

  it("refuses Math.random, enum, barrels and inheritance in the whole tree", () => {
    for (const path of ["console/ui/page.ts", "scripts/rack.ts", "tests/crash/points.ts"]) {
      assert.deepEqual(rulesBroken(path, "Math.random();"), ["no-math-random"], path);
      assert.deepEqual(rulesBroken(path, "enum A { b }"), ["no-enum"], path);
      assert.deepEqual(rulesBroken(path, "class A extends B {}"), ["no-inheritance"], path);
    }
    assert.deepEqual(rulesBroken("console/ui/index.ts", "export const a = 1;"), ["no-barrel"]);
  });
});
