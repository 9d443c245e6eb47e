/**
 * Where a core or a card may stand still: each rest of a thread, each message of a card to its host. One of each kind
 * comes first, the same line of a program or the same kind of message; then the next of each kind, and so on. So a
 * bound leaves out repetitions, not kinds.
 */
import { rngFor } from "../../../fabric/base/rng.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { CreateNode } from "../../../fabric/partition/partition.ts";
import { machineOf } from "../../../fabric/rack/plan/names.ts";
import type { StallPlan } from "../../../fabric/rack/plan/plan.ts";
import { type Outputs, PORTS } from "../../../fabric/node.ts";
import { type RackRun, runRack } from "../rerun.ts";
import type { ExploredRack } from "../types.ts";

/** Plain data. */
export interface StallPlace extends Omit<StallPlan, "ps"> {
  /** A line of a program, or what the card sends. */
  readonly kind: string;
}

/** Plain data. */
export interface StallPlaces {
  /** All of the run. */
  readonly count: number;
  /** The first `most` of them, in the order in which they are tried. */
  readonly chosen: readonly StallPlace[];
}

/** The places of a rack's run, which is made again for it, between its first write or promise and its last. */
export function stallPlacesOf(
  rack: ExploredRack,
  { recording, most }: { readonly recording: RackRun; readonly most: number },
): StallPlaces {
  const span = spanOf(recording);
  if (span === undefined) return { count: 0, chosen: [] };
  const found: StallPlace[] = [];
  const counts = new Map<string, number>();
  const add = (at: Time, { node, by, kind }: Pick<StallPlace, "node" | "by"> & {
    readonly kind: () => string;
  }) => {
    const number = (counts.get(by) ?? 0) + 1;
    counts.set(by, number);
    if (at >= span.from && at < span.to) found.push({ at, node, by, number, kind: kind() });
  };
  runRack({
    ...rack,
    replace: (create) => watchingCards(rack.replace?.(create) ?? create, add),
  }, {
    onRest({ by, now, site }) {
      const [node = ""] = by.split("/");
      add(now, { node, by, kind: () => `${threadOf(by)} ${placeOf(site())}` });
    },
  });
  return { count: found.length, chosen: inRounds(found, rack.plan.seed).slice(0, most) };
}

function placeOf({ line, call }: { readonly line?: string; readonly call?: string }): string {
  return line ?? call ?? "";
}

/** Threads of one program are of one kind: `b/0/persistd#1/client-3` is `b/0/persistd/client-`. */
function threadOf(by: string): string {
  return by.replaceAll(/#\d+/g, "").replaceAll(/\d+$/g, "");
}

/** Without it nothing can be lost, or is said. */
function spanOf({ notes, reports, histories }: RackRun): { from: Time; to: Time } | undefined {
  let from = Infinity, to = 0;
  const add = (at: Time) => {
    from = Math.min(from, at);
    to = Math.max(to, at);
  };
  for (const { time, note } of notes) if (note.kind !== "region") add(time);
  for (const { time, topic } of reports) if (topic !== "program-ended") add(time);
  for (const { entries } of histories.values()) {
    for (const { at, kind } of entries) if (kind === "dirty") add(at);
  }
  return to > from ? { from, to } : undefined;
}

function watchingCards(
  create: CreateNode,
  add: (at: Time, place: { node: string; by: string; kind: () => string }) => void,
): CreateNode {
  return (name, life, unsaved) => {
    const node = create(name, life, unsaved);
    if (node.kind !== "rnic") return node;
    const by = `${name}/${life}`;
    let now: Time = 0;
    const watch = (out: Outputs): Outputs => {
      const send: Outputs["send"] = (port, message, departAt) => {
        if (port === PORTS.rnicBus) {
          add(now, { node: machineOf(name), by, kind: () => `${name} ${message.kind}` });
        }
        return out.send(port, message, departAt);
      };
      return new Proxy(out, {
        get: (target, field) => field === "send" ? send : Reflect.get(target, field, target),
      });
    };
    const wrapped = new WeakMap<Outputs, Outputs>();
    return {
      ...node,
      step(time, input, out) {
        now = time;
        const known = wrapped.get(out) ?? watch(out);
        wrapped.set(out, known);
        node.step(time, input, known);
      },
    };
  };
}

/** In each round one of each kind, drawn; kinds by their first place. */
function inRounds(places: readonly StallPlace[], seed: number): StallPlace[] {
  const kinds = Map.groupBy(places, ({ kind }) => kind);
  const rng = rngFor(seed, "stalls");
  const groups = kinds.values().map((group) => {
    const rest = [...group];
    return group.map(() => rest.splice(rng.below(rest.length), 1)[0]!);
  }).toArray();
  const rounds = Math.max(0, ...groups.map(({ length }) => length));
  return Array.from({ length: rounds }, (_, round) => groups.flatMap((group) => group[round] ?? []))
    .flat();
}
