/** Runs after which SCM holds what it must not, or not what it must. */
import type { AuditRecord } from "../../../fabric/audit.ts";
import { type SeenRun, withBytes } from "../../support/seen_run.ts";
import { notedWrites } from "../../../console/checks/noted_writes.ts";
import type { NotedWrite } from "../../../console/checks/values.ts";
import { type Mutation, type Mutations, withNote } from "./runs.ts";

function writesIn(run: SeenRun, isPromised: boolean): NotedWrite[] {
  return notedWrites(run.notes, { ...run, claims: false })
    .filter(({ promised }) => (promised !== undefined) === isPromised);
}

/** Every eight bytes of SCM that such a write covers, with something else in their place. */
function eachUnit(
  isPromised: boolean,
  made: (found: Uint8Array, write: Uint8Array) => Uint8Array,
): Mutation["mutants"] {
  return function* (run) {
    for (const { on: host, from, to, bytes, name } of writesIn(run, isPromised)) {
      for (let at = Math.ceil(from / 8) * 8; at + 8 <= to; at += 8) {
        const found = run.scm(host)!.read(at, at + 8);
        const wrong = made(found, bytes.subarray(at - from, at - from + 8));
        yield [`${name} at ${at}`, withBytes(run, { host, at, bytes: wrong })];
      }
    }
  };
}

/** Where in memory these bytes are. */
function placesOf(memory: Uint8Array, bytes: Uint8Array): number[] {
  const places: number[] = [];
  for (let at = memory.indexOf(bytes[0]!); at >= 0; at = memory.indexOf(bytes[0]!, at + 1)) {
    if (bytes.every((byte, i) => memory[at + i] === byte)) places.push(at);
  }
  return places;
}

export const PERSISTENCE: Mutations = {
  "a bit of any byte that was promised": {
    of: "uneven",
    least: 1_500,
    *mutants(run) {
      for (const { on: host, from, to, bytes } of writesIn(run, true)) {
        for (let at = from; at < to; at++) {
          const wrong = Uint8Array.of(bytes[at - from]! ^ (1 << (at & 7)));
          yield [`${at}`, withBytes(run, { host, at, bytes: wrong })];
        }
      }
    },
  },
  "a byte that was promised, wherever it waits to be stored": {
    of: "deposits",
    least: 8,
    *mutants(run) {
      for (const { on: host, bytes, name } of writesIn(run, true)) {
        const places = placesOf(run.scm(host)!.read(0, 2 ** 20), bytes.subarray(0, 32));
        const wrong = places.reduce((found, place) => {
          const at = place + 9;
          return withBytes(found, { host, at, bytes: Uint8Array.of(bytes[9]! ^ 1) });
        }, run);
        yield [`${name} at ${places}`, wrong];
      }
    },
  },
  "eight promised bytes are as they were before": {
    of: "calm",
    least: 1_000,
    mutants: eachUnit(true, () => new Uint8Array(8)),
  },
  "half of eight bytes without a promise": {
    of: "killed",
    least: 200,
    mutants: eachUnit(false, (_, write) => Uint8Array.from(write, (byte, i) => i < 4 ? byte : 0)),
  },
  "bytes from nowhere, without a promise": {
    of: "killed",
    least: 200,
    mutants: eachUnit(false, (found) => found.map((byte, i) => byte ^ (i === 5 ? 0xff : 0))),
  },
  "a promise of what is not there": {
    of: "killed",
    least: 4,
    *mutants(run) {
      const last = run.notes.at(-1)!;
      for (const { note, by } of run.notes) {
        if (note.kind !== "writes") continue;
        const found = run.scm(note.on)!.read(note.at, note.at + note.bytes.length);
        if (found.every((byte, i) => byte === note.bytes[i])) continue;
        const promise: AuditRecord = { kind: "persistent", id: note.id, promised: true };
        yield [`${note.id}`, { ...run, notes: [...run.notes, { ...last, by, note: promise }] }];
      }
    },
  },
  "a promise of a write to a host that is none": {
    of: "uneven",
    least: 5,
    *mutants(run) {
      for (const [place, { note }] of run.notes.entries()) {
        if (note.kind === "writes") {
          yield [`${note.id}`, withNote(run, place, { ...note, on: "z" })];
        }
      }
    },
  },
  "a tail that was there before the one that was promised": {
    of: "append",
    least: 11,
    *mutants(run) {
      const tails = writesIn(run, true).filter(({ bytes }) => bytes.length === 8);
      for (const { on: host, from: at, bytes } of tails.slice(0, -1)) {
        yield [`${bytes}`, withBytes(run, { host, at, bytes })];
      }
    },
  },
  "a tail without a record that it counts, though nothing is promised": {
    of: "append",
    least: 3,
    *mutants(run) {
      const notes = run.notes.filter(({ note }) => note.kind !== "persistent");
      const tail = notedWrites(notes, { ...run, claims: false }).at(-1)!;
      for (const { on: host, from: at, name } of tail.after) {
        yield [name, withBytes({ ...run, notes }, { host, at, bytes: new Uint8Array(8) })];
      }
    },
  },
};
