/** Runs in which a shared region breaks its promises (C-09, C-10). */
import type {
  AccessedRecord,
  AccessRecord,
  LineStateRecord,
  LineTurnRecord,
} from "../../../fabric/audit.ts";
import type { SeenRun } from "../../support/seen_run.ts";
import { type Mutant, type Mutations, withNote } from "./runs.ts";

type Noted<Note> = { readonly place: number; readonly note: Note };

/** Accesses that are done, with the places of their begins and ends. */
function* accessesIn(
  { notes }: SeenRun,
): Generator<{ readonly begin: Noted<AccessRecord>; readonly end: Noted<AccessedRecord> }> {
  const open = new Map<string, Noted<AccessRecord>>();
  for (const [place, { by, note }] of notes.entries()) {
    if (note.kind === "access") open.set(`${by} ${note.id}`, { place, note });
    if (note.kind !== "accessed") continue;
    const begin = open.get(`${by} ${note.id}`);
    if (begin !== undefined) yield { begin, end: { place, note } };
  }
}

/** Loads and atomics that find other bytes. */
function* finding(run: SeenRun, change: (bytes: Uint8Array) => Uint8Array): Generator<Mutant> {
  for (const { begin, end: { place, note } } of accessesIn(run)) {
    if (note.bytes === undefined) continue;
    yield [
      `${begin.note.op} at ${place}`,
      withNote(run, place, { ...note, bytes: change(note.bytes) }),
    ];
  }
}

function withoutNote(run: SeenRun, place: number): SeenRun {
  return { ...run, notes: run.notes.toSpliced(place, 1) };
}

export const LOADS: Mutations = {
  "a load or an atomic finds a bit that no store left": {
    of: "shared",
    least: 80,
    mutants: (run) => finding(run, (bytes) => bytes.map((byte, i) => i === 1 ? byte ^ 0x40 : byte)),
  },
  "a load finds that its line is lost, and later ones find bytes": {
    of: "shared",
    least: 8,
    *mutants(run) {
      const all = [...accessesIn(run)];
      const lineOf = ({ offset }: AccessRecord) => Math.floor(offset / 64);
      for (const lost of all) {
        const { begin, end: { place, note } } = lost;
        if (begin.note.op !== "load") continue;
        const next = all.find((each) =>
          each.begin.note.op === "load" && lineOf(each.begin.note) === lineOf(begin.note) &&
          each.begin.place > place
        );
        // A store to the whole line, at any time between, makes it whole again.
        const isCleared = next === undefined ||
          all.some((each) =>
            each.begin.note.op === "store" && each.begin.note.length === 64 &&
            lineOf(each.begin.note) === lineOf(begin.note) &&
            each.begin.place < next.end.place && each.end.place > begin.place
          );
        const { bytes: _, ...rest } = note;
        if (!isCleared) yield [`${place}`, withNote(run, place, { ...rest, result: "lost" })];
      }
    },
  },
  "a store that wrote something else than what was seen": {
    of: "shared",
    least: 8,
    *mutants(run) {
      const all = [...accessesIn(run)];
      const isOnlySource = (bytes: Uint8Array) =>
        all.filter(({ begin }) => begin.note.bytes?.toHex() === bytes.toHex()).length === 1;
      for (const { begin: { place, note } } of all) {
        if (note.op !== "store" || note.length !== 8 || !isOnlySource(note.bytes!)) continue;
        const isSeen = all.some(({ begin, end }) =>
          begin.note.op === "load" && begin.note.offset === note.offset &&
          end.note.bytes?.toHex() === note.bytes!.toHex()
        );
        if (!isSeen) continue;
        const bytes = note.bytes!.map((byte) => byte ^ 0xff);
        yield [`${place}`, withNote(run, place, { ...note, bytes })];
      }
    },
  },
};

/** The places of states that a cache notes. */
function* statesIn({ notes }: SeenRun): Generator<Noted<LineStateRecord>> {
  for (const [place, { note }] of notes.entries()) {
    if (note.kind === "line-state") yield { place, note };
  }
}

