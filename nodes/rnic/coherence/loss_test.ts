/**
 * Frames between coherent cards that are lost, come twice or late, cables that are cut and cards that lose their
 * power (C-09, C-10). Each number that a core has added counts once: atomics show what is lost and what is done twice.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../../fabric/base/rng.ts";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { PORTS } from "../../../fabric/node.ts";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import { packetOf } from "../testing/pair_testing.ts";
import { CARD_QPN } from "./link.ts";
import type { FrameFate, RigOptions } from "../testing/rig_parts_testing.ts";
import { type Core, regionPlan, RegionRig } from "../testing/region_testing.ts";

const SMALLEST = { remoteCache: 1, localCache: 1, slots: 1, entries: 1, writeBacks: 1 };
const ADD = { kind: "add", offset: 0, operand: 1n } as const;

/** Frames that are lost, doubled, held back or damaged, each with this probability. */
function unreliable(seed: number, share: number): NonNullable<RigOptions["fate"]> {
  const rng = rngFor(seed, "cable");
  return (): FrameFate => {
    const draw = rng.unit();
    if (draw < share) return "drop";
    if (draw < 2 * share) return "twice";
    if (draw < 3 * share) return { delayPs: Math.floor(rng.unit() * 20) * PS_PER_US };
    return draw < 4 * share ? { flipBit: Math.floor(rng.unit() * 400) } : "pass";
  };
}

/** Each side's cores add 1 to random lines, some at a time. @returns what each access has found, by line. */
function addAll(
  r: RegionRig,
  { seed, count, lines }: { seed: number; count: number; lines: number },
) {
  const rng = rngFor(seed, "accesses");
  const lineOf = new Map<number, number>();
  const open: number[] = [];
  for (let i = 0; i < count; i++) {
    const core: Core = rng.unit() < 0.5 ? "home" : "far";
    const line = Math.floor(rng.unit() * lines);
    const tag = r.begin(core, "store", line, ADD);
    lineOf.set(tag, line);
    open.push(tag);
    if (open.length < 4) continue;
    r.rig.run(() => open.some((each) => r.done.has(each)));
    for (const each of [...open]) if (r.done.has(each)) open.splice(open.indexOf(each), 1);
  }
  r.rig.run(() => open.every((each) => r.done.has(each)));
  const found = new Map<number, number[]>();
  for (const [tag, line] of lineOf) {
    const { result, data } = r.done.get(tag)!;
    assert.equal(result, "done");
    const old = Number(new DataView(data!.buffer, data!.byteOffset).getBigUint64(0, true));
    found.set(line, [...found.get(line) ?? [], old]);
  }
  return found;
}

function checkAdds(found: ReadonlyMap<number, readonly number[]>): void {
  for (const [line, old] of found) {
    const inOrder = old.toSorted((x, y) => x - y);
    assert.deepEqual(inOrder, Array.from(old, (_, index) => index), `line ${line}`);
  }
}

