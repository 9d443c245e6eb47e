/**
 * Whole-system persistence (`wsp`, decision 12): what home's card has of its host's SCM when that host's power fails is
 * kept, wherever on its way it is: dirty in the local cache, given back, or on the bus as the answer to a snoop.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";
import { IBV_SEND_SIGNALED } from "../../nodes/host/verbs/flags.ts";
import type { RunRecord } from "../../console/checks/run_record.ts";
import { heldFor, withHeld } from "../../console/rack/survived.ts";
import { recordOfText } from "./shared_rack.ts";
import { connectToHome, exposeScm } from "./verbs_to_home.ts";

const LINES = 2, AT = 2 ** 20, FROM = 100 * PS_PER_US, STORES = 10;

interface Cut {
  readonly domain: "wsp" | "eadr";
  readonly at?: Time;
  readonly starts?: boolean;
  readonly more?: string;
  readonly placement?: "local" | "remote";
}

const SCENARIO = ({ domain, at, starts, more = "", placement = "local" }: Cut) => `
name: wsp
seed: 1
defaults: { services: none, attach: coherent, scm: { size: 2MiB } }
hosts: { a: { domain: ${domain} }, b: {} }
shared: [ { name: s, home: a, far: [b], memory: scm, at: 1MiB, bytes: 128, placement: ${placement}, lease: 20us${more} } ]
programs: [ { on: all, program: ./wsp.ts, restart: true } ]
faults:${at === undefined ? " []" : ""}
${at === undefined ? "" : `  - { at: ${at / 1000}ns, kill: a }`}
${starts ? `  - { at: 200us, start: a }` : ""}
until: 400us
`;

/** The far host counts up in each line; home looks at them now and then, and in its next life once. */
const PROGRAM: Program = function* ({ cpu }) {
  const region = yield* cpu.region("s");
  if (cpu.now > 190 * PS_PER_US) {
    for (let line = 0; line < LINES; line++) {
      const [found] = yield* region.load(64 * line, 1);
      cpu.report("found", { line, found });
    }
    return;
  }
  yield* cpu.sleep(FROM - cpu.now);
  for (let i = 1; i <= STORES; i++) {
    const line = i % LINES;
    if (region.isHome) {
      yield* cpu.sleep(2_300_000);
      yield* region.load(64 * line, 1);
    } else {
      yield* region.store(64 * line, Uint8Array.of(i));
      cpu.report("stored", { line, value: i, at: cpu.now });
    }
  }
};

function runOf(cut: Cut): RunRecord {
  return recordOfText(SCENARIO(cut), { "./wsp.ts": PROGRAM });
}

/** By line, what the far host knows to be stored before an instant. */
function storedBefore({ reports }: RunRecord, at: Time): number[] {
  const last = Array.from({ length: LINES }, () => 0);
  for (const { topic, value } of reports) {
    const stored = value as { line: number; value: number; at: Time };
    if (topic === "stored" && stored.at <= at) last[stored.line] = stored.value;
  }
  return last;
}

/** By line, what is in SCM, with what the card keeps for it. */
function survived({ scm, reports }: RunRecord): number[] {
  const image = withHeld(scm("a")!, heldFor("a", reports));
  return Array.from(
    { length: LINES },
    (_, line) => image.read(AT + 64 * line, AT + 64 * line + 1)[0]!,
  );
}

function foundAfter({ reports }: RunRecord): number[] {
  return reports.filter(({ topic }) => topic === "found")
    .map(({ value }) => (value as { found: number }).found);
}

/** Instants before, at and after each change of a line's state in a cache. */
function instants(more: string): Time[] {
  const { notes } = runOf({ domain: "wsp", more });
  const changes = notes.filter(({ time, note }) => time > FROM && note.kind === "line-state");
  return [...new Set(changes.flatMap(({ time }) => [time - 1, time + 1, time + 60_000]))].toSorted(
    (x, y) => x - y,
  );
}

/** Instants at which grants and answers are on the bus, or are being made: 40 ns apart. */
function grants(more: string): Time[] {
  const { notes } = runOf({ domain: "wsp", more });
  const first = notes.find(({ time, note }) => time > FROM && note.kind === "line-state")!;
  return Array.from({ length: 60 }, (_, i) => first.time - 1_000_000 + 40_000 * i);
}

