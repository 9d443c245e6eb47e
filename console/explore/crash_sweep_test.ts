/**
 * Sweeps over a history that is made by hand: what is durable in the SCM of host `b`, when, and what programs noted
 * meanwhile. No rack runs.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { AuditRecord, TimedRecord } from "../../fabric/audit.ts";
import type { HostPlan, RackPlan } from "../../fabric/rack/plan/plan.ts";
import { viewOf } from "../../fabric/base/slab.ts";
import type { Time } from "../../fabric/base/time.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import type { Life } from "../checks/lives.ts";
import {
  encodeClaim,
  encodeRecord,
  type LogRecord,
  PayloadCount,
  slotBytes,
} from "../../nodes/host/programs/log/layout.ts";
import { replicatedLog } from "../checks/replicated_log.ts";
import { crc32 } from "../../fabric/wire/roce/icrc.ts";
import { ENTRY_BYTES, MAGIC, VERSION } from "../checks/scm_objects.ts";
import type { CrashView } from "../../nodes/host/recovery/protocol.ts";
import { CrashSweep, StepCounts, type Violation } from "./crash_sweep.ts";
import { CrashCursor, HistoryLog, Pages } from "./history.ts";
import { instantsOf } from "./instants.ts";
import type { PostCrashRun, PostCrashRuns, Victim } from "./post_crash_run.ts";
import type { RackRun } from "./rerun.ts";
import type { ExploredRack, ExploreOptions } from "./types.ts";

const CONFIG = {
  ...{ rnics: ["b-rnic"], domain: "adr", scmBytes: 1 << 16, programs: [] },
} as unknown as HostPlan;
const VICTIM: Victim = { host: "b", config: CONFIG, noticePs: 10 };
const PLAN = {
  nodes: [{ name: "b", kind: "host", config: CONFIG }],
  ...{ scenario: "sweep", seed: 1, cables: [], faults: [], until: null, addresses: {} },
} as unknown as RackPlan;
const LIVES = new Map([["a", [{ from: 0, to: Infinity }]], ["b", [{ from: 0, to: Infinity }]]]);

function bytesOf(value: number, length = 8): Uint8Array<ArrayBuffer> {
  return new Uint8Array(length).fill(value);
}

/** A write of 8 B of its number + 1 to line `id` of `b`, as `node` notes it. */
function declared(time: Time, id: number, after: readonly number[] = [], node = "a"): TimedRecord {
  return noted(
    time,
    { kind: "writes", id, on: "b", at: 64 * id, bytes: bytesOf(id + 1), after },
    node,
  );
}

function promised(time: Time, id: number, node = "a"): TimedRecord {
  return noted(time, { kind: "persistent", id, promised: true }, node);
}

function noted(time: Time, note: AuditRecord, node = "a"): TimedRecord {
  return { time, node, by: `${node}/0/put#0`, note };
}

interface History {
  readonly log: HistoryLog;
  readonly notes: readonly TimedRecord[];
  readonly runs?: PostCrashRuns;
  readonly options?: Partial<ExploreOptions>;
  readonly isInTurn?: (at: Time) => boolean;
  readonly plan?: RackPlan;
  readonly own?: ExploredRack["own"];
  readonly reports?: RackRun["reports"];
  readonly from?: Time;
  readonly until?: Time;
}

/** Write `id` is in memory from then on, as a whole. */
function arrives(log: HistoryLog, at: Time, id: number): void {
  log.durable(at, 64 * id, bytesOf(id + 1), 64);
}

function sweepOf(
  {
    log,
    notes,
    runs,
    options,
    isInTurn = () => true,
    plan = PLAN,
    own = {},
    reports = [],
    ...window
  }: History,
) {
  const none = { held: new Map(), sendings: new Map(), reports, unfinished: [] };
  const histories = new Map([["b", log]]);
  const recording = {
    ...{ plan, lives: LIVES, notes, histories, endPs: 100, ...none },
  } as unknown as RackRun;
  const victims = [VICTIM];
  const instants = instantsOf(recording, { victims, runs, ...window });
  const sweep = new CrashSweep({
    rack: { plan, inputs: {}, own },
    options: { choices: 64, tear: 8, ...options, ...window } as ExploreOptions,
    ...{ recording, robustness: undefined, victims, runs, instants, isInTurn },
    ...{ examined: new WeakMap(), inTurn: instants.filter(isInTurn) },
  });
  return { sweep, inTurn: instants.filter(isInTurn) };
}

