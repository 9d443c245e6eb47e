/**
 * A model of a card's paging, from `paging/README.md`: which translations are on the chip, which pages are asked of the
 * host, once each and by which event, which accesses wait, and when they go on.
 */
import type { Time } from "../../../fabric/base/time.ts";
import type { MemoryWaiter } from "../state/paging_state.ts";
import type { Region } from "../state/memory.ts";
import type { QueuePair } from "../state/queue_pair.ts";

const PER_LINE = 8, LINE = 64, AHEAD = 1024;

interface HintOf {
  of: number | undefined;
  hasLeft: boolean;
}

export interface PageModel {
  rights: 0 | 1 | 2;
  asked: 0 | 1 | 2;
  hint: HintOf | undefined;
  frame: number | undefined;
}

export interface TableModel {
  readonly region: Region;
  readonly id: number;
  /** Undefined of pinned memory. */
  readonly pages: PageModel[] | undefined;
  readonly lines: number;
  address: number | undefined;
}

export interface PageNeed {
  readonly table: TableModel;
  readonly page: number;
  readonly rights: 1 | 2;
}

interface WaitModel {
  readonly qp: QueuePair;
  readonly kind: MemoryWaiter;
  readonly life: number;
  readonly since: Time;
  readonly pages: readonly PageNeed[];
  missing: number;
}

interface RequestModel {
  readonly table: TableModel;
  readonly first: number;
  count: number;
  ahead: number;
  readonly rights: 1 | 2;
  isAgain: boolean;
  readonly hint: HintOf | undefined;
}

export interface EventModel {
  readonly key: number;
  readonly first: number;
  readonly count: number;
  readonly ahead: number;
  readonly write: boolean;
  readonly hintsOf?: number;
}

export interface SpanModel {
  readonly table: TableModel;
  readonly first: number;
  readonly last: number;
}

export class PagingModel {
  readonly counters = {
    translationHits: 0,
    translationMisses: 0,
    translationEvictions: 0,
    pageFaults: 0,
    pagesAsked: 0,
    pageFaultsMerged: 0,
    pageStallPs: 0,
    pagesMapped: 0,
    pagesInvalidated: 0,
  };
  now: Time = 0;
  tables: TableModel[] = [];
  /** Lines on the chip; the next one to be given up is in front. */
  chip: string[] = [];
  readonly fills = new Map<string, WaitModel[]>();
  readonly waits = new Map<string, WaitModel>();
  readonly admitted = new Map<string, WaitModel>();
  readonly resumed: string[] = [];
  /** Events that have left, and those that are still being made. */
  readonly raised: EventModel[] = [];
  due: { readonly at: Time; readonly request: RequestModel }[] = [];
  invalidations: { readonly id: number; readonly frames: ReadonlySet<number> }[] = [];
  #nextId = 0;
  #next = 0x10_0000;
  readonly #free: { readonly address: number; readonly lines: number }[] = [];
  readonly #capacity: number;
  readonly #evict: "lru" | "fifo";
  readonly #requestPs: Time;

  constructor(plan: { entries: number; evict: "lru" | "fifo"; requestPs: Time }) {
    this.#capacity = Math.ceil(plan.entries / PER_LINE);
    this.#evict = plan.evict;
    this.#requestPs = plan.requestPs;
  }

  // Translations.

  get lines(): number {
    return this.tables.reduce((sum, { lines }) => sum + lines, 0);
  }

  get onDemand(): number {
    return this.tables.filter(({ pages }) => pages !== undefined).length;
  }

