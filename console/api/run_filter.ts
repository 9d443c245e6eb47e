/** Which of the kept runs are listed, and in what order: one rule for the API and the page. */
export const RUN_SORTS = ["newest", "oldest", "name", "largest"] as const;
export const VERDICTS = ["holds", "fails", "unchecked", "none"] as const;

export interface RunFilter {
  /** In the name, the scenario, the user's name and note, in any case of letters. */
  readonly text?: string | undefined;
  readonly method?: string | undefined;
  readonly ddio?: string | undefined;
  readonly verdict?: string | undefined;
  readonly state?: string | undefined;
  readonly sort?: typeof RUN_SORTS[number] | undefined;
}

interface ListedRun {
  readonly id: string;
  readonly scenario: string | null;
  readonly mark?: string | undefined;
  readonly note?: string | undefined;
  readonly methods: readonly string[];
  readonly ddio: readonly string[];
  readonly verdict: string;
  readonly state: string;
  readonly bytes: number;
}

/** @param all newest first. */
export function runsIn<Run extends ListedRun>(all: readonly Run[], filter: RunFilter): Run[] {
  const { method, ddio, verdict, state, sort = "newest" } = filter;
  const text = filter.text?.toLowerCase();
  const fit = all.filter((run) =>
    (method === undefined || run.methods.includes(method)) &&
    (ddio === undefined || run.ddio.includes(ddio)) &&
    (verdict === undefined || run.verdict === verdict) &&
    (state === undefined || run.state === state) &&
    (text === undefined ||
      [run.id, run.scenario, run.mark, run.note].join("\n").toLowerCase().includes(text))
  );
  if (sort === "oldest") return fit.reverse();
  if (sort === "largest") return fit.sort((x, y) => y.bytes - x.bytes);
  if (sort === "newest") return fit;
  return fit.sort((x, y) => nameOf(x) < nameOf(y) ? -1 : nameOf(x) > nameOf(y) ? 1 : 0);
}

function nameOf({ mark, scenario, id }: ListedRun): string {
  return (mark || (scenario ?? id)).toLowerCase();
}

/** Of the user's own words about a run. */
export const NOTE_LETTERS_MAX = 500;
