/** The kernel thread that maps pages for the card and takes them back, against a card that notes its commands. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../../fabric/base/rng.ts";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { type HintWork, workPs } from "../../../fabric/rack/plan/hint_work.ts";
import type { RnicCommand, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Account } from "../cpu/processor.ts";
import type { Steps } from "../cpu/program.ts";
import { AddressMap, type Buffer, DRAM_PAGE_BYTES } from "../memory/address_map.ts";
import { Iommu } from "../memory/iommu.ts";
import { MemorySystem } from "../memory/memory_system.ts";
import { PageTable } from "../memory/page_table.ts";
import { rigPlan } from "../testing/host_testing.ts";
import { Pager } from "./pager.ts";
import { PageThread, type ThreadParts } from "./page_thread.ts";
import { type PageServer, pressMemory, servePages } from "./serve_pages.ts";

const KEY = 0x100;
const PAGE = DRAM_PAGE_BYTES;

interface TaskPlan {
  readonly start: (account: Account) => Steps<void>;
}

/** Here no core waits. */
function* nothing(): Steps<void> {}

/** A region of four pages, all of which the card has. */
class Machine {
  readonly timing: PageServer["timing"];
  readonly map: AddressMap;
  readonly memory: MemorySystem;
  readonly table: PageTable;
  readonly iommu: Iommu;
  readonly pager: Pager;
  readonly buffer: Buffer;
  readonly commands: RnicCommand[] = [];
  readonly signals: string[] = [];
  /** Frames to which a device's write is on its way, or that a core watches. */
  readonly coming = new Set<number>();
  readonly inUse = new Set<number>();
  /** Frames that the card takes no page in. */
  readonly refused = new Set<number>();
  /** What happens while the thread waits: for the card, or for time to pass. */
  onCommand: (command: RnicCommand) => void = () => {};
  onSleep: () => void = () => {};
  onCharge: () => void = () => {};
  now = 0;
  /** Who does the work, where that costs, and how the IOMMU is told. */
  work: Pick<PageServer, "workPs" | "respond"> = {};

  constructor(pages = 4) {
    const plan = rigPlan({ dramBytes: Math.max(1 << 20, 2 * pages * PAGE), scmBytes: 1 << 16 });
    const timing = this.timing = { ...plan.timing, majorFaultPs: 57.5 * PS_PER_US };
    const map = this.map = new AddressMap(plan);
    const memory = this.memory = new MemorySystem(plan);
    const table = this.table = new PageTable(map, memory, timing);
    this.iommu = new Iommu({ iotlb: 8, missPs: 1, scmPageBytes: map.scm.pageBytes });
    this.pager = new Pager({ pin: false, map, table, iommu: this.iommu, onWork: () => {} });
    this.buffer = map.allocate(pages * PAGE);
    this.register();
    this.fault({ first: 0, count: pages });
    this.commands.length = 0;
  }

  get cpu() {
    // deno-lint-ignore no-this-alias
    const machine = this;
    return {
      get now() {
        return machine.now;
      },
      charge(ps: number): void {
        machine.now += ps;
        machine.onCharge();
      },
      settle: nothing,
      *sleep(ps: number): Steps<void> {
        yield* nothing();
        machine.now += ps;
        machine.onSleep();
      },
      *command(command: RnicCommand): Steps<RnicReply> {
        yield* nothing();
        machine.commands.push(command);
        machine.onCommand(command);
        if (command.op === "map-pages" && command.pages.some((page) => machine.refused.has(page))) {
          return { status: "error", errno: "EINVAL", reason: "It is the card's own" };
        }
        return { status: "ok", op: "done" };
      },
      signal: (name: string) => void machine.signals.push(name),
      tracing: false,
      trace: () => {},
    };
  }