  /** Bytes that the driver has to give before a table of so many lines has its place. */
  needed(lines: number, end: number): number {
    if (this.lines + lines <= this.#capacity) return 0;
    const free = this.#free.map((place) => place.lines);
    let bytes = 0;
    const placeless = this.tables.filter(({ address }) => address === undefined);
    for (const size of [lines, ...placeless.map((table) => table.lines)]) {
      const place = free.indexOf(size);
      if (place >= 0) free.splice(place, 1);
      else bytes += size * LINE;
    }
    return bytes <= end - this.#next ? 0 : bytes;
  }

  hold(region: Region, isOnDemand: boolean): TableModel {
    const count = region.table.pages.length, lines = Math.ceil(count / PER_LINE);
    const spills = this.lines + lines > this.#capacity;
    const absent = (): PageModel => ({ rights: 0, asked: 0, hint: undefined, frame: undefined });
    const table: TableModel = {
      ...{ region, id: this.#nextId++, lines, address: undefined },
      pages: isOnDemand ? Array.from({ length: count }, absent) : undefined,
    };
    this.tables.push(table);
    for (const each of spills ? this.tables : []) {
      if (each.address !== undefined) continue;
      const place = this.#free.findLastIndex((free) => free.lines === each.lines);
      if (place >= 0) each.address = this.#free.splice(place, 1)[0]!.address;
      else {
        each.address = this.#next;
        this.#next += each.lines * LINE;
      }
    }
    for (let line = 0; line < lines; line++) this.#put(nameOf(table, line));
    return table;
  }

  drop(table: TableModel): void {
    if (!this.tables.includes(table)) return;
    this.tables = this.tables.filter((each) => each !== table);
    this.chip = this.chip.filter((name) => !name.startsWith(`${table.id}/`));
    const { address, lines } = table;
    if (address !== undefined) this.#free.push({ address, lines });
    table.address = undefined;
  }

  #put(name: string): void {
    if (this.chip.includes(name)) return;
    if (this.chip.length >= this.#capacity) {
      this.chip.shift();
      this.counters.translationEvictions++;
    }
    this.chip.push(name);
  }

  #look(name: string): boolean {
    const place = this.chip.indexOf(name);
    if (place < 0) {
      this.counters.translationMisses++;
      return false;
    }
    this.counters.translationHits++;
    if (this.#evict === "lru") this.chip.push(...this.chip.splice(place, 1));
    return true;
  }

  /** A line of a table has been read. */
  lineCame(table: TableModel, line: number): void {
    const name = nameOf(table, line), waits = this.fills.get(name) ?? [];
    this.fills.delete(name);
    if (this.tables.includes(table)) this.#put(name);
    for (const wait of waits) {
      wait.missing--;
      if (wait.missing === 0) this.resume(wait);
    }
  }

  // Accesses.

  /** What an access finds: it may go on, waits for translations, or has asked for pages. */
  access(
    by: { readonly qp: QueuePair; readonly kind: MemoryWaiter },
    access: {
      readonly spans: readonly SpanModel[];
      readonly beyond: readonly SpanModel[];
      readonly rights: 1 | 2;
      readonly pagesOnly: boolean;
    },
  ): "ready" | "miss" | readonly PageNeed[] {
    if (this.onDemand === 0 && this.chip.length >= this.lines) return "ready";
    const { spans, beyond, rights, pagesOnly } = access;
    const isAdmitted = this.#takeAdmission(by) || pagesOnly;
    const absent: PageNeed[] = [], lines: { table: TableModel; line: number }[] = [];
    for (const { table, first, last } of spans) {
      for (let page = first; table.pages !== undefined && page <= last; page++) {
        if (table.pages[page]!.rights < rights) absent.push({ table, page, rights });
      }
      if (isAdmitted || absent.length > 0) continue;
      for (let line = lineOf(first); line <= lineOf(last); line++) {
        if (!this.#look(nameOf(table, line))) lines.push({ table, line });
      }
    }
    if (absent.length > 0) {
      this.ask(absent, { beyond });
      return absent;
    }
    if (lines.length === 0) return "ready";
    const wait = this.wait(by, []);
    for (const { table, line } of lines) {
      wait.missing++;
      const name = nameOf(table, line), its = this.fills.get(name);
      if (its === undefined) this.fills.set(name, [wait]);
      else its.push(wait);
    }
    return "miss";
  }

  wait(
    { qp, kind }: { readonly qp: QueuePair; readonly kind: MemoryWaiter },
    pages: readonly PageNeed[],
  ): WaitModel {
    const wait = { qp, kind, life: qp.life, since: this.now, pages, missing: 0 };
    const name = `${qp.slot}/${kind}`;
    this.waits.delete(name);
    this.waits.set(name, wait);
    return wait;
  }

  isWaiting(qp: QueuePair, kind: MemoryWaiter): boolean {
    const wait = this.waits.get(`${qp.slot}/${kind}`);
    return wait?.qp === qp && wait.life === qp.life;
  }

  #takeAdmission({ qp, kind }: { readonly qp: QueuePair; readonly kind: MemoryWaiter }): boolean {
    const name = `${qp.slot}/${kind}`, wait = this.admitted.get(name);
    this.admitted.delete(name);
    return wait?.qp === qp && wait.life === qp.life;
  }

  resume(wait: WaitModel): void {
    const { qp, kind, life, pages, since } = wait, name = `${qp.slot}/${kind}`;
    if (this.waits.get(name) !== wait) return;
    this.waits.delete(name);
    if (life !== qp.life) return;
    if (pages.length === 0) this.admitted.set(name, wait);
    // What is sent again counts as it comes.
    else if (kind !== "gap" && kind !== "request") this.counters.pageStallPs += this.now - since;
    this.resumed.push(`${qp.qpn}/${kind}`);
  }

  resumeMapped(): void {
    for (const wait of [...this.waits.values()]) {
      const areThere = wait.pages.every(({ table, page, rights }) =>
        table.pages![page]!.rights >= rights || !this.tables.includes(table)
      );
      if (wait.pages.length > 0 && wait.missing === 0 && areThere) this.resume(wait);
    }
  }

  // Page requests.

  /** Asks for pages, once each; those that hints have asked for once more where a request needs them. */
  ask(
    wanted: readonly PageNeed[],
    { beyond = [], hintsOf, byCore = false }: {
      readonly beyond?: readonly SpanModel[];
      readonly hintsOf?: number;
      readonly byCore?: boolean;
    },
  ): void {
    const requests: RequestModel[] = [];
    for (const { table, page, rights } of wanted) {
      const last = requests.at(-1);
      const goesOn = last !== undefined && last.table === table && last.rights === rights &&
        last.first + last.count === page;
      const hint = hintsOf === undefined
        ? undefined
        : goesOn
        ? last.hint
        : { of: hintsOf, hasLeft: false };
      const need = this.#claim({ table, page, rights }, hint, byCore);
      if (need === "nothing") continue;
      if (goesOn) {
        last.count++;
        if (need === "first") last.isAgain = false;
      } else {
        const isAgain = need === "again";
        requests.push({ table, first: page, count: 1, ahead: 0, rights, isAgain, hint });
      }
    }
    if (requests.every(({ isAgain }) => isAgain)) this.counters.pageFaultsMerged++;
    if (requests.length === 0) return;
    this.#askBeyond(requests, beyond);
    for (const request of requests) {
      if (!request.isAgain) this.counters.pageFaults++;
      const at = this.now + (byCore ? 0 : this.#requestPs);
      if (at === this.now) this.#raise(request);
      else this.due.push({ at, request });
    }
  }

  #claim(
    { table, page, rights }: PageNeed,
    hint: HintOf | undefined,
    byCore: boolean,
  ): "nothing" | "first" | "again" {
    const its = table.pages![page]!;
    const isAsked = its.asked >= rights, before = its.hint;
    if (isAsked && hint === undefined && before !== undefined) {
      its.hint = undefined;
      const isAgain = before.hasLeft && before.of !== undefined;
      // What has not left is from now on a request's.
      if (!isAgain) before.of = undefined;
      return isAgain ? "again" : "nothing";
    }
    if (isAsked && !byCore) return "nothing";
    const isRequests = isAsked && before === undefined;
    if (!isRequests) its.hint = hint;
    its.asked = rights;
    this.counters.pagesAsked++;
    return "first";
  }

  /** A range of each table to which the message goes on: from the first page that is to be asked for to the last. */
  #askBeyond(requests: RequestModel[], beyond: readonly SpanModel[]): void {
    const { rights } = requests.at(-1)!;
    let left = AHEAD;
    for (const { table, first, last } of beyond) {
      if (table.pages === undefined) continue;
      const count = Math.min(left, last + 1 - first), due: number[] = [];
      left -= count;
      let isAgain = true;
      for (let page = first; page < first + count; page++) {
        if (table.pages[page]!.rights >= rights) continue;
        const need = this.#claim({ table, page, rights }, undefined, false);
        if (need === "nothing") continue;
        due.push(page);
        if (need === "first") isAgain = false;
      }
      if (due.length === 0) continue;
      const before = requests.at(-1)!, end = before.first + before.count + before.ahead;
      const until = due.at(-1)! + 1;
      if (before.table === table && first <= end && end <= due[0]!) {
        before.ahead = until - before.first - before.count;
        if (!isAgain) before.isAgain = false;
      } else {
        const range = { first: due[0]!, count: 0, ahead: until - due[0]! };
        requests.push({ table, ...range, rights, isAgain, hint: undefined });
      }
    }
  }

