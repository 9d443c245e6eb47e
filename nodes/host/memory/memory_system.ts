/**
 * LLC, memory controllers, DRAM and SCM of one host as one coherent memory (P-01), and the record of durable bytes.
 * Calls happen at the time set by {@link MemorySystem.advance}; they return their cost in ps, for which the caller waits.
 *
 * Addresses are physical. Memory is numbered in lines: DRAM's first, then SCM's.
 */
import { assert } from "../../../fabric/base/assert.ts";
import type { HostPlan, Memory } from "../../../fabric/rack/plan/plan.ts";
import type { Rng } from "../../../fabric/base/rng.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { SCM_BASE } from "./address_map.ts";
import { survives } from "../../../fabric/rack/plan/persistence_domain.ts";
import { allocate, copyOf } from "../../../fabric/base/slab.ts";
import { DurableRecord, wordsOf } from "./durable_record.ts";
import type { Imc } from "./imc.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { CORE_FILL, Llc, overlayDirty, writeIntoCache } from "./llc.ts";
import { IN_ORDER, type MemoryLog } from "./memory_log.ts";
import { ForeignPages } from "./foreign_pages.ts";
import { offsetOf, PhysicalMemory } from "./physical_memory.ts";
import { SCM_ATOMIC_BYTES, stickTo } from "./scm.ts";
import { type ImageReader, overlay } from "./sparse_bytes.ts";
import { WriteCombining } from "./write_combining.ts";

/**
 * Intel optimisation manual, Skylake server: so many misses of one access of a core overlap, and
 * later lines cost a share of the first's latency.
 */
const LINE_FILL_BUFFERS = 10;

export interface MemoryOptions {
  readonly log?: MemoryLog | undefined;
  /** True if a line of DRAM is in memory plugged into the node. */
  readonly isPlugged?: (address: number) => boolean;
  readonly random?: Rng | undefined;
}

export class MemorySystem {
  readonly llc: Llc;
  /** Bytes for which the iMC has no room yet. */
  readonly streams = new Map<object, { readonly offset: number; readonly data: Uint8Array }>();
  readonly physical: PhysicalMemory;
  readonly combining: WriteCombining;
  readonly durable: DurableRecord;
  readonly foreign = new ForeignPages();
  /** Called when a core has changed bytes, in the cache or in a write-combining buffer. */
  onStored: (address: number, length: number) => void = () => {};
  pluggedLoads = 0;
  readonly #isPlugged: ((address: number) => boolean) | undefined;
  readonly #plan: HostPlan;
  readonly #llcSurvives: boolean;
  readonly #combiningSurvives: boolean;
  readonly #postedSurvives: boolean;
  readonly #line = new Uint8Array(LINE_BYTES);
  readonly #found = new Uint8Array(LINE_BYTES);
  #now: Time = 0;

  constructor(plan: HostPlan, image?: ImageReader, options: MemoryOptions = {}) {
    this.#plan = plan;
    this.#isPlugged = options.isPlugged;
    this.#llcSurvives = survives("llc", plan.domain);
    this.#combiningSurvives = survives("wcb", plan.domain);
    this.#postedSurvives = survives("iio", plan.domain);
    assert(
      survives("wpq", plan.domain),
      "Bytes accepted by the iMC are recorded as persistent (P-01)",
    );
    const stick = stickTo(plan.stuckBits);
    const { log } = options;
    const onQueued = log?.queued?.bind(log);
    const physical = new PhysicalMemory(plan, { image, stick, onQueued });
    this.physical = physical;
    this.durable = new DurableRecord(physical.scm, { log, stick });
    this.llc = new Llc({ ...plan.llc, random: options.random }, {
      lines: physical.lines,
      memory: {
        fetch: (line, target) => physical.read(physical.addressOf(line), target),
        evict: (line, bytes) => this.#writeBack(line, bytes),
      },
    });
    this.combining = new WriteCombining({
      memory: physical,
      durable: this.durable,
      survives: this.#combiningSurvives,
      evict: (address) => this.#evict(address),
    });
  }

  advance(now: Time): void {
    this.#now = now;
    this.durable.now = now;
    this.physical.advance(now);
  }

