/** `depth=1,4,16` on a command line or in a request: the name of a word of a scenario, and its values. */
import { type Refusal, refusal, showFound } from "../../fabric/rack/plan/problem.ts";
import { isMapping } from "../../fabric/base/mapping.ts";
import { readYaml } from "../../fabric/rack/scenario/yaml_source.ts";

/** As plain data for the scenario, and as text for people. */
export interface VaryValue {
  readonly data: unknown;
  readonly text: string;
}

/** A word of the scenario as its user named it, with at least one value, all different. */
export interface Vary {
  readonly name: string;
  readonly values: readonly VaryValue[];
}

/** The refusal of a word that is to vary; without a name, of all of them. */
export function varyRefusal(
  problem: { readonly name?: string; readonly found: string; readonly expected: string },
): Refusal {
  const { name, ...rest } = problem;
  return refusal((named) => [named("vary"), name ?? []].flat().join(" "), rest);
}

/** Limit of values in one range; more are a mistake in typing. */
const RANGE_MAX = 100_000;
const EXPECTED = "NAME=VALUE,VALUE… such as depth=1,4,16 or seed=1..10";

/**
 * Values are written as in a scenario's list, `[a, b]` and `{ k: v }` included; `1..10` stands for
 * ten whole numbers.
 * @throws Refusal for a text of another form, a name or a value given twice.
 */
export function parseVary(texts: readonly string[]): Vary[] {
  const read = texts.map(readOne), seen = new Set<string>();
  for (const { name } of read) {
    if (seen.has(name)) {
      throw varyRefusal({ found: `${name} a second time`, expected: "each name once" });
    }
    seen.add(name);
  }
  return read;
}

function readOne(text: string): Vary {
  const [, name, list] = /^\s*([^=\s]+)\s*=(.*)$/s.exec(text) ?? [];
  if (name === undefined || list === undefined || list.trim() === "") {
    throw varyRefusal({ found: JSON.stringify(text), expected: EXPECTED });
  }
  const { source, problems } = readYaml(`[${list}]`, "");
  if (problems.length > 0 || !Array.isArray(source.data)) {
    const found = `${JSON.stringify(text)} (${problems[0]?.found ?? "no list"})`;
    throw varyRefusal({ found, expected: EXPECTED });
  }
  const values = source.data.flatMap((data) => rangeOf(data, name) ?? [{ data, text: show(data) }]);
  const texts = values.map((value) => value.text);
  const twice = texts.find((each, i) => texts.indexOf(each) < i);
  if (twice !== undefined) {
    throw varyRefusal({ name, found: `${twice} twice`, expected: "different values" });
  }
  return { name, values };
}

function rangeOf(data: unknown, name: string): VaryValue[] | undefined {
  const [, from, to] = /^(\d+)\.\.(\d+)$/.exec(String(data)) ?? [];
  if (from === undefined || to === undefined) return undefined;
  const first = Number(from), count = Number(to) - first + 1;
  if (count < 1 || count > RANGE_MAX) {
    const expected = `a range upwards of at most ${RANGE_MAX} numbers`;
    throw varyRefusal({ name, found: showFound(data), expected });
  }
  return Array.from({ length: count }, (_, i) => ({ data: first + i, text: String(first + i) }));
}

function show(data: unknown): string {
  if (Array.isArray(data)) return `[${data.map(show).join(", ")}]`;
  if (!isMapping(data)) return String(data);
  return `{ ${Object.entries(data).map(([key, value]) => `${key}: ${show(value)}`).join(", ")} }`;
}