/** Judges these steps, all if none are named, to the first violation. */
function swept(history: History, wanted?: readonly number[]) {
  const { sweep, inTurn } = sweepOf(history), counts = new StepCounts();
  const steps = wanted ?? Array.from({ length: inTurn.length + 1 }, (_, i) => i);
  let violation: Violation | undefined;
  for (const step of steps) {
    const judging = sweep.judge(step, counts);
    let next = judging.next();
    while (next.done !== true) next = judging.next();
    violation = next.value;
    if (violation !== undefined) break;
  }
  return { violation, counts, inTurn };
}

function logOf(fill: (log: HistoryLog) => void): HistoryLog {
  const log = new HistoryLog();
  fill(log);
  return log;
}

describe("CrashSweep", () => {
  const late = logOf((log) => arrives(log, 40, 0));

  it("P-41: finds a promise that is early at the first instant behind it, and none that memory kept", () => {
    const notes = [declared(10, 0), promised(30, 0)];
    const { violation, counts } = swept({ log: late, notes });
    assert.equal(violation?.at, 31);
    assert.equal(violation?.checker, "survives-what-was-reported");
    assert.deepEqual([violation?.hosts, violation?.early], [["b"], []]);
    // Before the first note, behind it, and where the promise is broken.
    assert.equal(counts.crashPoints, 3);
    for (const at of [39, 40, 41]) {
      // A power failure at the instant of the promise comes before it.
      const { violation } = swept({ log: late, notes: [declared(10, 0), promised(at, 0)] });
      assert.equal(violation?.at, at === 39 ? 40 : undefined, `promised at ${at}`);
    }
    const [from, until] = [40, 41];
    const kept = swept({ log: late, notes: [declared(10, 0), promised(40, 0)], from, until });
    assert.deepEqual([kept.inTurn, kept.violation], [[40], undefined]);
  });

  it("judges each step as if it had judged all before it: steps may be left out", () => {
    const log = logOf((log) => {
      for (const id of [0, 1, 2]) arrives(log, 40 + 10 * id, id);
    });
    const ids = [0, 1, 2];
    const notes = [
      ...ids.map((id) => declared(10, id)),
      ...ids.map((id) => promised(45 + 10 * id, id)),
    ];
    const { inTurn, violation } = swept({ log, notes });
    assert.equal(violation, undefined);
    for (let step = 0; step <= inTurn.length; step++) {
      assert.equal(swept({ log, notes }, [step]).violation, undefined, `${inTurn[step]}`);
    }
    // Without the last write's arrival each step behind its promise shows that, and none before it.
    const lost = logOf((log) => {
      for (const id of [0, 1]) arrives(log, 40 + 10 * id, id);
    });
    const broken = sweepOf({ log: lost, notes }).inTurn.flatMap((at, step) =>
      swept({ log: lost, notes }, [step]).violation === undefined ? [] : [at]
    );
    assert.deepEqual(broken, inTurn.filter((at) => at > 65 && broken.includes(at)));
    assert.equal(broken[0], 66);
    const { sweep } = sweepOf({ log, notes });
    sweep.judge(2, new StepCounts()).next();
    assert.throws(() => sweep.judge(1, new StepCounts()).next(), /cannot go back/);
  });

  /** Two writes that are declared, and go to memory in any order, at one instant; one is to be first. */
  const amid: History = {
    log: logOf((log) => {
      log.durable(30, 0, bytesOf(1), 8);
      log.durable(30, 64, bytesOf(2), 8);
    }),
    notes: [declared(30, 0), declared(30, 1, [0])],
  };

  it("P-41: in the middle of an instant finds writes that were declared at it, and says what a run has to bring", () => {
    const { violation } = swept(amid);
    assert.equal(violation?.at, 30);
    assert.deepEqual(violation?.announced.map(({ note }) => note.kind), ["writes", "writes"]);
    assert.equal([...violation.settled.values()].length, 1);
    // The instant's middle is judged with the instant behind it, and by one sweep alone.
    assert.equal(swept({ ...amid, isInTurn: (at) => at !== 31 }).violation, undefined);
    assert.equal(swept({ ...amid, isInTurn: (at) => at === 31 }).violation?.at, 30);
    const { inTurn } = sweepOf(amid);
    const finds = inTurn.map((_, step) => swept(amid, [step]).violation?.at);
    assert.deepEqual(
      finds,
      inTurn.map((at) => at === 31 ? 30 : undefined),
      "steps left out find nothing",
    );
  });

  it("judges no middle of an instant before its window, nor behind it", () => {
    assert.equal(swept({ ...amid, from: 30 }).violation?.at, 30);
    assert.equal(swept({ ...amid, from: 31 }).violation, undefined);
    assert.equal(swept({ ...amid, until: 31 }).violation?.at, 30);
    assert.equal(swept({ ...amid, until: 30 }).violation, undefined);
  });

  it("P-41: a promise of an instant is none in its middle, where the power failure comes before it", () => {
    const log = logOf((log) => {
      log.durable(30, 0, bytesOf(1), 8);
      log.durable(30, 64, bytesOf(2), 8);
    });
    const notes = [declared(10, 0), declared(10, 1), promised(30, 0), promised(30, 1)];
    assert.equal(swept({ log, notes }).violation, undefined);
  });

  it("P-04: counts each content that caches may have written back, and says where not all of them were tried", () => {
    // Two dirty lines, of which the second may be found alone: each write of the first is to be before it.
    const log = logOf((log) => {
      for (const id of [0, 1]) log.dirty(20, 64 * id, bytesOf(id + 1, 64), 0);
    });
    const notes = [declared(10, 0), declared(10, 1, [0])];
    assert.equal(swept({ log, notes }).violation?.at, 21);
    const { violation, counts, inTurn } = swept({ log, notes, options: { choices: 1 } });
    assert.equal(violation, undefined);
    const open = inTurn.filter((at) => at > 20);
    assert.ok(open.length >= 2, `${inTurn}`);
    assert.equal(counts.bounded, open.length, "once for each instant");
    assert.equal(counts.crashPoints, inTurn.length + 2 * open.length, "both lines are open");
    assert.equal(counts.instants, inTurn.length);
    const unordered = swept({ log, notes: [declared(10, 0), declared(10, 1)] });
    assert.deepEqual([unordered.violation, unordered.counts.bounded], [undefined, 0]);
  });

  it("P-41: says where a violation takes more choices together than a counterexample has", () => {
    const write = (id: number, at: number, value: number, after: readonly number[] = []) =>
      noted(10, { kind: "writes", id, on: "b", at, bytes: bytesOf(value), after });
    const visible = (id: number) => noted(10, { kind: "visible", id });
    // Where 2 is found, 1 is above 0: then a 9 is of 5, so that 4, which is above 3, may not be missing.
    const notes = [
      ...[write(0, 0, 9), visible(0), write(1, 0, 5), write(2, 64, 3, [1])],
      ...[write(3, 128, 7), visible(3), write(4, 128, 8), write(5, 0, 9, [4])],
    ];
    const sweepOver = (durable: number) => {
      const log = logOf((log) => {
        log.durable(20, 0, bytesOf(5), 64);
        log.durable(20, 128, bytesOf(durable), 64);
        for (const [at, value] of [[0, 9], [64, 3], [128, 7]] as const) {
          const line = bytesOf(0, 64);
          line.fill(value, 0, 8);
          log.dirty(21, at, line, 0);
        }
      });
      return swept({ log, notes });
    };
    assert.equal(sweepOver(7).violation?.at, 22, "the lines of 2 and 5 may be found");
    const { violation, counts, inTurn } = sweepOver(8);
    assert.equal(violation, undefined, "and that of 3");
    assert.equal(counts.bounded, inTurn.filter((at) => at > 21).length, "once for each instant");
  });
});

