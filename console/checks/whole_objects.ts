/**
 * P-41: an object that `put` replaces is the old one or the new one, as a whole, in the directory
 * that a power failure leaves.
 */
import type { ObjectRecord } from "../../fabric/audit.ts";
import { areEqual } from "../base/bytes.ts";
import { damageOf } from "./damage.ts";
import { countOf, type Finding, type NodeTime } from "./finding.ts";
import {
  checkerOf,
  type CheckSteps,
  drained,
  type ImageView,
  inSteps,
  mostOf,
  type RunRecord,
  type Steps,
} from "./run_record.ts";
import { type FoundEntry, objectsIn } from "./scm_objects.ts";
import { firstPlace, UNIT_BYTES } from "./values.ts";

export const wholeObjects = checkerOf({
  name: "objects-are-whole",
  promise:
    "What a put replaces is after a power failure the old object or the new one, byte for byte, and " +
    "never neither after one was stored, unless it was removed; what was removed does not come back.",
  looked: (run) => `${countOf(storedIn(run), "object")} stored`,
  subjects: storedIn,
  without: "no put has stored a complete object",
  steps: checkObjects,
});

function* checkObjects(run: RunRecord): CheckSteps {
  const findings: Finding[] = [];
  const objects = yield* replacedIn(run);
  if (objects.size === 0) return findings;
  const known = new Known(run, yield* writesOf(run));
  for (const object of objects.values()) {
    yield;
    const scm = placeOf(known, object);
    findings.push(
      ...judge(known, object).map((each) => scm === undefined ? each : { scm, ...each }),
    );
    if (findings.length >= mostOf(run)) return findings.slice(0, mostOf(run));
  }
  return findings;
}

/** A put that has asked to publish its object. Numbers are places among all notes. */
interface Replacement {
  readonly by: string;
  readonly at: NodeTime;
  readonly host: string;
  readonly note: ObjectRecord;
  readonly asked: number;
  stored: number | undefined;
  storedAt?: NodeTime;
}

interface Removal {
  readonly by: string;
  readonly at: NodeTime;
  readonly asked: number;
  done: number | undefined;
}

interface Replaced {
  readonly host: string;
  readonly name: string;
  readonly puts: Replacement[];
  readonly removals: Removal[];
  withdrawn: number;
  readonly latest: Map<string, Replacement>;
  readonly latestRemoval: Map<string, Removal>;
}

function storedIn(run: RunRecord): number {
  return [...drained(replacedIn(run)).values()].reduce(
    (sum, { puts }) =>
      sum + puts.filter(({ stored, note }) => stored !== undefined && note.complete).length,
    0,
  );
}

function* replacedIn({ notes }: RunRecord): Steps<Map<string, Replaced>> {
  const replaced = new Map<string, Replaced>();
  yield* inSteps(notes, ({ time, by, node, note }, order) => {
    if (note.kind !== "object") return;
    const host = note.on ?? node, { name } = note;
    const key = `${host} ${name}`, at = { node, time };
    let object = replaced.get(key);
    if (object === undefined) {
      object = {
        ...{ host, name, puts: [], removals: [], withdrawn: -1 },
        ...{ latest: new Map(), latestRemoval: new Map() },
      };
      replaced.set(key, object);
    }
    switch (note.state) {
      case "removing": {
        const removal = { by, at, asked: order, done: undefined };
        object.removals.push(removal);
        object.latestRemoval.set(by, removal);
        break;
      }
      case "removed": {
        const removal = object.latestRemoval.get(by);
        if (removal !== undefined) removal.done ??= order;
        break;
      }
      case "withdrawn":
        object.withdrawn = order;
        break;
      case "asked": {
        const put = { by, at, host, note, asked: order, stored: undefined };
        object.puts.push(put);
        object.latest.set(by, put);
        break;
      }
      case "stored": {
        const put = object.latest.get(by);
        if (put === undefined) break;
        put.stored ??= order;
        put.storedAt ??= at;
        break;
      }
    }
  });
  return replaced;
}

interface Written {
  readonly at: number;
  readonly bytes: Uint8Array;
  readonly order: number;
}

function* writesOf({ notes }: RunRecord): Steps<ReadonlyMap<string, readonly Written[]>> {
  const byProgram = new Map<string, Written[]>();
  yield* inSteps(notes, ({ by, note }, order) => {
    if (note.kind !== "writes") return;
    const own = byProgram.get(by), write = { at: note.at, bytes: note.bytes, order };
    if (own === undefined) byProgram.set(by, [write]);
    else own.push(write);
  });
  for (const own of byProgram.values()) {
    yield;
    own.sort((x, y) => x.at - y.at);
  }
  return byProgram;
}

