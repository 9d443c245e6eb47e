/**
 * Plays random operations on a small memory system, beside a model of what cores and devices see and of
 * what has come but is not in memory yet: for property tests of what survives.
 */
import fc from "fast-check";
import type { HostPlan } from "../../../fabric/rack/plan/plan.ts";
import { SCM_BASE } from "./address_map.ts";
import { type PersistenceDomain, survives } from "../../../fabric/rack/plan/persistence_domain.ts";
import { pattern, type PlanChanges, rigPlan } from "../testing/host_testing.ts";
import { LogBook } from "./memory_log_testing.ts";
import { MemorySystem } from "./memory_system.ts";
import { stickTo } from "./scm.ts";
import { overlay } from "./sparse_bytes.ts";

/** Bytes of DRAM, and of SCM. */
export const PLAY_BYTES = 4096;

const KINDS = [
  "store",
  "dma",
  "through",
  "flush",
  "load",
  "read",
  "ntstore",
  "sfence",
  "post",
  "drain",
] as const;

export interface Operation {
  readonly kind: typeof KINDS[number];
  readonly scm: boolean;
  readonly from: number;
  readonly length: number;
  readonly after: number;
  /** Which core does it; a posted write goes into the LLC from core 1's. */
  readonly core: 0 | 1;
}

export const operations: fc.Arbitrary<Operation[]> = fc.array(
  fc.record({
    kind: fc.constantFrom(...KINDS),
    scm: fc.oneof({ weight: 3, arbitrary: fc.constant(true) }, fc.boolean()),
    // Most of them near each other, so that they meet.
    from: fc.oneof(fc.nat(PLAY_BYTES - 1), fc.nat(400)),
    length: fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 16 })),
    after: fc.constantFrom(0, 0, 1000, 30_000),
    core: fc.constantFrom(0, 1),
  }),
  { maxLength: 60 },
);

interface Posted {
  readonly scm: boolean;
  from: number;
  bytes: Uint8Array<ArrayBuffer>;
}

export class MemoryPlay {
  readonly memory: MemorySystem;
  readonly book = new LogBook(PLAY_BYTES);
  /** What cores and devices see. */
  readonly scm: Uint8Array<ArrayBuffer>;
  readonly dram = new Uint8Array(PLAY_BYTES);
  /** What has become durable, by the record. */
  readonly durable: Uint8Array<ArrayBuffer>;
  /** In the IIO, oldest first. */
  readonly posted: Posted[] = [];
  /** Bytes of SCM that were stored past the cache since the last fence of that core. */
  readonly unfenced = [new Set<number>(), new Set<number>()];
  readonly #plan: HostPlan;
  readonly #cores = [{}, {}];
  #now = 0;
  #salt = 0;

  constructor(domain: PersistenceDomain, changes: PlanChanges = {}) {
    const initial = pattern(PLAY_BYTES, 9);
    this.scm = initial.slice();
    this.durable = initial.slice();
    this.book.image.set(initial);
    // Room for 16 lines in the LLC, 4 of them for DDIO, so that everything happens soon.
    const llc = { bytes: 1024, ways: 4, ddioWays: 1 };
    const sizes = { llc, dramBytes: PLAY_BYTES, scmBytes: PLAY_BYTES };
    this.#plan = rigPlan({ ...sizes, domain, ...changes });
    this.memory = new MemorySystem(
      this.#plan,
      (offset, length) => initial.subarray(offset, offset + length),
      { log: this.book },
    );
  }

  /** All of SCM as it is seen. */
  seen(): Uint8Array<ArrayBuffer> {
    return this.memory.peek(SCM_BASE, PLAY_BYTES);
  }

  /** SCM as a power failure would leave it, computed from every place by `survives`. */
  survivors(): Uint8Array<ArrayBuffer> {
    const { physical, llc, combining, durable } = this.memory;
    const { domain, stuckBits } = this.#plan;
    const bytes = new Uint8Array(PLAY_BYTES);
    physical.scmImc.read(0, bytes);
    for (let offset = 0; offset < PLAY_BYTES && survives("llc", domain); offset += 64) {
      const slot = llc.find(physical.lineOf(SCM_BASE + offset));
      if (slot >= 0 && llc.isDirty(slot)) overlay(bytes, 0, [{ offset, data: llc.bytes(slot) }]);
    }
    if (survives("wcb", domain)) combining.overlay(SCM_BASE, bytes);
    durable.overlayPosted(0, bytes);
    return new Uint8Array(stickTo(stuckBits)?.(0, bytes) ?? bytes);
  }

