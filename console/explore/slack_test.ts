import { equal, ok } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../fabric/base/property_testing.ts";
import type { DurableEntry, Entry } from "./history.ts";
import type { RackRun } from "./rerun.ts";
import { slackOf } from "./slack.ts";

const WRITTEN = Uint8Array.of(1, 2, 1, 2), AT = 8, BY = "a/0/put";
type Run = Pick<RackRun, "plan" | "notes" | "histories">;

function runOf(
  entries: readonly Entry[],
  { writtenAt = 10, promisedAt = 100, promised = true, domain = "adr" } = {},
): Run {
  const write = { kind: "writes", id: 3, on: "b", at: AT, bytes: WRITTEN };
  const nodes = [{ kind: "host", name: "b", config: { domain } }, { kind: "rnic", name: "b-rnic" }];
  return {
    plan: { nodes },
    histories: new Map([["b", { entries }]]),
    notes: [
      { time: writtenAt, node: "a", by: BY, note: write },
      { time: promisedAt, node: "a", by: BY, note: { kind: "persistent", id: 3, promised } },
    ],
  } as unknown as Run;
}

const entry = fc.record({
  kind: fc.constantFrom("durable", "durable", "durable", "clean"),
  after: fc.constantFrom(0, 1, 5, 20),
  offset: fc.integer({ min: AT - 3, max: AT + 4 }),
  bytes: fc.array(fc.constantFrom(1, 2), { minLength: 1, maxLength: 6 }),
  isRight: fc.boolean(),
});

it("P-05: slackOf is the time from which on memory has the bytes that are promised, up to the promise", () => {
  let found = 0;
  fc.assert(
    fc.property(fc.array(entry, { maxLength: 25 }), (all) => {
      let at = 5;
      const entries = all.map(({ kind, after, offset, bytes, isRight }): Entry => {
        at += after;
        const given = bytes.map((byte, i) => isRight ? WRITTEN[offset - AT + i] ?? byte : byte);
        if (kind === "clean") return { kind: "clean", at, line: 0 };
        return { kind: "durable", at, offset, bytes: Uint8Array.from(given), unit: 8 };
      });
      const within = entries.filter((each): each is DurableEntry =>
        each.kind === "durable" && each.at >= 10 && each.at < 100
      );
      // Byte by byte: what it is since when, of what came since the write.
      const since = [...WRITTEN].map((byte, i) => {
        let begun: number | undefined;
        for (const { at, offset, bytes } of within) {
          const there = bytes[AT + i - offset];
          if (there === undefined) continue;
          begun = there === byte ? begun ?? at : undefined;
        }
        return begun;
      });
      const last = since.includes(undefined) ? undefined : Math.max(...since as number[]);
      const slack = slackOf(runOf(entries));
      equal(slack?.durablePs, last);
      equal(slack?.ps, last === undefined ? undefined : 100 - last);
      if (slack === undefined) return;
      found++;
      equal([slack.by, slack.id, slack.on, slack.promisedPs].join(), `${BY},3,b,100`);
    }),
    seeded({ numRuns: 200 }),
  );
  ok(found > 20, `${found}`);
});

it("P-05: slackOf is the least of all promises, of hosts whose memory alone survives", () => {
  const all: Entry[] = [{ kind: "durable", at: 30, offset: AT, bytes: WRITTEN, unit: 64 }];
  equal(slackOf(runOf(all))?.ps, 70);
  equal(slackOf(runOf(all, { promised: false })), undefined, "nobody has promised it");
  equal(slackOf(runOf(all, { domain: "eadr" })), undefined, "the cache survives, too");
  equal(slackOf(runOf(all, { writtenAt: 31 })), undefined, "it was there by chance before");
  equal(slackOf(runOf(all, { promisedAt: 30 })), undefined, "it is there behind the promise");
  const run = runOf(all), later = runOf(all, { promisedAt: 60 });
  for (const notes of [[...run.notes, ...later.notes], [...later.notes, ...run.notes]]) {
    equal(slackOf({ ...run, notes })?.ps, 30);
  }
  equal(slackOf({ ...run, notes: run.notes.slice(1) }), undefined, "its write was not told");
});
