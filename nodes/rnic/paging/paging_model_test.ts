/**
 * A card's paging does, step by step, what its model says (`../testing/paging_model_testing.ts`), whatever accesses,
 * hints, pages, translations, regions and lives of queue pairs come and go.
 */
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { sameAsModel as same, seeded } from "../../../fabric/base/property_testing.ts";
import { viewOf } from "../../../fabric/base/slab.ts";
import { NEVER } from "../../../fabric/base/time.ts";
import { HINT_PLAN } from "../../../fabric/rack/plan/hint_plan.ts";
import { type HintWork, workPs } from "../../../fabric/rack/plan/hint_work.ts";
import { addNullRegion, freeKey } from "../dma/memory_region.ts";
import { takeCompletion } from "../dma/dma.ts";
import type { ReadRequest } from "../state/dma_state.ts";
import type { MemorySegment, Region } from "../state/memory.ts";
import { type Delivery, mayMiss, MEMORY_WAITERS, type WantedPage } from "../state/paging_state.ts";
import { type QueuePair, resetQueuePair } from "../state/queue_pair.ts";
import { bringUp, HintCard, PAGE } from "../testing/hint_card_testing.ts";
import {
  nameOf,
  type PageNeed,
  PagingModel,
  type SpanModel,
  type TableModel,
} from "../testing/paging_model_testing.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { awaitAccess, checkAccess } from "./access.ts";
import { PAGING } from "./extension.ts";
import { answerInvalidations } from "./invalidation.ts";
import { isWaiting, resumeMapped, takeDeliveries } from "./memory_waits.ts";
import {
  askForPages,
  mapPages,
  pageFaultWakeAt,
  raisePageFaults,
  refusePages,
  unmapPages,
} from "./page_requests.ts";
import {
  dropTable,
  fetchLine,
  holdsLine,
  isComing,
  memoryNeeded,
  takeLine,
} from "./translation_cache.ts";

const US = 1_000_000;

interface World {
  readonly entries: number;
  readonly evict: "lru" | "fifo";
  readonly work?: HintWork;
}

const WORLDS: readonly World[] = [
  { entries: 24, evict: "lru" },
  { entries: 33, evict: "fifo" },
  { entries: 1000, evict: "lru" },
  { entries: 40, evict: "lru", work: { request: "hardware" } },
  { entries: 48, evict: "lru", work: { request: "iommu" } },
  { entries: 48, evict: "fifo", work: { request: "driver" } },
];

/** On demand; but for the last one, which is pinned. */
const PAGES = [20, 9, 10] as const;

const segment = fc.record({
  // The last is a null region.
  region: fc.oneof({ weight: 6, arbitrary: fc.nat(2) }, { weight: 1, arbitrary: fc.constant(3) }),
  at: fc.nat(20 * PAGE),
  length: fc.constantFrom(1, 64, PAGE, 3 * PAGE, 9 * PAGE),
});
const range = { region: fc.nat(1), page: fc.nat(19), count: fc.integer({ min: 1, max: 7 }) };
const qp = fc.nat(2);
const ACTS = {
  access: fc.record({
    kind: fc.constant("access" as const),
    ...{ qp, by: fc.constantFrom(...MEMORY_WAITERS), write: fc.boolean(), ahead: fc.boolean() },
    ...{ waits: fc.boolean(), pagesOnly: fc.nat(7) },
    segments: fc.array(segment, { minLength: 1, maxLength: 3 }),
    from: fc.nat(9),
    part: fc.integer({ min: 1, max: 10 }),
  }),
  hints: fc.record({
    kind: fc.constant("hints" as const),
    pages: fc.array(fc.record({ region: fc.nat(1), page: fc.nat(19) }), {
      ...{ minLength: 1, maxLength: 8 },
    }),
    ...{ write: fc.boolean(), of: fc.constantFrom(7, 8), core: fc.nat(3) },
  }),
  map: fc.record({ kind: fc.constant("map" as const), ...range, write: fc.boolean() }),
  take: fc.record({ kind: fc.constant("take" as const), ...range }),
  refuse: fc.record({ kind: fc.constant("refuse" as const), ...range }),
  line: fc.record({ kind: fc.constant("line" as const), nth: fc.nat(2), fails: fc.nat(5) }),
  warm: fc.record({ kind: fc.constant("warm" as const), region: fc.nat(2), line: fc.nat(2), qp }),
  time: fc.record({
    kind: fc.constant("time" as const),
    ps: fc.constantFrom(1000, US, 20 * US, 21 * US),
  }),
  life: fc.record({ kind: fc.constant("life" as const), qp, isOther: fc.boolean() }),
  register: fc.record({ kind: fc.constant("register" as const), region: fc.nat(2) }),
  use: fc.record({
    kind: fc.constant("use" as const),
    how: fc.constantFrom("outstanding", "gather", "responder", "word", "none", "none"),
    ...{ region: fc.nat(1), page: fc.nat(19), offset: fc.constantFrom(-8, 0, 8, 4088) },
    length: fc.constantFrom(8, 16, 2 * PAGE),
  }),
  deliver: fc.record({ kind: fc.constant("deliver" as const), qp }),
};
type Act = (typeof ACTS)[keyof typeof ACTS] extends fc.Arbitrary<infer T> ? T : never;
type Kind = Act["kind"];

