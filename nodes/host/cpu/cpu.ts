/**
 * A core in a program's view: {@link Cpu} over one host's memory and bus. Loads and stores take
 * effect at once and their cost is owed; generators let time pass.
 */
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { type Rng, rngFor } from "../../../fabric/base/rng.ts";
import type { TraceStep } from "../../../fabric/node.ts";
import type { AuditRecord } from "../../../fabric/audit.ts";
import type { RnicCommand, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Buffer } from "../memory/address_map.ts";
import { allocate, copyOf } from "../../../fabric/base/slab.ts";
import { CoreWrites, PAY, type StoreTarget } from "./store_instructions.ts";
import type { Account } from "./processor.ts";
import type { Cpu, Source, Steps, Threads } from "./program.ts";
import { notPlain } from "./report_data.ts";

/** The host's interface to the programs on its cores. `Context` is the argument of a thread. */
export interface Machine<Context> extends StoreTarget {
  readonly name: string;
  readonly addresses: Readonly<Record<string, number>>;
  readonly inputs: Readonly<Record<string, Uint8Array>>;
  readonly processingPs: Time;
  readonly seed: number;
  readonly tracing: boolean;
  readonly auditing: boolean;
  /** Whether a DMA write to one of these frames is still in the IIO. */
  isComing(frames: readonly number[]): boolean;
  /** Sends a register write over the bus; it departs `processingPs` from now. */
  sendRegister(offset: number, data: Uint8Array<ArrayBuffer>): void;
  /** Sends a command over the bus. @returns its id, or an error reply where there is no device. */
  sendCommand(command: RnicCommand): number | RnicReply;
  signal(name: string): void;
  report(topic: string, value: unknown): void;
  trace(step: TraceStep): void;
  audit(by: string, note: AuditRecord): void;
  spawn(
    thread: { readonly name: string; readonly order: number | undefined },
    run: (context: Context) => Steps<void>,
  ): void;
}

function isMap(value: unknown): value is object {
  return typeof value === "object" && value !== null &&
    Object.getPrototypeOf(value) === Object.prototype;
}

/**
 * The core of one program.
 * @param program names the program's own random stream, the account of its owed time, and the
 * number of the order that started it from outside, which its results carry.
 */
export function createCpu<Context>(
  machine: Machine<Context>,
  program: { stream: string; account: Account; order?: number },
): Cpu & Threads<Context> {
  return new ProgramCore(machine, program);
}

class ProgramCore<Context> implements Cpu, Threads<Context> {
  readonly #machine: Machine<Context>;
  readonly #account: Account;
  readonly #stream: string;
  readonly #order: number | undefined;
  readonly #writes: CoreWrites;
  #rng: Rng | undefined;

  constructor(
    machine: Machine<Context>,
    program: { stream: string; account: Account; order?: number },
  ) {
    this.#machine = machine;
    this.#account = program.account;
    this.#stream = program.stream;
    this.#order = program.order;
    this.#writes = new CoreWrites(machine, program.account);
  }

  get now(): Time {
    return this.#machine.now;
  }

  get host(): string {
    return this.#machine.name;
  }

  get addresses(): Readonly<Record<string, number>> {
    return this.#machine.addresses;
  }

  get scm(): Buffer {
    return this.#machine.map.scm;
  }

  get tracing(): boolean {
    return this.#machine.tracing;
  }

  random(): number {
    this.#rng ??= rngFor(this.#machine.seed, this.#stream);
    return this.#rng.unit();
  }

  load(address: number, length: number): Uint8Array<ArrayBuffer> {
    const { map, memory } = this.#machine;
    const bytes = allocate(length);
    let done = 0;
    while (done < length) {
      const physical = map.physical(address + done);
      const part = Math.min(map.run(address + done), length - done);
      const target = part === length ? bytes : bytes.subarray(done, done + part);
      this.#account.owed += memory.load(physical, target);
      done += part;
    }
    return bytes;
  }

  store(address: number, bytes: Uint8Array): void {
    const { map, memory } = this.#machine;
    let done = 0;
    while (done < bytes.length) {
      const physical = map.physical(address + done);
      const part = Math.min(map.run(address + done), bytes.length - done);
      const source = part === bytes.length ? bytes : bytes.subarray(done, done + part);
      this.#account.owed += memory.store(physical, source);
      done += part;
    }
  }

  charge(ps: Time): void {
    if (!(ps >= 0 && ps < NEVER)) {
      throw new RangeError(`Cannot charge ${ps} ps: it must be 0 or more`);
    }
    this.#account.owed += Math.ceil(ps);
  }

  get workPs(): Time {
    return this.#account.paidPs + this.#account.owed;
  }