const AREA = 1 << 16, SLOT_BYTES = 128, SLOTS = 12, OBJECT = AREA + 4096;

/** SCM with a directory of an object and of receive buffers, both of generation 1, as a host's service makes them. */
function receiving(log: HistoryLog, at: Time): void {
  const head = new Uint8Array(16), view = viewOf(head);
  view.setUint32(4, MAGIC);
  view.setUint32(8, VERSION);
  log.durable(at, 0, head, 8);
  const buffers = `.recv/1/${SLOT_BYTES}`;
  const entries: readonly Parameters<typeof entryBytes>[] = [
    [buffers, AREA, 64 + SLOTS * SLOT_BYTES],
    ["o", OBJECT, 64],
  ];
  for (const [i, entry] of entries.entries()) {
    log.durable(at, ENTRY_BYTES * (i + 1), entryBytes(...entry), 8);
  }
}

function entryBytes(name: string, offset: number, length: number): Uint8Array<ArrayBuffer> {
  const entry = new Uint8Array(ENTRY_BYTES), view = viewOf(entry);
  view.setUint32(4, 1);
  view.setBigUint64(8, BigInt(offset));
  view.setBigUint64(16, BigInt(length));
  entry.set([name.length, ...new TextEncoder().encode(name)], 24);
  view.setUint32(0, crc32(entry.subarray(4)));
  return entry;
}

