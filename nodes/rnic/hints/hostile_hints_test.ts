/**
 * Hints of a malicious peer (H-24): a fuzzer that knows how they are built, on every queue pair and by every datagram
 * that may bring them, from the honest host's own machine and from another one, while an honest queue pair works and
 * the host takes pages back; and what answers tell about keys and queue pairs of others.
 */
import { deepEqual as same, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import type { Time } from "../../../fabric/base/time.ts";
import { HINT_PLAN } from "../../../fabric/rack/plan/hint_plan.ts";
import { PAGE_FAULT_RULES } from "../../../fabric/rack/plan/plan.ts";
import { rngFor } from "../../../fabric/base/rng.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";
import {
  encodeHint,
  type HintEntry,
  type HintGroup,
  hintOf,
  hintParts,
} from "../../../fabric/wire/roce/hint.ts";
import { HINT_KINDS } from "../../../fabric/wire/roce/hint_eth.ts";
import { decodePacket, encodePacket, isRefusal } from "../../../fabric/wire/roce/packet.ts";
import { ENTRIES_PER_LINE } from "../state/translation_table.ts";
import {
  asDatagram,
  ATTRIBUTES,
  createWorld,
  type Ends,
  honestWork,
  hostileFrame,
  PAGE,
  QUOTA,
  strangersFlood,
  templateOf,
  type World,
} from "../testing/hostile_hints_testing.ts";
import {
  changed,
  counter,
  EVERY_ACCESS,
  packetOf,
  type Pair,
  PAIR_BYTES,
  post,
} from "../testing/pair_testing.ts";
import type { RigMr, RigQp } from "../testing/rig_parts_testing.ts";

const US = 1_000_000;

/** What the honest queue pair's program ends with. */
function results({ rig, driver, honest: { to, a, from } }: World) {
  driver.settle();
  const memory = rig.bytes(rig.b, to, 0, PAIR_BYTES).toHex();
  const read = rig.bytes(rig.a, from, 0, PAIR_BYTES).toHex();
  const completions = rig.poll(rig.a, a.sendCq).map(({ status, wqeIndex }) =>
    `${wqeIndex} ${status}`
  );
  return { memory, read, completions };
}

const RUNS = 8, ROUNDS = 3, FRAMES = 40;

/** What two machines' hints have had fetched, and no request has used, is no more than their quotas (H-24). */
function checkQuota({ rig }: World): void {
  const counts = rig.b.rnic.statistics();
  const unused = (kind: string, fetched: string) =>
    ["Useful", "Late", "Wasted"].reduce(
      (sum, fate) => sum - counts[`hint${kind}${fate}`]!,
      counts[`hint${kind}${fetched}`]!,
    );
  for (
    const [kind, fetched] of [["Pages", "Asked"], ["Lines", "Fetched"], ["Contexts", "Fetched"]]
  ) {
    const count = unused(kind!, fetched!);
    ok(count <= 2 * QUOTA, `${count} ${kind} for two quotas of ${QUOTA}`);
  }
}

function attacked(seed: number, framesMax: number): World & { result: unknown } {
  const rng = rngFor(seed, "hostile hints");
  const world = createWorld({ seed, takeOneIn: 9 });
  const { rig } = world;
  const seen: { to: "a" | "b"; bytes: Uint8Array<ArrayBuffer> }[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    honestWork(world, round);
    for (let i = 0; i < framesMax; i++) {
      // New ones, and earlier ones again in any order: the attacker's, and those of honest cards.
      if (rng.below(4) > 0 || seen.length === 0) {
        const to = rng.below(4) === 0 ? "a" : "b";
        seen.push({ to, bytes: hostileFrame(rng, world, to) });
        const { to: side, bytes } = seen.at(-1)!;
        rig.inject(rig[side], bytes);
      } else {
        const { to, bytes } = seen[rng.below(seen.length)]!;
        rig.inject(rig[to], bytes);
      }
      if (rng.below(2) === 0) rig.runFor(rng.below(2 * US));
      checkQuota(world);
    }
    rig.run();
    for (const { from, bytes } of rig.frames) {
      const packet = decodePacket(bytes);
      // Cards say as well of which groups they are members.
      if (isRefusal(packet) || hintOf(packet) === undefined) continue;
      seen.push({ to: from === "a" ? "b" : "a", bytes });
    }
    rig.frames.splice(0, Math.max(0, rig.frames.length - 200));
  }
  return { ...world, result: results(world) };
}

/** What the rig's driver takes for a page that is asked for alone: the bus there and back, itself, the command. */
const PAGE_PS = 2.5 * US;
/**
 * An operation that finds nothing on the chip reads two contexts and a line, one behind the other; the frames that
 * come meanwhile are looked at, and answered, ahead of it.
 */
const MISS_BOUND = 3 * 0.6 * US + 1 * US;
/** The page request of hints that the driver is at; with `fault: rnr` the tenant comes again at its RNR timer's next end. */
const PAGE_BOUND = PAGE_PS + MISS_BOUND, RNR_PS = 10 * US;

/** How long operations take of a tenant that has one outstanding, while the third machine floods. */
function latencies(
  seed: number,
  { frames, quota }: { readonly frames: number; readonly quota: number },
): { took: number; kind: "page" | "there" }[] {
  const rng = rngFor(seed, "flood");
  const world = createWorld({ seed, b: { quota, quotaPs: 60 * US }, strangers: 12 });
  const { rig, driver, honest } = world;
  return Array.from({ length: 24 }, (_, i) => {
    // The host wants its pages back, all at once: what follows faults, or waits behind its hint.
    if (i % 6 === 0) driver.take(honest.to.key, 0, PAIR_BYTES / PAGE);
    const kind = i % 6 < 3 ? "page" as const : "there" as const;
    // What has been asked for by others before.
    for (let k = 0; k < frames; k++) rig.inject(rig.b, strangersFlood(rng, world));
    const opcode = (["write", "read", "write"] as const)[i % 3]!;
    const began = rig.now;
    post(honest, opcode, { at: (i % 3) * PAGE + 64, length: 64 });
    rig.ring(rig.a, honest.a.sq);
    const isDone = () => rig.poll(rig.a, honest.a.sendCq).length > 0;
    rig.run(isDone);
    const took = rig.now - began;
    rig.runFor(40 * US + rng.below(10 * US));
    return { took, kind };
  });
}

describe("hints of a malicious peer", () => {
  it("H-24: any field, damage, order or carrier: no byte, no completion of others, no page beyond the quota", () => {
    const reached = new Map<string, number>();
    let taken = 0;
    fc.assert(
      fc.property(fc.nat(2 ** 20), (seed) => {
        const { rig, driver, closed, theirs, result } = attacked(seed, FRAMES);
        same(result, attacked(seed, 0).result);
        for (const { key } of closed) {
          const { pages } = driver.regions.get(key)!;
          ok(pages.every(({ state }) => state === "unmapped"), "a page of others was asked for");
        }
        for (const region of [theirs, ...closed]) {
          const bytes = rig.bytes(rig.b, region, 0, region.length);
          ok(bytes.every((byte, i) => byte === ((0x55 ^ i) & 0xff)));
        }
        for (const [name, count] of Object.entries(rig.b.rnic.statistics())) {
          reached.set(name, (reached.get(name) ?? 0) + count);
        }
        taken += driver.taken;
      }),
      seeded({ numRuns: RUNS }),
    );
    for (
      const name of [
        "hintsIn",
        "hintsMalformed",
        "hintsNoAccess",
        "hintsUnknownQp",
        "hintsOverQuota",
        "hintsNotWanted",
        "hintPagesAsked",
        "hintLinesFetched",
        "hintContextsFetched",
        "hintWordsRead",
        "drop-vendor-operation",
        "drop-wrong-service",
        "drop-wrong-peer",
        "drop-q-key",
      ]
    ) ok((reached.get(name) ?? 0) > 0, `${name}: ${reached.get(name)}`);
    ok(taken > RUNS, `${taken} pages were taken back`);
  });

  for (const quota of [QUOTA, 16, HINT_PLAN.quota]) {
    it(`H-24: with a quota of ${quota} a flood of another machine delays no operation by more than one page request of it, and misses`, () => {
      const later: Record<string, number> = { page: 0, there: 0 };
      for (const [seed, rule] of PAGE_FAULT_RULES.entries()) {
        const [alone, beside] = [0, 4].map((frames) => latencies(seed, { frames, quota }));
        const retryPs = rule === "rnr" ? RNR_PS : 0;
        for (const [i, { took, kind }] of beside!.entries()) {
          const laterPs = took - alone![i]!.took - (kind === "page" ? retryPs : 0);
          later[kind] = Math.max(later[kind]!, laterPs);
        }
      }
      ok(later.page! <= PAGE_BOUND, `a fault: ${later.page} ps later, at most ${PAGE_BOUND} ps`);
      ok(later.there! <= MISS_BOUND, `no fault: ${later.there} ps later, at most ${MISS_BOUND} ps`);
      // What is bounded has been there.
      ok(later.page! > PAGE_BOUND / 8, `${later.page} ps`);
    });
  }
});

/** What a hint may name that its queue pair may not access. */
const WITHOUT_RIGHTS: readonly [string, (world: World) => Partial<HintEntry>][] = [
  ["no key", ({ honest }) => ({ rkey: honest.to.key ^ 0x00ff_0000 })],
  ["a key's next variant", ({ honest }) => ({ rkey: honest.to.key + 1 })],
  ["the right key, not mapped there", ({ honest: { to } }) => ({ va: BigInt(to.va) - 64n })],
  ["the right key, beyond its end", () => ({ length: PAIR_BYTES + 1 })],
  [
    "another domain's, page not there",
    ({ closed: [other] }) => ({ rkey: other!.key, va: BigInt(other!.va + 3 * PAGE) }),
  ],
  [
    "another domain's, page there",
    ({ closed: [other] }) => ({ rkey: other!.key, va: BigInt(other!.va) }),
  ],
  [
    "a region without remote rights",
    ({ closed: [, local] }) => ({ rkey: local!.key, va: BigInt(local!.va) }),
  ],
];

/** A frame: whose, how long after the hint, and its bytes. */
type Told = readonly [from: "a" | "b", time: Time, bytes: string];

describe("what hints tell of memory and queue pairs of others", () => {
  /** Sends one announcement. @returns frames of `b` and what its card has counted, from then on. */
  function told(
    world: World,
    by: Ends,
    group: Omit<HintGroup, "entries">,
    ...entries: readonly Partial<HintEntry>[]
  ) {
    const { rig, honest } = world;
    const own = templateOf(world, "b");
    const kinds = HINT_KINDS.prefetch | HINT_KINDS.warmUp;
    const tagged = { rkey: honest.to.key, va: BigInt(honest.to.va), length: 64 };
    const rest = { operation: "write", messages: 1, sequence: 0, objects: [] } as const;
    const elements = entries.map((entry) => ({ kinds, ...rest, ...tagged, ...entry }));
    const groups = [{ ...group, entries: elements }];
    const message = { type: "announce", kinds, reason: "none", sequence: 9, answer: true } as const;
    const parts = hintParts({ ...message, groups });
    const bth = { destQpn: by.b.qpn, padCount: -parts.payload.length & 3 };
    const packet = by === world.group
      ? asDatagram(own, { payload: encodeHint({ ...message, groups }) })
      : changed(own, { ...parts, bth });
    rig.runFor(1000 * US - rig.now % US);
    const began = rig.now, first = rig.frames.length;
    rig.inject(rig.b, encodePacket(packet));
    rig.run();
    return {
      frames: rig.frames.slice(first).map(({ from, bytes, time }): Told => [
        from,
        time - began,
        bytes.toHex(),
      ]),
      took: rig.now - began,
    };
  }

  /** How long the honest queue pair's next work takes, and its misses. */
  function workAfter(world: World) {
    const { rig, honest } = world;
    const began = rig.now, before = counter(honest, "b", "translationMisses");
    honestWork(world, 0);
    rig.run();
    return [rig.now - began, counter(honest, "b", "translationMisses") - before];
  }

  /** Reads a page of the region of another domain by a queue pair of that: it is there, and on the chip. */
  function touch({ rig, honest }: World, region: RigMr, { page = 0, pd = 2 } = {}): void {
    const qp = rig.connect({ attributes: ATTRIBUTES, pd, hints: "off" });
    const owner: Pair = { ...honest, ...qp };
    const sges = [{ address: honest.from.va, length: 64, lkey: honest.from.key }];
    const local = rig.register(rig.a, {
      length: PAGE,
      access: EVERY_ACCESS,
      pd,
      va: 0x7_0000_0000,
    });
    post(owner, "read", {
      remote: { va: BigInt(region.va + page * PAGE), rkey: region.key },
      sges: [{ ...sges[0]!, address: local.va, lkey: local.key }],
    });
    rig.ring(rig.a, qp.a.sq);
    rig.run();
  }

  it("H-24: a key without rights gets one answer at one time, whatever it opens for others", () => {
    const answers = WITHOUT_RIGHTS.map(([name, entryOf]) => {
      const world = createWorld({ seed: 1 });
      touch(world, world.closed[0]!);
      equal(world.driver.regions.get(world.closed[0]!.key)!.pages[0]!.state, "mapped");
      const { own } = world;
      const ends = { sourceQpn: own.a.qpn, destQpn: own.b.qpn };
      const first = told(world, own, ends, entryOf(world));
      const again = told(world, own, ends, entryOf(world));
      return { name, first, again, work: workAfter(world) };
    });
    const [{ first, again, work }] = answers as [typeof answers[number]];
    equal(first.frames.length, 1, "the refusal");
    for (const each of answers) {
      same(each.first, first, `${each.name}: the answer`);
      same(each.again, again, `${each.name}: the answer to the same again`);
      same(each.work, work, `${each.name}: the time of later work`);
    }
    // To the group it is the same: each queue pair answers for itself, by its own count of keys.
    const grouped = WITHOUT_RIGHTS.map(([name, entryOf]) => {
      const world = createWorld({ seed: 1 });
      touch(world, world.closed[0]!);
      const ends = { sourceQpn: world.own.a.qpn, destQpn: world.own.b.qpn };
      return { name, told: told(world, world.group, ends, entryOf(world)) };
    });
    equal(grouped[0]!.told.frames.length, 1);
    for (const each of grouped) same(each.told, grouped[0]!.told, `group: ${each.name}`);
  });

  /** What a plain READ of the same place tells: answers, what they are, and when they come. */
  function readOf(world: World, { rkey, va, length = 64 }: Partial<HintEntry>) {
    const { rig, honest, own } = world;
    const reader: Pair = { ...honest, a: own.a as RigQp, b: own.b };
    const local = rig.register(rig.a, {
      length: 2 * PAIR_BYTES,
      access: EVERY_ACCESS,
      va: 0x8_0000_0000,
    });
    rig.runFor(1000 * US - rig.now % US);
    const began = rig.now, first = rig.frames.length;
    post(reader, "read", {
      remote: { va: va ?? BigInt(honest.to.va), rkey: rkey ?? honest.to.key },
      sges: [{ address: local.va, length, lkey: local.key }],
    });
    rig.ring(rig.a, reader.a.sq);
    rig.run();
    return rig.frames.slice(first).filter(({ from }) => from === "b").map(({ bytes, time }) => {
      const { bth, aeth, payload } = packetOf(bytes);
      return [time - began, bth.opcode, aeth?.syndrome, payload.length];
    });
  }

  it("H-24: where a READ cannot tell two states of memory apart, a hint cannot", () => {
    const warm = (world: World) => {
      readOf(world, { va: BigInt(world.honest.to.va + PAGE) });
      return { va: BigInt(world.honest.to.va + PAGE) };
    };
    const cases: readonly ((world: World) => Partial<HintEntry>)[] = [
      ...WITHOUT_RIGHTS.map(([, entryOf]) => entryOf),
      () => ({}),
      warm,
      // The page is there, and its line of translations is not on the chip any more.
      (world) => {
        const entry = warm(world);
        for (let page = 0; page < world.theirs.length / PAGE; page += ENTRIES_PER_LINE) {
          touch(world, world.theirs, { page, pd: 3 });
        }
        return entry;
      },
    ];
    const seen = cases.map((entryOf) => {
      const [read, hint] = (["read", "hint"] as const).map((by) => {
        const world = createWorld({ seed: 1 });
        touch(world, world.closed[0]!);
        const entry = entryOf(world), { own } = world;
        if (by === "read") return readOf(world, entry);
        const { took, frames } = told(
          world,
          own,
          { sourceQpn: own.a.qpn, destQpn: own.b.qpn },
          entry,
        );
        return { took, frames };
      });
      return [JSON.stringify(read), JSON.stringify(hint)] as const;
    });
    for (const [read, hint] of seen) {
      for (const [otherRead, otherHint] of seen) if (read === otherRead) equal(otherHint, hint);
    }
    const kinds = (by: 0 | 1) => new Set(seen.map((each) => each[by])).size;
    ok(kinds(1) > 1, "the right key tells whether the page is there");
    ok(kinds(0) >= kinds(1), `${kinds(0)} and ${kinds(1)}`);
  });

  it("H-24: nor does one message try more keys than all of a queue pair may, whose right one would delay its answer", () => {
    const [wrong, right] = [false, true].map((isLastRight) => {
      const world = createWorld({ seed: 1 });
      const { own, honest: { to, ...rest } } = world;
      const guesses = Array.from({ length: 20 }, (_, i) => ({ rkey: to.key + 1 + i }));
      const last = isLastRight ? {} : { rkey: to.key + 99 };
      const ends = { sourceQpn: own.a.qpn, destQpn: own.b.qpn };
      const answer = told(world, own, ends, ...guesses, last);
      const count = (name: string) => counter({ to, ...rest }, "b", name);
      same([count("hintsNoAccess"), count("hintPagesAsked")], [8, 0]);
      return answer;
    });
    equal(wrong!.frames.length, 1);
    same(right, wrong);
    // H-22: all of them are named, those as well that were not looked at.
    const [, , bytes] = wrong!.frames[0]!;
    const { reason, groups } = hintOf(packetOf(Uint8Array.fromHex(bytes)))!;
    same([reason, ...groups.map(({ entries }) => entries.length)], ["no-access", 21]);
  });

  /**
   * What may differ between two answers is the numbers that the peer has said itself, as an answer names its elements
   * by them: they are compared with what was said, and the rest with the rest. Frames cannot be compared as they are,
   * as the ICRC depends on these numbers. So nothing is left out that the victim's state could be in: fields, the
   * length and the time of each frame, how long the card is busy, the answer to the same again, and how long work of
   * others takes later, which a context or translation that was fetched, or put out, would change.
   */
  it("H-24: a queue pair of others gets the answer of one that is not there", () => {
    const cases: readonly [string, (world: World) => Omit<HintGroup, "entries">][] = [
      ["none", () => ({ sourceQpn: 0x1234, destQpn: 0x12_3456 })],
      ["another peer's", ({ honest }) => ({ sourceQpn: honest.a.qpn + 99, destQpn: honest.b.qpn })],
      ["another machine's", ({ strangers }) => {
        const { a, b } = strangers[1]!;
        return { sourceQpn: a.qpn, destQpn: b.qpn };
      }],
      ["one without hints", ({ off }) => ({ sourceQpn: off.a.qpn, destQpn: off.b.qpn })],
      ["one that is not connected", ({ rig, honest }) => {
        const { qpn } = rig.createQp(rig.b);
        return { sourceQpn: honest.a.qpn, destQpn: qpn };
      }],
      ["its own, in error", ({ rig, member }) => {
        rig.modify(rig.b, member.b, { state: "err" });
        return { sourceQpn: member.a.qpn, destQpn: member.b.qpn };
      }],
      ["its own, closed", ({ rig, member }) => {
        rig.command(rig.b, { op: "destroy-qp", qpn: member.b.qpn });
        return { sourceQpn: member.a.qpn, destQpn: member.b.qpn };
      }],
    ];
    for (const by of ["carrier", "group"] as const) {
      const answers = cases.map(([name, groupOf]) => {
        const world = createWorld({ seed: 1 });
        const group = groupOf(world);
        const [first, again] = [0, 1].map(() => {
          const { frames, took } = told(world, world[by], group, {});
          return { answers: frames.map((frame) => unnamed(frame, group)), took };
        });
        return { name, first, again, work: workAfter(world) };
      });
      const [{ first, again, work }] = answers as [typeof answers[number]];
      // A group's members pass over what is not theirs.
      equal(first!.answers.length, by === "group" ? 0 : 1);
      for (const each of answers) {
        same(each, { name: each.name, first, again, work }, `${by}: ${each.name}`);
      }
    }
  });

  /** A frame without the numbers that its hint has said, and with all else. */
  function unnamed([from, time, bytes]: Told, said: Omit<HintGroup, "entries">) {
    const packet = packetOf(Uint8Array.fromHex(bytes));
    const { payload, ...headers } = packet;
    const { groups, ...message } = hintOf(packet)!;
    const entries = groups.map(({ entries, ...ends }) => {
      same(ends, said);
      return entries;
    });
    return { from, time, length: payload.length, headers, message, entries };
  }
});
