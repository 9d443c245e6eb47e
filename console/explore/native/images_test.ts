import { deepEqual as same, equal, ok } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { HostPlan } from "../../../fabric/rack/plan/plan.ts";
import type { Entry } from "../history.ts";
import type { RackRun } from "../rerun.ts";
import { EXPLORE_DEFAULTS, type ExploreOptions } from "../types.ts";
import {
  type CrashImage,
  type Image,
  ImageCount,
  imagesOf,
  type NativeExploration,
  stepsIn,
} from "./images.ts";

/** Two of one page, one of another. */
const LINES = [64, 128, 8192] as const, WORD = 8;
/** Without power from 40 to 60. */
const LIVES = [{ from: 0, to: 40 }, { from: 60, to: Infinity }];
const isUp = (at: number) => LIVES.some(({ from, to }) => at > from && at <= to);

interface Store {
  readonly at: number;
  readonly line: number;
  readonly words: readonly number[];
}

/** Stores of cores and of devices, lines that leave the cache, and a power failure, as a memory logs them. */
function logOf(steps: readonly { after: number; kind: string; line: number; words: number[] }[]) {
  const entries: Entry[] = [], durable = new Map<number, Uint8Array>(), cache = new Map(durable);
  let at = 1, value = 0, life = 0;
  for (const { after, kind, line, words } of steps) {
    at += after;
    if (life === 0 && at > 40) {
      entries.push({ kind: "lost", at: 60 });
      at = Math.max(at, 60);
      cache.clear();
      life = 1;
    }
    const found = cache.get(line) ?? durable.get(line) ?? new Uint8Array(LINE_BYTES);
    if (kind === "store") {
      const bytes = found.slice();
      for (const word of words) bytes.fill(++value, word * WORD, (word + 1) * WORD);
      cache.set(line, bytes);
      const mask = words.reduce((sum, word) => sum | 1 << word, 0);
      entries.push({ kind: "dirty", at, line, bytes, words: mask });
    } else if (kind === "device") {
      const bytes = new Uint8Array(LINE_BYTES).fill(++value);
      cache.set(line, bytes);
      entries.push({ kind: "dirty", at, line, bytes, words: 0 });
    } else if (cache.has(line)) {
      cache.delete(line);
      durable.set(line, found);
      const unit = LINE_BYTES;
      entries.push({ kind: "durable", at, offset: line, bytes: found.slice(), unit });
      entries.push({ kind: "clean", at, line });
    }
  }
  return { entries, endPs: at };
}

/** All that a failure right before `at` may leave, line by line, in no order. */
function leftBy(entries: readonly Entry[], at: number): string[] {
  let all = [""];
  for (const line of LINES) {
    let durable = new Uint8Array(LINE_BYTES).toHex();
    let ways = new Set([durable]), last = durable;
    for (const entry of entries) {
      if (entry.at >= at) break;
      if (entry.kind === "lost") {
        ways = new Set([durable]);
        last = durable;
      } else if (entry.kind === "durable" && entry.offset === line) {
        durable = last = entry.bytes.toHex();
        ways = new Set([durable]);
      } else if (entry.kind === "dirty" && entry.line === line) {
        const bytes = Uint8Array.fromHex(last);
        for (let word = 0; word < LINE_BYTES / WORD; word++) {
          if ((entry.words & 1 << word) === 0) continue;
          bytes.set(entry.bytes.subarray(word * WORD, (word + 1) * WORD), word * WORD);
          ways.add(bytes.toHex());
        }
        last = entry.bytes.toHex();
        ways.add(last);
      }
    }
    all = all.flatMap((before) => [...ways].map((way) => `${before} ${way}`));
  }
  return all.sort();
}

function shown({ offsets, bytes }: Image): string {
  return LINES.map((line) => {
    const page = offsets.indexOf(line - line % 4096), at = page * 4096 + line % 4096;
    const found = page < 0 ? new Uint8Array(LINE_BYTES) : bytes.slice(at, at + LINE_BYTES);
    return ` ${found.toHex()}`;
  }).join("");
}

