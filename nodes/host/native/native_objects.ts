/**
 * A native program as its host has it: the handles that the program knows its objects by, and the parts
 * of its memory that the card may reach.
 */
import type { Time } from "../../../fabric/base/time.ts";
import type { ForeignMemory } from "../memory/foreign_pages.ts";
import { type Buffer, DRAM_PAGE_BYTES, SCM_BASE } from "../memory/address_map.ts";
import type { Outside, Steps } from "../cpu/program.ts";
import type { OpenDevice } from "../open_device.ts";
import type { ProgramContext, ProgramCpu } from "../program_context.ts";
import { verbError } from "../verbs/errors.ts";
import type { CompChannel, VerbError } from "../verbs/objects.ts";
import type { ErrnoName } from "./numbers.ts";
import { LocalPolls } from "./local_polls.ts";
import type { NativeProcess } from "./port.ts";
import { RdmaCm } from "./rdma_cm.ts";
import type { Family } from "./family.ts";
import { Sockets } from "./sockets.ts";
import { Threads } from "./threads.ts";

/** A call that the host refuses, by the errno that the program gets. */
export interface NativeError {
  readonly errno: ErrnoName;
  readonly reason: string;
}

/**
 * [choice] The cost of a read of the clock through the vDSO, and of `rdtsc`: some 20 ns and 20 cycles on
 * processors of 2.5 GHz (Agner Fog, Instruction tables, RDTSC: 20 to 40 cycles).
 */
export const CLOCK_PS: Time = 20_000, TSC_PS: Time = 10_000;
/** [choice] Ticks of the time stamp counter. */
export const TICKS_PER_US = 2_500;
/** Real time after which a thread without a request is looked at, and after which it is given up. */
export const SPIN_US = 200, STUCK_US = 20_000_000;

/** The largest bounce buffer for inline data: the WQEs' room is less. */
const INLINE_BYTES = DRAM_PAGE_BYTES;

/** A part of SCM, and where the process has it. */
export interface ScmPart {
  readonly offset: number;
  readonly length: number;
  readonly address: number;
}

export class NativeObjects implements ForeignMemory {
  readonly cpu: ProgramCpu;
  readonly device: OpenDevice;
  readonly sockets: Sockets;
  readonly cm: RdmaCm;
  readonly threads: Threads;
  readonly polls: LocalPolls;
  readonly process: NativeProcess;
  readonly outside: Outside;
  readonly family: Family;
  /** The number that the program sees. */
  readonly pid: number;
  readonly options: ProgramContext["options"];
  /** The devices that it has opened, by their handles. */
  readonly opened = new Map<number, OpenDevice>();
  /** Steps in which it has stored into several cache lines of SCM: what order they had is unknown. */
  steps = 0;
  /** Of a card, by its state: as it has answered last. */
  readonly gidTypes = new Map<object, "roce-v1" | "roce-v2">();
  /** Of exit(3); undefined: it has not called it. */
  exitCode: number | undefined;
  isReplaced = false;
  #watchers = 0;
  readonly #signal: string;
  readonly #byHandle = new Map<number, object>();
  readonly #handles = new Map<object, number>();
  readonly #mapped = new Map<object, Buffer>();
  readonly #scm = new Map<number, ScmPart>();
  #inline: Buffer | undefined;
  #inlineUsed = 0;

  /** @param family of all processes of the program. */
  constructor(
    { cpu, device, options }: ProgramContext,
    process: NativeProcess,
    { family, pid }: { readonly family: Family; readonly pid: number },
  ) {
    this.cpu = cpu;
    this.family = family;
    this.pid = pid;
    this.device = device;
    this.cm = new RdmaCm(device);
    this.threads = new Threads(cpu);
    this.sockets = new Sockets({ cpu, device }, {
      cm: this.cm,
      channel: (handle) => this.#byHandle.get(handle) as CompChannel | undefined,
      device: (handle) => this.opened.get(handle),
    }, family.sockets);
    this.process = process;
    this.outside = cpu.outside!;
    this.polls = new LocalPolls(this.outside);
    this.options = options;
    this.#signal = `native-written:${cpu.program}`;
  }

  /** What a poll takes that finds its queue empty, the line at which it looks in the cache. */
  get emptyPollPs(): Time {
    const { pollPs, llcHitPs } = this.device.state.timing;
    return pollPs + llcHitPs;
  }

  /** Whether a thread waits for a write of the card. */
  get isWatched(): boolean {
    return this.#watchers > 0;
  }

  /** A new handle, above 0. */
  handle(object: object): number {
    // No other process's: what a child has inherited of its parent's is none of its own.
    const handle = this.family.nextHandle++;
    this.#byHandle.set(handle, object);
    this.#handles.set(object, handle);
    return handle;
  }

