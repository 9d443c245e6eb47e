/**
 * LLC, memory controllers, DRAM and SCM of one host as one coherent memory (P-01), and the record of
 * what became persistent. Everything happens at the instant told by {@link MemorySystem.advance};
 * what it costs is answered in ps and is for the caller to let pass.
 *
 * Addresses are physical. Inside, memory is counted in lines: DRAM's first, then SCM's.
 */
import { assert } from "../../fabric/assert.ts";
import type { DurableWrite } from "../../fabric/node.ts";
import type { HostPlan } from "../../fabric/rack/plan.ts";
import type { Time } from "../../fabric/time/time.ts";
import { type Memory, memoryOf, SCM_BASE } from "./address_map.ts";
import { survives } from "./adr.ts";
import { copyBytes, takeBytes } from "./arena.ts";
import { createDram, DRAM_BLOCK_BYTES } from "./dram.ts";
import { Imc } from "./imc.ts";
import { LINE_BYTES, Llc } from "./llc.ts";
import { createScm, SCM_BLOCK_BYTES } from "./scm.ts";
import type { ImageReader, SparseBytes } from "./sparse_bytes.ts";

/**
 * A core has this many line fill buffers (Intel optimisation manual, Skylake server): that many
 * misses of one access overlap, so that later lines cost a share of the first's latency.
 */
const LINE_FILL_BUFFERS = 10;

export class MemorySystem {
  readonly llc: Llc;
  readonly dram: SparseBytes;
  readonly scm: SparseBytes;
  readonly dramImc: Imc;
  readonly scmImc: Imc;
  readonly #plan: HostPlan;
  readonly #dramLines: number;
  readonly #llcSurvives: boolean;
  readonly #line = new Uint8Array(LINE_BYTES);
  #durable: DurableWrite[] = [];

  constructor(plan: HostPlan, image?: ImageReader) {
    const { timing } = plan;
    this.#plan = plan;
    this.#dramLines = plan.dramBytes / LINE_BYTES;
    this.#llcSurvives = survives("llc", plan.domain);
    assert(survives("wpq", plan.domain), "What the iMC accepts is recorded as persistent (P-01)");
    this.dram = createDram(plan.dramBytes);
    this.scm = createScm(plan.scmBytes, image);
    this.dramImc = new Imc({
      medium: this.dram,
      lines: timing.wpqLines,
      bitsPerSecond: timing.dramWriteBitsPerSecond,
      blockBytes: DRAM_BLOCK_BYTES,
    });
    this.scmImc = new Imc({
      medium: this.scm,
      lines: timing.wpqLines,
      bitsPerSecond: timing.scmWriteBitsPerSecond,
      blockBytes: SCM_BLOCK_BYTES,
    });
    this.llc = new Llc(plan.llc, {
      lines: this.#dramLines + plan.scmBytes / LINE_BYTES,
      memory: {
        fetch: (line, target) => this.#readMemory(this.#addressOf(line), target),
        evict: (line, bytes) => this.#writeBack(line, bytes),
      },
    });
  }

  /** Says what time it is, before anything else at that time. */
  advance(now: Time): void {
    this.dramImc.advance(now);
    this.scmImc.advance(now);
  }

  /** Which memory holds the whole range; undefined where none does. */
  memoryOf(address: number, length: number): Memory | undefined {
    const { dramBytes, scmBytes } = this.#plan;
    return memoryOf({ dramBytes, scmBytes }, { from: address, length });
  }

  /** A core's load of consecutive bytes into `target`. @returns its cost. */
  load(address: number, target: Uint8Array): Time {
    const { timing } = this.#plan;
    const missPs = address >= SCM_BASE ? timing.scmLoadPs : timing.dramLoadPs;
    const { llc } = this;
    let cost = 0;
    let done = 0;
    while (done < target.length) {
      const inLine = (address + done) % LINE_BYTES;
      const length = Math.min(LINE_BYTES - inLine, target.length - done);
      const misses = llc.misses;
      const slot = llc.access(this.#lineOf(address + done), CORE_FILL);
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
    if (this.#llcSurvives && address >= SCM_BASE) this.#record(address, copyBytes(bytes));
    const first = Math.floor(address / LINE_BYTES);
    const last = Math.floor((address + bytes.length - 1) / LINE_BYTES);
    return bytes.length === 0 ? 0 : (last - first + 1) * this.#plan.timing.storePs;
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
    const imc = this.#imcOf(address);
    const base = address >= SCM_BASE ? SCM_BASE : 0;
    const first = this.#lineOf(address), last = this.#lineOf(address + bytes.length - 1);
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
    const first = this.#lineOf(address), last = this.#lineOf(address + length - 1);
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
    const first = this.#lineOf(address), last = this.#lineOf(address + length - 1);
    for (let line = first; line <= last; line++) {
      const slot = this.llc.find(line);
      if (slot < 0 || !this.llc.isDirty(slot)) continue;
      const lineAddress = this.#addressOf(line);
      const scm = lineAddress >= SCM_BASE;
      const bytes = this.llc.bytes(slot);
      this.#imcOf(lineAddress).accept(lineAddress - (scm ? SCM_BASE : 0), bytes);
      if (scm && !this.#llcSurvives) this.#record(lineAddress, copyBytes(bytes));
      this.llc.markClean(slot);
    }
  }

  /** When the iMC has room for the lines of the range: not later than now if it has already. */
  freeAt(address: number, length: number): Time {
    const lines = Math.floor((address + length - 1) / LINE_BYTES) -
      Math.floor(address / LINE_BYTES) + 1;
    return this.#imcOf(address).freeAt(lines);
  }

  /**
   * What a DMA read finds now: it looks into the LLC and leaves it as it is, or, with `noSnoop`,
   * passes it by.
   */
  dmaRead(address: number, how: { length: number; noSnoop: boolean }): Uint8Array<ArrayBuffer> {
    const data = takeBytes(how.length);
    if (how.length > 0) {
      this.#readMemory(address, data);
      if (!how.noSnoop) this.#overlayCache(address, data);
    }
    return data;
  }

  /** Where a DMA read finds its first byte now. */
  dmaReadPlace(address: number, noSnoop: boolean): "llc" | Memory {
    if (!noSnoop && this.llc.find(this.#lineOf(address)) >= 0) return "llc";
    return address >= SCM_BASE ? "scm" : "dram";
  }

  /** What became persistent since the last call, oldest first: Node.takeDurable. */
  takeDurable(): DurableWrite[] {
    const durable = this.#durable;
    if (durable.length > 0) this.#durable = [];
    return durable;
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
        const from = this.#addressOf(line) - SCM_BASE;
        if (from < 0) return;
        const lower = Math.max(from, offset), upper = Math.min(from + LINE_BYTES, offset + length);
        if (lower < upper) bytes.set(dirty.subarray(lower - from, upper - from), lower - offset);
      });
    }
    return bytes;
  }

  #lineOf(address: number): number {
    return address >= SCM_BASE
      ? this.#dramLines + Math.floor((address - SCM_BASE) / LINE_BYTES)
      : Math.floor(address / LINE_BYTES);
  }

  #addressOf(line: number): number {
    return line >= this.#dramLines
      ? SCM_BASE + (line - this.#dramLines) * LINE_BYTES
      : line * LINE_BYTES;
  }

  #imcOf(address: number): Imc {
    return address >= SCM_BASE ? this.scmImc : this.dramImc;
  }

  #readMemory(address: number, target: Uint8Array): void {
    if (address >= SCM_BASE) this.scmImc.read(address - SCM_BASE, target);
    else this.dramImc.read(address, target);
  }

