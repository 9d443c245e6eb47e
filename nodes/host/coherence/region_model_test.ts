/**
 * What a program sees of a shared region is, call by call, what a plain model says: an array of bytes that all see,
 * the stores of its core that have not left their buffer, and what the program has seen last of each byte. The test
 * plays memory: accesses end at once or later, other hosts store between calls and while one waits.
 */
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import type { AccessRecord, AuditRecord } from "../../../fabric/audit.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { sameAsModel as same, seeded } from "../../../fabric/base/property_testing.ts";
import { NEVER, PS_PER_US, type Time } from "../../../fabric/base/time.ts";
import { BYTE_CONTENTS } from "../../../fabric/coherence/line_bytes.ts";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { Cpu, Steps, Wait } from "../cpu/program.ts";
import type { LineRequest, Outcome, RegionAccess } from "./line_access.ts";
import { RegionHandle } from "./region_handle.ts";
import { StoreBuffer } from "./store_buffer.ts";

const BYTES = 4 * LINE_BYTES, UNSURE = -1, ROOM = 3, DRAIN_PS = 500, STORE_PS = 7, PRIVATE = 16;

interface World {
  readonly memory: "sc" | "tso";
  readonly isHome: boolean;
  readonly placement: "local" | "remote";
  readonly auditing: boolean;
}

const WORLDS: readonly World[] = [
  { memory: "sc", isHome: true, placement: "remote", auditing: true },
  { memory: "sc", isHome: false, placement: "local", auditing: false },
  { memory: "tso", isHome: true, placement: "remote", auditing: false },
  { memory: "tso", isHome: false, placement: "remote", auditing: true },
];

const at = fc.oneof(fc.nat(BYTES), fc.constantFrom(0, 60, 64, 120, 128, 200));
const range = {
  offset: at,
  length: fc.oneof(fc.integer({ min: 0, max: 12 }), fc.constantFrom(64, 130)),
};
const word = fc.nat(BYTES / 8 - 1), small = fc.bigInt({ min: 0n, max: 3n });
const byte = fc.integer({ min: 0, max: 3 });
/** Whether the next accesses end at once, and what another host stores while the program waits. */
const around = { isSlow: fc.boolean(), other: fc.option(fc.record({ at, byte })) };
const ACTS = fc.oneof(
  fc.record({ kind: fc.constant("load" as const), ...range, ...around }),
  fc.record({ kind: fc.constant("load" as const), ...range, ...around }),
  fc.record({ kind: fc.constant("store" as const), ...range, byte, ...around }),
  fc.record({ kind: fc.constant("store" as const), ...range, byte, ...around }),
  fc.record({ kind: fc.constant("add" as const), word, operand: small, ...around }),
  fc.record({
    kind: fc.constant("swap" as const),
    ...{ word, compare: small, swap: small, ...around },
  }),
  fc.record({ kind: fc.constant("fence" as const), ...around }),
  fc.record({ kind: fc.constant("flush" as const), ...range, ...around }),
  fc.record({
    kind: fc.constant("wait" as const),
    ...{ ...range, forPs: fc.constantFrom(0, 2.5 * PS_PER_US), ...around },
  }),
  fc.record({ kind: fc.constant("other" as const), at, byte }),
  fc.record({
    kind: fc.constant("private" as const),
    ...{ at: fc.nat(PRIVATE - 4), length: fc.integer({ min: 1, max: 4 }), byte },
  }),
  fc.record({ kind: fc.constant("time" as const), ps: fc.constantFrom(100, 600, 5000) }),
);
type Act = typeof ACTS extends fc.Arbitrary<infer T> ? T : never;

interface Held {
  readonly offset: number;
  readonly bytes: Uint8Array;
  readonly isPrivate: boolean;
}

const lineOf = (offset: number) => Math.floor(offset / LINE_BYTES);
const linesOf = (offset: number, length: number) =>
  length === 0 ? [] : Array.from(
    { length: lineOf(offset + length - 1) - lineOf(offset) + 1 },
    (_, i) => lineOf(offset) + i,
  );

/** Here nothing is waited for. */
function* nothing(): Steps<void> {}

