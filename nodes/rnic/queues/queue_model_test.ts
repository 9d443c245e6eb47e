/**
 * A card's queue information is, step by step, what its model says (`../testing/queue_model_testing.ts`), whatever
 * doorbells, look-ups, answers of the host's memory, new queues, moves of rings and lives of queue pairs come.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { sameAsModel as same, seeded } from "../../../fabric/base/property_testing.ts";
import { QUEUE_PLAN, type QueueCachePlan } from "../../../fabric/rack/plan/queue_plan.ts";
import { CQE_BYTES } from "../../../fabric/wire/host_bus/cqe.ts";
import type { StampedPointer } from "../../../fabric/wire/host_bus/queue_information.ts";
import {
  decodeField,
  encodeField,
  entryAddress,
  fieldAddress,
  fieldBytes,
  layOut,
  PLACEMENTS,
  QUEUE_FIELDS,
  type QueueField,
  type QueueFields,
} from "../../../fabric/wire/host_bus/queue_placement.ts";
import { WQE_UNIT_BYTES } from "../../../fabric/wire/host_bus/wqe.ts";
import { takeCompletion } from "../dma/dma.ts";
import type { QueueOwner } from "../state/device.ts";
import type { Continuation } from "../state/dma_state.ts";
import { LIMITS } from "../state/limits.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { ContextWait, QueueLoad, Waiter } from "../state/queues.ts";
import type { PacketIn } from "../state/responder_state.ts";
import type { ControlFrame } from "../state/tx_frame.ts";
import { HintCard } from "../testing/hint_card_testing.ts";
import {
  type EntryModel,
  type Fields,
  filled,
  type LoadModel,
  QueueModel,
  type QueueWorld,
  type WaiterModel,
} from "../testing/queue_model_testing.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { createCompletionQueue } from "./completion_queue.ts";
import {
  mayAnswer,
  mayBegin,
  mayTake,
  missingContext,
  releaseContexts,
  takeWaiting,
  warmContext,
} from "./context.ts";
import { freeQueues, installQueue, removeQueue, writeState } from "./install.ts";
import {
  advanceRead,
  fetchWqes,
  findQueue,
  finishLoad,
  needsPointer,
  rereadPointer,
  takePointer,
  takeSpace,
  tellPointer,
} from "./queue_information.ts";
import { takeRing } from "./ring_move.ts";
import { observeHandled } from "./stale_pointers.ts";

const NS = 1000, AT_ONCE = 4, BASE = 0x1000;

const cache = (entries: number, evict: QueueCachePlan["evict"], amount = 1) => (
  { entries, evict, amount }
);
const { "both-in-3": IN_3, "default": IN_1 } = PLACEMENTS;
/** Space 2 is empty. */
const ALL_IN_1 = { ...IN_1, depth: 1, unitBytes: 1 } as const;

const WORLDS: readonly QueueWorld[] = [
  {
    ...{ scheme: "three-space", layout: "areas", placement: IN_1, readPointer: "batched" },
    cache: cache(2, "oldest"),
  },
  {
    ...{ scheme: "three-space", layout: "record", placement: IN_3, readPointer: "at-eviction" },
    cache: cache(4, "several-oldest", 2),
  },
  {
    ...{ scheme: "three-space", layout: "areas", placement: ALL_IN_1, readPointer: "at-eviction" },
    cache: cache(0, "oldest"),
  },
  {
    ...{ scheme: "classic", layout: "areas", placement: IN_3, readPointer: "batched" },
    cache: cache(3, "older-than", 12 * NS),
  },
  {
    ...{ scheme: "classic", layout: "record", placement: IN_1, readPointer: "at-eviction" },
    cache: cache(3, "random", 2),
  },
  {
    ...{ scheme: "classic", layout: "areas", placement: IN_1, readPointer: "at-eviction" },
    cache: cache(0, "oldest"),
  },
];

/** Queues of three queue pairs, and a completion queue. */
const CQN = 8, QUEUES = [2, 3, 4, 5, 6, 7, CQN] as const;
const STATES = ["rtr", "rts", "sqd", "err"] as const;

