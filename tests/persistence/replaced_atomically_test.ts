/**
 * A put over an object that is there: whatever fails and when, the next life has the old object, the new one,
 * or none. Over the whole rack; every run ends with the checker `objects-are-whole` as well.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PUT_METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const OLD_BYTES = 3000;

function contentOf(bytes: number, salt: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length: bytes }, (_, i) => (i * 31 + (i >> 8) + salt) % 251 + 1);
}

interface Run {
  readonly method: string;
  readonly ddio: "on" | "off";
  readonly bytes: number;
  readonly faults?: string;
  readonly claims?: boolean;
  readonly partial?: boolean;
}

function run(of: Run) {
  const { method, ddio, bytes, faults = "[]", claims = false, partial = false } = of;
  const files = { old: contentOf(OLD_BYTES, 0), new: contentOf(bytes, 100) };
  const rack = new SimulatedRack(
    `
name: replaced
seed: 5
hosts: { a: {}, b: { ddio: ${ddio}, receive: scm, scm: { size: 1MiB } }, c: {} }
programs:
  - { on: c, run: put, to: b, file: old, name: x, method: send-flush }
  - { on: a, run: put, to: b, file: new, name: x, method: ${method}, size: 700, depth: 3, at: 1ms, claims: ${claims} }
  - { on: c, run: list, from: b, at: 200ms }
  - { on: c, run: get, from: b, name: x, at: 210ms, partial: ${partial} }
faults: ${faults}
`,
    { inputs: files },
  ).run();
  assert.deepEqual(rack.reported("program-failed"), []);
  const put = rack.reported("result", "a").at(0);
  const [got] = rack.reported("result", "c").filter((each) => each["program"] === "get");
  const [listed] = rack.reported("result", "c").filter((each) => each["program"] === "list");
  const output = rack.reported("output", "c").at(-1)?.["bytes"] as Uint8Array | undefined;
  return { put, got, listed, found: found(files, output), failure: String(got?.["error"]) };
}

function found(files: Record<"old" | "new", Uint8Array>, output: Uint8Array | undefined): string {
  if (output === undefined) return "none";
  const [is] = (["old", "new"] as const).filter((name) =>
    output.length === files[name].length && output.every((byte, i) => byte === files[name][i])
  );
  return is ?? "a mixture";
}

const VICTIMS = ["a", "a-rnic", "b", "b-rnic"];

describe("a put over an object", () => {
  for (const [i, method] of PUT_METHODS.entries()) {
    it(`P-41: ${method}: leaves the old one or the new one, whichever device fails when`, () => {
      const seen = new Set<string>();
      for (const [j, ddio] of (["off", "on"] as const).entries()) {
        // The other length is tried with the next method.
        const bytes = (i + j) % 2 === 0 ? OLD_BYTES : 4100;
        const whole = run({ method, ddio, bytes });
        const { put } = whole;
        assert.equal(put!["status"], "done", String(put!["error"]));
        const isPromised = put!["promises"] === true;
        assert.equal(put!["stored"], isPromised ? "complete" : "incomplete");
        assert.equal(whole.found, isPromised ? "new" : "none");
        if (!isPromised) {
          assert.match(whole.failure, /incomplete/);
          assert.deepEqual(whole.listed!["objects"], [
            { name: "x", length: bytes, incomplete: true },
          ]);
          assert.equal(run({ method, ddio, bytes, partial: true }).found, "new");
        }
        // From before the object is opened to after the answer to `publish`.
        const from = 1_000_000_000, to = (put!["endPs"] as number) + 6_000_000;
        for (const [v, victim] of VICTIMS.entries()) {
          const at = Math.round(from + (to - from) * ((v + seen.size * 0.37 + bytes / 7) % 1));
          const late = Math.round(to - 7_000_000 * ((v * 0.29 + bytes / 11) % 1));
          // Every instant is cut at in `tests/crash/matrix_test.ts`.
          for (const instant of bytes === OLD_BYTES ? [at, late] : [late]) {
            const faults =
              `[{ at: ${instant}ps, kill: ${victim} }, { at: 100ms, start: ${victim} }]`;
            const cut = run({ method, ddio, bytes, faults });
            const where = `${victim} at ${instant}, DDIO ${ddio}, ${bytes} B`;
            const isNew = cut.put?.["stored"] !== undefined;
            if (isPromised) {
              assert.ok(cut.found === "new" || (cut.found === "old" && !isNew), where);
            } else assert.ok(cut.found === "old" || /incomplete/.test(cut.failure), where);
            seen.add(cut.found);
          }
        }
      }
      assert.ok(seen.has("old"), [...seen].join());
    });
  }

  it("P-41: says that the old one had to go first where there is no room for both", () => {
    const narrow = (faults: string) =>
      new SimulatedRack(`
name: narrow
seed: 5
hosts: { a: {}, b: { ddio: off, scm: { size: 1MiB } } }
programs:
  - { on: a, run: put, to: b, bytes: 600000, name: x, size: 64KiB }
  - { on: a, run: put, to: b, bytes: 601000, name: x, size: 64KiB, at: 5ms }
  - { on: a, run: get, from: b, name: x, at: 150ms }
faults: [${faults}]
`).run().reported("result");
    const [first, second, got] = narrow("");
    assert.deepEqual([first!["stored"], first!["withdrawn"]], ["complete", undefined]);
    assert.deepEqual([second!["stored"], second!["withdrawn"]], ["complete", true]);
    assert.equal(got!["bytes"], 601_000);
    const { startPs, endPs } = second as { startPs: number; endPs: number };
    const at = Math.round((startPs + endPs) / 2);
    const [, cut, none] = narrow(`{ at: ${at}ps, kill: b }, { at: 100ms, start: b }`);
    assert.deepEqual([cut!["stored"], cut!["withdrawn"]], [undefined, true]);
    assert.match(String(none!["error"]), /incomplete/);
  });

  it("P-41: is found where an object becomes complete by a method that promises nothing", () => {
    const of = { method: "write-only", ddio: "on", bytes: OLD_BYTES, claims: true } as const;
    assert.throws(() => run(of), /objects-are-whole: b: the object x is a mixture: byte 0 /);
  });
});
