/**
 * Hints of a malicious peer (H-24): a fuzzer that knows how they are built, on every queue pair that may bring
 * them, while an honest queue pair works; and what answers tell about keys and queue pairs of others.
 */
import { deepEqual as same, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { type Rng, rngFor } from "../../../fabric/base/rng.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { HINT_PLAN, type HintPlan } from "../../../fabric/rack/plan/hint_plan.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import {
  attachHint,
  attachRange,
  encodeHint,
  type HintEntry,
  type HintGroup,
  type HintMessage,
  hintOf,
  hintParts,
} from "../../../fabric/wire/roce/hint.ts";
import {
  HINT_ETH_FIELDS,
  HINT_KINDS,
  HINT_OPERATIONS,
  HINT_REASONS,
  HINT_TYPES,
  type HintEth,
} from "../../../fabric/wire/roce/hint_eth.ts";
import { OPCODE } from "../../../fabric/wire/roce/opcode.ts";
import { encodePacket, type RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { DemandDriver } from "../testing/demand_testing.ts";
import {
  changed,
  counter,
  EVERY_ACCESS,
  packetOf,
  packets,
  type Pair,
  PAIR_BYTES,
  post,
} from "../testing/pair_testing.ts";
import type { RigMr, RigQp } from "../testing/rig_parts_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";
import { connectUc } from "../testing/unreliable_testing.ts";

const PAGE = 4096, QUOTA = 3, US = 1_000_000;
const ATTRIBUTES = { accessFlags: EVERY_ACCESS, timeout: 9 } as const;

type Ends = { readonly a: RigQp; readonly b: RigQp };

/** Machine `a` has an honest queue pair and those of an attacker; `b` has memory of several owners. */
interface World {
  readonly rig: Rig;
  readonly driver: DemandDriver;
  readonly honest: Pair;
  /** Of the attacker: with its own hints, with those of all, RC and UC without, and for other encodings. */
  readonly own: Ends;
  readonly carrier: Ends;
  readonly member: Ends;
  readonly uc: Ends;
  readonly spare: Ends;
  /** Its peer may take part in no hints. */
  readonly off: Ends;
  /** Regions of `b` that `a` has no right to: of another domain, without remote rights. */
  readonly closed: readonly RigMr[];
}

function createWorld(seed: number, b: Partial<HintPlan> = {}): World {
  const hints = { ...HINT_PLAN, batch: 1, quota: QUOTA };
  const common = {
    pageFault: (["drop", "rnr", "pause"] as const)[seed % 3]!,
    translations: { entries: 64, evict: "lru" as const },
    queueCache: { entries: 16, evict: "oldest" as const, amount: 1 },
  };
  const rig = new Rig({
    seed,
    plans: { a: { ...common, hints }, b: { ...common, hints: { ...hints, ...b } } },
  });
  const driver = new DemandDriver(rig, rig.b, {});
  const from = rig.register(rig.a, { length: PAIR_BYTES, access: EVERY_ACCESS });
  const to = driver.register({ length: PAIR_BYTES, access: EVERY_ACCESS });
  const closed = [
    { va: 0x5_0000_0000, access: EVERY_ACCESS, pd: 2 },
    { va: 0x6_0000_0000, access: ACCESS.localWrite, pd: 1 },
  ].map((region) => driver.register({ length: 4 * PAGE, ...region }));
  rig.fill(rig.a, from, (i) => i * 7 + (i >> 8));
  for (const region of [to, ...closed]) rig.fill(rig.b, region, (i) => 0x55 ^ i);
  const connect = (hints?: "carrier" | "off") =>
    rig.connect({ attributes: ATTRIBUTES, ...(hints && { hints }) });
  const honest = { rig, ...connect(), from, to };
  const attackers = { own: connect(), carrier: connect("carrier"), member: connect() };
  const others = { uc: connectUc(rig), spare: connect(), off: connect("off") };
  rig.run();
  return { rig, driver, honest, ...attackers, ...others, closed };
}

/** One of these, or anything of so many bits. */
function odd(rng: Rng, bits: number, values: readonly number[]): number {
  const choice = rng.below(values.length + 1);
  return choice < values.length ? values[choice]! : rng.next() % 2 ** bits;
}

/** A message as it could be, but for what its fields say. */
function randomMessage(rng: Rng, world: World): HintMessage {
  const { honest, own, carrier, member, uc, spare, off, closed } = world;
  const ends = [honest, own, carrier, member, uc, spare, off];
  const regions = [honest.to, honest.to, honest.to, ...closed];
  const entry = (): HintEntry => {
    const region = regions[rng.below(regions.length)]!;
    const place = odd(rng, 16, [0, 0, PAGE, region.length - 1, region.length, -1]);
    return {
      kinds: odd(rng, 8, [HINT_KINDS.prefetch, HINT_KINDS.warmUp, HINT_KINDS.receive, 0xff]),
      operation: HINT_OPERATIONS[rng.below(HINT_OPERATIONS.length)]!,
      messages: odd(rng, 16, [0, 1, 0xffff]),
      sequence: odd(rng, 24, [0, 0xff_ffff]),
      // Some keys are right, else nothing is ever begun.
      rkey: odd(rng, 32, [region.key, region.key, region.key, 0, region.key + 1]),
      length: odd(rng, 32, [
        0,
        1,
        64,
        PAGE,
        region.length,
        region.length + 1,
        2 ** 31,
        2 ** 32 - 1,
      ]),
      va: rng.below(8) === 0 ? 2n ** 64n - 1n : BigInt(region.va + place),
      objects: Array.from({ length: rng.below(3) }, () => BigInt(rng.next())),
    };
  };
  const group = (): HintGroup => {
    const { a, b } = ends[rng.below(ends.length)]!;
    return {
      sourceQpn: odd(rng, 24, [a.qpn, a.qpn, a.qpn, b.qpn]),
      destQpn: odd(rng, 24, [b.qpn, b.qpn, b.qpn, 0, 1]),
      entries: Array.from({ length: rng.below(5) }, entry),
    };
  };
  return {
    // Announcements mostly.
    type: rng.below(2) === 0 ? "announce" : HINT_TYPES[rng.below(HINT_TYPES.length)]!,
    kinds: odd(rng, 8, [0, 0xff]),
    reason: HINT_REASONS[rng.below(HINT_REASONS.length)]!,
    sequence: odd(rng, 32, [0, 1, 2, 3, 4, 5]),
    answer: rng.below(2) === 0,
    groups: Array.from({ length: rng.below(4) }, group),
  };
}

/** Damage that a sender would do on purpose: any header field, bytes anywhere, too short, too long. */
function damaged(rng: Rng, message: HintMessage): Pick<RocePacket, "hintEth" | "payload"> {
  let { hintEth, payload }: { hintEth: HintEth; payload: Uint8Array<ArrayBuffer> } = hintParts(
    message,
  );
  const fate = rng.below(8);
  if (fate === 0) {
    const [name, bits] = HINT_ETH_FIELDS[rng.below(HINT_ETH_FIELDS.length)]!;
    const value = rng.next() % 2 ** bits;
    hintEth = { ...hintEth, [name]: bits === 1 ? value === 1 : value };
  } else if (fate === 1 && payload.length > 0) {
    payload = payload.slice();
    for (let i = rng.below(4); i >= 0; i--) payload[rng.below(payload.length)] = rng.below(256);
  } else if (fate === 2 || fate === 3) {
    const length = fate === 2 ? rng.below(payload.length + 1) : payload.length + rng.below(64);
    const other = new Uint8Array(length);
    other.set(payload.subarray(0, length));
    payload = other;
    // With its size made right again, or as it was.
    if (rng.below(2) === 0) hintEth = { ...hintEth, bytes: encodeHint(message).length };
  }
  return { hintEth, payload };
}

/** A frame to `b`, or, with made-up answers, to `a`: by any queue pair and in any encoding. */
function hostileFrame(
  rng: Rng,
  world: World,
  to: "a" | "b",
): Uint8Array<ArrayBuffer> {
  const { honest, own, carrier, member, uc, spare, off } = world;
  const message = randomMessage(rng, world);
  const template = packets(honest, to === "b" ? "a" : "b").find(({ hintEth }) => hintEth)!;
  if (rng.below(5) === 0) {
    const psn = (0xff_fffe + rng.below(6)) & 0xff_ffff;
    const { hintEth: _, ...plain } = template;
    const empty = new Uint8Array();
    const bth = { ...template.bth, destQpn: spare[to].qpn, psn, padCount: 0, ackReq: true };
    const { va, rkey, length } = randomMessage(rng, world).groups[0]?.entries[0] ??
      { va: 0n, rkey: 0, length: 1 };
    const form = rng.below(4);
    if (form < 2) {
      const send = { ...plain, payload: empty, bth: { ...bth, opcode: OPCODE["RC SEND ONLY"] } };
      return encodePacket(attachHint(send, { form: form === 0 ? "header" : "payload", message }));
    }
    const opcode = OPCODE[form === 2 ? "RC RDMA READ REQUEST" : "RC RDMA WRITE ONLY"];
    const reth = { va, rkey, length: 0 };
    const packet = { ...plain, payload: empty, reth, bth: { ...bth, opcode } };
    return encodePacket(attachRange(packet, 1 + length % 2 ** 31));
  }
  const ways = [own, own, carrier, carrier, member, honest, uc, off];
  const { qpn } = ways[rng.below(ways.length)]![to];
  const { hintEth, payload } = damaged(rng, message);
  const destQpn = rng.below(16) === 0 ? rng.below(2 ** 24) : qpn;
  const bth = { destQpn, psn: rng.below(2 ** 24), padCount: -payload.length & 3 };
  return encodePacket(changed(template, { hintEth: hintEth!, payload, bth }));
}

/** WRITEs, READs, atomics and SENDs of the honest queue pair, whose result is known. */
function honestWork({ rig, honest }: World, round: number): void {
  for (let i = 0; i < 3; i++) post(honest, "write", { at: i * PAGE + round * 64, length: 64 });
  post(honest, "read", { at: 3 * PAGE, length: 64 });
  const atomic = { swapAdd: 1n, compare: 0n };
  post(honest, "fetch-add", { at: 4 * PAGE, length: 8, atomic });
  const address = honest.to.va + 5 * PAGE + round * 64;
  rig.recv(rig.b, honest.b, [{ address, length: 64, lkey: honest.to.key }], "pointer");
  post(honest, "send", { at: 5 * PAGE, length: 64 });
  rig.ring(rig.a, honest.a.sq);
}

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

function attacked(seed: number, framesMax: number): World & { result: unknown } {
  const rng = rngFor(seed, "hostile hints");
  const world = createWorld(seed);
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
      const unused = rig.b.rnic.statistics()["hintPagesUnused"]!;
      ok(unused <= QUOTA, `${unused} pages for a quota of ${QUOTA}`);
    }
    rig.run();
    for (const { from, bytes } of rig.frames) {
      if (hintOf(packetOf(bytes)) !== undefined) seen.push({ to: from === "a" ? "b" : "a", bytes });
    }
    rig.frames.splice(0, Math.max(0, rig.frames.length - 200));
  }
  return { ...world, result: results(world) };
}

