/**
 * A driver for on-demand regions on the RNICs' test rig: it serves the card's page faults, and takes pages
 * back at random instants. A page that is taken back is moved away and its frame spoiled: what the card reads
 * or writes there later is found.
 */
import { assert } from "../../../fabric/base/assert.ts";
import type { Rng } from "../../../fabric/base/rng.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { AtsMessage, PcieMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import {
  ACCESS,
  type RnicCommand,
  type RnicEvent,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { RegionOptions, RigMr, Side } from "./rig_parts_testing.ts";
import type { Rig } from "./rnic_testing.ts";

const SPOILED = 0xdb;

interface DemandPage {
  readonly frame: number;
  state: "unmapped" | "mapped" | "leaving" | "away";
  kept: Uint8Array | undefined;
}

interface DemandRegion {
  readonly key: number;
  readonly pageBytes: number;
  readonly pages: readonly DemandPage[];
}

type Fault = Extract<RnicEvent, { type: "PAGE_FAULT" }> & { readonly isAts?: true };
type HintWorkEvent = Extract<RnicEvent, { type: "HINT_WORK" }>;

export class DemandDriver {
  readonly regions = new Map<number, DemandRegion>();
  /** Work of hints that a core was told of. */
  readonly works: HintWorkEvent[] = [];
  faults = 0;
  taken = 0;
  readonly #rig: Rig;
  readonly #side: Side;
  readonly #options: DemandOptions;
  readonly #queue: Fault[] = [];
  /** The command that is under way: the thread waits for its reply. */
  #waitsFor: { readonly id: number; readonly then: () => void } | undefined;

  constructor(rig: Rig, side: Side, options: DemandOptions) {
    this.#rig = rig;
    this.#side = side;
    this.#options = options;
    const before = side.host.hear;
    side.host.hear = (message) => {
      before(message);
      this.#hear(message);
    };
  }

  /** Registers memory whose pages the card has to ask for. It can be read and filled as it is. */
  register(options: RegionOptions): RigMr {
    const { host } = this.#side;
    const { length, va = 0x1_0000_0000, pd = 1, persistent = true } = options;
    const { pageBytes, pages } = host.allocatePages({ va, length });
    const { access: given = ACCESS.localWrite | ACCESS.remoteWrite | ACCESS.remoteRead } = options;
    const access = given | ACCESS.onDemand;
    const { objects } = options;
    const place = { pageBytes, pages: [], persistent };
    const region = { pd, va, length, access, ...place, ...(objects && { objects }) };
    const key = this.#rig.registerPlan(this.#side, region);
    this.regions.set(key, {
      key,
      pageBytes,
      pages: pages.map((frame) => ({ frame, state: "unmapped", kept: undefined })),
    });
    return { key, va, address: pages[0]! + va % pageBytes, length };
  }

  /** Takes pages of a region back. @returns once the card has let go of them. */
  take(key: number, first: number, count: number): void {
    const region = this.regions.get(key)!;
    this.#invalidate(region, { first, count });
    this.#rig.run(() => this.#waitsFor === undefined);
  }

  /** A core of the host accesses memory: pages that are away come home. */
  touch({ key, va }: Pick<RigMr, "key" | "va">, from: number, length: number): void {
    const region = this.regions.get(key);
    if (region === undefined || length === 0) return;
    const { pageBytes, pages } = region;
    const start = va % pageBytes + from;
    const end = Math.floor((start + length - 1) / pageBytes);
    for (let page = Math.floor(start / pageBytes); page <= end; page++) {
      this.#bringHome(pages[page]!);
    }
  }

  /** Brings everything home, so that a test can look at it. */
  settle(): void {
    for (const { pages } of this.regions.values()) for (const page of pages) this.#bringHome(page);
  }

  #hear(message: PcieMessage): void {
    if (message.kind === "event" && message.event.type === "PAGE_FAULT") {
      this.#queue.push(message.event);
      this.#serve();
    } else if (message.kind === "event" && message.event.type === "HINT_WORK") {
      const { host } = this.#side, { id } = message.event;
      this.works.push(message.event);
      if (this.#options.works === false) return;
      this.#send({ kind: "command", id: host.nextCommand++, command: { op: "hint-work", id } });
    } else if (message.kind === "ats") {
      this.#hearAts(message);
    } else if (message.kind === "reply" && message.id === this.#waitsFor?.id) {
      const { then } = this.#waitsFor;
      this.#waitsFor = undefined;
      then();
      this.#serve();
    } else if (message.kind === "memory-write" || message.kind === "memory-read") {
      this.#takeSome();
    }
  }