class Bench {
  now: Time = 0;
  readonly #world: World;
  readonly #handle: RegionHandle;
  readonly #buffer: StoreBuffer | undefined;
  readonly #region: SharedRegion;
  /** Memory as the code has made it, and as the model has. */
  readonly #memory = new Uint8Array(BYTES);
  readonly #private = new Uint8Array(PRIVATE);
  readonly #expected = new Uint8Array(BYTES);
  readonly #expectedPrivate = new Uint8Array(PRIVATE);
  /** Stores in the buffer; the oldest is in front. */
  #held: Held[] = [];
  /** Bytes as the program has seen them last, or has written them since. */
  readonly #known: (number | undefined)[] = new Array(BYTES).fill(undefined);
  readonly #requests: { readonly request: LineRequest; outcome: Outcome | undefined }[] = [];
  readonly #notes: AuditRecord[] = [];
  readonly #changes = new Map<number, number>();
  readonly #woken = new Set<number>();
  #owed: Time = 0;
  #given = 0;
  #paid = 0;
  #stored = 0;
  #polls = 0;
  #isSlow = false;
  #other: { readonly at: number; readonly byte: number } | null = null;
  /** Stores in the buffer when the call began. */
  #before: readonly Held[] = [];
  #isEmpty = false;

  constructor(world: World) {
    this.#world = world;
    this.#region = { name: "s", bytes: BYTES, placement: world.placement } as SharedRegion;
    const begin = (request: LineRequest): number => {
      this.#requests.push({ request, outcome: undefined });
      const ticket = this.#requests.length - 1;
      if (!this.#isSlow) this.#end(ticket);
      return ticket;
    };
    const outcome = (ticket: number): Outcome | undefined => {
      const found = this.#requests[ticket]!.outcome;
      if (found !== undefined) this.#given++;
      return found;
    };
    let ids = 0;
    this.#buffer = world.memory === "sc" ? undefined : new StoreBuffer({
      ...{ entries: ROOM, drainPs: DRAIN_PS, reopened: "reopened" },
      begin: ({ piece: { line }, change }) => {
        const ticket = begin({ op: "store", line, change });
        return [ticket, outcome(ticket)];
      },
      paid: () => void this.#paid++,
      knows: () => true,
      reopen: () => {},
      ticket: () => -1 - ids++,
      woken: (ticket) => void this.#woken.add(ticket),
    });
    const its: RegionAccess = {
      ...{ flushCosts: { issuePs: 11, fencePs: 13 }, storePs: STORE_PS },
      buffer: () => this.#buffer,
      isReady: () => true,
      *ready() {},
      *deregister() {},
      nextId: () => ids++,
      begin: (_, request) => begin(request),
      outcome,
      paid: () => void this.#paid++,
      flushRoomAt: () => 0,
      changesOf: (_, line) => this.#changes.get(line) ?? 0,
      signalsOf: (_, line) => [`line ${line}`],
      stored: () => void this.#stored++,
      polled: () => void this.#polls++,
    };
    // deno-lint-ignore no-this-alias
    const bench = this;
    const cpu = {
      ...{ auditing: world.auditing, core: 0, program: "p" },
      get now() {
        return bench.now;
      },
      get owedPs() {
        return bench.#owed;
      },
      note: (note: AuditRecord) => void this.#notes.push(note),
      charge: (ps: Time) => void (this.#owed += ps),
      *settle(): Steps<void> {
        yield* nothing();
        bench.now += bench.#owed;
        bench.#owed = 0;
      },
      *sfence() {},
      *waitAny(sources: unknown[], until: Time): Steps<void> {
        yield* nothing();
        bench.#waits(sources.length, until);
      },
    } as unknown as Cpu;
    const { isHome } = world;
    this.#handle = new RegionHandle(its, { region: this.#region, isHome, cpu });
  }

