/**
 * A model of a card's queue information: what is on the chip, which reads are under way, who
 * waits for them, which pointer counts, and what is written to host memory. Memory is a table of fields; what leaves
 * the card is the names of fields that it reads and writes.
 */
import type { Time } from "../../../fabric/base/time.ts";
import type { QueueCachePlan } from "../../../fabric/rack/plan/queue_plan.ts";
import type { StampedPointer } from "../../../fabric/wire/host_bus/queue_information.ts";
import {
  type Placement,
  QUEUE_FIELDS,
  type QueueField,
  type QueueFields,
} from "../../../fabric/wire/host_bus/queue_placement.ts";

export interface QueueWorld {
  readonly scheme: "three-space" | "classic";
  readonly layout: "areas" | "record";
  readonly placement: Placement;
  readonly cache: QueueCachePlan;
  readonly readPointer: "at-eviction" | "batched";
}

export type Fields = { -readonly [F in QueueField]: QueueFields[F] };

export interface EntryModel extends Fields {
  readonly queue: number;
  pins: number;
  told: number;
  recycled: boolean;
  rung: boolean;
  dirty: boolean;
  readonly cachedAt: Time;
}

/** Of a look-up: `name` tells waiters apart. */
export interface WaiterModel {
  readonly name: string;
  readonly kind: "doorbell" | "send" | "recv" | "context";
  readonly write?: StampedPointer | undefined;
  readonly stored?: StampedPointer | undefined;
  /** Only a pointer read after the question will do. */
  readonly reread?: boolean;
}

export interface LoadModel {
  readonly queue: number;
  readonly known: EntryModel | undefined;
  found: Partial<Fields>;
  missing: number;
  hasFailed: boolean;
  rung: boolean;
  isVoid: boolean;
  readonly waiters: WaiterModel[];
  readonly late: WaiterModel[];
}

export interface ReadModel {
  readonly load: LoadModel;
  readonly part: "all" | "address" | "pointer" | 1 | 2 | 3;
  readonly fields: readonly QueueField[];
}

const NOTHING: Fields = {
  ...{ wqeAddress: 0, indexAddress: 0, kind: "sq", state: "reset", valid: false, owner: 0 },
  ...{ rnicPointer: 0, depth: 0, unitBytes: 0, hostPointer: 0, stamp: 0 },
};

export class QueueModel {
  now: Time = 0;
  readonly counters = {
    ...{ cacheHits: 0, cacheMisses: 0, cacheEvictions: 0, queueReads: 0, doorbellReads: 0 },
    ...{ pointerWrites: 0, wqeReads: 0, contextMisses: 0, doorbellsRefused: 0, stalePointers: 0 },
  };
  readonly memory = new Map<number, Fields>();
  /** The one cached first is in front. */
  chip: EntryModel[] = [];
  readonly loads = new Map<number, LoadModel>();
  reads: ReadModel[] = [];
  /** Fields written since the last step, in order. */
  readonly written: { readonly queue: number; readonly fields: readonly QueueField[] }[] = [];
  /** States that queue pairs on the chip have; memory's may be older. */
  readonly states = new Map<number, Fields["state"]>();
  readonly moved = new Map<number, StampedPointer>();
  readonly #world: QueueWorld;

  constructor(world: QueueWorld) {
    this.#world = world;
  }

  get hasNoCache(): boolean {
    return this.#world.cache.entries === 0;
  }

  cached(queue: number): EntryModel | undefined {
    return this.chip.find((entry) => entry.queue === queue);
  }

  inMemory(queue: number): Fields {
    const fields = this.memory.get(queue) ?? { ...NOTHING };
    this.memory.set(queue, fields);
    return fields;
  }

  #fieldsIn(space: number): QueueField[] {
    return QUEUE_FIELDS.filter((field) => this.#world.placement[field] === space);
  }

  // Look-ups.