const THEMES: readonly (readonly Kind[])[] = [
  [
    ...["access", "access", "hints", "map", "map", "take", "refuse", "line", "line"] as Kind[],
    ...["warm", "time", "time", "life", "register", "use", "deliver"] as Kind[],
  ],
  ["access", "access", "hints", "hints", "map", "time", "refuse", "take"],
  ["access", "access", "access", "line", "warm", "register", "map", "life"],
  ["map", "map", "take", "take", "use", "use"],
];
const acts: fc.Arbitrary<Act[]> = fc.oneof(...THEMES.map((kinds) => {
  const one: fc.Arbitrary<Act> = fc.oneof(...kinds.map((kind): fc.Arbitrary<Act> => ACTS[kind]));
  return fc.array(one, { minLength: 10, maxLength: 60, size: "max" });
}));

class Bench {
  readonly card: HintCard;
  readonly model: PagingModel;
  readonly queuePairs: QueuePair[];
  readonly regions: Region[] = [];
  readonly tables: TableModel[] = [];
  readonly #null: Region;
  /** The host's memory with the tables' lines. */
  readonly #memory = new Uint8Array(0x10_0000);
  readonly #isAts: boolean;
  #frames = 0;
  #commands = 0;
  #used: { readonly how: string; readonly address: number; readonly length: number } | undefined;

  constructor({ entries, evict, work }: World) {
    const hints = { ...HINT_PLAN, ...(work && { work }) };
    const card = new HintCard({ translations: { entries, evict }, ...(work && { hints }) });
    this.card = card;
    this.#isAts = work?.request === "iommu";
    const { pageFaultPs } = rnicPlan("b").timing;
    const requestPs = work?.request === "hardware"
      ? workPs(work, "request", 1)
      : this.#isAts
      ? 0
      : pageFaultPs;
    this.model = new PagingModel({ entries, evict, requestPs });
    for (const place of PAGES.keys()) this.#register(place);
    this.#null = addNullRegion(card.device.regions, 1)!;
    this.queuePairs = [20, 21, 22].map((qpn) => card.connect({ qpn, address: 9, destQpn: qpn }));
    this.#compare();
  }

