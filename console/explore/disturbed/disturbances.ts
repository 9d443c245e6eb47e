/**
 * What may go otherwise than in the plain run, one thing at a time: a core stands still at a rest of a thread, a
 * card's DMA engine before a message to its host, a frame is lost, late or overtaken at one of its hops.
 *
 * One of each kind comes first: the same line of a program, the same kind of message, the same fault of the same
 * opcode on the same way of a cable. Then the next of each kind, and so on. So a bound leaves out repetitions, not
 * kinds.
 */
import type { AuditRecord } from "../../../fabric/audit.ts";
import { rngFor } from "../../../fabric/base/rng.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { Frame, Message, Outputs } from "../../../fabric/node.ts";
import type { CreateNode } from "../../../fabric/partition/partition.ts";
import { directionName } from "../../../fabric/rack/plan/cable_names.ts";
import { type CableEnd, cableEndsByNode } from "../../../fabric/rack/plan/cabling.ts";
import type { LinkFaultPlan } from "../../../fabric/rack/plan/link_plan.ts";
import { machineOf } from "../../../fabric/rack/plan/names.ts";
import type { RackPlan, StallPlan } from "../../../fabric/rack/plan/plan.ts";
import { opcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import { type RackRun, runRack } from "../rerun.ts";
import type { ExploredRack } from "../types.ts";

/** Plain data, with one of the two. */
export interface Disturbance {
  readonly at: Time;
  readonly kind: string;
  readonly stall?: StallPlan;
  readonly frame?: LinkFaultPlan;
}

/** Plain data. */
export interface Disturbances {
  /** All of the run, between its first write or promise and its last. */
  readonly count: number;
  /** In the order in which they are tried. */
  readonly chosen: readonly Disturbance[];
}

interface Wanted {
  readonly recording: RackRun;
  readonly most: number;
  /** How long a stall lasts, or a frame is late. */
  readonly ps: Time;
}

/** Of cores and cards. The run is made again for it. */
export function stallsOfRun(rack: ExploredRack, { recording, most, ps }: Wanted): Disturbances {
  const counts = new Map<string, number>();
  return chosenOf(rack, { recording, most }, (add) => {
    const stall = (at: Time, node: string, by: string, kind: () => string) => {
      const number = (counts.get(by) ?? 0) + 1;
      counts.set(by, number);
      add(at, () => [{ at, kind: kind(), stall: { node, by, number, ps, at } }]);
    };
    const onSend: OnSend = (at, { name, life, end: { cable } }, { kind }) => {
      if (rack.plan.cables[cable]!.kind !== "bus" || !isCard(rack.plan, name)) return;
      stall(at, machineOf(name), `${name}/${life}`, () => `${name} ${kind}`);
    };
    runRack({ ...rack, replace: (create) => watching(rack, create, onSend) }, {
      onRest({ by, now, site }) {
        const [node = ""] = by.split("/");
        stall(now, node, by, () => {
          const { line, call = "" } = site();
          return `${threadOf(by)} ${line ?? call}`;
        });
      },
    });
  });
}

/** Threads of one program are of one kind: `b/0/persistd#1/client-3` is `b/0/persistd/client-`. */
function threadOf(by: string): string {
  return by.replaceAll(/#\d+/g, "").replaceAll(/\d+$/g, "");
}

function isCard({ nodes }: RackPlan, name: string): boolean {
  return nodes.some((node) => node.kind === "rnic" && node.name === name);
}

/** Of frames. The run is made again for it. */
export function framesOfRun(rack: ExploredRack, { recording, most, ps }: Wanted): Disturbances {
  const { plan } = rack, { cables, linkFaults = [] } = plan;
  const id = Math.max(-1, ...linkFaults.map((fault) => fault.id)) + 1;
  return chosenOf(rack, { recording, most }, (add) => {
    let last = { at: -1, way: "", nth: 0 };
    const onSend: OnSend = (at, { end: { cable, end: direction } }, message) => {
      if (cables[cable]!.kind !== "network" || message.kind !== "frame") return;
      const way = directionName(plan, { cable, from: direction });
      last = { at, way, nth: last.at === at && last.way === way ? last.nth + 1 : 1 };
      const fault = { id, cable, direction, at, nth: last.nth };
      const kind = `${way} ${opcodeOf(message)}`;
      add(at, () => [
        { at, kind: `${kind} lost`, frame: { ...fault, action: "loss" } },
        { at, kind: `${kind} late`, frame: { ...fault, action: "delay", delayPs: ps } },
        {
          at,
          kind: `${kind} overtaken`,
          frame: { ...fault, action: "reorder", overtakenBy: 1, holdPs: ps },
        },
      ]);
    };
    runRack({ ...rack, replace: (create) => watching(rack, create, onSend) });
  });
}

function opcodeOf({ packet }: Frame): string {
  return packet === undefined ? "" : opcodeRow(packet.bth.opcode)?.name ?? "";
}

function chosenOf(
  { plan }: ExploredRack,
  { recording, most }: Pick<Wanted, "recording" | "most">,
  find: (add: (at: Time, make: () => readonly Disturbance[]) => void) => void,
): Disturbances {
  const span = spanOf(recording);
  if (span === undefined) return { count: 0, chosen: [] };
  const found: Disturbance[] = [];
  find((at, make) => {
    if (at >= span.from && at < span.to) found.push(...make());
  });
  return { count: found.length, chosen: inRounds(found, plan.seed).slice(0, most) };
}

/** Notes of what is written, or holds from now on; others are about verbs. */
const TOLD: ReadonlySet<string> = new Set<AuditRecord["kind"]>(
  ["writes", "visible", "persistent", "freed", "object", "log", "operation", "access", "accessed"],
);

/** Without it nothing can be lost, or is said. */
function spanOf({ notes, reports, histories }: RackRun): { from: Time; to: Time } | undefined {
  let from = Infinity, to = 0;
  const add = (at: Time) => {
    from = Math.min(from, at);
    to = Math.max(to, at);
  };
  for (const { time, note } of notes) if (TOLD.has(note.kind)) add(time);
  for (const { time, topic } of reports) if (topic !== "program-ended") add(time);
  for (const { entries } of histories.values()) {
    for (const { at, kind } of entries) if (kind === "dirty") add(at);
  }
  return to > from ? { from, to } : undefined;
}

type OnSend = (
  at: Time,
  from: { readonly name: string; readonly life: number; readonly end: CableEnd },
  message: Message,
) => void;

function watching(
  { plan, replace }: Pick<ExploredRack, "plan" | "replace">,
  made: CreateNode,
  onSend: OnSend,
): CreateNode {
  const create = replace?.(made) ?? made;
  const ends = cableEndsByNode(plan.cables);
  return (name, life, unsaved) => {
    const node = create(name, life, unsaved);
    if (node.kind === "host") return node;
    const own = new Map((ends.get(name) ?? []).map((end) => [end.near.port, end]));
    let now: Time = 0;
    const watch = (out: Outputs): Outputs => {
      const send: Outputs["send"] = (port, message, departAt) => {
        onSend(now, { name, life, end: own.get(port)! }, message);
        return out.send(port, message, departAt);
      };
      return new Proxy(out, {
        get: (target, field) => field === "send" ? send : Reflect.get(target, field, target),
      });
    };
    let watched: { readonly original: Outputs; readonly outputs: Outputs } | undefined;
    const { step } = node;
    return Object.assign(node, {
      step(...[time, input, out]: Parameters<typeof step>) {
        now = time;
        if (watched?.original !== out) watched = { original: out, outputs: watch(out) };
        step.call(node, time, input, watched.outputs);
      },
    });
  };
}

/** In each round one of each kind, drawn; kinds by their first place. */
function inRounds(places: readonly Disturbance[], seed: number): Disturbance[] {
  const rng = rngFor(seed, "disturbances");
  const groups = Map.groupBy(places, ({ kind }) => kind).values().map((group) => {
    const rest = [...group];
    return group.map(() => rest.splice(rng.below(rest.length), 1)[0]!);
  }).toArray();
  const rounds = Math.max(0, ...groups.map(({ length }) => length));
  return Array.from({ length: rounds }, (_, round) => groups.flatMap((group) => group[round] ?? []))
    .flat();
}
