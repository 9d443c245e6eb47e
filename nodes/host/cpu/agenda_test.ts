import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../../fabric/base/rng.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { Agenda, PlacedHeap, type Turn } from "./agenda.ts";

/** The same, word for word: each turn looks at all threads. */
class Scanned {
  readonly threads: { core: number; order: number; resumeAt: Time; readyAt: Time }[] = [];
  readonly busyUntil: Time[];

  constructor(cores: number) {
    this.busyUntil = Array(cores).fill(0);
  }

  get nextAt(): Time {
    return Math.min(NEVER, ...this.threads.map(({ resumeAt }) => resumeAt));
  }

  nextBut(order: number): Time {
    const others = this.threads.filter((each) => each.order !== order);
    return Math.min(NEVER, ...others.map(({ resumeAt }) => resumeAt));
  }

  next(now: Time): number | undefined {
    for (;;) {
      const due = this.threads.filter(({ resumeAt }) => resumeAt <= now)
        .sort((x, y) => x.readyAt - y.readyAt || x.order - y.order);
      const [first] = due;
      if (first === undefined) return undefined;
      if (this.busyUntil[first.core]! <= now) return first.order;
      first.resumeAt = this.busyUntil[first.core]!;
    }
  }

  wake(core: number, now: Time): void {
    for (const each of this.threads) {
      if (each.core !== core || each.resumeAt !== NEVER || each.readyAt === NEVER) continue;
      each.resumeAt = Math.max(now, each.readyAt);
    }
  }
}

function turnOf(agenda: Agenda<Turn>, core: number, order: number): Turn {
  return {
    core: agenda.cores[core]!,
    order,
    ...{ readyAt: NEVER, at: NEVER, isQueued: false, place: -1 },
  };
}

describe("Agenda", () => {
  it("gives turns, and says when the next one is, as a look at all threads does", () => {
    const rng = rngFor(4096, "agenda");
    let turns = 0, waited = 0;
    for (let round = 0; round < 200; round++) {
      const cores = 1 + rng.below(3), count = 1 + rng.below(12);
      const agenda = new Agenda<Turn>(cores), scanned = new Scanned(cores);
      const all = Array.from({ length: count }, (_, i) => turnOf(agenda, i % cores, i));
      const move = (order: number, at: Time) => {
        const turn = all[order]!;
        // As a wait that ends: ready from then on.
        turn.readyAt = at;
        agenda.move(turn, at);
        Object.assign(scanned.threads[order]!, { resumeAt: at, readyAt: at });
      };
      for (const order of all.keys()) {
        scanned.threads.push({ core: order % cores, order, resumeAt: NEVER, readyAt: NEVER });
        move(order, rng.below(20));
      }
      const busy = (core: number, until: Time) => {
        agenda.cores[core]!.busyUntil = scanned.busyUntil[core] = until;
      };
      /** Cores that wait for an answer, with the thread that does. */
      const held = new Map<number, number>();
      /** An answer comes, or another event ends a wait, between the turns. */
      const happens = (now: Time) => {
        for (const [core, order] of held) {
          if (rng.below(2) === 0 && agenda.nextAt < NEVER) continue;
          held.delete(core);
          const until = now + rng.below(3);
          busy(core, until);
          move(order, until);
          agenda.wake(agenda.cores[core]!, now);
          scanned.wake(core, now);
        }
        const order = rng.below(count);
        if (rng.below(3) > 0 || [...held.values()].includes(order)) return;
        move(order, now + rng.below(4));
      };
      for (let now = 0, step = 0; step < 60; step++) {
        for (
          let turn = agenda.next(now);
          turn !== undefined;
          turn = agenda.next(now)
        ) {
          assert.equal(scanned.next(now), turn.order);
          turns++;
          const core = turn.core.index, way = rng.below(4);
          busy(core, way === 0 ? NEVER : now + rng.below(6));
          if (way === 0) held.set(core, turn.order);
          move(turn.order, way === 0 ? NEVER : turn.core.busyUntil + rng.below(8));
        }
        assert.equal(scanned.next(now), undefined);
        assert.equal(agenda.nextAt, scanned.nextAt);
        for (const turn of all) assert.equal(agenda.nextBut(turn), scanned.nextBut(turn.order));
        waited += all.filter(({ isQueued }) => isQueued).length;
        now = Math.min(agenda.nextAt, now + 1 + rng.below(10));
        happens(now);
      }
    }
    assert.ok(turns > 2_000 && waited > 500, `${turns} turns, ${waited} waits`);
  });
});

describe("PlacedHeap", () => {
  it("has the first item at hand, whatever is taken out", () => {
    const rng = rngFor(1, "heap");
    const heap = new PlacedHeap<{ key: number; place: number }>((x, y) => x.key < y.key);
    const items: { key: number; place: number }[] = [];
    for (let step = 0; step < 3_000; step++) {
      if (items.length === 0 || rng.below(5) < 3) {
        const item = { key: rng.below(50), place: -1 };
        items.push(item);
        heap.push(item);
      } else {
        const [item] = items.splice(rng.below(items.length), 1);
        heap.remove(item!);
        assert.equal(item!.place, -1);
      }
      assert.equal(heap.size, items.length);
      assert.equal(heap.first?.key, items.length === 0 ? undefined : least(items));
      for (const item of [heap.first, items[0]]) {
        if (item === undefined) continue;
        const others = items.filter((each) => each !== item);
        assert.equal(heap.firstBut(item)?.key, others.length === 0 ? undefined : least(others));
      }
      const most = rng.below(50);
      const found = [...heap.upTo(({ key }) => key <= most)];
      assert.equal(found.length, items.filter(({ key }) => key <= most).length);
    }
  });
});

function least(items: readonly { readonly key: number }[]): number {
  return Math.min(...items.map(({ key }) => key));
}