/** A message of 8 B to the object, as it lies in the first slot. */
function message(value: number): Uint8Array<ArrayBuffer> {
  const slot = new Uint8Array(64), view = viewOf(slot);
  slot[0] = 0x5b;
  view.setBigUint64(4, BigInt(OBJECT));
  view.setUint32(16, 1);
  view.setBigUint64(20, 8n);
  view.setUint32(28, 1);
  slot.set(bytesOf(value), 40);
  const covered = new Uint8Array([...slot.subarray(0, 36), ...slot.subarray(40, 48)]);
  view.setUint32(36, crc32(covered));
  return slot;
}

describe("CrashSweep of a host with receive buffers in SCM", () => {
  const options = { receive: "scm" };
  const config = { ...CONFIG, scmBytes: 1 << 18, programs: [{ run: "persistd", options }] };
  const plan = {
    ...PLAN,
    nodes: [{ name: "b", kind: "host", config }],
  } as unknown as RackPlan;
  const write = { kind: "writes", id: 0, on: "b", at: OBJECT, bytes: bytesOf(1) } as const;
  const notes = [noted(10, write), promised(40, 0)];

  it("P-41: stores at each instant what buffers may have then, whether caches have written it back or not", () => {
    for (const value of [1, 9]) {
      const log = logOf((log) => {
        receiving(log, 20);
        log.durable(30, OBJECT, bytesOf(1), 64);
        log.dirty(60, AREA + 64, message(value), 0);
      });
      // Of a message that was not written the promise knows nothing, nor of what another one is written with.
      const { violation } = swept({ log, notes, plan });
      assert.equal(violation?.at, value === 1 ? undefined : 61, `${value}`);
    }
  });

  it("says where buffers may have more than is gone through", () => {
    const boundedWith = (dirty: number) => {
      const log = logOf((log) => {
        receiving(log, 20);
        log.durable(30, OBJECT, bytesOf(1), 64);
        for (let slot = 0; slot < dirty; slot++) {
          log.dirty(60, AREA + 64 + slot * SLOT_BYTES, bytesOf(7, 64), 0);
        }
      });
      const { violation, counts } = swept({ log, notes, plan });
      assert.equal(violation, undefined);
      return counts.bounded;
    };
    assert.equal(boundedWith(10), 0, "1024 ways");
    assert.equal(boundedWith(11), 2, "behind the stores, and at the end");
  });
});