describe("an unreliable cable between two coherent cards", () => {
  const REGIONS: Readonly<Record<string, Partial<SharedRegion>>> = {
    "kept remotely": {},
    "kept locally": { placement: "local" },
    "kept remotely, all tables one entry long": SMALLEST,
    "kept locally, all tables one entry long": { ...SMALLEST, placement: "local" },
  };
  for (const [name, sizes] of Object.entries(REGIONS)) {
    for (const seed of [1, 2, 3]) {
      it(`C-09: each add is done once, in one order: ${name}, seed ${seed}`, () => {
        // The lease outlasts what a lost frame costs, so that no access is fenced.
        const leasePs = 20_000 * PS_PER_US;
        const r = new RegionRig(regionPlan({ leasePs, ...sizes }));
        r.register();
        r.rig.fate = unreliable(seed, 0.03);
        checkAdds(addAll(r, { seed, count: 300, lines: 3 }));
        assert.equal(r.counter("a", "linesLost") + r.counter("b", "linesLost"), 0);
        const again = r.counter("a", "retransmissions") + r.counter("b", "retransmissions");
        assert.ok(again > 10, `${again} frames were sent again`);
      });
    }
  }

  it("C-03: a greeting that is lost, or whose answer is, is repeated", () => {
    for (const lost of [1, 3, 5]) {
      const r = new RegionRig();
      let count = 0;
      r.rig.fate = () => count++ < lost ? "drop" : "pass";
      r.register();
      assert.equal(r.store("far", 0, 1), "done");
    }
  });

  it("C-03: a greeting that is answered twice, as it was repeated, makes one link", () => {
    const r = new RegionRig();
    let greetings = 0;
    r.rig.fate = (_, { bytes }) => {
      if (packetOf(bytes).bth.destQpn !== CARD_QPN) return "pass";
      greetings++;
      return { delayPs: 25 * PS_PER_US };
    };
    r.register();
    r.rig.run(() => r.counter("b", "coherenceReceivedWelcome") > 1);
    assert.ok(greetings > 3, `${greetings} frames`);
    for (const line of [0, 1, 2]) assert.equal(r.store("far", line, 7), "done");
    assert.equal(r.load("home", 2), 7);
    assert.equal(r.counter("b", "retransmissions"), 0);
  });

  it("decision 14: an answer to the greeting of an earlier life is none to this one's", () => {
    const r = new RegionRig();
    const { b } = r.rig, lives = new Set<number>();
    let late = 0;
    r.rig.fate = (from, { bytes }) => {
      const { bth, coherenceEth: header } = packetOf(bytes);
      if (from !== "a" || bth.destQpn !== CARD_QPN) return "pass";
      lives.add(header!.life);
      // The first life's answers come while the second one greets, whose first ones are lost.
      if (lives.size === 1) return { delayPs: 160 * PS_PER_US };
      return late++ < 5 ? "drop" : "pass";
    };
    r.command(r.rig.a, "register-region");
    assert.equal(r.command(b, "register-region").status, "error", "it has given up");
    assert.equal(r.counter("b", "coherenceReceivedWelcome"), 0);
    assert.equal(r.command(b, "register-region").status, "ok");
    assert.equal(lives.size, 2);
    assert.ok(r.counter("b", "coherenceReceivedWelcome") > 1 && late > 5, "both have come");
    assert.equal(r.store("far", 0, 7), "done");
    assert.equal(r.load("home", 0), 7);
  });

  it("C-03: a home that does not answer is an error of the command, in bounded time", () => {
    const r = new RegionRig(regionPlan(), { fate: () => "drop" });
    r.command(r.rig.a, "register-region");
    const reply = r.command(r.rig.b, "register-region");
    assert.ok(reply.status === "error");
    assert.match(reply.reason, /home's card at 10.0.0.1 does not answer/);
    assert.ok(r.rig.now < 1000 * PS_PER_US);
  });
});

describe("a cable that is cut", () => {
  /** What both leases and their margins take together, and the greetings behind them. */
  const BOUND = 300 * PS_PER_US;

  it("C-10, decision 13: both sides are answered, dirty lines are lost and reported by range, then all works again", () => {
    const r = new RegionRig();
    r.register();
    for (const line of [3, 4, 5, 9]) r.store("far", line, 1);
    r.load("far", 7);
    r.rig.fate = () => "drop";
    const cut = r.rig.now;
    const asked = [
      r.begin("home", "load", 4),
      r.begin("home", "store", 7, { kind: "add", offset: 0, operand: 1n }),
      r.begin("far", "load", 1),
    ];
    r.rig.run(() => asked.every((tag) => r.done.has(tag)));
    assert.ok(r.rig.now - cut < BOUND, `${(r.rig.now - cut) / PS_PER_US} us`);
    assert.deepEqual(asked.map((tag) => r.done.get(tag)!.result), ["lost", "done", "fenced"]);
    r.rig.runFor(BOUND);
    const expected = [
      { type: "REGION_LOST", region: 0, first: 3, count: 3 },
      { type: "REGION_LOST", region: 0, first: 9, count: 1 },
    ];
    for (const side of [r.rig.a, r.rig.b]) {
      const { events } = side.host;
      assert.deepEqual(events.filter(({ type }) => type === "REGION_LOST"), expected);
      assert.equal(events.filter(({ type }) => type === "REGION_FENCED").length, 1);
    }
    r.rig.fate = () => "pass";
    assert.equal(r.load("far", 7), 1);
    assert.equal(r.load("far", 3), "lost");
    assert.equal(r.load("home", 5), "lost");
    assert.equal(r.store("far", 10, 1), "done");
  });

  it("decision 13: a queue pair that fails ends the far card's life at once, and home waits for the lease", () => {
    const leasePs = 2000 * PS_PER_US;
    const r = new RegionRig(regionPlan({ leasePs }));
    r.register();
    r.store("far", 0, 1);
    r.rig.fate = () => "drop";
    const cut = r.rig.now;
    const far = r.begin("far", "load", 1), home = r.begin("home", "load", 0);
    r.rig.run(() => r.done.has(far) && r.done.has(home));
    const answers = [far, home].map((tag) => r.done.get(tag)!);
    assert.deepEqual(answers.map(({ result }) => result), ["fenced", "lost"]);
    const [farPs, homePs] = answers.map(({ at }) => at - cut) as [number, number];
    assert.ok(farPs < 300 * PS_PER_US, `${farPs / PS_PER_US} us`);
    assert.ok(homePs > leasePs / 2 && homePs < leasePs + BOUND, `${homePs / PS_PER_US} us`);
  });

  it("C-10, decision 14: lives follow each other without end, each with requests of its own", () => {
    const r = new RegionRig();
    r.register();
    // More than there are credits for requests.
    for (let life = 0; life < 24; life++) {
      assert.equal(r.load("far", 0), 0, `life ${life}`);
      r.rig.fate = () => "drop";
      const asked = [8, 9, 10].map((line) => r.begin("far", "load", line));
      r.rig.run(() => asked.every((tag) => r.done.has(tag)));
      assert.deepEqual(asked.map((tag) => r.done.get(tag)!.result), new Array(3).fill("fenced"));
      r.rig.runFor(BOUND);
      r.rig.fate = () => "pass";
    }
    for (const line of [8, 9, 10]) assert.equal(r.load("far", line), 0);
  });

  it("C-10: a cut that is shorter than the lease costs time and nothing else", () => {
    const r = new RegionRig(regionPlan({ leasePs: 200 * PS_PER_US }));
    r.register();
    r.store("far", 0, 1);
    r.rig.fate = () => "drop";
    const tag = r.begin("home", "load", 0);
    r.rig.runFor(30 * PS_PER_US);
    assert.ok(!r.done.has(tag));
    r.rig.fate = () => "pass";
    r.rig.run(() => r.done.has(tag));
    assert.equal(r.done.get(tag)!.data![0], 1);
  });

  it("C-10: at each instant of an access, the result is done or fenced, and home's memory agrees", () => {
    let fenced = 0, done = 0;
    for (let frame = 0; frame < 14; frame++) {
      const r = new RegionRig();
      r.register();
      let count = 0;
      r.rig.fate = () => count++ >= frame ? "drop" : "pass";
      const { result } = r.access("far", "store", 0, ADD);
      r.rig.fate = () => "pass";
      r.rig.runFor(BOUND);
      const value = r.load("home", 0);
      if (result === "fenced") fenced++;
      else done++;
      assert.ok(value === "lost" || value === 0 || value === 1, `${result}: ${value}`);
      if (value === 0) assert.equal(result, "fenced");
    }
    assert.ok(fenced > 0 && done > 0, `${fenced} fenced, ${done} done`);
  });
});

describe("a card that loses its power", () => {
  it("C-10, decision 14: far: its lines are given away after the lease, and its next life is welcome", () => {
    const r = new RegionRig();
    r.register();
    r.store("far", 0, 1);
    r.load("far", 1);
    r.rig.link(r.rig.b, PORTS.rnicBus, false);
    assert.equal(r.load("home", 0), "lost");
    assert.equal(r.store("home", 1, 1), "done");
    r.rig.link(r.rig.b, PORTS.rnicBus, true);
    r.rig.runFor(PS_PER_US);
    const { spaces } = r.rig.b.host;
    const persistence = { flow: 1, flush: "read", noSnoop: false } as const;
    r.rig.command(r.rig.b, { op: "init", spaces, persistence });
    assert.equal(r.load("far", 1), "refused");
    assert.deepEqual(r.command(r.rig.b, "register-region"), { status: "ok", op: "done" });
    assert.equal(r.load("far", 1), 1);
  });

  it("C-10, decision 14: home: nothing is lent by its next life before the leases of its last one are over", () => {
    const r = new RegionRig();
    r.register();
    r.store("far", 0, 1);
    r.rig.link(r.rig.a, PORTS.rnicBus, false);
    const off = r.rig.now;
    r.rig.runFor(PS_PER_US);
    r.rig.link(r.rig.a, PORTS.rnicBus, true);
    r.rig.runFor(PS_PER_US);
    const { spaces } = r.rig.a.host;
    const persistence = { flow: 1, flush: "read", noSnoop: false } as const;
    r.rig.command(r.rig.a, { op: "init", spaces, persistence });
    r.command(r.rig.a, "register-region");
    // The host's own record is a matter of the host: as after a power failure of both.
    r.agent.lines.clear();
    const tag = r.begin("far", "load", 1);
    r.rig.run(() => r.done.has(tag));
    assert.equal(r.done.get(tag)!.result, "fenced");
    r.rig.run(() => r.rig.b.host.events.some(({ type }) => type === "REGION_FENCED"));
    r.rig.runFor(300 * PS_PER_US);
    assert.equal(r.load("far", 1), 0);
    const welcome = r.rig.frames.find(({ from, time, bytes }) =>
      from === "a" && time > off && packetOf(bytes).bth.destQpn === CARD_QPN
    );
    assert.ok(welcome!.time - off >= r.region.leasePs + r.region.leaseMarginPs);
  });
});
