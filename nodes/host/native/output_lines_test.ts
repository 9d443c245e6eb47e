import { deepStrictEqual as same, equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { Lines } from "./output_lines.ts";

/** What is shown of a text whose bytes come in these pieces. */
function shownOf(bytes: Uint8Array, cuts: readonly number[]): { shown: string[]; lines: Lines } {
  const shown: string[] = [];
  const lines = new Lines((line) => shown.push(line));
  let from = 0;
  for (const cut of [...cuts, bytes.length]) {
    lines.take(bytes.subarray(from, Math.max(from, cut)));
    from = Math.max(from, cut);
  }
  return { shown, lines };
}

const encoded = (text: string) => new TextEncoder().encode(text);

describe("Lines", () => {
  it("shows each line once it is whole, wherever its bytes are cut, also within a character", () => {
    const text = fc.array(fc.constantFrom("a", "ß", "☃", "🐟", "\n", " "), { maxLength: 30 });
    const cut = fc.array(fc.nat(60), { maxLength: 8 });
    fc.assert(
      fc.property(text, cut, (chars, cuts) => {
        const whole = chars.join("");
        const { shown, lines } = shownOf(encoded(whole), cuts.sort((x, y) => x - y));
        const expected = whole.split("\n"), rest = expected.pop()!;
        same(shown, expected);
        lines.end();
        same(shown, rest === "" ? expected : [...expected, rest]);
      }),
      seeded(),
    );
  });

  it("shows nothing of a line that is not whole, until the end", () => {
    const { shown, lines } = shownOf(encoded("one\ntw"), []);
    same(shown, ["one"]);
    lines.take(encoded("o"));
    same(shown, ["one"]);
    lines.end();
    same(shown, ["one", "two"]);
    lines.end();
    same(shown, ["one", "two"], "once");
  });

  it("has the last line that says something, for the end's message", () => {
    const { lines } = shownOf(encoded("bad address\n\n   \n"), []);
    equal(lines.last, "bad address");
    lines.take(encoded("no end"));
    equal(lines.last, "bad address");
    lines.end();
    equal(lines.last, "no end");
    equal(new Lines(() => {}).last, undefined);
  });

  it("shows bytes that are no UTF-8 by the replacement character", () => {
    const { shown, lines } = shownOf(Uint8Array.of(0x61, 0xff, 0x0a, 0xe2), []);
    lines.end();
    same(shown, ["a\ufffd", "\ufffd"]);
  });
});
