/**
 * Test rig: two RNICs back to back, each with a fake host that is memory, rings and a driver of a few
 * lines. Nothing of `nodes/host` is used, so what is tested here is the RNIC alone.
 */
import { assert } from "../../fabric/assert.ts";
import { createLink, type Link, transmit } from "../../fabric/link/link.ts";
import {
  type Frame,
  type Input,
  type Message,
  type Node,
  type Outputs,
  PORTS,
  type TraceStep,
} from "../../fabric/node.ts";
import type { RnicPlan } from "../../fabric/rack/plan.ts";
import { NEVER, PS_PER_NS, type Time } from "../../fabric/time/time.ts";
import { type Cqe, CQE_BYTES, decodeCqe } from "../../fabric/wire/cqe.ts";
import { macOfAddress } from "../../fabric/wire/neighbour.ts";
import type { PcieMessage } from "../../fabric/wire/pcie.ts";
import {
  CQ_ARM_OFFSET,
  DOORBELL_OFFSET,
  encodeCqArm,
  encodeDoorbell,
  encodeSpace3,
  SPACE1_BYTES,
  SPACE2_BYTES,
  SPACE3_BYTES,
} from "../../fabric/wire/queue_information.ts";
import {
  ACCESS,
  type PersistencePlan,
  type QpAttributes,
  type QpType,
  type RnicCommand,
  type RnicEvent,
  type RnicReply,
} from "../../fabric/wire/rnic_command.ts";
import {
  encodeRecvWqe,
  encodeSendWqe,
  type SendWqe,
  type Sge,
  WQE_UNIT_BYTES,
} from "../../fabric/wire/wqe.ts";
import { createRnic } from "./rnic.ts";

const BUS = {
  latencyPs: 150 * PS_PER_NS,
  bitsPerSecond: 126e9,
  kind: "bus",
  headOnly: false,
} as const;
const WIRE = {
  latencyPs: 200 * PS_PER_NS,
  bitsPerSecond: 100e9,
  kind: "network",
  headOnly: false,
} as const;
/** How long the fake host takes to answer a DMA read. */
const MEMORY_PS = 200 * PS_PER_NS;
const MEMORY_BYTES = 1 << 22;
const PAGE_BYTES = 4096;
export const RECV_STRIDE = 64;

export function rnicPlan(name: string, given: Partial<RnicPlan> = {}): RnicPlan {
  const address = name === "a" ? 0x0a00_0001 : 0x0a00_0002;
  return {
    host: name,
    address,
    mac: macOfAddress(address),
    mtu: 4096,
    queueCache: { entries: 64, evict: "oldest", amount: 1 },
    timing: {
      receivePs: 70_000,
      schedulePs: 30_000,
      sendPs: 60_000,
      persistPs: 30_000,
      commandPs: 1_000_000,
      wqeFetchUnits: 4,
      dmaReadBytes: 512,
      dmaReadsMax: 13,
      gatherReadBytes: 4096,
      gatherReadsMax: 32,
    },
    ...given,
  };
}

interface Event {
  readonly time: Time;
  readonly order: number;
  readonly to: "rnic" | "host";
  readonly side: Side;
  readonly input: Input;
}

/**
 * What a test may do to a frame: let it pass, lose it, send it twice, hold it back, replace it, or damage
 * one bit, counted from the first of the frame. With `againPs` a copy comes so long after the frame.
 */
export type FrameFate =
  | "pass"
  | "drop"
  | "twice"
  | {
    readonly delayPs?: Time;
    readonly replaceBy?: Uint8Array<ArrayBuffer>;
    readonly flipBit?: number;
    readonly againPs?: Time;
  };

export interface RigOptions {
  readonly seed?: number;
  readonly plans?: { readonly a?: Partial<RnicPlan>; readonly b?: Partial<RnicPlan> };
  readonly persistence?: { readonly a?: PersistencePlan; readonly b?: PersistencePlan };
  readonly fate?: (from: "a" | "b", frame: Frame, count: number) => FrameFate;
  /** Bytes of each host's memory: a rig costs mostly them. */
  readonly memoryBytes?: number;
}

/** One machine of the rig. */
export interface Side {
  readonly name: "a" | "b";
  readonly plan: RnicPlan;
  readonly rnic: Node;
  readonly host: FakeHost;
  readonly outputs: Outputs;
  readonly toHost: Link;
  readonly toRnic: Link;
  readonly toWire: Link;
  framesSent: number;
}

/** A ring as the fake driver keeps it. */
interface Ring {
  readonly queue: number;
  readonly address: number;
  readonly depth: number;
  write: number;
  stamp: number;
}

export interface RigCq {
  readonly cqn: number;
  readonly address: number;
  readonly entries: number;
  taken: number;
}