class Known {
  readonly run: RunRecord;
  readonly #writes: ReadonlyMap<string, readonly Written[]>;
  readonly #hosts = new Map<string, KnownHost | undefined>();

  constructor(run: RunRecord, writes: ReadonlyMap<string, readonly Written[]>) {
    this.run = run;
    this.#writes = writes;
  }

  host(name: string): KnownHost | undefined {
    if (this.#hosts.has(name)) return this.#hosts.get(name);
    const node = this.run.plan.nodes.find((each) => each.name === name);
    const image = this.run.scm(name);
    const host = node?.kind !== "host" || image === undefined
      ? undefined
      : { image, objects: objectsIn(image, node.config.scmBytes) };
    this.#hosts.set(name, host);
    return host;
  }

  contentOf({ by, asked, note: { at, length } }: Replacement): Uint8Array {
    const writes = this.#writes.get(by) ?? [], own: Written[] = [];
    const first = firstPlace(writes.length, (i) => writes[i]!.at >= at);
    for (let i = first; i < writes.length && writes[i]!.at <= at + length; i++) {
      const write = writes[i]!;
      if (write.order < asked && write.at + write.bytes.length <= at + length) own.push(write);
    }
    const content = new Uint8Array(length);
    own.sort((x, y) => x.order - y.order);
    for (const { at: from, bytes } of own) content.set(bytes, from - at);
    return content;
  }
}

interface KnownHost {
  readonly image: ImageView;
  readonly objects: ReadonlyMap<string, FoundEntry>;
}

/** Where the object lies, or where its newest put has written it. */
function placeOf(known: Known, { host, name, puts }: Replaced): Finding["scm"] {
  const { offset: from, length } = known.host(host)?.objects.get(name) ?? {};
  if (from !== undefined && length) return { host, from, to: from + length };
  const note = puts.at(-1)?.note;
  return note === undefined ? undefined : { host, from: note.at, to: note.at + note.length };
}

function judge(known: Known, { host, name, puts, removals, withdrawn }: Replaced): Finding[] {
  const there = known.host(host), { run } = known;
  if (there === undefined || puts.length === 0) return [];
  const found = there.objects.get(name);
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
    if (!isLost) return [];
    const { by, at, storedAt = at } = stored.at(-1)!;
    return [{ text: `${what} ${state}, though ${by} has stored it`, at: storedAt }];
  }
  const put = current.findLast(({ note }) => note.at === found.offset && note.complete === true);
  if (put === undefined) {
    const mayBeOlder = current.every(({ stored }) => stored === undefined);
    const text = `${what} is at 0x${found.offset.toString(16)}, where no put has left it`;
    return mayBeOlder ? [] : [{ text, at: puts.at(-1)!.at }];
  }
  const removal = removals.find(({ asked, done }) =>
    done !== undefined && put.stored !== undefined && put.stored < asked
  );
  if (removal !== undefined) {
    return [{ text: `${what} is there, though ${removal.by} removed it`, at: removal.at }];
  }
  // A fault of the scenario may have flipped a bit on the way.
  return damageOf(run.plan, host) ? [] : mixture(known, { what, put, found });
}

/** An object of the scenario's regions is incomplete until it is stored. */
function hasFixedPlace({ plan }: RunRecord, host: string, name: string): boolean {
  return plan.nodes.some((node) =>
    node.kind === "host" && node.name === host &&
    node.config.programs.some(({ run, options }) =>
      run === "persistd" && Object.hasOwn(options["regions"] ?? {}, name)
    )
  );
}

function mixture(
  known: Known,
  { what, put, found }: {
    readonly what: string;
    readonly put: Replacement;
    readonly found: FoundEntry;
  },
): Finding[] {
  const { by, host, at } = put, bytes = known.contentOf(put), { image } = known.host(host)!;
  const { offset, length } = found;
  if (length !== bytes.length) {
    return [{ text: `${what} has ${length} B, where ${by} wrote ${bytes.length} B`, at }];
  }
  // Most objects are whole, and a mebibyte has 131 072 units.
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
    return [{ text, at, scm: { host, from, to } }];
  }
  return [];
}