const queue = fc.constantFrom(...QUEUES);
const ACTS = {
  post: fc.record({ kind: fc.constant("post" as const), queue, units: fc.nat(7) }),
  ring: fc.record({
    kind: fc.constant("ring" as const),
    queue,
    carries: fc.constantFrom("newest", "older", "nothing", "nonsense"),
    isNoted: fc.boolean(),
  }),
  ask: fc.record({
    kind: fc.constant("ask" as const),
    queue,
    by: fc.constantFrom("send" as const, "recv" as const),
    reread: fc.boolean(),
    /** Asks for a newer pointer as soon as it is served. */
    again: fc.boolean(),
  }),
  context: fc.record({
    kind: fc.constant("context" as const),
    qp: fc.nat(2),
    by: fc.constantFrom("request", "response", "turn", "answer", "hint"),
    count: fc.constantFrom(1, 2, LIMITS.stalledPackets + 1),
  }),
  turn: fc.record({ kind: fc.constant("turn" as const), qp: fc.nat(2) }),
  answer: fc.record({
    kind: fc.constant("answer" as const),
    nth: fc.nat(9),
    result: fc.constantFrom("good", "good", "good", "good", "failed"),
  }),
  fetch: fc.record({ kind: fc.constant("fetch" as const), queue, units: fc.nat(9) }),
  complete: fc.record({ kind: fc.constant("complete" as const) }),
  install: fc.record({
    kind: fc.constant("install" as const),
    ...{ queue, depth: fc.constantFrom(4, 8, 16), own: fc.nat(3) },
  }),
  remove: fc.record({ kind: fc.constant("remove" as const), queue }),
  spoil: fc.record({
    kind: fc.constant("spoil" as const),
    queue,
    field: fc.constantFrom("depth" as const, "unitBytes" as const),
    value: fc.constantFrom(0, 1, 2, 16, 24),
  }),
  state: fc.record({
    kind: fc.constant("state" as const),
    ...{ queue, state: fc.constantFrom(...STATES) },
  }),
  move: fc.record({
    kind: fc.constant("move" as const),
    ...{ queue, units: fc.constantFrom(4, 8, 16, 32) },
  }),
};
type Act = (typeof ACTS)[keyof typeof ACTS] extends fc.Arbitrary<infer T> ? T : never;
type Kind = Act["kind"];

const THEMES: readonly (readonly Kind[])[] = [
  [
    ...["post", "post", "ring", "ring", "ask", "context", "turn", "answer", "answer"] as Kind[],
    ...["answer", "fetch", "fetch", "complete", "install", "remove", "spoil", "state"] as Kind[],
    "move",
  ],
  ["post", "ring", "answer", "answer", "fetch", "fetch"],
  ["ask", "ask", "ring", "answer", "answer", "post", "fetch"],
  ["context", "context", "turn", "answer", "answer", "install", "ask"],
  ["complete", "complete", "post", "fetch", "answer", "ask", "move"],
];
const acts: fc.Arbitrary<Act[]> = fc.oneof(...THEMES.map((kinds) => {
  const one: fc.Arbitrary<Act> = fc.oneof(...kinds.map((kind): fc.Arbitrary<Act> => ACTS[kind]));
  return fc.array(one, { minLength: 10, maxLength: 60, size: "max" });
}));

/** What the host knows of a queue, and what it has told. */
interface HostQueue {
  depth: number;
  /** Units filled, and taken, since it was made. */
  written: number;
  taken: number;
  newest: StampedPointer;
  readonly told: StampedPointer[];
  isFetched: boolean;
}

interface WaitModel {
  readonly queue: number;
  packets: number;
  controls: number;
  wantsTurn: boolean;
}

type Read = Extract<Continuation, { kind: "queue-space" | "recv-wqes" }>;

