/** The scenarios that a sweep runs: each combination of the values, as the text of a scenario. */
import {
  type OptionNames,
  optionRefusal,
  type Problem,
  Refusal,
} from "../../fabric/rack/plan/problem.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { formatPath, type Path, type YamlSource } from "../../fabric/rack/scenario/yaml_source.ts";
import { dumped } from "../scenarios/run_text.ts";
import type { ScenarioSource } from "../scenarios/scenario_source.ts";
import { placesOf, withValues } from "./places.ts";
import { parseVary, type Vary, varyRefusal } from "./vary.ts";

export interface Varied extends Vary {
  readonly places: readonly Path[];
}

export interface Combination {
  readonly number: number;
  /** By the name of the word; as its user wrote it. */
  readonly values: Readonly<Record<string, string>>;
  /** Paths of the scenario begin where those of the original do. */
  readonly text: string;
}

export function labelOf(values: Combination["values"]): string {
  return Object.entries(values).map(([name, value]) => `${name} ${value}`).join(", ");
}

type SweptSource = Pick<ScenarioSource, "scenario" | "yaml">;

export interface Combinations {
  readonly scenario: string;
  readonly seed: number;
  readonly varied: readonly Varied[];
  readonly count: number;
}

/**
 * @param given texts for {@link parseVary}.
 * @throws Refusal for a text that is wrong, and for a name that is no place or several.
 */
export function readCombinations(
  { scenario: { name: scenario, seed }, yaml }: SweptSource,
  given: readonly string[],
): Combinations {
  if (given.length === 0) {
    throw optionRefusal((named) => ({
      path: "",
      found: "There is nothing to vary",
      expected: `${named("vary")} NAME=VALUE,VALUE…`,
    }));
  }
  const data = dataOf(yaml);
  const varied = parseVary(given).map((vary) => ({ ...vary, places: placesOf(vary.name, data) }));
  refuseOverlap(varied);
  const count = varied.reduce((product, { values }) => product * values.length, 1);
  return { scenario, seed, varied, count };
}

function dataOf({ data }: YamlSource): Record<string, unknown> {
  return data as Record<string, unknown>;
}

function refuseOverlap(varied: readonly Varied[]): void {
  const all = varied.flatMap(({ name, places }) => places.map((place) => ({ name, place })));
  for (const [i, one] of all.entries()) {
    const other = all.slice(0, i).find(({ name, place }) =>
      name !== one.name && (isWithin(place, one.place) || isWithin(one.place, place))
    );
    if (other === undefined) continue;
    const found = `${one.name}, which is ${other.name} (${formatPath(one.place)})`;
    throw varyRefusal({ found, expected: "each place once" });
  }
}

function isWithin(part: Path, whole: Path): boolean {
  return whole.every((key, i) => part[i] === key);
}

/**
 * Every combination, the last name's values first.
 * @throws Refusal for the first that the scenario's schema refuses.
 */
export function* combinationsOf(
  { yaml }: Pick<SweptSource, "yaml">,
  { varied, count }: Pick<Combinations, "varied" | "count">,
): Generator<Combination> {
  // Several runs would write captures to one place.
  const { capture: _, expect, ...rest } = dataOf(yaml);
  const isChosen = varied.some(({ places }) =>
    places.some((place) => place.at(-1) === "method" || place.at(-1) === "ddio")
  );
  const data = isChosen || expect === undefined ? rest : { ...rest, expect };
  for (let i = 0; i < count; i++) {
    let left = i;
    const chosen = varied.toReversed().map((vary) => {
      const value = vary.values[left % vary.values.length]!;
      left = Math.floor(left / vary.values.length);
      return { vary, value };
    }).toReversed();
    const set = chosen.map(({ vary: { places }, value }) => ({ places, data: value.data }));
    const own = dumped(withValues(data, set));
    const values = Object.fromEntries(chosen.map(({ vary, value }) => [vary.name, value.text]));
    check(own, { values, varied });
    yield { number: i + 1, values, text: own };
  }
}

function check(
  text: string,
  { values, varied }: Pick<Combination, "values"> & Pick<Combinations, "varied">,
): void {
  try {
    parseScenario(text, "");
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const { problems } = error;
    throw optionRefusal((named) =>
      problems.map((problem) => asVaried(problem, { values, varied, named }))
    );
  }
}

/** Lines of the text were never the user's: the problem is one of the value that made it. */
function asVaried(
  { path, found, expected }: Problem,
  { values, varied, named }:
    & Pick<Combination, "values">
    & Pick<Combinations, "varied">
    & { readonly named: OptionNames },
): Problem {
  const cause = varied.find(({ places }) =>
    places.map(formatPath).some((place) => path === place || path.startsWith(`${place}.`))
  );
  const said = cause === undefined
    ? `with ${labelOf(values)}`
    : `${cause.name}=${values[cause.name]}`;
  return { path: `${named("vary")} ${said}: ${path}`, found, expected };
}