  /** The IOMMU's part, where the card asks it. */
  #hearAts(message: AtsMessage): void {
    const { step, key, first, count } = message;
    if (step === "page-request") {
      this.#queue.push({ ...message, type: "PAGE_FAULT", isAts: true });
      return this.#serve();
    }
    const { pages } = this.regions.get(key)!;
    for (let page = first; page < first + count;) {
      const from = page, isThere = pages[page]!.state === "mapped";
      while (page < first + count && (pages[page]!.state === "mapped") === isThere) page++;
      const frames = isThere ? pages.slice(from, page).map(({ frame }) => frame) : [];
      const { writable: write = true } = this.#options;
      const range = { key, first: from, count: page - from, ahead: 0 };
      const translated = { kind: "ats", step: "translated", ...range, write, frames } as const;
      this.#rig.toRnic(this.#side, translated);
    }
  }

  #takeSome(): void {
    const { rng, takeOneIn = 0 } = this.#options;
    if (takeOneIn === 0 || this.#waitsFor !== undefined || rng!.below(takeOneIn) > 0) return;
    const mapped = [...this.regions.values()].flatMap((region) =>
      region.pages.flatMap((page, first) => page.state === "mapped" ? [{ region, first }] : [])
    );
    if (mapped.length === 0) return;
    const { region, first } = mapped[rng!.below(mapped.length)]!;
    this.#invalidate(region, { first, count: 1 });
  }

  #invalidate(
    { key, pages }: DemandRegion,
    { first, count }: { readonly first: number; readonly count: number },
  ): void {
    const leaving = pages.slice(first, first + count).filter(({ state }) => state === "mapped");
    for (const page of leaving) page.state = "leaving";
    this.#command({ op: "invalidate-pages", key, first, count }, () => {
      for (const page of leaving) this.#sendAway(page);
    });
  }

  #serve(): void {
    if (this.#waitsFor !== undefined) return;
    // What hints alone have named gives way, as in the host's kernel (`nodes/host/paging`).
    const needed = this.#queue.findIndex(({ hintsOf }) => hintsOf === undefined);
    const [fault] = this.#queue.splice(Math.max(0, needed), 1);
    if (fault === undefined) return;
    this.faults++;
    const { key, first, count, ahead } = fault;
    const { pages } = this.regions.get(key)!;
    const wanted = pages.slice(first, first + count + ahead);
    for (const page of wanted) {
      this.#bringHome(page);
      page.state = "mapped";
    }
    if (fault.isAts) {
      const range = { key, first, count: count + ahead, ahead: 0, write: false, frames: [] };
      this.#send({ kind: "ats", step: "page-response", ...range });
      return this.#serve();
    }
    const frames = wanted.map(({ frame }) => frame);
    const { writable = true } = this.#options;
    this.#command({ op: "map-pages", key, first, pages: frames, writable }, () => {});
  }

  #command(command: RnicCommand, then: () => void): void {
    const { host } = this.#side;
    const id = host.nextCommand++;
    this.#waitsFor = { id, then };
    this.#send({ kind: "command", id, command });
  }

  #send(message: PcieMessage): void {
    this.#rig.toRnic(this.#side, message, this.#rig.now + this.#servicePs);
  }

  get #servicePs(): Time {
    return this.#options.servicePs ?? 1_000_000;
  }

  #sendAway(page: DemandPage): void {
    const { memory } = this.#side.host;
    page.kept = memory.slice(page.frame, page.frame + 4096);
    memory.fill(SPOILED, page.frame, page.frame + 4096);
    this.#rig.changed(this.#side, page.frame, 4096);
    page.state = "away";
    this.taken++;
  }

  #bringHome(page: DemandPage): void {
    if (page.kept === undefined) return;
    const { memory } = this.#side.host;
    const frame = memory.subarray(page.frame, page.frame + 4096);
    assert(frame.every((byte) => byte === SPOILED), "The card has written to a page taken back");
    frame.set(page.kept);
    this.#rig.changed(this.#side, page.frame, 4096);
    page.kept = undefined;
    page.state = "unmapped";
  }
}

export interface DemandOptions {
  /** How long the host takes for a page. */
  readonly servicePs?: Time;
  /** Whether a core does the work of hints that it is told of. */
  readonly works?: boolean;
  /** Whether pages may be written. */
  readonly writable?: boolean;
  readonly rng?: Rng;
  /** A page is taken back at one in so many DMA requests; 0: none. */
  readonly takeOneIn?: number;
}