export interface RigQp {
  readonly qpn: number;
  readonly sq: Ring;
  readonly rq: Ring;
  readonly sendCq: RigCq;
  readonly recvCq: RigCq;
}

/** A shared receive queue (`objects_testing.ts`). */
export interface RigSrq {
  readonly srqn: number;
  readonly ring: Ring;
}

/** A region of the fake host's memory: virtual addresses are `va` on, physical from `address`. */
export interface RigMr {
  readonly key: number;
  readonly va: number;
  readonly address: number;
  readonly length: number;
}

function flipped(bytes: Uint8Array<ArrayBuffer>, bit: number): Uint8Array<ArrayBuffer> {
  const damaged = bytes.slice();
  damaged[bit >> 3]! ^= 0x80 >> (bit & 7);
  return damaged;
}

export class FakeHost {
  readonly memory: Uint8Array<ArrayBuffer>;
  readonly replies = new Map<number, RnicReply>();
  readonly events: RnicEvent[] = [];
  readonly interrupts: number[] = [];
  /**
   * DMA writes that no DMA read has pushed out yet, from the moment the RNIC hands them to the bus:
   * on the cable and in the IIO of flow 1.
   */
  buffered: { readonly address: number; readonly length: number }[] = [];
  /** Of these the ones that have arrived: a read pushes out no more. */
  arrived = 0;
  /** Every DMA read and write in the order of arrival. */
  readonly log: PcieMessage[] = [];
  /** Reads answered "unsupported request". */
  refuseReads = false;
  spaces = { queues: 64, space1: 0, space2: 0, space3: 0 };
  nextCommand = 1;
  #top = PAGE_BYTES;

  constructor(memoryBytes: number) {
    this.memory = new Uint8Array(memoryBytes);
  }

  allocate(bytes: number): number {
    const at = this.#top;
    this.#top += Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES;
    assert(this.#top <= this.memory.length, "The fake host is out of memory");
    return at;
  }
}

export class Rig {
  now: Time = 0;
  readonly a: Side;
  readonly b: Side;
  readonly traces: { readonly node: string; readonly time: Time; readonly step: TraceStep }[] = [];
  readonly frames: {
    readonly from: "a" | "b";
    readonly bytes: Uint8Array<ArrayBuffer>;
    readonly time: Time;
  }[] = [];
  tracing = false;
  fate: NonNullable<RigOptions["fate"]>;
  #queue: Event[] = [];
  #order = 0;
  steps = 0;

  constructor(options: RigOptions = {}) {
    this.fate = options.fate ?? (() => "pass");
    this.a = this.#side("a", options);
    this.b = this.#side("b", options);
    for (const side of [this.a, this.b]) {
      this.#put({ time: 0, to: "rnic", side, input: { kind: "power" } });
    }
    for (const side of [this.a, this.b]) {
      const { host } = side;
      host.spaces = {
        queues: 64,
        space1: host.allocate(64 * SPACE1_BYTES),
        space2: host.allocate(64 * SPACE2_BYTES),
        space3: host.allocate(64 * SPACE3_BYTES),
      };
      const persistence = options.persistence?.[side.name] ?? { flow: 1, noSnoop: false };
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
        report() {},
      },
    };
    return side;
  }

