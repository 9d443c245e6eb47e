/**
 * The driver's side of on-demand paging does, step by step, what its model says (`../testing/paging_model_testing.ts`):
 * whatever is asked for, advised, taken, registered and forgotten while the thread waits for a card or for time to pass.
 */
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { sameAsModel as same, seeded } from "../../../fabric/base/property_testing.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { type HintWork, WORK_PRESETS, workPs } from "../../../fabric/rack/plan/hint_work.ts";
import type { AtsMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import type { RnicCommand, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { type AddressMap, type Buffer, VIRTUAL_DRAM_BASE } from "../memory/address_map.ts";
import type { Iommu } from "../memory/iommu.ts";
import type { PageTable } from "../memory/page_table.ts";
import type { Steps } from "../cpu/program.ts";
import { rigPlan } from "../testing/host_testing.ts";
import {
  type Deed,
  type HostOptions,
  HostPagingModel,
  PAGE,
  PagesHere,
} from "../testing/paging_model_testing.ts";
import type { Account } from "../cpu/processor.ts";
import { Ats } from "./ats.ts";
import { CardPaging, type DemandRegion, Pager } from "./pager.ts";
import { type PageMachine, PageThread, type ThreadParts } from "./page_thread.ts";

const { timing } = rigPlan();
const ATS_WORK: HintWork = { request: "iommu", translate: "iommu" };

interface World {
  readonly work?: HintWork | undefined;
  readonly responds: boolean;
}

const WORLDS: readonly World[] = [
  { responds: false },
  { responds: false, work: { ...WORK_PRESETS.hypervisor, iommu: "os" } },
  { responds: true },
];

/** Places of regions: of two cards, side by side, with a page in common, and one of storage class memory. */
const PLACES = [
  { card: 0, key: 1, at: VIRTUAL_DRAM_BASE + 100, length: 8 * PAGE },
  { card: 0, key: 2, at: VIRTUAL_DRAM_BASE + 8 * PAGE, length: 90 * PAGE },
  { card: 1, key: 1, at: VIRTUAL_DRAM_BASE + 6 * PAGE, length: 6 * PAGE },
  { card: 1, key: 3, at: 16 * PAGE, length: 4 * PAGE },
] as const;

const place = fc.nat(PLACES.length - 1);
const range = {
  place,
  first: fc.oneof(fc.nat(8), fc.nat(89)),
  count: fc.oneof(fc.nat(4), fc.nat(90)),
};
const RANGE_AT = {
  from: fc.nat(20),
  offset: fc.constantFrom(0, 0, 1, 100),
  // Also to a byte before a page's end.
  length: fc.oneof(fc.nat(6 * PAGE), fc.constantFrom(PAGE - 1, PAGE, 2 * PAGE - 1, 3 * PAGE)),
};
/** Of a region's first byte, which the first region has in the middle of a page. */
const AT = fc.oneof(fc.nat(4 * PAGE), fc.constantFrom(0, PAGE - 100, PAGE, 2 * PAGE));
const of = fc.option(fc.nat(2), { nil: undefined });
const ACTS = {
  fault: fc.record({
    kind: fc.constant("fault" as const),
    ...{ ...range, ahead: fc.oneof(fc.constant(0), fc.nat(30)), of },
  }),
  advise: fc.record({
    kind: fc.constant("advise" as const),
    places: fc.array(fc.record({ place, offset: AT, length: AT }), {
      maxLength: 3,
    }),
    ...{ write: fc.boolean(), fault: fc.boolean() },
  }),
  take: fc.record({ kind: fc.constant("take" as const), ...RANGE_AT, keep: fc.boolean() }),
  pressure: fc.record({ kind: fc.constant("pressure" as const), pages: fc.nat(4) }),
  register: fc.record({ kind: fc.constant("register" as const), place, writable: fc.nat(3) }),
  pin: fc.record({ kind: fc.constant("pin" as const), place, pages: fc.nat(3) }),
  forget: fc.record({ kind: fc.constant("forget" as const), place }),
  reset: fc.record({ kind: fc.constant("reset" as const), card: fc.nat(1) }),
  touch: fc.record({ kind: fc.constant("touch" as const), ...RANGE_AT }),
  use: fc.record({
    kind: fc.constant("use" as const),
    coming: fc.array(fc.nat(20), { maxLength: 3 }),
    inUse: fc.array(fc.nat(20), { maxLength: 3 }),
    streams: fc.array(
      fc.record({
        page: fc.nat(20),
        from: fc.constantFrom(-1, 0, 1, PAGE - 1),
        length: fc.constantFrom(1, 2, 100, PAGE),
      }),
      { maxLength: 2 },
    ),
  }),
  run: fc.record({
    kind: fc.constant("run" as const),
    steps: fc.oneof(fc.integer({ min: 1, max: 3 }), fc.constant(40)),
    reply: fc.constantFrom("ok", "ok", "ok", "ok", "EINVAL", "ENOENT"),
  }),
  ats: fc.record({
    kind: fc.constant("ats" as const),
    ...{ place: fc.nat(1), first: fc.nat(9), count: fc.integer({ min: 1, max: 8 }), of },
    ...{
      step: fc.constantFrom("page-request" as const, "translate" as const),
      write: fc.boolean(),
    },
  }),
  time: fc.record({
    kind: fc.constant("time" as const),
    ps: fc.constantFrom(1000, 300_000, 900_000),
  }),
};
type Act = (typeof ACTS)[keyof typeof ACTS] extends fc.Arbitrary<infer T> ? T : never;
type Kind = Act["kind"];
const THEMES: readonly (readonly Kind[])[] = [
  [
    ...["fault", "fault", "advise", "take", "pressure", "register", "register", "pin"] as Kind[],
    ...["forget", "reset", "touch", "use", "run", "run", "run", "ats", "time"] as Kind[],
  ],
  ["fault", "fault", "run", "run", "advise", "forget", "register"],
  ["fault", "run", "take", "take", "pressure", "use", "touch", "pin"],
  ["fault", "run", "ats", "ats", "time", "time", "reset"],
];
const acts: fc.Arbitrary<Act[]> = fc.oneof(...THEMES.map((kinds) => {
  const one: fc.Arbitrary<Act> = fc.oneof(...kinds.map((kind): fc.Arbitrary<Act> => ACTS[kind]));
  return fc.array(one, { minLength: 10, maxLength: 60, size: "max" });
}));

interface Added {
  readonly startAt: Time;
  readonly start: (account: Account) => Steps<void>;
  readonly onReturn: () => void;
  readonly onFailure: (error: unknown) => void;
}

class Bench {
  readonly model: HostPagingModel;
  readonly pages = new PagesHere();
  readonly pager: Pager;
  readonly cards: readonly CardPaging[];
  readonly ats: Ats;
  readonly deeds: Deed[] = [];
  #coming = new Set<number>();
  #inUse = new Set<number>();
  #streams: { readonly offset: number; readonly data: { readonly length: number } }[] = [];
  #begun = 0;
  #fails = false;
  readonly #failures: string[] = [];
  #end: () => void = () => {};
  #now: Time = 0;
  #pins = 0;
  #thread:
    | { readonly found: Steps<void>; readonly expected: Generator<void, void, RnicReply> }
    | undefined;
  /** Threads that the processor is to run, and when they begin. */
  readonly #tasks: {
    readonly startAt: Time;
    readonly start: () => Steps<void>;
    readonly end: () => void;
  }[] = [];

  constructor({ work, responds }: World) {
    const times = work && {
      page: workPs(work, "map", 1) + workPs(work, "iommu", 1),
      command: workPs(work, "translate", 1),
    };
    const options: HostOptions = {
      timing,
      atsWork: ATS_WORK,
      responds,
      ...(times && { workPs: times }),
    };
    this.model = new HostPagingModel(options);
    const { deeds, pages } = this;
    const iommu = {
      map: (frames: readonly number[], card: number) => void deeds.push(["map", card, frames]),
      unmap: (frames: readonly number[], card: number) => void deeds.push(["unmap", card, frames]),
    } as unknown as Iommu;
    const map = {
      framesOf: ({ address }: Buffer) => [address],
      physical: (address: number) => pages.physical(address),
    } as unknown as AddressMap;
    this.pager = new Pager({
      ...{ pin: true, map, table: pages as unknown as PageTable, iommu },
      onWork: () => thread.serve(),
    });
    this.cards = [0, 1].map((card) => new CardPaging(this.pager, card));
    const send = (message: AtsMessage) => void deeds.push(["translated", message]);
    this.ats = new Ats({ work: ATS_WORK, pager: this.pager, card: 0, send });
    const thread = new PageThread(this.#threadParts(map, { work, responds }));
    for (const each of PLACES.keys()) this.do({ kind: "register", place: each, writable: 1 });
    this.#compare();
  }

  #threadParts(map: AddressMap, { work, responds }: World): ThreadParts {
    const { deeds, pages, pager } = this;
    // deno-lint-ignore no-this-alias
    const bench = this;
    const machine = {
      get now() {
        return bench.#now;
      },
      ...{ timing, map, pages, paging: pager },
      memory: {
        get streams() {
          return new Map(bench.#streams.map((each) => [each, each]));
        },
      },
      iio: { isComing: ([frame]: readonly number[]) => bench.#coming.has(frame!) },
    } as unknown as PageMachine;
    const cpu = (_name: string, _account: Account, card = 0) => ({
      now: 0,
      charge: (ps: Time) => void deeds.push(["charge", ps]),
      *settle() {
        deeds.push(["settle"]);
        yield undefined as never;
      },
      *sleep(ps: Time) {
        deeds.push(["sleep", ps]);
        yield undefined as never;
      },
      *command(each: RnicCommand): Generator<void, RnicReply, RnicReply> {
        deeds.push(["command", card, each]);
        return yield;
      },
      signal: (name: string) => void deeds.push(["signal", name]),
      tracing: false,
      trace() {},
    });
    const add = ({ startAt, start, onReturn, onFailure }: Added) => {
      const end = () => bench.#fails ? onFailure(new Error("a trap")) : onReturn();
      this.#tasks.push({ startAt, start: () => start({} as Account), end });
    };
    const isWatched = (frame: number, bytes: number) => bytes === PAGE && bench.#inUse.has(frame);
    return {
      ...{ machine, processor: { add, isWatched }, cpu, work },
      onFailure: (name: string) => void this.#failures.push(name),
      ...(responds && {
        respond: (range: object, card: number) =>
          void deeds.push(["respond", card, range as never]),
      }),
    } as unknown as ThreadParts;
  }

  do(act: Act): void {
    const { model, pager, cards } = this;
    const at = "place" in act ? PLACES[act.place]! : PLACES[0];
    const from = "from" in act ? VIRTUAL_DRAM_BASE + act.from * PAGE + act.offset : 0;
    switch (act.kind) {
      case "fault": {
        const { first, count, ahead, of: hintsOf } = act, { card, key } = at;
        const event = {
          ...{ type: "PAGE_FAULT" as const, key, first, count, ahead, write: true },
          ...(hintsOf !== undefined && { hintsOf }),
        };
        model.submit({ kind: "fault", event, card });
        cards[card]!.fault(event);
        break;
      }
      case "advise": {
        const places = act.places.flatMap(({ place, offset, length }) => {
          const { card, key, length: all } = PLACES[place]!;
          const isKnown = card === 0 && pager.regionOf(card, key) !== undefined;
          const start = Math.min(offset, all - 1);
          return isKnown ? [{ key, offset: start, length: Math.min(length, all - start) }] : [];
        });
        const { write, fault } = act;
        const done = model.prefetch(0, places, { write, fault });
        same(cards[0]!.prefetch(places, { write, fault }), done, "the end of the advice");
        break;
      }
      case "take": {
        const done = model.take(from, act.length, act.keep);
        same(cards[0]!.take({ address: from, length: act.length }, act.keep), done, "its end");
        break;
      }
      case "pressure":
        model.submit({ kind: "pressure", pages: act.pages });
        pager.submit({ kind: "pressure", pages: act.pages });
        break;
      case "register": {
        const { card, key, at: address, length } = at, writable = act.writable > 0;
        if (pager.regionOf(card, key) !== undefined) this.do({ kind: "forget", place: act.place });
        model.demand(card, key, { address, length, writable });
        cards[card]!.demand(key, { pageBytes: PAGE } as Buffer, { address, length, writable });
        break;
      }
      case "pin": {
        const { card, at: address } = at, key = 9 + (act.place & 1);
        const frames = [this.#pins++], length = act.pages * PAGE + 8;
        same(
          cards[card]!.frames({ address: frames[0]! } as Buffer, { address, length }),
          frames,
          "frames",
        );
        model.pages.touch(address, length);
        model.pin(card, key, address, length, frames);
        cards[card]!.pin(key, { address, length }, frames);
        break;
      }
      case "forget": {
        const { card } = at, key = act.place === 3 ? 9 : at.key;
        model.forget(card, key);
        cards[card]!.forget(key);
        break;
      }
      case "reset":
        model.reset(act.card);
        pager.reset(act.card);
        if (act.card === 0) {
          model.atsWaiting = [];
          model.atsHinted = [];
          model.atsNow = undefined;
          this.ats.reset();
        }
        break;
      case "touch":
        model.pages.touch(from, act.length);
        this.pages.touch(from, act.length);
        break;
      case "use": {
        const frames = (all: readonly number[]) =>
          new Set(all.map((page) => this.pages.physical(VIRTUAL_DRAM_BASE + page * PAGE)));
        model.coming = this.#coming = frames(act.coming);
        this.#inUse = frames(act.inUse);
        this.#streams = act.streams.map(({ page, from, length }) => (
          { offset: this.pages.physical(VIRTUAL_DRAM_BASE + page * PAGE) + from, data: { length } }
        ));
        const watched = this.#inUse, streams = this.#streams;
        model.isInUse = (frame) =>
          watched.has(frame) ||
          streams.some(({ offset, data: { length } }) => {
            return offset < frame + PAGE && offset + length > frame;
          });
        break;
      }
      case "run":
        return this.#run(act);
      case "ats": {
        const { step, first, count, of: hintsOf, write } = act, { key } = at;
        const message: AtsMessage = {
          ...{ kind: "ats", step, key, first, count, ahead: step === "translate" ? 0 : 2 },
          ...{ write, frames: [], ...(hintsOf !== undefined && { hintsOf }) },
        };
        model.atsTake(message, this.#now);
        this.ats.take(message, this.#now);
        break;
      }
      case "time":
        this.#now += act.ps;
        model.atsRun(this.#now);
        this.ats.run(this.#now);
        break;
    }
  }

  #run({ steps, reply: how }: Extract<Act, { kind: "run" }>): void {
    const { model } = this;
    if (this.#thread === undefined) {
      const hasWork = model.jobs.length + model.hinted.length > 0;
      same(this.pager.hasWork, hasWork, "has work");
      const [task, ...others] = this.#tasks.splice(0);
      same(others.length, 0, "one thread");
      if (task === undefined) return same(hasWork, false, "is called for work");
      this.#end = task.end;
      this.#thread = { found: task.start(), expected: model.serve() };
    }
    const { found, expected } = this.#thread;
    for (let step = 0; step < steps; step++) {
      // A device's write comes in the end.
      if (step === 5) model.coming = this.#coming = new Set();
      const reply: RnicReply = how === "ok" || step > 0
        ? { status: "ok", op: "done" }
        : { status: "error", errno: how as "EINVAL" | "ENOENT", reason: "a test's" };
      const isOver = expected.next(reply).done;
      same(found.next(reply as never).done, isOver, "the thread ends");
      this.#compare();
      if (isOver) {
        this.#thread = undefined;
        this.#fails = how !== "ok";
        this.#end();
        same(this.#failures.splice(0).length, Number(this.#fails), "failures");
        return;
      }
    }
  }

  step(act: Act): void {
    this.do(act);
    this.#compare();
  }

  #compare(): void {
    const { model, pager, ats } = this;
    same(this.deeds, model.deeds, "what is done");
    this.deeds.length = 0;
    model.deeds.length = 0;
    const plain = ({ rights, ...region }: DemandRegion) => ({ ...region, rights: [...rights] });
    same([...pager.regions.values()].map(plain), [...model.regions.values()], "regions");
    same(
      [...pager.mapped.values()].map((
        { region: { card, key }, page, frame },
      ) => [card, key, page, frame]),
      [...model.mapped.values()].map((
        { region: { card, key }, page, frame },
      ) => [card, key, page, frame]),
      "pages that cards have",
    );
    const { faults, prefetches, pagesMapped, invalidations, pagesTaken } = pager;
    const counters = { faults, prefetches, pagesMapped, invalidations, pagesTaken };
    same(counters, model.counters, "counters");
    const jobs = model.jobs.length + model.hinted.reduce((sum, { jobs }) => sum + jobs.length, 0);
    same(pager.held.jobs, jobs, "jobs");
    if (this.#thread !== undefined) same(this.#tasks.length, 0, "no second thread");
    for (const { startAt } of this.#tasks.slice(this.#begun)) {
      same(startAt, this.#now + timing.interruptPs, "begins by an interrupt");
    }
    this.#begun = this.#tasks.length;
    same(this.#misfiled(), pager.held.misfiled, "pages whose rights and mapping differ");
    for (const { at } of PLACES) {
      const isPinned = model.pinned.values().some(({ address, length }) =>
        address < at + PAGE && address + length > at
      );
      same(this.cards[0]!.isPinned({ address: at, length: PAGE }), isPinned, "is pinned");
    }
    same([ats.nextAt, ats.held], [model.atsNow?.until ?? NEVER, model.atsHeld], "the IOMMU");
    same(
      [ats.pageRequests, ats.translations],
      [model.ats.pageRequests, model.ats.translations],
      "",
    );
  }

  #misfiled(): number {
    const { regions, mapped } = this.model;
    let misfiled = 0, known = 0;
    for (const { card, key, rights } of regions.values()) {
      for (const [page, its] of rights.entries()) {
        const isMapped = mapped.has(`${card}/${key}/${page}`);
        if (isMapped) known++;
        if (isMapped !== (its > 0)) misfiled++;
      }
    }
    return misfiled + mapped.size - known;
  }
}

describe("the driver's side of on-demand paging does what its model says", () => {
  for (const world of WORLDS) {
    it(JSON.stringify(world), () => {
      fc.assert(
        fc.property(acts, (all) => {
          const bench = new Bench(world);
          for (const each of all) bench.step(each);
        }),
        seeded({ numRuns: 120 }),
      );
    });
  }
});
