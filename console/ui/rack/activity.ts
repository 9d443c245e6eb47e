/** What a host does, in words: how far its programs are, what they wait for, and for whom. */
import type { Topology } from "../../api/rack.ts";
import type { ProgramState } from "../../api/replay.ts";
import { computed } from "@preact/signals";
import { clock, progress, topology } from "../data/rack.ts";
import { replayedAt, shownWork, type Work } from "../data/shown.ts";
import { count, percent, plural } from "../figures.ts";

/** Where time stands; undefined: it moves, or it is being worked out. */
export const shownActivities = computed(() => {
  const rack = topology.value, work = shownWork.value;
  return rack === undefined || work === undefined ? undefined : activities(rack, work);
});

/** What a host does; while time moves, only how far its program has said that it is. */
export function hostWords(host: string): string {
  const activity = shownActivities.value?.get(host);
  if (activity !== undefined && clock.value?.events === 0) return "not booted yet";
  if (activity !== undefined) return activityText(activity);
  const told = progress.value.get(host);
  if (told === undefined || replayedAt.value !== undefined) return "";
  const programs = topology.value?.programs.filter(({ on, service }) => on === host && !service);
  return progressText(programs?.length === 1 ? programs[0]!.run : "", told);
}

/** One of its programs does something, as far as is known. */
export function isAtWork(host: string): boolean {
  const activity = shownActivities.value?.get(host);
  return activity === undefined ? progress.value.has(host) : activity.lines.length > 0;
}

function activityText({ lines, serving }: Activity): string {
  if (lines.length > 0) return lines.join("; ");
  return serving > 0 ? `${plural(serving, "service")}, no client waits` : "no program at work";
}

/** `put: 23 of 64 writes, waits for a completion of b` as `put: 23 of 64 writes`. */
export function shortWords(text: string): string {
  return text.split(/[,;] /)[0]!;
}

export interface Activity {
  /** `put: 23 of 64 writes, waits for a completion of b`; one for each program at work. */
  readonly lines: readonly string[];
  /** Hosts that owe it answers, with how many requests each has not answered. */
  readonly owedBy: ReadonlyMap<string, number>;
  /** How many of its programs wait for clients. */
  readonly serving: number;
}

type Progress = NonNullable<ProgramState["progress"]>;

/** Its progress is of operations, which a program's name says: `put` writes. */
const OPERATIONS: Readonly<Record<string, string>> = { put: "writes", log: "records" };

function progressText(program: string, { done, of }: Progress): string {
  if (of === 1) return percent(done);
  return `${count(done)} of ${count(of)} ${OPERATIONS[program] ?? "operations"}`;
}

type Shape = Pick<Topology, "nodes">;

/** As queue pairs write the addresses of their peers' cards. */
export function hostsByAddress({ nodes }: Shape): ReadonlyMap<string, string> {
  return new Map(
    nodes.flatMap(({ kind, host, config }) => {
      const address = Number(config["address"]);
      const text = [24, 16, 8, 0].map((shift) => (address >>> shift) & 255).join(".");
      return kind === "rnic" && host !== null ? [[text, host] as const] : [];
    }),
  );
}

/** By host. */
export function activities(rack: Shape, work: Work): ReadonlyMap<string, Activity> {
  const hosts = hostsByAddress(rack);
  return new Map(
    rack.nodes.filter(({ kind }) => kind === "host").map(({ name }) => {
      const cards = rack.nodes.filter(({ host }) => host === name);
      const owedBy = new Map<string, number>(), peers = new Set<string>();
      for (const card of cards) {
        for (const { peer, unanswered, persistWaiting } of work.queuePairs.get(card.name) ?? []) {
          const far = peer && hosts.get(peer.address);
          const owed = unanswered + persistWaiting;
          if (far !== undefined) peers.add(far);
          if (far === undefined || owed === 0) continue;
          owedBy.set(far, (owedBy.get(far) ?? 0) + owed);
        }
      }
      const own = work.programs.filter(({ host }) => host === name);
      const lines = own.filter(({ serves }) => !serves).map((each) =>
        lineOf(each, owedBy.size > 0 ? [...owedBy.keys()] : [...peers])
      );
      return [name, { lines, owedBy, serving: own.length - lines.length }] as const;
    }),
  );
}

function lineOf(
  { program, progress, waitsFor }: ProgramState,
  partners: readonly string[],
): string {
  const [name = program] = program.split("/").at(-1)!.split("#");
  // The call's name is for its author, and in the side.
  const [what] = waitsFor.replace(/ \(\w+\)(?=$|;)/, "").split("; ");
  const [far] = partners.length === 1 && /completion/.test(what!) ? partners : [];
  const waits = what === "nothing"
    ? "computes"
    : `waits for ${what}${far === undefined ? "" : ` of ${far}`}`;
  return `${name}: ${progress === undefined ? "" : `${progressText(name, progress)}, `}${waits}`;
}

/** In pieces of at most so many letters, cut between words; what is left over ends in an ellipsis. */
export function wrapped(text: string, letters: number, lines: number): string[] {
  const words = text.split(" "), found: string[] = [];
  let line = "";
  for (const word of words) {
    if (line === "" || line.length + 1 + word.length <= letters) {
      line = line === "" ? word : `${line} ${word}`;
    } else {
      found.push(line);
      line = word;
    }
  }
  found.push(line);
  const shown = found.slice(0, lines).map((each) =>
    each.length > letters ? `${each.slice(0, letters - 1)}…` : each
  );
  if (found.length <= lines) return shown;
  const last = shown.pop()!;
  return [...shown, `${last.slice(0, letters - 1).trimEnd()}…`];
}
