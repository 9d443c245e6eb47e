import { leadsIn } from "./state/leads.ts";
import { deepEqual as same, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { HINT_PLAN, type HintPlan } from "../../../fabric/rack/plan/hint_plan.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { PORTS } from "../../../fabric/node.ts";
import type { PcieMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import type { ObjectPart } from "../../../fabric/wire/host_bus/wqe.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { PageFaultRule } from "../../../fabric/rack/plan/plan.ts";
import {
  encodeHint,
  type HintEntry,
  type HintMessage,
  hintOf,
  hintParts,
} from "../../../fabric/wire/roce/hint.ts";
import {
  HINT_ENTRY_BYTES,
  HINT_ETH_BYTES,
  HINT_GROUP_BYTES,
  HINT_KINDS,
  HINT_OBJECT_BYTES,
  HINT_REASONS,
  type HintReason,
} from "../../../fabric/wire/roce/hint_eth.ts";
import { OPCODE, opcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { DemandDriver } from "../testing/demand_testing.ts";
import {
  changed,
  coldMemory,
  type ColdOptions,
  counter,
  EVERY_ACCESS,
  go,
  inject,
  packetOf,
  packets,
  type Pair,
  PAIR_BYTES,
  post,
  statuses,
} from "../testing/pair_testing.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { unitsAhead } from "./look_ahead.ts";
import type { HintEnd, Hints } from "./state/hint_state.ts";
import { createSrq, createSrqQp, postShared } from "../testing/objects_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";
import { connectUc } from "../testing/unreliable_testing.ts";
import type { QpOptions } from "../testing/rig_parts_testing.ts";

const MTU = 1024, PAGE = 4096;
const US = 1_000_000;
/** How long the rig's firmware and driver take for a page, at least. */
const FAULT_PS = 21 * US;

interface Options extends ColdOptions {
  readonly a?: Partial<HintPlan> | "none";
  readonly b?: Partial<HintPlan> | "none";
  readonly pageFault?: PageFaultRule;
  readonly entries?: number;
  readonly qp?: QpOptions;
  readonly accessFlags?: number;
}

interface Cold extends Pair {
  readonly driver: DemandDriver;
}

/** A pair whose target memory is on demand, before it is connected as well: the card wants prefetch hints. */
function cold(options: Options = {}): Cold {
  const { a = {}, b = {}, pageFault = "drop", entries = 2 ** 20 } = options;
  const { accessFlags = EVERY_ACCESS } = options;
  const plan = (given: Partial<HintPlan> | "none") => ({
    pageFault,
    translations: { entries, evict: "lru" as const },
    ...(given !== "none" && { hints: { ...HINT_PLAN, ...given } }),
  });
  const rig = new Rig({ plans: { a: plan(a), b: plan(b) } });
  const memory = coldMemory(rig, options);
  const ends = rig.connect({
    ...options.qp,
    attributes: { accessFlags, timeout: 9 },
  });
  return { rig, ...ends, ...memory };
}

/** WRITEs of 64 B into so many pages, each another. */
function writes(p: Pair, count: number): void {
  for (let i = 0; i < count; i++) post(p, "write", { at: i * PAGE, length: 64 });
}

function messages(p: Pair, from: "a" | "b"): HintMessage[] {
  return packets(p, from).flatMap((packet) => {
    const message = hintOf(packet);
    return message === undefined ? [] : [message];
  });
}

/** Numbers of entries of the announcements, and the frames that carry them with those around. */
function batches(p: Pair): number[] {
  return messages(p, "a").filter(({ type }) => type === "announce")
    .map(({ groups }) => groups.reduce((sum, { entries }) => sum + entries.length, 0));
}

/** What `a` sends: `h` an announcement, `w` a WRITE. */
function order(p: Pair): string {
  return packets(p, "a").map((packet) =>
    hintOf(packet)?.type === "announce"
      ? "h"
      : opcodeRow(packet.bth.opcode)?.operation === "write"
      ? "w"
      : ""
  ).join("");
}

function isCopied(p: Pair, count: number): boolean {
  const { rig, from, to } = p;
  return Array.from({ length: count }, (_, i) => i * PAGE).every((at) =>
    rig.bytes(rig.b, to, at, 64).toHex() === rig.bytes(rig.a, from, at, 64).toHex()
  );
}

const SUCCESSES = (count: number) => new Array<string>(count).fill("SUCCESS");

describe("a requester that looks ahead", () => {
  it("H-01, H-02: in batches, up to its depth, each element once, ahead of the first of it", () => {
    const p = cold({ a: { depth: 4, batch: 2 } });
    writes(p, 8);
    go(p);
    same(statuses(p), SUCCESSES(8));
    equal(batches(p).reduce((sum, count) => sum + count), 8);
    ok(batches(p).every((count) => count <= 2));
    ok(/^hh+w/.test(order(p)), order(p));
    const shallow = cold({ a: { depth: 3, batch: 8 } });
    writes(shallow, 8);
    go(shallow);
    ok(batches(shallow).every((count) => count <= 3));
    const deep = cold({ a: { depth: 64, batch: 8 } });
    writes(deep, 8);
    go(deep);
    ok(batches(deep)[0]! >= 4, `${batches(deep)}`);
  });

  it("H-01: an element has the PSN of its first packet, and both numbers of its queue pair", () => {
    const p = cold();
    post(p, "write", { length: 3 * MTU });
    post(p, "read", { at: 2 * PAGE, length: 2 * MTU });
    post(p, "fetch-add", { at: 4 * PAGE, length: 8, atomic: { swapAdd: 1n, compare: 0n } });
    go(p);
    const groups = messages(p, "a").flatMap((message) => message.groups);
    same([...new Set(groups.map((group) => `${group.sourceQpn} ${group.destQpn}`))], [
      `${p.a.qpn} ${p.b.qpn}`,
    ]);
    const entries = groups.flatMap((group) => group.entries);
    const sent = packets(p, "a").filter(({ bth, reth, atomicEth }) =>
      opcodeRow(bth.opcode)?.operation !== "hint" && (reth ?? atomicEth) !== undefined
    );
    const first = (operation: string) =>
      sent.find(({ bth }) => opcodeRow(bth.opcode)!.operation === operation)!.bth.psn;
    same(
      entries.map(({ operation, sequence, length, va, rkey }) => [
        operation,
        sequence,
        length,
        va - BigInt(p.to.va),
        rkey,
      ]),
      [
        ["write", first("write"), 3 * MTU, 0n, p.to.key],
        ["read", first("read-request"), 2 * MTU, 8192n, p.to.key],
        ["fetch-add", first("fetch-add"), 8, 16384n, p.to.key],
      ],
    );
  });

  it("H-07 (in part): hints have PSNs of their own: a request's PSNs are those that it has without", () => {
    const psns = (p: Pair) =>
      packets(p, "a").filter(({ bth }) => opcodeRow(bth.opcode)!.operation === "write")
        .map(({ bth }) => bth.psn);
    const [hinted, plain] = [cold({ pageFault: "pause" }), cold({ a: "none", pageFault: "pause" })];
    for (const p of [hinted, plain]) {
      writes(p, 5);
      go(p);
      same(statuses(p), SUCCESSES(5));
    }
    ok(batches(hinted).length > 0);
    same(psns(hinted), psns(plain));
    const own = packets(hinted, "a").filter((packet) => hintOf(packet) !== undefined);
    same(own.map(({ bth }) => bth.psn), own.map((_, i) => i));
  });

  it("[0082]: more elements than a packet has room for are announced by several", () => {
    const p = cold({ a: { batch: 64, depth: 64 } });
    // A path MTU of 1024 B has room for 42.
    for (let i = 0; i < 60; i++) post(p, "write", { at: i * 512, length: 8, signaled: i === 59 });
    go(p);
    same(statuses(p), ["SUCCESS"]);
    equal(batches(p).reduce((sum, count) => sum + count), 60);
    ok(packets(p, "a").every(({ payload }) => payload.length <= MTU));
  });
});

describe("H-06: a request follows its hint", () => {
  it("H-06: at once: directly behind it", () => {
    const p = cold();
    writes(p, 1);
    go(p);
    equal(order(p).slice(0, 2), "hw");
    const [hint, write] = timesOf(p);
    ok(write! - hint! < US, `${write! - hint!} ps`);
    equal(counter(p, "b", "pageFaultDrops"), 1, "it comes before its page");
    equal(counter(p, "b", "hintPagesLate"), 1);
  });

  it("H-06: after a delay: of all elements of the hint, and not for longer", () => {
    const p = cold({ a: { follow: "delay", delayPs: 40 * US } });
    writes(p, 3);
    go(p);
    same(statuses(p), SUCCESSES(3));
    const [hint, write] = timesOf(p);
    ok(write! - hint! >= 40 * US && write! - hint! < 41 * US, `${write! - hint!} ps`);
    equal(counter(p, "b", "pageFaultDrops"), 0, "the page is there before it");
    equal(counter(p, "b", "hintPagesUseful"), 3);
    equal(counter(p, "b", "pageStallPs"), 0);
  });

  it("H-06, H-22: after the ACK that comes once all is prepared, whatever that takes", () => {
    const p = cold({ a: { follow: "after-ack" } });
    writes(p, 3);
    go(p);
    same(statuses(p), SUCCESSES(3));
    ok(isCopied(p, 3));
    const [hint, write] = timesOf(p);
    ok(write! - hint! >= FAULT_PS, "the ACK comes behind the preparation");
    same(messages(p, "b").map(({ type }) => type), ["wanted", "prepared"]);
    equal(counter(p, "b", "pageFaultDrops"), 0);
    equal(counter(p, "a", "hintsPrepared"), 1);
    equal(counter(p, "b", "pageStallPs"), 0);
    ok(counter(p, "a", "hintHoldPs") >= FAULT_PS);
  });

  it("H-20, H-22: what is there already is acknowledged without a page request", () => {
    const p = cold({ a: { follow: "after-ack" } });
    writes(p, 2);
    go(p);
    const asked = counter(p, "b", "hintPagesAsked");
    writes(p, 2);
    const before = p.rig.now;
    go(p);
    same(statuses(p), SUCCESSES(4));
    equal(counter(p, "b", "hintPagesAsked"), asked, "H-20: only what is needed");
    ok(p.rig.now - before < FAULT_PS);
    equal(counter(p, "b", "hintPagesThere"), 2);
  });

  it("H-22, H-24: a lost hint, and a lost answer: the request goes when the patience is over", () => {
    for (const lost of ["announce", "prepared"]) {
      const p = cold({ a: { follow: "after-ack", patiencePs: 100 * US } });
      p.rig.fate = (_, { bytes }) => hintOf(packetOf(bytes))?.type === lost ? "drop" : "pass";
      writes(p, 1);
      go(p);
      same(statuses(p), ["SUCCESS"], lost);
      const [hint, write] = timesOf(p);
      ok(write! - hint! >= 100 * US && write! - hint! < 101 * US);
      equal(counter(p, "a", "hintsUnanswered"), 1);
    }
  });

  it("H-22: a peer that is silent three times gets no more hints", () => {
    const p = cold({ a: { follow: "after-ack", patiencePs: 100 * US } });
    p.rig.fate = (_, { bytes }) => hintOf(packetOf(bytes))?.type === "announce" ? "drop" : "pass";
    for (let i = 0; i < 5; i++) {
      post(p, "write", { at: i * PAGE, length: 64 });
      go(p);
    }
    same(statuses(p), SUCCESSES(5));
    equal(counter(p, "a", "hintsSent"), 3);
  });

  it("H-22: in a row: an answer in between, or what the peer says it wants, begins the count anew", () => {
    for (const between of ["an answer", "its word"] as const) {
      const p = cold({ a: { follow: "after-ack", patiencePs: 100 * US }, entries: 64 });
      let isDropped = true;
      p.rig.fate = (_, { bytes }) =>
        isDropped && hintOf(packetOf(bytes))?.type === "announce" ? "drop" : "pass";
      const write = (i: number) => {
        post(p, "write", { at: i * PAGE, length: 64 });
        go(p);
      };
      write(0);
      write(1);
      if (between === "an answer") {
        isDropped = false;
        write(2);
        isDropped = true;
      } else {
        // Translations do not all fit on the chip any more.
        p.rig.register(p.rig.b, { length: 128 * PAGE, access: EVERY_ACCESS, va: 0xa_0000_0000 });
      }
      write(3);
      write(4);
      equal(counter(p, "a", "hintsUnanswered"), 4, between);
    }
  });

  it("H-22: of a queue pair's hints without an answer the last 16 are kept: of an older one none is known any more", () => {
    for (const writes of [15, 21]) {
      const p = cold({ a: { follow: "after-ack", patiencePs: 100 * US } });
      let count = 0;
      p.rig.fate = (_, { bytes }) =>
        hintOf(packetOf(bytes))?.type === "announce" && count++ % 3 !== 2 ? "drop" : "pass";
      for (let i = 0; i < writes; i++) {
        post(p, "write", { at: i % 8 * PAGE, length: 64 });
        go(p);
      }
      const [{ sequence }] = messages(p, "a").filter(({ type }) => type === "announce") as [
        HintMessage,
      ];
      const answer = packets(p, "b").find((each) => hintOf(each)?.type === "prepared")!;
      const { hintEth, payload } = hintParts({ ...hintOf(answer)!, sequence });
      inject(p, "a", changed(answer, { hintEth, payload }));
      p.rig.run();
      same([batches(p).length, counter(p, "a", "hintAnswersUnknown")], [
        writes,
        writes > 16 ? 1 : 0,
      ]);
    }
  });

  it("H-06: as long as the peer asks for the kinds of the hint, and the patience here allows", () => {
    const waitsPs = { prefetch: 30 * US, warmUp: 5 * US };
    const waited = (p: Pair) => {
      writes(p, 1);
      go(p);
      same(statuses(p), ["SUCCESS"]);
      const [hint, write] = timesOf(p);
      return Math.floor((write! - hint!) / US);
    };
    const a = { follow: "agreed" } as const;
    const asked = cold({ a, b: { waitsPs } });
    equal(waited(asked), 30);
    const { groups } = messages(asked, "b")[0]!;
    same(
      groups.flatMap(({ entries }) => entries.map(({ kinds, length }) => [kinds, length])),
      [[HINT_KINDS.prefetch, 30_000]],
      "in ns, of the kinds that are wanted",
    );
    equal(waited(cold({ a: { ...a, patiencePs: 8 * US }, b: { waitsPs } })), 8);
    equal(waited(cold({ a })), 0, "a peer that asks for nothing");
    equal(waited(cold({ b: { waitsPs } })), 0, "the requester has another rule");
    // Translations do not all fit on the chip: both kinds are wanted, and the longest wait is kept.
    const crowded = (b: Partial<HintPlan>, pinned: boolean) => {
      const p = cold({ a, b, pinned, entries: 64 });
      const length = 128 * PAGE, va = 0xa_0000_0000;
      p.rig.register(p.rig.b, { length, access: EVERY_ACCESS, va });
      p.rig.run();
      return p;
    };
    equal(waited(crowded({ waitsPs: { ...waitsPs, warmUp: 40 * US } }, false)), 40);
    equal(waited(crowded({ waitsPs }, false)), 30);
    equal(waited(crowded({ waitsPs }, true)), 5);
  });

  it("H-06 [0121]: at an interval from each other, with the wait ahead of the first", () => {
    const begins = (a: Partial<HintPlan>) => {
      const p = cold({ a: { batch: 2, ...a } });
      writes(p, 5);
      go(p);
      same(statuses(p), SUCCESSES(5));
      const first = timesOf(p)[0]!;
      const sent = p.rig.frames.filter(({ from, bytes }) =>
        from === "a" && opcodeRow(packetOf(bytes).bth.opcode)!.operation === "write"
      );
      return sent.slice(0, 5).map(({ time }) => Math.floor((time - first) / US));
    };
    same(begins({ intervalPs: 50 * US, follow: "delay", delayPs: 40 * US }), [
      40,
      90,
      140,
      190,
      240,
    ]);
    const close = begins({ follow: "delay", delayPs: 40 * US });
    ok(close[4]! < 50, `${close}`);
  });

  /** When `a`'s first announcement and its first WRITE left. */
  function timesOf({ rig }: Pair): (number | undefined)[] {
    const sent = rig.frames.filter(({ from }) => from === "a");
    const is = (name: string) => ({ bytes }: { bytes: Uint8Array<ArrayBuffer> }) => {
      const packet = packetOf(bytes);
      return name === "hint"
        ? hintOf(packet)?.type === "announce"
        : opcodeRow(packet.bth.opcode)!.operation === name;
    };
    return [sent.find(is("hint"))?.time, sent.find(is("write"))?.time];
  }
});

describe("H-09: who takes part", () => {
  it("H-09: a card without hints gets none, and one that has them sends none to it", () => {
    for (const [a, b] of [["none", {}], [{}, "none"], ["none", "none"]] as const) {
      const p = cold({ a, b });
      writes(p, 3);
      go(p);
      same(statuses(p), SUCCESSES(3));
      same(batches(p), []);
      // It is asked three times at most, and drops the question in silence.
      ok(packets(p, "a").filter((packet) => hintOf(packet) !== undefined).length <= 3);
      equal(counter(p, "b", "naksOut"), counter(p, "b", "pageFaultDrops"));
      if (a === "none" && b === "none") {
        ok(!("hintsSent" in p.rig.a.rnic.statistics()), "and says nothing of hints");
      }
    }
  });

  it("pinned memory, all of whose translations are on the chip, wants no hints", () => {
    const p = cold({ pinned: true });
    writes(p, 3);
    go(p);
    same(messages(p, "b").map(({ type, kinds }) => [type, kinds]), [["wanted", 0]]);
    same(batches(p), []);
  });

  it("H-09: what a card wants changes with its memory: peers are told, and it is taken back", () => {
    const p = cold({ pinned: true });
    const region = p.driver.register({ length: PAGE, access: EVERY_ACCESS, va: 0x9_0000_0000 });
    p.rig.run();
    equal(messages(p, "b").at(-1)!.kinds, HINT_KINDS.prefetch | HINT_KINDS.receive);
    post(p, "write", { length: 64, remote: { va: BigInt(region.va), rkey: region.key } });
    go(p);
    equal(batches(p).length, 1);
    equal(counter(p, "b", "hintPagesAsked"), 1);
    p.rig.command(p.rig.b, { op: "deregister-mr", key: region.key });
    p.rig.run();
    equal(messages(p, "b").at(-1)!.kinds, 0);
    writes(p, 1);
    go(p);
    equal(batches(p).length, 1);
    same(statuses(p), SUCCESSES(2));
  });

  it("H-09: firmware policy: only queue pairs whose program asks", () => {
    const policy = { queuePairs: "asked" } as const;
    const quiet = cold({ a: policy, b: policy });
    writes(quiet, 2);
    go(quiet);
    same([...messages(quiet, "a"), ...messages(quiet, "b")], []);
    const asking = cold({ a: policy, b: policy, qp: { hints: "on" } });
    writes(asking, 2);
    go(asking);
    ok(batches(asking).length > 0);
    const refusing = cold({ qp: { hints: "off" } });
    writes(refusing, 2);
    go(refusing);
    same([...messages(refusing, "a"), ...messages(refusing, "b")], []);
  });

  it("H-09: a question that gets lost is asked again", () => {
    const p = cold();
    const { rig } = p;
    let lost = 0;
    rig.fate = (_, { bytes }) =>
      hintOf(packetOf(bytes))?.type === "wanted" && lost++ === 0 ? "drop" : "pass";
    const attributes = { accessFlags: EVERY_ACCESS, timeout: 9 };
    const late = { ...p, ...rig.connect({ attributes }) };
    rig.runFor(200 * US);
    writes(late, 1);
    go(late);
    writes(late, 1);
    go(late);
    ok(lost > 1 && batches(late).length > 0, "later work is announced");
  });

  it("H-09: and not for ever: a peer that says nothing is asked three times", () => {
    const p = cold({ b: "none" });
    for (let round = 0; round < 6; round++) {
      writes(p, 1);
      go(p);
      p.rig.runFor(200 * US);
    }
    same(statuses(p), SUCCESSES(6));
    same(messages(p, "a").map(({ type, answer }) => [type, answer]), [
      ["wanted", true],
      ["wanted", true],
      ["wanted", true],
    ]);
  });
});

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

describe("a responder that gets hints", () => {
  it("H-20, H-21: pages of all elements are asked for at once, so that later ones do not stall", () => {
    const [hinted, plain] = [cold({ a: { batch: 8 } }), cold({ a: "none" })];
    for (const p of [hinted, plain]) {
      writes(p, 8);
      go(p);
      same(statuses(p), SUCCESSES(8));
      ok(isCopied(p, 8));
    }
    const stall = (p: Pair) => counter(p, "b", "pageStallPs");
    ok(stall(plain) >= 8 * FAULT_PS, "one after the other");
    ok(stall(hinted) < 0.25 * stall(plain), `${stall(hinted)} of ${stall(plain)}`);
    // The first is late, as it comes right behind the hint; others are there when it has come.
    ok(counter(hinted, "b", "hintPagesUseful") >= 4);
    ok(counter(hinted, "b", "hintPagesLate") <= 4);
    equal(
      counter(hinted, "b", "hintPagesUseful") + counter(hinted, "b", "hintPagesLate"),
      counter(hinted, "b", "hintPagesAsked"),
    );
  });

  it("H-01, H-03: a WQE's objects are named, and brought in where the key's region has them", () => {
    const va = 0x1_0000_0000, last = 2n ** 64n - 1n;
    const objects = [
      { nameHigh: 0, nameLow: 7, va: va + 2 * PAGE, length: 2 * PAGE },
      { nameHigh: 0xffff_ffff, nameLow: 0xffff_ffff, va: va + 6 * PAGE, length: 8 },
    ];
    const p = cold({ objects, a: { follow: "after-ack" } });
    equal(p.to.va, va);
    // 9 is none of the region's, which is no error.
    post(p, "write", { length: 64, objects: [7n, last, 9n] });
    post(p, "read", { length: 64, at: PAGE });
    go(p);
    same(statuses(p), SUCCESSES(2));
    const entries = messages(p, "a").flatMap(({ groups }) =>
      groups.flatMap((each) => each.entries)
    );
    same(entries.map((entry) => entry.objects), [[7n, last, 9n], []]);
    const asked = p.rig.b.host.events.flatMap((event) =>
      event.type === "PAGE_FAULT"
        ? Array.from({ length: event.count }, (_, i) => event.first + i)
        : []
    );
    same(asked.sort(), [0, 1, 2, 3, 6]);
    const named = ["hintObjectsPrepared", "hintObjectsUnknown"].map((each) =>
      counter(p, "b", each)
    );
    same(named, [2, 1]);
    // [0013, 0075]: one call for what would have been three.
    const saved = ["hintObjectLists", "hintCallsSaved"].map((each) => counter(p, "a", each));
    same(saved, [1, 2]);
    // Without the key none is.
    const guessing = cold({ objects });
    announce(guessing, { va: BigInt(va), length: 64, rkey: p.to.key + 1, objects: [7n] });
    guessing.rig.run();
    equal(counter(guessing, "b", "hintObjectsPrepared"), 0);
    equal(counter(guessing, "b", "hintPagesAsked"), 0);
  });

  it("H-03 [0086]: of an object the part that is told is brought in, and nothing beyond the object", () => {
    const va = 0x1_0000_0000, whole = 4 * PAGE;
    const objects = [{ nameHigh: 0, nameLow: 7, va: va + 2 * PAGE, length: whole }];
    const asked = (parts: readonly ObjectPart[] | undefined, operands = true) => {
      const p = cold({ objects, a: { follow: "after-ack", operands } });
      post(p, "write", { length: 64, objects: [7n], ...(parts && { parts }) });
      go(p);
      same(statuses(p), ["SUCCESS"]);
      ok(isCopied(p, 1));
      equal(counter(p, "b", "hintObjectsPrepared"), 1);
      return p.rig.b.host.events.flatMap((event) =>
        event.type === "PAGE_FAULT"
          ? Array.from({ length: event.count }, (_, i) => event.first + i)
          : []
      );
    };
    // The first page is the WRITE's own.
    const all = [0, 2, 3, 4, 5], part = [{ offset: PAGE, length: 8 }];
    same([asked(undefined), asked(part, false), asked(part)], [all, all, [0, 3]]);
    // H-24: what a peer says of an object brings in no page that is not the object's.
    same(asked([{ offset: 3 * PAGE, length: 2 ** 32 - 1 }]), [0, 5]);
    for (const offset of [whole, whole + PAGE, 2 ** 32 - 1]) {
      same(asked([{ offset, length: 8 }]), [0]);
    }
  });

  it("H-03, H-24: of an untagged message that names objects none is found, as it has no key", () => {
    const objects = [{ nameHigh: 0, nameLow: 7, va: 0x1_0000_0000, length: 2 * PAGE }];
    const p = cold({ objects });
    const untagged = { va: 0n, length: 0, operation: "send", objects: [7n] } as const;
    // Not with the key of the region that has it either.
    for (const rkey of [0, p.to.key]) announce(p, { ...untagged, rkey });
    p.rig.run();
    const named = ["hintObjectsPrepared", "hintObjectsUnknown", "hintPagesAsked"];
    same(named.map((each) => counter(p, "b", each)), [0, 2, 0]);
  });

  it("H-21: a READ's pages are asked for to be read, a WRITE's to be written", () => {
    const p = cold();
    post(p, "read", { length: 64 });
    post(p, "write", { at: PAGE, length: 64 });
    go(p);
    const asked = p.rig.b.host.events.flatMap((event) =>
      event.type === "PAGE_FAULT" ? [[event.first, event.write]] : []
    );
    same(asked, [[0, false], [1, true]]);
  });

  it("H-04 (in part), H-21: warm-up: translations that do not fit on the chip are there when they are needed", () => {
    const run = (a: Partial<HintPlan> | "none") => {
      const p = cold({ a, pinned: true, entries: 64 });
      const big = p.rig.register(p.rig.b, {
        length: 128 * PAGE,
        access: EVERY_ACCESS,
        va: 0xa_0000_0000,
      });
      p.rig.run();
      // Its first lines had to go, of 16, for its last ones.
      for (let i = 0; i < 8; i++) {
        const remote = { va: BigInt(big.va + i * 8 * PAGE), rkey: big.key };
        post(p, "write", { length: 64, remote });
        // Half of the chip is all that one requester's hints may have.
        if (i === 3) go(p);
      }
      go(p);
      same(statuses(p), SUCCESSES(8));
      return p;
    };
    const [hinted, plain] = [run({ follow: "after-ack", batch: 4 }), run("none")];
    equal(counter(plain, "b", "translationMisses"), 8);
    equal(counter(hinted, "b", "hintLinesUseful"), 8);
    equal(counter(hinted, "b", "translationMisses"), 0);
    // H-30: right behind their hint requests come before the lines, of which one is of each hint's first element.
    const late = run({ batch: 4 });
    const counts = ["hintLinesUseful", "hintLinesLate", "hintMissesBehindFirst", "hintLinesWasted"];
    same(counts.map((name) => counter(late, "b", name)), [0, 8, 6, 0]);
  });

  it("H-22: no answer leaves before the translations of its hint are on the chip", () => {
    const p = cold({ pinned: true, entries: 64 });
    const length = 128 * PAGE;
    const big = p.rig.register(p.rig.b, { length, access: EVERY_ACCESS, va: 0xa_0000_0000 });
    p.rig.run();
    const { host } = p.rig.b, { hear } = host;
    let readAt = 0;
    host.hear = (message) => {
      if (message.kind === "memory-read") readAt ||= p.rig.now;
      hear(message);
    };
    const range = { va: BigInt(big.va), length: 64, rkey: big.key, kinds: HINT_KINDS.warmUp };
    announce(p, range, { answer: true });
    p.rig.run();
    const { time, bytes } = p.rig.frames.at(-1)!;
    equal(hintOf(packetOf(bytes))?.type, "prepared");
    ok(readAt > 0 && time > readAt, `answered at ${time} ps, read at ${readAt} ps`);
    equal(counter(p, "b", "hintLinesFetched"), 1);
  });

  it("H-21: receives are set aside for the count of untagged messages, with their memory", () => {
    const run = (a: Partial<HintPlan> | "none", posted = 6, b: Partial<HintPlan> = {}) => {
      const p = cold({ a, b });
      for (let i = 0; i < posted; i++) {
        const address = p.to.va + i * PAGE;
        p.rig.recv(p.rig.b, p.b, [{ address, length: 128, lkey: p.to.key }], "pointer");
      }
      p.rig.run();
      for (let i = 0; i < 6; i++) post(p, "send", { at: i * PAGE, length: 64 });
      p.rig.ring(p.rig.a, p.a.sq);
      p.rig.runFor(400 * US);
      return p;
    };
    const [hinted, plain] = [run({ follow: "after-ack", batch: 6 }), run("none")];
    for (const p of [hinted, plain]) {
      same(statuses(p), SUCCESSES(6));
      ok(isCopied(p, 6));
      const places = p.rig.poll(p.rig.b, p.b.recvCq).map(({ wqeIndex }) => wqeIndex);
      same(places, [0, 1, 2, 3, 4, 5], "in their order");
    }
    ok(counter(plain, "b", "pageFaultRnrNaks") > 5);
    equal(counter(hinted, "b", "rnrNaksOut"), 0);
    equal(counter(hinted, "b", "hintReceives"), 6);
    const entries = messages(hinted, "a").flatMap(({ groups }) => groups.flatMap((g) => g.entries));
    ok(
      entries.every(({ operation, va, length }) =>
        operation === "send" && va === 0n && length === 0
      ),
    );
    equal(entries.reduce((sum, entry) => sum + entry.messages, 0), 6);
    // H-22: the memory of one alone is brought in, and that is said.
    const little = run({ follow: "after-ack", batch: 6 }, 6, { quota: 1 });
    ok(messages(little, "b").some(({ reason }) => reason === "quota"));
    same(statuses(little), SUCCESSES(6));
    // Receives that are not posted are not waited for: the ACK comes, and SENDs meet what they meet without.
    const few = run({ follow: "after-ack", batch: 6 }, 2);
    equal(counter(few, "b", "hintReceives"), 2);
    same(statuses(few), SUCCESSES(2));
    ok(counter(few, "b", "rnrNaksOut") > 0);
  });

  it("H-21: and of a shared receive queue as many as all of its queue pairs' peers announce", () => {
    const run = (a: Partial<HintPlan> | undefined, posted = 8) => {
      const hints = { ...HINT_PLAN, ...a };
      const rig = new Rig({ plans: { a: a === undefined ? {} : { hints }, b: { hints } } });
      const { from, to } = coldMemory(rig);
      const srq = createSrq(rig, rig.b), cq = rig.createCq(rig.b);
      const pairs = [0, 1].map((): Pair => {
        const b = createSrqQp(rig, rig.b, { srq, cq }), a = rig.createQp(rig.a);
        rig.bringUp(rig.a, a, { qpn: b.qpn });
        rig.bringUp(rig.b, b, { qpn: a.qpn });
        return { rig, a, b, from, to };
      });
      rig.run();
      for (let slot = 0; slot < posted; slot++) {
        const sges = [{ address: to.va + slot * PAGE, length: 128, lkey: to.key }];
        postShared(rig, rig.b, { srq, slot, sges });
      }
      rig.run();
      for (const p of pairs) {
        for (let i = 0; i < 4; i++) post(p, "send", { length: 64 });
        rig.ring(rig.a, p.a.sq);
      }
      rig.runFor(2000 * US);
      const [p] = pairs as [Pair];
      return { p, done: pairs.flatMap(statuses), taken: rig.poll(rig.b, cq).length };
    };
    const hinted = run({ follow: "after-ack", batch: 6 }), plain = run(undefined);
    for (const { done, taken } of [hinted, plain]) {
      same(done, SUCCESSES(8));
      equal(taken, 8);
    }
    ok(counter(plain.p, "b", "pageFaultRnrNaks") > 5);
    equal(counter(hinted.p, "b", "rnrNaksOut"), 0);
    equal(counter(hinted.p, "b", "hintReceives"), 8);
    // Those that are not posted are not waited for.
    const few = run({ follow: "after-ack", batch: 6 }, 5);
    equal(counter(few.p, "b", "hintReceives"), 5);
    equal(few.taken, 5);
  });

  it("H-22: a refusal has its reason, and changes nothing of the queue pair", () => {
    const p = cold({ a: { follow: "after-ack" }, b: { quota: 1 } });
    writes(p, 3);
    go(p);
    same(statuses(p), SUCCESSES(3));
    const last = messages(p, "b").at(-1)!;
    same([last.type, last.reason], ["refused", "quota"]);
    equal(counter(p, "a", "hintsRefused"), 1);
    ok(isCopied(p, 3));
    equal(counter(p, "b", "naksOut"), counter(p, "b", "pageFaultDrops"));
  });

  it("H-22: who has not asked is told no reasons, though it hears what was needless for long", () => {
    const p = cold({ pinned: true, entries: 32, a: { kinds: 0 } });
    p.rig.run();
    const none = { messages: 1, sequence: 0, va: BigInt(p.to.va), rkey: p.to.key, objects: [] };
    const entry = { ...none, operation: "write", length: 8, kinds: HINT_KINDS.warmUp } as const;
    const entries = [entry, { ...entry, kinds: HINT_KINDS.atomic }];
    const message: HintMessage = {
      ...{ type: "announce", kinds: entry.kinds, reason: "none", sequence: 1, answer: false },
      groups: [{ sourceQpn: p.a.qpn, destQpn: p.b.qpn, entries }],
    };
    const own = packets(p, "a").findLast(({ hintEth }) => hintEth !== undefined)!;
    const { hintEth, payload } = hintParts(message);
    const before = messages(p, "b").length;
    for (let i = 0; i < 8; i++) {
      inject(p, "b", changed(own, { hintEth, payload, bth: { padCount: -payload.length & 3 } }));
      p.rig.run();
    }
    same(messages(p, "b").slice(before).map(({ type, reason }) => [type, reason]), [
      ["prepared", "none"],
    ]);
    equal(counter(p, "b", "hintsNotWanted"), 8);
  });

  it("H-22: an answer names the groups as the hint has, whatever numbers these were", () => {
    const p = cold();
    p.rig.run();
    const none = { kinds: HINT_KINDS.prefetch, messages: 1, va: 0n, rkey: 0, objects: [] } as const;
    const ends = [[p.a.qpn, p.b.qpn], [p.a.qpn + 1, p.b.qpn], [p.a.qpn, p.b.qpn + 1]] as const;
    const message: HintMessage = {
      ...{ type: "announce", kinds: none.kinds, reason: "none", sequence: 1, answer: true },
      groups: ends.map(([sourceQpn, destQpn], i) => {
        const entry = { ...none, operation: "write", sequence: i, length: 8 } as const;
        return { sourceQpn, destQpn, entries: [entry] };
      }),
    };
    const own = packets(p, "a").findLast(({ hintEth }) => hintEth !== undefined)!;
    const { hintEth, payload } = hintParts(message);
    inject(p, "b", changed(own, { hintEth, payload, bth: { padCount: -payload.length & 3 } }));
    p.rig.run();
    const { reason, groups } = messages(p, "b").at(-1)!;
    equal(reason, "no-access");
    same(groups.map(({ sourceQpn, destQpn }) => [sourceQpn, destQpn]), ends);
  });

  it("H-22: the reason of each element, in messages of their own, the last of which ends the wait", () => {
    const p = cold({ a: { follow: "after-ack" }, b: { quota: 2 } });
    writes(p, 3);
    post(p, "write", { length: 64, remote: { va: BigInt(p.to.va), rkey: p.to.key + 1 } });
    go(p);
    same(statuses(p), [...SUCCESSES(3), "REM_ACCESS_ERR"]);
    const announced = messages(p, "a").find(({ type }) => type === "announce")!;
    const [, , third, last] = announced.groups[0]!.entries;
    const answers = messages(p, "b").filter(({ type }) => type !== "wanted");
    same(
      answers.map(({ type, reason, answer, groups }) => [
        type,
        reason,
        answer,
        ...groups.flatMap(({ entries }) => entries.map(({ sequence }) => sequence)),
      ]),
      [["refused", "quota", true, third!.sequence], [
        "refused",
        "no-access",
        false,
        last!.sequence,
      ]],
    );
    for (const { groups } of answers) {
      same(groups[0]!.entries.map(({ va, rkey, length }) => [va, rkey, length]), [[0n, 0, 0]]);
    }
    same(
      ["hintsRefused", "hintElementsUnable", "hintElementsRefused", "hintElementsFailed"].map((
        each,
      ) => counter(p, "a", each)),
      [1, 1, 1, 0],
    );
  });

  it("[0093]: a hint says which capabilities each element needs, and one that the card has not is named", () => {
    const p = cold({ a: { follow: "after-ack" } });
    post(p, "write", { length: 64 });
    p.rig.recv(p.rig.b, p.b, [{ address: p.to.va + PAGE, length: 64, lkey: p.to.key }]);
    post(p, "send", { length: 64 });
    go(p);
    same(statuses(p), SUCCESSES(2));
    const announced = messages(p, "a").filter(({ type }) => type === "announce");
    const { prefetch, receive, warmUp } = HINT_KINDS;
    same(announced.map(({ kinds }) => kinds), [prefetch | receive], "the message: of all together");
    const needs = announced[0]!.groups[0]!.entries.map((
      { operation, kinds },
    ) => [operation, kinds]);
    same(needs, [["write", prefetch], ["send", receive]]);
    // The answer to one that needs another names those that the card has.
    const poor = cold({ b: { kinds: prefetch } });
    announce(poor, { va: BigInt(poor.to.va), length: 64, kinds: warmUp }, { answer: true });
    poor.rig.run();
    const [answer] = messages(poor, "b").filter(({ type }) => type === "refused");
    same([answer?.reason, answer?.kinds], ["not-wanted", prefetch]);
    equal(counter(poor, "b", "hintPagesAsked"), 0);
  });

  it("H-20 [0090]: a translation that the host has taken back is invalid, and the next hint asks for it anew", () => {
    const p = cold({ a: { follow: "after-ack" } });
    const play = () => {
      writes(p, 2);
      go(p);
      same(statuses(p), SUCCESSES(2));
      return ["hintPagesAsked", "hintPagesUseful", "pageStallPs", "pageFaultDrops"].map((name) =>
        counter(p, "b", name)
      );
    };
    same(play(), [2, 2, 0, 0]);
    // The second page, by the driver's command: what the card knew of it is void.
    p.driver.take(p.to.key, 1, 1);
    same(play(), [3, 3, 0, 0]);
    ok(isCopied(p, 2));
    // Without hints the request finds it out.
    const plain = cold({ a: "none" });
    for (let round = 0; round < 2; round++) {
      writes(plain, 2);
      go(plain);
      plain.driver.take(plain.to.key, 1, 1);
    }
    ok(counter(plain, "b", "pageFaultDrops") >= 3, `${counter(plain, "b", "pageFaultDrops")}`);
  });

  it("H-30: a page that was brought in counts as used, whatever operation its request has", () => {
    for (const opcode of ["write", "read", "fetch-add", "compare-swap"] as const) {
      const p = cold({ a: { follow: "delay", delayPs: 100 * US } });
      p.rig.run();
      const isAtomic = opcode !== "write" && opcode !== "read";
      post(p, opcode, { length: 8, ...isAtomic && { atomic: { swapAdd: 1n, compare: 0n } } });
      go(p);
      same(statuses(p), ["SUCCESS"], opcode);
      const counted = ["hintPagesAsked", "hintPagesUseful"].map((name) => counter(p, "b", name));
      same(counted, [1, 1], opcode);
    }
  });

  it("H-30: and so does a line of translations", () => {
    for (const opcode of ["write", "read", "fetch-add", "compare-swap"] as const) {
      const p = cold({ pinned: true, entries: 32, a: { kinds: 0 } });
      // Their lines put that of the target out.
      for (let i = 0; i < 4; i++) {
        p.rig.register(p.rig.b, { length: PAIR_BYTES, va: 0x100_0000 * i });
      }
      p.rig.run();
      announce(p, { va: BigInt(p.to.va), length: 8, kinds: HINT_KINDS.warmUp });
      p.rig.run();
      const isAtomic = opcode !== "write" && opcode !== "read";
      post(p, opcode, { length: 8, ...isAtomic && { atomic: { swapAdd: 1n, compare: 0n } } });
      go(p);
      same(statuses(p), ["SUCCESS"], opcode);
      const counted = ["hintLinesFetched", "hintLinesUseful"].map((name) => counter(p, "b", name));
      same(counted, [1, 1], opcode);
    }
  });

  it("H-22: where the quota ends within an element, the answer waits for what has been asked for", () => {
    const p = cold({ b: { quota: 1 } });
    p.rig.run();
    announce(p, { va: BigInt(p.to.va), length: 2 * PAGE }, { answer: true });
    p.rig.run(() => p.driver.faults > 0);
    const reasons = () =>
      messages(p, "b").flatMap(({ type, reason }) => type === "refused" ? [reason] : []);
    same(reasons(), []);
    p.rig.run();
    same(reasons(), ["quota"]);
  });

  it("H-09: a program's hint is as long as a packet at most", () => {
    const p = cold();
    p.rig.run();
    const fits = Math.floor((MTU - HINT_GROUP_BYTES) / HINT_ENTRY_BYTES);
    const rest = (MTU - HINT_GROUP_BYTES) % HINT_ENTRY_BYTES / HINT_OBJECT_BYTES;
    const send = (objects: number) => {
      const none = { messages: 1, sequence: 0, rkey: 0, va: 0n, length: 0 };
      const entries = Array.from({ length: fits }, (_, i): HintEntry => ({
        ...{ ...none, operation: "read", kinds: HINT_KINDS.prefetch },
        objects: Array.from({ length: i === 0 ? objects : 0 }, () => 1n),
      }));
      const message = encodeHint({
        ...{ type: "announce", kinds: HINT_KINDS.prefetch, reason: "none", sequence: 1 },
        ...{ answer: false, groups: [{ sourceQpn: p.a.qpn, destQpn: p.b.qpn, entries }] },
      });
      const { status } = p.rig.command(p.rig.a, { op: "send-hint", qpn: p.a.qpn, message });
      p.rig.run();
      return [message.length - HINT_ETH_BYTES, status, counter(p, "b", "hintsIn")];
    };
    same(send(rest), [MTU, "ok", 1]);
    same(send(rest + 1), [MTU + HINT_OBJECT_BYTES, "error", 1]);
    p.rig.modify(p.rig.a, p.a, { state: "err" });
    const left = p.rig.frames.length;
    same(
      [send(0)[1], p.rig.frames.length],
      ["error", left],
      "nor of a queue pair that sends nothing",
    );
  });

  it("H-06: a wait is told in ns, and never as a shorter one", () => {
    const p = cold({ b: { waitsPs: { prefetch: 1500, warmUp: 2000 } } });
    p.rig.run();
    const told = messages(p, "b").findLast(({ type }) => type === "wanted")!;
    const waits = told.groups.flatMap(({ entries }) =>
      entries.map((each) => [each.kinds, each.length])
    );
    same(waits, [[HINT_KINDS.prefetch, 2]]);
  });

  it("H-09: a peer that has said nothing is not told of changes", () => {
    const p = cold({ a: "none" });
    p.rig.run();
    const told = () => packets(p, "b").filter(({ hintEth }) => hintEth !== undefined).length;
    const before = told();
    equal(p.rig.command(p.rig.b, { op: "deregister-mr", key: p.to.key }).status, "ok");
    p.rig.run();
    p.driver.register({ length: PAGE, va: 0x9_0000_0000, access: EVERY_ACCESS });
    p.rig.run();
    equal(told(), before);
  });

  it("H-22: pages that the host does not give are an error, and no preparation", () => {
    const p = cold({ writable: false });
    announce(p, { va: BigInt(p.to.va), length: 64 }, { answer: true });
    p.rig.run();
    const { type, reason } = messages(p, "b").at(-1)!;
    same([type, reason], ["refused", "error"]);
  });

  it("H-22: where the key check has not passed, all answers are alike", () => {
    const p = cold({ b: { quota: 1 } });
    const range = { va: BigInt(p.to.va), length: 64 };
    announce(p, range);
    p.rig.run();
    // Whether there are a queue pair, a region, a page; whether there were rights or a quota left.
    announce(p, range, { answer: true, destQpn: p.b.qpn + 1 });
    announce(p, { ...range, rkey: p.to.key + 1 }, { answer: true });
    announce(p, { va: range.va, length: PAIR_BYTES + 1 }, { answer: true });
    p.rig.run();
    const answers = messages(p, "b").filter(({ type }) => type === "refused");
    same(answers.map(({ reason, kinds }) => [reason, kinds]), new Array(3).fill(["no-access", 0]));
    const named = answers.map(({ groups }) => groups[0]!.entries);
    same(named[1], named[0]);
    same(named[2], named[0]);
    // With the key the reason is told.
    announce(p, { va: range.va + BigInt(PAGE), length: 64 }, { answer: true });
    p.rig.run();
    equal(messages(p, "b").at(-1)!.reason, "quota");
  });

  /** What follows each reason, and the counter of its elements. */
  const AFTERWARDS = {
    "not-wanted": ["without hints", "hintElementsRefused"],
    "quota": ["with half the batch", "hintElementsUnable"],
    "no-access": ["as before", "hintElementsRefused"],
    "unknown-qp": ["as before", "hintElementsRefused"],
    "error": ["as before", "hintElementsFailed"],
  } as const satisfies Record<Exclude<HintReason, "none">, readonly [string, string]>;
  for (const reason of HINT_REASONS) {
    if (reason === "none") continue;
    const [then, counted] = AFTERWARDS[reason];
    it(`H-22: after a NAK for ${reason}: requests go at once, then ${then}`, () => {
      const p = cold({ a: { batch: "adaptive", follow: "after-ack", patiencePs: 900 * US } });
      const { rig } = p;
      rig.fate = (from, { bytes }) =>
        from === "b" && ["prepared", "refused"].includes(hintOf(packetOf(bytes))?.type ?? "")
          ? "drop"
          : "pass";
      writes(p, 8);
      rig.ring(rig.a, p.a.sq);
      rig.runFor(100 * US);
      const announced = messages(p, "a").filter(({ type }) => type === "announce");
      equal(order(p).replaceAll("h", ""), "", "all of them wait");
      for (const { sequence, groups } of announced) {
        const message: HintMessage = {
          ...{ type: "refused", kinds: 0, reason, sequence, answer: false },
          groups,
        };
        const { hintEth, payload } = hintParts(message);
        const own = packets(p, "b").find((packet) => packet.hintEth !== undefined)!;
        const bth = { padCount: -payload.length & 3 };
        inject(p, "a", changed(own, { hintEth, payload, bth }));
      }
      rig.runFor(100 * US);
      ok(order(p).includes("w"), "the patience is not over");
      equal(counter(p, "a", "hintsRefused"), announced.length);
      equal(counter(p, "a", counted), 8);
      rig.run();
      same(statuses(p), SUCCESSES(8));
      const before = batches(p).length;
      for (let i = 0; i < 32; i++) post(p, "write", { at: i * 64, length: 64 });
      go(p);
      const more = batches(p).slice(before);
      if (then === "without hints") same(more, []);
      else equal(Math.max(...more), then === "as before" ? 8 : 4, `${more}`);
    });
  }

  it("H-24: what was fetched for a requester and not used is no more than its quota", () => {
    const p = cold({ b: { quota: 4 } });
    for (let i = 0; i < 5; i++) announce(p, { va: BigInt(p.to.va), length: PAIR_BYTES });
    p.rig.run();
    equal(counter(p, "b", "hintPagesAsked"), 4);
    equal(counter(p, "b", "pagesMapped"), 4);
    equal(counter(p, "b", "hintPagesUnused"), 4);
    ok(counter(p, "b", "hintsOverQuota") >= 5);
    // Used pages make room for others.
    post(p, "write", { length: 64 });
    go(p);
    announce(p, { va: BigInt(p.to.va), length: PAIR_BYTES });
    p.rig.run();
    equal(counter(p, "b", "hintPagesAsked"), 5);
  });

  it("H-24: a page that the host has taken back, and that is asked for anew, counts once", () => {
    const p = cold({ b: { quota: 2 } });
    const va = BigInt(p.to.va);
    announce(p, { va, length: 2 * PAGE });
    p.rig.run();
    p.driver.take(p.to.key, 0, 1);
    announce(p, { va, length: PAGE });
    p.rig.run();
    const asked = () => ["hintPagesAsked", "hintPagesWasted"].map((name) => counter(p, "b", name));
    same(asked(), [3, 1]);
    // Both are used: all of the quota is there again.
    for (const page of [0, 1]) post(p, "write", { at: page * PAGE, length: 64 });
    go(p);
    announce(p, { va: va + BigInt(2 * PAGE), length: 3 * PAGE });
    p.rig.run();
    same(asked(), [5, 1]);
  });

  it("H-24: pages of hints give way, until a request needs one: that asks as if no hint had", () => {
    /** Page requests, of hints and of requests, where the request comes so long behind the hint. */
    const asked = (behindPs: Time, { slow }: { readonly slow: boolean }) => {
      const p = cold();
      p.rig.run();
      announce(p, { va: BigInt(p.to.va), length: 2 * PAGE });
      // The driver takes its time for what the hint of another requester names.
      const { host } = p.rig.b, { hear } = host;
      if (slow) {
        host.hear = (message) => {
          if (message.kind !== "event" || !("hintsOf" in message.event)) hear(message);
        };
      }
      p.rig.runFor(behindPs);
      post(p, "write", { at: PAGE, length: 64 });
      go(p);
      same(statuses(p), ["SUCCESS"]);
      const events = p.rig.b.host.events.filter((event) => event.type === "PAGE_FAULT");
      const address = packets(p, "a")[0]!.sourceAddress;
      equal(counter(p, "b", "pageFaults"), events.length);
      return events.map(({ first, count, hintsOf }) => [
        first,
        count,
        hintsOf === address ? "hint" : hintsOf,
      ]);
    };
    // The host has not been asked yet: the hint's page request is the request's from now on.
    same(asked(5 * US, { slow: false }), [[0, 2, undefined]]);
    same(asked(5 * US, { slow: true }), [[0, 2, undefined]]);
    // It has been, and is at something else: asked again, of the page that is needed.
    same(asked(22 * US, { slow: true }), [[0, 2, "hint"], [1, 1, undefined]]);
    // It has been, and gives the pages before the firmware would ask again.
    same(asked(22 * US, { slow: false }), [[0, 2, "hint"]]);
  });

  it("H-24: nor does a message wait for hints' turn whose first page has come meanwhile, and not its rest", () => {
    const p = cold();
    p.rig.run();
    for (const page of [0, 1]) announce(p, { va: BigInt(p.to.va + page * PAGE), length: 64 });
    const { host } = p.rig.b, { hear } = host, held: PcieMessage[] = [];
    host.hear = (message) => {
      if (message.kind === "event" && "hintsOf" in message.event) held.push(message);
      else hear(message);
    };
    p.rig.runFor(22 * US);
    post(p, "write", { length: 2 * PAGE });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(5 * US);
    equal(held.length, 2, "the driver is at something else");
    hear(held[0]!);
    p.rig.run();
    same(statuses(p), SUCCESSES(1));
    const events = host.events.filter((event) => event.type === "PAGE_FAULT");
    same(events.map(({ first, count, ahead }) => [first, count, ahead]), [
      [0, 1, 0],
      [1, 1, 0],
      [0, 1, 1],
    ]);
  });

  it("H-24: and counts for a time alone", () => {
    const p = cold({ b: { quota: 2, quotaPs: 100 * US } });
    announce(p, { va: BigInt(p.to.va), length: PAIR_BYTES });
    p.rig.run();
    p.rig.runFor(200 * US);
    announce(p, { va: BigInt(p.to.va), length: PAIR_BYTES });
    p.rig.run();
    equal(counter(p, "b", "hintPagesAsked"), 4);
    equal(counter(p, "b", "hintPagesWasted"), 2);
    // H-30: of one operation.
    const leads = leadsIn(p.rig.b.rnic.statistics());
    same([leads.useful, leads.late, leads.wasted].map(sumOf), [0, 0, 1]);
  });

  it("H-24: without valid rights nothing is started; a guesser is not listened to for long", () => {
    const p = cold();
    const good = { va: BigInt(p.to.va), length: 64 };
    announce(p, { ...good, rkey: p.to.key + 1 });
    announce(p, { ...good, va: good.va + BigInt(PAIR_BYTES) });
    announce(p, { ...good, length: PAIR_BYTES + 1 });
    p.rig.run();
    equal(counter(p, "b", "hintPagesAsked"), 0);
    equal(counter(p, "b", "hintsNoAccess"), 3);
    for (let i = 0; i < 20; i++) announce(p, { ...good, rkey: 1 + i });
    p.rig.run();
    equal(counter(p, "b", "hintsNoAccess"), 8);
    const answers = messages(p, "b").length;
    announce(p, good);
    p.rig.run();
    equal(counter(p, "b", "hintPagesAsked"), 0, "the right key comes too late");
    equal(messages(p, "b").length, answers);
    // The queue pair itself is as it was.
    post(p, "write", { length: 64 });
    go(p);
    same(statuses(p), ["SUCCESS"]);
  });

  it("H-07, H-24: a tuple without length or key is prepared for by nothing, and guesses no key", () => {
    const p = cold();
    const good = { va: BigInt(p.to.va), length: 64 };
    p.rig.run();
    for (let i = 0; i < 20; i++) {
      announce(p, { ...good, length: 0 });
      announce(p, { ...good, rkey: 0 });
    }
    p.rig.run();
    same([counter(p, "b", "hintsNoAccess"), counter(p, "b", "hintPagesAsked")], [40, 0]);
    announce(p, good);
    p.rig.run();
    equal(counter(p, "b", "hintPagesAsked"), 1, "the peer is listened to");
  });

  it("H-22: answers to no hint are counted, at whichever end, and change nothing", () => {
    const p = cold({ a: { follow: "after-ack" } });
    post(p, "write", { length: 64 });
    go(p);
    same(counter(p, "a", "hintAnswersUnknown"), 0);
    const answers = packets(p, "b").filter((packet) => hintOf(packet)?.type === "prepared");
    equal(answers.length, 1);
    // The same once more; and by the end that has announced, to the one that was told.
    inject(p, "a", answers[0]!);
    const own = packets(p, "a").find(({ hintEth }) => hintEth !== undefined)!;
    const { hintEth, payload } = answers[0]!;
    inject(
      p,
      "b",
      changed(own, { hintEth: hintEth!, payload, bth: { padCount: -payload.length & 3 } }),
    );
    p.rig.run();
    same([counter(p, "a", "hintAnswersUnknown"), counter(p, "b", "hintAnswersUnknown")], [1, 1]);
    same([statuses(p), counter(p, "a", "hintsPrepared")], [SUCCESSES(1), 1]);
  });

  it("H-24: nor without those of the queue pair", () => {
    const p = cold({ accessFlags: ACCESS.localWrite | ACCESS.remoteRead });
    announce(p, { va: BigInt(p.to.va), length: 64 });
    p.rig.run();
    same([counter(p, "b", "hintPagesAsked"), counter(p, "b", "hintsNoAccess")], [0, 1]);
  });

  it("H-22, H-24: answers that one requester waits for are so many at most; beyond, it is refused at once", () => {
    const p = cold();
    const { length } = messages(p, "b");
    for (let i = 0; i < 70; i++) announce(p, { va: BigInt(p.to.va), length: 64 }, { answer: true });
    const told = () =>
      messages(p, "b").slice(length).map(({ type, reason }) => `${type} ${reason}`);
    p.rig.runFor(FAULT_PS / 2);
    same(told(), new Array(6).fill("refused quota"));
    p.rig.run();
    same(told().slice(6), new Array(64).fill("prepared none"));
  });

  it("H-22, H-24: those of a life that is over are none of them", () => {
    const p = cold();
    for (let i = 0; i < 64; i++) announce(p, { va: BigInt(p.to.va), length: 64 }, { answer: true });
    p.rig.runFor(FAULT_PS / 4);
    p.rig.modify(p.rig.b, p.b, { state: "reset" });
    p.rig.bringUp(p.rig.b, p.b, { qpn: p.a.qpn, attributes: { accessFlags: EVERY_ACCESS } });
    const { length } = messages(p, "b");
    announce(p, { va: BigInt(p.to.va), length: 64 }, { answer: true });
    p.rig.run();
    const answers = messages(p, "b").slice(length).filter(({ type }) => type !== "wanted");
    same(answers.map(({ type, reason }) => [type, reason]), [["prepared", "none"]]);
  });

  it("H-24: only the queue pair's own peer, and only of the pair that carries it", () => {
    const p = cold();
    announce(p, { va: BigInt(p.to.va), length: 64 }, { sourceQpn: p.a.qpn + 1 });
    announce(p, { va: BigInt(p.to.va), length: 64 }, { destQpn: p.b.qpn + 1 });
    p.rig.run();
    equal(counter(p, "b", "hintsUnknownQp"), 2);
    equal(counter(p, "b", "hintPagesAsked"), 0);
  });

  it("H-24: hints in any order, twice, late and stale end as without", () => {
    const p = cold({ a: { batch: 1 } });
    let count = 0;
    p.rig.fate = (_, { bytes }) => {
      if (hintOf(packetOf(bytes)) === undefined) return "pass";
      return [{ delayPs: 60 * US }, "twice", { delayPs: US, againPs: 300 * US }, "drop"][
        count++ % 4
      ] as ReturnType<Rig["fate"]>;
    };
    writes(p, 8);
    go(p);
    same(statuses(p), SUCCESSES(8));
    ok(isCopied(p, 8));
  });

  it("H-24: a card that loses its power in the middle of a hint forgets it, and the other goes on", () => {
    for (const dead of ["a", "b"] as const) {
      const p = cold({ a: { follow: "after-ack", patiencePs: 50 * US } });
      const { rig } = p;
      writes(p, 2);
      rig.ring(rig.a, p.a.sq);
      rig.run(() => counter(p, "b", "hintsIn") > 0);
      rig.link(rig[dead], PORTS.rnicBus, false);
      rig.run();
      equal(rig.b.rnic.statistics()["hintsIn"], dead === "b" ? 0 : 1, "all of it is forgotten");
      // The request waits for the answer no longer than its patience, then its retries run out.
      if (dead === "b") same(statuses(p), ["RETRY_EXC_ERR", "WR_FLUSH_ERR"]);
      equal(counter(p, "a", "hintsUnanswered"), dead === "b" ? 1 : 0);
    }
  });

  /** `a` sends a hint of its own making. */
  function announce(
    p: Pair,
    entry: {
      readonly va: bigint;
      readonly length: number;
      readonly rkey?: number;
      readonly objects?: readonly bigint[];
      readonly operation?: "write" | "send";
      readonly kinds?: number;
    },
    { answer = false, ...ends }: {
      readonly sourceQpn?: number;
      readonly destQpn?: number;
      readonly answer?: boolean;
    } = {},
  ): void {
    const { kinds = HINT_KINDS.prefetch } = entry;
    const message: HintMessage = {
      type: "announce",
      kinds,
      reason: "none",
      sequence: 1,
      answer,
      groups: [{
        sourceQpn: p.a.qpn,
        destQpn: p.b.qpn,
        ...ends,
        entries: [{
          kinds,
          operation: "write",
          messages: 1,
          sequence: 0,
          rkey: p.to.key,
          objects: [],
          ...entry,
        }],
      }],
    };
    const own = packets(p, "a").find(({ hintEth }) => hintEth !== undefined)!;
    const { hintEth, payload } = hintParts(message);
    const bth = { opcode: OPCODE["VENDOR HINT"], padCount: -payload.length & 3 };
    inject(p, "b", changed(own, { hintEth, payload, bth }));
  }
});

describe("H-08: a queue pair that carries the hints of all (figure 8)", () => {
  const QPS = 8;

  /** Queue pairs between the two cards, more than a cache of contexts holds, and one that carries hints. */
  function carried(
    options: {
      readonly carrier?: boolean;
      readonly type?: "rc" | "uc";
      readonly a?: Partial<HintPlan>;
      readonly pinned?: boolean;
      readonly contexts?: number;
    } = {},
  ) {
    const { carrier = true, type = "rc", a = {}, contexts: entries = 12 } = options;
    const queueCache = { entries, evict: "oldest", amount: 1 } as const;
    const hints = { ...HINT_PLAN, kinds: HINT_KINDS.prefetch | HINT_KINDS.warmUp };
    const rig = new Rig({
      plans: { a: { hints: { ...hints, ...a } }, b: { hints, queueCache, pageFault: "pause" } },
    });
    const { from, to } = coldMemory(rig, options);
    const attributes = { accessFlags: EVERY_ACCESS, timeout: 9 };
    const pairs = Array.from(
      { length: QPS },
      (): Pair => ({
        rig,
        ...(type === "uc" ? connectUc(rig, { pathMtu: MTU }) : rig.connect({ attributes })),
        from,
        to,
      }),
    );
    const carrying = carrier ? rig.connect({ hints: "carrier", attributes }) : undefined;
    rig.run();
    return { rig, pairs, carrying, p: pairs[0]! };
  }

  /** A WRITE of each queue pair into a page of its own; all doorbells ring at once. */
  function writeAll(pairs: readonly Pair[]): void {
    for (const [i, each] of pairs.entries()) post(each, "write", { at: i * PAGE, length: 64 });
    for (const each of pairs) each.rig.ring(each.rig.a, each.a.sq);
    pairs[0]!.rig.run();
  }

  const announced = (p: Pair) =>
    packets(p, "a").flatMap((packet) => {
      const message = hintOf(packet);
      return message?.type === "announce" ? [{ packet, message }] : [];
    });

  it("H-02, H-05, H-08: has one hint about the work of several queue pairs, by the numbers of both ends", () => {
    const { pairs, carrying, p } = carried();
    writeAll(pairs);
    for (const each of pairs) same(statuses(each), ["SUCCESS"]);
    const sent = announced(p);
    ok(sent.every(({ packet }) => packet.bth.destQpn === carrying!.b.qpn));
    const groups = sent.flatMap(({ message }) => message.groups);
    same(
      groups.map(({ sourceQpn, destQpn }) => `${sourceQpn} ${destQpn}`).sort(),
      pairs.map(({ a, b }) => `${a.qpn} ${b.qpn}`).sort(),
    );
    equal(counter(p, "b", "hintPagesAsked"), QPS);
    equal(counter(p, "b", "hintsUnknownQp"), 0);
    ok(isCopied(p, QPS));
    // Others' work that waits for a long message goes along with that whose turn it is.
    const busy = carried();
    const [first, ...others] = busy.pairs;
    post(first!, "write", { length: PAIR_BYTES });
    for (const each of others) post(each, "write", { length: 64 });
    for (const each of busy.pairs) each.rig.ring(each.rig.a, each.a.sq);
    busy.p.rig.run();
    for (const each of busy.pairs) same(statuses(each), ["SUCCESS"]);
    const most = Math.max(...announced(busy.p).map(({ message }) => message.groups.length));
    ok(most > 1, `a hint is about ${most} queue pairs`);
  });

  it("H-06: work of all of them waits for the one answer", () => {
    const { pairs, p } = carried({ a: { follow: "after-ack" } });
    writeAll(pairs);
    for (const each of pairs) same(statuses(each), ["SUCCESS"]);
    equal(counter(p, "b", "pageStallPs"), 0);
    equal(counter(p, "a", "hintsPrepared"), announced(p).length);
    ok(isCopied(p, QPS));
  });

  it("H-21: contexts that are not on the chip are read before their requests come", () => {
    const run = (carrier: boolean) => {
      const { pairs, p } = carried({ carrier, pinned: true, a: { follow: "after-ack" } });
      // Making queue pairs has put the contexts of the first of them out of the cache.
      for (const each of pairs.slice(0, 4)) post(each, "write", { length: 64 });
      for (const each of pairs.slice(0, 4)) each.rig.ring(each.rig.a, each.a.sq);
      p.rig.run();
      for (const each of pairs.slice(0, 4)) same(statuses(each), ["SUCCESS"]);
      return p;
    };
    const [hinted, plain] = [run(true), run(false)];
    ok(counter(plain, "b", "contextMisses") >= 3, `${counter(plain, "b", "contextMisses")}`);
    ok(counter(hinted, "b", "hintContextsUseful") >= 3);
    ok(counter(hinted, "b", "contextMisses") < counter(plain, "b", "contextMisses"));
  });

  it("H-08: one that has failed carries none: each queue pair has its own", () => {
    const { rig, pairs, carrying, p } = carried({ a: { transport: "carrier" } });
    writeAll(pairs);
    const before = announced(p).length;
    rig.modify(rig.a, carrying!.a, { state: "err" });
    writeAll(pairs);
    const later = announced(p).slice(before);
    same(
      new Set(later.map(({ packet }) => packet.bth.destQpn)),
      new Set(pairs.map(({ b }) => b.qpn)),
    );
  });

  it("H-24: contexts that hints of one card bring and no request has used are half of the cache at most", () => {
    const { pairs, p } = carried({ contexts: 6, pinned: true, a: { follow: "after-ack" } });
    const of = (name: string) => counter(p, "b", `hintContexts${name}`);
    let most = 0;
    for (const each of pairs) post(each, "write", { length: 64 });
    for (const each of pairs) each.rig.ring(each.rig.a, each.a.sq);
    p.rig.run(() => {
      most = Math.max(most, of("Fetched") - of("Useful") - of("Late") - of("Wasted"));
      return false;
    });
    for (const each of pairs) same(statuses(each), ["SUCCESS"]);
    equal(most, 6 / 2);
    ok(counter(p, "b", "hintsOverQuota") > 0);
  });

  it("[0113]: UC has its hints by the carrier, and loses no packet to a page that is not there", () => {
    const { pairs, p } = carried({ type: "uc", a: { follow: "after-ack" } });
    writeAll(pairs);
    for (const each of pairs) same(statuses(each), ["SUCCESS"]);
    ok(isCopied(p, QPS), "what comes for a page that is not there is lost");
    const without = carried({ type: "uc", carrier: false, a: { queuePairs: "asked" } });
    writeAll(without.pairs);
    ok(!isCopied(without.p, QPS));
    same(announced(without.p), []);
  });

  it("H-24: where one end carries none, it has its own alone", () => {
    const { rig, p } = carried({ carrier: false });
    const attributes = { accessFlags: EVERY_ACCESS, timeout: 9 };
    const a = rig.createQp(rig.a, { hints: "carrier" });
    const b = rig.createQp(rig.b, { hints: "on" });
    rig.bringUp(rig.a, a, { qpn: b.qpn, attributes });
    rig.bringUp(rig.b, b, { qpn: a.qpn, attributes });
    rig.run();
    post(p, "write", { length: 64 });
    go(p);
    same(statuses(p), ["SUCCESS"]);
    equal(counter(p, "b", "hintsUnknownQp"), 1);
    equal(counter(p, "b", "hintPagesAsked"), 0);
  });
});

/** WRITEs of a list, each into the memory of the one before but for the first, whose length is another one. */
function list(p: Pair, count: number, { first = 8, at = 0 } = {}): void {
  for (let i = 0; i < count; i++) {
    post(p, "write", { at, length: i === 0 ? first : 8, signaled: i === count - 1 });
  }
  go(p);
}

describe("H-05: work that waits in several queue pairs", () => {
  it("is announced as a whole before the first of it begins, each time", () => {
    const p = cold({ a: { backOff: "off" } });
    const attributes = { accessFlags: EVERY_ACCESS, timeout: 9 };
    const others = [1, 2, 3].map((): Pair => ({ ...p, ...p.rig.connect({ attributes }) }));
    p.rig.run();
    for (let time = 0; time < 3; time++) {
      const before = packets(p, "a").length;
      // The port is busy until all of them are in line. A READ has no payload that its packet would wait for.
      post(p, "write", { length: PAIR_BYTES });
      for (const each of others) post(each, "read", { length: 64 });
      for (const each of [p, ...others]) each.rig.ring(each.rig.a, each.a.sq);
      p.rig.run();
      for (const each of [p, ...others]) same(statuses(each), SUCCESSES(1));
      const sent = packets(p, "a").slice(before);
      const begun = sent.findIndex(({ reth }) => reth?.length === 64);
      const announced = sent.slice(0, begun).flatMap((packet) => {
        const message = hintOf(packet);
        return message?.type === "announce" ? message.groups.map(({ sourceQpn }) => sourceQpn) : [];
      });
      for (const { a: { qpn } } of others) ok(announced.includes(qpn), `QP ${qpn}, time ${time}`);
    }
  });
});

describe("H-02: batches", () => {
  // The second read is under way when the first one is announced.
  it("H-02: once a list is announced, what follows is announced a batch at a time", () => {
    for (
      const [batch, sizes] of [[4, "4 4 4 4 4 4 4 4"], [8, "4 4 8 8 8"], [16, "4 4 16 8"]] as const
    ) {
      const p = cold({ a: { batch, backOff: "off" } });
      list(p, 32);
      same(statuses(p), SUCCESSES(1));
      equal(batches(p).join(" "), sizes);
    }
  });

  it("H-02: without hints, and where they are rare, no more WQEs are read at once than else", () => {
    const reads = (a: Partial<HintPlan>) => {
      const p = cold({ a });
      list(p, 32);
      for (let round = 0; round < 40; round++) list(p, 1);
      const before = counter(p, "a", "wqeReads");
      list(p, 32);
      return counter(p, "a", "wqeReads") - before;
    };
    equal(reads({ queuePairs: "asked" }), 8);
    equal(reads({ backOff: "on", batch: 8 }), 8);
    equal(reads({ backOff: "off", batch: 8 }), 5);
  });

  it("H-02: a batch is waited for while the look-ahead moves on through a list that is on the chip", () => {
    const p = cold({ a: { batch: 4, depth: 16, follow: "after-ack" } });
    list(p, 56);
    same(statuses(p), SUCCESSES(1));
    ok(batches(p).every((size) => size === 4), `${batches(p)}`);
  });

  it("H-02: what of a batch the look-ahead still reaches is announced while its first request is held", () => {
    const p = cold({ a: { batch: 8, depth: 32, follow: "delay", delayPs: 100 * US } });
    list(p, 56);
    same(statuses(p), SUCCESSES(1));
    // The second hint leaves a little later than the first, so the look-ahead ends again at its work.
    equal(batches(p).join(" "), "4 8 8 8 4 4 8 8 4");
    ok(counter(p, "a", "hintHoldPs") < 205 * US, "a look-ahead is held once");
  });

  it("H-02: of a batch that the look-ahead is too short for half the look-ahead is enough", () => {
    const p = cold({ a: { batch: 64, depth: 16, follow: "after-ack", backOff: "off" } });
    list(p, 56);
    ok(batches(p).length <= 12, `${batches(p)}`);
    ok(Math.max(...batches(p)) <= 16, `${batches(p)}`);
  });

  it("H-02: half of the look-ahead is announced where it is too short for a batch, ahead of its requests", () => {
    const p = cold({ a: { batch: 64, depth: 16, backOff: "off" } });
    list(p, 48, { first: 4 * PAGE });
    equal(batches(p).join(" "), "4 4 16 8 8 8");
  });

  it("H-02: adaptive ones grow while hints are there before their work's turn, shrink where it waits", () => {
    const early = cold({
      a: { batch: "adaptive", follow: "after-ack", depth: 64, backOff: "off" },
    });
    for (let round = 0; round < 3; round++) list(early, 56, { first: 4 * PAGE });
    same(statuses(early), SUCCESSES(3));
    ok(Math.max(...batches(early)) >= 16, `${batches(early)}`);
    const late = cold({ a: { batch: "adaptive", follow: "after-ack", depth: 64 } });
    for (let round = 0; round < 8; round++) list(late, 24, { at: round * PAGE });
    same(statuses(late), SUCCESSES(8));
    ok(Math.max(...batches(late).slice(-3)) <= 4, `${batches(late)}`);
  });

  it("H-02: are read ahead by the units of the last WQE, and unit by unit at the ring's end", () => {
    const ahead = (...positions: readonly number[]) => {
      const { length } = positions;
      const work = {
        length,
        end: length,
        at: (i: number) => i in positions ? { position: positions[i] } : undefined,
      };
      const qp = { life: 1, requester: { work } } as unknown as QueuePair;
      const end = { life: 1, isAnnouncing: true, batch: 8 } as unknown as HintEnd;
      return unitsAhead({ ends: new Map([[qp, end]]) } as unknown as Hints, qp);
    };
    same([ahead(5), ahead(5, 6), ahead(4, 6), ahead(62, 0)], [8, 8, 16, 8]);
    equal(ahead(), undefined);
  });

  it("H-02: adaptive ones begin as long as what waits, where no request waits for them", () => {
    const of = (batch: number | "adaptive") => {
      const p = cold({ a: { batch, backOff: "off", depth: 64 } });
      list(p, 56);
      same(statuses(p), SUCCESSES(1));
      return batches(p).join(" ");
    };
    equal(of("adaptive"), of(64));
    ok(of("adaptive").length < of(8).length, `${of("adaptive")}, ${of(8)}`);
  });
});
