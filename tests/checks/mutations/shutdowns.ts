/** Runs in which a shutdown has too little time, or leaves something undone (C-09). */
import type { SeenRun } from "../../support/seen_run.ts";
import type { Mutant, Mutations } from "./runs.ts";

function* ends({ reports }: SeenRun): Generator<number> {
  for (const [place, { topic }] of reports.entries()) if (topic === "shutdown") yield place;
}

export const SHUTDOWNS: Mutations = {
  "its host has not reported its end": {
    of: "shut down",
    least: 2,
    *mutants(run): Generator<Mutant> {
      for (const place of ends(run)) {
        yield [`${place}`, { ...run, reports: run.reports.toSpliced(place, 1) }];
      }
    },
  },
  "its end is that of another shutdown": {
    of: "shut down",
    least: 2,
    *mutants(run): Generator<Mutant> {
      for (const place of ends(run)) {
        const report = run.reports[place]!, begun = Object(report.value).begun + 1;
        const value = { ...Object(report.value), begun };
        yield [`${place}`, { ...run, reports: run.reports.with(place, { ...report, value }) }];
      }
    },
  },
  "a region is not given back, and no fault was before": {
    of: "shut down",
    least: 1,
    *mutants(run): Generator<Mutant> {
      const [place] = ends(run), report = run.reports[place!]!;
      const value = { ...Object(report.value), regions: [], failed: ["s: refused"] };
      yield [`${place}`, { ...run, reports: run.reports.with(place!, { ...report, value }) }];
    },
  },
};
