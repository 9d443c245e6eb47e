/**
 * One pass over a run in this process, which keeps what queries about any instant need. None of it
 * affects the run.
 */
import type { TimedRecord, WriteRecord, WritesRecord } from "../../fabric/audit.ts";
import type { Observation } from "../../fabric/capture/observation.ts";
import { wireBytes } from "../../fabric/link/link.ts";
import { isLineWrite } from "../../fabric/wire/host_bus/coherent.ts";
import { type Input, type Message, type Node, type Outputs, PORTS } from "../../fabric/node.ts";
import type { CreateNode } from "../../fabric/partition/partition.ts";
import { Simulator } from "../../fabric/partition/simulator.ts";
import { type FoundOperation, OperationFinder } from "../../fabric/trace/trace.ts";
import { NEVER, PS_PER_US, type Time, transferTime } from "../../fabric/base/time.ts";
import { rackDigest } from "../../fabric/partition/digest.ts";
import { nodeFactory } from "../../nodes/factory.ts";
import type { FactoryOptions } from "../../nodes/make_host.ts";
import { SCM_BASE } from "../../nodes/host/memory/address_map.ts";
import type { MakeProgram } from "../../nodes/host/own_programs.ts";
import { type Life, livesOf } from "../checks/lives.ts";
import type { ReportSeen } from "../checks/run_record.ts";
import { victimOf } from "../explore/post_crash_run.ts";
import { HostMemory } from "./host_memory.ts";
import type { ReplayJob } from "./job.ts";
import { countBefore, Numbers } from "./log_arrays.ts";
import { type DeclaredWrite, Landing, MemoryRecord } from "./memory_record.ts";
import { isOfQueue, QueueCounts } from "./queue_counts.ts";
import { type Spool, SpooledPages } from "./spool.ts";
import { StepLog } from "./step_log.ts";
import { WireRecord } from "./wire_record.ts";

export interface Loaded {
  readonly own: Readonly<Record<string, MakeProgram>>;
  readonly inputs: ReadonlyMap<string, Readonly<Record<string, Uint8Array>>>;
  /** Serves native programs from the run's records. */
  readonly native?: FactoryOptions["native"];
  readonly replace: (create: CreateNode) => CreateNode;
  /** For the bytes of writes; absent: they are kept in memory. */
  readonly spool?: Spool;
}

export interface Sample {
  readonly at: Time;
  readonly events: number;
  readonly digest: string;
  /** By the schema of the node: see {@link Recording.countersOf}. */
  readonly counters: ReadonlyMap<string, Counted>;
}

interface Counted {
  readonly names: readonly string[];
  readonly values: Float64Array;
}

export interface RecordingOptions {
  /** Of both passes of a replay: each has half of it. */
  readonly detailBytes?: number;
}

/** `order`: among all records of the run. */
export type Ordered<T> = T & { readonly order: number };

/** Of all passes of a replay together: beyond it the oldest details are forgotten. */
const DETAIL_BYTES = 256 << 20;
/** A rack that is up needs the machine's memory itself, and is mostly asked for the recent past. */
const LIVE_DETAIL_BYTES = 128 << 20;
/** The first pass, and one for an instant whose details it has forgotten. */
const PASSES = 2;
const ROW_BYTES = 200;
/** A stretch that is not from the run's start begins so many steps before the instant. */
const STEPS_BEFORE = 500;
/** A stretch that is replayed anew leaves this share free: a slice of it is smaller. */
const ROOM_LEFT = 0.1;
const SAMPLES_MOST = 4_096;
const COUNTERS_MOST = 6_000_000;
const FRAMES_OF_CARD = 512;
const FIRST_EVENTS_OF_SAMPLE = 64;
const FIRST_SLICE_PS = PS_PER_US;

/** There in the process of a replay: see `client.ts`. */
const collect = globalThis as { readonly gc?: () => void };

export class Recording {
  job: ReplayJob;
  readonly simulator: Simulator;
  readonly lives: ReadonlyMap<string, readonly Life[]>;
  readonly steps = new StepLog();
  readonly #finder: OperationFinder;
  /** Since {@link detailFrom}; before it all but posts and completions. */
  notes: Ordered<TimedRecord>[] = [];
  readonly reports: Ordered<ReportSeen>[] = [];
  /** How far programs have said that they are. */
  readonly progress: ReportSeen[] = [];
  readonly wire: WireRecord;
  readonly memory = new Map<string, MemoryRecord>();
  readonly events = new Map<string, Numbers>();
  samples: Sample[] = [];
  /** Steps, messages and changes of memory before this are forgotten. */
  detailFrom: Time = 0;
  reached: Time = 0;
  #order = 0;
  #eventsOfSample = FIRST_EVENTS_OF_SAMPLE;
  #slicePs: Time = FIRST_SLICE_PS;
  readonly #writes = new Map<string, DeclaredWrite>();
  readonly #names = new Map<string, readonly string[]>();
  readonly #received = new Map<string, { readonly at: Time; readonly frame: Uint8Array }[]>();