  run(): void {
    const { pager, table, map, coming, inUse } = this;
    const steps = servePages({
      cpu: this.cpu,
      pager,
      table,
      timing: this.timing,
      ...this.work,
      physical: (address) => map.physical(address),
      isComing: (frame) => coming.has(frame),
      isInUse: (frame) => inUse.has(frame),
    });
    for (let step = steps.next(); !step.done; step = steps.next()) {
      assert.fail("a wait of another kind");
    }
    this.#checkBooks();
  }

  /** A device reaches the frames that its card has been given, and those that are pinned, and no others. */
  #checkBooks(): void {
    const { pager, iommu } = this;
    assert.deepEqual(pager.held, { jobs: 0, misfiled: 0 });
    const given = [...pager.mapped.values()].map(({ frame }) => frame);
    const pinned = [...pager.pinned.values()].flatMap(({ frames }) => frames);
    const reachable = new Set([...given, ...pinned]);
    for (let page = 0; page < this.buffer.length / PAGE; page++) {
      if (!this.isThere(page)) continue;
      const frame = this.frame(page);
      assert.equal(iommu.translate(frame, 8) !== undefined, reachable.has(frame), `page ${page}`);
    }
  }

  fault(range: { readonly first: number; readonly count: number; readonly ahead?: number }): void {
    this.pager.fault({ type: "PAGE_FAULT", key: KEY, ahead: 0, write: true, ...range });
    this.run();
  }

  /** The region anew, of which the card has no page. */
  register(): void {
    const { address, length } = this.buffer;
    this.pager.demand(KEY, this.buffer, { address, length, writable: true });
  }

  at(page: number): number {
    return this.buffer.address + page * PAGE;
  }

  frame(page: number): number {
    return this.map.physical(this.at(page));
  }

  take(page: number, keep = true): void {
    this.pager.take({ address: this.at(page), length: PAGE }, keep);
    this.run();
  }

  isThere(page: number): boolean {
    return this.table.isThere(this.at(page));
  }
}

function spans(commands: readonly RnicCommand[]): string[] {
  return commands.map((command) => {
    if (command.op === "map-pages") return `map ${command.first}+${command.pages.length}`;
    if (command.op === "invalidate-pages") return `invalidate ${command.first}+${command.count}`;
    return command.op;
  });
}

