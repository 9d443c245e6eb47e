/** Runs in which frames pass a port faster than its cable. */
import type { FrameSeen } from "../../../fabric/capture/observation.ts";
import type { Mutation, Mutations } from "./runs.ts";

function tooSoon(kind: FrameSeen["kind"]): Mutation {
  return {
    of: "calm",
    least: 50,
    *mutants(run) {
      for (const [place, seen] of run.frames.entries()) {
        if (seen.kind !== kind) continue;
        const last = run.frames.findLast((each, i) =>
          i < place && each.kind === kind && each.node === seen.node && each.port === seen.port
        );
        if (last === undefined) continue;
        const early = { ...seen, startPs: last.endPs - 1 };
        yield [`${place}`, { ...run, frames: run.frames.with(place, early) }];
      }
    },
  };
}

export const LINE_RATE: Mutations = {
  "a frame is sent before the one before it has left": tooSoon("sent"),
  "a frame comes before the one before it has come": tooSoon("received"),
};
