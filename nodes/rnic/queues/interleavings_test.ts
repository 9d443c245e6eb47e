/**
 * Every interleaving of a writer, its doorbells and the RNIC at a ring of four units: with the
 * queue's information cached, evicted by its completion queue, and never cached; with doorbells that are served
 * at once, and that wait (`gatherReadsMax: 1`), so that the card has learnt of newer pointers by reading.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { QueuePlan } from "../../../fabric/rack/plan/queue_plan.ts";
import type { PcieMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import {
  type Bell,
  Bench,
  type BenchPlan,
  type Enumerated,
  everyInterleaving,
  type Step,
} from "../testing/interleavings_testing.ts";

const DEPTH = 4;
/** Where the first WQE is; and of these a new ring's first, and the one from which all goes round the end. */
const STARTS = [0, 1, 2, 3], FEW_STARTS = [0, 3];
const cached = (entries: number) =>
  ({ queueCache: { entries, evict: "oldest", amount: 1 } }) as const;
const AT_ONCE = { gatherReadsMax: 32 }, WAITING = { gatherReadsMax: 1 };

/** The WQEs' units, and the doorbell of each. */
type Posts = readonly (readonly [units: 1 | 2, bell: Bell])[];

/** Posts as soon as there is room, and rings for each post. */
function posting(bench: Bench, posts: Posts): Step[] {
  return posts.flatMap(([units, bell]): Step[] => [
    { kind: "store", ready: () => bench.hasRoom(units), run: () => bench.post(units) },
    { kind: "send", run: () => bench.ring(bell) },
  ]);
}

function enumerate(plan: BenchPlan, steps: (bench: Bench) => readonly Step[]): Enumerated {
  return everyInterleaving(() => {
    const bench = new Bench(plan);
    bench.steps = steps(bench);
    return bench;
  });
}

/**
 * How many interleavings these are together, and how many states there are at the end in which a stale pointer
 * was used. The numbers change with what the card reads and writes: a test then says the new ones.
 */
function total(parts: readonly Enumerated[]) {
  const sum = (of: "interleavings" | "stale") => parts.reduce((so, part) => so + part[of], 0);
  return { interleavings: sum("interleavings"), stale: sum("stale") };
}

const P: Bell = "pointer", N: Bell = "number";
/** Nine units in all: each unit of the ring holds two WQEs at least, and one of two units wraps. */
const LONG: readonly [Posts, Posts] = [
  [[1, P], [2, P], [1, P], [1, P], [2, P], [2, P]],
  [[1, P], [2, N], [1, P], [1, N], [2, P], [2, N]],
];
const SHORT: readonly Posts[] = [
  [[1, P], [2, P], [1, P]],
  [[1, N], [2, N], [1, N]],
  [[2, N], [1, P], [2, N]],
];
/** The last is stored while the first is fetched, so that the second doorbell finds it read. */
const THREE: readonly Posts[] = [[[1, P], [1, P], [1, P]]];
const PAIRS: readonly Posts[] = [[[1, P], [2, P]], [[2, N], [1, N]]];

/** The cases of a scheme, by how the card knows the queue. */
function cases(queuePlan: Partial<QueuePlan>, bells: readonly Bell[]) {
  const run = (
    plan: Omit<BenchPlan, "depth" | "start">,
    list: readonly Posts[],
    starts: readonly number[],
  ) =>
    list.filter((posts) => posts.every(([, bell]) => bells.includes(bell))).flatMap((posts) =>
      starts.map((start) =>
        enumerate({ queuePlan, ...plan, depth: DEPTH, start }, (bench) => posting(bench, posts))
      )
    );
  const [pointers, mixed] = LONG;
  return total([
    ...run({ ...cached(64), ...AT_ONCE }, [pointers, ...SHORT], STARTS),
    ...run({ ...cached(64), ...WAITING }, [pointers, ...SHORT], STARTS),
    ...run({ ...cached(64), ...AT_ONCE }, [mixed], [0]),
    ...run({ ...cached(64), ...WAITING }, [mixed], [0]),
    ...run({ ...cached(1), ...AT_ONCE }, SHORT, FEW_STARTS),
    ...run({ ...cached(1), ...WAITING }, SHORT, [0]),
    ...run({ ...cached(0), ...AT_ONCE }, PAIRS, [0]),
    ...run({ ...cached(0), ...WAITING }, THREE, [0]),
  ]);
}

describe("every interleaving of a ring of four units", () => {
  it("Q-08: with wrap and recycling no WQE is lost, doubled or reordered, and no pointer older than its doorbell's is used", () => {
    assert.deepEqual(cases({}, [P, N]), { interleavings: 682_562, stale: 0 });
  });

  it("Q-10: in the classic scheme pointers are stale, and no WQE is lost, doubled or reordered", () => {
    const found = cases({ scheme: "classic" }, [N]);
    assert.deepEqual(found, { interleavings: 62_606, stale: 131 });
  });

  it("Q-08, Q-09: it grows in place, the last doorbell before the command and behind it", () => {
    const parts = [P, N].flatMap((bell) =>
      STARTS.flatMap((start) => grown({ ...cached(64), start }, { where: "in place", bell }))
    );
    // The completion queue evicts what the card knows of the move, while space 3 has the pointer of before.
    const evicted = { ...cached(1), depth: DEPTH, start: 1 };
    const by = { where: "in place", bell: P, isLate: true } as const;
    parts.push(enumerate(evicted, (bench) => growing(bench, by)));
    assert.deepEqual(total(parts), { interleavings: 467_520, stale: 0 });
  });

  it("Q-08, Q-09: it grows elsewhere, the last doorbell before the command and behind it", () => {
    // The RNIC comes to know of a pointer either way, so one is enough here.
    const parts = FEW_STARTS.flatMap((start) =>
      grown({ ...cached(64), start }, { where: "elsewhere", bell: N })
    );
    assert.deepEqual(total(parts), { interleavings: 27_130, stale: 0 });
  });
});

function grown(
  plan: Omit<BenchPlan, "depth">,
  by: Omit<Parameters<typeof growing>[1], "isLate">,
): Enumerated[] {
  return [false, true].map((isLate) =>
    enumerate({ ...plan, depth: DEPTH }, (bench) => growing(bench, { ...by, isLate }))
  );
}

/** Two posts, of one and of two units, fill the ring; it grows, and two more follow. */
function growing(
  bench: Bench,
  by: { readonly where: "in place" | "elsewhere"; readonly bell: Bell; readonly isLate: boolean },
): Step[] {
  const { qp: { sq }, spare } = bench;
  const { where, bell, isLate } = by;
  const ring = { address: where === "in place" ? sq.address : spare, units: 2 * DEPTH };
  let doorbell: PcieMessage | undefined;
  let reply: ReturnType<Bench["ask"]> = () => undefined;
  const rung: Step = { kind: "send", run: () => bench.send(doorbell!) };
  const grown: Step = {
    kind: "send",
    run: () => {
      reply = bench.ask({ op: "expand-queue", queue: sq.queue, ring });
    },
  };
  return [
    ...posting(bench, [[1, bell]]),
    {
      kind: "store",
      run: () => {
        bench.post(2);
        doorbell = bench.doorbell(bell);
      },
    },
    ...(isLate ? [grown, rung] : [rung, grown]),
    { kind: "store", ready: () => reply() !== undefined, run: () => bench.adopt(ring, reply()) },
    {
      kind: "store",
      run: () => {
        bench.post(2);
        bench.post(1);
      },
    },
    { kind: "send", run: () => bench.ring(bell) },
  ];
}