export const STATES: Mutations = {
  "a cache that keeps its copy when another one gets ownership": {
    of: "shared",
    least: 20,
    *mutants(run) {
      const all = [...statesIn(run)];
      for (const [i, { place, note }] of all.entries()) {
        if (note.state !== "I") continue;
        const next = all.slice(i + 1).find(({ note: { line } }) => line === note.line);
        const isOther = next !== undefined &&
          run.notes[next.place]!.node !== run.notes[place]!.node;
        const isOwner = next?.note.state === "M" || next?.note.state === "E";
        if (isOther && isOwner) yield [`${place}`, withoutNote(run, place)];
      }
    },
  },
  "a reader that takes ownership beside other readers": {
    of: "shared",
    least: 5,
    *mutants(run) {
      const readers = new Map<number, Set<string>>();
      for (const { place, note } of statesIn(run)) {
        const { node, time } = run.notes[place]!;
        const own = readers.get(note.line) ?? new Set<string>();
        readers.set(note.line, own);
        own.delete(`${node} ${note.cache}`);
        const isLast = run.notes[place + 1]?.time !== time;
        if (note.state === "S" && own.size > 0 && isLast) {
          yield [`${place}`, withNote(run, place, { ...note, state: "E" })];
        }
        if (note.state === "S") own.add(`${node} ${note.cache}`);
      }
    },
  },
};

export const ANSWERED: Mutations = {
  "an access that is not answered": {
    of: "shared",
    least: 100,
    *mutants(run) {
      for (const { end: { place } } of accessesIn(run)) yield [`${place}`, withoutNote(run, place)];
    },
  },
  "an access that takes longer than the bound": {
    of: "shared",
    least: 100,
    *mutants(run) {
      const region = run.notes.find(({ note }) => note.kind === "region")?.note;
      if (region?.kind !== "region") return;
      for (const { begin, end: { place } } of accessesIn(run)) {
        const timed = run.notes[place]!;
        const time = run.notes[begin.place]!.time + region.answerWithinPs + 1;
        const notes = run.notes.with(place, { ...timed, time });
        yield [`${place}`, { ...run, notes: notes.toSorted((x, y) => x.time - y.time) }];
      }
    },
  },
  "an answer to nothing": {
    of: "shared",
    least: 100,
    *mutants(run) {
      for (const { begin: { place } } of accessesIn(run)) {
        yield [`${place}`, withoutNote(run, place)];
      }
    },
  },
  "bytes that are lost without any fault": {
    of: "shared",
    least: 100,
    *mutants(run) {
      for (const { end: { place, note } } of accessesIn(run)) {
        const { bytes: _, ...rest } = note;
        yield [`${place}`, withNote(run, place, { ...rest, result: "lost" })];
      }
    },
  },
};

/** Places of what becomes of requests at home's card. */
function* turnsIn({ notes }: SeenRun): Generator<Noted<LineTurnRecord>> {
  for (const [place, { note }] of notes.entries()) {
    if (note.kind === "line-turn") yield { place, note };
  }
}

export const TURNS: Mutations = {
  "a request that has waited behind others, and was there before them": {
    of: "shared",
    least: 5,
    *mutants(run) {
      const all = [...turnsIn(run)];
      for (const [i, { place, note }] of all.entries()) {
        if (note.step !== "begun") continue;
        const before = all.slice(0, i).filter(({ note: each }) =>
          each.region === note.region && each.line === note.line
        );
        const isOwn = ({ note: each }: Noted<LineTurnRecord>) =>
          each.agent === note.agent && each.request === note.request;
        const taken = before.findLastIndex((each) => isOwn(each) && each.note.step === "taken");
        const since = before.slice(0, Math.max(0, taken)).findLastIndex(isOwn) + 1;
        // Two others that came, and began, between this agent's last request and this one.
        const others = before.slice(since, Math.max(since, taken)).filter((
          { note: each },
          at,
          list,
        ) =>
          each.step === "taken" &&
          list.slice(at + 1).some(({ note: later }) =>
            later.step === "begun" && later.agent === each.agent && later.request === each.request
          )
        );
        const from = others.at(-2);
        if (from === undefined) continue;
        const { place: at } = before[taken]!;
        const notes = run.notes.toSpliced(at, 1).toSpliced(from.place, 0, {
          ...run.notes[at]!,
          time: run.notes[from.place]!.time,
        });
        yield [`${place}`, { ...run, notes }];
      }
    },
  },
  "a request that begins and was never taken": {
    of: "shared",
    least: 20,
    *mutants(run) {
      for (const { place, note } of turnsIn(run)) {
        if (note.step === "taken") yield [`${place}`, withoutNote(run, place)];
      }
    },
  },
};