class Bench {
  readonly card: HintCard;
  readonly model: QueueModel;
  readonly #world: QueueWorld;
  readonly #queuePairs: QueuePair[];
  readonly #memory = new Uint8Array(0x2000);
  readonly #host = new Map<number, HostQueue>();
  readonly #loads = new Map<QueueLoad, LoadModel>();
  readonly #waits = new Map<ContextWait, WaitModel>();
  readonly #held = new Map<number, EntryModel>();
  readonly #served: string[] = [];
  readonly #expected: string[] = [];
  readonly #names = new Map<Waiter, WaiterModel>();
  #asked = 0;
  #resumed = 0;

  constructor(world: QueueWorld) {
    const { scheme, layout, placement, readPointer } = world;
    this.#world = world;
    const timing = { ...rnicPlan("b").timing, gatherReadsMax: 1000, wqeFetchUnits: AT_ONCE };
    this.card = new HintCard({
      queueCache: world.cache,
      queuePlan: { ...QUEUE_PLAN, scheme, layout, placement, readPointer },
      timing,
    });
    const { bytes } = layOut(placement, layout), queues = CQN + 1;
    const share = layout === "areas" ? queues : 1;
    const space2 = BASE + share * bytes[1], space3 = space2 + share * bytes[2];
    this.card.device.spaces = { queues, space1: BASE, space2, space3 };
    this.model = new QueueModel(world);
    this.#queuePairs = [1, 2, 3].map((qpn) => this.card.connect({ qpn, address: 9, destQpn: qpn }));
    for (const each of QUEUES) this.#install(each, 8, 0);
    this.#compare();
  }

  // Names of things that the code and its model have in common.

