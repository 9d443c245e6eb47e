/**
 * {@link Cpu} over one host's memory and bus. Loads and stores take effect at once and their cost
 * is owed; generators let time pass. Stores become persistent by `clwb`, non-temporal stores and
 * `sfence` (P-04): only an `sfence` that has returned gives a guarantee; before, a power failure
 * may find any part of the stores in memory. So `clwb` itself moves no line: every dirty line may
 * be written back at any time. A flush takes, for each piece, the longer of issuing its `clwb`s and
 * moving its dirty lines, counted from the first `clwb` on; `fencePs` follows the last one.
 */
import { NEVER, type Time, transferTime } from "../../../fabric/base/time.ts";
import { type Rng, rngFor } from "../../../fabric/base/rng.ts";
import type { Outputs, TraceStep } from "../../../fabric/node.ts";
import type { AuditRecord } from "../../../fabric/audit.ts";
import {
  isRnicCommand,
  type RnicCommand,
  type RnicReply,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { HostTiming, ProgramPlan } from "../../../fabric/rack/plan/plan.ts";
import {
  AddressFault,
  type AddressMap,
  type Buffer,
  VIRTUAL_CONTIGUOUS_BASE,
} from "../memory/address_map.ts";
import type { CardMemory } from "../memory/card_memory.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { IioStacks } from "../memory/iio_stacks.ts";
import type { QueueGuard } from "../memory/queue_guard.ts";
import type { MemorySystem } from "../memory/memory_system.ts";
import type { PageTable } from "../memory/page_table.ts";
import type { DemandPaging } from "./demand_paging.ts";
import { storedBytes } from "../memory/write_combining.ts";
import { allocate, copyOf } from "../../../fabric/base/slab.ts";
import type { HostBus } from "./host_bus.ts";
import type { Account, Range, WriteBack } from "./processor.ts";
import type { OperationCounts } from "./operation_counts.ts";
import { type HeldStores, RegionRefused, type SharedRegions } from "./region.ts";
import type { Cpu, Measurement, Outside, Region, Source, Steps, Threads, Wait } from "./program.ts";
import { LOG_TOPIC, type LogLine, logText } from "./log_text.ts";
import { notPlain, reported } from "./report_data.ts";
import { answered, hold } from "./wait_site.ts";
import type { Poll } from "./spin.ts";

const NO_BYTES = new Uint8Array(0);

const PAY: Wait = { kind: "time", at: 0, answers: true };

export interface Machine<Context> {
  readonly now: Time;
  readonly memory: MemorySystem;
  readonly map: AddressMap;
  readonly timing: HostTiming;
  readonly name: string;
  readonly options: {
    readonly seed: number;
    readonly addresses: Readonly<Record<string, number>>;
    readonly inputs: Readonly<Record<string, Uint8Array>>;
  };
  readonly iio: IioStacks;
  readonly pages: PageTable;
  readonly paging: Pick<DemandPaging, "isPinnedByDefault">;
  readonly cards: readonly MachineCard[];
  readonly measurements: OperationCounts;
  /** The programs that allocated memory, by address. */
  readonly owners: Map<number, string>;
  readonly out: Outputs;
  /** The account of the thread that a core executes; undefined between threads. */
  readonly payer: Account | undefined;
  readonly processingPs: Time;
  readonly outside: Outside;
  /** Regions that this host shares with others; absent without one. */
  readonly regions: SharedRegions | undefined;
  signal(name: string): void;
  /** See {@link Cpu.handledAt}. */
  handledAt(vector: number, since: Time): Time;
  /** @param thread its name after the program's, and the program's plan. */
  spawn(
    thread: {
      readonly name: string;
      readonly plan: ProgramPlan;
      readonly isKernel?: true;
      readonly isProcess?: true;
    },
    run: (context: Context) => Steps<void>,
  ): void;
}

export interface MachineCard {
  readonly bus: HostBus;
  readonly guard: QueueGuard;
  readonly cardMemory: CardMemory | undefined;
  readonly paging: DemandPaging;
}

function isMap(value: unknown): value is object {
  return typeof value === "object" && value !== null &&
    Object.getPrototypeOf(value) === Object.prototype;
}

export interface CoreProgram {
  /** Host, life and program: the name of the program's own random numbers. */
  readonly stream: string;
  readonly account: Account;
  rng: Rng | undefined;
  /** Undefined for the driver. Results have the number of the program's order. */
  readonly plan: ProgramPlan | undefined;
}

export class ProgramCore<Context> implements Cpu, Threads<Context> {
  readonly host: string;
  readonly program: string;
  readonly addresses: Readonly<Record<string, number>>;
  readonly scm: Buffer;
  readonly #machine: Machine<Context>;
  readonly rnic: number;
  readonly #card: MachineCard;
  readonly #others: ProgramCore<Context>[];
  readonly #ownAccount: Account;
  readonly #program: CoreProgram;
  /**
   * A flush or stream lets time pass after so many bytes, so that a power failure can fall between.
   */
  readonly #chunkBytes: number;

  /** @param others the same core, bound to other cards. */
  constructor(
    machine: Machine<Context>,
    program: CoreProgram,
    card = 0,
    others: ProgramCore<Context>[] = [],
  ) {
    this.host = machine.name;
    // Computed once, as each store needs it.
    this.program = program.stream.split("/").slice(2).join("/");
    this.addresses = machine.options.addresses;
    this.scm = machine.map.scm;
    this.#machine = machine;
    this.rnic = card;
    this.#card = machine.cards[card]!;
    this.#others = others;
    others[card] = this;
    this.#ownAccount = program.account;
    this.#program = program;
    this.#chunkBytes = Math.ceil(machine.timing.iioDrainBytes / LINE_BYTES) * LINE_BYTES;
  }

  get now(): Time {
    return this.#machine.now;
  }

  /**
   * A thread may use another thread's object with that thread's interface (`cq.device.cpu`): the
   * running thread pays, on its own core.
   */
  get #account(): Account {
    return this.#machine.payer ?? this.#ownAccount;
  }

  get core(): number | undefined {
    return this.#account.core;
  }

  /**
   * This core's store buffer, unless empty; drained before messages leave the core (Intel SDM 3,
   * 11.10: store buffer).
   */
  get #held(): HeldStores | undefined {
    const { core } = this;
    return core === undefined ? undefined : this.#machine.regions?.held(core);
  }

  get card(): number | undefined {
    return this.#card.bus.card;
  }

  at(card: number): ProgramCore<Context> {
    return this.#others[card] ??
      new ProgramCore(this.#machine, this.#program, card, this.#others);
  }

  *polled(poll: Poll): Steps<void> {
    const { streak, owed } = this.#account, { iio, now } = this.#machine;
    // Bytes in the IIO may become visible without an event.
    const rounds = streak.add(poll, { now, owedPs: owed, isQuiet: iio.nextAt === NEVER });
    yield* rounds
      ? hold({ kind: "spin", address: poll.address, ...rounds, answers: true })
      : this.settle();
    streak.ended(this.#machine.now);
  }

  get outside(): Outside {
    return this.#machine.outside;
  }

  get paging(): DemandPaging {
    return this.#card.paging;
  }

  #present(address: number, length: number): void {
    const { pages } = this.#machine;
    if (pages.hasAway) this.#account.owed += pages.touch(address, length);
  }

  /**
   * Throws in the program's stack, so that the error has its line. @throws AddressFault where no
   * memory is mapped.
   */
  #checkMapped(address: number, length: number): void {
    const { map } = this.#machine;
    for (let done = 0; done < length; done += map.run(address + done)) map.physical(address + done);
  }

  measured(measurement: Measurement): void {
    this.#machine.measurements.add(measurement);
  }

  get tracing(): boolean {
    return this.#machine.out.tracing;
  }

  random(): number {
    const program = this.#program;
    program.rng ??= rngFor(this.#machine.options.seed, program.stream);
    return program.rng.unit();
  }

  load(address: number, length: number): Uint8Array<ArrayBuffer> {
    const { map, memory } = this.#machine, { cardMemory } = this.#card;
    if (cardMemory?.holds(address)) {
      const where = `${length} B at 0x${address.toString(16)}`;
      throw new AddressFault(
        `Cannot load ${where} at once: they lie in the card's memory: expected yield* cpu.read`,
      );
    }
    this.#machine.regions?.refusePlain(address, length);
    this.#present(address, length);
    const bytes = allocate(length);
    let done = 0;
    while (done < length) {
      const physical = map.physical(address + done);
      const part = Math.min(map.run(address + done), length - done);
      const target = part === length ? bytes : bytes.subarray(done, done + part);
      this.#account.owed += memory.load(physical, target);
      done += part;
    }
    this.#held?.overlay(address, bytes);
    return bytes;
  }

  *read(address: number, length: number): Steps<Uint8Array<ArrayBuffer>> {
    const { timing, processingPs } = this.#machine, { cardMemory } = this.#card;
    if (!cardMemory?.holds(address)) return this.load(address, length);
    cardMemory.load(address, length);
    if (this.#held !== undefined) yield* this.#held.drained();
    this.#account.owed += Math.max(0, timing.mmioPs - processingPs);
    yield* this.settle();
    const id = this.#card.bus.sendLoad(address, length);
    if (id === undefined) return new Uint8Array(length).fill(0xff);
    const { data } = yield* hold({ kind: "load", id, length, answers: true });
    return data!;
  }

  /** @returns whether the address is in the card's memory; the store is then on its way. */
  #storedAtCard(address: number, bytes: Uint8Array): boolean {
    const { timing } = this.#machine, { cardMemory } = this.#card;
    if (!cardMemory?.holds(address)) return false;
    for (const message of cardMemory.store(address, bytes, this.program)) {
      const send = () => void this.#card.bus.sendStore(message);
      const held = this.#held;
      if (held === undefined) send();
      else held.addPrivate({ address, bytes: NO_BYTES, done: send });
      this.#account.owed += timing.mmioPs;
    }
    return true;
  }

  store(address: number, bytes: Uint8Array): void {
    if (this.#storedAtCard(address, bytes)) return;
    this.#checkStore(address, bytes.length);
    const held = this.#held;
    if (held === undefined) {
      this.#account.owed += this.#storeNow(address, bytes);
      return;
    }
    this.#checkMapped(address, bytes.length);
    this.#account.owed += this.#machine.timing.storePs * linesOf(address, bytes.length).length /
      LINE_BYTES;
    const done = (kept: Uint8Array) => void this.#storeNow(address, kept);
    held.addPrivate({ address, bytes, done });
  }

  #storeNow(address: number, bytes: Uint8Array): Time {
    const { map, memory } = this.#machine;
    this.#present(address, bytes.length);
    let done = 0, costPs = 0;
    while (done < bytes.length) {
      const physical = map.physical(address + done);
      const part = Math.min(map.run(address + done), bytes.length - done);
      const source = part === bytes.length ? bytes : bytes.subarray(done, done + part);
      costPs += memory.store(physical, source);
      done += part;
    }
    return costPs;
  }

  /** a program must not store to queue information, which has one virtual address. */
  #checkStore(address: number, length: number): void {
    this.#machine.regions?.refusePlain(address, length);
    const { cards, now } = this.#machine, physical = address - VIRTUAL_CONTIGUOUS_BASE;
    const { program } = this;
    for (let i = 0; i < cards.length; i++) {
      const { guard } = cards[i]!;
      if (guard.mayTouch(physical, length)) guard.checkStore(physical, length, { program, now });
    }
  }

  *region(name: string): Steps<Region> {
    const { regions, name: host } = this.#machine;
    if (regions !== undefined) return yield* regions.open(name, this);
    throw new RegionRefused(`Cannot use region ${name}: found no shared region of ${host}`);
  }

  charge(ps: Time): void {
    if (!(ps >= 0 && ps < NEVER)) {
      throw new RangeError(`Cannot charge ${ps} ps: it must be 0 or more`);
    }
    this.#account.owed += Math.ceil(ps);
  }

  get workPs(): Time {
    return this.#ownAccount.paidPs + this.#ownAccount.owed;
  }

  get owedPs(): Time {
    return this.#account.owed;
  }

  *settle(): Steps<void> {
    if (this.#account.owed > 0) { while (answered(yield PAY)); }
  }

  clwb(address: number, length: number): void {
    this.#machine.regions?.refusePlain(address, length);
    const lines = linesOf(address, length);
    const from = this.#machine.now + this.#account.owed;
    this.#account.owed += lines.length / LINE_BYTES * this.#machine.timing.flushIssuePs;
    if (lines.length > 0) this.#account.writeBacks.push({ ...lines, from });
  }

  ntstore(address: number, bytes: Uint8Array): void {
    if (this.#storedAtCard(address, bytes)) return;
    if (this.#held?.hasPrivate) {
      // Stores to the same bytes keep their order: this one is queued.
      this.store(address, bytes);
      return this.clwb(address, bytes.length);
    }
    const { map, memory, timing } = this.#machine;
    this.#checkStore(address, bytes.length);
    this.#present(address, bytes.length);
    let done = 0;
    while (done < bytes.length) {
      const at = address + done;
      const part = Math.min(map.run(at), bytes.length - done);
      const left = memory.combining.store(
        this.#account,
        map.physical(at),
        bytes.subarray(done, done + part),
      );
      memory.onStored(map.physical(at), part);
      const lines = Math.ceil((at % LINE_BYTES + part) / LINE_BYTES);
      this.#account.owed += lines * timing.storePs + this.#streamPs(left);
      done += part;
    }
  }

  *sfence(): Steps<void> {
    yield* this.settle();
    // Loads do not wait for buffered stores to regions (only MFENCE is a fence of x86-TSO).
    if (this.#held !== undefined) yield* this.#held.privateDrained();
    yield* this.#finish();
    this.#account.owed += this.#machine.timing.fencePs;
    yield* this.settle();
  }

  *flush(address: number, length: number): Steps<void> {
    this.#machine.regions?.refusePlain(address, length);
    yield* this.settle();
    if (this.#held !== undefined) yield* this.#held.privateDrained();
    yield* this.#writeBack({ ...linesOf(address, length), from: this.#machine.now });
    yield* this.#finish();
    this.#account.owed += this.#machine.timing.fencePs;
    yield* this.settle();
  }

  *ntStore(address: number, bytes: Uint8Array): Steps<void> {
    if (this.#storedAtCard(address, bytes)) return yield* this.settle();
    const { map, memory, timing } = this.#machine;
    this.#checkStore(address, bytes.length);
    // They become part of the durable record, and the program may change its own while time passes.
    const data = copyOf(bytes);
    yield* this.settle();
    if (this.#held !== undefined) yield* this.#held.privateDrained();
    let done = 0;
    while (done < data.length) {
      const at = address + done;
      this.#present(at, 1);
      const physical = map.physical(at);
      const part = Math.min(this.#toChunkEnd(at), map.run(at), data.length - done);
      const lines = Math.ceil((at % LINE_BYTES + part) / LINE_BYTES);
      this.#account.owed += Math.max(
        lines * timing.storePs,
        transferTime(part, timing.ntStoreBitsPerSecond),
      );
      const chunk = data.subarray(done, done + part);
      memory.streams.set(this.#account, { offset: physical, data: chunk });
      yield* this.#reserve(physical, part);
      memory.streams.delete(this.#account);
      memory.writeThrough(physical, chunk);
      memory.onStored(physical, part);
      done += part;
    }
    yield* this.#finish();
    this.#account.owed += timing.fencePs;
    yield* this.settle();
  }

  *registerWrite(offset: number, bytes: Uint8Array<ArrayBuffer>): Steps<void> {
    const { timing, processingPs } = this.#machine;
    // The message departs in the store's last `processingPs`, so that messages keep their order.
    this.#account.owed += timing.mmioPs - processingPs;
    const data = copyOf(bytes);
    if (this.#held !== undefined) yield* this.#held.drained();
    yield* this.settle();
    this.#card.bus.sendRegister(offset, data);
    this.#account.owed += processingPs;
  }

  *writeCombined(offset: number, lines: Uint8Array<ArrayBuffer>): Steps<void> {
    const { timing, processingPs } = this.#machine;
    const count = Math.ceil(lines.length / LINE_BYTES);
    this.#account.owed += count * timing.storePs + timing.mmioPs - processingPs;
    const data = copyOf(lines);
    if (this.#held !== undefined) yield* this.#held.drained();
    yield* this.settle();
    for (let at = 0; at < data.length; at += LINE_BYTES) {
      this.#card.bus.sendRegister(offset + at, data.subarray(at, at + LINE_BYTES));
    }
    this.#account.owed += processingPs;
  }

  *command(command: RnicCommand): Steps<RnicReply> {
    if (!isRnicCommand(command)) {
      const found = notPlain(command) ?? JSON.stringify(command) ?? "undefined";
      throw new TypeError(`Cannot send a command: found ${found}, expected one with an op`);
    }
    const { timing, processingPs } = this.#machine, { guard, cardMemory, bus } = this.#card;
    this.#account.owed += Math.max(0, timing.commandPs - processingPs);
    if (this.#held !== undefined) yield* this.#held.drained();
    yield* this.settle();
    guard.sends(command, this.program);
    const isLocks = command.op === "lock-space2" && cardMemory !== undefined;
    const sent = bus.sendCommand(
      isLocks ? { ...command, by: cardMemory.numberOf(this.program) } : command,
    );
    if (typeof sent !== "number") return sent;
    guard.sent(sent, command, this.program);
    return (yield* hold({ kind: "reply", id: sent, answers: true })).reply!;
  }

  *sleep(ps: Time): Steps<void> {
    if (!(ps >= 0)) throw new RangeError(`Cannot sleep ${ps} ps: it must be 0 or more`);
    yield* this.settle();
    yield* hold({ kind: "time", at: this.#machine.now + Math.ceil(ps), answers: true });
  }

  *waitMemory(address: number, length: number, deadline: Time): Steps<"changed" | "timeout"> {
    const source = { kind: "memory", address, length } as const;
    return (yield* this.#wait([source], deadline)) ? "changed" : "timeout";
  }

  *waitInterrupt(vector: number, deadline: Time): Steps<"raised" | "timeout"> {
    return (yield* this.#wait([{ kind: "interrupt", vector }], deadline)) ? "raised" : "timeout";
  }

  handledAt(vector: number, since: Time): Time {
    return this.#machine.handledAt(vector, since);
  }

  *waitSignal(name: string, deadline: Time): Steps<"signaled" | "timeout"> {
    return (yield* this.#wait([{ kind: "signal", name }], deadline)) ? "signaled" : "timeout";
  }

  *waitAny(sources: readonly Source[], deadline: Time): Steps<"happened" | "timeout"> {
    return (yield* this.#wait(sources, deadline)) ? "happened" : "timeout";
  }

  *#wait(sources: readonly Source[], deadline: Time): Steps<boolean> {
    for (const source of sources) {
      if (source.kind !== "memory") continue;
      this.#machine.regions?.refusePlain(source.address, source.length);
      this.#present(source.address, source.length);
      this.#checkMapped(source.address, source.length);
    }
    return (yield* hold({ kind: "any", sources, deadline, answers: true })).kind === "done";
  }

  signal(name: string): void {
    this.#machine.signal(name);
  }

  allocate(bytes: number): Buffer {
    return this.#own(this.#clearedSpare(bytes, "scattered") ?? this.#untouched(bytes));
  }

  allocateContiguous(bytes: number): Buffer {
    return this.#own(
      this.#clearedSpare(bytes, "contiguous") ??
        this.#machine.map.allocateContiguous(bytes, this.rnic),
    );
  }

  #untouched(bytes: number): Buffer {
    const { map, pages, paging } = this.#machine;
    const buffer = map.allocate(bytes);
    if (!paging.isPinnedByDefault) pages.leaveUntouched(buffer);
    return buffer;
  }

  #own(buffer: Buffer): Buffer {
    this.#machine.owners.set(buffer.address, this.program);
    return buffer;
  }

  #clearedSpare(bytes: number, kind: "scattered" | "contiguous"): Buffer | undefined {
    const { map } = this.#machine;
    const isQuiet = (frames: readonly number[]) => !this.#machine.iio.isComing(frames);
    const spare = map.takeSpare(bytes, kind, isQuiet, this.rnic);
    if (spare !== undefined) this.store(spare.address, new Uint8Array(spare.length));
    return spare;
  }

  free(memory: Pick<Buffer, "address">): void {
    this.#machine.map.free(memory);
    this.#machine.owners.delete(memory.address);
  }

  spawn(name: string, thread: (context: Context) => Steps<void>): void {
    this.#machine.spawn({ name: `${this.program}/${name}`, plan: this.#program.plan! }, thread);
  }

  spawnKernel(name: string, thread: (context: Context) => Steps<void>): void {
    const of = {
      name: `${this.program}/${name}`,
      plan: this.#program.plan!,
      isKernel: true,
    } as const;
    this.#machine.spawn(of, thread);
  }

  spawnProcess(name: string, process: (context: Context) => Steps<void>): void {
    this.#machine.spawn({ name, plan: this.#program.plan!, isProcess: true }, process);
  }

  input(path: string): Uint8Array | undefined {
    const { inputs } = this.#machine.options;
    return Object.hasOwn(inputs, path) ? inputs[path] : undefined;
  }

  report(topic: string, value: unknown): void {
    const told = reported(topic, value);
    const order = this.#program.plan?.order;
    this.#machine.out.report(
      topic,
      order !== undefined && isMap(told) ? { ...told, order } : told,
    );
  }

  log(...values: unknown[]): void {
    const line: LogLine = { program: this.program, at: this.now, text: logText(values) };
    this.#machine.out.report(LOG_TOPIC, line);
  }

  trace(step: TraceStep): void {
    this.#machine.out.trace(this.rnic === 0 ? step : { ...step, rnic: this.rnic });
  }

  get auditing(): boolean {
    return this.#machine.out.auditing ?? false;
  }

  note(note: AuditRecord): void {
    if (!this.auditing) return;
    const { rnic } = this;
    const kept = note.kind === "writes"
      ? { ...note, bytes: copyOf(note.bytes) }
      : rnic > 0 && "qpn" in note
      ? { ...note, rnic }
      : note;
    this.#machine.out.audit?.(this.#program.stream, kept);
  }

  *#finish(): Steps<void> {
    const account = this.#account;
    const pending = account.writeBacks;
    account.writeBacks = [];
    for (const lines of pending) yield* this.#writeBack(lines);
    const { memory } = this.#machine;
    for (;;) {
      const buffer = memory.combining.oldestOf(account);
      if (buffer === undefined) return;
      this.#account.owed += this.#streamPs(storedBytes(buffer));
      yield* this.#reserve(buffer.address, LINE_BYTES);
      memory.combining.release(buffer);
    }
  }

  /** `clwb`s overlap with each other and with what the core does until it fences: they are under way since `from`. */
  *#writeBack(lines: WriteBack): Steps<void> {
    const { map, memory, timing } = this.#machine;
    const account = this.#account, end = lines.address + lines.length;
    account.writtenBackAt = Math.max(account.writtenBackAt, lines.from);
    let at = lines.address;
    while (at < end) {
      this.#present(at, 1);
      const physical = map.physical(at);
      const part = Math.min(this.#toChunkEnd(at), map.run(at), end - at);
      const dirty = memory.dirtyLines(physical, part);
      const issuePs = part / LINE_BYTES * timing.flushIssuePs;
      account.writtenBackAt += Math.max(issuePs, writeBackPs(dirty, timing));
      account.owed = Math.max(account.owed, account.writtenBackAt - this.#machine.now);
      if (dirty.stored + dirty.device > 0) {
        yield* this.#reserve(physical, part);
        memory.writeBackRange(physical, part);
      }
      at += part;
    }
  }

  #streamPs(bytes: number): Time {
    if (bytes === 0) return 0;
    const { storePs, ntStoreBitsPerSecond } = this.#machine.timing;
    const stores = Math.ceil(bytes / LINE_BYTES) * storePs;
    return Math.max(0, transferTime(bytes, ntStoreBitsPerSecond) - stores);
  }

  #toChunkEnd(address: number): number {
    return this.#chunkBytes - address % this.#chunkBytes;
  }

  *#reserve(physical: number, length: number): Steps<void> {
    yield* this.settle();
    for (;;) {
      const freeAt = this.#machine.memory.freeAt(physical, length);
      if (freeAt <= this.#machine.now) return;
      this.#account.owed += freeAt - this.#machine.now;
      while (answered(yield PAY));
    }
  }
}

/** What moving dirty lines to the iMC takes, as a core's `clwb`s do it. */
export function writeBackPs(
  { stored, device }: { readonly stored: number; readonly device: number },
  { clwbStoredBitsPerSecond, clwbDeviceBitsPerSecond }: HostTiming,
): Time {
  return transferTime(stored * LINE_BYTES, clwbStoredBitsPerSecond) +
    transferTime(device * LINE_BYTES, clwbDeviceBitsPerSecond);
}

function linesOf(address: number, length: number): Range {
  const first = address - address % LINE_BYTES;
  const lines = Math.ceil((address + length - first) / LINE_BYTES);
  return { address: first, length: length > 0 ? lines * LINE_BYTES : 0 };
}
