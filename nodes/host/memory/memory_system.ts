/**
 * LLC, memory controllers, DRAM and SCM of one host as one coherent memory (P-01), and the record of
 * what became persistent. Everything happens at the instant told by {@link MemorySystem.advance};
 * what it costs is answered in ps and is for the caller to let pass.
 *
 * Addresses are physical. Inside, memory is counted in lines: DRAM's first, then SCM's.
 */
import { assert } from "../../../fabric/base/assert.ts";
import type { DurableWrite } from "../../../fabric/node.ts";
import type { HostPlan } from "../../../fabric/rack/plan/plan.ts";
import type { Rng } from "../../../fabric/base/rng.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { type Memory, SCM_BASE } from "./address_map.ts";
import { survives } from "./adr.ts";
import { allocate, copyOf } from "../../../fabric/base/slab.ts";
import { DurableRecord, wordsOf } from "./durable_record.ts";
import type { Imc } from "./imc.ts";
import { CORE_FILL, LINE_BYTES, Llc, overlayDirty, writeIntoCache } from "./llc.ts";
import { IN_ORDER, type MemoryLog } from "./memory_log.ts";
import { offsetOf, PhysicalMemory } from "./physical_memory.ts";
import { SCM_ATOMIC_BYTES, stickTo } from "./scm.ts";
import type { ImageReader, SparseBytes, Stick } from "./sparse_bytes.ts";
import { type CombiningBuffer, WriteCombining } from "./write_combining.ts";
import type { XpBuffer } from "./xp_buffer.ts";

/**
 * A core has this many line fill buffers (Intel optimisation manual, Skylake server): that many
 * misses of one access overlap, so that later lines cost a share of the first's latency.
 */
const LINE_FILL_BUFFERS = 10;

export interface MemoryOptions {
  /** Told what becomes of SCM, and when. Changes nothing else. */
  readonly log?: MemoryLog | undefined;
  /** Draws which line of a full set makes room, where the plan says `random`. */
  readonly random?: Rng | undefined;
}

export class MemorySystem {
  readonly llc: Llc;
  /** What each core is streaming to memory at this moment and the iMC has no room for yet. */
  readonly streams = new Map<object, { readonly address: number; readonly data: Uint8Array }>();
  readonly dram: SparseBytes;
  readonly scm: SparseBytes;
  readonly dramImc: Imc;
  readonly scmImc: Imc;
  readonly scmBuffer: XpBuffer;
  readonly #plan: HostPlan;
  readonly #physical: PhysicalMemory;
  readonly #llcSurvives: boolean;
  readonly #combiningSurvives: boolean;
  readonly #postedSurvives: boolean;
  readonly #stick: Stick | undefined;
  readonly #durable: DurableRecord;
  readonly #combining: WriteCombining;
  readonly #line = new Uint8Array(LINE_BYTES);

  constructor(plan: HostPlan, image?: ImageReader, options: MemoryOptions = {}) {
    this.#plan = plan;
    this.#llcSurvives = survives("llc", plan.domain);
    this.#combiningSurvives = survives("wcb", plan.domain);
    this.#postedSurvives = survives("iio", plan.domain);
    assert(survives("wpq", plan.domain), "What the iMC accepts is recorded as persistent (P-01)");
    this.#stick = stickTo(plan.stuckBits);
    const physical = new PhysicalMemory(plan, { image, stick: this.#stick });
    this.#physical = physical;
    this.dram = physical.dram;
    this.scm = physical.scm;
    this.dramImc = physical.dramImc;
    this.scmImc = physical.scmImc;
    this.scmBuffer = physical.scmBuffer;
    this.#durable = new DurableRecord(this.scm, { log: options.log, stick: this.#stick });
    this.llc = new Llc({ ...plan.llc, random: options.random }, {
      lines: physical.lines,
      memory: {
        fetch: (line, target) => physical.read(physical.addressOf(line), target),
        evict: (line, bytes) => this.#writeBack(line, bytes),
      },
    });
    this.#combining = new WriteCombining({
      memory: physical,
      durable: this.#durable,
      survives: this.#combiningSurvives,
      evict: (address) => this.#evict(address),
    });
  }