describe("CrashSweep of objects and logs", () => {
  const config = { ...CONFIG, scmBytes: 1 << 18 };
  const plan = {
    ...PLAN,
    nodes: [{ name: "b", kind: "host", config }],
  } as unknown as RackPlan;
  const object = { kind: "object", name: "o", at: OBJECT, length: 64, complete: true } as const;
  const put = (time: Time, state: "asked" | "stored") => noted(time, { ...object, state, on: "b" });

  it("P-41: finds an object that was stored before its directory had it, and none that was there", () => {
    for (const [at, found] of [[40, 31], [30, undefined], [29, undefined]] as const) {
      const log = logOf((log) => receiving(log, at));
      const { violation } = swept({ log, notes: [put(10, "asked"), put(30, "stored")], plan });
      assert.equal(violation?.at, found, `there at ${at}`);
      if (found !== undefined) assert.equal(violation!.checker, "objects-are-whole");
    }
  });

  it("says where a directory may be found in more ways than are gone through", () => {
    const boundedWith = (dirty: number) => {
      const log = logOf((log) => {
        receiving(log, 20);
        for (let i = 0; i < dirty; i++) {
          const entry = entryBytes(`n${i}`, OBJECT + 256 * (i + 1), 64);
          log.dirty(60, ENTRY_BYTES * (3 + i), entry.subarray(0, 64), 0);
        }
      });
      const { violation, counts } = swept({
        log,
        notes: [put(10, "asked"), put(30, "stored")],
        plan,
      });
      assert.equal(violation, undefined);
      return counts.bounded;
    };
    assert.equal(boundedWith(12), 0, "4096 ways");
    assert.equal(boundedWith(13), 2, "behind the stores, and at the end");
  });

  const shape = { name: "log", recordBytes: 16, slots: 4 };
  const record: LogRecord = { epoch: 1, kind: "data", payload: new Uint8Array(16).fill(7) };

  function logged(time: Time): TimedRecord {
    const payloads = new PayloadCount();
    payloads.add(record);
    return noted(time, {
      ...{ kind: "log", log: shape.name, replicas: [{ host: "b", at: [0] }], quorum: 1 },
      ...{ recordBytes: shape.recordBytes, segments: [shape.slots], durable: 1 },
      ...{ crc: payloads.crc, promised: true },
    });
  }

  it("finds a log that has promised what no majority has, and says where two ways to find it are not all", () => {
    const write = (log: HistoryLog, at: Time) => {
      log.durable(at, 0, encodeClaim(shape, 1), 64);
      log.durable(at, slotBytes(shape), encodeRecord(shape, [record], 0), 64);
    };
    for (const [at, found] of [[40, 31], [30, undefined]] as const) {
      const log = logOf((log) => write(log, at));
      const { violation } = swept({ log, notes: [logged(30)] });
      assert.equal(violation?.at, found, `there at ${at}`);
      if (found !== undefined) assert.equal(violation!.checker, replicatedLog.name);
    }
    for (const versions of [1, 2]) {
      const log = logOf((log) => {
        write(log, 20);
        for (let i = 1; i <= versions; i++) log.dirty(60, 2 * slotBytes(shape), bytesOf(i, 64), 0);
      });
      const { violation, counts } = swept({ log, notes: [logged(30)] });
      assert.equal(violation, undefined);
      assert.equal(counts.bounded, versions === 1 ? 0 : 2, `${versions}`);
    }
  });
});

