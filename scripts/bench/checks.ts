/** (x) Each is to take at most n log n of a run's length. */
import type { AccessRecord, AuditRecord, TimedRecord } from "../../fabric/audit.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { CHECKERS } from "../../console/checks/all.ts";
import { livesOf } from "../../console/checks/lives.ts";
import type { RunRecord } from "../../console/checks/run_record.ts";
import { ENTRY_BYTES, MAGIC, VERSION } from "../../console/checks/scm_objects.ts";
import { crc32 } from "../../fabric/wire/roce/icrc.ts";
import type { Figure, Measured } from "./figure.ts";

const RECORD_BYTES = 64, TAIL = 0, FIRST = 64, OUTSTANDING = 4;
const REGION_BYTES = 1 << 20, REGION_AT = 1 << 25;
const OBJECT_BYTES = 8, NAMES = 500, OBJECTS_AT = 0x1c0_0000, FREED_AT = 0x180_0000;
const DIRECTORY_AT = 0x300_0000;
const HOMES_MOST = 1_000;

/**
 * Records one behind the other, each with an update of one tail that comes after it (P-04), as many
 * flushed stores of a far host to a shared region in SCM, objects of one program, and ranges given
 * back.
 */
export function appendedRecord(records: number): RunRecord {
  const text = "name: checks\nseed: 1\nhosts: { a: {}, b: { scm: { size: 64MiB } } }\n";
  const plan = makePlan(variants(parseScenario(text, "checks.yaml"))[0]!);
  const image = new Uint8Array(1 << 26), words = new DataView(image.buffer);
  const notes: TimedRecord[] = [];
  const note = (each: AuditRecord, node = "a") =>
    void notes.push({ time: 1_000 * notes.length, node, by: `${node}/0/append#0`, note: each });
  words.setUint32(DIRECTORY_AT + 4, MAGIC);
  words.setUint32(DIRECTORY_AT + 8, VERSION);
  const region = { region: "shared", offset: 0, length: 8 };
  note({
    ...{ kind: "region", region: "shared", home: "b", bytes: REGION_BYTES, at: REGION_AT },
    ...{ answerWithinPs: 1e9, homeWaitPs: 0 },
  });
  for (let i = 0; i < records; i++) {
    const at = FIRST + i * RECORD_BYTES, bytes = new Uint8Array(RECORD_BYTES).fill(1 + i % 250);
    const tail = new Uint8Array(8);
    new DataView(tail.buffer).setUint32(0, i + 1);
    note({ kind: "writes", id: 2 * i, on: "b", at, bytes });
    note({ kind: "posted", queue: "send", qpn: 17, wqe: i % 128, wrId: i, signaled: true });
    note({ kind: "writes", id: 2 * i + 1, on: "b", at: TAIL, bytes: tail, after: [2 * i] });
    const done = i - OUTSTANDING;
    if (done >= 0) {
      note({
        ...{ kind: "completed", queue: "send", qpn: 17, wqe: done % 128, wrId: done },
        status: "SUCCESS",
      });
      note({ kind: "visible", id: 2 * done });
      note({ kind: "visible", id: 2 * done + 1 });
    }
    const offset = 8 * (i % (REGION_BYTES / 8)), own = { ...region, offset };
    const line = Math.floor(offset / 64);
    if (offset % 64 === 0) {
      note({ kind: "line-state", region: "shared", line, cache: "llc", state: "M" });
    }
    note({ kind: "access", id: 2 * i, ...own, op: "store", bytes: tail });
    note({ kind: "accessed", id: 2 * i, result: "done" });
    note({ kind: "access", id: 2 * i + 1, ...own, op: "flush" });
    note({ kind: "accessed", id: 2 * i + 1, result: "done" });
    const put = { kind: "object", name: `o${i % NAMES}`, on: "b", complete: true } as const;
    const object = OBJECTS_AT + i * OBJECT_BYTES, freed = FREED_AT + i * OBJECT_BYTES;
    note({ kind: "writes", id: -1 - i, on: "b", at: object, bytes: tail });
    note({ ...put, at: object, length: OBJECT_BYTES, state: "asked" });
    note({ ...put, at: object, length: OBJECT_BYTES, state: "stored" });
    image.set(tail, object);
    image.set(entryOf(put.name, object), DIRECTORY_AT + (1 + i % NAMES) * ENTRY_BYTES);
    note({ kind: "writes", id: -1 - records - i, on: "b", at: freed, bytes: tail });
    note({ kind: "freed", at: freed, length: OBJECT_BYTES }, "b");
    // Places that others use have other content.
    image.fill(0xee, freed, freed + OBJECT_BYTES);
    if (i % 100 === 0 && i / 100 < HOMES_MOST) {
      note({
        ...{ kind: "region", region: `of ${i}`, home: `h${i}`, bytes: 64, at: 0 },
        ...{ answerWithinPs: 1e9, homeWaitPs: 0 },
      });
    }
    image.set(bytes, at);
    image.set(tail, REGION_AT + offset);
  }
  words.setUint32(TAIL, records);
  return {
    plan,
    lives: livesOf(plan, []),
    reports: [],
    notes,
    scm: (host) => host === "b" ? { read: (from, to) => image.slice(from, to) } : undefined,
  };
}

function entryOf(name: string, at: number): Uint8Array {
  const bytes = new Uint8Array(ENTRY_BYTES), view = new DataView(bytes.buffer);
  view.setUint32(4, 1);
  view.setBigUint64(8, BigInt(at));
  view.setBigUint64(16, BigInt(OBJECT_BYTES));
  bytes[24] = name.length;
  bytes.set(new TextEncoder().encode(name), 25);
  view.setUint32(0, crc32(bytes.subarray(4)));
  return bytes;
}