  /** An access takes effect, and ends. */
  #end(ticket: number): void {
    const each = this.#requests[ticket]!, { op, line, change } = each.request;
    const bytes = this.#memory.subarray(line * LINE_BYTES, (line + 1) * LINE_BYTES);
    const before = bytes.slice();
    if (op === "store") bytes.set(BYTE_CONTENTS.apply(before, change!) as Uint8Array);
    each.outcome = { result: "done", data: before, cost: { memory: 3 } };
  }

  /** The program waits for a change: another host stores, or its time comes. */
  #waits(sources: number, until: Time): void {
    const { isHome, placement } = this.#world;
    const isNear = isHome || placement === "remote";
    same(until <= this.now + PS_PER_US || isNear, true, "polls what nobody tells of");
    same(sources > 0 || this.#isEmpty, true, "waits for its lines");
    if (this.#other === null) {
      this.now = until;
      return;
    }
    this.now++;
    this.#otherStores(this.#other);
    this.#other = null;
  }

  #otherStores({ at: offset, byte: value }: { readonly at: number; readonly byte: number }): void {
    if (offset >= BYTES) return;
    this.#leave(this.#held.length - (this.#buffer?.size ?? 0));
    this.#memory[offset] = value;
    this.#expected[offset] = value;
    const line = lineOf(offset);
    this.#changes.set(line, (this.#changes.get(line) ?? 0) + 1);
  }

  /** Runs a call to its end; while it waits, the buffer's time comes and accesses end. */
  #call<T>(steps: Steps<T>): T {
    let step = steps.next();
    for (let left = 1000; !step.done; left--) {
      if (left === 0) throw new Error("a call waits for ever");
      this.#goOn();
      if (this.#isOver(step.value)) step = steps.next({ kind: "done" });
    }
    this.now += this.#owed;
    this.#owed = 0;
    return step.value;
  }

  #isOver(wait: Wait): boolean {
    same(wait.kind, "line", "what a call waits for");
    const { id } = wait as Extract<Wait, { kind: "line" }>;
    return id < 0 ? this.#woken.has(id) : this.#requests[id]!.outcome !== undefined;
  }

  #goOn(): void {
    const open = this.#requests.findIndex(({ outcome }) => outcome === undefined);
    if (open >= 0) {
      this.#end(open);
      this.now += 2;
      if (this.#buffer?.ended(open, this.#requests[open]!.outcome!, this.now)) this.#given++;
    } else if (this.#buffer !== undefined && this.#buffer.nextAt !== NEVER) {
      this.now = Math.max(this.now, this.#buffer.nextAt);
    }
    this.#buffer?.run(this.now);
  }

  /** What has left the buffer, oldest first, is what all see. */
  #leave(count: number): void {
    for (const { offset, bytes, isPrivate } of this.#held.splice(0, count)) {
      (isPrivate ? this.#expectedPrivate : this.#expected).set(bytes, offset);
    }
  }

  /** The program's own view: its stores over what all see. */
  #view(isPrivate = false): Uint8Array {
    const bytes = (isPrivate ? this.#expectedPrivate : this.#expected).slice();
    for (const each of this.#held) {
      if (each.isPrivate === isPrivate) bytes.set(each.bytes, each.offset);
    }
    return bytes;
  }

  /** The code's buffer has let go of so many; nothing else may have. */
  #follow(): void {
    const left = this.#held.length - (this.#buffer?.size ?? 0);
    same(left >= 0, true, "stores in the buffer");
    this.#leave(left);
    same(this.#memory, this.#expected, "memory");
    same(this.#private, this.#expectedPrivate, "private memory");
    same(this.#buffer?.isFull ?? false, this.#regionStores().length >= ROOM, "is full");
    const hasPrivate = this.#held.some(({ isPrivate }) => isPrivate);
    same(this.#buffer?.hasPrivate ?? false, hasPrivate, "has private stores");
    const seen = this.#private.slice(3, 11);
    this.#buffer?.overlay(3, seen);
    same(seen, this.#view(true).slice(3, 11), "a core sees its private stores");
  }

  #regionStores(): Held[] {
    return this.#held.filter(({ isPrivate }) => !isPrivate);
  }

  #noneOf(offset: number, length: number): void {
    const lines = new Set(linesOf(offset, length));
    const left = this.#regionStores().filter((each) => lines.has(lineOf(each.offset)));
    same(left.length, 0, "stores to these lines that have not left");
  }

  /** The program has seen bytes of a line, and has not, or perhaps, looked at the line's others. */
  #see(line: number, from: number, to: number, others: "seen" | "perhaps"): void {
    const view = this.#view(), known = this.#known;
    for (let i = line * LINE_BYTES; i < (line + 1) * LINE_BYTES; i++) {
      const isSure = others === "seen" || (i >= from && i < to) || known[i] === view[i];
      known[i] = isSure ? view[i] : UNSURE;
    }
  }

  do(act: Act): void {
    if ("isSlow" in act) {
      this.#isSlow = act.isSlow;
      this.#other = act.other;
    }
    const handle = this.#handle, view = this.#view();
    this.#before = this.#held.slice();
    this.#isEmpty = "length" in act && act.length === 0;
    if ("length" in act && "offset" in act) {
      const { offset, length } = act;
      if (offset + length > BYTES) return;
    }
    switch (act.kind) {
      case "load": {
        const { offset, length } = act;
        const bytes = this.#call(handle.load(offset, length));
        same(new Uint8Array(bytes), view.slice(offset, offset + length), "what a load returns");
        break;
      }
      case "store": {
        const { offset, length } = act;
        const bytes = Uint8Array.from({ length }, (_, i) => (act.byte + i) % 4);
        const steps = handle.store(offset, bytes);
        this.#begun(offset, bytes);
        this.#knowsStore(offset, bytes);
        this.#call(steps);
        bytes.fill(9);
        break;
      }
      case "add": {
        const old = this.#wordAt(view, act.word);
        same(this.#call(handle.fetchAdd(8 * act.word, act.operand)), old, "fetch-add's old value");
        this.#atomic(act.word, old + act.operand);
        break;
      }
      case "swap": {
        const { word: place, compare, swap } = act, old = this.#wordAt(view, place);
        same(this.#call(handle.compareSwap(8 * place, compare, swap)), old, "the old value");
        this.#atomic(place, old === compare ? swap : old);
        break;
      }
      case "fence":
        this.#call(handle.fence());
        same(this.#buffer?.size ?? 0, 0, "stores behind a fence");
        break;
      case "flush": {
        const { offset, length } = act, first = this.#requests.length;
        this.#call(handle.flush(offset, length));
        const flushed = this.#requests.slice(first).flatMap((
          { request: { op, line, lines = 1 } },
        ) => op === "flush" ? Array.from({ length: lines }, (_, i) => line + i) : []);
        same(flushed, linesOf(offset, length), "lines that are flushed");
        this.#follow();
        this.#noneOf(offset, length);
        break;
      }
      case "wait":
        this.#wait(act);
        break;
      case "other":
        this.#otherStores(act);
        break;
      case "private": {
        // Such a store takes effect at once where the buffer is empty.
        const { at: address, length } = act, bytes = new Uint8Array(length).fill(act.byte);
        if (this.#buffer === undefined || this.#buffer.size === 0) return;
        const done = (its: Uint8Array) => this.#private.set(its, address);
        this.#buffer.addPrivate({ address, bytes, done });
        this.#held.push({ offset: address, bytes: bytes.slice(), isPrivate: true });
        bytes.fill(9);
        break;
      }
      case "time":
        this.now += act.ps;
        this.#buffer?.run(this.now);
        break;
    }
    this.#follow();
    if (act.kind === "load") this.#loaded(act);
  }

  /** A store's pieces go into the buffer, or to memory. */
  #begun(offset: number, bytes: Uint8Array): void {
    for (let from = 0; from < bytes.length;) {
      const room = LINE_BYTES - (offset + from) % LINE_BYTES;
      const part = bytes.slice(from, from + room);
      this.#held.push({ offset: offset + from, bytes: part, isPrivate: false });
      from += room;
    }
  }

  #wordAt(bytes: Uint8Array, place: number): bigint {
    return new DataView(bytes.buffer).getBigUint64(8 * place, true);
  }

  #atomic(place: number, value: bigint): void {
    this.#leave(this.#held.length);
    new DataView(this.#expected.buffer).setBigUint64(8 * place, value, true);
    same(this.#buffer?.size ?? 0, 0, "stores behind an atomic");
    const line = lineOf(8 * place);
    this.#known.fill(undefined, line * LINE_BYTES, (line + 1) * LINE_BYTES);
  }

  #loaded({ offset, length }: { readonly offset: number; readonly length: number }): void {
    for (const line of linesOf(offset, length)) {
      const from = Math.max(offset, line * LINE_BYTES);
      const to = Math.min(offset + length, (line + 1) * LINE_BYTES);
      // From a store in the buffer, the program may have its bytes alone.
      const overlaps = this.#before.some((each) =>
        !each.isPrivate && each.offset < to && each.offset + each.bytes.length > from
      );
      this.#see(line, from, to, this.#buffer !== undefined && overlaps ? "perhaps" : "seen");
    }
  }

  /** The program does not wait for its own store. */
  #knowsStore(offset: number, bytes: Uint8Array): void {
    const known = this.#known;
    for (let from = 0; from < bytes.length;) {
      const to = Math.min(bytes.length, from + LINE_BYTES - (offset + from) % LINE_BYTES);
      const before = known.slice(offset + from, offset + to);
      const isKnown = before.some((each) => each !== undefined && each !== UNSURE);
      for (let i = from; i < to; i++) {
        if (isKnown && known[offset + i] !== UNSURE) known[offset + i] = bytes[i];
      }
      from = to;
    }
  }

  #wait(act: Extract<Act, { kind: "wait" }>): void {
    const { offset, length, forPs } = act;
    const lines = linesOf(offset, length), known = this.#known.slice(), view = this.#view();
    // What it has never seen, it sees now.
    for (const [i, each] of view.entries()) known[i] ??= each;
    const differs = (bytes: Uint8Array) =>
      bytes.subarray(offset, offset + length).some((each, i) => each !== known[offset + i]);
    const deadline = this.now + forPs;
    const result = this.#call(this.#handle.waitChange(offset, length, deadline));
    this.#follow();
    if (!known.slice(offset, offset + length).includes(UNSURE)) {
      const expected = differs(view) || differs(this.#view()) ? "changed" : "timeout";
      same(result, expected, "a wait for a change");
    }
    if (result === "timeout") {
      same(this.now >= deadline, true, "its time has come");
      this.#noneOf(offset, length);
    }
    // It goes on with the first change, and has not looked at what is behind.
    for (const line of lines) this.#see(line, 0, 0, result === "timeout" ? "seen" : "perhaps");
  }

  rest(): void {
    this.#call(this.#handle.fence());
    this.#follow();
    while (this.#buffer !== undefined && this.#buffer.nextAt !== NEVER) this.#goOn();
    const stores = this.#requests.filter(({ request: { op } }) => op === "store").length;
    same(this.#stored, stores, "stores that others of this host are told of");
    same(this.#woken.size, this.#buffer?.waits ?? 0, "waits for the buffer, woken once each");
    const { auditing } = this.#world;
    same(
      [this.#given, this.#paid],
      Array(2).fill(this.#requests.length),
      "accesses, ended and paid",
    );
    const of = (kind: AuditRecord["kind"]) => this.#notes.filter((note) => note.kind === kind);
    const begun = of("access") as AccessRecord[];
    same(of("accessed").length, begun.length, "records of ends");
    same(begun.length > 0 && !auditing, false, "records without a judge");
    const ids = begun.map(({ buffered }) => buffered).filter((id) => id !== undefined);
    same(ids, of("buffered").map((note) => (note as { id: number }).id), "buffered stores leave");
  }
}

describe("a program's view of a shared region", () => {
  for (const world of WORLDS) {
    it(`${JSON.stringify(world)}: is what the model says`, () => {
      fc.assert(
        fc.property(fc.array(ACTS, { minLength: 5, maxLength: 40, size: "max" }), (list) => {
          const bench = new Bench(world);
          for (const act of list) bench.do(act);
          bench.rest();
        }),
        seeded({ seed: 32, numRuns: 100 }),
      );
    });
  }
});