/** Survivors' runs that see the frames of before these times, with what each of them notes. */
function runsOf(
  log: HistoryLog,
  edges: readonly Time[],
  runs: readonly {
    readonly notes?: readonly TimedRecord[];
    readonly isCutOff?: boolean;
    readonly endless?: string;
    readonly stray?: true;
  }[],
  more: Partial<RackRun> = {},
) {
  const asked: (readonly [at: Time, cutAt: Time])[] = [];
  const framesBy = (at: Time) => edges.filter((edge) => edge <= at).length;
  const made = new Map<number, PostCrashRun>();
  const at = (at: Time, cutAt: Time): PostCrashRun => {
    asked.push([at, cutAt]);
    const frames = framesBy(at), known = made.get(frames);
    if (known !== undefined) return known;
    const { notes = [], isCutOff = false, endless, stray } = runs[frames]!;
    const cursor = new CrashCursor(log.entries, new Pages());
    cursor.moveTo(cutAt);
    const wrong = { kind: "writes", id: 9, on: "nobody", at: 0, bytes: bytesOf(1) } as const;
    const all = stray ? [...notes, noted(5, wrong)] : notes;
    const run = {
      ...{ plan: PLAN, lives: LIVES, reports: [], notes: all, unfinished: [] },
      ...{
        scm: new Map([["a", new Pages()], ["b", cursor.image]]),
        histories: new Map(),
        isCutOff,
        endPs: 90,
      },
      ...more,
    } as unknown as RackRun;
    const found = { frames, reports: run.reports, notes: all, run, cutAt, endless };
    made.set(frames, found);
    return found;
  };
  return { runs: { framesBy, at, edges: () => edges } as unknown as PostCrashRuns, asked };
}

describe("CrashSweep with hosts that go on", () => {
  const late = logOf((log) => arrives(log, 40, 0));

  it("P-12, P-41: of survivors counts what they promise behind the failure, in the run that they have then", () => {
    // In the recorded run the promise comes early; without the frame of 20 it does not come at all.
    const recorded = [declared(10, 0), promised(15, 0)];
    const { runs } = runsOf(late, [20], [
      { notes: [declared(10, 0)] },
      { notes: [declared(10, 0), promised(60, 0)] },
    ]);
    const { violation, counts } = swept({ log: late, notes: recorded, runs });
    assert.equal(violation?.at, 20);
    assert.deepEqual([...counts.runs], [0, 1]);
    // The victim's own notes are those of before the failure, in whichever run.
    const own = [declared(10, 0, [], "b"), promised(30, 0, "b")];
    const quiet = runsOf(late, [20], [{}, {}]);
    assert.equal(swept({ log: late, notes: own, runs: quiet.runs }).violation?.at, 31);
  });

  it("asks for a run that is cut at the first of all instants that it stands for, in whatever order", () => {
    const notes = [12, 22, 32].map((time) =>
      noted(time, { kind: "persistent", id: 7, promised: true }, "b")
    );
    const { inTurn } = swept({ log: late, notes, runs: runsOf(late, [20], [{}, {}]).runs });
    assert.deepEqual(inTurn, [1, 13, 20, 23, 33, 41, 101]);
    for (const [step, cutAt] of [[1, 1], [2, 20], [4, 20], [6, 20]] as const) {
      const { runs, asked } = runsOf(late, [20], [{}, {}]);
      swept({ log: late, notes, runs }, [step]);
      assert.deepEqual(asked.at(-1), [inTurn[step], cutAt]);
    }
  });

  it("says of a run that is wrong by itself what is wrong, as of its cut, and of each whether it ended", () => {
    const wrong = runsOf(late, [20], [{}, { stray: true }]);
    const { violation } = swept({ log: late, notes: [], runs: wrong.runs });
    assert.equal(violation?.at, 20);
    assert.match(violation!.found, /"nobody", which is no host/);
    const cut = runsOf(late, [20], [{}, { isCutOff: true, endless: "it goes on" }]);
    const { counts } = swept({ log: late, notes: [], runs: cut.runs });
    assert.deepEqual([counts.isCutOff, counts.endless], [true, "it goes on"]);
    const ended = swept({ log: late, notes: [], runs: runsOf(late, [20], [{}, {}]).runs }).counts;
    assert.deepEqual([ended.isCutOff, ended.endless], [false, undefined]);
  });

  it("says where a run of survivors leaves other memory than the history has", () => {
    const { runs } = runsOf(logOf((log) => arrives(log, 41, 0)), [50], [{}, {}]);
    const notes = [noted(50, { kind: "persistent", id: 7, promised: true }, "b")];
    assert.doesNotThrow(() => swept({ log: late, notes, runs: runsOf(late, [50], [{}, {}]).runs }));
    const other = runsOf(logOf((log) => arrives(log, 30, 1)), [50], [{}, {}]);
    assert.throws(
      () => swept({ log: late, notes, runs: other.runs }),
      /Explorer and machine disagree/,
    );
    assert.doesNotThrow(() => swept({ log: late, notes, runs }), "the same by the cut");
  });
});

