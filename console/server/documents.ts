import type { ClockStatus } from "../../fabric/clock/clock_service.ts";
import { targetName } from "../../fabric/rack/plan/cable_names.ts";
import { hostOfRnic } from "../../fabric/rack/plan/names.ts";
import type { RunFile } from "../../fabric/rack/assembly/run_file.ts";
import type { Clock, Topology } from "../api/rack.ts";
import { clockDocument, whyParts, whyText } from "../rack/live/clock_text.ts";
import { finite } from "../reports/json.ts";

export function clockOf(status: ClockStatus): Clock {
  return {
    ...clockDocument(status),
    why: whyText(status),
    whyParts: whyParts(status),
    standsAtPs: status.standsAt,
    hits: [...status.hits],
    breaks: [...status.breaks],
    watchedFromPs: status.watchedFrom,
    waiting: status.why.map(({ partition, status, sinceMs, next, now, heldBy }) => ({
      partition,
      status,
      forMs: Math.max(0, sinceMs),
      nextPs: finite(next),
      nowPs: now,
      heldBy,
    })),
  };
}

export function topologyOf({ plan, partitions, inputs }: RunFile, run: string): Topology {
  const processes = new Map(
    partitions.flatMap(({ name, nodes }) => nodes.map((node) => [node, name] as const)),
  );
  return {
    run,
    scenario: plan.scenario,
    seed: plan.seed,
    until: plan.until,
    nodes: plan.nodes.map(({ name, kind, config }) => ({
      name,
      kind,
      process: processes.get(name) ?? name,
      host: kind === "rnic" ? hostOfRnic(name) ?? null : null,
      config: withoutPrograms(config),
    })),
    cables: plan.cables.map((cable, index) => ({
      name: cable.kind === "network"
        ? targetName(plan, { cable: index, direction: "both" })
        : `${cable.a.node}/${cable.b.node}`,
      kind: cable.kind,
      a: cable.a,
      b: cable.b,
      latencyPs: cable.latencyPs,
      bitsPerSecond: cable.bitsPerSecond,
    })),
    programs: plan.nodes.flatMap(({ name, kind, config }) =>
      kind !== "host" ? [] : config.programs.map(({ run, at, service, options }) => ({
        on: name,
        run,
        atPs: at,
        service,
        options: { ...options },
      }))
    ),
    inputs: Object.keys(inputs).sort(),
  };
}

/** Programs have a list of their own. */
function withoutPrograms(config: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(config).filter(([key]) => key !== "programs"));
}