  #frame(): number {
    return 0x100_0000 + PAGE * this.#frames++;
  }

  #register(place: number): void {
    const { card: { device }, model, regions, tables } = this, pages = PAGES[place]!;
    const isPinned = place === 2;
    const { end } = device.paging.memory;
    for (const lines of [1, 2, 3, 200, 40_000]) {
      same(memoryNeeded(device.paging, lines), model.needed(lines, end), "memory for tables");
    }
    const frames = Array.from({ length: pages }, () => this.#frame());
    const region = this.card.register(
      { va: 0x1_0000_0000 * (place + 1), pages, offset: 100 * place },
      isPinned ? { frames } : {},
    );
    regions[place] = region;
    tables[place] = model.hold(region, !isPinned);
    same(region.table.address, tables[place]!.address, "the table's place");
  }

  /** The parts of the segments that an access, or what its message goes on to, has of each table. */
  #spans(segments: readonly MemorySegment[], from: number, length: number): SpanModel[] {
    const spans: SpanModel[] = [];
    let at = 0;
    for (const { region, va, length: its } of segments) {
      const start = Math.max(from, at), end = Math.min(from + length, at + its);
      const table = this.tables.find((each) => each.region === region);
      if (start < end && region.alive && table !== undefined) {
        const offset = va - region.pageBase - at;
        const first = Math.floor((offset + start) / PAGE);
        spans.push({ table, first, last: Math.floor((offset + end - 1) / PAGE) });
      }
      at += its;
    }
    return spans;
  }

  do(act: Act): void {
    const { card: { device }, model, regions, tables } = this;
    const of = "qp" in act ? this.queuePairs[act.qp]! : undefined;
    const region = "region" in act ? regions[act.region]! : regions[0]!;
    const table = "region" in act ? tables[act.region]! : tables[0]!;
    const first = "page" in act && typeof act.page === "number" ? act.page : 0;
    const count = "count" in act ? Math.min(act.count, region.table.pages.length - first) : 0;
    switch (act.kind) {
      case "access":
        return this.#access(act, of!);
      case "hints": {
        const rights = act.write ? 2 : 1;
        const needs: PageNeed[] = act.pages.flatMap(({ region: place, page }) => {
          const its = tables[place]!;
          return page < PAGES[place]! && its.pages![page]!.rights < rights
            ? [{ table: its, page, rights }]
            : [];
        });
        const pages = needs.map(({ table: its, page }): WantedPage => (
          { table: its.region.table, page, rights }
        ));
        if (pages.length === 0) return;
        const why = { hintsOf: act.of, byCore: act.core === 0 };
        model.ask(needs, why);
        askForPages(device, pages, why);
        break;
      }
      case "map": {
        if (count <= 0) return;
        const frames = Array.from({ length: count }, () => this.#frame());
        model.map(table, first, frames, act.write ? 2 : 1);
        mapPages(device, region, { first, pages: frames, writable: act.write });
        break;
      }
      case "take": {
        if (count <= 0) return;
        const id = this.#commands++;
        const frames = unmapPages(device, region, { first, count });
        const expected = model.take(table, first, count);
        same(frames, expected, "frames that are taken");
        device.paging.invalidations.push({ id, frames, pageBytes: PAGE });
        model.invalidations.push({ id, frames: expected });
        break;
      }
      case "refuse":
        if (count <= 0) return;
        model.refuse(table, first, count);
        refusePages(device, region, { first, count });
        break;
      case "line": {
        const fills = [...device.paging.fills.values()], fill = fills[act.nth % fills.length];
        if (fill === undefined) return;
        const tag = device.dma.outstanding.findIndex((request) =>
          request?.continuation.kind === "translation" && request.continuation.fill === fill
        );
        if (tag < 0) return;
        const completion = { kind: "completion", tag, status: "success", data: new Uint8Array(0) };
        const { address, length } = takeCompletion(device, completion as never)!;
        const at = address - 0x10_0000;
        model.lineCame(this.#gone(fill.table)!, fill.line);
        takeLine(
          device,
          { fill },
          act.fails === 0 ? undefined : this.#memory.slice(at, at + length),
        );
        break;
      }
      case "warm": {
        const { paging } = device, { line } = act;
        if (line >= table.lines || holdsLine(paging, region.table, line)) return;
        const by = { qp: of!, kind: "request" } as const;
        const isNew = !isComing(paging, region.table, line);
        same(isNew, !model.fills.has(nameOf(table, line)), "is on its way");
        // A hint's: no access waits.
        const none = { ...by, life: of!.life, since: 0, pages: [], missing: 0 };
        const expected = { ...none };
        expected.missing++;
        const waits = model.fills.get(nameOf(table, line));
        if (waits === undefined) model.fills.set(nameOf(table, line), [expected]);
        else waits.push(expected);
        fetchLine(device, { table: region.table, line }, none);
        break;
      }
      case "time":
        this.card.at(device.now + act.ps);
        model.now = device.now;
        break;
      case "life":
        resetQueuePair(of!);
        if (!act.isOther) bringUp(of!, { address: 9, destQpn: of!.qpn });
        else {
          // Another queue pair gets its place.
          const next = this.card.connect({ qpn: 30 + this.#commands++, address: 9, destQpn: 9 });
          Object.assign(next, { slot: of!.slot });
          this.queuePairs[act.qp] = next;
        }
        break;
      case "register":
        region.alive = false;
        freeKey(device.regions, region.key);
        dropTable(device, region.table);
        dropTable(device, region.table);
        model.drop(table);
        model.resumeMapped();
        resumeMapped(device);
        this.#gones.push(table);
        this.#register(act.region);
        break;
      case "use":
        return this.#use(act);
      case "deliver": {
        const { deliveries } = device.paging, its = {} as Delivery;
        if (model.isWaiting(of!, "deliver")) deliveries.set(of!.slot, [its]);
        const expected = model.isWaiting(of!, "deliver") ? [its] : [];
        if (expected.length > 0) model.waits.delete(`${of!.slot}/deliver`);
        same(takeDeliveries(device, of!), expected, "deliveries that wait");
        same(deliveries.size, 0, "deliveries that are left");
        break;
      }
    }
  }

  readonly #gones: TableModel[] = [];

  #gone(table: Region["table"]): TableModel | undefined {
    return [...this.tables, ...this.#gones].find(({ region }) => region.table === table);
  }

  #access(act: Extract<Act, { kind: "access" }>, of: QueuePair): void {
    const { card: { device }, model } = this;
    const segments = act.segments.flatMap(({ region: place, at, length }): MemorySegment[] => {
      const region = this.regions[place] ?? this.#null;
      const most = region === this.#null ? length : region.length;
      const from = at % most;
      return [{ region, va: region.va + from, length: Math.min(length, most - from) }];
    });
    const bytes = segments.reduce((sum, { length }) => sum + length, 0);
    const offset = Math.min(bytes - 1, Math.floor(bytes * act.from / 20));
    const length = Math.max(1, Math.floor((bytes - offset) * act.part / 10));
    const access = {
      ...{ segments, offset, length, write: act.write, pagesOnly: act.pagesOnly === 0 },
      ahead: act.ahead,
    };
    const by = { kind: act.by, qp: of };
    same(mayMiss(device.paging), model.onDemand > 0 || model.chip.length < model.lines);
    const found = model.access(by, {
      spans: this.#spans(segments, offset, length),
      beyond: act.ahead ? this.#spans(segments, offset + length, bytes) : [],
      rights: act.write ? 2 : 1,
      pagesOnly: act.pagesOnly === 0,
    });
    if (act.waits) {
      if (typeof found === "object") model.wait(by, found);
      same(awaitAccess(device, access, by), found === "ready", "may go on");
    } else {
      const result = checkAccess(device, access, by);
      const pages = typeof result === "object" ? result.pages : result;
      const expected = typeof found === "object"
        ? found.map(({ table, page, rights }) => ({ table: table.region.table, page, rights }))
        : found;
      same(pages, expected, "what the access finds");
    }
  }

  /** A read or an atomic uses a frame, until the next act of this kind. */
  #use({ how, region, page, offset, length }: Extract<Act, { kind: "use" }>): void {
    const { device } = this.card, { dma } = device;
    dma.outstanding[dma.outstanding.length - 1] = undefined;
    dma.gather.waiting.clear();
    dma.responder.waiting.clear();
    device.atomicWords.clear();
    this.#used = undefined;
    // Also of pages that were taken before the read was sent.
    const frames = [...this.model.invalidations.flatMap(({ frames }) => [...frames])];
    const frame = frames[page % Math.max(1, frames.length)] ??
      this.tables[region]!.pages![page % PAGES[region]!]!.frame;
    if (frame === undefined || how === "none") return;
    const address = frame + (how === "word" ? Math.max(0, offset) : offset);
    const request = { address, length, continuation: { kind: "payload" } } as ReadRequest;
    if (how === "outstanding") dma.outstanding[dma.outstanding.length - 1] = request;
    else if (how === "gather") dma.gather.waiting.push(request);
    else if (how === "responder") dma.responder.waiting.push(request);
    else device.atomicWords.set(address, undefined!);
    this.#used = { how, address, length: how === "word" ? 8 : length };
  }

  step(act: Act): void {
    const { card, model } = this, { device } = card;
    model.raised.length = 0;
    model.resumed.length = 0;
    card.resumed.length = 0;
    card.bus.length = 0;
    this.do(act);
    raisePageFaults(device);
    model.raiseDue();
    answerInvalidations(device);
    const isInUse = (frame: number) =>
      this.#used !== undefined && this.#used.address < frame + PAGE &&
      this.#used.address + this.#used.length > frame;
    const answered = card.bus.flatMap((each) => each.kind === "reply" ? [each.id] : []);
    same(answered, model.answerInvalidations(isInUse), "commands that are answered");
    this.#compare();
  }

  #compare(): void {
    const { card, model, tables } = this, { device } = card, { paging } = device;
    for (const message of card.bus) {
      if (message.kind === "memory-write") {
        this.#memory.set(message.data, message.address - 0x10_0000);
      }
    }
    const raised = card.bus.flatMap((message) => {
      if (message.kind === "ats") {
        const { kind: _, step: __, frames: ___, ...event } = message;
        same(this.#isAts, true, "the IOMMU is asked");
        return [event];
      }
      if (message.kind !== "event" || message.event.type !== "PAGE_FAULT") return [];
      const { type: _, ...event } = message.event;
      return [event];
    });
    same(raised, model.raised, "page requests");
    same(card.resumed, model.resumed, "accesses that go on");
    same(pageFaultWakeAt(device), Math.max(device.now, model.due[0]?.at ?? NEVER), "when it wakes");
    const onChip = paging.cached.values().map(({ table, line }) => `${table.id}/${line}`).toArray();
    same(onChip, model.chip, "lines on the chip");
    for (const { region, pages, address } of tables) {
      same(region.table.address, address, "the table's place");
      for (const page of address === undefined ? [] : region.table.pages.keys()) {
        const its = pages?.[page],
          frame = pages === undefined ? region.table.pages[page] : its?.frame;
        const bits = its?.rights === 1 ? 1 : 3;
        const at = address! - 0x10_0000 + 8 * page;
        const entry = viewOf(this.#memory).getBigUint64(at);
        same(
          entry,
          frame === undefined ? 0n : BigInt(frame + bits),
          `an entry in memory of ${region.key}`,
        );
      }
      const found = region.table.demand?.map(({ rights, asked, hint }, page) => ({
        ...{ rights, asked, hintsOf: hint?.hintsOf, hasHint: hint !== undefined },
        frame: rights > 0 ? region.table.pages[page] : undefined,
      }));
      const expected = pages?.map(({ rights, asked, hint, frame }) => (
        { rights, asked, hintsOf: hint?.of, hasHint: hint !== undefined, frame }
      ));
      same(found, expected, `pages of region ${region.key}`);
    }
    for (const qp of this.queuePairs) {
      for (const kind of MEMORY_WAITERS) {
        same(isWaiting(device, qp, kind), model.isWaiting(qp, kind), `${qp.qpn} waits, ${kind}`);
      }
    }
    same([...paging.fills.values()].map(({ waits }) => waits.length), [
      ...model.fills.values().map((waits) => waits.length),
    ], "lines that are read");
    const statistics = PAGING.statistics(device);
    const wasUsed = model.onDemand > 0 || Object.values(model.counters).some((count) => count > 0);
    const others = { translationLines: model.lines, cachedLines: model.chip.length };
    const zeros = {
      ...{ pageFaultRnrNaks: 0, pageFaultDrops: 0, pageFaultPauses: 0, pageFaultResponses: 0 },
    };
    const { counters } = model;
    same(statistics, wasUsed ? { ...counters, ...zeros, ...others } : {}, "counters");
    const { leaked } = PAGING.held(device);
    same(Object.fromEntries(leaked.filter(([, held]) => held !== 0)), {
      ...some("page faults not raised", model.due.length),
      ...some("fills of translations", model.fills.size),
      ...some("accesses that wait for memory", model.waits.size),
      ...some("commands that wait for the end of accesses", model.invalidations.length),
    }, "what is held");
  }
}

function some(name: string, count: number): Record<string, number> {
  return count === 0 ? {} : { [name]: count };
}

describe("a card's paging does what its model says", () => {
  for (const world of WORLDS) {
    it(JSON.stringify(world), () => {
      fc.assert(
        fc.property(acts, (all) => {
          const bench = new Bench(world);
          for (const each of all) bench.step(each);
        }),
        seeded({ numRuns: 100 }),
      );
    });
  }

  it("a report has counters of paging where any of it has been in use", () => {
    const { device } = new HintCard({});
    same(PAGING.statistics(device), {});
    for (const name of Object.keys(device.paging.counters)) {
      const used = new HintCard({}).device, counters = { ...used.paging.counters, [name]: 1 };
      Object.assign(used.paging.counters, counters);
      same(PAGING.statistics(used), { ...counters, translationLines: 0, cachedLines: 0 });
    }
  });

  it("pinned memory whose translations all fit is not looked at", () => {
    const card = new HintCard({});
    const region = card.register({ va: 0x1_0000_0000, pages: 1 }, { frames: [0] });
    const qp = card.connect({ qpn: 20, address: 9, destQpn: 40 });
    const segments = [{ region, va: region.va, length: 8 }];
    const access = { segments, offset: 0, length: 8, write: true };
    same(checkAccess(card.device, access, { kind: "request", qp }), "ready");
    same(PAGING.statistics(card.device), {});
  });

  it("a table of many pages is in memory whole, and once", () => {
    for (const pages of [512, 513, 1024, 1100]) {
      const card = new HintCard({ translations: { entries: 8, evict: "lru" } });
      const frames = Array.from({ length: pages }, (_, i) => PAGE * i);
      const { table } = card.register({ va: 0x1_0000_0000, pages }, { frames });
      const writes = card.bus.flatMap((each) => each.kind === "memory-write" ? [each] : []);
      let next = table.address!;
      for (const { address, data } of writes) {
        same([address, data.length > 0, data.length <= 4096], [next, true, true]);
        next += data.length;
      }
      same(next, table.address! + 8 * pages);
    }
  });

  it("a message asks for so many pages ahead", () => {
    const card = new HintCard({});
    const region = card.register({ va: 0x1_0000_0000, pages: 1200 });
    const qp = card.connect({ qpn: 20, address: 9, destQpn: 40 });
    const segments = [{ region, va: region.va, length: region.length }];
    const access = { segments, offset: 0, length: 1, write: true, ahead: true };
    const model = new PagingModel({ entries: 2 ** 20, evict: "lru", requestPs: 1 });
    const table = model.hold(region, true);
    const spans = [{ table, first: 0, last: 0 }], beyond = [{ table, first: 0, last: 1199 }];
    checkAccess(card.device, access, { kind: "request", qp });
    model.access({ qp, kind: "request" }, { spans, beyond, rights: 2, pagesOnly: false });
    const [due] = card.device.pageEvents.values();
    same([due!.event.count, due!.event.ahead], [
      model.due[0]!.request.count,
      model.due[0]!.request.ahead,
    ]);
  });
});