describe("whole-system persistence of home's local cache", () => {
  const TABLES = { "as they are": "", "one line": ", localCache: 1, writeBacks: 1" };
  for (const [name, more] of Object.entries(TABLES)) {
    it(`decision 12: each store that was done survives, whenever the power fails, and home finds it: tables ${name}`, () => {
      const cuts = instants(more);
      assert.ok(cuts.length > 60, `${cuts.length} instants`);
      let kept = 0;
      for (const at of cuts) {
        const dead = runOf({ domain: "wsp", at, more });
        const stored = storedBefore(dead, at), left = survived(dead);
        for (const [line, value] of stored.entries()) {
          assert.ok(left[line]! >= value, `${at} ps: line ${line} has ${left[line]} of ${value}`);
          kept += value > 0 ? 1 : 0;
        }
        const back = runOf({ domain: "wsp", at, starts: true, more });
        assert.deepEqual(foundAfter(back).slice(0, LINES), left, `${at} ps`);
      }
      assert.ok(kept > 60, `${kept} lines had something to lose`);
    });
  }

  it("decisions 7, 12: a directory in memory calls nothing lost, as home's card has all that is newer", () => {
    const more = ", directory: memory";
    let wasLent = 0, onBus = 0;
    const has = (record: RunRecord, cut: Time, cache: string, state: string) => {
      const own = record.notes.filter(({ time, note }) =>
        time < cut && note.kind === "line-state" && note.cache === cache
      );
      return own.some(({ note }) => note.kind === "line-state" && note.state === state);
    };
    for (const at of [...instants(more), ...grants(more)]) {
      const dead = runOf({ domain: "wsp", at, more }), left = survived(dead);
      const back = runOf({ domain: "wsp", at, starts: true, more });
      // The far host's store may have been fenced.
      const of = (name: string) =>
        back.reports.filter(({ topic, node }) => topic === name && node === "a");
      assert.deepEqual(of("region-lost").map(({ value }) => value), [], `${at} ps`);
      assert.deepEqual(of("program-failed").map(({ value }) => value), [], `${at} ps`);
      assert.deepEqual(foundAfter(back).slice(0, LINES), left, `${at} ps`);
      const adr = runOf({ domain: "eadr", at, starts: true, more });
      if (!adr.reports.some(({ topic }) => topic === "region-lost")) continue;
      wasLent++;
      if (!has(dead, at, "local", "M")) onBus++;
    }
    assert.ok(wasLent > 20, `${wasLent} cuts, at which eADR says that lines are lost`);
    assert.ok(onBus > 2, `${onBus} of them before the card has its first grant`);
  });

  it("decision 12: eADR does not power the card", () => {
    assert.deepEqual(survived(runOf({ domain: "eadr", at: 102 * PS_PER_US })), [0, 0]);
  });
});

/**
 * What a says is lost in its last life. Its power fails at `at`, and is back at 200 µs.
 * @param more.first lines of faults before.
 */
function lossesOf(
  program: Program,
  at: Time,
  { first = "", ...own }: Pick<Cut, "placement"> & { readonly first?: string } = {},
): unknown[] {
  const cut = { domain: "wsp", at, starts: true, more: ", directory: memory", ...own } as const;
  const text = SCENARIO(cut)
    .replace("b: {}", "b: {}, w: { attach: pcie }").replace("\nfaults:", `\nfaults:${first}`);
  const { reports } = recordOfText(text, { "./wsp.ts": program });
  const failed = reports.filter(({ topic, node }) => topic === "program-failed" && node === "a");
  assert.deepEqual(failed, []);
  return reports.filter(({ topic, node, time }) =>
    topic === "region-lost" && node === "a" && time > 200 * PS_PER_US
  ).map(({ value }) => value);
}

