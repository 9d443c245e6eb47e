/**
 * Test rig: two RNICs back to back, each with a fake host that is memory, rings and a driver of a few
 * lines. Nothing of `nodes/host` is used, so what is tested here is the RNIC alone.
 */
import { QUEUE_PLAN } from "../../../fabric/rack/plan/queue_plan.ts";
import { layOut } from "../../../fabric/wire/host_bus/queue_placement.ts";
import { assert } from "../../../fabric/base/assert.ts";
import { createLink, transmit } from "../../../fabric/link/link.ts";
import {
  type Frame,
  type Input,
  type Message,
  PORTS,
  type TraceStep,
} from "../../../fabric/node.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { type Cqe, CQE_BYTES } from "../../../fabric/wire/host_bus/cqe.ts";
import type { PcieMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import {
  CQ_ARM_OFFSET,
  DOORBELL_OFFSET,
  encodeCqArm,
  encodeDoorbell,
} from "../../../fabric/wire/host_bus/queue_information.ts";
import {
  ACCESS,
  type QpAttributes,
  type RegionPlan,
  type RnicCommand,
  type RnicReply,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import { type Sge, WQE_UNIT_BYTES } from "../../../fabric/wire/host_bus/wqe.ts";
import { DemandDriver } from "./demand_testing.ts";
import { FakeHost, LINE_BYTES, MEMORY_BYTES, RECV_STRIDE } from "./fake_host_testing.ts";
import { createRnic } from "../rnic.ts";
import {
  BUS,
  checkKnown,
  copiesOf,
  granted,
  insert,
  MEMORY_PS,
  type QpOptions,
  type RegionOptions,
  type RigCq,
  type RigEvent,
  type RigMr,
  type RigOptions,
  type RigQp,
  type RigWqe,
  type Ring,
  rnicPlan,
  type Side,
  stepsToRts,
  WIRE,
} from "./rig_parts_testing.ts";

export class Rig {
  now: Time = 0;
  readonly a: Side;
  readonly b: Side;
  readonly traces: { readonly node: string; readonly time: Time; readonly step: TraceStep }[] = [];
  readonly reports: { readonly node: string; readonly topic: string; readonly value: unknown }[] =
    [];
  readonly frames: {
    readonly from: "a" | "b";
    readonly bytes: Uint8Array<ArrayBuffer>;
    readonly time: Time;
  }[] = [];
  /** Drivers of on-demand memory, where all of it is. */
  readonly demand: { readonly a: DemandDriver; readonly b: DemandDriver } | undefined;
  tracing = false;
  fate: NonNullable<RigOptions["fate"]>;
  /** Told of frames as a side's RNIC sends them and takes them, in its own order. */
  watch: (side: "a" | "b", kind: "sent" | "received", bytes: Uint8Array<ArrayBuffer>) => void =
    () => {};
  /** Whether a card may hold requests without an answer at rest, as the test leaves them so. */
  leavesRequests = false;
  #queue: RigEvent[] = [];
  #order = 0;
  steps = 0;

  constructor(options: RigOptions = {}) {
    this.fate = options.fate ?? (() => "pass");
    this.a = this.#side("a", options);
    this.b = this.#side("b", options);
    const { demand } = options;
    this.demand = demand && {
      a: new DemandDriver(this, this.a, demand),
      b: new DemandDriver(this, this.b, demand),
    };
    for (const side of [this.a, this.b]) {
      this.#put({ time: 0, to: "rnic", side, input: { kind: "power" } });
    }
    for (const side of [this.a, this.b]) {
      const { host } = side;
      const { placement, layout } = side.plan.queuePlan ?? QUEUE_PLAN;
      host.layOutSpaces(layOut(placement, layout));
      const persistence = options.persistence?.[side.name] ??
        { flow: 1, flush: "read", noSnoop: false };
      const reply = this.command(side, { op: "init", spaces: host.spaces, persistence });
      assert(reply.status === "ok", "init failed");
    }
  }

  #side(name: "a" | "b", options: RigOptions): Side {
    const plan = rnicPlan(name, options.plans?.[name]);
    const rnic = createRnic(`${name}.rnic`, plan, { seed: options.seed ?? 1 });
    const side: Side = {
      name,
      plan,
      rnic,
      host: new FakeHost(options.memoryBytes ?? MEMORY_BYTES),
      toHost: createLink(BUS),
      toRnic: createLink(BUS),
      toWire: createLink(WIRE),
      framesSent: 0,
      outputs: {
        send: (port, message, departAt) => this.#send(side, { port, departAt }, message),
        tracing: true,
        trace: (step) => {
          if (this.tracing) this.traces.push({ node: name, time: this.now, step });
        },
        report: (topic, value) => void this.reports.push({ node: name, topic, value }),
      },
    };
    return side;
  }

  #put(event: Omit<RigEvent, "order">): void {
    insert(this.#queue, { ...event, order: this.#order++ });
  }

  #send(side: Side, at: { port: number; departAt: Time }, message: Message): Time {
    assert(at.departAt >= this.now + side.rnic.processingPs, `${side.name} breaks its lookahead`);
    if (at.port === PORTS.rnicBus) {
      if (message.kind === "memory-write") {
        side.host.buffered.push({ address: message.address, length: message.data.length });
      }
      const { arrival, freeAt } = transmit(side.toHost, at.departAt, message);
      this.#put({
        time: arrival,
        to: "host",
        side,
        input: { kind: "message", port: 0, message, tailPs: 0 },
      });
      return freeAt;
    }
    assert(message.kind === "frame", "Only frames go to the network");
    checkKnown(message);
    const { arrival, freeAt } = transmit(side.toWire, at.departAt, message);
    this.frames.push({ from: side.name, bytes: message.bytes, time: at.departAt });
    this.watch(side.name, "sent", message.bytes);
    const fate = this.fate(side.name, message, side.framesSent++);
    const to = side === this.a ? this.b : this.a;
    for (const { frame, afterPs } of copiesOf(message, fate)) {
      this.#deliver(to, frame, arrival + afterPs);
    }
    return freeAt;
  }

  #deliver(side: Side, message: Frame, time: Time): void {
    const input: Input = { kind: "message", port: PORTS.rnicNetwork, message, tailPs: 0 };
    this.#put({ time, to: "rnic", side, input });
  }

  /** Puts any frame on the wire to a side, as a stranger would. */
  inject(side: Side, bytes: Uint8Array<ArrayBuffer>): void {
    this.#deliver(side, { kind: "frame", bytes }, this.now);
  }

  /** A cable of a side's RNIC goes down or up. */
  link(side: Side, port: number, up: boolean): void {
    if (port === PORTS.rnicBus) {
      this.#queue = this.#queue.filter((event) =>
        event.side !== side || event.input.kind !== "message" || event.input.port !== 0
      );
    }
    this.#put({ time: this.now, to: "rnic", side, input: { kind: "link", port, up } });
  }

  /** Sends a message from a host to its RNIC. */
  toRnic(side: Side, message: PcieMessage, at: Time = this.now): void {
    const { arrival } = transmit(side.toRnic, at, message);
    this.#put({
      time: arrival,
      to: "rnic",
      side,
      input: { kind: "message", port: PORTS.rnicBus, message, tailPs: 0 },
    });
  }

  /** Lets one thing happen. @returns false where nothing will. */
  step(): boolean {
    const next = this.#queue.at(-1);
    const wakes = [this.a, this.b].map(({ rnic }) => rnic.wakeAt());
    const wakeAt = Math.min(...wakes);
    if (next === undefined && wakeAt === NEVER) return false;
    this.steps++;
    if (next === undefined || wakeAt < next.time) {
      const side = wakes[0] === wakeAt ? this.a : this.b;
      assert(wakeAt >= this.now, "A wake lies in the past");
      this.now = wakeAt;
      side.rnic.step(this.now, { kind: "wake" }, side.outputs);
      return true;
    }
    this.#queue.pop();
    assert(next.time >= this.now, "Time runs back");
    this.now = next.time;
    if (
      next.to === "rnic" && next.input.kind === "message" && next.input.message.kind === "frame"
    ) {
      this.watch(next.side.name, "received", next.input.message.bytes);
    }
    if (next.to === "rnic") next.side.rnic.step(this.now, next.input, next.side.outputs);
    else if (next.input.kind === "message") {
      this.#hostTakes(next.side, next.input.message as PcieMessage);
    }
    return true;
  }

  /** Whether nothing will happen any more unless a host does something. */
  get isQuiet(): boolean {
    return this.#queue.length === 0 && this.a.rnic.wakeAt() === NEVER &&
      this.b.rnic.wakeAt() === NEVER;
  }

  /** Until nothing happens any more, when the cards hold nothing, or `until`. */
  run(until: () => boolean = () => false, steps = 400_000): void {
    for (let i = 0; i < steps; i++) {
      if (until()) return;
      if (!this.step()) return this.#assertAtRest();
    }
    throw new Error(`The rig is not quiet after ${steps} steps`);
  }

  /** What the cards, or that of one side, have noted for the reader of the run. */
  warnings(side?: "a" | "b"): string[] {
    return this.reports.filter(({ node, topic }) =>
      topic === "warning" && (side === undefined || node === side)
    ).map(({ value }) => (value as { readonly message: string }).message);
  }

  #assertAtRest(): void {
    for (const { name, rnic } of [this.a, this.b]) {
      const held = rnic.heldAtRest!().filter(({ kind }) =>
        kind === "leaked" || !this.leavesRequests
      );
      const texts = held.map(({ text }) => text).join(", ");
      assert(held.length === 0, `${name} is at rest and holds: ${texts}`);
    }
  }

  /** Until `time` from now has passed. */
  runFor(ps: Time): void {
    const end = this.now + ps;
    for (;;) {
      const next = Math.min(
        this.#queue.at(-1)?.time ?? NEVER,
        this.a.rnic.wakeAt(),
        this.b.rnic.wakeAt(),
      );
      if (next > end) break;
      this.step();
    }
    this.now = end;
  }

  #hostTakes(side: Side, message: PcieMessage): void {
    if (message.kind === "completion") return this.toRnic(side, message);
    const answer = side.host.take(message);
    side.host.hear(message);
    if (answer === undefined) return;
    // The answer is on its way to the bus: a core's doorbell may still come before it.
    const input: Input = { kind: "message", port: PORTS.rnicBus, message: answer, tailPs: 0 };
    this.#put({ time: this.now + MEMORY_PS, to: "host", side, input });
  }

  /** A core's store, of which the RNIC is told where it keeps a copy. */
  store(side: Side, address: number, bytes: Uint8Array): void {
    side.host.memory.set(bytes, address);
    this.changed(side, address, bytes.length);
  }

  /** A core has changed these bytes. */
  changed(side: Side, address: number, length: number): void {
    const { tracked } = side.host;
    for (const line of [...tracked]) {
      if (line >= address + length || line + LINE_BYTES <= address) continue;
      tracked.delete(line);
      this.toRnic(side, { kind: "snoop-invalidate", address: line });
    }
  }

  command(side: Side, command: RnicCommand): RnicReply {
    const { host } = side;
    const id = host.nextCommand++;
    this.toRnic(side, { kind: "command", id, command });
    this.run(() => host.replies.has(id));
    const reply = host.replies.get(id);
    assert(reply !== undefined, `No reply to ${command.op}`);
    return reply;
  }

  createCq(side: Side, options: { entries?: number; vector?: number | null } = {}): RigCq {
    const entries = options.entries ?? 256;
    const address = side.host.allocate(entries * CQE_BYTES);
    side.host.memory.fill(0xf1, address, address + entries * CQE_BYTES);
    const ring = { address, units: entries };
    const vector = options.vector ?? null;
    const reply = granted(this.command(side, { op: "create-cq", ring, vector }), "create-cq");
    return { cqn: reply.cqn, address, entries, taken: 0 };
  }

  createQp(side: Side, options: QpOptions = {}): RigQp {
    const depth = options.depth ?? 64, rqDepth = options.rqDepth ?? 64;
    const sendCq = options.cq ?? this.createCq(side);
    const recvCq = options.recvCq ?? sendCq;
    const sq = side.host.allocate(depth * WQE_UNIT_BYTES);
    const { srq } = options;
    const rq = srq === undefined ? side.host.allocate(rqDepth * RECV_STRIDE) : 0;
    const answer = this.command(side, {
      op: "create-qp",
      type: options.type ?? "rc",
      sq: { address: sq, units: depth },
      ...(srq === undefined
        ? { rq: { address: rq, units: rqDepth }, rqStride: RECV_STRIDE }
        : { srq: srq.srqn }),
      sendCq: sendCq.cqn,
      recvCq: recvCq.cqn,
      pd: options.pd ?? 1,
      persistCompletion: options.persistCompletion ?? "persistence",
      ...(options.qpn !== undefined && { qpn: options.qpn }),
      ...(options.weight !== undefined && { weight: options.weight }),
      ...(options.hints !== undefined && { hints: options.hints }),
      ...(options.privileged && { privileged: true }),
      ...(options.hintEncoding !== undefined && { hintEncoding: options.hintEncoding }),
    });
    const reply = granted(answer, "create-qp");
    return {
      qpn: reply.qpn,
      sq: { queue: reply.sqQueue, address: sq, depth, write: depth - 1, stamp: 0 },
      rq: srq?.ring ??
        { queue: reply.rqQueue, address: rq, depth: rqDepth, write: rqDepth - 1, stamp: 0 },
      sendCq,
      recvCq,
    };
  }

  modify(side: Side, qp: RigQp, attributes: QpAttributes): RnicReply {
    return this.command(side, { op: "modify-qp", qpn: qp.qpn, attributes });
  }

  /** Takes a queue pair to RTS, with `peer` as its other end. */
  bringUp(side: Side, qp: RigQp, peer: { qpn: number; attributes?: QpAttributes }): void {
    const other = side === this.a ? this.b : this.a;
    for (const step of stepsToRts(other.plan.address, peer)) {
      const reply = this.modify(side, qp, step);
      assert(reply.status === "ok", `modify: ${JSON.stringify(reply)}`);
    }
  }

  /** A connected pair, `a` towards `b`. */
  connect(
    options: QpOptions & { readonly attributes?: QpAttributes } = {},
  ): { a: RigQp; b: RigQp } {
    const a = this.createQp(this.a, options);
    const b = this.createQp(this.b, options);
    const { attributes = {} } = options;
    this.bringUp(this.a, a, { qpn: b.qpn, attributes });
    this.bringUp(this.b, b, { qpn: a.qpn, attributes });
    return { a, b };
  }

  /**
   * Registers memory in pages of 4 KiB. It is persistent, as all of the rig's memory is there after a
   * power failure, unless a test says otherwise.
   */
  register(side: Side, options: RegionOptions): RigMr {
    const { length } = options;
    if (this.demand !== undefined) return this.demand[side.name].register(options);
    const va = options.va ?? 0x1_0000_0000;
    const { pageBytes, pages } = side.host.allocatePages({ ...options, va });
    const access = options.access ?? ACCESS.localWrite | ACCESS.remoteWrite | ACCESS.remoteRead;
    const { pd = 1, persistent = true } = options;
    const region = { pd, va, length, access, pageBytes, pages, persistent };
    const key = this.registerPlan(side, region);
    return { key, va, address: pages[0]! + va % pageBytes, length };
  }

  /** Registers what the plan says, with the memory that the card needs for it. @returns its key. */
  registerPlan(side: Side, region: RegionPlan): number {
    const command = { op: "register-mr", region } as const;
    const reply = this.command(side, command);
    if (reply.status !== "ok" || reply.op !== "memory-needed") {
      return granted(reply, "register-mr").rkey;
    }
    const address = side.host.allocate(reply.bytes);
    this.command(side, { op: "give-memory", address, length: reply.bytes });
    return granted(this.command(side, command), "register-mr").rkey;
  }

  /** Writes a send WQE into the ring; {@link ring} tells the RNIC. @returns its position. */
  enqueueSend(side: Side, qp: RigQp, wqe: RigWqe): number {
    return side.host.enqueueSend(qp, wqe);
  }

  /** Space 3, then (unless `bell` is "none") the doorbell. */
  ring(side: Side, ring: Ring, bell: "pointer" | "number" | "none" = "pointer"): void {
    const write = side.host.tellPointer(ring, this.now);
    if (bell === "none") return;
    const data = encodeDoorbell(
      bell === "pointer" ? { queue: ring.queue, write } : { queue: ring.queue },
    );
    const note = bell === "number" && { stored: write };
    this.toRnic(side, { kind: "register-write", offset: DOORBELL_OFFSET, data, ...note });
  }

  send(side: Side, qp: RigQp, wqe: RigWqe): number {
    const position = this.enqueueSend(side, qp, wqe);
    this.ring(side, qp.sq);
    return position;
  }

  recv(
    side: Side,
    qp: RigQp,
    sges: readonly Sge[],
    bell: "pointer" | "number" | "none" = "none",
  ): number {
    const position = side.host.enqueueRecv(qp, sges);
    this.ring(side, qp.rq, bell);
    return position;
  }

  arm(side: Side, cq: RigCq, solicitedOnly = false): void {
    const data = encodeCqArm({ cqn: cq.cqn, position: cq.taken, solicitedOnly });
    this.toRnic(side, { kind: "register-write", offset: CQ_ARM_OFFSET, data });
  }

  /** Takes what has completed, and tells the RNIC by space 3. */
  poll(side: Side, cq: RigCq): Cqe[] {
    return side.host.takeCqes(cq, this.now);
  }

  fill(side: Side, mr: RigMr, bytes: (index: number) => number): void {
    for (let i = 0; i < mr.length; i++) side.host.memory[mr.address + i] = bytes(i) & 0xff;
  }

  bytes(side: Side, mr: RigMr, from = 0, length = mr.length - from): Uint8Array {
    this.demand?.[side.name].touch(mr, from, length);
    return side.host.memory.slice(mr.address + from, mr.address + from + length);
  }
}