  *settle(): Steps<void> {
    if (this.#account.owed > 0) yield PAY;
  }

  clwb(address: number, length: number): void {
    this.#writes.clwb(address, length);
  }

  ntstore(address: number, bytes: Uint8Array): void {
    this.#writes.ntstore(address, bytes);
  }

  sfence(): Steps<void> {
    return this.#writes.sfence();
  }

  flush(address: number, length: number): Steps<void> {
    return this.#writes.flush(address, length);
  }

  ntStore(address: number, bytes: Uint8Array): Steps<void> {
    return this.#writes.ntStore(address, bytes);
  }

  *registerWrite(offset: number, bytes: Uint8Array<ArrayBuffer>): Steps<void> {
    const { timing, processingPs } = this.#machine;
    // The message departs in the last `processingPs` of the store, so that messages keep their
    // order.
    this.#account.owed += timing.mmioPs - processingPs;
    const data = copyOf(bytes);
    yield* this.settle();
    this.#machine.sendRegister(offset, data);
    this.#account.owed += processingPs;
  }

  *command(command: RnicCommand): Steps<RnicReply> {
    const { timing, processingPs } = this.#machine;
    this.#account.owed += Math.max(0, timing.commandPs - processingPs);
    yield* this.settle();
    const sent = this.#machine.sendCommand(command);
    if (typeof sent !== "number") return sent;
    const wake = yield { kind: "reply", id: sent };
    return wake.reply!;
  }

  *sleep(ps: Time): Steps<void> {
    if (!(ps >= 0)) throw new RangeError(`Cannot sleep ${ps} ps: it must be 0 or more`);
    yield* this.settle();
    yield { kind: "time", at: this.#machine.now + Math.ceil(ps) };
  }

  *waitMemory(address: number, length: number, deadline: Time): Steps<"changed" | "timeout"> {
    const wake = yield { kind: "memory", address, length, deadline };
    return wake.kind === "done" ? "changed" : "timeout";
  }

  *waitInterrupt(vector: number, deadline: Time): Steps<"raised" | "timeout"> {
    const wake = yield { kind: "interrupt", vector, deadline };
    return wake.kind === "done" ? "raised" : "timeout";
  }

  *waitSignal(name: string, deadline: Time): Steps<"signaled" | "timeout"> {
    const wake = yield { kind: "signal", name, deadline };
    return wake.kind === "done" ? "signaled" : "timeout";
  }

  *waitAny(sources: readonly Source[], deadline: Time): Steps<"happened" | "timeout"> {
    const wake = yield { kind: "any", sources, deadline };
    return wake.kind === "done" ? "happened" : "timeout";
  }

  signal(name: string): void {
    this.#machine.signal(name);
  }

  allocate(bytes: number): Buffer {
    return this.#clearedSpare(bytes, "scattered") ?? this.#machine.map.allocate(bytes);
  }

  allocateContiguous(bytes: number): Buffer {
    return this.#clearedSpare(bytes, "contiguous") ?? this.#machine.map.allocateContiguous(bytes);
  }

  #clearedSpare(bytes: number, kind: "scattered" | "contiguous"): Buffer | undefined {
    const { map } = this.#machine;
    const spare = map.takeSpare(bytes, kind, (frames) => !this.#machine.isComing(frames));
    if (spare !== undefined) this.store(spare.address, new Uint8Array(spare.length));
    return spare;
  }

  free(memory: Pick<Buffer, "address">): void {
    this.#machine.map.free(memory);
  }

  spawn(name: string, thread: (context: Context) => Steps<void>): void {
    // The stream's name is host, life and program: a thread's name is its parent's and its own.
    const own = this.#stream.split("/").slice(2).join("/");
    this.#machine.spawn({ name: `${own}/${name}`, order: this.#order }, thread);
  }

  input(path: string): Uint8Array | undefined {
    return Object.hasOwn(this.#machine.inputs, path) ? this.#machine.inputs[path] : undefined;
  }

  report(topic: string, value: unknown): void {
    const found = notPlain(value);
    if (found !== undefined) {
      throw new TypeError(`Cannot report "${topic}": found ${found}, expected plain data`);
    }
    const order = this.#order;
    this.#machine.report(topic, order !== undefined && isMap(value) ? { ...value, order } : value);
  }

  trace(step: TraceStep): void {
    this.#machine.trace(step);
  }

  get auditing(): boolean {
    return this.#machine.auditing;
  }

  audit(note: AuditRecord): void {
    if (!this.#machine.auditing) return;
    const kept = note.kind === "writes" ? { ...note, bytes: copyOf(note.bytes) } : note;
    this.#machine.audit(this.#stream, kept);
  }
}