  /** 0 for an object without a handle. */
  handleOf(object: object): number {
    return this.#handles.get(object) ?? 0;
  }

  /** The object of a kind by its handle. */
  get<T extends object>(handle: number, kind: string): T | VerbError {
    const object = this.#byHandle.get(handle);
    return object === undefined
      ? verbError("EINVAL", `There is no ${kind} of number ${handle}`)
      : object as T;
  }

  /** The handle is the program's no more. */
  forget(object: object): void {
    this.#byHandle.delete(this.handleOf(object));
    this.#handles.delete(object);
  }

  /** Memory of the host whose content is the process's from `address` on. */
  map(address: number, length: number): { readonly buffer: Buffer; readonly offset: number } {
    const offset = address % DRAM_PAGE_BYTES;
    const buffer = this.cpu.allocate(offset + length);
    buffer.pages.forEach((frame, i) => {
      this.outside.foreign.map(frame, this, address - offset + i * DRAM_PAGE_BYTES);
    });
    return { buffer, offset };
  }

  /** The memory belongs to this region, until {@link unmap}. */
  keep(region: object, buffer: Buffer): void {
    this.unmap(region);
    this.#mapped.set(region, buffer);
  }

  unmap(region: object): void {
    const buffer = this.#mapped.get(region);
    if (buffer === undefined) return;
    this.#mapped.delete(region);
    this.discard(buffer);
  }

  discard(buffer: Buffer): void {
    // Before the memory is given out anew: its clearing must not reach the process.
    for (const frame of buffer.pages) this.outside.foreign.unmap(frame);
    this.cpu.free(buffer);
  }

  /** A child has its parent's mappings of SCM. */
  inherit(parent: NativeObjects): void {
    for (const part of parent.#scm.values()) this.mapScm(part);
  }

  /** Another thread or process of the program has run, and may have stored what this one waits for. */
  stirred(): void {
    if (this.isWatched) this.cpu.signal(this.#signal);
  }

  /** The card's writes into this part of SCM go to the process, too. */
  mapScm(part: ScmPart): void {
    this.unmapScm(part.address);
    this.#scm.set(part.address, part);
    for (let done = 0; done < part.length; done += DRAM_PAGE_BYTES) {
      this.outside.foreign.mirror(SCM_BASE + part.offset + done, this, part.address + done);
    }
  }

  unmapScm(address: number): void {
    const part = this.#scm.get(address);
    if (part === undefined) return;
    this.#scm.delete(address);
    for (let done = 0; done < part.length; done += DRAM_PAGE_BYTES) {
      this.outside.foreign.unmirror(SCM_BASE + part.offset + done, this, part.address + done);
    }
  }

  /**
   * The offset in SCM of a range of the process's memory that it has mapped; undefined of other memory.
   * EINVAL where the range lies in a mapping in part: no region is of two memories.
   */
  inScm(address: number, length: number): number | undefined | VerbError {
    for (const part of this.#scm.values()) {
      const end = part.address + part.length;
      if (address >= part.address && address + length <= end) {
        return part.offset + address - part.address;
      }
      if (address < end && address + length > part.address) {
        const range = `[${address}, ${address + length})`;
        return verbError("EINVAL", `${range} lies in SCM from ${part.address} to ${end} in part`);
      }
    }
    return undefined;
  }

  /** The program has ended: its memory is no more. */
  end(): void {
    for (const address of [...this.#scm.keys()]) this.unmapScm(address);
    for (const region of [...this.#mapped.keys()]) this.unmap(region);
    if (this.#inline !== undefined) this.cpu.free(this.#inline);
    this.#inline = undefined;
  }

  /** Inline data, copied as the driver does it: an address of the host's. */
  inline(address: number, length: number): number | undefined {
    const bytes = this.process.main.read(address, length);
    if (bytes === undefined) return undefined;
    this.#inline ??= this.cpu.allocate(INLINE_BYTES);
    if (this.#inlineUsed + length > INLINE_BYTES) this.#inlineUsed = 0;
    const at = this.#inline.address + this.#inlineUsed;
    this.#inlineUsed += length;
    this.cpu.store(at, bytes);
    return at;
  }

  // The memory of the process.

  read(address: number, length: number): Uint8Array | undefined {
    return this.process.main.read(address, length);
  }

  write(address: number, bytes: Uint8Array): void {
    this.process.main.write(address, bytes);
    if (this.isWatched) this.cpu.signal(this.#signal);
  }

  /** Waits until the card has written into the memory of the process, or for so long. */
  *written(timeoutPs: Time): Steps<void> {
    const deadline = this.cpu.now + timeoutPs;
    this.#watchers++;
    try {
      yield* this.cpu.waitSignal(this.#signal, deadline);
    } finally {
      this.#watchers--;
    }
  }
}