  #writeCache(address: number, bytes: Uint8Array, by: "core" | "dma"): void {
    const { llc } = this;
    const whole = by === "core" ? CORE_WHOLE : DMA_WHOLE;
    const part = by === "core" ? CORE_FILL : DMA_FILL;
    let done = 0;
    // Lines that lie one behind the other in the cache, too, are copied together, as long as they are of
    // different sets: so none of them makes room for a later one before its bytes are there.
    const most = (llc.sets - 2) * LINE_BYTES;
    let from = 0, start = 0, end = 0;
    while (done < bytes.length) {
      if (done - from > most) {
        llc.data.set(bytes.subarray(from, done), start);
        from = done;
        end = -1;
      }
      const inLine = (address + done) % LINE_BYTES;
      const length = Math.min(LINE_BYTES - inLine, bytes.length - done);
      const slot = llc.access(this.#lineOf(address + done), length === LINE_BYTES ? whole : part);
      llc.markDirty(slot);
      const at = llc.at(slot) + inLine;
      if (at !== end) {
        if (done > from) llc.data.set(bytes.subarray(from, done), start);
        from = done;
        start = at;
      }
      end = at + length;
      done += length;
    }
    if (done > from) llc.data.set(from === 0 ? bytes : bytes.subarray(from), start);
  }

  /** Bytes of one line for the iMC, over what the LLC has of the line. */
  #mergeThrough(address: number, bytes: Uint8Array, imc: Imc): void {
    const scm = address >= SCM_BASE;
    const base = scm ? SCM_BASE : 0;
    const slot = this.llc.find(this.#lineOf(address));
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
    if (scm) this.#record(address - inLine, copyBytes(this.#line));
  }

  /** A dirty line that the LLC gives up: under `adr`, this is when it becomes persistent (P-04). */
  #writeBack(line: number, bytes: Uint8Array): void {
    const address = this.#addressOf(line);
    if (address < SCM_BASE) {
      this.dramImc.acceptEvicted(address, bytes);
      return;
    }
    this.scmImc.acceptEvicted(address - SCM_BASE, bytes);
    if (!this.#llcSurvives) this.#record(address, copyBytes(bytes));
  }

  #overlayCache(address: number, data: Uint8Array): void {
    const first = this.#lineOf(address), last = this.#lineOf(address + data.length - 1);
    if (this.llc.isAbsent(first, last)) return;
    const { llc } = this;
    const start = this.#addressOf(first) - address;
    // As in #writeCache, lines that lie one behind the other are copied together: `shift` leads from
    // their place in `data` to that in the cache, and those before `done` are copied.
    let done = 0, end = 0, shift = 0;
    for (let line = first; line <= last; line++) {
      const slot = llc.find(line);
      const isDirty = slot >= 0 && llc.isDirty(slot);
      const from = start + (line - first) * LINE_BYTES;
      const at = isDirty ? llc.at(slot) - from : NaN;
      if (at !== shift) {
        if (end > done) data.set(llc.data.subarray(done + shift, end + shift), done);
        done = Math.max(0, from);
        shift = at;
      }
      end = isDirty ? Math.min(data.length, from + LINE_BYTES) : 0;
    }
    if (end > done) data.set(llc.data.subarray(done + shift, end + shift), done);
  }

  /** `data` is kept as it is until it is taken. */
  #record(address: number, data: Uint8Array): void {
    const offset = address - SCM_BASE;
    // Output commit will change the file that untouched chunks are read from.
    this.scm.touch(offset, data.length);
    this.#durable.push({ offset, data });
  }
}

const CORE_FILL = { by: "core", fill: true } as const;
const CORE_WHOLE = { by: "core", fill: false } as const;
const DMA_FILL = { by: "dma", fill: true } as const;
const DMA_WHOLE = { by: "dma", fill: false } as const;
