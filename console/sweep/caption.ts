/** @param command by which the picture was made; "": not known. */
export function captionOf(
  { scenarios, seeds, commit, command }: {
    readonly scenarios: readonly string[];
    readonly seeds: readonly string[];
    readonly commit: string | null;
    readonly command: string;
  },
): string[] {
  const about = [
    `${scenarios.length === 1 ? "Scenario" : "Scenarios"} ${scenarios.join(", ")}`,
    `${seeds.length === 1 ? "seed" : "seeds"} ${rangeOf(seeds)}`,
    ...(commit === null ? [] : [`commit ${commit}`]),
  ];
  return [`${about.join(", ")}.`, ...(command === "" ? [] : [command])];
}

function rangeOf(seeds: readonly string[]): string {
  const isRange = seeds.length > 2 &&
    seeds.every((seed, i) => Number(seed) === Number(seeds[0]) + i);
  return isRange ? `${seeds[0]} to ${seeds.at(-1)}` : seeds.join(", ");
}