function explored(
  entries: readonly Entry[],
  more: Partial<ExploreOptions>,
): { readonly images: readonly CrashImage[]; readonly count: ImageCount } {
  const recording = {
    ...{ histories: new Map([["b", { entries }]]), lives: new Map([["b", LIVES]]) },
    ...{ held: new Map(), sendings: new Map() },
  } as unknown as RackRun;
  const config = { rnics: ["b-rnic"], domain: "adr" } as unknown as HostPlan;
  const options = { ...EXPLORE_DEFAULTS, choices: 10_000, ...more };
  const victims = [{ host: "b", config, noticePs: 10 }], count = new ImageCount();
  const of = { recording, victims, options } as unknown as NativeExploration;
  return { images: [...imagesOf(of, count)], count };
}

const STEPS = fc.array(
  fc.record({
    after: fc.constantFrom(0, 0, 1, 3, 7),
    kind: fc.constantFrom("store", "store", "device", "leaves"),
    line: fc.constantFrom(...LINES),
    words: fc.uniqueArray(fc.nat(7), { minLength: 1, maxLength: 2 }),
  }),
  { minLength: 5, maxLength: 30 },
);

it("P-05: has, of each instant, all that a power failure there may leave, and nothing else", () => {
  fc.assert(
    fc.property(STEPS, fc.constantFrom(undefined, 12), fc.constantFrom(undefined, 70), (
      steps,
      from,
      until,
    ) => {
      const { entries, endPs } = logOf(steps);
      const window = { ...(from !== undefined && { from }), ...(until !== undefined && { until }) };
      const { images, count } = explored(entries, window);
      equal(count.bounded, 0);
      const whole = images.filter(({ isAmid }) => !isAmid);
      equal(count.instants, new Set(whole.map((image) => image.from)).size);
      for (let at = 1; at <= endPs + 2; at++) {
        const found = whole.filter((image) => image.from <= at && at < image.until);
        const isAsked = at >= (from ?? 1) && at < (until ?? Infinity);
        const expected = isUp(at) && isAsked ? leftBy(entries, at) : [];
        same(found.map(({ image }) => shown(image)).sort(), expected, `at ${at}`);
      }
      for (const { host, from, until, isAmid, writebacks } of images) {
        equal(host, "b");
        if (isAmid) equal(until, from + 1);
        ok(writebacks.every(({ node, at }) => node === "b" && at <= from));
        const order = writebacks.map((each) => each.at);
        same(order, order.toSorted((x, y) => x - y));
      }
    }),
    seeded({ numRuns: 40 }),
  );
});

it("says at how many instants not all was tried", () => {
  const store = (line: number): Entry => (
    { kind: "dirty", at: 5, line, bytes: new Uint8Array(64).fill(1), words: 0xff }
  );
  const { count } = explored(LINES.map(store), { choices: 20 });
  equal(count.bounded > 0, true);
  equal(count.covered.length > 0, true);
});

it("counts the times that a core has stored into several lines at once, each once", () => {
  const of = (...stores: (Store | "device")[]) => {
    const bytes = new Uint8Array(LINE_BYTES);
    const entries = stores.map((each): Entry => {
      const { at, line, words } = each === "device" ? { at: 1, line: 64, words: [] } : each;
      const mask = words.reduce((sum, word) => sum | 1 << word, 0);
      return { kind: "dirty", at, line, bytes, words: mask };
    });
    return stepsIn({ histories: new Map([["b", { entries }]]) as unknown as RackRun["histories"] });
  };
  const store = (at: number, line: number): Store => ({ at, line, words: [1] });
  equal(of(store(1, 64), store(1, 64), store(2, 128)), 0);
  equal(of(store(1, 64), store(1, 128), store(1, 192)), 1);
  equal(of(store(1, 64), store(1, 128), store(3, 128), store(3, 64), store(4, 64)), 2);
  equal(of("device", store(1, 128)), 0, "a device's are no step of a program");
});