  #put(event: Omit<Event, "order">): void {
    const full = { ...event, order: this.#order++ };
    let low = 0, high = this.#queue.length;
    // Latest first, so that the next event is popped off the end.
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = this.#queue[middle]!;
      if (other.time > full.time || (other.time === full.time && other.order > full.order)) {
        low = middle + 1;
      } else high = middle;
    }
    this.#queue.splice(low, 0, full);
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
    const { arrival, freeAt } = transmit(side.toWire, at.departAt, message);
    this.frames.push({ from: side.name, bytes: message.bytes, time: at.departAt });
    const fate = this.fate(side.name, message, side.framesSent++);
    const to = side === this.a ? this.b : this.a;
    const input = { kind: "message", port: PORTS.rnicNetwork, message, tailPs: 0 } as const;
    if (fate === "drop") return freeAt;
    const { delayPs = 0, replaceBy, flipBit, againPs = undefined } = typeof fate === "object"
      ? fate
      : {};
    const bytes = replaceBy ??
      (flipBit === undefined ? undefined : flipped(message.bytes, flipBit));
    const first: Input = bytes === undefined
      ? input
      : { ...input, message: { kind: "frame", bytes } };
    const time = arrival + delayPs;
    this.#put({ time, to: "rnic", side: to, input: first });
    const again = fate === "twice" ? 1 : againPs;
    if (again !== undefined) this.#put({ time: time + again, to: "rnic", side: to, input });
    return freeAt;
  }

  /** Puts any frame on the wire to a side, as a stranger would. */
  inject(side: Side, bytes: Uint8Array<ArrayBuffer>): void {
    const message: Frame = { kind: "frame", bytes };
    const input: Input = { kind: "message", port: PORTS.rnicNetwork, message, tailPs: 0 };
    this.#put({ time: this.now, to: "rnic", side, input });
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

  /** Until nothing happens any more, or `until`. */
  run(until: () => boolean = () => false, steps = 400_000): void {
    for (let i = 0; i < steps; i++) {
      if (until() || !this.step()) return;
    }
    throw new Error(`The rig is not quiet after ${steps} steps`);
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
    const { host } = side;
    if (message.kind === "completion") return this.toRnic(side, message);
    host.log.push(message);
    switch (message.kind) {
      case "memory-write":
        host.memory.set(message.data, message.address);
        host.arrived++;
        return;
      case "memory-read": {
        // P-03: the read completes behind all earlier writes, which are pushed out by it.
        host.buffered.splice(0, host.arrived);
        host.arrived = 0;
        const { tag, address, length } = message;
        const refused = host.refuseReads || address + length > host.memory.length;
        const data = refused ? new Uint8Array(0) : host.memory.slice(address, address + length);
        const status = refused ? "unsupported-request" : "success";
        // The answer is on its way to the bus: a core's doorbell may still come before it.
        const answer = { kind: "completion", tag, status, data } as const;
        const input: Input = { kind: "message", port: PORTS.rnicBus, message: answer, tailPs: 0 };
        this.#put({ time: this.now + MEMORY_PS, to: "host", side, input });
        return;
      }
      case "interrupt":
        host.interrupts.push(message.vector);
        return;
      case "reply":
        host.replies.set(message.id, message.reply);
        return;
      case "event":
        host.events.push(message.event);
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
    const reply = this.command(side, { op: "create-cq", ring, vector: options.vector ?? null });
    assert(
      reply.status === "ok" && reply.op === "create-cq",
      `create-cq: ${JSON.stringify(reply)}`,
    );
    return { cqn: reply.cqn, address, entries, taken: 0 };
  }

  createQp(
    side: Side,
    options: {
      type?: QpType;
      depth?: number;
      rqDepth?: number;
      cq?: RigCq;
      recvCq?: RigCq;
      qpn?: number;
      pd?: number;
      srq?: RigSrq;
      persistCompletion?: "persistence" | "reception";
    } = {},
  ): RigQp {
    const depth = options.depth ?? 64, rqDepth = options.rqDepth ?? 64;
    const sendCq = options.cq ?? this.createCq(side);
    const recvCq = options.recvCq ?? sendCq;
    const sq = side.host.allocate(depth * WQE_UNIT_BYTES);
    const { srq } = options;
    const rq = srq === undefined ? side.host.allocate(rqDepth * RECV_STRIDE) : 0;
    const reply = this.command(side, {
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
    });
    assert(
      reply.status === "ok" && reply.op === "create-qp",
      `create-qp: ${JSON.stringify(reply)}`,
    );
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
    const { attributes = {} } = peer;
    const other = side === this.a ? this.b : this.a;
    const accessFlags = ACCESS.localWrite | ACCESS.remoteWrite | ACCESS.remoteRead |
      ACCESS.remoteWritePersistence;
    const steps: QpAttributes[] = [
      { state: "init", accessFlags: attributes.accessFlags ?? accessFlags },
      {
        state: "rtr",
        destAddress: other.plan.address,
        pathMtu: attributes.pathMtu ?? 1024,
        destQpn: peer.qpn,
        rqPsn: attributes.rqPsn ?? 0xff_fffe,
        maxDestRdAtomic: attributes.maxDestRdAtomic ?? 4,
        minRnrTimer: attributes.minRnrTimer ?? 1,
        trafficClass: attributes.trafficClass ?? 0,
      },
      {
        state: "rts",
        timeout: attributes.timeout ?? 4,
        retryCnt: attributes.retryCnt ?? 7,
        rnrRetry: attributes.rnrRetry ?? 7,
        sqPsn: attributes.sqPsn ?? 0xff_fffe,
        maxRdAtomic: attributes.maxRdAtomic ?? 4,
      },
    ];
    for (const step of steps) {
      const reply = this.modify(side, qp, step);
      assert(reply.status === "ok", `modify: ${JSON.stringify(reply)}`);
    }
  }

  /** A connected pair, `a` towards `b`. */
  connect(
    options: Parameters<Rig["createQp"]>[1] & { attributes?: QpAttributes } = {},
  ): { a: RigQp; b: RigQp } {
    const a = this.createQp(this.a, options);
    const b = this.createQp(this.b, options);
    const { attributes = {} } = options;
    this.bringUp(this.a, a, { qpn: b.qpn, attributes });
    this.bringUp(this.b, b, { qpn: a.qpn, attributes });
    return { a, b };
  }

  /**
   * Registers memory in pages of 4 KiB that lie in reverse order, so that translation matters. It is
   * persistent, as all of the rig's memory is there after a power failure, unless a test says otherwise.
   */
  register(
    side: Side,
    options: {
      length: number;
      access?: number;
      pd?: number;
      va?: number;
      scattered?: boolean;
      persistent?: boolean;
    },
  ): RigMr {
    const { length } = options;
    const va = options.va ?? 0x1_0000_0000;
    const pageBytes = 4096;
    const count = Math.floor((va + length - 1) / pageBytes) - Math.floor(va / pageBytes) + 1;
    const address = side.host.allocate(count * pageBytes);
    const pages = Array.from(
      { length: count },
      (_, i) => address + pageBytes * (options.scattered === true ? count - 1 - i : i),
    );
    const access = options.access ?? ACCESS.localWrite | ACCESS.remoteWrite | ACCESS.remoteRead;
    const { pd = 1, persistent = true } = options;
    const region = { pd, va, length, access, pageBytes, pages, persistent };
    const reply = this.command(side, { op: "register-mr", region });
    assert(
      reply.status === "ok" && reply.op === "register-mr",
      `register: ${JSON.stringify(reply)}`,
    );
    return { key: reply.rkey, va, address: pages[0]! + va % pageBytes, length };
  }

  /** Writes a send WQE into the ring; {@link ring} tells the RNIC. @returns its position. */
  enqueueSend(side: Side, qp: RigQp, wqe: Partial<SendWqe> & Pick<SendWqe, "opcode">): number {
    const { sq } = qp;
    const position = (sq.write + 1) % sq.depth;
    const bytes = encodeSendWqe({
      index: position,
      qpn: qp.qpn,
      signaled: true,
      solicited: false,
      fence: false,
      immediate: 0,
      sges: [],
      ...wqe,
    });
    for (let at = 0; at < bytes.length; at += WQE_UNIT_BYTES) {
      sq.write = (sq.write + 1) % sq.depth;
      side.host.memory.set(
        bytes.subarray(at, at + WQE_UNIT_BYTES),
        sq.address + sq.write * WQE_UNIT_BYTES,
      );
    }
    return position;
  }

  /** Space 3, then (unless `bell` is "none") the doorbell. */
  ring(side: Side, ring: Ring, bell: "pointer" | "number" | "none" = "pointer"): void {
    ring.stamp = Math.max(this.now, ring.stamp + 1);
    const write = { pointer: ring.write, stamp: ring.stamp };
    side.host.memory.set(encodeSpace3(write), side.host.spaces.space3 + ring.queue * SPACE3_BYTES);
    if (bell === "none") return;
    const data = encodeDoorbell(
      bell === "pointer" ? { queue: ring.queue, write } : { queue: ring.queue },
    );
    this.toRnic(side, { kind: "register-write", offset: DOORBELL_OFFSET, data });
  }

  send(side: Side, qp: RigQp, wqe: Partial<SendWqe> & Pick<SendWqe, "opcode">): number {
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
    const { rq } = qp;
    rq.write = (rq.write + 1) % rq.depth;
    side.host.memory.set(encodeRecvWqe(sges, RECV_STRIDE), rq.address + rq.write * RECV_STRIDE);
    this.ring(side, rq, bell);
    return rq.write;
  }

  arm(side: Side, cq: RigCq, solicitedOnly = false): void {
    const data = encodeCqArm({ cqn: cq.cqn, position: cq.taken, solicitedOnly });
    this.toRnic(side, { kind: "register-write", offset: CQ_ARM_OFFSET, data });
  }

  /** Takes what has completed, and tells the RNIC by space 3. */
  poll(side: Side, cq: RigCq): Cqe[] {
    const taken: Cqe[] = [];
    for (;;) {
      const at = cq.address + (cq.taken % cq.entries) * CQE_BYTES;
      const cqe = decodeCqe(side.host.memory.subarray(at, at + CQE_BYTES), cq.taken, cq.entries);
      if (cqe === undefined) break;
      taken.push(cqe);
      cq.taken++;
    }
    const pointer = cq.taken % cq.entries;
    const at = side.host.spaces.space3 + cq.cqn * SPACE3_BYTES;
    side.host.memory.set(encodeSpace3({ pointer, stamp: this.now }), at);
    return taken;
  }

  fill(side: Side, mr: RigMr, bytes: (index: number) => number): void {
    for (let i = 0; i < mr.length; i++) side.host.memory[mr.address + i] = bytes(i) & 0xff;
  }

  bytes(side: Side, mr: RigMr, from = 0, length = mr.length - from): Uint8Array {
    return side.host.memory.slice(mr.address + from, mr.address + from + length);
  }
}