  readonly #detailBytes: number;
  readonly #spool: Spool | undefined;
  #slices: (readonly [end: Time, events: number])[] = [];
  #notesForgotten = 0;
  /** By host: its queues by forgotten notes, in its life since then. */
  readonly #queues = new Map<string, { readonly since: Time; readonly counts: QueueCounts }>();

  constructor(
    job: ReplayJob,
    loaded: Loaded,
    { detailBytes = job.isLive ? LIVE_DETAIL_BYTES : DETAIL_BYTES }: RecordingOptions = {},
  ) {
    const { plan, orders } = job;
    this.job = job;
    this.#detailBytes = detailBytes / PASSES;
    this.#spool = loaded.spool;
    this.lives = livesOf(plan, plan.faults);
    this.wire = new WireRecord(plan);
    this.#finder = OperationFinder.of(plan);
    const scm = new Map<string, SpooledPages>();
    for (const { name, kind } of plan.nodes) {
      this.events.set(name, new Numbers());
      if (kind !== "host") continue;
      scm.set(name, new SpooledPages(loaded.spool));
      this.memory.set(name, new MemoryRecord(loaded.spool));
    }
    const made = nodeFactory({
      plan,
      image: (host) => (offset, length) => scm.get(host)!.read(offset, offset + length),
      inputs: (host) => loaded.inputs.get(host) ?? {},
      own: loaded.own,
      native: loaded.native,
      memoryLog: (host, life) => {
        const record = this.memory.get(host)!;
        if (life > 0) record.beginLife(this.lives.get(host)![life]!.from);
        return record;
      },
    });
    const create = loaded.replace(made);
    this.simulator = new Simulator({
      plan,
      orders,
      create: (name, life, unsaved) => this.#watched(create(name, life, unsaved)),
      onDurable: (host, writes) => {
        for (const { offset, data } of writes) scm.get(host)!.write(offset, data);
      },
      onTrace: (time, node, step) => {
        if (step.busy === undefined) {
          this.#finder.add({ time, node, ...step }, this.steps.dropped + this.steps.length);
          this.steps.push({ time, node, order: this.#order++ }, step);
        }
      },
      observer: { scope: "wire", see: (seen) => this.#see(seen), commit: () => {} },
    });
  }

  /** New orders of a run with the same faults that has come further. */
  extend(job: ReplayJob): void {
    for (const order of job.orders.slice(this.job.orders.length)) this.simulator.order(order);
    this.job = job;
  }

  /** Replays a slice up to `until`; true: something is left to do. */
  advance(until: Time): boolean {
    const { simulator } = this;
    const end = Math.min(until, this.job.plan.until ?? NEVER);
    if (simulator.next >= end) {
      this.reached = Math.max(this.reached, end === NEVER ? this.endBefore(NEVER) : end);
      this.#noteCuts();
      return false;
    }
    const from = Math.max(simulator.next, this.reached);
    const to = Math.min(end, from + this.#slicePs);
    const events = simulator.run(to);
    this.reached = to;
    this.#takeSample();
    // As many events to a slice as to a sample: the past alone must decide it.
    if (events > this.#eventsOfSample) this.#slicePs = Math.max(1, Math.floor(this.#slicePs / 2));
    else if (events < this.#eventsOfSample / 4) this.#slicePs *= 2;
    this.#noteCuts();
    this.#slices.push([to, simulator.events]);
    if (this.heldBytes > this.#detailBytes) this.#forgetHalf();
    return true;
  }

  /** The instant after the last event or fault before `at`, of those that are replayed by now. */
  endBefore(at: Time): Time {
    const { plan: { faults, linkFaults = [] } } = this.job;
    const last = [...faults, ...linkFaults].reduce(
      (last, fault) => fault.at < at ? Math.max(last, fault.at) : last,
      this.simulator.now,
    );
    return last + 1;
  }

  /** Power failures that were reached, before anything of their instants is forgotten. */
  #noteCuts(): void {
    for (const [host, record] of this.memory) {
      const lives = this.lives.get(host)!;
      for (;;) {
        const at = lives[record.cuts.length]?.to ?? Infinity;
        // Of one behind the end of the run nothing is known.
        if (at > this.reached || at === Infinity) break;
        const { config, noticePs } = victimOf(this.job.plan, host);
        const memory = new HostMemory(record, { config, noticePs, lives, at });
        record.cuts.push({ at, lost: memory.lostByCut(this.#spool) });
      }
    }
  }

  /** All details are kept from some steps before `from` to `to`. */
  holds(from: Time, to: Time): boolean {
    if (to > this.reached) return false;
    return this.detailFrom === 0 ||
      (from >= this.detailFrom && this.steps.countBefore(from) >= STEPS_BEFORE);
  }

  /** A stretch of the greatest length is kept. */
  get isFull(): boolean {
    return this.heldBytes > (1 - ROOM_LEFT) * this.#detailBytes;
  }

  makeRoom(): void {
    if (this.heldBytes > this.#detailBytes / 2) this.#forgetHalf();
  }

  #forgetHalf(): void {
    const [, first] = this.#slices[0]!, [, last] = this.#slices.at(-1)!;
    const [at] = this.#slices.find(([, events]) => events - first >= (last - first) / 2)!;
    this.detailFrom = at;
    this.#slices = this.#slices.filter(([end]) => end >= at);
    this.steps.drop(this.steps.countBefore(at));
    this.wire.forgetBefore(at);
    for (const record of this.memory.values()) record.forgetBefore(at);
    this.#forgetNotes(at);
    // V8 hurries for its own heap only: it would leave as much again in arrays beside it.
    collect.gc?.();
  }

  #forgetNotes(at: Time): void {
    const count = countBefore(this.notes, at), kept: Ordered<TimedRecord>[] = [];
    for (const row of this.notes.slice(0, count)) {
      if (isOfQueue(row.note)) this.#count(row);
      else kept.push(row);
    }
    this.notes = [...kept, ...this.notes.slice(count)];
    this.#notesForgotten = kept.length;
  }

  #count(row: TimedRecord): void {
    const { node, time } = row;
    const { from: since } = this.lives.get(node)!.findLast(({ from }) => from <= time)!;
    let queues = this.#queues.get(node);
    if (queues?.since !== since) {
      this.#queues.set(node, queues = { since, counts: new QueueCounts() });
    }
    queues.counts.add(row);
  }

  /** Posts and completions of a host's programs from `since` on, before `at`. */
  queuesAt(host: string, { since, at }: { readonly since: Time; readonly at: Time }): QueueCounts {
    const known = this.#queues.get(host);
    const queues = new QueueCounts(known?.since === since ? known.counts : undefined);
    const { notes } = this, from = Math.max(since, this.detailFrom);
    for (let i = countBefore(notes, from); i < notes.length && notes[i]!.time < at; i++) {
      if (notes[i]!.node === host) queues.add(notes[i]!);
    }
    return queues;
  }

  /** Of details, approximately, without data that are kept for the whole run. */
  get heldBytes(): number {
    let bytes = this.steps.heldBytes + ROW_BYTES * (this.notes.length - this.#notesForgotten);
    for (const { heldBytes } of this.memory.values()) bytes += heldBytes;
    return bytes + this.wire.heldBytes;
  }

  #takeSample(): void {
    const { simulator } = this;
    const last = this.samples.at(-1)?.events ?? 0;
    if (simulator.events - last < this.#eventsOfSample) return;
    const counters = new Map<string, Counted>();
    let count = 0;
    for (const [node, statistics] of Object.entries(simulator.statistics())) {
      const names = this.#namesOf(node, statistics);
      counters.set(node, { names, values: Float64Array.from(Object.values(statistics)) });
      count += names.length;
    }
    const { reached: at } = this;
    this.samples.push({
      at,
      events: simulator.events,
      digest: rackDigest(simulator.nodes()),
      counters,
    });
    if (this.samples.length < Math.min(SAMPLES_MOST, COUNTERS_MOST / count)) return;
    this.samples = this.samples.filter((_, i) => i % 2 === 1);
    this.#eventsOfSample *= 2;
  }

  #namesOf(node: string, statistics: Readonly<Record<string, number>>): readonly string[] {
    const names = Object.keys(statistics), known = this.#names.get(node);
    const isKnown = known?.length === names.length && names.every((name, i) => name === known[i]);
    if (isKnown) return known;
    this.#names.set(node, names);
    return names;
  }

  #see(seen: Observation): void {
    const { time } = seen;
    const node = this.job.plan.nodes[seen.node]!.name;
    if (seen.kind === "sent") this.wire.frame(node, seen, this.#order++);
    else if (seen.kind === "report") {
      const { topic, value } = seen;
      if (topic === "progress") this.progress.push({ time, node, topic, value });
      else this.reports.push({ time, node, topic, value, order: this.#order++ });
    } else if (seen.kind === "note") {
      const { by } = seen;
      const note = seen.note.kind === "writes"
        ? this.#declared({ time, node, by, note: seen.note })
        : seen.note;
      this.notes.push({ time, node, by, note, order: this.#order++ });
      if (note.kind === "visible" || note.kind === "persistent") this.#confirm({ time, by, note });
      if (note.kind === "completed" && note.queue === "send") {
        this.#finder.complete({ ...note, time, node });
      }
    }
  }

  #declared(
    { time, node, by, note }: { time: Time; node: string; by: string; note: WritesRecord },
  ): WritesRecord {
    const write: DeclaredWrite = {
      ...{ by, id: note.id, node, on: note.on, issuedAt: time },
      landing: new Landing(note.at, note.bytes, this.#spool),
      ...{ visibleAt: Infinity, claimedAt: Infinity, promisedAt: Infinity },
    };
    this.#writes.set(`${by} ${note.id}`, write);
    this.memory.get(note.on)?.declare(write);
    const { landing } = write;
    return {
      ...note,
      get bytes() {
        return landing.bytes;
      },
    };
  }

  #confirm({ time, by, note }: { time: Time; by: string; note: WriteRecord }): void {
    const write = this.#writes.get(`${by} ${note.id}`);
    if (write === undefined) return;
    write.visibleAt = Math.min(write.visibleAt, time);
    if (note.kind !== "persistent") return;
    if (note.promised) write.promisedAt = Math.min(write.promisedAt, time);
    else write.claimedAt = Math.min(write.claimedAt, time);
  }

  operations(): readonly FoundOperation[] {
    return this.#finder.operations();
  }

  writeOf(by: string, id: number): DeclaredWrite | undefined {
    return this.#writes.get(`${by} ${id}`);
  }

  #watched(node: Node): Node {
    const { name } = node;
    const events = this.events.get(name)!;
    const step = node.step.bind(node);
    let now: Time = 0;
    let wrapped: { readonly original: Outputs; readonly outputs: Outputs } | undefined;
    const hasBus = node.kind !== "switch";
    node.step = (time: Time, input: Input, out: Outputs) => {
      now = time;
      events.push(time);
      if (!hasBus) return step(time, input, out);
      if (node.kind === "rnic" && input.kind === "message" && input.message.kind === "frame") {
        // A frame that was made in this process has brought its packet.
        const { bytes, packet } = input.message;
        this.#receive(name, { at: time, frame: packet?.payload ?? bytes });
      }
      if (wrapped?.original !== out) {
        const sent = (port: number, message: Message, freeAt: Time) =>
          this.#sent(node, { port, message, freeAt, now });
        wrapped = { original: out, outputs: watchedOutputs(out, sent) };
      }
      step(time, input, wrapped.outputs);
    };
    return node;
  }

  #receive(card: string, received: { readonly at: Time; readonly frame: Uint8Array }): void {
    let latest = this.#received.get(card);
    if (latest === undefined) this.#received.set(card, latest = []);
    latest.push(received);
    if (latest.length > 2 * FRAMES_OF_CARD) latest.splice(0, FRAMES_OF_CARD);
  }

  /** When the card received the frame that contains these bytes; -1: no frame does. */
  #receivedAt(card: string, { buffer, byteOffset }: Uint8Array): Time {
    const received = this.#received.get(card)?.findLast(({ frame }) =>
      frame.buffer === buffer && byteOffset >= frame.byteOffset &&
      byteOffset < frame.byteOffset + frame.length
    );
    return received?.at ?? -1;
  }

  #sent(
    node: Node,
    { port, message, freeAt, now }: { port: number; message: Message; freeAt: Time; now: Time },
  ): void {
    if (message.kind === "frame") return;
    const direction = this.wire.directionOf(node.name, port);
    if (direction === undefined) return;
    const { latencyPs, bitsPerSecond, attach } = direction.plan;
    const bytes = wireBytes(message, attach);
    const startPs = freeAt - transferTime(bytes, bitsPerSecond);
    const kind = message.kind === "coherent" ? message.op : message.kind;
    this.wire.bus(direction, { kind, startPs, endPs: freeAt, bytes, order: this.#order++ });
    if (node.kind !== "rnic" || port !== PORTS.rnicBus) return;
    if (message.kind !== "memory-write" && !isLineWrite(message)) return;
    if (message.address < SCM_BASE) return;
    const record = this.memory.get(direction.to), offset = message.address - SCM_BASE;
    record?.pass({
      landing: new Landing(offset, record.declaredBytes(offset, message.data)),
      card: node.name,
      cardAt: this.#receivedAt(node.name, message.data),
      sentAt: now,
      busAt: startPs,
      arrivesAt: freeAt + latencyPs,
    });
  }
}

function watchedOutputs(
  out: Outputs,
  sent: (port: number, message: Message, freeAt: Time) => void,
): Outputs {
  return {
    get tracing() {
      return out.tracing;
    },
    get timing() {
      return out.timing === true;
    },
    get auditing() {
      return out.auditing === true;
    },
    send(port, message, departAt) {
      const freeAt = out.send(port, message, departAt);
      sent(port, message, freeAt);
      return freeAt;
    },
    trace: (step) => out.trace(step),
    report: (topic, value) => out.report(topic, value),
    audit: (by, note) => out.audit?.(by, note),
  };
}
