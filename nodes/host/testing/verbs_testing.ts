/**
 * A core without a machine, for unit tests of verbs and programs: memory that is there at once, a
 * firmware that grants everything, and completions that the test writes. Time passes only by what is
 * owed and by deadlines.
 */
import { assert, fail } from "../../../fabric/base/assert.ts";
import type { HostPlan } from "../../../fabric/rack/plan/plan.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { rngFor } from "../../../fabric/base/rng.ts";
import {
  type Cqe,
  CQE_BYTES,
  encodeCqe,
  ownerBit,
  PLAIN_CQE,
} from "../../../fabric/wire/host_bus/cqe.ts";
import type { RnicCommand, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { rigPlan } from "./host_testing.ts";
import type { Cpu, Source, Steps, Wait, Wake } from "../cpu/program.ts";
import type { Cq } from "../verbs/objects.ts";
import type { Buffer } from "../memory/address_map.ts";

const DRAM_BASE = 0x7f00_0000_0000;
const SCM_BASE = 0x6000_0000_0000;
const PAGE_BYTES = 4096;
const DRAM_BYTES = 1 << 20;
const SCM_BYTES = 1 << 18;

export interface RegisterWrite {
  readonly offset: number;
  readonly bytes: Uint8Array;
}

/** Fields of a CQE that a test does not name. */
const SENT_CQE: Cqe = {
  ...PLAIN_CQE,
  opcode: "requester",
  qpn: 0,
  wqeIndex: 0,
};

export class VerbsRig implements Cpu {
  readonly plan: HostPlan;
  readonly host = "a";
  readonly program = "rig#0";
  readonly addresses = { a: 0x0a00_0001, b: 0x0a00_0002 };
  readonly tracing = true;
  readonly auditing = false;
  readonly scm: Buffer;
  readonly commands: RnicCommand[] = [];
  readonly registers: RegisterWrite[] = [];
  readonly traces: { step: string; text: string }[] = [];
  readonly reports: { topic: string; value: unknown }[] = [];
  readonly signals: string[] = [];
  /** Pages of the memory that is allocated and was not freed, by its address. */
  readonly given = new Map<number, number>();
  readonly inputs = new Map<string, Uint8Array>();
  /** SCM as a power failure would leave it. */
  readonly durable = new Uint8Array(SCM_BYTES);
  /** How many 8-byte words still become persistent: a power failure in the middle of a store. */
  wordsUntilPowerFails = NEVER;
  /** The words of one store or flush become persistent in a random order. */
  wordsInAnyOrder = false;
  /** The firmware's answer, where a test wants another one. */
  refuse: (command: RnicCommand) => RnicReply | undefined = () => undefined;
  card: number | undefined = 0;
  now: Time = 1_000;
  readonly #dram = new Uint8Array(DRAM_BYTES);
  readonly #scm = new Uint8Array(SCM_BYTES);
  readonly #rng = rngFor(7, "verbs");
  readonly #unfenced: { address: number; length: number }[] = [];
  readonly #written = new Map<number, number>();
  #owed: Time = 0;
  workPs: Time = 0;
  #allocated = 0;
  /** What was given back, by its pages. */
  readonly #spare = new Map<number, number[]>();
  #numbers = 16;

  constructor(changes: Parameters<typeof rigPlan>[0] = {}, image?: Uint8Array) {
    this.plan = rigPlan({ queues: 64, ...changes });
    if (image !== undefined) {
      this.#scm.set(image);
      this.durable.set(image);
    }
    const pages = Array.from(
      { length: SCM_BYTES / PAGE_BYTES },
      (_, i) => 2 ** 40 + i * PAGE_BYTES,
    );
    this.scm = { address: SCM_BASE, length: SCM_BYTES, pageBytes: PAGE_BYTES, pages };
  }

  /** Runs to the end. Waits end by their deadline; one without is a test that hangs. */
  run<T>(steps: Steps<T>): T {
    let wake: Wake = { kind: "done" };
    for (;;) {
      const result = steps.next(wake);
      if (result.done) return result.value;
      wake = this.#wait(result.value);
    }
  }

  #wait(wait: Wait): Wake {
    this.now += this.#owed;
    this.#owed = 0;
    assert(
      wait.kind !== "reply" && wait.kind !== "load" && wait.kind !== "line" &&
        wait.kind !== "spin",
      "The card answers at once",
    );
    const until = wait.kind === "time" ? wait.at : wait.deadline;
    assert(until !== NEVER, `A ${wait.kind} wait that nothing ends`);
    this.now = Math.max(this.now, until);
    return { kind: wait.kind === "time" ? "done" : "timeout" };
  }

  get owedPs(): Time {
    return this.#owed;
  }

  random(): number {
    return this.#rng.unit();
  }

  #place(address: number): { memory: Uint8Array; at: number } {
    if (address >= DRAM_BASE) return { memory: this.#dram, at: address - DRAM_BASE };
    return { memory: this.#scm, at: address - SCM_BASE };
  }

  load(address: number, length: number): Uint8Array<ArrayBuffer> {
    const { memory, at } = this.#place(address);
    assert(at >= 0 && at + length <= memory.length, "Load outside memory");
    return memory.slice(at, at + length);
  }

  // deno-lint-ignore require-yield -- there is no memory at a card
  *read(address: number, length: number): Steps<Uint8Array<ArrayBuffer>> {
    return this.load(address, length);
  }

  store(address: number, bytes: Uint8Array): void {
    const { memory, at } = this.#place(address);
    assert(at >= 0 && at + bytes.length <= memory.length, "Store outside memory");
    memory.set(bytes, at);
  }

  charge(ps: Time): void {
    this.#owed += ps;
  }

  *settle(): Steps<void> {
    if (this.#owed > 0) yield { kind: "time", at: 0 };
  }

  clwb(address: number, length: number): void {
    this.#unfenced.push({ address, length });
  }

  ntstore(address: number, bytes: Uint8Array): void {
    this.store(address, bytes);
    this.clwb(address, bytes.length);
  }

  // deno-lint-ignore require-yield
  *region(name: string): Steps<never> {
    throw new Error(`Cannot use region ${name}: the rig shares none`);
  }

  *sfence(): Steps<void> {
    for (const { address, length } of this.#unfenced.splice(0)) yield* this.flush(address, length);
    yield* this.settle();
  }

  *flush(address: number, length: number): Steps<void> {
    const at = address - SCM_BASE;
    const words: number[] = [];
    for (let word = at - at % 8; word < at + length; word += 8) words.push(word);
    while (words.length > 0) {
      const next = this.wordsInAnyOrder ? this.#rng.below(words.length) : 0;
      const [word] = words.splice(next, 1);
      if (this.wordsUntilPowerFails-- <= 0) throw new Error("power failure");
      this.durable.set(this.#scm.subarray(word, word! + 8), word);
    }
    // Its fence also covers earlier write-backs.
    yield* this.sfence();
  }

  *ntStore(address: number, bytes: Uint8Array): Steps<void> {
    this.store(address, bytes);
    yield* this.flush(address, bytes.length);
  }

  measured(): void {}

  note(): void {
    fail("This rig takes no audit records");
  }

  spawn(): void {
    fail("A rig has one program");
  }

  *registerWrite(offset: number, bytes: Uint8Array<ArrayBuffer>): Steps<void> {
    this.registers.push({ offset, bytes: bytes.slice() });
    yield* this.settle();
  }

  *writeCombined(offset: number, lines: Uint8Array<ArrayBuffer>): Steps<void> {
    for (let at = 0; at < lines.length; at += 64) {
      this.registers.push({ offset: offset + at, bytes: lines.slice(at, at + 64) });
    }
    yield* this.settle();
  }

  // deno-lint-ignore require-yield -- answered at once
  *command(command: RnicCommand): Steps<RnicReply> {
    this.commands.push(command);
    const refusal = this.refuse(command);
    if (refusal !== undefined) return refusal;
    switch (command.op) {
      case "init":
        return {
          status: "ok",
          op: "init",
          address: this.addresses.a,
          mac: 0x0200_0000_0001,
          mtu: 4096,
        };
      case "create-cq":
        return { status: "ok", op: "create-cq", cqn: this.#numbers++ };
      case "create-qp": {
        const qpn = command.qpn ?? this.#numbers++;
        return {
          status: "ok",
          op: "create-qp",
          qpn,
          sqQueue: this.#numbers++,
          rqQueue: this.#numbers++,
        };
      }
      case "allocate-null-mr":
      case "register-mr": {
        const key = this.#numbers++ << 8;
        return { status: "ok", op: "register-mr", lkey: key, rkey: key };
      }
      case "modify-qp":
        return command.attributes.state === "reset"
          ? { status: "ok", op: "qp-emptied", written: { send: 0, recv: 0 } }
          : { status: "ok", op: "done" };
      case "destroy-qp":
        return { status: "ok", op: "qp-emptied", written: { send: 0, recv: 0 } };
      case "lock-space2":
        return { status: "ok", op: "lock-space2", until: this.now + 1e8 };
      case "unlock-space2":
      case "write-space2":
      case "expand-queue":
        return { status: "ok", op: "queue-resumed", read: 0, written: 0, stamp: this.now };
      case "create-srq":
        return { status: "ok", op: "create-srq", srqn: this.#numbers++ };
      case "allocate-mw":
        return { status: "ok", op: "allocate-mw", rkey: this.#numbers++ << 8 };
      default:
        return { status: "ok", op: "done" };
    }
  }

  /** Commands of one kind, as sent. */
  sent<Op extends RnicCommand["op"]>(op: Op): Extract<RnicCommand, { op: Op }>[] {
    return this.commands.filter((command) => command.op === op) as Extract<
      RnicCommand,
      { op: Op }
    >[];
  }

  /** Writes a completion as the RNIC would. */
  complete(cq: Cq, cqe: Partial<Cqe>): void {
    const position = this.#written.get(cq.cqn) ?? 0;
    this.#written.set(cq.cqn, position + 1);
    const bytes = encodeCqe({ ...SENT_CQE, ...cqe }, ownerBit(position, cq.entries));
    this.store(cq.address + (position % cq.entries) * CQE_BYTES, bytes);
  }

  *sleep(ps: Time): Steps<void> {
    yield { kind: "time", at: this.now + ps };
  }

  *waitMemory(address: number, length: number, deadline: Time): Steps<"changed" | "timeout"> {
    const wake = yield { kind: "any", sources: [{ kind: "memory", address, length }], deadline };
    return wake.kind === "done" ? "changed" : "timeout";
  }

  *waitInterrupt(vector: number, deadline: Time): Steps<"raised" | "timeout"> {
    const wake = yield { kind: "any", sources: [{ kind: "interrupt", vector }], deadline };
    return wake.kind === "done" ? "raised" : "timeout";
  }

  *waitSignal(name: string, deadline: Time): Steps<"signaled" | "timeout"> {
    const wake = yield { kind: "any", sources: [{ kind: "signal", name }], deadline };
    return wake.kind === "done" ? "signaled" : "timeout";
  }

  *waitAny(sources: readonly Source[], deadline: Time): Steps<"happened" | "timeout"> {
    const wake = yield { kind: "any", sources, deadline };
    return wake.kind === "done" ? "happened" : "timeout";
  }

  signal(name: string): void {
    this.signals.push(name);
  }

  allocate(bytes: number): Buffer {
    const count = Math.max(1, Math.ceil(bytes / PAGE_BYTES));
    const from = this.#spare.get(count)?.pop() ?? this.#allocated;
    if (from === this.#allocated) this.#allocated += count * PAGE_BYTES;
    assert(this.#allocated <= DRAM_BYTES, "The rig's memory is used up");
    this.#dram.fill(0, from, from + count * PAGE_BYTES);
    const pages = Array.from({ length: count }, (_, i) => from + i * PAGE_BYTES);
    this.given.set(DRAM_BASE + from, count);
    return { address: DRAM_BASE + from, length: bytes, pageBytes: PAGE_BYTES, pages };
  }

  allocateContiguous(bytes: number): Buffer {
    return this.allocate(bytes);
  }

  free({ address }: Pick<Buffer, "address">): void {
    const count = this.given.get(address);
    assert(count !== undefined, "What is freed was given out, and not freed before");
    this.given.delete(address);
    this.#spare.set(count, [...this.#spare.get(count) ?? [], address - DRAM_BASE]);
  }

  input(path: string): Uint8Array | undefined {
    return this.inputs.get(path);
  }

  report(topic: string, value: unknown): void {
    this.reports.push({ topic, value });
  }

  log(...values: unknown[]): void {
    this.reports.push({ topic: "log", value: values });
  }

  trace(step: { step: string; text: string }): void {
    this.traces.push(step);
  }
}