describe("a directory in memory and whole-system persistence", () => {
  it("decisions 7, 12: calls no line lost that a READ has taken and not written", () => {
    // A READ takes the line exclusively, and gives it back as memory has it.
    const reads = 150 * PS_PER_US;
    const program: Program = function* (context) {
      const { cpu, device } = context;
      if (cpu.host === "b" || cpu.now > 190 * PS_PER_US) return;
      if (cpu.host === "a") {
        yield* cpu.region("s");
        yield* exposeScm(context, { offset: AT, length: 64 * LINES });
        // Its end takes the connection with it.
        return yield* cpu.sleep(2 * reads);
      }
      const { postSend, waitCompletion, sge, must } = device.verbs;
      yield* cpu.sleep(20 * PS_PER_US);
      const { qp, cq, mr, remote } = yield* connectToHome(context);
      yield* cpu.sleep(reads - cpu.now);
      const sges = [sge(mr, 0, 64)];
      must(yield* postSend(qp, { opcode: "read", sges, remote, sendFlags: IBV_SEND_SIGNALED }));
      yield* waitCompletion(cq);
      cpu.report("read", cpu.now);
    };
    for (let at = reads; at < reads + 5 * PS_PER_US; at += 40_000) {
      assert.deepEqual(lossesOf(program, at + 7), [], `${at} ps`);
    }
  });

  it("decisions 7, 12: a line that was poison is so still where its grant was on the bus", () => {
    // What the far card had is gone with home's first life; then it asks for the line again.
    const program: Program = function* ({ cpu }) {
      if (cpu.host === "w") return;
      const region = yield* cpu.region("s");
      if (region.isHome) return;
      yield* region.store(0, Uint8Array.of(1));
      yield* cpu.sleep(150 * PS_PER_US - cpu.now);
      try {
        const again = yield* cpu.region("s");
        yield* again.store(0, Uint8Array.of(2));
      } catch (error) {
        cpu.report("refused", (error as Error).name);
      }
    };
    const first = "\n  - { at: 60us, kill: a }\n  - { at: 70us, start: a }";
    for (let at = 150 * PS_PER_US; at < 155 * PS_PER_US; at += 50_000) {
      const lost = lossesOf(program, at + 7, { placement: "remote", first });
      assert.deepEqual(lost, [{ region: "s", ranges: [{ offset: 0, length: 64 }] }], `${at} ps`);
    }
  });

  it("decisions 7, 12: a line that is lost with a far card is so, too, where another asks for it by then", () => {
    // b's card dies with the line. Behind the lease's end the answer to home's snoop, and c's GetM, are on the bus.
    const dies = 70 * PS_PER_US;
    const program: Program = function* ({ cpu }) {
      const region = yield* cpu.region("s");
      try {
        if (cpu.host === "b") return yield* region.store(0, Uint8Array.of(1));
        yield* cpu.sleep(dies + (region.isHome ? 2 : 4) * PS_PER_US - cpu.now);
        if (region.isHome) yield* region.load(0, 1);
        else yield* region.store(0, Uint8Array.of(2));
      } catch (error) {
        cpu.report("refused", (error as Error).name);
      }
    };
    const recordAt = (at?: Time) => {
      const cut = { domain: "wsp", placement: "remote", more: ", directory: memory" } as const;
      const text = SCENARIO({ ...cut, at: at ?? 190 * PS_PER_US, starts: true })
        .replace("b: {}", "b: {}, c: {}").replace("far: [b]", "far: [b, c]")
        .replace("\nfaults:", `\nfaults:\n  - { at: ${dies / PS_PER_US}us, kill: b-rnic }`);
      return recordOfText(text, { "./wsp.ts": program }).reports.filter(({ node }) => node === "a");
    };
    const heard = recordAt().find(({ topic }) => topic === "refused")!.time;
    for (let at = heard - 300_000; at < heard + 40_000; at += 20_000) {
      const lost = recordAt(at).filter(({ topic, time }) =>
        topic === "region-lost" && time > 200 * PS_PER_US
      );
      const value = { region: "s", ranges: [{ offset: 0, length: 64 }] };
      assert.deepEqual(lost.map((each) => each.value), [value], `${at} ps`);
    }
  });
});

/** Where the writer's WRITE goes: all of line 0, and of line 1, that far hosts store into all the time. */
const WRITE_BYTES = 128,
  WRITTEN = 0xee,
  NEWER = 0xaa,
  POSTED = 160 * PS_PER_US,
  BUSY_UNTIL = 180 * PS_PER_US;

interface Overtaken {
  readonly stores: "home" | "far";
  readonly at?: Time;
  readonly starts?: boolean;
}