  #waiter(waiter: Waiter, model: Omit<WaiterModel, "name">): WaiterModel {
    const named = { ...model, name: `${model.kind} ${this.#asked++}` };
    this.#names.set(waiter, named);
    return named;
  }

  /** The queues that random eviction has taken, as the code says. */
  #chosen(before: readonly number[]): (count: number) => readonly number[] {
    const { cache: real } = this.card.device;
    const gone = before.filter((each) => real.find(each) === undefined);
    return (count) => {
      const chosen = gone.splice(0, count);
      same(chosen.length, count, "entries evicted at random");
      return chosen;
    };
  }

  #onChip(): number[] {
    return this.model.chip.map((entry) => entry.queue);
  }

  #owner(each: number): QueueOwner {
    if (each === CQN) {
      const ring = { address: 0x1_0000 * CQN, units: 8 };
      const cq = createCompletionQueue(CQN, { ring, vector: null, timestamps: false });
      return { kind: "cq", cq };
    }
    const qp = this.#queuePairs[Math.floor(each / 2) - 1]!;
    return { kind: each % 2 === 0 ? "sq" : "rq", qp };
  }

  #real(entry: EntryModel): QueueEntry {
    return this.card.device.cache.find(entry.queue)!;
  }

  // What the host does.

  #install(each: number, depth: number, own: number): void {
    const { card: { device }, model } = this;
    const owner = this.#owner(each), { kind } = owner;
    const rnicPointer = kind === "cq" && own === 0 ? depth - 1 : own;
    const unitBytes = kind === "cq" ? CQE_BYTES : WQE_UNIT_BYTES;
    const ring = { address: 0x1_0000 * each, units: depth };
    const before = this.#onChip().filter((other) => other !== each);
    const plan = { queue: each, ring, unitBytes, state: "rts" } as const;
    this.#begin(each);
    installQueue(device, owner, own === 0 ? plan : { ...plan, own });
    const { store, spaces } = device, space = this.#world.scheme === "classic" ? 3 : 1;
    model.install(each, {
      ...{ kind, state: "rts", valid: true, depth, unitBytes, rnicPointer, hostPointer: 0 },
      ...{
        stamp: 0,
        wqeAddress: ring.address,
        indexAddress: entryAddress(store, spaces!, { queue: each, space }),
      },
      owner: "qp" in owner ? owner.qp.qpn : each,
    }, this.#chosen(before));
    if ("qp" in owner) model.states.set(each, owner.qp.state);
    this.#host.set(each, {
      ...{ depth, written: own, taken: own, told: [], isFetched: false },
      newest: { pointer: (own + depth - 1) % depth, stamp: 0 },
    });
  }

  /** A queue begins anew, or is gone: who waited for it waits no more. */
  #begin(each: number): void {
    const { model } = this;
    this.#resumed += model.forget(each).length;
    this.#host.delete(each);
    this.#held.delete(each);
    for (const [wait, its] of this.#waits) if (its.queue === each) this.#waits.delete(wait);
  }

  #address(each: number, field: QueueField): number {
    const { store, spaces } = this.card.device;
    return fieldAddress(store, spaces!, { queue: each, field });
  }

  #put<F extends QueueField>(each: number, field: F, value: QueueFields[F]): void {
    this.#memory.set(encodeField(field, value), this.#address(each, field) - BASE);
    Object.assign(this.model.inMemory(each), { [field]: value });
  }

  /** A unit more or less: the host's pointer and its time go to space 3. */
  #post(host: HostQueue, { queue: each, units }: Extract<Act, { kind: "post" }>): void {
    const { depth, written, taken } = host, isCq = each === CQN;
    // Of a completion queue the host takes, and the card fills.
    const most = isCq ? 0 : depth - 1 - (written - taken);
    const count = isCq ? units : Math.min(units, most);
    if (count === 0) return;
    host.written += count;
    const pointer = (host.written + depth - 1) % depth;
    host.newest = { pointer, stamp: this.model.now };
    host.told.push(host.newest);
    this.#put(each, "hostPointer", pointer);
    this.#put(each, "stamp", this.model.now);
  }

  do(act: Act): void {
    const { card: { device }, model } = this;
    const host = "queue" in act ? this.#host.get(act.queue) : undefined;
    const cached = "queue" in act ? model.cached(act.queue) : undefined;
    switch (act.kind) {
      case "post":
        if (host !== undefined) this.#post(host, act);
        return;
      case "ring": {
        if (host === undefined) return;
        const older = host.told[host.told.length >> 1] ?? host.newest;
        const write = act.carries === "newest"
          ? host.newest
          : act.carries === "older"
          ? older
          : act.carries === "nonsense"
          ? { pointer: host.depth, stamp: model.now }
          : undefined;
        const stored = act.isNoted ? host.newest : undefined;
        const waiter = { kind: "doorbell", write, wqe: undefined, stored } as const;
        return this.#doorbell(act.queue, waiter);
      }
      case "ask": {
        const { by } = act, qp = this.#queuePairs[0]!, { life } = qp;
        const reread = by === "recv" && act.reread;
        const waiter: Waiter = by === "send"
          ? { kind: by, qp, life }
          : { kind: by, qp, life, reread };
        const named = this.#waiter(waiter, { kind: by, reread });
        if (act.again) this.#again.add(named.name);
        if (reread && cached !== undefined) {
          rereadPointer(device, this.#real(cached), waiter);
          model.lookUp(act.queue, cached, named);
        } else this.#find(act.queue, waiter, named);
        return;
      }
      case "context":
        return this.#context(act);
      case "turn": {
        const qp = this.#queuePairs[act.qp]!;
        releaseContexts(device, qp);
        for (const each of [qp.sqQueue, qp.rqQueue]) {
          const held = this.#held.get(each);
          if (held !== undefined) held.pins--;
          this.#held.delete(each);
        }
        return;
      }
      case "answer":
        return this.#answer(act);
      case "fetch": {
        if (host === undefined || host.isFetched || cached === undefined) return;
        if (cached.kind === "cq" || filled(cached) === 0) return;
        const qp = this.#queuePairs[0]!, owner = { kind: "recv-wqes", qp, life: qp.life } as const;
        const more = act.units > AT_ONCE ? act.units : undefined;
        const units = model.units(cached, Math.max(AT_ONCE, act.units));
        fetchWqes(device, this.#real(cached), {
          ...{ unitBytes: WQE_UNIT_BYTES, owner, units: more },
        });
        cached.pins++;
        model.counters.wqeReads++;
        host.isFetched = true;
        const { address, length, continuation } = device.dma.outstanding.findLast((request) =>
          request?.continuation.kind === "recv-wqes" &&
          request.continuation.entry.queue === act.queue
        )!;
        same([address, length, (continuation as { units: number }).units], [
          ...[cached.wqeAddress + cached.rnicPointer * WQE_UNIT_BYTES, units * WQE_UNIT_BYTES],
          units,
        ], "WQEs that are read");
        this.#fetched.set(this.#real(cached), cached);
        return;
      }
      case "complete": {
        const entry = model.cached(CQN);
        if (entry === undefined) return;
        const real = this.#real(entry);
        real.own = (real.own + 1) % real.depth;
        real.dirty = true;
        tellPointer(device, real);
        entry.rnicPointer = (entry.rnicPointer + 1) % entry.depth;
        entry.dirty = true;
        return model.tell(entry);
      }
      case "install":
        return this.#install(act.queue, act.depth, act.own);
      case "remove":
        if (host === undefined) return;
        this.#begin(act.queue);
        removeQueue(device, act.queue);
        model.remove(act.queue);
        model.states.delete(act.queue);
        return;
      case "spoil":
        // A store where the host may not store: no information of a queue any more.
        if (host === undefined || cached !== undefined) return;
        return this.#put(act.queue, act.field, act.value);
      case "state": {
        if (host === undefined) return;
        writeState(device, act.queue, act.state);
        if (cached !== undefined) cached.state = act.state;
        model.write(act.queue, ["state"], { ...model.inMemory(act.queue), state: act.state });
        return;
      }
      case "move": {
        if (host === undefined || cached === undefined || cached.kind === "cq") return;
        const { units } = act, unread = filled(cached);
        // The driver has paused the queue: nothing is fetched, and the card knows what is posted.
        const isAtRest = !host.isFetched && cached.hostPointer === host.newest.pointer;
        if (!isAtRest || unread >= units) return;
        const ring = { address: 0x1_0000 * act.queue + 0x8000, units };
        takeRing(device, this.#real(cached), ring);
        model.move(cached, ring);
        host.depth = units;
        host.taken = cached.rnicPointer;
        host.written = cached.rnicPointer + unread;
        host.newest = { pointer: cached.hostPointer, stamp: cached.stamp };
        host.told.length = 0;
        return;
      }
    }
  }

  readonly #again = new Set<string>();
  readonly #fetched = new Map<QueueEntry, EntryModel>();

  #find(each: number, waiter: Waiter, named: WaiterModel): EntryModel | undefined {
    const { card: { device }, model } = this;
    const entry = findQueue(device, each, waiter);
    const expected = model.find(each, named);
    same(entry?.queue, expected?.queue, "what is on the chip");
    if (expected !== undefined) this.#resumed++;
    return expected;
  }

  #doorbell(each: number, waiter: Extract<Waiter, { kind: "doorbell" }>): void {
    const { card: { device }, model } = this;
    const named = this.#waiter(waiter, waiter);
    const expected = this.#find(each, waiter, named);
    if (expected === undefined) return;
    const entry = this.#real(expected), reads = model.needsPointer(expected, named);
    same(needsPointer(device, entry, waiter), reads, "a doorbell needs the pointer");
    if (!reads) return this.#handle(entry, expected, waiter);
    this.#resumed--;
    rereadPointer(device, entry, waiter);
    model.lookUp(each, expected, named);
  }

  #handle(
    entry: QueueEntry,
    expected: EntryModel,
    waiter: Extract<Waiter, { kind: "doorbell" }>,
  ): void {
    const { card: { device }, model } = this;
    if (waiter.write !== undefined) takePointer(device, entry, waiter.write, "doorbell");
    observeHandled(device, entry, waiter);
    model.handle(expected, this.#names.get(waiter)!);
  }

  // Contexts of queue pairs.

  #context({ qp: place, by, count }: Extract<Act, { kind: "context" }>): void {
    const { card: { device }, model } = this;
    const qp = this.#queuePairs[place]!;
    const each = by === "response" ? qp.sqQueue : qp.rqQueue;
    if (!this.#host.has(each)) return;
    const running = this.#waits.entries().find(([, its]) => its.queue === each);
    const cached = model.cached(each);
    const isThere = running === undefined && cached !== undefined &&
      (cached.pins > 0 || !model.hasNoCache);
    if (by === "hint") {
      const isMissing = running === undefined && cached === undefined && !model.hasNoCache;
      same(missingContext(device, qp), isMissing ? each : undefined, "a context that is missing");
      if (!isMissing) return;
      warmContext(device, qp, each);
    } else {
      const many = by === "request" || by === "response" ? count : 1;
      const waits = running?.[1].packets ?? 0;
      for (let i = 0; i < many; i++) {
        const goes = isThere ? "now" : waits + i < LIMITS.stalledPackets ? "later" : "too many";
        const direction = by === "response" ? "response" : "request";
        if (by === "turn") same(mayBegin(device, qp, "responder"), isThere, "may begin");
        else if (by === "answer") {
          same(mayAnswer(device, { qp } as ControlFrame), isThere, "may answer");
        } else {
          const input = { row: { direction } } as PacketIn;
          same(mayTake(device, qp, input), goes, "may be taken");
        }
      }
      if (isThere) return;
    }
    let its = running?.[1];
    if (its === undefined) {
      const wait = device.contextWaits.get(each);
      assert.ok(wait !== undefined, "the context is waited for");
      its = { queue: each, packets: 0, controls: 0, wantsTurn: false };
      this.#waits.set(wait, its);
      if (by !== "hint") model.counters.contextMisses++;
      const named = { kind: "context", name: `context ${this.#asked++}` } as const;
      this.#contexts.set(wait, named);
      if (model.find(each, named) !== undefined) this.#resumed++;
    }
    if (by === "request" || by === "response") {
      its.packets = Math.min(LIMITS.stalledPackets, its.packets + count);
    } else if (by === "answer") its.controls++;
    else if (by === "turn") its.wantsTurn = true;
  }

  readonly #contexts = new Map<ContextWait, WaiterModel>();

  #nameOf(waiter: Waiter): string | undefined {
    return waiter.kind === "context"
      ? this.#contexts.get(waiter.wait)?.name
      : this.#names.get(waiter)?.name;
  }

  // What the host's memory answers.

  #answer({ nth, result }: Extract<Act, { kind: "answer" }>): void {
    const { device } = this.card;
    const waiting = device.dma.outstanding.flatMap((request, tag) =>
      request === undefined ? [] : [tag]
    );
    const tag = waiting[nth % waiting.length];
    if (tag === undefined) return;
    const isGood = result === "good";
    const completion = { kind: "completion", tag, status: "success", data: new Uint8Array(0) };
    const { address, length, continuation } = takeCompletion(device, completion as never)!;
    const read = continuation as Read;
    if (read.kind === "recv-wqes") this.#unitsCame(read, isGood);
    else {
      const from = address - BASE;
      this.#spaceCame(read, isGood ? this.#memory.slice(from, from + length) : undefined);
    }
  }

  #unitsCame({ entry, units }: Extract<Read, { kind: "recv-wqes" }>, isGood: boolean): void {
    const { card: { device }, model } = this;
    const its = this.#fetched.get(entry)!, host = this.#host.get(entry.queue);
    this.#fetched.delete(entry);
    entry.pins--;
    its.pins--;
    const isAlive = model.chip.includes(its);
    if (!isAlive) return;
    host!.isFetched = false;
    if (!isGood) return;
    host!.taken += units;
    advanceRead(device, entry, units);
    model.advance(its, units);
  }

  #spaceCame(read: Extract<Read, { kind: "queue-space" }>, data: Uint8Array | undefined): void {
    const { card: { device }, model } = this;
    const { load, part } = read, its = this.#loads.get(load)!;
    const expected = model.reads.find((each) =>
      each.load === its && each.part === (part === "record" ? "all" : part)
    );
    assert.ok(expected !== undefined, `part ${part} is read`);
    const memory = model.inMemory(load.queue), before = this.#onChip();
    const values = Object.fromEntries(expected.fields.map((field) => [field, memory[field]]));
    const entry = takeSpace(device, read, data);
    const found = model.readCame(
      expected,
      data === undefined ? undefined : values as Partial<Fields>,
      this.#chosen(before),
    );
    const outcome = found === "none" ? "no queue" : found?.queue;
    same(typeof entry === "object" ? entry.queue : entry, outcome, "what a look-up has found");
    if (found === undefined) return;
    if (found === "none" || typeof entry !== "object") {
      for (const waiter of [...load.waiters, ...load.late]) {
        this.#served.push(`${this.#nameOf(waiter)} fails`);
        if (waiter.kind === "context") {
          device.contextWaits.delete(waiter.wait.queue);
          this.#waits.delete(waiter.wait);
        }
      }
      this.#expected.push(...[...its.waiters, ...its.late].map(({ name }) => `${name} fails`));
      this.#resumed += its.waiters.length + its.late.length;
      return;
    }
    for (const [i, waiter] of load.waiters.entries()) {
      const named = its.waiters[i]!;
      this.#served.push(this.#nameOf(waiter)!);
      this.#expected.push(named.name);
      this.#resumed++;
      if (waiter.kind === "doorbell") this.#handle(entry, found, waiter);
      else if (waiter.kind === "context") this.#contextCame(waiter.wait, entry, found);
      else if (this.#again.delete(named.name)) {
        const { qp, life } = waiter as Extract<Waiter, { kind: "recv" }>;
        const next: Waiter = { kind: "recv", qp, life, reread: true };
        const its = this.#waiter(next, next);
        rereadPointer(device, entry, next);
        model.lookUp(load.queue, found, its);
      }
    }
    finishLoad(device, load, entry);
    model.finish(its, found);
  }

  #contextCame(wait: ContextWait, entry: QueueEntry, found: EntryModel): void {
    const { device } = this.card;
    const its = this.#waits.get(wait), taken = takeWaiting(device, wait, entry);
    this.#waits.delete(wait);
    if (its?.wantsTurn && !this.#held.has(its.queue)) {
      found.pins++;
      this.#held.set(its.queue, found);
    }
    same(
      taken && {
        ...{ queue: taken.queue, packets: taken.packets.length, controls: taken.controls.length },
        wantsTurn: taken.wantsTurn,
      },
      its,
      "what waits for a context",
    );
  }

  step(act: Act): void {
    const { card, model } = this;
    model.now += 3 * NS;
    card.at(model.now);
    card.bus.length = 0;
    model.written.length = 0;
    this.#served.length = 0;
    this.#expected.length = 0;
    this.do(act);
    this.#compare();
  }

  /** Everything is answered: nobody waits, and nothing is pinned. */
  rest(): void {
    for (let i = 0; i < 3; i++) this.step({ kind: "turn", qp: i });
    let left = 2000;
    while (this.card.device.dma.outstanding.some((request) => request !== undefined)) {
      assert.ok(left-- > 0, "look-ups go on for ever");
      this.step({ kind: "answer", nth: 0, result: "good" });
    }
    for (let i = 0; i < 3; i++) this.step({ kind: "turn", qp: i });
    const { device } = this.card, { loads, contextWaits, contextsHeld } = device;
    same([loads.size, contextWaits.size, contextsHeld.size], [0, 0, 0], "what waits");
    same(this.#onChip().filter((each) => device.cache.find(each)!.pins > 0), [], "pinned entries");
    same(this.#resumed, this.#asked, "waiters that were served, refused or dropped");
  }

  #compare(): void {
    const { card, model } = this, { device } = card, { spaces } = device;
    for (const [each, load] of device.loads) {
      if (!this.#loads.has(load)) this.#loads.set(load, model.loads.get(each)!);
    }
    const written: { queue: number; fields: QueueField[] }[] = [];
    for (const message of card.bus) {
      if (message.kind !== "memory-write") continue;
      const { address, data } = message, end = address + data.length;
      if (address >= BASE + this.#memory.length) continue;
      this.#memory.set(data, address - BASE);
      for (let each = 0; each < spaces!.queues; each++) {
        const fields = QUEUE_FIELDS.filter((field) => {
          const at = this.#address(each, field);
          return at >= address && at + fieldBytes(field) <= end;
        });
        if (fields.length > 0) written.push({ queue: each, fields });
      }
    }
    same(written, model.written, "fields that are written");
    for (const [each, fields] of model.memory) {
      const found = Object.fromEntries(QUEUE_FIELDS.map((field) => {
        const at = this.#address(each, field) - BASE;
        return [field, decodeField(field, this.#memory.subarray(at, at + fieldBytes(field)))];
      }));
      same(found, fields, `queue ${each} in memory`);
    }
    same(this.#served, this.#expected, "waiters that are served");
    same(device.cache.size, model.chip.length, "entries on the chip");
    for (const { hostPointer, rnicPointer, ...entry } of model.chip) {
      const { place: _, ...found } = device.cache.find(entry.queue)!;
      same(found, { ...entry, host: hostPointer, own: rnicPointer }, `queue ${entry.queue}`);
    }
    const loads = [...device.loads].map(([each, load]) => ({
      ...{ queue: each, missing: load.missing, rung: load.rung, hasFailed: load.failed },
      waiters: load.waiters.map((waiter) => this.#nameOf(waiter)),
      late: load.late.map((waiter) => this.#nameOf(waiter)),
    }));
    const expected = [...model.loads].map(([each, load]) => ({
      ...{ queue: each, missing: load.missing, rung: load.rung, hasFailed: load.hasFailed },
      waiters: load.waiters.map(({ name }) => name),
      late: load.late.map(({ name }) => name),
    }));
    same(loads, expected, "look-ups");
    const reads = device.dma.outstanding.flatMap((request) =>
      request?.continuation.kind === "queue-space" ? [request] : []
    );
    same(reads.length, model.reads.length, "reads of queue information");
    for (const { address, length, continuation } of reads) {
      const { load, part } = continuation as Extract<Read, { kind: "queue-space" }>;
      const its = model.reads.find((each) =>
        each.load === this.#loads.get(load) && each.part === (part === "record" ? "all" : part)
      )!;
      const isOne = part === "address";
      const last = isOne
        ? fieldBytes("indexAddress")
        : its.fields.reduce((end, field) =>
          Math.max(end, this.#address(load.queue, field) + fieldBytes(field) - address), 0);
      const first = Math.min(...its.fields.map((field) => this.#address(load.queue, field)));
      const covered = isOne ? last : Math.ceil(last / 16) * 16;
      same([address, length], [first, covered], `what is read of queue ${load.queue}`);
    }
    const free = Array.from({ length: spaces!.queues }, (_, each) => each)
      .filter((each) => !this.#host.has(each));
    for (const count of [3, 4]) {
      const expected = free.length < count ? undefined : free.slice(0, count);
      same(freeQueues(device, count), expected, "numbers that are free");
    }
    const { counters } = device;
    const counts = Object.fromEntries(
      Object.keys(model.counters).map((name) => [name, counters[name as "cacheHits"]]),
    );
    same(counts, model.counters, "counters");
  }
}

describe("queue information", () => {
  for (const world of WORLDS) {
    const { scheme, layout, cache: { entries, evict }, readPointer } = world;
    it(`${scheme}, ${layout}, ${entries} entries, ${evict}, ${readPointer}: does what the model says`, () => {
      fc.assert(
        fc.property(acts, (list) => {
          const bench = new Bench(world);
          for (const act of list) bench.step(act);
          bench.rest();
        }),
        seeded({ seed: 32, numRuns: 60 }),
      );
    });
  }
});