describe("hints of a malicious peer", () => {
  it("H-24: any field, damage, order or carrier: no byte, no completion of others, no page beyond the quota", () => {
    const reached = new Map<string, number>();
    fc.assert(
      fc.property(fc.nat(2 ** 20), (seed) => {
        const { rig, driver, closed, result } = attacked(seed, FRAMES);
        same(result, attacked(seed, 0).result);
        for (const { key } of closed) {
          const { pages } = driver.regions.get(key)!;
          ok(pages.every(({ state }) => state === "unmapped"), "a page of others was asked for");
        }
        for (const region of closed) {
          const bytes = rig.bytes(rig.b, region, 0, region.length);
          ok(bytes.every((byte, i) => byte === ((0x55 ^ i) & 0xff)));
        }
        for (const [name, count] of Object.entries(rig.b.rnic.statistics())) {
          reached.set(name, (reached.get(name) ?? 0) + count);
        }
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
        "drop-vendor-operation",
        "drop-wrong-service",
      ]
    ) ok((reached.get(name) ?? 0) > 3, `${name}: ${reached.get(name)}`);
  });
});

describe("what hints tell of memory and queue pairs of others", () => {
  /** Sends one announcement. @returns frames of `b` and what its card has counted, from then on. */
  function told(
    world: World,
    by: Ends,
    group: Omit<HintGroup, "entries">,
    ...entries: readonly Partial<HintEntry>[]
  ) {
    const { rig, honest } = world;
    const own = packets(honest, "a").find(({ hintEth }) => hintEth !== undefined)!;
    const kinds = HINT_KINDS.prefetch | HINT_KINDS.warmUp;
    const tagged = { rkey: honest.to.key, va: BigInt(honest.to.va), length: 64 };
    const rest = { operation: "write", messages: 1, sequence: 0, objects: [] } as const;
    const elements = entries.map((entry) => ({ kinds, ...rest, ...tagged, ...entry }));
    const groups = [{ ...group, entries: elements }];
    const message = { type: "announce", kinds, reason: "none", sequence: 9, answer: true } as const;
    const parts = hintParts({ ...message, groups });
    const bth = { destQpn: by.b.qpn, padCount: -parts.payload.length & 3 };
    rig.runFor(1000 * US - rig.now % US);
    const began = rig.now, first = rig.frames.length;
    rig.inject(rig.b, encodePacket(changed(own, { ...parts, bth })));
    rig.run();
    return {
      frames: rig.frames.slice(first).map(({ from, bytes, time }) => [
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
  function touch({ rig, honest }: World, region: RigMr): void {
    const qp = rig.connect({ attributes: ATTRIBUTES, pd: 2, hints: "off" });
    const owner: Pair = { ...honest, ...qp };
    const sges = [{ address: honest.from.va, length: 64, lkey: honest.from.key }];
    const local = rig.register(rig.a, {
      length: PAGE,
      access: EVERY_ACCESS,
      pd: 2,
      va: 0x7_0000_0000,
    });
    post(owner, "read", {
      remote: { va: BigInt(region.va), rkey: region.key },
      sges: [{ ...sges[0]!, address: local.va, lkey: local.key }],
    });
    rig.ring(rig.a, qp.a.sq);
    rig.run();
  }

  it("H-24: a key without rights gets one answer at one time, whatever it opens for others", () => {
    const cases: readonly [string, (world: World) => Partial<HintEntry>][] = [
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
    const answers = cases.map(([name, entryOf]) => {
      const world = createWorld(1);
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
    // What the right key tells a READ would tell as well: whether the page is there.
    const world = createWorld(1);
    const { own } = world;
    const ends = { sourceQpn: own.a.qpn, destQpn: own.b.qpn };
    const cold = told(world, own, ends, {}), warm = told(world, own, ends, {});
    ok(cold.took > warm.took && warm.frames.length === 1);
  });

  it("H-24: nor does one message try more keys than all of a queue pair may, whose right one would delay its answer", () => {
    const [wrong, right] = [false, true].map((isLastRight) => {
      const world = createWorld(1);
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
    const { reason, groups } = hintOf(packetOf(Uint8Array.fromHex(bytes as string)))!;
    same([reason, ...groups.map(({ entries }) => entries.length)], ["no-access", 21]);
  });

  it("H-24: a queue pair of others gets the answer of one that is not there", () => {
    const cases: readonly [string, (world: World) => Omit<HintGroup, "entries">][] = [
      ["none", () => ({ sourceQpn: 0x1234, destQpn: 0x12_3456 })],
      ["another peer's", ({ honest }) => ({ sourceQpn: honest.a.qpn + 99, destQpn: honest.b.qpn })],
      ["one without hints", ({ off }) => ({ sourceQpn: off.a.qpn, destQpn: off.b.qpn })],
      ["one that is not connected", ({ rig, honest }) => {
        const { qpn } = rig.createQp(rig.b);
        return { sourceQpn: honest.a.qpn, destQpn: qpn };
      }],
    ];
    const answers = cases.map(([name, groupOf]) => {
      const world = createWorld(1);
      const group = groupOf(world);
      const { frames, took } = told(world, world.carrier, group, {});
      const answers = frames.map(([from, time, bytes]) => {
        const packet = packetOf(Uint8Array.fromHex(bytes as string));
        const { groups, ...message } = hintOf(packet)!;
        // The numbers are those that the peer has said itself.
        const entries = groups.map(({ entries, ...ends }) => {
          same(ends, group);
          return entries;
        });
        return { from, time, length: packet.payload.length, bth: packet.bth, message, entries };
      });
      return { name, answer: { answers, took } };
    });
    const [{ answer }] = answers as [typeof answers[number]];
    equal(answer.answers.length, 1);
    for (const each of answers) same(each.answer, answer, each.name);
  });
});
