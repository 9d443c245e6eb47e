import { deepStrictEqual as same, match } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type PlayedSeed, playSeeds } from "./seeds.ts";

/** Fails with seed 7. Lower seeds take longer. */
const TEST = `
Deno.test("a property", async () => {
  const seed = Number(Deno.env.get("RACKMESH_TEST_SEED"));
  await new Promise((go) => setTimeout(go, 100 * (10 - seed)));
  if (seed === 7) throw new Error("it does not hold with " + seed);
});
`;
/** Writes that it has begun, and does not end with seed 6. */
const ENDLESS = `
Deno.test("a property", async () => {
  const seed = Number(Deno.env.get("RACKMESH_TEST_SEED"));
  console.log("begun");
  if (seed === 6) await new Promise((go) => setTimeout(go, 1_000_000));
});
`;

async function played(
  text: string,
  options: {
    readonly jobs: number;
    readonly signal?: AbortSignal;
    readonly onSeed?: (played: PlayedSeed) => void;
  },
): Promise<PlayedSeed[]> {
  const folder = await Deno.makeTempDir({ prefix: "rackmesh-seeds-" });
  try {
    const file = `${folder}/seed_test.ts`;
    await Deno.writeTextFile(file, text);
    const all: PlayedSeed[] = [];
    for await (const each of playSeeds([5, 6, 7, 8], { files: [file], ...options })) {
      options.onSeed?.(each);
      all.push(each);
    }
    return all;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

describe("playSeeds", () => {
  it("has the same results in the order of the seeds, for any number of jobs", async () => {
    for (const jobs of [1, 2, 4]) {
      const all = await played(TEST, { jobs });
      const counts = all.map(({ seed, count }) => [seed, count?.passed, count?.failed]);
      same(counts, [[5, 1, 0], [6, 1, 0], [7, 0, 1], [8, 1, 0]]);
      match(all[2]!.text, /it does not hold with 7/);
      match(all[2]!.count!.failures[0]!, /a property/);
    }
  });

  it("says which seeds were not played where it is interrupted, and ends what is under way", async () => {
    const ending = new AbortController();
    const all = await played(ENDLESS, {
      jobs: 2,
      signal: ending.signal,
      onSeed: ({ seed }) => {
        if (seed === 5) setTimeout(() => ending.abort(), 500);
      },
    });
    same(all.map(({ seed }) => seed), [5, 6, 7, 8]);
    same(all[0]!.count?.passed, 1);
    same(all[1]!.count, undefined);
    for (const { count } of all.slice(2)) same(count?.failed ?? 0, 0);
  });
});