  /** SCM as it will be seen when all that was posted is in memory. */
  afterPosted(): Uint8Array<ArrayBuffer> {
    const bytes = this.scm.slice();
    for (const { scm, from, bytes: posted } of this.posted) if (scm) bytes.set(posted, from);
    return bytes;
  }

  /** @returns what a load or read found, beside what it should have. */
  apply(operation: Operation): { found: Uint8Array; expected: Uint8Array } | undefined {
    this.#advance(this.#now + operation.after);
    const looked = this.#do(operation);
    for (const { offset, data } of this.memory.durable.take()) this.durable.set(data, offset);
    return looked;
  }

  #do(operation: Operation): { found: Uint8Array; expected: Uint8Array } | undefined {
    const { kind, scm, from, core } = operation;
    const { memory } = this;
    const length = Math.min(operation.length, PLAY_BYTES - from);
    const address = (scm ? SCM_BASE : 0) + from;
    const content = scm ? this.scm : this.dram;
    switch (kind) {
      case "load": {
        const found = new Uint8Array(length);
        memory.load(address, found);
        return { found, expected: content.slice(from, from + length) };
      }
      case "read": {
        const found = new Uint8Array(memory.dmaRead(address, { length, noSnoop: false }));
        return { found, expected: content.slice(from, from + length) };
      }
      case "flush":
        this.#advance(memory.freeAt(address, length));
        memory.writeBackRange(address, length);
        break;
      case "sfence":
        this.#fence(core);
        break;
      case "post":
        this.posted.push({ scm, from, bytes: pattern(length, ++this.#salt) });
        memory.postedArrived(address, this.posted.at(-1)!.bytes);
        break;
      case "drain":
        this.#drain(core === 1);
        break;
      default:
        this.#write(kind, { scm, from, bytes: pattern(length, ++this.#salt) }, core);
    }
    return undefined;
  }

  #write(kind: "store" | "dma" | "through" | "ntstore", piece: Posted, core: 0 | 1): void {
    const { memory } = this;
    const { scm, from, bytes } = piece;
    const address = (scm ? SCM_BASE : 0) + from;
    if (kind === "through") this.#advance(memory.freeAt(address, bytes.length));
    if (kind === "store") memory.store(address, bytes);
    if (kind === "dma") memory.dmaWriteCache(address, bytes);
    if (kind === "through") memory.writeThrough(address, bytes);
    if (kind === "ntstore") {
      memory.combining.store(this.#cores[core]!, address, bytes);
      if (scm) { for (let i = 0; i < bytes.length; i++) this.unfenced[core]!.add(from + i); }
    }
    (scm ? this.scm : this.dram).set(bytes, from);
  }

  #fence(core: 0 | 1): void {
    for (;;) {
      const buffer = this.memory.combining.oldestOf(this.#cores[core]!);
      if (buffer === undefined) break;
      this.#advance(this.memory.freeAt(buffer.address, 64));
      this.memory.combining.release(buffer);
    }
    this.unfenced[core]!.clear();
  }

  /** A piece of the oldest posted write goes to memory. */
  #drain(intoCache: boolean): void {
    const first = this.posted[0];
    if (first === undefined) return;
    const length = Math.min(64 - first.from % 64, first.bytes.length);
    const { scm, from } = first;
    const bytes = first.bytes.subarray(0, length);
    this.#write(intoCache ? "dma" : "through", { scm, from, bytes }, 0);
    this.memory.postedLeft((scm ? SCM_BASE : 0) + from, bytes);
    first.from += length;
    first.bytes = first.bytes.subarray(length);
    if (first.bytes.length === 0) this.posted.shift();
  }

  #advance(to: number): void {
    this.#now = Math.max(this.#now, to);
    this.memory.advance(this.#now);
  }
}