  /** What is on the chip; else the waiter waits. */
  find(queue: number, waiter: WaiterModel): EntryModel | undefined {
    const entry = this.cached(queue);
    if (entry !== undefined && (entry.pins > 0 || !this.hasNoCache)) {
      this.counters.cacheHits++;
      return entry;
    }
    this.counters.cacheMisses++;
    if (entry !== undefined) {
      this.chip = this.chip.filter((each) => each !== entry);
      this.#writeBack([entry]);
    }
    this.lookUp(queue, undefined, waiter);
    return undefined;
  }

  /** A doorbell of a queue that is on the chip. @returns whether the pointer has to be read. */
  needsPointer(entry: EntryModel, { write }: WaiterModel): boolean {
    if (this.#world.scheme === "three-space") return write === undefined;
    const isIdle = filled(entry) === 0;
    if (!isIdle) entry.rung = true;
    return isIdle;
  }

  lookUp(queue: number, known: EntryModel | undefined, waiter: WaiterModel): void {
    const running = this.loads.get(queue), isClassic = this.#world.scheme === "classic";
    if (running !== undefined) {
      const isNumber = waiter.kind === "doorbell" && waiter.write === undefined;
      if (isClassic && waiter.kind === "doorbell") {
        running.rung = true;
        running.waiters.push(waiter);
      } else if (isNumber || waiter.reread === true) running.late.push(waiter);
      else running.waiters.push(waiter);
      return;
    }
    const state = { found: {}, missing: 0, hasFailed: false, rung: false, isVoid: false };
    const load: LoadModel = { queue, known, ...state, waiters: [waiter], late: [] };
    this.loads.set(queue, load);
    if (known !== undefined) {
      known.pins++;
      if (isClassic) this.#read(load, "address", ["indexAddress"]);
      else this.#read(load, 3, this.#fieldsIn(3));
      return;
    }
    const spaces = isClassic ? [1, 2] as const : [1, 2, 3] as const;
    if (this.#world.layout === "record") {
      this.#read(load, "all", spaces.flatMap((space) => this.#fieldsIn(space)));
      return;
    }
    for (const space of spaces) {
      const fields = this.#fieldsIn(space);
      if (fields.length > 0) this.#read(load, space, fields);
    }
  }

  #read(load: LoadModel, part: ReadModel["part"], fields: readonly QueueField[]): void {
    load.missing++;
    this.reads.push({ load, part, fields });
    this.counters.queueReads++;
    const { kind } = load.waiters[0]!;
    if (kind === "doorbell" || (kind === "send" && load.known !== undefined)) {
      this.counters.doorbellReads++;
    }
  }

  /** One read has come; `values`: undefined where it failed. */
  readCame(
    read: ReadModel,
    values: Partial<Fields> | undefined,
    chosen: (count: number) => readonly number[],
  ): EntryModel | "none" | undefined {
    const { load, part } = read, isClassic = this.#world.scheme === "classic";
    this.reads = this.reads.filter((each) => each !== read);
    load.missing--;
    load.hasFailed ||= values === undefined;
    load.found = { ...load.found, ...values };
    if (load.missing > 0 || load.isVoid) return undefined;
    const isThere = load.known !== undefined || load.found.valid === true;
    if (isClassic && part !== "pointer" && isThere && !load.hasFailed) {
      // What rings from now on may have a newer pointer than this read brings.
      load.rung = false;
      if (load.known !== undefined) load.known.rung = false;
      this.#read(load, "pointer", this.#fieldsIn(3));
      return undefined;
    }
    this.loads.delete(load.queue);
    const entry = load.known ?? this.#entryOf(load);
    if (entry === undefined) return "none";
    if (load.rung) entry.rung = true;
    entry.state = this.states.get(load.queue) ?? entry.state;
    if (load.known === undefined) {
      entry.pins++;
      this.#insert(entry, chosen);
    }
    const moved = this.moved.get(load.queue);
    if (moved !== undefined && moved.stamp > entry.stamp) {
      entry.hostPointer = moved.pointer;
      entry.stamp = moved.stamp;
    }
    const { hostPointer: pointer, stamp } = load.found;
    if (pointer !== undefined) this.take(entry, { pointer, stamp: stamp! });
    return entry;
  }

