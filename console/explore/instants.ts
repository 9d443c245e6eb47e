/** Instants at which the result of a power failure changes: one stands for the span up to the next. */
import { cardsKeepWrites } from "../../fabric/rack/plan/persistence_domain.ts";
import type { Time } from "../../fabric/base/time.ts";
import { edgeOf } from "./history.ts";
import type { PostCrashRuns, Victim } from "./post_crash_run.ts";
import type { RackRun } from "./rerun.ts";

/**
 * First instants of the spans, ascending. A power failure comes before everything at its instant, so an
 * event at `t` has an effect from `t` + 1 ps on.
 */
export function instantsOf(
  recording: RackRun,
  options: {
    readonly victims: readonly Victim[];
    readonly runs: PostCrashRuns | undefined;
    /** A protocol's check sees the instant, and the survivors' reports before it. */
    readonly isProtocolJudged?: boolean;
    readonly from?: Time;
    readonly until?: Time;
  },
): Time[] {
  const { victims, runs, isProtocolJudged = false, from = 1, until = Infinity } = options;
  const hosts = new Set(victims.map(({ host }) => host));
  const edges = new Set<Time>([1, from, recording.endPs + 1]);
  for (const host of hosts) {
    for (const { at } of recording.histories.get(host)?.entries ?? []) edges.add(at + 1);
  }
  const counts = (node: string) => isProtocolJudged || runs === undefined || hosts.has(node);
  for (const { node, time } of recording.reports) if (counts(node)) edges.add(time + 1);
  for (const { node, time } of recording.notes) if (counts(node)) edges.add(time + 1);
  for (const at of runs?.edges() ?? []) edges.add(at);
  for (const victim of victims) for (const at of heldEdges(recording, victim)) edges.add(at);
  const lives = victims.map(({ host }) => recording.lives.get(host) ?? []);
  return [...edges].sort((x, y) => x - y).filter((at) =>
    at >= from && at >= 1 && at < until &&
    // A victim may be without power by the scenario; the failures of the others count.
    lives.some((own) => own.some((life) => at > life.from && at <= life.to))
  );
}

/** Of what the cards of a host keep for it (`wsp`). */
export function* heldEdges(recording: RackRun, { config, noticePs }: Victim): Generator<Time> {
  if (!cardsKeepWrites(config.domain)) return;
  for (const rnic of config.rnics) {
    for (const history of recording.held.get(rnic) ?? []) yield* history.edges(noticePs);
    for (const { from, to } of recording.lives.get(rnic) ?? []) {
      if (from > 0) yield edgeOf(from, noticePs);
      if (to !== Infinity) yield edgeOf(to, noticePs);
    }
  }
}