  /** Says what time it is, before anything else at that time. */
  advance(now: Time): void {
    this.#durable.now = now;
    this.#physical.advance(now);
  }

  /** Whether there is a {@link MemoryLog}, so that what makes no difference has its time too. */
  get isLogged(): boolean {
    return this.#durable.isLogged;
  }

  /** Says at what time the log is to have what comes next; the memory controllers do not notice. */
  date(at: Time): void {
    this.#durable.now = at;
  }

  /** Which memory holds the whole range; undefined where none does. */
  memoryOf(address: number, length: number): Memory | undefined {
    return this.#physical.memoryOf(address, length);
  }

  /** A core's load of consecutive bytes into `target`. @returns its cost. */
  load(address: number, target: Uint8Array): Time {
    this.#combining.drain(address, target.length);
    const { timing } = this.#plan;
    const missPs = address >= SCM_BASE ? timing.scmLoadPs : timing.dramLoadPs;
    const { llc } = this;
    let cost = 0;
    let done = 0;
    while (done < target.length) {
      const inLine = (address + done) % LINE_BYTES;
      const length = Math.min(LINE_BYTES - inLine, target.length - done);
      const misses = llc.misses;
      const slot = llc.access(this.#physical.lineOf(address + done), CORE_FILL);
      const from = llc.at(slot) + inLine;
      target.set(llc.data.subarray(from, from + length), done);
      const latency = llc.misses === misses ? timing.llcHitPs : missPs;
      cost += done === 0 ? latency : Math.ceil(latency / LINE_FILL_BUFFERS);
      done += length;
    }
    return cost;
  }

  /** A core's store of consecutive bytes: visible at once, volatile under `adr`. @returns its cost. */
  store(address: number, bytes: Uint8Array): Time {
    this.#writeCache(address, bytes, "core");
    if (this.#llcSurvives && address >= SCM_BASE) {
      this.#durable.add(address - SCM_BASE, copyOf(bytes), IN_ORDER);
    }
    const first = Math.floor(address / LINE_BYTES);
    const last = Math.floor((address + bytes.length - 1) / LINE_BYTES);
    return bytes.length === 0 ? 0 : (last - first + 1) * this.#plan.timing.storePs;
  }

  /**
   * A core's non-temporal store: its bytes wait in the core's write-combining buffers, where it loses
   * them at a power failure. They hide a line from the LLC: it gives the line up first.
   * @param core whose buffers.
   * @returns bytes that left for memory, as a buffer had to be had.
   */
  ntstore(core: object, address: number, bytes: Uint8Array): number {
    return this.#combining.store(core, address, bytes);
  }

  /** The oldest of a core's write-combining buffers that is in use. */
  combined(core: object): CombiningBuffer | undefined {
    return this.#combining.oldestOf(core);
  }

  /** Lets a write-combining buffer go to the iMC, which has room, unless it has gone meanwhile. */
  release(buffer: CombiningBuffer): void {
    this.#combining.release(buffer);
  }

  /** A posted write has come into the IIO; {@link postedLeft} says how much of it is in memory. */
  postedArrived(address: number, bytes: Uint8Array): void {
    if (this.#postedSurvives && address >= SCM_BASE) {
      this.#durable.addPosted(address - SCM_BASE, bytes);
    }
  }

  /** So many bytes more of the oldest posted write have been written from `address` on. */
  postedLeft(address: number, length: number): void {
    if (this.#postedSurvives && address >= SCM_BASE) this.#durable.posted.leave(length);
  }

  /** Flow 2: a DMA write into the LLC (P-02, P-04). `bytes` must not change any more. */
  dmaWriteCache(address: number, bytes: Uint8Array): void {
    this.#writeCache(address, bytes, "dma");
    if (this.#llcSurvives && address >= SCM_BASE) this.#record(address, bytes);
  }

  /**
   * Flow 1, and non-temporal stores: bytes for the iMC, which has room (see {@link freeAt}). A copy of
   * the line in the LLC is merged and given up. `bytes` must not change any more.
   */
  writeThrough(address: number, bytes: Uint8Array): void {
    this.#combining.drain(address, bytes.length);
    const imc = this.#physical.imcOf(address);
    const base = address >= SCM_BASE ? SCM_BASE : 0;
    const first = this.#physical.lineOf(address),
      last = this.#physical.lineOf(address + bytes.length - 1);
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

  /** Dirty lines of the LLC among the lines that the range touches. */
  dirtyLines(address: number, length: number): number {
    this.#combining.drain(address, length);
    const first = this.#physical.lineOf(address),
      last = this.#physical.lineOf(address + length - 1);
    if (this.llc.isAbsent(first, last)) return 0;
    let count = 0;
    for (let line = first; line <= last; line++) {
      const slot = this.llc.find(line);
      if (slot >= 0 && this.llc.isDirty(slot)) count++;
    }
    return count;
  }

  /** `clwb` of the range's lines: dirty ones go to the iMC, which has room, and stay clean. */
  writeBackRange(address: number, length: number): void {
    const first = this.#physical.lineOf(address),
      last = this.#physical.lineOf(address + length - 1);
    for (let line = first; line <= last; line++) {
      const slot = this.llc.find(line);
      if (slot < 0 || !this.llc.isDirty(slot)) continue;
      const lineAddress = this.#physical.addressOf(line);
      const scm = lineAddress >= SCM_BASE;
      const bytes = this.llc.bytes(slot);
      this.#physical.imcOf(lineAddress).accept(lineAddress - (scm ? SCM_BASE : 0), bytes);
      if (scm && !this.#llcSurvives) {
        this.#durable.addLine(lineAddress - SCM_BASE, copyOf(bytes));
      }
      this.llc.markClean(slot);
    }
  }

  /** When the iMC has room for the lines of the range: not later than now if it has already. */
  freeAt(address: number, length: number): Time {
    const lines = Math.floor((address + length - 1) / LINE_BYTES) -
      Math.floor(address / LINE_BYTES) + 1;
    return this.#physical.imcOf(address).freeAt(lines);
  }

  /** When the medium itself has what was written to the range so far: not later than now if it has. */
  mediumAt(address: number, length: number): Time {
    this.#combining.drain(address, length);
    return this.#physical.imcOf(address).drainedAt(offsetOf(address), length);
  }

  /**
   * What a DMA read finds now: it looks into the LLC and leaves it as it is, or, with `noSnoop`,
   * passes it by.
   */
  dmaRead(address: number, how: { length: number; noSnoop: boolean }): Uint8Array<ArrayBuffer> {
    const data = allocate(how.length);
    if (how.length > 0) {
      this.#combining.drain(address, how.length);
      this.#physical.read(address, data);
      if (!how.noSnoop) overlayDirty(this.llc, this.#rangeOf(address), data);
    }
    return data;
  }

  /**
   * The newest bytes of the range wherever they are in this host's cores and caches, those that a core
   * is just streaming out included. Looking changes nothing.
   */
  peek(address: number, length: number): Uint8Array<ArrayBuffer> {
    const data = new Uint8Array(length);
    if (length === 0) return data;
    this.#physical.read(address, data);
    overlayDirty(this.llc, this.#rangeOf(address), data);
    this.#combining.overlay(address, data);
    for (const { address: at, data: chunk } of this.streams.values()) {
      const from = Math.max(at, address), to = Math.min(at + chunk.length, address + length);
      if (from < to) data.set(chunk.subarray(from - at, to - at), from - address);
    }
    return data;
  }

  /** Where a DMA read finds its first byte now. */
  dmaReadPlace(address: number, noSnoop: boolean): "llc" | Memory {
    if (!noSnoop && this.llc.find(this.#physical.lineOf(address)) >= 0) return "llc";
    return address >= SCM_BASE ? "scm" : "dram";
  }

  /**
   * Bytes of SCM survive from now on though they have not left where they are: a cache may write a line
   * back sooner than this one does (P-04). Nothing else notices.
   */
  keep(offset: number, bytes: Uint8Array): void {
    this.#durable.add(offset, bytes);
  }

  /** What became persistent since the last call, oldest first: Node.takeDurable. */
  takeDurable(): DurableWrite[] {
    return this.#durable.take();
  }

  /**
   * The SCM's bytes from `offset` that a power failure would leave, found by looking at every place
   * and asking `adr.ts`: what the record of durable writes is checked against.
   */
  survivors(offset: number, length: number): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(length);
    this.scmImc.read(offset, bytes);
    if (this.#llcSurvives) {
      this.llc.forEachDirty((line, dirty) => {
        const from = this.#physical.addressOf(line) - SCM_BASE;
        if (from < 0) return;
        const lower = Math.max(from, offset), upper = Math.min(from + LINE_BYTES, offset + length);
        if (lower < upper) bytes.set(dirty.subarray(lower - from, upper - from), lower - offset);
      });
    }
    if (this.#combiningSurvives) this.#combining.overlay(SCM_BASE + offset, bytes);
    this.#durable.posted.overlay(offset, bytes);
    bytes.set(this.#stick?.(offset, bytes) ?? bytes);
    return bytes;
  }

  #rangeOf(address: number): { line: number; inLine: number } {
    return { line: this.#physical.lineOf(address), inLine: address % LINE_BYTES };
  }

  #writeCache(address: number, bytes: Uint8Array, by: "core" | "dma"): void {
    this.#combining.drain(address, bytes.length);
    writeIntoCache(this.llc, this.#rangeOf(address), { bytes, by });
    if (this.#durable.isLogged) this.#logDirty(address, bytes.length, by);
  }

  /** Tells the log of the lines that a write into the LLC has just left there, with all their bytes. */
  #logDirty(address: number, length: number, by: "core" | "dma"): void {
    if (address < SCM_BASE || this.#llcSurvives) return;
    const end = address + length;
    for (let at = address - address % LINE_BYTES; at < end; at += LINE_BYTES) {
      const slot = this.llc.find(this.#physical.lineOf(at));
      // A write larger than a set makes room for its end by its begin, which is durable then.
      if (slot < 0) continue;
      const from = Math.max(0, address - at), to = Math.min(LINE_BYTES, end - at);
      this.#durable.dirty(
        at - SCM_BASE,
        this.llc.bytes(slot),
        by === "core" ? wordsOf(from, to) : 0,
      );
    }
  }

  /** Bytes of one line for the iMC, over what the LLC has of the line. */
  #mergeThrough(address: number, bytes: Uint8Array, imc: Imc): void {
    const scm = address >= SCM_BASE;
    const base = scm ? SCM_BASE : 0;
    const slot = this.llc.find(this.#physical.lineOf(address));
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
    if (scm) this.#durable.addLine(address - inLine - SCM_BASE, copyOf(this.#line));
  }

  /** A dirty line that the LLC gives up: under `adr`, this is when it becomes persistent (P-04). */
  #writeBack(line: number, bytes: Uint8Array): void {
    const address = this.#physical.addressOf(line);
    if (address < SCM_BASE) {
      this.dramImc.acceptEvicted(address, bytes);
      return;
    }
    this.scmImc.acceptEvicted(address - SCM_BASE, bytes);
    if (!this.#llcSurvives) this.#durable.addLine(address - SCM_BASE, copyOf(bytes));
  }

  /** The LLC forgets the line at `address`; what of it is dirty goes to memory. */
  #evict(address: number): void {
    const line = this.#physical.lineOf(address);
    const slot = this.llc.find(line);
    if (slot < 0) return;
    if (this.llc.isDirty(slot)) this.#writeBack(line, this.llc.bytes(slot));
    this.llc.remove(slot);
  }

  /** `data` is kept as it is until it is taken. */
  #record(address: number, data: Uint8Array): void {
    // Where nothing is lost that a core has stored, a device's write is whole already: see {@link postedArrived}.
    const unit = this.#combiningSurvives ? IN_ORDER : SCM_ATOMIC_BYTES;
    this.#durable.add(address - SCM_BASE, data, unit);
  }
}