  /** @returns the cost. */
  load(address: number, target: Uint8Array): Time {
    this.combining.drain(address, target.length);
    const { timing } = this.#plan;
    const isPlugged = this.#isPlugged?.(address) === true;
    const dramPs = isPlugged ? timing.pluggedLoadPs : timing.dramLoadPs;
    const { llc } = this;
    let cost = 0;
    let done = 0;
    while (done < target.length) {
      const inLine = (address + done) % LINE_BYTES;
      const length = Math.min(LINE_BYTES - inLine, target.length - done);
      const misses = llc.misses;
      const slot = llc.access(this.physical.lineOf(address + done), CORE_FILL);
      const from = llc.at(slot) + inLine;
      target.set(llc.data.subarray(from, from + length), done);
      const latency = llc.misses === misses
        ? timing.llcHitPs
        : address >= SCM_BASE
        ? timing.scmLoadPs + this.scmWaitPs(address + done, length, this.#now + cost)
        : dramPs;
      if (isPlugged && llc.misses > misses) this.pluggedLoads++;
      cost += done === 0 ? latency : Math.ceil(latency / LINE_FILL_BUFFERS);
      done += length;
    }
    if (!this.foreign.isEmpty) this.foreign.read(address, target);
    return cost;
  }

  /** The bytes are visible at once, but volatile under `adr`. @returns the cost. */
  store(address: number, bytes: Uint8Array): Time {
    this.#writeCache(address, bytes, "core");
    this.onStored(address, bytes.length);
    if (this.#llcSurvives && address >= SCM_BASE) {
      this.durable.add(address - SCM_BASE, copyOf(bytes), IN_ORDER);
    }
    const first = Math.floor(address / LINE_BYTES);
    const last = Math.floor((address + bytes.length - 1) / LINE_BYTES);
    return bytes.length === 0 ? 0 : (last - first + 1) * this.#plan.timing.storePs;
  }

  postedArrived(address: number, bytes: Uint8Array, stack = 0): void {
    if (this.#postedSurvives && address >= SCM_BASE) {
      this.durable.addPosted(address - SCM_BASE, bytes, stack);
    }
  }

  postedLeft(address: number, bytes: Uint8Array, stack = 0): void {
    if (this.#postedSurvives && address >= SCM_BASE) {
      this.durable.postedLeft(address - SCM_BASE, bytes, stack);
    }
  }

  /** Flow 2 (P-02, P-04). `bytes` must not change afterwards. */
  dmaWriteCache(address: number, bytes: Uint8Array): void {
    if (!this.foreign.isEmpty) this.foreign.write(address, bytes);
    this.#writeCache(address, bytes, "dma");
    if (this.#llcSurvives && address >= SCM_BASE) this.#record(address, bytes);
  }

  /**
   * Flow 1, and non-temporal stores, for which the iMC has room (see {@link freeAt}); the LLC's
   * copy is merged and evicted. `bytes` must not change afterwards.
   */
  writeThrough(address: number, bytes: Uint8Array): void {
    if (!this.foreign.isEmpty) this.foreign.write(address, bytes);
    this.combining.drain(address, bytes.length);
    const imc = this.physical.imcOf(address);
    const base = address >= SCM_BASE ? SCM_BASE : 0;
    const [first, last] = this.#linesOf(address, bytes.length);
    if (this.llc.isAbsent(first, last)) {
      imc.accept(address - base, bytes);
      if (base !== 0) this.#record(address, bytes);
      return;
    }
    let done = 0;
    while (done < bytes.length) {
      const inLine = (address + done) % LINE_BYTES;
      const length = Math.min(LINE_BYTES - inLine, bytes.length - done);
      const part = bytes.subarray(done, done + length);
      this.#mergeThrough(address + done, part, imc);
      done += length;
    }
  }

  /** How many lines of the range are dirty: that cores stored, and that a device wrote last. */
  dirtyLines(address: number, length: number): { stored: number; device: number } {
    this.combining.drain(address, length);
    const [first, last] = this.#linesOf(address, length), count = { stored: 0, device: 0 };
    if (this.llc.isAbsent(first, last)) return count;
    for (let line = first; line <= last; line++) {
      const slot = this.llc.find(line);
      if (slot < 0 || !this.llc.isDirty(slot)) continue;
      if (this.llc.isOfDevice(slot)) count.device++;
      else count.stored++;
    }
    return count;
  }

  /** `clwb`: dirty lines go to the iMC, which has room, and stay cached as clean. */
  writeBackRange(address: number, length: number): void {
    const [first, last] = this.#linesOf(address, length);
    for (let line = first; line <= last; line++) {
      const slot = this.llc.find(line);
      if (slot < 0 || !this.llc.isDirty(slot)) continue;
      const lineAddress = this.physical.addressOf(line);
      const scm = lineAddress >= SCM_BASE;
      const bytes = this.llc.bytes(slot);
      this.physical.imcOf(lineAddress).accept(lineAddress - (scm ? SCM_BASE : 0), bytes);
      if (scm && !this.#llcSurvives) {
        this.durable.addLine(lineAddress - SCM_BASE, copyOf(bytes));
      }
      this.llc.markClean(slot);
    }
  }

  /**
   * A snoop's write-back (C-05): the line stays cached as clean. It passes a full queue: see {@link
   * Imc.acceptEvicted}.
   */
  cleanLine(address: number): void {
    const line = this.physical.lineOf(address), slot = this.llc.find(line);
    if (slot < 0 || !this.llc.isDirty(slot)) return;
    this.#writeBack(line, this.llc.bytes(slot));
    this.llc.markClean(slot);
  }

  /** Its bytes are lost unless written back before. */
  dropLine(address: number): void {
    const slot = this.llc.find(this.physical.lineOf(address));
    if (slot >= 0) this.llc.remove(slot);
  }

  isCached(address: number): boolean {
    return this.llc.find(this.physical.lineOf(address)) >= 0;
  }

  /** When the controllers have room for what the LLC has evicted so far; in the past if they have. */
  get evictedRoomAt(): Time {
    const { dramImc, scmImc } = this.physical;
    return Math.max(dramImc.evictedRoomAt, scmImc.evictedRoomAt);
  }

  /** When the iMC has room for the range: not later than now if there is. */
  freeAt(address: number, length: number): Time {
    return this.physical.imcOf(address).freeAt(offsetOf(address), length);
  }

  /** See {@link PhysicalMemory.scmWaitPs}. */
  scmWaitPs(address: number, length: number, at: Time = this.#now): Time {
    return this.physical.scmWaitPs(address, length, at);
  }

  /** See {@link PhysicalMemory.mediumAt}: not later than now if it has. */
  mediumAt(address: number, length: number): Time {
    this.combining.drain(address, length);
    return this.physical.mediumAt(address, length);
  }

  dmaRead(
    address: number,
    { length, noSnoop }: { length: number; noSnoop: boolean },
  ): Uint8Array<ArrayBuffer> {
    const data = allocate(length);
    if (length > 0) {
      this.combining.drain(address, length);
      this.physical.read(address, data);
      if (!noSnoop) overlayDirty(this.llc, this.#rangeOf(address), data);
      if (!this.foreign.isEmpty) this.foreign.read(address, data);
    }
    return data;
  }

  /** Newest bytes in cores and caches, including those being streamed. */
  peek(address: number, length: number): Uint8Array<ArrayBuffer> {
    const data = new Uint8Array(length);
    if (length === 0) return data;
    this.physical.read(address, data);
    overlayDirty(this.llc, this.#rangeOf(address), data);
    this.combining.overlay(address, data);
    overlay(data, address, this.streams.values());
    if (!this.foreign.isEmpty) this.foreign.read(address, data);
    return data;
  }

  /** Non-temporal stores that no iMC has yet, by physical address. */
  combined(): { readonly offset: number; readonly data: Uint8Array }[] {
    return [...this.combining.pending(), ...this.streams.values()];
  }

  /** The additional cost of a read of plugged memory, compared with DRAM; 0 for other memory. */
  dmaReadPluggedPs(address: number): Time {
    if (this.#isPlugged?.(address) !== true) return 0;
    this.pluggedLoads++;
    const { pluggedLoadPs, dramLoadPs } = this.#plan.timing;
    return pluggedLoadPs - dramLoadPs;
  }

  dmaReadPlace(address: number, noSnoop: boolean): "llc" | Memory {
    if (this.foreign.has(address)) this.#seeStores(address);
    if (!noSnoop && this.llc.find(this.physical.lineOf(address)) >= 0) return "llc";
    return address >= SCM_BASE ? "scm" : "dram";
  }

  /**
   * A native program's stores are unseen. Where a line of its memory has other bytes than this host
   * knows, the program has stored them since the line was looked at: they are in the caches, as a core's.
   */
  #seeStores(address: number): void {
    const at = address - address % LINE_BYTES, known = this.#line, found = this.#found;
    this.physical.read(at, known);
    overlayDirty(this.llc, this.#rangeOf(at), known);
    found.set(known);
    this.foreign.read(at, found);
    if (found.some((byte, i) => byte !== known[i])) this.#writeCache(at, copyOf(found), "core");
  }

  /**
   * State of the LLC's copy (C-05), as the one cache of all cores; I: none. The snoop filter knows
   * whether the card has a copy in S.
   */
  lineState(address: number): "M" | "E" | "I" {
    const slot = this.llc.find(this.physical.lineOf(address));
    if (slot < 0) return "I";
    return this.llc.isDirty(slot) ? "M" : "E";
  }

  /** The card gets a copy, so dirty lines are written to memory (C-05). */
  share(address: number, length: number): void {
    this.combining.drain(address, length);
    const [first, last] = this.#linesOf(address, length);
    for (let line = first; line <= last; line++) {
      const slot = this.llc.find(line);
      if (slot < 0 || !this.llc.isDirty(slot)) continue;
      this.#writeBack(line, this.llc.bytes(slot));
      this.llc.markClean(slot);
    }
  }

  #linesOf(address: number, length: number): readonly [first: number, last: number] {
    return [this.physical.lineOf(address), this.physical.lineOf(address + length - 1)];
  }

  #rangeOf(address: number): { line: number; inLine: number } {
    return { line: this.physical.lineOf(address), inLine: address % LINE_BYTES };
  }

  #writeCache(address: number, bytes: Uint8Array, by: "core" | "dma"): void {
    this.combining.drain(address, bytes.length);
    writeIntoCache(this.llc, this.#rangeOf(address), { bytes, by });
    if (this.durable.isLogged) this.#logDirty(address, bytes.length, by);
  }

  #logDirty(address: number, length: number, by: "core" | "dma"): void {
    if (address < SCM_BASE || this.#llcSurvives) return;
    const end = address + length;
    for (let at = address - address % LINE_BYTES; at < end; at += LINE_BYTES) {
      const slot = this.llc.find(this.physical.lineOf(at));
      // Later lines of a write larger than a set evict earlier ones, which are durable then.
      if (slot < 0) continue;
      const from = Math.max(0, address - at), to = Math.min(LINE_BYTES, end - at);
      this.durable.dirty(
        at - SCM_BASE,
        this.llc.bytes(slot),
        by === "core" ? wordsOf(from, to) : 0,
      );
    }
  }

  #mergeThrough(address: number, bytes: Uint8Array, imc: Imc): void {
    const scm = address >= SCM_BASE;
    const base = scm ? SCM_BASE : 0;
    const slot = this.llc.find(this.physical.lineOf(address));
    if (slot < 0 || !this.llc.isDirty(slot)) {
      if (slot >= 0) this.llc.remove(slot);
      imc.accept(address - base, bytes);
      if (scm) this.#record(address, bytes);
      return;
    }
    const inLine = address % LINE_BYTES;
    this.#line.set(this.llc.bytes(slot));
    this.#line.set(bytes, inLine);
    this.llc.remove(slot);
    imc.accept(address - inLine - base, this.#line);
    if (scm) this.durable.addLine(address - inLine - SCM_BASE, copyOf(this.#line));
  }

  /** P-04: under `adr` the evicted line becomes persistent now. */
  #writeBack(line: number, bytes: Uint8Array): void {
    const address = this.physical.addressOf(line);
    if (address < SCM_BASE) {
      this.physical.dramImc.acceptEvicted(address, bytes);
      return;
    }
    this.physical.scmImc.acceptEvicted(address - SCM_BASE, bytes);
    if (!this.#llcSurvives) this.durable.addLine(address - SCM_BASE, copyOf(bytes));
  }

  #evict(address: number): void {
    const line = this.physical.lineOf(address);
    const slot = this.llc.find(line);
    if (slot < 0) return;
    if (this.llc.isDirty(slot)) this.#writeBack(line, this.llc.bytes(slot));
    this.llc.remove(slot);
  }

  /** `data` must not change until it is taken. */
  #record(address: number, data: Uint8Array): void {
    // A device's write is atomic already where a core's stores survive at once: see {@link
    // postedArrived}.
    const unit = this.#combiningSurvives ? IN_ORDER : SCM_ATOMIC_BYTES;
    this.durable.add(address - SCM_BASE, data, unit);
  }
}
