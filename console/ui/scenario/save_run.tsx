import { api } from "../data/api.ts";
import { variant } from "../data/rack.ts";
import { plural } from "../figures.ts";
import { refuse, say } from "../frame/notice.tsx";
import { saveAs } from "../frame/save.ts";
import { run } from "../state.ts";

export const OF_RUN = "of:";

/** Hands the scenario of a run, or of one of its variants, to the user as a file. */
export async function saveScenario(
  id: string,
  { variant, by }: { readonly variant: string | undefined; readonly by: string },
): Promise<void> {
  try {
    const { name, text, faults, notes, problems } = await api.scenarioOf(id, variant);
    saveAs(`${name}-${by}.yaml`, new Blob([text], { type: "application/yaml" }));
    const [problem] = problems;
    if (problem !== undefined) {
      return refuse(`Saved, but it cannot be run: ${problem.path} ${problem.found}`);
    }
    say([`Saved, with ${plural(faults, "fault")}`, ...notes].join(". "));
  } catch (error) {
    refuse(error);
  }
}

export function SaveAsScenario() {
  const id = run.value;
  if (id === undefined) return null;
  return (
    <button
      type="button"
      title="What was done by hand stands in it as faults:"
      onClick={() => void saveScenario(id, { variant: variant.peek(), by: "by-hand" })}
    >
      Save as scenario
    </button>
  );
}
