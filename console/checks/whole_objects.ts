/**
 * P-41: an object that `put` replaces is the old one or the new one, as a whole. Judged by what its
 * program noted, by the writes that it declared, and by the directory that a power failure leaves.
 */
import type { ObjectRecord, TimedRecord } from "../../fabric/audit.ts";
import { areEqual } from "../base/bytes.ts";
import { damageOf } from "./damage.ts";
import { countOf, type Finding } from "./finding.ts";
import type { Checker, ImageView, RunRecord } from "./run_record.ts";
import { type FoundEntry, objectsIn } from "./scm_objects.ts";
import { UNIT_BYTES } from "./values.ts";

export const wholeObjects: Checker = {
  name: "objects-are-whole",
  promise:
    "What a put replaces is after a power failure the old object or the new one, byte for byte, and " +
    "never neither after one was stored, unless it was removed; what was removed does not come back.",
  looked: (run) => `${countOf(storedIn(run), "object")} stored`,
  subjects: storedIn,
  without: "no put has stored a complete object",
  check: (run) => [...replacedIn(run).values()].flatMap((puts) => judge(run, puts)),
};

/** A put that has asked for its object to be published. Numbers are places among all notes. */
interface Replacement {
  readonly by: string;
  readonly host: string;
  readonly note: ObjectRecord;
  readonly bytes: Uint8Array;
  readonly asked: number;
  stored: number | undefined;
}

/** An object's removal: when it was asked for, and when it was confirmed. */
interface Removal {
  readonly by: string;
  readonly asked: number;
  done: number | undefined;
}

interface Replaced {
  readonly host: string;
  readonly name: string;
  readonly puts: Replacement[];
  readonly removals: Removal[];
  /** When the host's service last removed the object to make room. */
  withdrawn: number;
}

/** Objects that were stored as complete: an incomplete one promises nothing. */
function storedIn(run: RunRecord): number {
  return [...replacedIn(run).values()].reduce(
    (sum, { puts }) =>
      sum + puts.filter(({ stored, note }) => stored !== undefined && note.complete).length,
    0,
  );
}

/** By host and name. */
function replacedIn({ notes }: RunRecord): Map<string, Replaced> {
  const replaced = new Map<string, Replaced>();
  const writes = new Map<string, TimedRecord[]>();
  for (const [order, timed] of notes.entries()) {
    const { by, node, note } = timed;
    if (note.kind === "writes") {
      const own = writes.get(by) ?? [];
      writes.set(by, own);
      own.push(timed);
    }
    if (note.kind !== "object") continue;
    const host = note.on ?? node;
    const key = `${host} ${note.name}`;
    const { name } = note;
    const object = replaced.get(key) ?? { host, name, puts: [], removals: [], withdrawn: -1 };
    replaced.set(key, object);
    if (note.state === "removing") object.removals.push({ by, asked: order, done: undefined });
    if (note.state === "removed") {
      const removal = object.removals.findLast((each) => each.by === by);
      if (removal !== undefined) removal.done ??= order;
    }
    if (note.state === "withdrawn") object.withdrawn = order;
    if (note.state === "asked") {
      const bytes = contentOf(note, writes.get(by) ?? []);
      object.puts.push({ by, host, note, bytes, asked: order, stored: undefined });
    }
    if (note.state === "stored") {
      const put = object.puts.findLast((each) => each.by === by);
      if (put !== undefined) put.stored ??= order;
    }
  }
  return replaced;
}

/** What a program has declared to write into its object. */
function contentOf({ at, length }: ObjectRecord, writes: readonly TimedRecord[]): Uint8Array {
  const content = new Uint8Array(length);
  for (const { note } of writes) {
    if (note.kind !== "writes" || note.at < at || note.at + note.bytes.length > at + length) {
      continue;
    }
    content.set(note.bytes, note.at - at);
  }
  return content;
}

function judge(run: RunRecord, { host, name, puts, removals, withdrawn }: Replaced): Finding[] {
  const node = run.plan.nodes.find((each) => each.name === host);
  const image = run.scm(host);
  if (node?.kind !== "host" || image === undefined || puts.length === 0) return [];
  const found = objectsIn(image, node.config.scmBytes).get(name);
  const lastAsked = puts.reduce(
    (last, { stored, asked }) => stored === undefined ? last : Math.max(last, asked),
    -1,
  );
  const isCurrent = ({ stored }: Replacement) => stored === undefined || lastAsked <= stored;
  const current = puts.filter(isCurrent);
  const what = `${host}: the object ${name}`;
  if (found?.state !== "complete") {
    const stored = current.filter(({ stored }) => stored !== undefined);
    const isRemoved = removals.some(({ done = Infinity }) => done > (stored.at(-1)?.asked ?? -1));
    const isLost = stored.length > 0 && withdrawn < stored.at(-1)!.asked && !isRemoved &&
      current.every(({ note }) => note.complete) && !hasFixedPlace(run, host, name);
    const state = found === undefined ? "is gone" : "is incomplete";
    return isLost ? [{ text: `${what} ${state}, though ${stored.at(-1)!.by} has stored it` }] : [];
  }
  const put = current.findLast(({ note }) => note.at === found.offset && note.complete === true);
  if (put === undefined) {
    const mayBeOlder = current.every(({ stored }) => stored === undefined);
    const text = `${what} is at 0x${found.offset.toString(16)}, where no put has left it`;
    return mayBeOlder ? [] : [{ text }];
  }
  const removal = removals.find(({ asked, done }) =>
    done !== undefined && put.stored !== undefined && put.stored < asked
  );
  if (removal !== undefined) return [{ text: `${what} is there, though ${removal.by} removed it` }];
  // A fault of the scenario may have flipped a bit on the way.
  return damageOf(run.plan, host) ? [] : mixture(image, { what, put, found });
}

/** An object of the scenario's regions is written in its place: it is incomplete until it is stored. */
function hasFixedPlace({ plan }: RunRecord, host: string, name: string): boolean {
  return plan.nodes.some((node) =>
    node.kind === "host" && node.name === host &&
    node.config.programs.some(({ run, options }) =>
      run === "persistd" && Object.hasOwn(options["regions"] ?? {}, name)
    )
  );
}

/** The first bytes of an object that are not the put's, whatever the caches have written back. */
function mixture(
  image: ImageView,
  { what, put, found }: {
    readonly what: string;
    readonly put: Replacement;
    readonly found: FoundEntry;
  },
): Finding[] {
  const { bytes, by, host } = put;
  const { offset, length } = found;
  if (length !== bytes.length) {
    return [{ text: `${what} has ${length} B, where ${by} wrote ${bytes.length} B` }];
  }
  // Most objects are whole, and one of a mebibyte has 131 072 units.
  if (image.possible === undefined && areEqual(image.read(offset, offset + length), bytes)) {
    return [];
  }
  const first = offset - offset % UNIT_BYTES;
  for (let unit = first; unit < offset + length; unit += UNIT_BYTES) {
    const from = Math.max(unit, offset), to = Math.min(unit + UNIT_BYTES, offset + length);
    const expected = bytes.subarray(from - offset, to - offset);
    const values = image.possible?.(unit) ?? [image.read(unit, unit + UNIT_BYTES)];
    const isWhole = values.every((value) =>
      expected.every((byte, i) => byte === value[from - unit + i])
    );
    if (isWhole) continue;
    const text = `${what} is a mixture: byte ${from - offset} is not what ${by} wrote`;
    return [{ text, scm: { host, from, to } }];
  }
  return [];
}