describe("CrashSweep of a user's protocol", () => {
  const text = "name: own\nhosts: { a: {}, b: { scm: { size: 1MiB } } }\n" +
    "programs: [{ on: b, run: ./own.ts }]\n";
  const [variant] = variants(parseScenario(text, "own.yaml"));
  const plan = makePlan(variant!);
  const said = (time: Time, node: string, topic: string) => ({ time, node, topic, value: 1 });

  /** What the protocol's check is given at each of these power failures of `b`, by a run with these lives of `a`. */
  function viewsAt(
    ats: readonly Time[],
    lives: readonly Life[],
    { wrongFrom = Infinity, from }: { readonly wrongFrom?: Time; readonly from?: Time } = {},
  ) {
    const views: string[] = [];
    const check = ({ at, cut, reports, notes }: CrashView) => {
      const told = [...reports.map(({ topic }) => topic), ...notes.map(({ note }) => note.kind)];
      views.push(`${at} without ${cut}: ${told.join(" ")}`);
      return at >= wrongFrom ? ["it is wrong"] : [];
    };
    const own = { "./own.ts": () => ({ check }) } as unknown as ExploredRack["own"];
    const log = logOf((log) => arrives(log, 40, 0));
    const later = { notes: [noted(45, { kind: "freed", at: 0, length: 8 })] };
    const { runs } = runsOf(log, [], [later], {
      ...{ plan, lives: new Map([["a", lives], ["b", [{ from: 0, to: 30 }]]]) },
      ...{
        reports: [said(50, "a", "later")],
        histories: new Map(["a", "b"].map((host) => [host, new HistoryLog()])),
      },
    });
    const reports = [said(30, "a", "other"), said(30, "b", "own")];
    const { sweep, inTurn } = sweepOf({
      log,
      notes: [],
      plan,
      runs,
      own,
      reports,
      ...(from && { from }),
    });
    const counts = new StepCounts();
    let violation: Violation | undefined;
    for (const at of ats) {
      const step = inTurn.indexOf(at);
      assert.ok(step >= 0, `${at} of ${inTurn}`);
      const judging = sweep.judge(step, counts);
      let next = judging.next();
      while (next.done !== true) next = judging.next();
      violation ??= next.value;
    }
    return { views, counts, violation };
  }

  it("shows its check what the victim told before the failure, and all that survivors tell in the run behind it", () => {
    const { views, counts, violation } = viewsAt([1, 31, 41], [{ from: 0, to: Infinity }]);
    assert.deepEqual(views, [
      "1 without b: later freed",
      "31 without b: own later freed",
      "41 without b: own later freed",
    ]);
    assert.equal(violation, undefined);
    // Each instant, and the one way to find memory at it.
    assert.deepEqual([counts.crashPoints, counts.paths, counts.bounded], [6, 3, 0]);
    const at = viewsAt([30], [{ from: 0, to: Infinity }], { from: 30 });
    assert.deepEqual(at.views, ["30 without b: later freed"], "it comes before the report");
  });

  it("shows a rack of which another host has failed later as of that failure", () => {
    const { views } = viewsAt([1, 31], [{ from: 0, to: 55 }]);
    assert.deepEqual(views, ["55 without a,b: later freed", "55 without a,b: own later freed"]);
  });

  it("has the check's finding as a violation of that instant", () => {
    const { violation } = viewsAt([1, 31, 41], [{ from: 0, to: Infinity }], {
      wrongFrom: 31,
    });
    assert.equal(violation?.at, 31);
    assert.deepEqual([violation?.checker, violation?.found], ["check", "it is wrong"]);
    assert.deepEqual([...violation!.settled.keys()], ["b"]);
  });
});