const CUTS = 100, FLUSHED_EACH = 10;

/**
 * Home's power fails again and again amid a far host's stores to one line, which then finds what
 * was flushed last.
 */
function cutRecord(stores: number): RunRecord {
  const text = "name: cuts\nseed: 1\nhosts: { a: {}, b: { scm: { size: 1MiB } } }\n";
  const plan = makePlan(variants(parseScenario(text, "checks.yaml"))[0]!);
  const notes: TimedRecord[] = [];
  let time = 0, id = 0;
  const note = (each: AuditRecord) =>
    void notes.push({ time: time += 1_000, node: "a", by: "a/0/store#0", note: each });
  const region = { region: "shared", length: 8 };
  const access = (
    of: Omit<AccessRecord, "kind" | "id" | "region" | "length">,
    found?: Uint8Array,
  ) => {
    note({ kind: "access", id, ...region, ...of });
    note({ kind: "accessed", id: id++, result: "done", ...(found && { bytes: found }) });
  };
  note({
    ...{ kind: "region", region: "shared", home: "b", bytes: 64, at: 0 },
    ...{ answerWithinPs: 1e9, homeWaitPs: 0 },
  });
  const image = new Uint8Array(1 << 20), lives: { from: number; to: number }[] = [];
  let from = 0;
  for (let i = 0; i < stores; i++) {
    if (i % (stores / CUTS) === 0) {
      note({ kind: "line-state", region: "shared", line: 0, cache: "remote", state: "M" });
    }
    const bytes = new Uint8Array(8), offset = 8 * (i % 8);
    new DataView(bytes.buffer).setUint32(0, i + 1);
    access({ op: "store", offset, bytes });
    const isLast = (i + 1) % (stores / CUTS) === 0;
    if (i % FLUSHED_EACH === 0 || isLast) {
      access({ op: "flush", offset });
      image.set(bytes, offset);
    }
    if (!isLast) continue;
    note({ kind: "line-state", region: "shared", line: 0, cache: "remote", state: "I" });
    lives.push({ from, to: time += 1_000 });
    from = time += 1_000;
    access({ op: "load", offset }, bytes);
  }
  lives.push({ from, to: Infinity });
  return {
    plan,
    lives: new Map([...livesOf(plan, []), ["b", lives]]),
    reports: [],
    notes,
    scm: (host) => host === "b" ? { read: (from, to) => image.slice(from, to) } : undefined,
  };
}

const OVERLAPPING_BYTES = 1024, OVERLAPPED_BYTES = 1 << 16;

/** Without promises, each write over all but the first 64 B of the one before. */
function overlappingRecord(writes: number): RunRecord {
  const text = "name: overlapping\nseed: 1\nhosts: { a: {}, b: { scm: { size: 1MiB } } }\n";
  const plan = makePlan(variants(parseScenario(text, "checks.yaml"))[0]!);
  const image = new Uint8Array(1 << 20);
  const contents = Array.from(
    { length: 250 },
    (_, i) => new Uint8Array(OVERLAPPING_BYTES).fill(1 + i),
  );
  const notes = Array.from({ length: writes }, (_, i): TimedRecord => {
    const at = i * RECORD_BYTES % OVERLAPPED_BYTES, bytes = contents[i % contents.length]!;
    image.set(bytes, at);
    const note = { kind: "writes", id: i, on: "b", at, bytes } as const;
    return { time: 1_000 * i, node: "a", by: "a/0/write#0", note };
  });
  return {
    plan,
    lives: livesOf(plan, []),
    reports: [],
    notes,
    scm: (host) => host === "b" ? { read: (from, to) => image.slice(from, to) } : undefined,
  };
}

interface Kind {
  readonly what: string;
  readonly recordOf: (size: number) => RunRecord;
}

const KINDS: readonly Kind[] = [
  {
    what: "records of a log, and as many stores",
    recordOf: appendedRecord,
  },
  {
    what: `stores to a line, amid ${CUTS} power failures`,
    recordOf: cutRecord,
  },
  {
    what: "writes of 1 KiB that overlap",
    recordOf: overlappingRecord,
  },
];

export function measureChecks({ quick }: Measured): Figure[] {
  const sizes = quick ? [1_000, 10_000] : [1_000, 10_000, 100_000];
  return KINDS.flatMap(({ what, recordOf }) => {
    const costs = sizes.map((size) => ({ size, values: costsOf(() => recordOf(size)) }));
    const first = costs[0]!, last = costs.at(-1)!;
    const growth = last.size * Math.log(last.size) / (first.size * Math.log(first.size));
    return [
      ...costs.map(({ size, values }): Figure => {
        return { group: "x", what: `every check of ${size} ${what}`, unit: "ms", values };
      }),
      {
        group: "x",
        what: `${what}: the most over the least, by n log n`,
        unit: "×",
        values: last.values.map((ms, i) => ms / first.values[i]! / growth),
        target: { is: "at most", value: 1.5 },
      },
    ];
  });
}

function costsOf(make: () => RunRecord): number[] {
  return Array.from({ length: 3 }, () => {
    const run = make(), began = performance.now();
    for (const { name, check, looked } of CHECKERS) {
      looked(run);
      const [found] = check(run);
      if (found !== undefined) throw new Error(`${name}: ${found.text}`);
    }
    return performance.now() - began;
  });
}