  #raise({ table, first, count, ahead, rights, isAgain, hint }: RequestModel): void {
    if (isAgain) {
      const pages = table.pages!.slice(first, first + count + ahead);
      if (pages.every((page) => page.rights >= rights)) return;
      this.counters.pageFaults++;
    }
    const event = { key: table.region.key, first, count, ahead, write: rights === 2 };
    this.raised.push(hint?.of === undefined ? event : { ...event, hintsOf: hint.of });
    if (hint !== undefined) hint.hasLeft = true;
  }

  raiseDue(): void {
    while (this.due.length > 0 && this.due[0]!.at <= this.now) {
      const { request } = this.due.shift()!;
      if (this.tables.includes(request.table)) this.#raise(request);
    }
  }

  map(table: TableModel, first: number, frames: readonly number[], rights: 1 | 2): void {
    for (const [i, frame] of frames.entries()) {
      table.pages![first + i] = { rights, asked: 0, hint: undefined, frame };
    }
    this.counters.pagesMapped += frames.length;
    this.resumeMapped();
  }

  refuse(table: TableModel, first: number, count: number): void {
    for (const page of table.pages!.slice(first, first + count)) page.asked = 0;
  }

  /** @returns the frames that it had. */
  take(table: TableModel, first: number, count: number): Set<number> {
    const frames = new Set<number>();
    for (const page of table.pages!.slice(first, first + count)) {
      if (page.frame === undefined) continue;
      frames.add(page.frame);
      page.frame = undefined;
      page.rights = 0;
    }
    this.counters.pagesInvalidated += frames.size;
    return frames;
  }

  /** @returns the commands that are answered now: in their order, each once nothing uses its frames. */
  answerInvalidations(isInUse: (frame: number) => boolean): number[] {
    const answered: number[] = [];
    while (this.invalidations.length > 0) {
      const [{ id, frames }] = this.invalidations as [PagingModel["invalidations"][0]];
      if ([...frames].some(isInUse)) break;
      answered.push(id);
      this.invalidations.shift();
    }
    return answered;
  }
}

export function nameOf({ id }: TableModel, line: number): string {
  return `${id}/${line}`;
}

export function lineOf(page: number): number {
  return Math.floor(page / PER_LINE);
}
