/** Who does the work of hints (001_ [0114]): the card's part of it takes its time where it is done. */
import { deepEqual as same, equal, ok, throws } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Time } from "../../../fabric/base/time.ts";
import { HINT_PLAN, type HintPlan } from "../../../fabric/rack/plan/hint_plan.ts";
import {
  type HintWork,
  WORK_JOBS,
  WORK_PRESETS,
  workPs,
} from "../../../fabric/rack/plan/hint_work.ts";
import type { PcieMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import { type HintMessage, hintOf, hintParts } from "../../../fabric/wire/roce/hint.ts";
import { HINT_KINDS, type HintOperation } from "../../../fabric/wire/roce/hint_eth.ts";
import { OPCODE } from "../../../fabric/wire/roce/opcode.ts";
import { DemandDriver, type DemandOptions } from "../testing/demand_testing.ts";
import {
  changed,
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
import { createDevice } from "../device.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";
import { endHostWork } from "./do_work.ts";
import { asksAgain } from "./work.ts";

const PAGE = 4096, NS = 1000, US = 1_000_000;
/** Page requests in no time: what is left is the work. */
const AT_ONCE: HintWork = { request: "hardware" };

interface Told {
  readonly at: Time;
  readonly message: PcieMessage;
}

interface Bench extends Pair {
  readonly driver: DemandDriver;
  /** What the host of `b` was told, from the first hint on. */
  readonly told: Told[];
}

/** Two cards, of which `b` does the work so; its memory is on demand. */
function bench(
  work: HintWork,
  options: DemandOptions & { readonly hints?: Partial<HintPlan>; readonly a?: HintWork } = {},
): Bench {
  const { hints, a = {}, ...demand } = options;
  const plan = (its: HintWork) => ({ hints: { ...HINT_PLAN, work: its, ...hints } });
  const rig = new Rig({ plans: { a: plan(a), b: { ...plan(work), pageFault: "pause" } } });
  const from = rig.register(rig.a, { length: PAIR_BYTES, access: EVERY_ACCESS });
  const driver = new DemandDriver(rig, rig.b, demand);
  const to = driver.register({ length: PAIR_BYTES, access: EVERY_ACCESS });
  rig.fill(rig.a, from, (i) => i * 7 + (i >> 8));
  rig.fill(rig.b, to, () => 0xee);
  const ends = rig.connect({ attributes: { accessFlags: EVERY_ACCESS, timeout: 18 } });
  rig.run();
  const told: Told[] = [];
  const before = rig.b.host.hear;
  rig.b.host.hear = (message) => {
    told.push({ at: rig.now, message });
    before(message);
  };
  return { rig, ...ends, from, to, driver, told };
}

/** A hint of `a` about so many pages comes to `b`. @returns when it came. */
function announce(
  p: Pair,
  pages: number,
  how: {
    readonly first?: number;
    readonly answer?: boolean;
    readonly operation?: HintOperation;
    readonly kinds?: number;
    readonly rkey?: number;
    readonly ends?: { readonly sourceQpn: number; readonly destQpn: number };
  } = {},
): Time {
  const { first = 0, answer = false, operation = "write", kinds = HINT_KINDS.prefetch } = how;
  const { rkey = p.to.key } = how;
  const entries = Array.from({ length: pages }, (_, i) => ({
    kinds,
    operation,
    messages: 1,
    sequence: i,
    rkey,
    va: BigInt(p.to.va + (first + i) * PAGE),
    length: operation === "write" ? 64 : 8,
    objects: [],
  }));
  const { ends = { sourceQpn: p.a.qpn, destQpn: p.b.qpn } } = how;
  const group = { ...ends, entries };
  const about = { kinds, reason: "none", sequence: first + 1, answer } as const;
  const message: HintMessage = { type: "announce", ...about, groups: [group] };
  const own = packets(p, "a").findLast(({ hintEth }) => hintEth !== undefined)!;
  const { hintEth, payload } = hintParts(message);
  const bth = { opcode: OPCODE["VENDOR HINT"], padCount: -payload.length & 3 };
  inject(p, "b", changed(own, { hintEth, payload, bth }));
  return p.rig.now;
}

const isEvent = (type: string) => ({ message }: Told) =>
  message.kind === "event" && message.event.type === type;
const isFault = isEvent("PAGE_FAULT");
const prepare = (work: HintWork, elements: number) =>
  WORK_JOBS.prepare.reduce((sum, piece) => sum + workPs(work, piece, elements), 0);

/** What is put off leaves by the scheduling module, and not by the receiving one, which takes longer. */
function near(found: Time, expected: Time): void {
  ok(Math.abs(found - expected) <= 100 * NS, `${found} ps, not ${expected} ps`);
}

/** From a hint about so many pages to the page request for them, at the host. */
function asked(work: HintWork, pages: number): Time {
  const p = bench(work);
  const began = announce(p, pages);
  p.rig.run();
  return p.told.find(isFault)!.at - began;
}

describe("the work of a hint at the responder", () => {
  it("H-20: hardware and firmware take what the table says, for each element", () => {
    const none = asked(AT_ONCE, 3);
    for (const place of ["hardware", "firmware"] as const) {
      const work = { ...AT_ONCE, parse: place, check: place, decide: place };
      equal(asked(work, 3) - none, prepare(work, 3), place);
      ok(prepare(work, 3) > prepare(work, 1));
    }
  });

  it("H-20: hints that come at one instant are done in the order of their coming", () => {
    const place = "hardware" as const;
    const p = bench({ ...AT_ONCE, parse: place, check: place, decide: place });
    for (const first of [0, 2, 1, 3]) announce(p, 1, { first });
    p.rig.run();
    const pages = p.told.flatMap(({ message }) =>
      message.kind === "event" && message.event.type === "PAGE_FAULT" ? [message.event.first] : []
    );
    same(pages, [0, 2, 1, 3]);
  });

  it("H-20: the firmware is one processor: hints wait for each other, and commands for hints", () => {
    const place = "firmware" as const;
    const work = { ...AT_ONCE, parse: place, check: place, decide: place };
    // The driver's command for the first page comes behind all of them.
    const p = bench(work, { servicePs: 20 * US });
    for (let i = 0; i < 4; i++) announce(p, 1, { first: i });
    p.rig.run();
    const faults = p.told.filter(isFault).map(({ at }) => at);
    equal(faults.length, 4);
    const each = prepare(work, 1);
    // Hints that come at the same instant leave in the order and at the pace of the firmware.
    same(faults.slice(1).map((at, i) => at - faults[i]!), [each, each, each]);
    equal(counter(p, "b", "hintFirmwarePs"), 4 * each);
    equal(counter(p, "b", "hintFirmwareWaitPs"), (1 + 2 + 3) * each);
    const replied = (before: number) => {
      const q = bench(work, { works: false });
      for (let i = 0; i < before; i++) announce(q, 1, { first: i });
      const began = q.rig.now;
      q.rig.toRnic(q.rig.b, { kind: "command", id: 900, command: { op: "query-statistics" } });
      q.rig.run(() => q.rig.b.host.replies.has(900));
      return q.rig.now - began;
    };
    ok(replied(7) > replied(0), "the command is behind seven hints");
  });

  it("H-20, H-21: a core is told by an event, and asks for pages when it has answered, past the firmware", () => {
    const p = bench(WORK_PRESETS.driver, { servicePs: 7 * US });
    announce(p, 3);
    p.rig.run();
    const [work] = p.driver.works;
    same([work!.job, work!.elements, p.driver.works.length], ["prepare", 3, 1]);
    const [told, fault] = [p.told.find(isEvent("HINT_WORK"))!, p.told.find(isFault)!];
    const waited = fault.at - told.at;
    // The core, the command by the firmware and the bus, but not the 20 us of a page request.
    ok(waited > 8 * US && waited < 9 * US, `${waited} ps`);
    equal(counter(p, "b", "hintWorkEvents"), 1);
    const reply = p.rig.command(p.rig.b, { op: "hint-work", id: work!.id });
    ok(reply.status === "error" && reply.errno === "ENOENT", "it is done once");
  });

  it("H-20, H-21: what an access waits for is asked for at once by the core that has decided", () => {
    const late = (work: HintWork) => {
      const p = bench(work, { hints: { batch: 1 } });
      const began = p.rig.now;
      post(p, "write", { length: 64 });
      go(p);
      same(statuses(p), ["SUCCESS"]);
      const { time } = p.rig.frames.findLast(({ bytes }) => packetOf(bytes).aeth !== undefined)!;
      return time - began;
    };
    // The rig's firmware takes 20 us for a page, and the core is there before it.
    ok(late(WORK_PRESETS.driver) < late({}) - 10 * US);
  });

  it("H-20, H-24: what a core has asked for once for hints is not asked for again, however many name it", () => {
    const p = bench(WORK_PRESETS.driver, { servicePs: 100 * US });
    for (let i = 0; i < 5; i++) announce(p, 3);
    p.rig.run();
    equal(p.driver.works.length, 5);
    equal(p.told.filter(isFault).length, 1);
    equal(counter(p, "b", "hintPagesAsked"), 3);
  });

  it("H-20, H-24: a page that a request has asked for stays asked for by it, though a core asks for it, too", () => {
    const p = bench(WORK_PRESETS.driver, { servicePs: 200 * US, works: false });
    p.rig.leavesRequests = true;
    const later = {
      ...p,
      ...p.rig.connect({ attributes: { accessFlags: EVERY_ACCESS, timeout: 18 } }),
    };
    const askedFor = () =>
      p.told.flatMap(({ message }) =>
        message.kind === "event" && message.event.type === "PAGE_FAULT"
          ? [message.event.hintsOf === undefined ? "request" : "hint"]
          : []
      );
    post(p, "write", { length: 64 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => p.driver.works.length === 1 && counter(p, "b", "pagesAsked") === 1);
    p.rig.command(p.rig.b, { op: "hint-work", id: p.driver.works[0]!.id });
    p.rig.run(() => askedFor().length === 2);
    same(askedFor(), ["hint", "request"], "the core is there before the firmware");
    post(later, "write", { length: 64 });
    go(later);
    same([statuses(p), statuses(later)], [["SUCCESS"], ["SUCCESS"]]);
    equal(askedFor().filter((by) => by === "request").length, 1);
  });

  it("H-20: a hint whose queue pair has begun anew meanwhile is none", () => {
    const p = bench(WORK_PRESETS.driver, { works: false });
    p.rig.leavesRequests = true;
    announce(p, 2);
    p.rig.run();
    p.rig.modify(p.rig.b, p.b, { state: "reset" });
    p.rig.bringUp(p.rig.b, p.b, { qpn: p.a.qpn, attributes: { accessFlags: EVERY_ACCESS } });
    p.rig.run();
    const { id } = p.driver.works[0]!;
    equal(p.rig.command(p.rig.b, { op: "hint-work", id }).status, "ok");
    p.rig.run();
    equal(counter(p, "b", "hintPagesAsked"), 0);
  });

  it("H-20: a core has decided on the work that it was told of, and on nothing behind it", () => {
    const work = WORK_PRESETS.driver;
    const device = createDevice("b", rnicPlan("b", { hints: { ...HINT_PLAN, work } }), { seed: 1 });
    const { hints } = device, its = hints!.work!;
    const due = { at: 0, job: undefined, rest: [], elements: 1 } as const;
    its.atHost.set(3, { ...due, item: { kind: "receive" } });
    same([endHostWork(device, 4), its.atHost.size], [false, 1]);
    same([endHostWork(device, 3), its.atHost.size], [true, 0]);
    equal(asksAgain(hints!), false);
  });

  it("H-20: a hint whose queue pair has failed meanwhile is none", () => {
    const p = bench(WORK_PRESETS.driver, { works: false });
    p.rig.leavesRequests = true;
    announce(p, 2);
    p.rig.run();
    p.rig.modify(p.rig.b, p.b, { state: "err" });
    p.rig.run();
    const { id } = p.driver.works[0]!;
    equal(p.rig.command(p.rig.b, { op: "hint-work", id }).status, "ok");
    p.rig.run();
    equal(counter(p, "b", "hintsIn"), 0);
  });

  it("H-24: hints of one requester wait in so many places at most: the others are lost", () => {
    const p = bench(WORK_PRESETS.driver, { works: false });
    p.rig.leavesRequests = true;
    for (let i = 0; i < 70; i++) announce(p, 1);
    p.rig.run();
    equal(p.driver.works.length, 64);
    equal(counter(p, "b", "hintsOverrun"), 6);
  });

  it("H-22: no answer waits for a page whose region is gone", () => {
    const p = bench({}, { servicePs: 100 * US });
    announce(p, 1, { answer: true });
    const { host } = p.rig.b, { hear } = host;
    // The driver never comes to that page.
    host.hear = (message) => {
      if (message.kind !== "event") hear(message);
    };
    p.rig.runFor(30 * US);
    const answers = () =>
      packets(p, "b").flatMap((packet) => {
        const message = hintOf(packet);
        return message?.type === "prepared" || message?.type === "refused" ? [message.reason] : [];
      });
    same(answers(), []);
    equal(p.rig.command(p.rig.b, { op: "deregister-mr", key: p.to.key }).status, "ok");
    p.rig.run();
    same(answers(), ["error"]);
  });

  it("H-22: the answer leaves when it has been made", () => {
    const answered = (work: HintWork) => {
      const p = bench(work);
      announce(p, 2);
      p.rig.run();
      const began = announce(p, 2, { answer: true });
      p.rig.run();
      const { from, time, bytes } = p.rig.frames.at(-1)!;
      same([from, hintOf(packetOf(bytes))?.type], ["b", "prepared"]);
      return time - began;
    };
    const late = answered({ answer: "firmware" }) - answered({});
    const ps = workPs({ answer: "firmware" }, "answer", 2);
    near(late, ps);
    ok(answered({ answer: "driver" }) > answered({ answer: "firmware" }) + US);
  });

  it("H-21: words of atomics are read when the firmware has come to them", () => {
    const read = (work: HintWork) => {
      const p = bench(work, { hints: { kinds: HINT_KINDS.atomic | HINT_KINDS.prefetch } });
      announce(p, 1);
      p.rig.run();
      const how = { operation: "fetch-add", kinds: HINT_KINDS.atomic } as const;
      const began = announce(p, 1, how);
      p.rig.run();
      equal(counter(p, "b", "hintWordsRead"), 1);
      return p.told.find(({ message }) => message.kind === "memory-read" && message.tracked)!.at -
        began;
    };
    near(read({ atomic: "firmware" }) - read({}), workPs({ atomic: "firmware" }, "atomic", 1));
  });

  it("H-24: answers and receives of one requester keep the firmware from the driver's commands for so long at most", () => {
    const late = (work: HintWork, count: number, how: Parameters<typeof announce>[2]) => {
      const p = bench({ ...AT_ONCE, ...work });
      for (let i = 0; i < count; i++) announce(p, 4, how);
      const began = p.rig.now;
      p.rig.toRnic(p.rig.b, { kind: "command", id: 900, command: { op: "query-statistics" } });
      p.rig.run(() => p.rig.b.host.replies.has(900));
      return p.rig.now - began;
    };
    const answer = { answer: "firmware" } as const, receive = { receive: "firmware" } as const;
    const asked = { answer: true, kinds: HINT_KINDS.warmUp };
    const sends = { operation: "send", kinds: HINT_KINDS.receive } as const;
    near(late(answer, 300, asked), late(answer, 64, asked));
    near(late(receive, 300, sends), late(receive, 64, sends));
  });

  it("H-21: receives are looked at when the firmware has come to them", () => {
    const took = (work: HintWork) => {
      const p = bench({ ...AT_ONCE, ...work });
      const sge = { address: p.to.va, length: 128, lkey: p.to.key };
      p.rig.recv(p.rig.b, p.b, [sge], "pointer");
      p.rig.run();
      const began = announce(p, 1, { operation: "send", kinds: HINT_KINDS.receive });
      p.rig.run();
      equal(counter(p, "b", "hintReceives"), 1);
      return p.told.find(isFault)!.at - began;
    };
    const late = took({ receive: "firmware" }) - took({});
    near(late, workPs({ receive: "firmware" }, "receive", 1));
  });

  /** A carrier of `b` hears of a queue pair whose context others have put out of the cache. */
  function coldContext(work: HintWork, given: Partial<HintPlan> = {}) {
    const plan = { hints: { ...HINT_PLAN, kinds: HINT_KINDS.warmUp, work, ...given } };
    const queueCache = { entries: 12, evict: "oldest", amount: 1 } as const;
    const rig = new Rig({ plans: { a: plan, b: { ...plan, queueCache } } });
    const to = rig.register(rig.b, { length: PAIR_BYTES, access: EVERY_ACCESS });
    const attributes = { accessFlags: EVERY_ACCESS };
    const [first] = Array.from({ length: 8 }, () => rig.connect({ attributes }));
    const by = rig.connect({ hints: "carrier", attributes });
    rig.run();
    const readAt: Time[] = [];
    rig.b.host.hear = ({ kind }) => {
      if (kind === "memory-read") readAt.push(rig.now);
    };
    const p = { rig, ...by, from: to, to };
    const ends = { sourceQpn: first!.a.qpn, destQpn: first!.b.qpn };
    const hint = (elements = 1, how: Parameters<typeof announce>[2] = {}) =>
      announce(p, elements, { kinds: HINT_KINDS.warmUp, ends, ...how });
    return { p, hint, readAt, of: first!.b };
  }

  it("H-21: contexts are read when the firmware has come to them", () => {
    const read = (work: HintWork) => {
      const { p, hint, readAt } = coldContext(work);
      const began = hint();
      p.rig.run();
      equal(counter(p, "b", "hintContextsFetched"), 1);
      return readAt[0]! - began;
    };
    near(read({ context: "firmware" }) - read({}), workPs({ context: "firmware" }, "context", 1));
  });

  it("H-21: and none of a queue pair that takes no requests", () => {
    const { p, hint, of } = coldContext({});
    p.rig.modify(p.rig.b, of, { state: "err" });
    hint();
    p.rig.run();
    const counted = ["hintContextsFetched", "hintsUnknownQp"].map((name) => counter(p, "b", name));
    same(counted, [0, 1]);
  });

  it("H-22: of an element that fails in several ways the first one is told", () => {
    const { p, hint } = coldContext({}, { quota: 0 });
    hint(1, { answer: true, rkey: p.to.key + 1 });
    p.rig.run();
    const reasons = packets(p, "b").flatMap((packet) => {
      const message = hintOf(packet);
      return message?.type === "refused" ? [message.reason] : [];
    });
    same(reasons, ["quota"]);
    equal(counter(p, "b", "hintsNoAccess"), 1);
  });

  it("H-21: and once, though several elements name them before the firmware has come to it", () => {
    const reads = [1, 3].map((elements) => {
      const { p, hint, readAt } = coldContext({ context: "firmware" });
      hint(elements);
      p.rig.run();
      equal(counter(p, "b", "hintContextsFetched"), 1);
      return readAt.length;
    });
    equal(reads[1], reads[0]);
  });

  it("H-21: and none of a queue pair that has gone while the chip was at it", () => {
    let gone = 0;
    for (let behindPs = 80 * NS; behindPs <= 200 * NS; behindPs += 5 * NS) {
      const { p, hint, readAt, of: { qpn } } = coldContext({ context: "hardware" });
      const command = { op: "destroy-qp", qpn } as const;
      p.rig.toRnic(p.rig.b, { kind: "command", id: 900, command });
      p.rig.runFor(behindPs);
      hint();
      p.rig.run(() => p.rig.b.host.replies.has(900));
      const before = readAt.length;
      p.rig.run();
      equal(readAt.length, before, `${behindPs} ps behind the command`);
      if (before === 0) gone += counter(p, "b", "hintContextsFetched");
    }
    ok(gone > 0, "one has gone meanwhile");
  });

  it("H-21: by PRI pages come without the driver, and are where the IOMMU says", () => {
    const p = bench(WORK_PRESETS.iommu);
    announce(p, 3);
    p.rig.run();
    same(p.told.flatMap(({ message }) => message.kind === "ats" ? [message.step] : []), [
      "page-request",
      "translate",
    ]);
    equal(p.told.filter(isFault).length, 0);
    for (let i = 0; i < 3; i++) post(p, "write", { at: i * PAGE, length: 64 });
    go(p);
    same(statuses(p), ["SUCCESS", "SUCCESS", "SUCCESS"]);
    equal(counter(p, "b", "hintPagesUseful"), 3);
    equal(counter(p, "b", "pagesMapped"), 3);
    equal(
      p.rig.bytes(p.rig.b, p.to, PAGE, 64).toHex(),
      p.rig.bytes(p.rig.a, p.from, PAGE, 64).toHex(),
    );
  });

  it("H-21: a page that was taken back before it was translated is asked for anew", () => {
    const p = bench(WORK_PRESETS.iommu);
    let taken = false;
    const before = p.rig.b.host.hear;
    p.rig.b.host.hear = (message) => {
      if (message.kind === "ats" && message.step === "translate" && !taken) {
        taken = true;
        p.driver.take(p.to.key, 0, 1);
      }
      before(message);
    };
    post(p, "write", { length: 64 });
    go(p);
    ok(taken);
    same(statuses(p), ["SUCCESS"]);
    const requests = p.told.flatMap(({ message }) =>
      message.kind === "ats" && message.step === "page-request" ? [message.hintsOf] : []
    );
    // The hint's gives way to others; so the request right behind it asks as if there were none.
    const address = packets(p, "a")[0]!.sourceAddress;
    same(requests, [address, undefined, undefined, undefined]);
  });
});

describe("the work of a hint at the requester", () => {
  const lead = (a: HintWork, follow: Partial<HintPlan> = {}) => {
    const p = bench({}, { a, hints: { batch: 1, ...follow } });
    const driver = new DemandDriver(p.rig, p.rig.a, { works: false });
    let hint = 0, write = 0;
    p.rig.watch = (side, kind, bytes) => {
      if (side !== "a" || kind !== "sent") return;
      const packet = packetOf(bytes);
      if (hintOf(packet)?.type === "announce") hint = p.rig.now;
      else if (packet.reth !== undefined) write ||= p.rig.now;
    };
    const began = p.rig.now;
    post(p, "write", { length: 64 });
    // A core takes its time: its request waits.
    if (Object.values(a).includes("driver")) p.rig.leavesRequests = true;
    go(p);
    p.rig.leavesRequests = false;
    const isHeld = hint === 0 && write === 0;
    for (const { id } of driver.works) p.rig.command(p.rig.a, { op: "hint-work", id });
    p.rig.run();
    same(statuses(p), ["SUCCESS"]);
    const works = driver.works.map(({ job, elements }) => `${job} ${elements}`);
    return { ps: hint - write, write: write - began, isHeld, works };
  };

  it("H-02, H-03, H-06, H-09: a request follows its hint, however long firmware or a core makes it", () => {
    const core = { look: "driver", build: "driver", send: "driver" } as const;
    const places = [{}, WORK_PRESETS.firmware, WORK_PRESETS.hardware, core];
    const [now, firmware, hardware, driver] = places.map((work) => lead(work));
    for (const { ps } of [now!, firmware!, hardware!, driver!]) {
      ok(ps < 0 && ps > -2 * US, `directly behind it: ${ps} ps`);
    }
    for (const [place, made] of [["firmware", firmware!], ["hardware", hardware!]] as const) {
      const costs = WORK_JOBS.announce.map((each) => workPs(WORK_PRESETS[place], each, 1));
      near(made.write - now!.write, costs.reduce((sum, ps) => sum + ps, 0));
    }
    same([now!.isHeld, firmware!.isHeld, driver!.isHeld], [false, false, true]);
    same([now!.works, firmware!.works, driver!.works], [[], [], ["announce 1"]]);
  });

  it("H-06: a wait behind a hint begins when that leaves", () => {
    const waits = ([{}, WORK_PRESETS.firmware] as const).map((work) =>
      lead(work, { follow: "delay", delayPs: 30 * US }).ps
    );
    ok(-waits[0]! >= 30 * US, `${waits[0]} ps`);
    near(waits[1]!, waits[0]!);
  });

  it("H-06: work of which no hint leaves any more, as its queue pair is in error, is not held", () => {
    const p = bench({}, { a: WORK_PRESETS.firmware, hints: { batch: 1 } });
    post(p, "write", { length: 64 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(US);
    p.rig.modify(p.rig.a, p.a, { state: "err" });
    p.rig.run();
    same(statuses(p), ["WR_FLUSH_ERR"]);
  });

  it("H-06: no hint leaves of a life of its queue pair that is over, as a core comes to it", () => {
    const p = bench({}, { a: { build: "driver" }, hints: { batch: 1 } });
    p.rig.leavesRequests = true;
    const events = () =>
      p.rig.a.host.events.flatMap((event) => event.type === "HINT_WORK" ? [event.id] : []);
    post(p, "write", { length: 64 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => events().length > 0);
    p.rig.modify(p.rig.a, p.a, { state: "reset" });
    p.rig.bringUp(p.rig.a, p.a, { qpn: p.b.qpn, attributes: { accessFlags: EVERY_ACCESS } });
    equal(p.rig.command(p.rig.a, { op: "hint-work", id: events()[0]! }).status, "ok");
    p.rig.run();
    const announced = packets(p, "a").filter((packet) => hintOf(packet)?.type === "announce");
    equal(announced.length, 0);
  });

  it("H-07, H-09: no firmware makes a hint that is in another packet", () => {
    const { rig } = bench({}, { a: WORK_PRESETS.firmware });
    for (const hintEncoding of ["header", "payload"] as const) {
      throws(() => rig.createQp(rig.a, { hintEncoding }), /is made as that is/);
      rig.createQp(rig.b, { hintEncoding });
    }
  });

  it("H-06: a request that waits for the answer leaves behind it, in whatever place the hint is made", () => {
    const { ps } = lead(WORK_PRESETS.firmware, { follow: "after-ack" });
    ok(ps < -US, `${ps} ps`);
  });
});