describe("servePages", () => {
  it("takes a page away only when the card has let go of it, and its bytes come back to another frame", () => {
    const machine = new Machine();
    machine.memory.store(machine.frame(1), new Uint8Array(PAGE).fill(5));
    machine.onCommand = () => assert.ok(machine.isThere(1), "the card still has it");
    machine.take(1);
    assert.deepEqual(spans(machine.commands), ["invalidate 1+1"]);
    assert.deepEqual([0, 1, 2, 3].map((page) => machine.isThere(page)), [true, false, true, true]);
    machine.onCommand = () => {};
    const other = machine.frame(2);
    machine.take(2);
    machine.fault({ first: 1, count: 1 });
    assert.equal(machine.frame(1), other, "the frame that was given up last");
    const bytes = new Uint8Array(PAGE);
    machine.memory.load(machine.frame(1), bytes);
    assert.ok(bytes.every((byte) => byte === 5), "kept elsewhere meanwhile");
    assert.deepEqual(spans(machine.commands).slice(2), ["map 1+1"]);
    machine.take(1, false);
    machine.fault({ first: 1, count: 1 });
    machine.memory.load(machine.frame(1), bytes);
    assert.ok(bytes.every((byte) => byte === 0), "not kept: zeros");
  });

  it("waits for a device's write that is on its way to the frame", () => {
    const machine = new Machine();
    const frame = machine.frame(0);
    machine.coming.add(frame);
    let slept = 0;
    machine.onSleep = () => {
      assert.ok(machine.isThere(0), "its bytes would come into another page's frame");
      if (++slept === 3) machine.coming.delete(frame);
    };
    machine.take(0);
    assert.equal(slept, 3);
    assert.ok(!machine.isThere(0));
  });

  it("leaves a page where a core waits for its change, where it is pinned, and where the card has it again", () => {
    const machine = new Machine();
    machine.inUse.add(machine.frame(0));
    machine.take(0);
    machine.pager.pin(KEY + 1, { address: machine.at(1), length: PAGE }, [machine.frame(1)]);
    machine.take(1);
    // Another region over the same page.
    const { buffer } = machine;
    machine.pager.demand(KEY + 2, buffer, { address: machine.at(2), length: PAGE, writable: true });
    machine.coming.add(machine.frame(2));
    machine.onSleep = () => {
      machine.coming.clear();
      const region = machine.pager.regions.get(KEY + 2)!;
      machine.pager.map(region, 0, { rights: 2, frame: machine.frame(2) });
    };
    machine.take(2);
    machine.take(3);
    assert.deepEqual([0, 1, 2, 3].map((page) => machine.isThere(page)), [true, true, true, false]);
  });

  it("leaves the card and memory the pages of which a range has only a part, at either end", () => {
    const machine = new Machine();
    machine.pager.take({ address: machine.at(0) + 1, length: 3 * PAGE - 2 }, true);
    machine.run();
    assert.deepEqual(spans(machine.commands), ["invalidate 1+1"]);
    assert.deepEqual([0, 1, 2, 3].map((page) => machine.isThere(page)), [true, false, true, true]);
    const [region] = machine.pager.regions.values();
    assert.deepEqual([...region!.rights], [2, 0, 2, 2]);
  });

  it("unmaps pages of SCM from the card and leaves their bytes where they are", () => {
    const machine = new Machine();
    const { scm } = machine.map;
    const { address } = scm;
    machine.pager.demand(KEY + 3, scm, { address, length: scm.pageBytes, writable: true });
    machine.pager.fault({
      type: "PAGE_FAULT",
      key: KEY + 3,
      first: 0,
      count: 1,
      ahead: 0,
      write: true,
    });
    machine.run();
    const before = machine.map.physical(address);
    machine.pager.take({ address, length: scm.pageBytes }, false);
    machine.run();
    assert.deepEqual(spans(machine.commands), ["map 0+1", "invalidate 0+1"]);
    assert.equal(machine.map.physical(address), before);
    assert.equal(machine.table.takenAway, 0);
  });

  it("under pressure takes the pages that the card has had longest, so many, again and again", () => {
    const machine = new Machine();
    machine.take(0);
    machine.fault({ first: 0, count: 1 });
    machine.commands.length = 0;
    let waits = 0;
    machine.onSleep = () => (waits++, machine.run());
    const { cpu, pager } = machine;
    const steps = pressMemory({ cpu, pager }, { everyPs: PS_PER_US, times: 2, pages: 2 });
    while (!steps.next().done) assert.fail("a wait of another kind");
    assert.equal(waits, 1, "between the two times");
    machine.run();
    assert.deepEqual(spans(machine.commands), [1, 2, 3, 0].map((page) => `invalidate ${page}+1`));
  });

  it("has the IOMMU let a device reach a page only while the card has it", () => {
    const machine = new Machine();
    const frame = machine.frame(3);
    const reaches = () => machine.iommu.translate(frame, 8) !== undefined;
    assert.ok(reaches());
    machine.onCommand = () => assert.ok(reaches(), "until the card has answered");
    machine.take(3);
    assert.ok(!reaches());
  });

  it("maps a range by batches of 64: one entry into the kernel and one command each, and each further page", () => {
    const machine = new Machine(150);
    const { minorFaultPs, rangePagePs } = machine.timing;
    machine.pager.forget(KEY);
    machine.register();
    machine.commands.length = 0;
    const began = machine.now;
    machine.fault({ first: 0, count: 150 });
    assert.deepEqual(spans(machine.commands), ["map 0+64", "map 64+64", "map 128+22"]);
    assert.equal(machine.now - began, 3 * minorFaultPs + 147 * rangePagePs);
    assert.equal(machine.pager.pagesMapped, 300);
  });

  it("holds no fault up by a range for longer than a batch, and takes nothing back ahead of what is asked for", () => {
    const machine = new Machine(150);
    const { pager, map: { scm } } = machine;
    pager.forget(KEY);
    machine.register();
    machine.commands.length = 0;
    const other = KEY + 1;
    pager.demand(other, scm, { address: scm.address, length: scm.pageBytes, writable: true });
    const fault = (key: number, count: number, ahead: number) =>
      pager.fault({ type: "PAGE_FAULT", key, first: 0, count, ahead, write: true });
    let done = "";
    machine.onCommand = () => {
      if (machine.commands.length === 2) fault(other, 1, 0);
      if (machine.commands.length === 3) {
        done = pager.take({ address: machine.at(149), length: PAGE }, true);
      }
    };
    fault(KEY, 1, 149);
    machine.run();
    assert.deepEqual(spans(machine.commands), [
      "map 0+1",
      "map 1+64",
      "map 0+1",
      "map 65+64",
      "map 129+21",
      "invalidate 149+1",
    ]);
    assert.deepEqual([machine.signals, machine.isThere(149)], [[done], false]);
  });

  it("H-24: what a request needs waits for one batch of hints', of which requesters have turns", () => {
    const machine = new Machine(600);
    const { pager, map: { scm }, timing } = machine;
    pager.forget(KEY);
    machine.register();
    machine.commands.length = 0;
    const other = KEY + 1;
    pager.demand(other, scm, { address: scm.address, length: scm.pageBytes, writable: true });
    const event = { type: "PAGE_FAULT", ahead: 0, write: true } as const;
    const hint = (hintsOf: number, first: number, count: number) =>
      pager.fault({ ...event, key: KEY, first, count, hintsOf });
    // One requester's, all of its quota and more, stand in front of another one's.
    for (let first = 0; first < 500; first += 100) hint(7, first, 100);
    for (const first of [500, 510, 520]) hint(9, first, 1);
    let asked = 0, mapped = 0;
    machine.onCommand = (command) => {
      if (command.op !== "map-pages") return;
      if (command.key === other) mapped = machine.now;
      // While a batch of hints' is brought in, a request and a program need something.
      if (machine.commands.length !== 1) return;
      asked = machine.now;
      pager.fault({ ...event, key: other, first: 0, count: 1 });
      pager.take({ address: machine.at(590), length: PAGE }, true);
    };
    machine.run();
    const keys = machine.commands.map((each) => each.op === "map-pages" ? each.key : each.op);
    assert.deepEqual(keys.slice(0, 3), [KEY, other, KEY]);
    assert.ok(mapped - asked <= timing.minorFaultPs, `${mapped - asked} ps behind one batch`);
    assert.deepEqual(machine.signals.length, 1, "the memory was taken back");
    const theirs = spans(machine.commands).filter((_, i) => i !== 1);
    assert.deepEqual(theirs.slice(0, 7), [
      "map 0+64",
      "map 500+1",
      "map 100+64",
      "map 510+1",
      "map 200+64",
      "map 520+1",
      "map 300+64",
    ]);
    // All the same, all of them come.
    assert.equal([...pager.regions.get(KEY)!.rights].filter((rights) => rights > 0).length, 503);
  });

  it("H-24: forgets what hints of a card have asked for that has failed", () => {
    const machine = new Machine();
    const { pager } = machine;
    const event = { type: "PAGE_FAULT", key: KEY, first: 0, count: 1, ahead: 0 } as const;
    pager.fault({ ...event, write: true, hintsOf: 7 });
    assert.ok(pager.hasWork);
    pager.reset();
    assert.ok(!pager.hasWork);
  });

  it("maps the other pages of a range of which the card refuses one, which no device reaches", () => {
    const machine = new Machine();
    const { pager } = machine;
    pager.forget(KEY);
    machine.register();
    machine.commands.length = 0;
    const mapped = pager.pagesMapped;
    machine.refused.add(machine.frame(2));
    machine.fault({ first: 0, count: 4 });
    const single = [0, 1, 2, 3].map((page) => `map ${page}+1`);
    assert.deepEqual(spans(machine.commands), ["map 0+4", ...single]);
    assert.deepEqual([...pager.regions.get(KEY)!.rights], [2, 2, 0, 2]);
    assert.equal(pager.pagesMapped - mapped, 3);
    const reaches = [0, 1, 2, 3].map((page) =>
      machine.iommu.translate(machine.frame(page), 8) !== undefined
    );
    assert.deepEqual(reaches, [true, true, false, true]);
  });

  it("maps no more of a range whose card has failed, though its number is another region's, and ends what waits", () => {
    for (const isAdvised of [false, true]) {
      const machine = new Machine(150);
      const { pager, buffer: { length } } = machine;
      pager.forget(KEY);
      machine.register();
      machine.commands.length = 0;
      machine.onCommand = () => {
        pager.reset();
        machine.register();
      };
      const done = isAdvised
        ? [pager.prefetch([{ key: KEY, offset: 0, length }], { write: true, fault: true })]
        : [];
      const began = machine.now;
      if (isAdvised) machine.run();
      else machine.fault({ first: 0, count: 150 });
      const { minorFaultPs, rangePagePs } = machine.timing;
      assert.equal(machine.now - began, minorFaultPs + 63 * rangePagePs, "none is brought in");
      assert.deepEqual([spans(machine.commands), machine.signals], [["map 0+64"], done]);
      assert.deepEqual(pager.regions.get(KEY)!.rights.indexOf(2), -1);
      assert.equal(pager.mapped.size, 0);
    }
  });

  it("ends as if each job had been done as a whole, in the order in which they came, in whatever turns", () => {
    const PAGES = 200;
    for (let seed = 1; seed <= 60; seed++) {
      const rng = rngFor(seed, "paging");
      const machine = new Machine(PAGES);
      const { pager } = machine;
      const expected = new Array<boolean>(PAGES).fill(true);
      const waiting: string[] = [];
      const submit = () => {
        const first = rng.below(PAGES), count = 1 + rng.below(PAGES - first);
        const kind = rng.below(4);
        if (kind === 3) {
          const range = { address: machine.at(first), length: count * PAGE };
          waiting.push(pager.take(range, rng.below(2) === 0));
        } else if (kind === 2) {
          const place = { key: KEY, offset: first * PAGE, length: count * PAGE };
          waiting.push(pager.prefetch([place], { write: true, fault: true }));
        } else {
          const needed = 1 + rng.below(Math.min(count, 80));
          const event = { key: KEY, first, count: needed, ahead: count - needed, write: true };
          pager.fault({ type: "PAGE_FAULT", ...event });
        }
        expected.fill(kind !== 3, first, first + count);
      };
      for (let i = 0; i < 4; i++) submit();
      let more = 6;
      machine.onCommand = () => {
        if (more > 0 && rng.below(3) === 0) {
          more--;
          submit();
        }
      };
      machine.run();
      const found = expected.map((_, page) => machine.isThere(page));
      assert.deepEqual(found, expected, `seed ${seed}: in memory`);
      const { rights } = pager.regions.get(KEY)!;
      assert.deepEqual([...rights].map((each) => each > 0), expected, `seed ${seed}: at the card`);
      assert.deepEqual(machine.signals.toSorted(), waiting.toSorted(), `seed ${seed}`);
    }
  });

  it("tells of advice on several places when all of them are there", () => {
    const machine = new Machine(150);
    const { pager } = machine;
    pager.forget(KEY);
    machine.register();
    machine.commands.length = 0;
    const places = [{ offset: 0, length: 100 * PAGE }, { offset: 120 * PAGE, length: 1 }];
    const how = { write: true, fault: true };
    const both = pager.prefetch(places.map((place) => ({ key: KEY, ...place })), how);
    const one = pager.prefetch([{ key: KEY, offset: 119 * PAGE, length: 1 }], how);
    machine.run();
    const expected = ["map 0+64", "map 119+1", "map 64+36", "map 120+1"];
    assert.deepEqual([spans(machine.commands), machine.signals], [expected, [one, both]]);
  });

  it("maps what comes with a fault in its own command, ahead of the rest of the message", () => {
    const machine = new Machine();
    for (const page of [0, 1, 2, 3]) machine.take(page);
    machine.commands.length = 0;
    machine.fault({ first: 0, count: 1, ahead: 3 });
    // A page that was kept elsewhere takes 57.5 us: after 100 us the card is told what is there.
    assert.deepEqual(spans(machine.commands), ["map 0+1", "map 1+2", "map 3+1"]);
  });

  it("leaves a page as the card has it, where the card refuses to have it written", () => {
    const machine = new Machine();
    const { pager } = machine;
    pager.forget(KEY);
    machine.register();
    const places = [{ key: KEY, offset: 0, length: 3 * PAGE }];
    pager.prefetch(places, { write: false, fault: true });
    machine.run();
    machine.refused.add(machine.frame(1));
    machine.fault({ first: 0, count: 4 });
    assert.deepEqual([...pager.regions.get(KEY)!.rights], [2, 1, 2, 2]);
  });

  it("has a device reach no frame of what was registered anew, or deregistered, under a key", () => {
    const machine = new Machine();
    const { pager } = machine;
    pager.forget(KEY);
    const pin = (page: number) =>
      pager.pin(KEY, { address: machine.at(page), length: PAGE }, [machine.frame(page)]);
    for (const page of [0, 1, 1]) {
      pin(page);
      machine.run();
    }
    pager.forget(KEY);
    machine.run();
    assert.deepEqual([pager.pinned.size, machine.iommu.translate(machine.frame(1), 8)], [
      0,
      undefined,
    ]);
  });

  it("keeps what the card asks of a region whose registration the program has not seen yet", () => {
    const machine = new Machine();
    const key = KEY + 4;
    const event = { key, first: 0, count: 1, ahead: 0, write: true } as const;
    for (const first of [0, 2]) machine.pager.fault({ type: "PAGE_FAULT", ...event, first });
    machine.run();
    assert.deepEqual(machine.commands, []);
    const { address, length } = machine.buffer;
    machine.pager.demand(key, machine.buffer, { address, length, writable: true });
    machine.run();
    assert.deepEqual(spans(machine.commands), ["map 0+1", "map 2+1"], "the card asks once");
  });

  it("keeps nothing of that for the next life of a card that has failed, whose key it may be, too", () => {
    const machine = new Machine();
    const key = KEY + 4;
    const event = { key, first: 0, count: 1, ahead: 0, write: true } as const;
    machine.pager.fault({ type: "PAGE_FAULT", ...event });
    machine.run();
    machine.pager.reset();
    const { address } = machine.buffer;
    machine.pager.demand(key, machine.buffer, { address, length: PAGE, writable: true });
    machine.run();
    assert.deepEqual(machine.commands, []);
  });

  it("nor for another region of the key, where the one that it was asked of is gone before it is known", () => {
    const machine = new Machine();
    const key = KEY + 4;
    const event = { key, first: 0, count: 1, ahead: 0, write: true } as const;
    machine.pager.fault({ type: "PAGE_FAULT", ...event });
    machine.run();
    machine.pager.forget(key);
    const { address } = machine.buffer;
    machine.pager.demand(key, machine.buffer, { address, length: PAGE, writable: true });
    machine.run();
    assert.deepEqual(machine.commands, []);
  });

  it("maps nothing of a region that has gone while its page was brought in", () => {
    const machine = new Machine();
    machine.take(0);
    machine.commands.length = 0;
    machine.onCharge = () => machine.pager.forget(KEY);
    machine.fault({ first: 0, count: 1 });
    assert.deepEqual(machine.commands, []);
    const frames = [0, 1, 2, 3].map((page) => machine.frame(page));
    const reached = frames.filter((frame) => machine.iommu.translate(frame, 8) !== undefined);
    assert.deepEqual(reached, [], "nor can a device reach its memory");
  });

  it("drops what a card has asked for that has failed, and gives the advice of programs all the same", () => {
    const machine = new Machine();
    const { pager } = machine;
    pager.fault({ type: "PAGE_FAULT", key: KEY, first: 0, count: 1, ahead: 0, write: true });
    const done = pager.take({ address: machine.at(1), length: PAGE }, true);
    pager.reset();
    const { address, length } = machine.buffer;
    // The number is another region's of the next card.
    pager.demand(KEY, machine.buffer, { address, length, writable: true });
    machine.run();
    assert.deepEqual(machine.commands, []);
    assert.deepEqual(machine.signals, [done]);
    assert.ok(!machine.isThere(1));
  });

  it("[0114], H-21: a page costs what its place does, and a command what the hypervisor adds", () => {
    const took = (work: Machine["work"]) => {
      const machine = new Machine();
      machine.take(0);
      machine.take(1);
      machine.work = work;
      const began = machine.now;
      machine.fault({ first: 0, count: 2 });
      return machine.now - began;
    };
    assert.equal(took({ workPs: { page: 1000, command: 70 } }) - took({}), 2 * 1000 + 70);
  });

  it("[0114], H-21: the kernel's thread charges each piece of the work where the plan has it", () => {
    const took = (work?: HintWork) => {
      const machine = new Machine();
      for (const page of [0, 1, 2]) machine.take(page, false);
      let task: TaskPlan | undefined;
      const { map, memory, table: pages, pager: paging, timing } = machine;
      const thread = new PageThread({
        ...{
          machine: { now: 0, timing, map, memory, pages, paging, iio: { isComing: () => false } },
        },
        processor: { add: (plan: TaskPlan) => void (task = plan), isWatched: () => false },
        cpu: () => machine.cpu,
        onFailure: () => {},
        work,
      } as unknown as ThreadParts);
      paging.fault({ type: "PAGE_FAULT", key: KEY, first: 0, count: 3, ahead: 0, write: true });
      thread.serve();
      const began = machine.now;
      assert.ok(task!.start({} as Account).next(undefined as never).done, "nothing is waited for");
      return machine.now - began;
    };
    for (const piece of ["map", "iommu", "translate"] as const) {
      const work: HintWork = { [piece]: "hypervisor" };
      const cost = workPs(work, piece, 1);
      assert.ok(cost > 0);
      const times = piece === "translate" ? 1 : 3;
      assert.equal(took(work) - took(), times * cost, piece);
    }
  });

  it("[0114], H-21: by PRI the IOMMU is told, without a command, also of what the card has already", () => {
    const machine = new Machine();
    machine.take(1);
    machine.commands.length = 0;
    const told: string[] = [];
    const respond = (pages: { first: number; count: number }) =>
      void told.push(`${pages.first}+${pages.count}`);
    machine.work = { respond };
    machine.fault({ first: 0, count: 3 });
    assert.deepEqual([machine.commands, told], [[], ["0+1", "1+1", "2+1"]]);
    // What a program advises is the driver's.
    machine.take(2);
    machine.commands.length = 0;
    const place = { key: KEY, offset: 2 * PAGE, length: 1 };
    machine.pager.prefetch([place], { write: true, fault: true });
    machine.run();
    assert.deepEqual(spans(machine.commands), ["map 2+1"]);
  });
});