  #entryOf({ queue, found, hasFailed }: LoadModel): EntryModel | undefined {
    const fields = { ...NOTHING, ...found };
    const { valid, depth, unitBytes } = fields;
    if (hasFailed || !valid || depth < 2 || unitBytes === 0 || unitBytes % 16 !== 0) {
      return undefined;
    }
    return this.#fresh(queue, fields, true);
  }

  /** An entry before any pointer of the host is known: it looks empty. */
  #fresh(queue: number, fields: Fields, recycled: boolean): EntryModel {
    const { kind, depth, rnicPointer } = fields;
    const hostPointer = (rnicPointer + (kind === "cq" ? 1 : depth - 1)) % depth;
    return {
      ...{ ...fields, queue, hostPointer, stamp: 0, recycled, told: rnicPointer },
      ...{ pins: 0, rung: false, dirty: false, cachedAt: this.now },
    };
  }

  /** The waiters have been served. */
  finish({ queue, late }: LoadModel, entry: EntryModel): void {
    entry.pins--;
    const [first, ...others] = late;
    if (first === undefined) return;
    this.lookUp(queue, entry, first);
    this.loads.get(queue)!.waiters.push(...others);
  }

  // The host's pointer.

  take(entry: EntryModel, candidate: StampedPointer): void {
    const { pointer, stamp } = candidate, { kind, depth, rnicPointer: read } = entry;
    if (stamp === 0 || pointer >= depth) return;
    const before = entry.hostPointer;
    const isOfNextPass = (each: number) => each === depth - 1 || each < read - 1;
    const byTime = kind === "cq" || entry.recycled || isOfNextPass(pointer) ||
      isOfNextPass(before);
    const isNewer = byTime
      ? stamp > entry.stamp
      : filled({ ...entry, hostPointer: pointer }) > filled(entry);
    if (!isNewer) return;
    entry.hostPointer = pointer;
    entry.stamp = stamp;
  }

  /** A doorbell is handled. */
  handle(entry: EntryModel, { write, stored = write }: WaiterModel): void {
    if (write !== undefined) this.take(entry, write);
    if (stored !== undefined && stored.stamp > entry.stamp) this.counters.stalePointers++;
  }

  // The card's own pointer.

  units(entry: EntryModel, atOnce: number): number {
    return Math.min(filled(entry), atOnce, entry.depth - entry.rnicPointer);
  }

  advance(entry: EntryModel, units: number): void {
    for (let i = 0; i < units; i++) {
      entry.rnicPointer++;
      if (entry.rnicPointer < entry.depth) continue;
      entry.rnicPointer = 0;
      entry.recycled = true;
    }
    entry.dirty = true;
    this.tell(entry);
  }

  /** Writes the pointer to the host when it has to know. */
  tell(entry: EntryModel): void {
    const { rnicPointer, told, depth, kind } = entry;
    if (this.#world.readPointer === "at-eviction" || rnicPointer === told) return;
    const behind = (rnicPointer + depth - told) % depth;
    if (behind < depth / 4 && (kind === "cq" || filled(entry) > 0)) return;
    this.counters.pointerWrites++;
    this.#writePointer(entry);
  }

  #writePointer(entry: EntryModel): void {
    entry.dirty = false;
    entry.told = entry.rnicPointer;
    this.write(entry.queue, ["rnicPointer"], entry);
  }

  writeSpace(entry: EntryModel, space: 1 | 2): void {
    const fields = this.#fieldsIn(space);
    if (fields.length > 0) this.write(entry.queue, fields, entry);
    if (space === 2) return;
    entry.dirty = false;
    entry.told = entry.rnicPointer;
    if (!fields.includes("rnicPointer")) this.write(entry.queue, ["rnicPointer"], entry);
  }

  write(queue: number, fields: readonly QueueField[], values: Fields): void {
    const memory = this.inMemory(queue);
    for (const field of fields) Object.assign(memory, { [field]: values[field] });
    this.written.push({ queue, fields });
  }

  // What comes and goes on the chip.

  /** `chosen`: for random eviction, of so many, the queues that it was. */
  #insert(entry: EntryModel, chosen: (count: number) => readonly number[]): void {
    const evicted: EntryModel[] = [];
    while (this.chip.length >= this.#world.cache.entries) {
      const gone = this.#victims(chosen);
      if (gone.length === 0) break;
      this.chip = this.chip.filter((each) => !gone.includes(each));
      evicted.push(...gone);
    }
    this.chip.push(entry);
    this.#writeBack(evicted);
  }

  #victims(chosen: (count: number) => readonly number[]): EntryModel[] {
    const { evict, amount } = this.#world.cache;
    const free = this.chip.filter(({ pins }) => pins === 0);
    switch (evict) {
      case "oldest":
        return free.slice(0, 1);
      case "several-oldest":
        return free.slice(0, amount);
      case "older-than": {
        const old = free.filter(({ cachedAt }) => cachedAt < this.now - amount);
        return old.length > 0 ? old : free.slice(0, 1);
      }
      case "random": {
        const queues = chosen(Math.min(amount, free.length));
        return queues.flatMap((queue) => free.filter((entry) => entry.queue === queue));
      }
    }
  }

  #writeBack(entries: readonly EntryModel[]): void {
    for (const entry of entries) {
      if (!this.hasNoCache) this.counters.cacheEvictions++;
      if (!entry.dirty) continue;
      if (this.#world.placement.rnicPointer === 1) this.writeSpace(entry, 1);
      else this.#writePointer(entry);
    }
  }

  install(queue: number, fields: Fields, chosen: (count: number) => readonly number[]): void {
    this.forget(queue);
    const entry = this.#fresh(queue, fields, false);
    this.#insert(entry, chosen);
    this.writeSpace(entry, 1);
    this.writeSpace(entry, 2);
  }

  remove(queue: number): void {
    this.forget(queue);
    this.write(queue, this.#fieldsIn(1), NOTHING);
  }

  /** @returns the waiters that wait no more. */
  forget(queue: number): WaiterModel[] {
    this.chip = this.chip.filter((each) => each.queue !== queue);
    this.moved.delete(queue);
    const load = this.loads.get(queue);
    if (load === undefined) return [];
    this.loads.delete(queue);
    load.isVoid = true;
    const waiters = [...load.waiters, ...load.late];
    this.counters.doorbellsRefused += waiters.filter(({ kind }) => kind === "doorbell").length;
    return waiters;
  }

  /** Its ring is another one now. */
  move(entry: EntryModel, ring: { readonly address: number; readonly units: number }): void {
    const unread = filled(entry);
    entry.wqeAddress = ring.address;
    entry.depth = ring.units;
    entry.rnicPointer %= ring.units;
    entry.hostPointer = (entry.rnicPointer + unread + ring.units - 1) % ring.units;
    entry.stamp = Math.max(this.now, entry.stamp + 1);
    entry.recycled = true;
    this.moved.set(entry.queue, { pointer: entry.hostPointer, stamp: entry.stamp });
    this.writeSpace(entry, 1);
    this.writeSpace(entry, 2);
  }
}

/** Units between the two pointers: one always stays free. */
export function filled(
  { rnicPointer, hostPointer, depth }: Pick<Fields, "rnicPointer" | "hostPointer" | "depth">,
): number {
  return (hostPointer + 1 - rnicPointer + depth) % depth;
}
