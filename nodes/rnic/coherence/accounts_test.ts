/**
 * The accounts of two coherent cards that are each other's home, at rest behind random accesses and faults: each add is
 * counted once, each access answered once, and the cards hold nothing (`extension.ts`, which the rig asks at rest): no
 * slot, credit, lease, lent line, queue pair of an earlier life or unanswered command.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type Rng, rngFor } from "../../../fabric/base/rng.ts";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { PORTS } from "../../../fabric/node.ts";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { FrameFate, Side } from "../testing/rig_parts_testing.ts";
import {
  type Core,
  REGION_AT,
  REGION_LINES,
  regionPlan,
  RegionRig,
  wholeLine,
} from "../testing/region_testing.ts";

const ADD = { kind: "add", offset: 0, operand: 1n } as const;
const LINES = 4, ROUNDS = 8, ACCESSES = 14;

/** What happens while the cores of both hosts access both regions. */
const HAPPENINGS = [
  "nothing",
  "frames are lost",
  "the cable is cut",
  "a card loses its power",
  "the copies move",
  "a far card leaves a region",
  "home takes a region back",
] as const;
type Happening = typeof HAPPENINGS[number];

/** After these a line's last value may be lost, and an access fenced. */
const LOSES: ReadonlySet<Happening> = new Set(["the cable is cut", "a card loses its power"]);
/** An access that comes meanwhile may be refused. */
const REFUSES: ReadonlySet<Happening> = new Set([
  "a card loses its power",
  "a far card leaves a region",
  "home takes a region back",
]);

interface Place {
  readonly region: number;
  readonly line: number;
  readonly core: Core;
}

class Accounts {
  readonly r: RegionRig;
  readonly counts = new Map<Happening, number>();
  readonly #regions: readonly SharedRegion[];
  readonly #rng: Rng;
  /** By region and line: adds that are done since it was cleared. */
  readonly #values: number[][];
  fenced = 0;
  lost = 0;

  constructor(seed: number, sizes: Partial<SharedRegion>) {
    const first = regionPlan({ leasePs: 400 * PS_PER_US, ...sizes });
    const { home, far: [far] } = first;
    const second = regionPlan({
      ...first,
      ...{ id: 1, name: "t", address: REGION_AT + REGION_LINES * 64 },
      ...{ home: { host: "b", address: far!.address } },
      far: [{ host: "a", address: home.address, agent: 1 }],
    });
    this.#regions = [first, second];
    this.r = new RegionRig(first, {}, this.#regions);
    this.#rng = rngFor(seed, "accounts");
    this.#values = this.#regions.map(() => new Array(LINES).fill(0));
    this.#register();
  }

  #below(count: number): number {
    return Math.floor(this.#rng.unit() * count);
  }

  #homeOf({ home }: SharedRegion): Side {
    return this.r.rig[home.host as "a" | "b"];
  }

