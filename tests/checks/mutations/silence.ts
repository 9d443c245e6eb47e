/** Runs in which a node without power does something. */
import type { SeenRun } from "../../support/seen_run.ts";
import type { Mutations } from "./runs.ts";

/** Instants at which a node has no power: the first, one between, the last. */
function deadTimes({ lives }: SeenRun, node: string): number[] {
  const [first, second] = lives.get(node)!;
  return [first!.to, Math.floor((first!.to + second!.from) / 2), second!.from - 1];
}

export const SILENCE: Mutations = {
  "it notes something": {
    of: "killed",
    least: 100,
    *mutants(run) {
      for (const [place, timed] of run.notes.entries()) {
        if (timed.node !== "b") continue;
        for (const time of deadTimes(run, "b")) {
          yield [`${place}`, { ...run, notes: run.notes.with(place, { ...timed, time }) }];
        }
      }
    },
  },
  "it reports something": {
    of: "killed",
    least: 3,
    *mutants(run) {
      const [report] = run.reports;
      for (const time of deadTimes(run, "b")) {
        yield [`${time}`, { ...run, reports: [...run.reports, { ...report!, node: "b", time }] }];
      }
    },
  },
  "it makes something persistent": {
    of: "killed",
    least: 100,
    *mutants(run) {
      for (const [place, { node }] of run.durable.entries()) {
        if (node !== "b") continue;
        for (const time of deadTimes(run, "b")) {
          yield [`${place}`, { ...run, durable: run.durable.with(place, { node, time }) }];
        }
      }
    },
  },
  "it sends or receives something": {
    of: "cardless",
    least: 100,
    *mutants(run) {
      for (const [place, seen] of run.frames.entries()) {
        if (run.plan.nodes[seen.node]!.name !== "b-rnic") continue;
        for (const time of deadTimes(run, "b-rnic")) {
          yield [`${place}`, { ...run, frames: run.frames.with(place, { ...seen, time }) }];
        }
      }
    },
  },
};
