import { deepEqual as same, equal, match, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import type { PageFaultRule, RnicTiming } from "../../../fabric/rack/plan/plan.ts";
import type { MemoryWrite, PcieMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { DemandDriver } from "../testing/demand_testing.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { ask } from "../testing/space2_testing.ts";
import { connectUc } from "../testing/unreliable_testing.ts";
import {
  answerAt,
  counter,
  EVERY_ACCESS,
  go,
  names,
  type Pair,
  pair,
  PAIR_BYTES,
  post,
  recvs,
  setWord,
  statuses,
  word,
} from "../testing/pair_testing.ts";

const MTU = 1024;

type Asked = ReturnType<typeof ask>;

/** A pair of which one side's memory is on demand. */
function coldPair(
  side: "a" | "b",
  options: { readonly pageFault?: PageFaultRule; readonly entries?: number } & Partial<RnicTiming> =
    {},
): Pair & { readonly driver: DemandDriver } {
  const { pageFault = "drop", entries = 2 ** 20, ...more } = options;
  const timing = { ...rnicPlan("a").timing, ...more };
  const plan = { pageFault, timing, translations: { entries, evict: "lru" } } as const;
  const p = pair({ plans: { a: plan, b: plan } });
  const driver = new DemandDriver(p.rig, p.rig[side], {});
  const cold = driver.register({ length: PAIR_BYTES, access: EVERY_ACCESS });
  p.rig.fill(p.rig[side], cold, side === "a" ? (i) => i * 7 + (i >> 8) : () => 0xee);
  return side === "a" ? { ...p, from: cold, driver } : { ...p, to: cold, driver };
}

/** Target memory is what the source has, over `length` bytes at `at`. */
function isCopied(p: Pair, at: number, length: number): boolean {
  const { rig, from, to } = p;
  return rig.bytes(rig.b, to, at, length).toHex() === rig.bytes(rig.a, from, at, length).toHex();
}

describe("a page of the responder that is not there", () => {
  const cases: readonly {
    readonly rule: PageFaultRule;
    readonly verb: "write" | "read" | "send" | "fetch-add";
    readonly rnr: boolean;
    readonly drop: boolean;
    readonly pause: boolean;
  }[] = (["drop", "rnr", "pause"] as const).flatMap((rule) =>
    (["write", "read", "send", "fetch-add"] as const).map((verb) => ({
      rule,
      verb,
      rnr: rule === "rnr" || (rule === "drop" && verb === "send"),
      drop: rule === "drop" && verb !== "send",
      pause: rule === "pause",
    }))
  );
  for (const { rule, verb, rnr, drop, pause } of cases) {
    it(`fault: ${rule}: a ${verb} is done when the page is there, asked for once`, () => {
      const p = coldPair("b", { pageFault: rule });
      setWord(p, 0, 40n);
      if (verb === "send") recvs(p, 1, { length: 4096 });
      if (verb === "fetch-add") {
        post(p, "fetch-add", { length: 8, atomic: { swapAdd: 2n, compare: 0n } });
      } else {
        post(p, verb, { length: 3 * MTU });
      }
      go(p);
      same(statuses(p), ["SUCCESS"]);
      equal(counter(p, "b", "pageFaults"), 1);
      equal(p.driver.faults, 1);
      equal(counter(p, "b", "pageFaultRnrNaks") > 0, rnr);
      equal(counter(p, "b", "rnrNaksOut") > 0, rnr);
      equal(counter(p, "b", "pageFaultDrops") > 0, drop);
      equal(counter(p, "b", "pageFaultPauses") > 0, pause);
      // The firmware's part and the host's: no access waits less.
      ok(counter(p, "b", "pageStallPs") >= 21_000_000, "the stall is counted");
      if (verb === "fetch-add") same([word(p, 0), answerAt(p, 0)], [42n, 40n]);
      else if (verb !== "send") ok(isCopied(p, 0, 3 * MTU));
      if (drop && verb === "write") {
        // Nothing but the NAK that asks for the packet when its page is there.
        same([...new Set(names(p, "b"))], ["RC ACKNOWLEDGE"]);
        equal(counter(p, "b", "naksOut"), 1);
        equal(counter(p, "a", "timeouts"), 0);
      }
    });
  }

  it("the rest of a message is asked for with its first page", () => {
    const p = coldPair("b");
    post(p, "write", { length: 5 * 4096 });
    go(p);
    same(statuses(p), ["SUCCESS"]);
    ok(isCopied(p, 0, 5 * 4096));
    const asked = p.rig.b.host.events.filter(({ type }) => type === "PAGE_FAULT");
    same(asked.map((event) => "ahead" in event && [event.first, event.count, event.ahead]), [
      [0, 1, 4],
    ]);
    equal(counter(p, "b", "pagesMapped"), 5);
  });

  it("a page that was asked for is not asked for again with the rest of another message", () => {
    const p = coldPair("b", { pageFault: "pause" });
    const { rig } = p;
    const other = rig.connect({ attributes: { accessFlags: EVERY_ACCESS } });
    const sges = [{ address: p.from.va, length: 8, lkey: p.from.key }];
    const remote = { va: BigInt(p.to.va + 2 * 4096), rkey: p.to.key };
    rig.send(rig.a, other.a, { opcode: "write", sges, remote });
    rig.runFor(3 * PS_PER_US);
    post(p, "write", { length: 4 * 4096 });
    go(p);
    same(statuses(p), ["SUCCESS"]);
    const asked = rig.b.host.events.filter(({ type }) => type === "PAGE_FAULT");
    const spans = asked.map((one) => "ahead" in one && [one.first, one.count, one.ahead]);
    same(spans.slice(0, 2), [[2, 1, 0], [0, 1, 3]], "a range, of which a page is on its way");
    equal(counter(p, "b", "pagesAsked"), 4);
  });

  it("the rest of a SEND is all of its receive's memory, by a range of each table", () => {
    const p = coldPair("b", { pageFault: "pause" });
    const { rig, to, driver } = p;
    const other = driver.register({ length: 3 * 4096, va: 0x9_0000_0000, access: EVERY_ACCESS });
    const sges = [
      { address: to.va + 4096, length: 2 * 4096 + 8, lkey: to.key },
      { address: other.va + 4096, length: 4097, lkey: other.key },
      { address: to.va + 3 * 4096 + 8, length: 4096, lkey: to.key },
    ];
    rig.recv(rig.b, p.b, sges);
    post(p, "send", { length: 3 * MTU });
    go(p);
    same(statuses(p), ["SUCCESS"]);
    const spans = rig.b.host.events.flatMap((event) =>
      event.type === "PAGE_FAULT" ? [[event.key, event.first, event.count, event.ahead]] : []
    );
    same(spans, [[to.key, 1, 1, 2], [other.key, 1, 0, 2], [to.key, 4, 0, 1]]);
    equal(counter(p, "b", "pagesAsked"), 6);
  });

  it("an access asks for 1024 pages ahead at most", () => {
    const p = pair({ memoryBytes: 1 << 24 });
    const { rig, from } = p;
    const driver = new DemandDriver(rig, rig.b, {});
    const length = 1027 * 4096;
    const cold = driver.register({ length, va: 0x7_0000_0000, access: EVERY_ACCESS });
    const sges = [{ address: cold.va, length, lkey: cold.key }];
    const remote = { va: BigInt(from.va), rkey: from.key };
    rig.send(rig.b, p.b, { opcode: "write", sges, remote });
    rig.runFor(30 * PS_PER_US);
    const [asked] = rig.b.host.events;
    same(asked?.type === "PAGE_FAULT" && [asked.first, asked.count, asked.ahead], [0, 1, 1024]);
  });

  it("and of all elements of its message's memory together", () => {
    const p = pair({ memoryBytes: 1 << 24 });
    const { rig, from } = p;
    const driver = new DemandDriver(rig, rig.b, {});
    const half = 650 * 4096;
    const { va, key: lkey } = driver.register({ length: 2 * half, va: 0x7_0000_0000 });
    const sges = [0, half].map((at) => ({ address: va + at, length: half, lkey }));
    const remote = { va: BigInt(from.va), rkey: from.key };
    rig.send(rig.b, p.b, { opcode: "write", sges, remote });
    rig.run(() => counter(p, "b", "pagesAsked") > 0);
    equal(counter(p, "b", "pagesAsked"), 1 + 1024);
  });

  it("faults of the same page are one request, whatever asks", () => {
    const p = coldPair("b", { pageFault: "rnr" });
    for (let at = 0; at < 4; at++) post(p, "write", { at: at * 64, length: 64 });
    go(p);
    same(statuses(p), new Array(4).fill("SUCCESS"));
    equal(p.driver.faults, 1);
    const naks = counter(p, "b", "pageFaultRnrNaks");
    ok(naks > 1, "retries came before the page");
    equal(counter(p, "b", "pageFaultsMerged"), naks - 1);
  });

  it("a page that was mapped for reading is asked for again to be written", () => {
    const p = coldPair("b");
    const { rig, to } = p;
    const frame = to.address - to.va % 4096;
    const range = { key: to.key, first: 0, pages: [frame], writable: false };
    equal(rig.command(rig.b, { op: "map-pages", ...range }).status, "ok");
    post(p, "read", { length: 64 });
    go(p);
    equal(p.driver.faults, 0);
    post(p, "write", { length: 64 });
    go(p);
    same(statuses(p), ["SUCCESS", "SUCCESS"]);
    equal(p.driver.faults, 1);
  });

  it("Q-04: a page that holds queue information is not mapped, nor what is mapped with it", () => {
    const p = coldPair("b");
    const { rig, to: { key } } = p;
    const { space1 } = rig.b.host.spaces;
    const page = space1 - space1 % 4096;
    const map = (pages: number[]) =>
      rig.command(rig.b, { op: "map-pages", key, first: 0, pages, writable: true });
    const refused = map([2 ** 30, page]);
    ok(refused.status === "error" && refused.errno === "EINVAL");
    match(refused.reason, /Cannot map pages of region .* holds queue information/);
    equal(counter(p, "b", "pagesMapped"), 0);
    post(p, "write", { length: 8 });
    go(p);
    same([statuses(p), p.driver.faults], [["SUCCESS"], 1]);
  });

  it("what was asked for and is refused may be asked for again", () => {
    const p = coldPair("b", { pageFault: "pause" });
    const { rig, to: { key, va } } = p;
    const { space1 } = rig.b.host.spaces;
    post(p, "write", { length: 3 * 4096 });
    rig.ring(rig.a, p.a.sq);
    rig.runFor(5 * PS_PER_US);
    equal(counter(p, "b", "pagesAsked"), 3);
    const pages = [space1 - space1 % 4096, 2 ** 30];
    const refused = rig.command(rig.b, { op: "map-pages", key, first: 1, pages, writable: true });
    equal(refused.status, "error");
    const other = rig.connect({ attributes: { accessFlags: EVERY_ACCESS } });
    // Of both pages of the command, of which one alone may not be mapped.
    const remote = { va: BigInt(va + 2 * 4096 - 4), rkey: key };
    rig.send(rig.a, other.a, { opcode: "write", inline: new Uint8Array(8), remote });
    rig.runFor(3 * PS_PER_US);
    equal(counter(p, "b", "pagesAsked"), 5);
    go(p);
    same(statuses(p), ["SUCCESS"]);
  });

  it("UC: what comes for it is lost, and what comes when it is there is not", () => {
    const cold = coldPair("b");
    const { rig, to } = cold;
    const p = { ...cold, ...connectUc(rig, { pathMtu: MTU }) };
    post(p, "write", { length: 2 * MTU });
    recvs(p, 1);
    post(p, "send", { length: 64 });
    go(p);
    equal(rig.b.rnic.statistics()["drop-page-fault"], 2);
    equal(rig.bytes(rig.b, to, 0, 1)[0], 0xee, "nothing of it is there");
    post(p, "write", { length: 2 * MTU });
    post(p, "send", { length: 64 });
    go(p);
    same(statuses(p), new Array(4).fill("SUCCESS"));
    ok(isCopied(p, 0, 2 * MTU));
    const recv = rig.poll(rig.b, p.b.recvCq);
    same(recv.map(({ status, byteCount }) => [status, byteCount]), [["SUCCESS", 64]]);
  });

  it("a region that goes while its page is asked for fails the request as a late one", () => {
    const p = coldPair("b", { pageFault: "pause" });
    post(p, "write", { length: 64 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(5_000_000);
    equal(counter(p, "b", "pageFaultPauses"), 1);
    p.rig.command(p.rig.b, { op: "deregister-mr", key: p.to.key });
    p.rig.run();
    same(statuses(p), ["REM_ACCESS_ERR"]);
    equal(p.driver.faults, 0);
  });
});

describe("a page of the requester that is not there", () => {
  it("payload is fetched when it is there; nothing leaves before", () => {
    const p = coldPair("a");
    post(p, "write", { length: 2 * 4096 });
    go(p);
    same(statuses(p), ["SUCCESS"]);
    ok(isCopied(p, 0, 2 * 4096));
    equal(counter(p, "a", "retransmissions"), 0);
    equal(p.driver.faults, 1);
    ok(counter(p, "a", "pageStallPs") >= 21_000_000);
  });

  it("no time-out counts while a response waits for its page, however long the host takes", () => {
    for (const pageFault of ["drop", "pause"] as const) {
      const plan = { pageFault, translations: { entries: 2 ** 20, evict: "lru" } } as const;
      const p = pair({ plans: { a: plan, b: plan } }, { attributes: { timeout: 9, retryCnt: 1 } });
      const { rig } = p;
      // 2.1 ms to a time-out, of which two would be one too many.
      const driver = new DemandDriver(rig, rig.a, { servicePs: 20_000 * PS_PER_US });
      const cold = driver.register({ length: PAIR_BYTES, access: EVERY_ACCESS });
      post({ ...p, from: cold }, "read", { length: 64 });
      go(p);
      same(statuses(p), ["SUCCESS"], pageFault);
      equal(counter(p, "a", "timeouts"), 0);
      ok(rig.now > 20_000 * PS_PER_US, "it has waited");
    }
  });

  for (const rule of ["drop", "pause"] as const) {
    it(`fault: ${rule}: responses of a READ are ${rule}ped or kept, and none is lost`, () => {
      const p = coldPair("a", { pageFault: rule });
      post(p, "read", { length: 6 * MTU });
      post(p, "write", { at: 8192, length: 64 });
      go(p);
      same(statuses(p), ["SUCCESS", "SUCCESS"]);
      ok(isCopied(p, 0, 6 * MTU));
      equal(counter(p, "a", "pageFaultResponses") > 0, rule === "drop");
      equal(counter(p, "a", "timeouts"), 0);
    });
  }
});

describe("the cache of translations", () => {
  const ENTRIES = 128, PAGE = 4096;

  /** How long the responder's card needs for a WRITE to each of so many pages, in turn, ns each. */
  function nsPerWrite(pages: number, evict: "lru" | "fifo" = "lru"): number {
    const translations = { entries: ENTRIES, evict } as const;
    const p = pair({ plans: { b: { translations } }, memoryBytes: 1 << 23 });
    const { rig } = p;
    const to = rig.register(rig.b, { length: pages * PAGE, va: 0x7_0000_0000 });
    const rounds = 2;
    const before = rig.now;
    // Each access is to another line than the one before.
    const lines = pages / 8;
    for (let i = 0; i < rounds * pages; i++) {
      const page = (i % lines) * 8 + Math.floor(i / lines) % 8;
      const remote = { va: BigInt(to.va + page * PAGE), rkey: to.key };
      const inline = new Uint8Array(64).fill(page + 1);
      const signaled = i % 16 === 15;
      rig.enqueueSend(rig.a, p.a, { opcode: "write", inline, remote, signaled });
      if (!signaled) continue;
      rig.ring(rig.a, p.a.sq);
      rig.run();
      same(statuses(p), ["SUCCESS"]);
    }
    // The last byte of each page's line is what was written there, wherever its translation was.
    for (let page = 0; page < pages; page++) {
      equal(rig.b.host.memory[to.address + page * PAGE + 63], (page + 1) & 0xff);
    }
    const misses = counter(p, "b", "translationMisses");
    equal(misses > 0, pages * PAGE + PAIR_BYTES > ENTRIES * PAGE);
    equal(misses > 0, counter(p, "b", "translationEvictions") > 0);
    return (rig.now - before) / (rounds * pages) / 1000;
  }

  it("throughput against registered memory has a cliff where translations do not fit any more", () => {
    // 8 pages are the pair's own. Beyond, each access misses.
    const [small, full, beyond, far] = [64, 112, 256, 1024].map((pages) => nsPerWrite(pages));
    ok(Math.abs(small! - full!) < 2, `flat as long as all fit: ${small} and ${full} ns`);
    ok(beyond! > full! + 50, `a miss costs a read of host memory: ${beyond} against ${full} ns`);
    ok(Math.abs(far! - beyond!) < 5, `flat again when all miss: ${far} and ${beyond} ns`);
  });

  it("entries in host memory are 8 B: the page with its rights in the lowest bits, 0 where it is not there", () => {
    const p = coldPair("b", { entries: 8 });
    const { rig, to: { key, address, va } } = p;
    const frame = BigInt(address - va % PAGE);
    const entries = () => {
      const { data } = rig.b.host.log.findLast(({ kind }) =>
        kind === "memory-write"
      ) as MemoryWrite;
      const view = new DataView(data.buffer, data.byteOffset, data.length);
      return Array.from({ length: data.length / 8 }, (_, i) => view.getBigUint64(8 * i));
    };
    // Of a region that was registered now.
    same(entries(), new Array(8).fill(0n));
    const first = { op: "map-pages", key, first: 0, pages: [Number(frame)] } as const;
    equal(rig.command(rig.b, { ...first, writable: false }).status, "ok");
    same(entries(), [frame + 1n]);
    equal(rig.command(rig.b, { ...first, writable: true }).status, "ok");
    same(entries(), [frame + 3n]);
    equal(rig.command(rig.b, { op: "invalidate-pages", key, first: 0, count: 1 }).status, "ok");
    same(entries(), [0n]);
    // Pinned memory has both rights.
    const pinned = rig.register(rig.b, { length: PAGE, va: 0x9_0000_0000 });
    same(entries(), [BigInt(pinned.address) + 3n]);
  });

  it("a region that goes in the middle of a message has no translations that would be looked up", () => {
    const translations = { entries: 8, evict: "lru" } as const;
    const p = pair({ plans: { b: { translations } } });
    const { rig } = p;
    rig.register(rig.b, { length: 8 * PAGE, va: 0x9_0000_0000 });
    let sent = 0;
    rig.fate = (from) => from === "a" && ++sent === 2 ? { delayPs: 20_000_000 } : "pass";
    post(p, "write", { length: 2 * MTU });
    rig.ring(rig.a, p.a.sq);
    rig.run(() => counter(p, "b", "requestsIn") === 1);
    rig.runFor(3_000_000);
    const misses = counter(p, "b", "translationMisses");
    equal(rig.command(rig.b, { op: "deregister-mr", key: p.to.key }).status, "ok");
    rig.run();
    same(statuses(p), ["REM_ACCESS_ERR"]);
    equal(counter(p, "b", "translationMisses"), misses);
  });

  it("a region that is gone leaves no line on the chip: it would hide that another's are missing", () => {
    const translations = { entries: 32, evict: "lru" } as const;
    const p = pair({ plans: { b: { translations } } });
    const { rig } = p;
    const options = { length: 3 * 8 * PAGE, access: EVERY_ACCESS };
    const before = rig.register(rig.b, { ...options, va: 0x9_0000_0000 });
    // Now all four lines of the chip are its own but one: the pair's is in memory.
    const gone = rig.register(rig.b, { ...options, length: 4 * 8 * PAGE, va: 0xa_0000_0000 });
    equal(rig.command(rig.b, { op: "deregister-mr", key: gone.key }).status, "ok");
    const writes = [[p.to, 1], [before, 3]] as const;
    for (const [{ key: rkey, va }, lines] of writes) {
      for (let line = 0; line < lines; line++) {
        post(p, "write", { length: 64, remote: { va: BigInt(va + line * 8 * PAGE), rkey } });
      }
    }
    go(p);
    same(new Set(statuses(p)), new Set(["SUCCESS"]));
    equal(counter(p, "b", "translationMisses"), 4, "each of the lines that are left is read");
  });

  it("a line that comes when its region is gone puts out no other region's", () => {
    const translations = { entries: 8, evict: "lru" } as const;
    const p = pair({ plans: { b: { translations } } });
    const { rig } = p;
    const other = rig.register(rig.b, {
      length: 8 * PAGE,
      va: 0x9_0000_0000,
      access: EVERY_ACCESS,
    });
    const misses = counter(p, "b", "translationMisses");
    post(p, "write", { length: 64 });
    rig.ring(rig.a, p.a.sq);
    rig.run(() => counter(p, "b", "translationMisses") > misses);
    const evictions = counter(p, "b", "translationEvictions");
    equal(rig.command(rig.b, { op: "deregister-mr", key: p.to.key }).status, "ok");
    rig.run();
    equal(counter(p, "b", "translationEvictions"), evictions);
    same(statuses(p), ["REM_ACCESS_ERR"], "it came behind the region's end");
    equal(other.length, 8 * PAGE);
  });

  it("the memory of a table that is gone is the next one's of that size, and all of it is given back", () => {
    const translations = { entries: 8, evict: "lru" } as const;
    const { rig } = pair({ plans: { b: { translations } } });
    const region = { length: 3 * 8 * PAGE, access: EVERY_ACCESS };
    const asked = () =>
      [...rig.b.host.replies.values()].filter((reply) =>
        reply.status === "ok" && reply.op === "memory-needed"
      ).length;
    const first = rig.register(rig.b, { ...region, va: 0x9_0000_0000 });
    const before = asked();
    ok(before > 0);
    let { key } = first;
    for (let i = 1; i <= 4; i++) {
      equal(rig.command(rig.b, { op: "deregister-mr", key }).status, "ok");
      ({ key } = rig.register(rig.b, { ...region, va: 0x9_0000_0000 + i * 2 ** 24 }));
    }
    equal(asked(), before, "no more is asked for");
    rig.register(rig.b, { ...region, va: 0xa_0000_0000 });
    equal(asked(), before + 1, "a second one of that size has none");
  });

  it("evict: fifo: misses where the least recently used would not be given up", () => {
    const misses = (["lru", "fifo"] as const).map((evict) => {
      const translations = { entries: 24, evict } as const;
      const p = pair({ plans: { b: { translations } } });
      // Two lines more than fit beside the pair's own, which is used in between.
      const others = [0, 1, 2].map((i) =>
        p.rig.register(p.rig.b, { length: 4096, va: 0x7_0000_0000 + i * 0x1_0000_0000 })
      );
      for (const { va, key } of [...others, ...others, ...others]) {
        post(p, "write", { length: 8 });
        post(p, "write", { length: 8, remote: { va: BigInt(va), rkey: key } });
        go(p);
      }
      return counter(p, "b", "translationMisses");
    });
    ok(misses[0]! < misses[1]!, `${misses[0]} against ${misses[1]}`);
  });
});

describe("pages that are taken back", () => {
  it("are not used any more; what comes asks for them again", () => {
    const p = coldPair("b");
    post(p, "write", { length: 64 });
    go(p);
    p.driver.take(p.to.key, 0, 1);
    equal(p.driver.taken, 1);
    post(p, "write", { at: 64, length: 64 });
    go(p);
    same(statuses(p), ["SUCCESS", "SUCCESS"]);
    p.driver.settle();
    ok(isCopied(p, 0, 128));
    equal(p.driver.faults, 2);
  });

  /** Has a host keep its answers to reads. @returns has it give the oldest one. */
  function slowReads(
    { rig }: Pair,
    side = rig.b,
    isSlow: (address: number) => boolean = () => true,
  ): { readonly held: PcieMessage[]; readonly answer: () => void } {
    const { host } = side;
    const held: PcieMessage[] = [];
    const take = host.take.bind(host);
    host.take = (message) => {
      if (message.kind !== "memory-read" || !isSlow(message.address)) return take(message);
      held.push(message);
      return undefined;
    };
    const answer = () => {
      rig.toRnic(side, take(held.shift()!)!);
      rig.runFor(2 * PS_PER_US);
    };
    return { held, answer };
  }

  const invalidates = (p: Pair, first: number) =>
    ask(p.rig, p.rig.b, { op: "invalidate-pages", key: p.to.key, first, count: 1 });

  it("the reply waits for DMA reads of theirs, sent and yet to be sent, and for no other", () => {
    const p = coldPair("b", { dmaReadsMax: 1 });
    const { rig } = p;
    post(p, "read", { at: 3584, length: 2 * MTU });
    go(p);
    const { held, answer } = slowReads(p);
    // 512 B of page 0, then of page 1, two and three at a time.
    post(p, "read", { at: 3584, length: 2 * MTU });
    rig.ring(rig.a, p.a.sq);
    rig.run(() => held.length === 1);
    const [other, second] = [2, 1].map((page) => invalidates(p, page)) as [Asked, Asked];
    rig.runFor(2 * PS_PER_US);
    equal(other()?.status, "ok", "no read touches page 2");
    equal(second(), undefined, "its read waits for the one of page 0");
    answer();
    equal(second(), undefined, "it is under way");
    answer();
    equal(second()?.status, "ok");
  });

  it("the reply waits for payload of this card's own that is yet to be read", () => {
    const p = coldPair("a", { gatherReadsMax: 1 });
    const { rig, from } = p;
    const { key: lkey, va, address } = from;
    const sges = [0, 2].map((page) => ({ address: va + page * 4096, length: 64, lkey }));
    post(p, "write", { sges });
    go(p);
    const { held, answer } = slowReads(
      p,
      rig.a,
      (read) => read >= address && read < address + PAIR_BYTES,
    );
    // Of page 0, and behind that of page 2.
    post(p, "write", { sges });
    rig.ring(rig.a, p.a.sq);
    rig.run(() => held.length === 1);
    const reply = ask(rig, rig.a, { op: "invalidate-pages", key: lkey, first: 2, count: 1 });
    rig.runFor(2 * PS_PER_US);
    same([reply(), held.length], [undefined, 1], "its read waits for the one of page 0");
    answer();
    same([reply(), held.length], [undefined, 1], "it is under way");
    answer();
    equal(reply()?.status, "ok");
    rig.run();
    same(statuses(p), ["SUCCESS", "SUCCESS"]);
  });

  it("the reply waits for the word that an atomic is about to write", () => {
    const p = coldPair("b", { dataReadPs: 20 * PS_PER_US });
    const { rig } = p;
    const atomic = { swapAdd: 1n, compare: 0n };
    post(p, "fetch-add", { length: 8, atomic });
    go(p);
    const { held, answer } = slowReads(p);
    post(p, "fetch-add", { length: 8, atomic });
    rig.ring(rig.a, p.a.sq);
    rig.run(() => held.length === 1);
    answer();
    const asked = invalidates(p, 0);
    rig.runFor(5 * PS_PER_US);
    equal(asked(), undefined, "the word was read and is being worked on");
    rig.run(() => asked() !== undefined);
    const { log } = rig.b.host;
    const wrote = log.findLastIndex((one) =>
      one.kind === "memory-write" && one.address === p.to.address
    );
    const replied = log.findLastIndex(({ kind }) => kind === "reply");
    ok(wrote >= 0 && wrote < replied, "the reply is behind it");
  });

  it("READs go on over pages that are taken back in the middle of them", () => {
    const p = coldPair("b");
    const { rig } = p;
    post(p, "read", { length: 8 * MTU });
    go(p);
    post(p, "read", { length: 8 * MTU });
    rig.ring(rig.a, p.a.sq);
    const isRead = () => rig.b.host.log.at(-1)?.kind === "memory-read";
    const before = rig.b.host.log.length;
    rig.run(() => rig.b.host.log.length > before + 2 && isRead());
    p.driver.take(p.to.key, 0, 2);
    rig.run();
    same(statuses(p), ["SUCCESS", "SUCCESS"]);
    p.driver.settle();
    ok(isCopied(p, 0, 8 * MTU), "no byte of a page that was another's");
  });

  it("commands that name no page of an on-demand region are refused", () => {
    const p = coldPair("b");
    const { rig, to } = p;
    const refused = (key: number, first: number, count: number) => {
      const reply = rig.command(rig.b, { op: "invalidate-pages", key, first, count });
      return reply.status === "error" ? reply.reason : "ok";
    };
    equal(refused(to.key, 8, 1), "Pages [8, 9) must be of the region's 8");
    ok(refused(pair().to.key, 0, 1).includes("pinned"));
    const region = { pd: 1, va: 0, length: 4096, pageBytes: 4096, persistent: false };
    const access = ACCESS.onDemand;
    const reply = rig.command(rig.b, {
      op: "register-mr",
      region: { ...region, access, pages: [0] },
    });
    equal(reply.status, "error");
  });
});