  #farOf({ far: [far] }: SharedRegion): Side {
    return this.r.rig[far!.host as "a" | "b"];
  }

  /** Both hosts have both regions. A far card may ask again, as home may have to wait for earlier leases. */
  #register(): void {
    const { rig } = this.r;
    const ask = (side: Side, region: number) =>
      rig.command(side, { op: "register-region", region });
    for (const region of this.#regions) ask(this.#homeOf(region), region.id);
    for (const region of this.#regions) {
      for (let tries = 0;; tries++) {
        const reply = ask(this.#farOf(region), region.id);
        if (reply.status === "ok" || /already/.test(reply.reason)) break;
        assert.ok(tries < 10, reply.reason);
      }
    }
  }

  round(happening: Happening): void {
    const { r } = this;
    this.counts.set(happening, (this.counts.get(happening) ?? 0) + 1);
    const open = this.#accesses();
    const undo = this.#happens(happening);
    for (const [tag, place] of this.#accesses()) open.set(tag, place);
    undo();
    r.rig.fate = () => "pass";
    r.rig.run();
    const doubtful = this.#take(open, happening);
    this.#register();
    this.#check(happening, doubtful);
    r.rig.run();
  }

  /** Both hosts' cores add 1, at random times. @returns the place of each access. */
  #accesses(): Map<number, Place> {
    const open = new Map<number, Place>();
    for (let i = 0; i < ACCESSES / 2; i++) {
      const region = this.#below(2), line = this.#below(LINES);
      const core: Core = this.#below(2) === 0 ? "home" : "far";
      const tag = this.r.beginAt(this.#regions[region]!, core, { op: "store", line, change: ADD });
      open.set(tag, { region, line, core });
      this.r.rig.runFor(this.#below(3) * PS_PER_US / 2);
    }
    return open;
  }

  /** @returns what makes it good again. */
  #happens(happening: Happening): () => void {
    const { rig } = this.r;
    const region = this.#regions[this.#below(2)]!, { id } = region;
    const home = this.#homeOf(region), far = this.#farOf(region);
    const wait = () => rig.runFor(this.#below(1200) * PS_PER_US);
    switch (happening) {
      case "nothing":
        return () => {};
      case "frames are lost":
        rig.fate = (): FrameFate => {
          const draw = this.#rng.unit();
          return draw < 0.05 ? "drop" : draw < 0.1 ? "twice" : "pass";
        };
        return () => rig.runFor(60 * PS_PER_US);
      case "the cable is cut":
        rig.fate = () => "drop";
        return wait;
      case "a card loses its power":
        rig.link(home, PORTS.rnicBus, false);
        return () => {
          this.#waitsForLeases(region);
          this.r.cardLost(home);
          rig.link(home, PORTS.rnicBus, true);
          rig.runFor(PS_PER_US);
          const persistence = { flow: 1, flush: "read", noSnoop: false } as const;
          rig.command(home, { op: "init", spaces: home.host.spaces, persistence });
          this.#register();
        };
      case "the copies move": {
        const place = this.#below(2) === 0 ? "local" : "remote";
        rig.command(home, { op: "move-region", region: id, place });
        return () => {};
      }
      case "a far card leaves a region":
        assert.equal(rig.command(far, { op: "deregister-region", region: id }).status, "ok");
        return () => {};
      case "home takes a region back":
        assert.equal(rig.command(home, { op: "deregister-region", region: id }).status, "ok");
        return () => {};
    }
  }

  #waitsForLeases({ leasePs, leaseMarginPs }: SharedRegion): void {
    this.r.rig.runFor(leasePs + leaseMarginPs);
  }

  /** @returns by region and line, how many adds may have been done or not. */
  #take(
    open: ReadonlyMap<number, Place>,
    happening: Happening,
  ): number[][] {
    const doubtful = this.#regions.map(() => new Array<number>(LINES).fill(0));
    for (const [tag, { region, line, core }] of open) {
      const done = this.r.done.get(tag);
      const where = `${core}'s add to line ${line} of region ${region}, as ${happening}`;
      // A card without power answers nothing: its host does.
      if (done === undefined) {
        assert.ok(happening === "a card loses its power" && core === "far", `${where}: no answer`);
        doubtful[region]![line]!++;
      } else if (done.result === "done") {
        this.#values[region]![line]!++;
      } else if (done.result === "refused") {
        assert.ok(REFUSES.has(happening) && core === "far", `${where}: refused`);
      } else {
        assert.ok(LOSES.has(happening), `${where}: ${done.result}`);
        if (done.result === "fenced") this.fenced++;
        doubtful[region]![line]!++;
      }
    }
    return doubtful;
  }

  /** Each line has what was added to it, or is lost; then it is written anew. */
  #check(happening: Happening, doubtful: readonly (readonly number[])[]): void {
    for (const [id, region] of this.#regions.entries()) {
      const values = this.#values[id]!;
      for (let line = 0; line < LINES; line++) {
        const core: Core = this.#below(2) === 0 ? "home" : "far";
        const load = () => this.#until(this.r.beginAt(region, core, { op: "load", line }));
        let { result, data } = load();
        // A far card that had nothing learns by its first request that its life at home is over.
        if (result === "fenced" && LOSES.has(happening)) ({ result, data } = load());
        const where = `line ${line} of region ${id}, as ${happening}`;
        if (result === "lost") {
          assert.ok(LOSES.has(happening), `${where}: it is lost`);
          this.lost++;
          values[line] = 0;
          const change = wholeLine(0);
          this.#until(this.r.beginAt(region, "home", { op: "store", line, change }));
          continue;
        }
        assert.equal(result, "done", where);
        const value = Number(new DataView(data!.buffer, data!.byteOffset).getBigUint64(0, true));
        const least = values[line]!, most = least + doubtful[id]![line]!;
        assert.ok(value >= least && value <= most, `${where}: ${value}, not ${least} to ${most}`);
        values[line] = value;
      }
    }
  }

  #until(tag: number) {
    this.r.rig.run(() => this.r.done.has(tag));
    return this.r.done.get(tag)!;
  }
}

describe("the accounts of two coherent cards", () => {
  const SIZES: Readonly<Record<string, Partial<SharedRegion>>> = {
    "kept remotely": {},
    "kept locally": { placement: "local" },
    "all tables one entry long": {
      ...{ remoteCache: 1, localCache: 1, slots: 1, entries: 1, writeBacks: 1 },
    },
  };
  for (const [name, sizes] of Object.entries(SIZES)) {
    it(`C-09, C-10, decisions 9, 13, 14, 21: add up whatever has happened: ${name}`, () => {
      let fenced = 0, lost = 0;
      const seen = new Set<Happening>();
      for (let seed = 1; seed <= 8; seed++) {
        const accounts = new Accounts(seed, sizes), rng = rngFor(seed, "happenings");
        for (let round = 0; round < ROUNDS; round++) {
          const happening = HAPPENINGS[Math.floor(rng.unit() * HAPPENINGS.length)]!;
          accounts.round(happening);
          seen.add(happening);
        }
        fenced += accounts.fenced;
        lost += accounts.lost;
      }
      assert.equal(seen.size, HAPPENINGS.length);
      assert.ok(fenced > 0, "an access was fenced");
      assert.ok(lost > 0, "a line was lost");
    });
  }
});
