/** Runs after which a replicated log is not what was told of it. */
import type { LogRecord } from "../../../fabric/audit.ts";
import { slotBytes } from "../../../nodes/host/programs/log/layout.ts";
import { type SeenRun, withBytes } from "../../support/seen_run.ts";
import { type Mutation, type Mutations, withNote } from "./runs.ts";

/** Of the smaller of two logs. */
function lastLog({ notes }: SeenRun): readonly [place: number, note: LogRecord] {
  const place = notes.findLastIndex(({ node, note }) => node === "a" && note.kind === "log");
  return [place, notes[place]!.note as LogRecord];
}

/** Where a slot of a log is at a replica, over all its segments. */
function slotAt(note: LogRecord, replica: LogRecord["replicas"][number], slot: number): number {
  let left = slot;
  for (const [i, slots] of note.segments.entries()) {
    if (left < slots) return replica.at[i]! + left * slotBytes(note);
    left -= slots;
  }
  throw new RangeError(`The log has no slot ${slot}`);
}

/** The same run, after which these replicas have nothing of a log's first segment. */
function wiped(run: SeenRun, note: LogRecord, replicas: LogRecord["replicas"]): SeenRun {
  const bytes = new Uint8Array(note.segments[0]! * slotBytes(note));
  return replicas.reduce<SeenRun>(
    (found, replica) =>
      withBytes(found, { host: replica.host, at: slotAt(note, replica, 0), bytes }),
    run,
  );
}

function ofLastLog(wrong: (note: LogRecord) => Partial<LogRecord>): Mutation {
  return {
    of: "log",
    least: 1,
    *mutants(run) {
      const [place, note] = lastLog(run);
      yield ["the last note", withNote(run, place, { ...note, ...wrong(note) })];
    },
  };
}

export const LOG_RECORDS: Mutations = {
  "one more is confirmed durable": ofLastLog(({ durable }) => ({ durable: durable + 1 })),
  "others are confirmed durable": ofLastLog(({ crc }) => ({ crc: (crc ^ 1) >>> 0 })),
  "two replicas were never reached": ofLastLog(({ replicas }) => ({
    replicas: replicas.map((replica, i) => i === 0 ? replica : { ...replica, at: [] }),
  })),
  "a record is damaged at every replica": {
    of: "log",
    least: 16,
    *mutants(run) {
      const [, note] = lastLog(run);
      // The claim and the barrier are in front of them.
      for (let slot = 2; slot < 2 + note.durable; slot++) {
        const wrong = note.replicas.reduce((found, replica) => {
          const { host } = replica;
          const at = slotAt(note, replica, slot) + 40;
          const [byte] = run.scm(host)!.read(at, at + 1);
          return withBytes(found, { host, at, bytes: Uint8Array.of(byte! ^ 4) });
        }, run);
        yield [`slot ${slot}`, wrong];
      }
    },
  },
  "it is begun anew by a client that was not told to": {
    of: "log",
    least: 1,
    *mutants(run) {
      const [place, note] = lastLog(run);
      const timed = run.notes[place]!;
      const anew = { ...note, durable: 0, crc: 0, anew: true } as const;
      const notes = run.notes.toSpliced(place + 1, 0, {
        ...timed,
        time: timed.time + 1,
        note: anew,
      });
      yield ["all replicas", wiped({ ...run, notes }, note, note.replicas)];
    },
  },
  "two replicas have lost all": {
    of: "log",
    least: 3,
    *mutants(run) {
      const [, note] = lastLog(run);
      for (const spared of note.replicas) {
        const others = note.replicas.filter((replica) => replica !== spared);
        yield [`all but ${spared.host}`, wiped(run, note, others)];
      }
    },
  },
};
