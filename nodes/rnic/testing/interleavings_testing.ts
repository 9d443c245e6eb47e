/**
 * For tests only: every interleaving of a host's program, its memory and its card. Nothing has a time here.
 * What is on its way arrives when the enumerator says so, in the order of its cable: a step of the program, the
 * host taking a message of the card's, an answer to a read leaving the host, the card taking a message.
 *
 * The card is the real one. It is a function of what it has been given, so two interleavings are in one state
 * where it has been given the same in the same order, and memory and cables hold the same: such a state is
 * visited once. Of interleavings that differ only in the order of what cannot tell the other's presence, one is
 * walked (persistent sets: Godefroid, "Partial-Order Methods", 1996, chapter 4). Neither loses a case.
 */
import { assert } from "../../../fabric/base/assert.ts";
import { finish, hashBytes, mix } from "../../../fabric/base/hash.ts";
import { type Outputs, PORTS } from "../../../fabric/node.ts";
import { hashMessage } from "../../../fabric/partition/message_hash.ts";
import {
  QUEUE_PLAN,
  type QueueCachePlan,
  type QueuePlan,
} from "../../../fabric/rack/plan/queue_plan.ts";
import { CQE_BYTES, decodeCqe } from "../../../fabric/wire/host_bus/cqe.ts";
import type { Completion, PcieMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import {
  DOORBELL_OFFSET,
  encodeDoorbell,
} from "../../../fabric/wire/host_bus/queue_information.ts";
import { layOut } from "../../../fabric/wire/host_bus/queue_placement.ts";
import type {
  RingPlace,
  RnicCommand,
  RnicReply,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import { WQE_UNIT_BYTES } from "../../../fabric/wire/host_bus/wqe.ts";
import { createRnic } from "../rnic.ts";
import { FakeHost, RECV_STRIDE } from "./fake_host_testing.ts";
import { granted, type RigQp, rnicPlan, stepsToRts } from "./rig_parts_testing.ts";
import { adopt, movedPosition, resumed } from "./space2_testing.ts";

/** All happens at one instant: what orders pointers is that their times rise by one. */
const NOW = 1_000_000;
/** No script completes more, so that the host's pointer of it does not matter. */
const CQ_ENTRIES = 16;
/** Each ring, and each space of the few queues, is the beginning of pages of its own. */
const MEMORY_BYTES = 1 << 16, PAGE_BYTES = 4096, USED_BYTES = CQ_ENTRIES * CQE_BYTES;
/** Inline data that makes a WQE two units long. */
const TWO_UNITS = new Uint8Array(64);

export interface BenchPlan {
  readonly queuePlan?: Partial<QueuePlan>;
  readonly queueCache?: QueueCachePlan;
  /** Fetches and look-ups at once: with 1 doorbells wait in the doorbell space. */
  readonly gatherReadsMax?: number;
  readonly depth: number;
  /** Where in the ring the first WQE of the script is; those before have completed. */
  readonly start: number;
}

/** A step of the host's program, which waits until it is `ready`. It stores into memory, or sends to the card. */
export interface Step {
  readonly kind: "store" | "send";
  readonly ready?: () => boolean;
  readonly run: () => void;
}

export type Bell = "pointer" | "number";
type Choice = "program" | "memory" | "answer" | "card";

type Given = readonly [number, number];

/** One card, its host and a send queue, at one place of an interleaving. */
export class Bench {
  readonly host = new FakeHost(MEMORY_BYTES);
  readonly qp: RigQp;
  /** Memory for a ring of twice the depth, as the queue's own has room for. */
  spare = 0;
  /** Of each WQE so far: its units, and the position that its completion has to name. */
  readonly posted: { position: number; index: number; readonly units: number }[] = [];
  /** What the program does, from now on. */
  steps: readonly Step[] = [];
  readonly #rnic;
  readonly #outputs: Outputs;
  readonly #toHost: PcieMessage[] = [];
  readonly #answers: Completion[] = [];
  readonly #toCard: PcieMessage[] = [];
  #done = 0;
  #taken = 0;
  /** Two hashes of all that the card has been given since {@link replay}. */
  #given: Given = [0, 0];
  #isReplaying = true;
  /** Hash of each page of memory that is used; undefined of one that has changed since. */
  readonly #pages: (number | undefined)[] = [];

  constructor(plan: BenchPlan) {
    const queuePlan = { ...QUEUE_PLAN, ...plan.queuePlan };
    const { queueCache, gatherReadsMax, depth, start } = plan;
    const base = rnicPlan("a", { queuePlan, ...(queueCache && { queueCache }) });
    const timing = { ...base.timing, ...(gatherReadsMax !== undefined && { gatherReadsMax }) };
    this.#rnic = createRnic("a.rnic", { ...base, timing }, { seed: 1 });
    this.#outputs = {
      send: (port, message, departAt) => {
        assert(port === PORTS.rnicBus && message.kind !== "frame", "Nothing goes to the network");
        this.#toHost.push(message);
        return departAt;
      },
      tracing: false,
      trace() {},
      report() {},
    };
    this.#rnic.step(NOW, { kind: "power" }, this.#outputs);
    this.host.layOutSpaces(layOut(queuePlan.placement, queuePlan.layout));
    const persistence = { flow: 1, flush: "read", noSnoop: false } as const;
    this.#command({ op: "init", spaces: this.host.spaces, persistence });
    this.qp = this.#createQp(depth);
    for (let at = 0; at < start; at++) {
      this.post(1);
      this.ring("pointer");
      this.#settle();
    }
    this.#taken = 0;
  }

  /** Does again what has been done: what the card has been given by it is known, and is not hashed again. */
  replay(choices: readonly Choice[], given: Given): void {
    for (const choice of choices) this.take(choice);
    this.#given = given;
    this.#isReplaying = false;
  }

  get given(): Given {
    return this.#given;
  }

  #createQp(depth: number): RigQp {
    const { host } = this;
    const address = host.allocate(CQ_ENTRIES * CQE_BYTES);
    host.memory.fill(0xf1, address, address + CQ_ENTRIES * CQE_BYTES);
    const ring = { address, units: CQ_ENTRIES };
    const { cqn } = granted(this.#command({ op: "create-cq", ring, vector: null }), "create-cq");
    this.spare = host.allocate(2 * depth * WQE_UNIT_BYTES);
    const sq = { address: host.allocate(2 * depth * WQE_UNIT_BYTES), units: depth };
    const rq = { address: host.allocate(2 * RECV_STRIDE), units: 2 };
    const reply = granted(
      this.#command({
        op: "create-qp",
        type: "rc",
        sq,
        rq,
        rqStride: RECV_STRIDE,
        sendCq: cqn,
        recvCq: cqn,
        pd: 1,
        persistCompletion: "persistence",
      }),
      "create-qp",
    );
    const { qpn, sqQueue, rqQueue } = reply;
    for (const attributes of stepsToRts(0x0a00_0002, { qpn })) {
      const answer = this.#command({ op: "modify-qp", qpn, attributes });
      assert(answer.status === "ok", JSON.stringify(answer));
    }
    const cq = { cqn, address, entries: CQ_ENTRIES, taken: 0 };
    return {
      qpn,
      sq: { queue: sqQueue, address: sq.address, depth, write: depth - 1, stamp: NOW },
      rq: { queue: rqQueue, address: rq.address, depth: 2, write: 1, stamp: NOW },
      sendCq: cq,
      recvCq: cq,
    };
  }

  /** Sends a command. @returns what tells its reply, once it is there. */
  ask(command: RnicCommand): () => RnicReply | undefined {
    const id = this.host.nextCommand++;
    this.#toCard.push({ kind: "command", id, command });
    return () => this.host.replies.get(id);
  }

  #command(command: RnicCommand): RnicReply {
    const reply = this.ask(command);
    this.#settle();
    return reply()!;
  }

  /** Until nothing is on its way. */
  #settle(): void {
    for (;;) {
      if (this.#toCard.length > 0) this.take("card");
      else if (this.#toHost.length > 0) this.take("memory");
      else if (this.#answers.length > 0) this.take("answer");
      else return;
    }
  }

  /** Completions that the host sees. */
  get completed(): number[] {
    const { address, entries } = this.qp.sendCq;
    const indices: number[] = [];
    for (let at = 0; at < entries; at++) {
      const from = address + at * CQE_BYTES;
      const cqe = decodeCqe(this.host.memory.subarray(from, from + CQE_BYTES), at, entries);
      if (cqe === undefined) break;
      assert(cqe.status === "SUCCESS", `A completion with ${cqe.status}`);
      indices.push(cqe.wqeIndex);
    }
    return indices;
  }

  hasRoom(units: number): boolean {
    const open = this.posted.slice(this.completed.length);
    return open.reduce((sum, wqe) => sum + wqe.units, units) <= this.qp.sq.depth - 1;
  }

  /** Stores a WQE and the write pointer, in this order. */
  post(units: 1 | 2): void {
    const data = units === 2 && { inline: TWO_UNITS };
    const position = this.host.enqueueSend(this.qp, { opcode: "nop", ...data });
    this.posted.push({ position, index: position, units });
    this.host.tellPointer(this.qp.sq, NOW);
  }

  /** A doorbell for what is stored now. */
  doorbell(bell: Bell): PcieMessage {
    const { queue, write: pointer, stamp } = this.qp.sq;
    const kind = "register-write", offset = DOORBELL_OFFSET;
    return bell === "pointer"
      ? { kind, offset, data: encodeDoorbell({ queue, write: { pointer, stamp } }) }
      : { kind, offset, data: encodeDoorbell({ queue }), stored: { pointer, stamp } };
  }

  send(message: PcieMessage): void {
    this.#toCard.push(message);
  }

  ring(bell: Bell): void {
    this.send(this.doorbell(bell));
  }

  /** Goes on in the ring that the reply is about. */
  adopt(place: RingPlace, reply: RnicReply | undefined): void {
    const { posted, qp: { sq } } = this;
    const answer = resumed(reply);
    const oldest = Math.min(this.completed.length, answer.written);
    const tail = posted[oldest]?.position ?? (sq.write + 1) % sq.depth;
    const move = { from: sq.depth, to: place.units, read: answer.read, tail };
    for (const [i, wqe] of posted.entries()) {
      if (i < oldest) continue;
      wqe.position = movedPosition(wqe.position, move);
      if (i >= answer.written) wqe.index = wqe.position;
    }
    adopt(sq, place, { reply: answer, tail });
    this.host.tellPointer(sq, NOW);
  }

  /**
   * What can happen next, as far as its order matters. What the card takes is there in its order, whatever else
   * happens first. The program's stores meet the card's reads and writes of memory, and what it sends meets the
   * answers; a program that waits, waits for memory.
   */
  choices(): Choice[] {
    if (this.#toCard.length > 0) return ["card"];
    const step = this.steps[this.#done];
    const memory: Choice[] = this.#toHost.length > 0 ? ["memory"] : [];
    const answer: Choice[] = this.#answers.length > 0 ? ["answer"] : [];
    if (step === undefined || step.ready?.() === false) {
      return memory.length > 0 ? memory : answer;
    }
    const met = step.kind === "store" ? memory : answer;
    return ["program", ...(met.length > 0 ? met : [...memory, ...answer])];
  }

  take(choice: Choice): void {
    switch (choice) {
      case "program":
        this.#pages.length = 0;
        return this.steps[this.#done++]!.run();
      case "memory": {
        const message = this.#toHost.shift()!, answer = this.host.take(message);
        this.#taken++;
        if (message.kind === "memory-write") this.#written(message.address, message.data.length);
        if (answer !== undefined) this.#answers.push(answer);
        return;
      }
      case "answer":
        this.#toCard.push(this.#answers.shift()!);
        return;
      case "card": {
        const message = this.#toCard.shift()!;
        assert(message.kind !== "memory-write", "Memory is the host's");
        if (!this.#isReplaying) {
          const hash = hashMessage(message), [first, second] = this.#given;
          this.#given = [mix(first, hash), mix(second ^ hash, second)];
        }
        const input = { kind: "message", port: PORTS.rnicBus, message, tailPs: 0 } as const;
        this.#rnic.step(NOW, input, this.#outputs);
      }
    }
  }

  /** The same for all interleavings that have come to the same. */
  get key(): string {
    const way = (messages: readonly PcieMessage[]) =>
      finish(messages.reduce((hash, message) => mix(hash, hashMessage(message)), messages.length));
    let memory = 0;
    for (let at = 0, page = 0; at < this.host.allocatedBytes; at += PAGE_BYTES, page++) {
      const hash = this.#pages[page] ??= hashBytes(
        this.host.memory.subarray(at, at + USED_BYTES),
        0,
      );
      memory = mix(memory, hash);
    }
    const places = `${this.#done} ${this.#taken} ${memory}`;
    return `${places} ${way(this.#answers)} ${way(this.#toCard)} ${this.#given}`;
  }

  #written(address: number, length: number): void {
    const last = Math.floor((address + length - 1) / PAGE_BYTES);
    for (let page = Math.floor(address / PAGE_BYTES); page <= last; page++) {
      this.#pages[page] = undefined;
    }
  }

  /** Nothing happens any more: all that was posted has completed, once and in order. */
  check(): void {
    assert(this.#done === this.steps.length, `The program stands at step ${this.#done}`);
    const expected = this.posted.map(({ index }) => index);
    const found = this.completed;
    assert(`${found}` === `${expected}`, `WQEs ${found} have completed, ${expected} were posted`);
  }

  get counters(): Readonly<Record<string, number>> {
    return this.#rnic.statistics();
  }
}

/** What an enumeration has seen. */
export interface Enumerated {
  readonly interleavings: number;
  /** States at an end in which the card had handled a doorbell with a stale pointer. */
  readonly stale: number;
}

/** What has happened, the last first. */
interface Path {
  readonly choice: Choice;
  readonly before: Path | undefined;
}

/** Walks every interleaving of what `prepare` makes, which is the same each time. */
export function everyInterleaving(prepare: () => Bench): Enumerated {
  /** State → the states that follow it, of those from which there are several ways, or none. */
  const next = new Map<string, string[]>();
  /** Ways that were not taken, none of them the card's: from which state, by which path, and what the card had been given. */
  const open: { readonly from: string; readonly path: Path; readonly given: Given }[] = [];
  let stale = 0, first = "";
  const walk = (path: Path | undefined, given: Given, from: string | undefined): void => {
    const bench = prepare();
    bench.replay(choicesOf(path), given);
    let so = path;
    let before = from;
    for (;;) {
      const choices = bench.choices();
      const [choice, ...others] = choices;
      if (choices.length !== 1) {
        const { key } = bench;
        if (before === undefined) first = key;
        else next.get(before)!.push(key);
        if (next.has(key)) return;
        next.set(key, []);
        before = key;
        for (const other of others) {
          open.push({ from: key, path: { choice: other, before: so }, given: bench.given });
        }
      }
      if (choice === undefined) {
        if ((bench.counters["stalePointers"] ?? 0) > 0) stale++;
        return bench.check();
      }
      bench.take(choice);
      so = { choice, before: so };
    }
  };
  walk(undefined, [0, 0], undefined);
  for (let one = open.pop(); one !== undefined; one = open.pop()) {
    walk(one.path, one.given, one.from);
  }
  return { interleavings: waysFrom(first, next), stale };
}

function choicesOf(path: Path | undefined): Choice[] {
  const choices: Choice[] = [];
  for (let at = path; at !== undefined; at = at.before) choices.push(at.choice);
  return choices.reverse();
}

/** Number of ways from a state to an end. */
function waysFrom(first: string, next: ReadonlyMap<string, readonly string[]>): number {
  const ways = new Map<string, number>();
  const stack = [first];
  while (stack.length > 0) {
    const state = stack.at(-1)!;
    const following = next.get(state)!;
    const unknown = following.filter((each) => !ways.has(each));
    if (unknown.length > 0) {
      stack.push(...unknown);
      continue;
    }
    stack.pop();
    ways.set(state, following.reduce((sum, each) => sum + ways.get(each)!, 0) || 1);
  }
  return ways.get(first)!;
}