const OVERTAKEN = ({ at, starts }: Overtaken) => `
name: overtaken
seed: 1
defaults: { services: none, attach: coherent, scm: { size: 2MiB } }
hosts: { a: { domain: wsp }, b: {}, c: {}, d: {}, e: {}, f: {}, w: { attach: pcie } }
shared: [ { name: s, home: a, far: [b, c, d, e, f], memory: scm, at: 1MiB, bytes: 128, placement: remote, lease: 50us } ]
programs: [ { on: all, program: ./overtaken.ts, restart: true } ]
faults:${at === undefined ? " []" : ""}
${at === undefined ? "" : `  - { at: ${at / 1000}ns, kill: a }`}
${starts ? `  - { at: 300us, start: a }` : ""}
until: 500us
`;

/** Waits until line 0 has the WRITE's bytes, then stores newer ones and flushes them. */
function* storeNewer(context: ProgramContext): Steps<void> {
  const { cpu } = context;
  const region = yield* cpu.region("s");
  yield* cpu.sleep(POSTED - cpu.now);
  while (cpu.now < BUSY_UNTIL) {
    const [found] = yield* region.load(0, 1);
    if (found !== WRITTEN) continue;
    yield* region.store(0, new Uint8Array(64).fill(NEWER));
    yield* region.flush(0, 64);
    cpu.report("flushed", cpu.now);
    return;
  }
}

function* keepBusy({ cpu }: ProgramContext): Steps<void> {
  const region = yield* cpu.region("s");
  yield* cpu.sleep(POSTED - 20 * PS_PER_US - cpu.now);
  for (let i = 1; cpu.now < BUSY_UNTIL; i++) yield* region.store(64, Uint8Array.of(i));
}

function* write(context: ProgramContext): Steps<void> {
  const { cpu, device } = context;
  const { postSend, waitCompletion, sge, must } = device.verbs;
  yield* cpu.sleep(20 * PS_PER_US);
  const { qp, cq, mr, remote } = yield* connectToHome(context);
  cpu.store(mr.address, new Uint8Array(WRITE_BYTES).fill(WRITTEN));
  yield* cpu.sleep(POSTED - cpu.now);
  const sges = [sge(mr, 0, WRITE_BYTES)];
  must(yield* postSend(qp, { opcode: "write", sges, remote, sendFlags: IBV_SEND_SIGNALED }));
  yield* waitCompletion(cq);
}

const overtaken = (stores: "home" | "far"): Program =>
  function* (context) {
    const { cpu } = context;
    if (cpu.now > 290 * PS_PER_US) {
      const region = yield* cpu.region("s");
      cpu.report("found", { found: (yield* region.load(0, 1))[0] });
      return;
    }
    switch (cpu.host) {
      case "w":
        return yield* write(context);
      case "a":
        yield* exposeScm(context, { offset: AT, length: WRITE_BYTES });
        if (stores === "home") yield* storeNewer(context);
        // Its end takes the connection with it.
        return yield* cpu.sleep(BUSY_UNTIL - cpu.now);
      case "b":
        if (stores === "far") yield* storeNewer(context);
        return;
      default:
        yield* keepBusy(context);
    }
  };

function runOvertaken(of: Overtaken): RunRecord {
  return recordOfText(OVERTAKEN(of), { "./overtaken.ts": overtaken(of.stores) });
}

describe("whole-system persistence of a WRITE whose first line is stored into anew", () => {
  for (const stores of ["home", "far"] as const) {
    it(`decision 12: what ${stores} has flushed is not undone by the WRITE's rest`, () => {
      const whole = runOvertaken({ stores });
      assert.deepEqual(whole.reports.filter(({ topic }) => topic === "program-failed"), []);
      const flushedAt = whole.reports.find(({ topic }) => topic === "flushed")?.value as Time;
      const changes = whole.notes.filter(({ time, note }) =>
        time > flushedAt && note.kind === "line-state" && note.line === 1
      );
      const end = changes.findIndex(({ note }) =>
        note.kind === "line-state" && note.cache === "local" && note.state === "I"
      );
      assert.ok(end > 2, `${end} changes before the WRITE's second line`);
      const cuts = new Set(changes.slice(0, end + 2).map(({ time }) => time + 1));
      for (const at of cuts) {
        const [left] = survived(runOvertaken({ stores, at }));
        assert.equal(left, NEWER, `${at} ps`);
        assert.equal(foundAfter(runOvertaken({ stores, at, starts: true }))[0], NEWER, `${at} ps`);
      }
    });
  }
});
