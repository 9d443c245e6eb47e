import { deepEqual as same, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { HINT_PLAN, type HintPlan } from "../../../fabric/rack/plan/hint_plan.ts";
import type { PageFaultRule, RnicPlan } from "../../../fabric/rack/plan/plan.ts";
import { detachHint, type HintMessage, hintOf, hintParts } from "../../../fabric/wire/roce/hint.ts";
import {
  HINT_ENTRY_BYTES,
  HINT_GROUP_BYTES,
  HINT_KINDS,
} from "../../../fabric/wire/roce/hint_eth.ts";
import { DemandDriver } from "../testing/demand_testing.ts";
import {
  changed,
  counter,
  EVERY_ACCESS,
  go,
  inject,
  losing,
  packetOf,
  packets,
  type Pair,
  PAIR_BYTES,
  post,
  recvs,
  statuses,
} from "../testing/pair_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";
import { connectUc } from "../testing/unreliable_testing.ts";

import { createHints, type HintElement, type HintEnd } from "./state/hint_state.ts";
import { hintingPeer, noteHint, noteMiss, SCOPES_MAX } from "./needless.ts";
import type { Device } from "../state/device.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { TranslationTable } from "../state/translation_table.ts";
import { missedFor, needlessOf } from "./back_off.ts";

const PAGE = 4096, PATH_MTU = 1024;
/** Needless hints in a row after which they get rare. */
const ROW = 8;

interface Options {
  readonly a?: Partial<HintPlan>;
  readonly pageFault?: PageFaultRule;
  readonly carrier?: boolean | "uc";
  readonly type?: "rc" | "uc";
  readonly entries?: number;
  readonly queueCache?: RnicPlan["queueCache"];
}

interface Warm extends Pair {
  readonly driver: DemandDriver;
  /** A second pair of queue pairs. */
  readonly other: Pair;
}

/** A pair whose target memory is on demand, with its first page there; each WRITE is a batch of its own. */
function warm(options: Options = {}): Warm {
  const { a = {}, pageFault = "drop", carrier = false, type = "rc" } = options;
  const { entries = 2 ** 20, queueCache } = options;
  const plan = (given: Partial<HintPlan>) => ({
    pageFault,
    translations: { entries, evict: "lru" as const },
    hints: { ...HINT_PLAN, batch: 1, ...given },
    ...(queueCache && { queueCache }),
  });
  const rig = new Rig({ plans: { a: plan(a), b: plan({}) } });
  const from = rig.register(rig.a, { length: PAIR_BYTES, access: EVERY_ACCESS });
  const driver = new DemandDriver(rig, rig.b, {});
  const to = driver.register({ length: PAIR_BYTES, access: EVERY_ACCESS });
  rig.fill(rig.a, from, (i) => i * 7 + (i >> 8));
  const attributes = { accessFlags: EVERY_ACCESS, timeout: 9 };
  const unreliable = { pathMtu: PATH_MTU, accessFlags: EVERY_ACCESS } as const;
  const connect = () => type === "uc" ? connectUc(rig, unreliable) : rig.connect({ attributes });
  const p = { rig, ...connect(), from, to, driver };
  const other = { rig, ...connect(), from, to };
  if (carrier === "uc") connectUc(rig, unreliable, { hints: "carrier" });
  else if (carrier) rig.connect({ hints: "carrier", attributes });
  post(p, "write", { length: 64 });
  go(p);
  return { ...p, other };
}

function announced(p: Pair): number {
  return hintsOf(p, "a").filter(({ type, groups }) =>
    type === "announce" && groups.some(({ sourceQpn }) => sourceQpn === p.a.qpn)
  ).length;
}

function hintsOf(p: Pair, from: "a" | "b"): HintMessage[] {
  return packets(p, from).flatMap((packet) => hintOf(packet) ?? []);
}

/** WRITEs one after the other into a page. @returns for each whether it was announced. */
function writes(p: Pair, count: number, page = 0): string {
  return Array.from({ length: count }, () => {
    const before = announced(p);
    const remote = { va: BigInt(p.to.va + page * PAGE), rkey: p.to.key };
    post(p, "write", { length: 64, remote });
    go(p);
    return announced(p) > before ? "h" : "-";
  }).join("");
}

/** SENDs one after the other, each into a receive of the fifth page. */
function sends(p: Pair, count: number): string {
  return Array.from({ length: count }, () => {
    const before = announced(p);
    recvs(p, 1);
    post(p, "send", { length: 64 });
    go(p);
    return announced(p) > before ? "h" : "-";
  }).join("");
}

/** The page is away again. */
function take({ driver, to }: Warm, page: number): void {
  driver.take(to.key, page, 1);
}

/** What a card remembers of a peer's hints, with one queue pair. */
function responder() {
  const hints = createHints(HINT_PLAN)!;
  const attributes = { destQpn: 18, pathMtu: PATH_MTU };
  const of = { qpn: 17, life: 1, path: { address: 9 }, attributes } as unknown as QueuePair;
  hints.ends.set(of, { life: 1 } as HintEnd);
  return { hints, of, peer: hintingPeer(hints, 9) };
}

const ENTRY = {
  ...{ kinds: 0, messages: 0, sequence: 0, rkey: 0, length: 0, va: 0n, objects: [] },
  operation: "read" as const,
};

const all = (count: number) => "h".repeat(count);

describe("hints that bring nothing (H-02, H-22)", () => {
  it("H-02, H-22: are announced ever more rarely, each of them answered, once the peer has said so", () => {
    for (const a of [{}, { batch: "adaptive" }, { follow: "after-ack" }] as const) {
      const p = warm({ a });
      equal(writes(p, ROW), all(ROW), JSON.stringify(a));
      equal(writes(p, 14), "-h---h-------h");
      for (const wait of [16, 32, 64, 64]) equal(writes(p, wait), "-".repeat(wait - 1) + "h");
      ok(statuses(p).every((status) => status === "SUCCESS"));
      equal(counter(p, "a", "hintBatchesPassedOver"), 14 - 3 + 15 + 31 + 63 + 63);
      equal(counter(p, "b", "hintsNeedless"), ROW + 3 + 4);
      // Of hints whose answer was not asked for one of a row is answered; and each that is sent to learn.
      const answers = hintsOf(p, "b").filter(({ type }) => type === "prepared");
      const isAsked = Object.keys(a).length > 0;
      equal(answers.length, (isAsked ? 1 + ROW : 1) + 7, JSON.stringify(a));
      const [named, ...others] = answers.at(-1)!.groups;
      same([named!.destQpn, named!.sourceQpn, others], [p.b.qpn, p.a.qpn, []]);
      same(named!.entries.map(({ kinds, rkey }) => [kinds, rkey]), [[0, p.to.key]]);
    }
  });

  it("H-02: are all announced where the card is told so", () => {
    const p = warm({ a: { backOff: "off" } });
    equal(writes(p, 40), all(40));
    ok(hintsOf(p, "a").every(({ type, answer }) => type === "wanted" || !answer));
  });

  it("H-02: none is left out where one of each row is needed", () => {
    const p = warm({ pageFault: "pause" });
    for (let round = 0; round < 4; round++) {
      equal(writes(p, ROW - 1), all(ROW - 1));
      take(p, 1);
      equal(writes(p, 1, 1), "h");
    }
    equal(counter(p, "a", "hintBatchesPassedOver"), 0);
  });

  it("H-02, H-22: a hint that is sent to learn and is needed: all is announced again", () => {
    const p = warm({ pageFault: "pause" });
    p.rig.fate = (_, { bytes }) => hintOf(packetOf(bytes))?.type === "wanted" ? "drop" : "pass";
    writes(p, ROW);
    equal(writes(p, 5), "-h---");
    take(p, 1);
    equal(writes(p, 1, 1), "h");
    equal(writes(p, ROW), all(ROW));
    equal(writes(p, 2), "-h");
  });

  it("H-02: one with a key of which nothing was announced so far is announced, and answered", () => {
    const p = warm({ pageFault: "pause" });
    writes(p, ROW);
    equal(writes(p, 3), "-h-");
    const cold = { ...p, to: p.driver.register({ length: PAGE, access: EVERY_ACCESS }) };
    const there = { ...p, to: p.rig.register(p.rig.b, { length: PAGE, access: EVERY_ACCESS }) };
    equal(writes(there, 2), "h-", "which is needless, too");
    equal(writes(cold, ROW), all(ROW), "which is needed");
    ok(writes(p, ROW).includes("--"), "of the other regions nothing has changed");
  });

  for (const pageFault of ["rnr", "drop"] as const) {
    it(`H-02, H-22: work that is sent again (fault: ${pageFault}): all is announced again`, () => {
      const p = warm({ pageFault });
      p.rig.fate = (_, { bytes }) => hintOf(packetOf(bytes))?.type === "wanted" ? "drop" : "pass";
      writes(p, ROW);
      equal(writes(p, 6), "-h---h");
      take(p, 1);
      equal(writes(p, 1, 1), "-");
      ok(counter(p, "a", pageFault === "rnr" ? "rnrNaksIn" : "retransmissions") > 0);
      equal(writes(p, ROW), all(ROW));
    });
  }

  it("H-02, H-22: a message that goes back in the middle of it is work that is sent again, too", () => {
    const { rig, ...ends } = warm();
    // So long that it is under way when its NAK comes.
    const count = 256, memory = { length: count * PATH_MTU, access: EVERY_ACCESS };
    const p = { ...ends, rig, from: rig.register(rig.a, memory), to: rig.register(rig.b, memory) };
    writes(p, ROW);
    equal(writes(p, 6), "-h---h");
    const before = counter(p, "a", "retransmissions");
    rig.fate = losing("RC RDMA WRITE MIDDLE");
    post(p, "write", { length: memory.length });
    go(p);
    const again = counter(p, "a", "retransmissions") - before;
    ok(again > 0 && again < count - 2, `it goes back behind ${again} of ${count} packets`);
    equal(writes(p, 1), "h");
  });

  it("H-09, H-22: a request that met what none had announced: the peer says so, all is announced again", () => {
    const p = warm({ pageFault: "pause" });
    writes(p, ROW);
    equal(writes(p, 6), "-h---h");
    const before = hintsOf(p, "b").length;
    take(p, 1);
    equal(writes(p, 1, 1), "-");
    equal(counter(p, "a", "retransmissions"), 0, "the requester sees nothing of it itself");
    same(hintsOf(p, "b").slice(before).map(({ type }) => type), ["wanted"]);
    equal(writes(p, ROW), all(ROW));
  });

  it("H-21, H-22: translations that are not on the chip are a need, too", () => {
    const p = warm({ entries: 64 });
    const va = 0xa_0000_0000;
    const big = p.rig.register(p.rig.b, { length: 128 * PAGE, access: EVERY_ACCESS, va });
    // A line has eight pages, and the chip has eight lines.
    const pages = Array.from({ length: 16 }, (_, i) => 8 * i);
    const wide = { ...p, to: big };
    for (const page of [...pages, ...pages]) equal(writes(wide, 1, page), "h");
    equal(writes(wide, 1 + ROW, 8), all(1 + ROW));
    equal(writes(wide, 6, 8), "-h---h");
    equal(writes(wide, 1, 0), "-");
    equal(writes(wide, ROW, 0), all(ROW));
  });

  it("H-02, H-22: the word that they are needless is lost: it is said again, and nothing else changes", () => {
    const p = warm();
    let lost = 0;
    p.rig.fate = (_, { bytes }) =>
      hintOf(packetOf(bytes))?.type === "prepared" && lost++ === 0 ? "drop" : "pass";
    equal(writes(p, 2 * ROW + 2), all(2 * ROW) + "-h");
    ok(statuses(p).every((status) => status === "SUCCESS"));
  });

  it("H-02, H-22: by region and requester: other queue pairs, and later ones, begin with what is known", () => {
    const p = warm({ pageFault: "pause" });
    const connect = () => ({
      ...p,
      ...p.rig.connect({ attributes: { accessFlags: EVERY_ACCESS, timeout: 9 } }),
    });
    equal(writes(p, ROW), all(ROW));
    equal(writes(p.other, 6), "-h---h");
    p.rig.modify(p.rig.a, p.a, { state: "reset" });
    p.rig.modify(p.rig.b, p.b, { state: "reset" });
    equal(writes(connect(), 8), "-------h", "a short connection, with every eighth");
    take(p, 1);
    const third = connect();
    equal(writes(third, 1, 1), "-");
    equal(writes(third, 2), "hh", "it has met what none had announced");
    equal(
      writes(p.other, 2),
      "hh",
      "of that region all is announced again, by each queue pair with work for it",
    );
  });

  it("H-02, H-22: a region that gets cold is announced again, another one is not", () => {
    const p = warm({ pageFault: "pause" });
    const there = { ...p, to: p.rig.register(p.rig.b, { length: PAGE, access: EVERY_ACCESS }) };
    writes(p, ROW);
    writes(there, ROW);
    take(p, 1);
    equal(writes(p, 1, 1), "-");
    equal(writes(p, 1, 1), "h");
    const told = hintsOf(p, "b").filter(({ type, groups }) =>
      type === "wanted" && groups.some(({ entries }) => entries.some(({ rkey }) => rkey !== 0))
    );
    same(told.map(({ groups }) => groups[0]!.entries.map(({ rkey }) => rkey)), [[p.to.key]]);
    equal(writes(there, 4), "-h--", "every second, as others may have got cold, too");
  });

  it("H-02, H-22: a peer that remembers nothing, as in another life: all to it is announced", () => {
    const p = warm({ pageFault: "pause" });
    writes(p, ROW);
    equal(writes(p, 4), "-h--");
    const own = packets(p, "b").find((packet) => packet.hintEth !== undefined)!;
    const say = (reason: "not-wanted" | "none") => {
      const message: HintMessage = {
        ...{ type: "wanted", kinds: 3, reason, sequence: 99, answer: false },
        // How long requests should wait: which says nothing of what was missed.
        groups: [{
          ...{ sourceQpn: p.b.qpn, destQpn: p.a.qpn },
          entries: [{ ...ENTRY, kinds: 1, length: 5 }],
        }],
      };
      const { hintEth, payload } = hintParts(message);
      inject(p, "a", changed(own, { hintEth, payload, bth: { padCount: -payload.length & 3 } }));
      p.rig.run();
    };
    // The kinds are other ones than before, so the first word is as one that remembers nothing.
    say("not-wanted");
    equal(writes(p, ROW), all(ROW - 1) + "-", "nine have been needless before");
    say("not-wanted");
    equal(writes(p, 1), "h", "the second of two");
    equal(writes(p, 1), "-");
    say("none");
    equal(writes(p, ROW - 1), all(ROW - 1));
  });

  it("H-24, H-22: a responder that has forgotten what it has named says so, once, when something is missed", () => {
    const { hints, of, peer } = responder();
    const note = (scope: number) =>
      Object.assign(noteHint(hints, peer, { scope, region: scope, isNeeded: false }), {
        isRare: true,
        isNamed: true,
      });
    note(0);
    noteMiss(hints, of, [{ key: 7 } as TranslationTable]);
    equal(hints.missed.length, 0, "of which nothing was named");
    for (let scope = 1; scope <= SCOPES_MAX.peer; scope++) note(scope);
    noteMiss(hints, of, [{ key: 0 } as TranslationTable]);
    same(hints.missed.splice(0), [{ qp: of, scopes: [] }], "it may have been this one");
    equal(missedFor(hints, of, []).reason, "none");
    equal(missedFor(hints, of, []).reason, "none", "as its sender has forgotten all, too");
    equal(peer.scopes.values().some(({ isNamed }) => isNamed), false, "each can be named anew");
    noteMiss(hints, of, [{ key: 0 } as TranslationTable]);
    equal(hints.missed.length, 0);
    note(5);
    noteMiss(hints, of, [{ key: 5 } as TranslationTable]);
    const [missed] = hints.missed;
    note(6);
    const said = missedFor(hints, of, missed!.scopes);
    same([said.reason, said.groups[0]!.sourceQpn, said.groups[0]!.destQpn], ["not-wanted", 18, 17]);
    same(said.groups.map((group) => group.entries.map(({ rkey }) => rkey)), [[5]]);
  });

  it("H-24, H-22: nothing is said of what is forgotten and was not named", () => {
    const { hints, of, peer } = responder();
    for (let scope = 0; scope <= SCOPES_MAX.peer; scope++) {
      noteHint(hints, peer, { scope, region: scope, isNeeded: false });
    }
    noteMiss(hints, of, [{ key: 0 } as TranslationTable]);
    equal(hints.missed.length, 0);
  });

  it("H-22: a hint about what is named was needed, of which its sender may not hear: a later miss is said", () => {
    const { hints, of, peer } = responder();
    const note = (isNeeded: boolean) => noteHint(hints, peer, { scope: 5, region: 5, isNeeded });
    const named = note(false);
    named.isNamed = true;
    named.isRare = true;
    equal(note(true).isNamed, false);
    noteMiss(hints, of, [{ key: 5 } as TranslationTable]);
    same(hints.missed.splice(0), [{ qp: of, scopes: [5] }]);
    noteMiss(hints, of, [{ key: 5 } as TranslationTable]);
    equal(hints.missed.length, 0, "once");
  });

  it("H-08, H-22: by queue pair where a carrier has the hints, as it brings contexts, too", () => {
    const p = warm({ carrier: true, pageFault: "pause" });
    equal(writes(p, ROW), all(ROW));
    equal(writes(p.other, 1), "h", "its context may not be there");
    equal(writes(p.other, 2), "-h", "which it is, and all else has been for long");
    equal(writes(p, 2), "--");
  });

  it("H-08, H-22, [0113]: of UC's work, too, which a carrier of UC has the hints of", () => {
    const p = warm({ type: "uc", carrier: "uc", a: { transport: "carrier" } });
    equal(writes(p, ROW), all(ROW));
    equal(writes(p, 6), "-h---h");
    equal(writes(p.other, 1), "h");
    take(p, 1);
    // UC loses what meets a page that is not there, and hears nothing of it but by hints.
    equal(writes(p, 1, 1), "-");
    equal(writes(p, ROW), all(ROW));
    equal(counter(p, "a", "retransmissions"), 0);
  });

  it("H-21, H-22: a context that is not on the chip is a need where a carrier's hints bring it", () => {
    // The carrier's and the pair's queues, and two more, which put the pair's out.
    const queueCache = { entries: 8, evict: "oldest", amount: 1 } as const;
    for (const carrier of [true, false]) {
      const p = warm({ carrier, queueCache, a: { transport: carrier ? "carrier" : "own" } });
      const others = Array.from({ length: 8 }, () => ({
        ...p,
        ...p.rig.connect({ attributes: { accessFlags: EVERY_ACCESS, timeout: 9 } }),
      }));
      writes(p, 2 * ROW);
      const misses = counter(p, "b", "contextMisses");
      for (const each of others) writes(each, 1);
      equal(writes(p, 1), "-");
      ok(counter(p, "b", "contextMisses") > misses);
      equal(writes(p, 4), carrier ? "hhhh" : "----", `${carrier}`);
    }
  });

  it("H-21, H-22: SENDs whose receive buffers are there need none, until one is not", () => {
    const p = warm({ pageFault: "pause" });
    sends(p, 1);
    equal(sends(p, ROW), all(ROW));
    equal(sends(p, 6), "-h---h");
    take(p, 4);
    equal(sends(p, 1), "-");
    equal(sends(p, ROW), all(ROW));
  });

  it("H-21, H-22: a receive buffer that is brought in ahead of its SEND is a need", () => {
    const p = warm({ a: { follow: "delay", delayPs: 100_000_000 } });
    sends(p, 1);
    for (let round = 0; round < 3; round++) {
      equal(sends(p, ROW - 1), all(ROW - 1));
      take(p, 4);
      equal(sends(p, 1), "h");
    }
    equal(counter(p, "b", "rnrNaksOut"), 0);
    same(hintsOf(p, "b").filter(({ type }) => type !== "wanted"), []);
  });

  it("H-07, H-22: a hint that is due waits for a packet with room for it", () => {
    const p = warm({ a: { encoding: "header" } });
    let said = 0;
    // It is said once that they are needless: every second batch is announced from then on.
    p.rig.fate = (_, { bytes }) =>
      hintOf(packetOf(bytes))?.type === "prepared" && said++ > 0 ? "drop" : "pass";
    // Of each WRITE's packets the last one alone has room.
    for (let i = 0; i < 40; i++) post(p, "write", { length: 2 * PATH_MTU + 64 });
    go(p);
    ok(statuses(p).every((status) => status === "SUCCESS"));
    const probes = packets(p, "a").filter((packet) => detachHint(packet)?.message?.answer).length;
    ok(probes > 3, `${probes} hints`);
    const left = counter(p, "a", "hintBatchesPassedOver") - probes;
    ok(left === 0 || left === 1, `${left} more batches without a hint than with one`);
  });

  it("H-22: what is named has room in a packet, however much there is to be named", () => {
    for (const pathMtu of [256, 512, 1024, 2048, 4096]) {
      const { hints, of, peer } = responder();
      const own = { ...of, attributes: { ...of.attributes, pathMtu } } as QueuePair;
      const device = { queuePairs: new Map([[own.qpn, own]]) } as unknown as Device;
      const elements = Array.from({ length: 300 }, (_, i): HintElement => {
        const region = 0x100 + i;
        for (let k = 0; k < ROW; k++) {
          noteHint(hints, peer, { scope: region, region, isNeeded: false });
        }
        const ends = { destQpn: own.qpn, sourceQpn: 18 };
        const nothing = {
          pages: [],
          word: undefined,
          receiver: undefined,
          reason: "none" as const,
        };
        return { ends, entry: { ...ENTRY, rkey: region }, scope: region, ...nothing };
      });
      const bytes = (groups: HintMessage["groups"]) =>
        groups.reduce(
          (sum, { entries }) => sum + HINT_GROUP_BYTES + entries.length * HINT_ENTRY_BYTES,
          0,
        );
      for (let k = 0; k < ROW; k++) {
        const scope = -1 - own.qpn;
        noteHint(hints, peer, { scope, region: undefined, isNeeded: false });
      }
      const untagged = { ...elements[0]!, scope: -1 - own.qpn };
      const named = { by: own, requester: 9, elements: [...elements, untagged] };
      const needless = bytes(needlessOf(device, hints, named));
      ok(needless <= pathMtu && needless > pathMtu / 2, `${needless} B of ${pathMtu}`);
      // A peer is told of misses one by one, or, where they have no room, that all is needed again.
      const scopes = elements.map(({ scope }) => scope!);
      const waits = HINT_GROUP_BYTES + Object.keys(HINT_KINDS).length * HINT_ENTRY_BYTES;
      let most = 0;
      for (let count = 1; count < 300; count++) {
        const { reason, groups } = missedFor(hints, own, [-1 - own.qpn, ...scopes.slice(0, count)]);
        ok(waits + bytes(groups) <= pathMtu, `${count} of ${pathMtu}`);
        if (reason === "not-wanted") most = count;
        equal(groups.length, reason === "none" ? 0 : 2);
      }
      ok(waits + most * HINT_ENTRY_BYTES > pathMtu / 2, `${most} are named`);
    }
  });

  it("H-24: a peer has a say in queue pairs that are connected with it alone", () => {
    const p = warm();
    writes(p, 1);
    const own = packets(p, "b").find((packet) => packet.hintEth !== undefined)!;
    const entries = [{ ...ENTRY, rkey: p.to.key }];
    const say = (sourceQpn: number, destQpn: number) => {
      const message: HintMessage = {
        ...{ type: "prepared", kinds: 0, reason: "none", sequence: 99, answer: false },
        groups: [{ sourceQpn, destQpn, entries }],
      };
      const { hintEth, payload } = hintParts(message);
      inject(p, "a", changed(own, { hintEth, payload, bth: { padCount: -payload.length & 3 } }));
      p.rig.run();
    };
    for (const qpn of [0, 0xff_ffff, p.other.b.qpn]) {
      say(p.a.qpn, qpn);
      equal(writes(p, 1), "h", `${qpn}`);
    }
    say(p.a.qpn, p.b.qpn);
    equal(writes(p, 2), "-h");
  });
});
