/** Runs after which an object is not what the last put has stored. */
import type { ObjectRecord } from "../../../fabric/audit.ts";
import { crc32 } from "../../../fabric/wire/roce/icrc.ts";
import { type SeenRun, withBytes } from "../../support/seen_run.ts";
import type { Mutation, Mutations } from "./runs.ts";

const HOST = "b";
/** Bytes of a directory's entry; in them, of the word that has CRC, state and generation. */
const ENTRY_BYTES = 128, STATE_AT = 4;
/** SCM that has the directory. */
const DIRECTORY = { from: 0, to: 65_536 };

function storedIn({ notes }: SeenRun): ObjectRecord[] {
  return notes.flatMap(({ note }) =>
    note.kind === "object" && note.state === "stored" ? [note] : []
  );
}

/** The valid entries of the directory, with their places. */
function* entriesOf(run: SeenRun): Generator<readonly [at: number, entry: Uint8Array]> {
  for (let at = DIRECTORY.from; at < DIRECTORY.to; at += ENTRY_BYTES) {
    const entry = run.scm(HOST)!.read(at, at + ENTRY_BYTES).slice();
    if (new DataView(entry.buffer).getUint32(0) === crc32(entry.subarray(4))) yield [at, entry];
  }
}

function eachEntry(change: (entry: Uint8Array) => void): Mutation {
  return {
    of: "replaced",
    least: 1,
    *mutants(run) {
      for (const [at, bytes] of entriesOf(run)) {
        change(bytes);
        yield [`${at}`, withBytes(run, { host: HOST, at, bytes })];
      }
    },
  };
}

export const WHOLE_OBJECTS: Mutations = {
  "a bit of any byte of the object": {
    of: "replaced",
    least: 1_500,
    *mutants(run) {
      const { at: first, length } = storedIn(run).at(-1)!;
      for (let at = first; at < first + length; at++) {
        const [byte] = run.scm(HOST)!.read(at, at + 1);
        const bytes = Uint8Array.of(byte! ^ (1 << (at & 7)));
        yield [`${at}`, withBytes(run, { host: HOST, at, bytes })];
      }
    },
  },
  "any message is not there": {
    of: "replaced",
    least: 4,
    *mutants(run) {
      const { at, length } = storedIn(run).at(-1)!;
      for (let from = 0; from < length; from += 300) {
        const bytes = new Uint8Array(300);
        yield [`${from}`, withBytes(run, { host: HOST, at: at + from, bytes })];
      }
    },
  },
  "its entry is gone": eachEntry((entry) => entry[0]! ^= 1),
  "its entry says that it is incomplete": eachEntry((entry) => {
    entry[STATE_AT]! |= 0x80;
    new DataView(entry.buffer).setUint32(0, crc32(entry.subarray(4)));
  }),
  "its entry says that it is shorter": eachEntry((entry) => {
    const view = new DataView(entry.buffer);
    view.setBigUint64(16, view.getBigUint64(16) - 1n);
    view.setUint32(0, crc32(entry.subarray(4)));
  }),
  "a removal of it was confirmed": {
    of: "replaced",
    least: 1,
    *mutants(run) {
      const { name, on = HOST } = storedIn(run).at(-1)!;
      const notes = (["removing", "removed"] as const).map((state) => ({
        ...run.notes.at(-1)!,
        by: "remove#9",
        note: { kind: "object", state, name, on, at: 0, length: 0 } as const,
      }));
      yield ["at the end", { ...run, notes: [...run.notes, ...notes] }];
    },
  },
  "its entry is the older one's": {
    of: "replaced",
    least: 1,
    *mutants(run) {
      const [older] = storedIn(run);
      for (const [at, bytes] of entriesOf(run)) {
        const view = new DataView(bytes.buffer);
        view.setBigUint64(8, BigInt(older!.at));
        view.setUint32(0, crc32(bytes.subarray(4)));
        yield [`${at}`, withBytes(run, { host: HOST, at, bytes })];
      }
    },
  },
};
