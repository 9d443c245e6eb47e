/**
 * For tests only: a rack of the protocol's code with times. Messages take as long as a random number says, clocks
 * of far cards run at rates of their own, cables are cut and heal, cards die, and leases are the real ones
 * (`lease.ts`), so it is what they say of times that is tested: an end that comes too early leaves two writers, one
 * that comes too late leaves an access without an answer.
 */
import { assert } from "../base/assert.ts";
import { rngFor } from "../base/rng.ts";
import { NEVER, type Time } from "../base/time.ts";
import {
  canEvict,
  evict,
  expiresAt,
  farAccess,
  type FarCard,
  farLine,
  farNextAt,
  farWake,
  fence,
} from "./far_card.ts";
import { type ByteAccess, judgeByte } from "./history_testing.ts";
import { renewHome } from "./faults.ts";
import { homeNextAt, homeWake, stopRenewing } from "./home_card.ts";
import { cardLost, hostAccess, hostLine } from "./host_agent.ts";
import { cardLostAt, type LeaseTimes } from "./lease.ts";
import { BYTE_CONTENTS } from "./line_bytes.ts";
import { type LineChange, WHOLE_LINE } from "../wire/host_bus/line_change.ts";
import type { Access, Answer } from "./access.ts";
import type { Data } from "../wire/roce/coherence_messages.ts";
import type { Output } from "./output.ts";
import {
  act,
  deliver,
  deliveries,
  type Delivery,
  type Events,
  HOST,
  newSystem,
  type System,
  type SystemSize,
} from "./system.ts";

export interface TimedRun {
  readonly seed: number;
  readonly size: SystemSize;
  readonly times: LeaseTimes;
  /** Accesses and faults. */
  readonly actions: number;
  readonly faults: boolean;
  /** By how much far clocks run slow or fast at most in a lease, as a part of the grace: less than 1, else it breaks. */
  readonly drift?: number;
  /** A break of decision 13: home's card and its host wait for less than what far cards count. */
  readonly homeTimes?: LeaseTimes;
}

export interface TimedResult {
  readonly wrong: string | null;
  /** The longest time of an access. */
  readonly slowest: Time;
  readonly fenced: number;
  readonly lost: number;
  /** Messages by kind. */
  readonly sent: ReadonlyMap<string, number>;
}

interface Issued {
  readonly access: Access;
  readonly by: number;
  readonly began: Time;
  answer: { readonly answer: Answer; readonly at: Time } | null;
}

interface Event {
  readonly at: Time;
  readonly does: () => void;
}

const LINE = 64, STORES_MAX = 250;

/** Runs, heals, waits until all is quiet, and judges. */
export function runTimed(given: TimedRun): TimedResult {
  const run = new Timed(given);
  let wrong: string | null;
  try {
    run.run();
    wrong = run.judge();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    wrong = error.message;
  }
  return run.result(wrong);
}

class Timed {
  readonly #system: System;
  readonly #given: TimedRun;
  readonly #rng: ReturnType<typeof rngFor>;
  /** Of far clocks: their time is `rate` × this run's. */
  readonly #rates: number[];
  readonly #events: Event[] = [];
  /** When the last message of each queue arrives. */
  readonly #arrivals = new Map<object, Time>();
  readonly #issued: Issued[] = [];
  readonly #sent = new Map<string, number>();
  #now: Time = 0;
  #stores = 0;
  #lost = 0;
  #left: number;

  constructor(given: TimedRun) {
    this.#given = given;
    this.#left = given.actions;
    this.#rng = rngFor(given.seed, "timed coherence");
    const { size, times } = given;
    const system = newSystem({
      size,
      contents: BYTE_CONTENTS,
      initial: () => new Uint8Array(LINE),
      times,
      links: { wire: (message) => (this.#count(message.kind), message) },
    });
    const { home } = system;
    this.#system = { ...system, home: { ...home, times: given.homeTimes ?? times } };
    const drift = (given.drift ?? 0.9) * times.grace / times.lease;
    this.#rates = this.#system.fars.map(() => 1 + drift * (this.#rng.below(2001) - 1000) / 1000);
  }

  run(): void {
    this.#later(0, () => this.#act());
    const { lease } = this.#given.times;
    const end = this.#given.actions * lease + 40 * lease;
    while (true) {
      const next = Math.min(this.#events[0]?.at ?? NEVER, ...this.#wakes());
      if (next === NEVER) return;
      assert(next < end, `it is not quiet after ${end} ps`);
      this.#now = Math.max(this.#now, next);
      this.#setClocks();
      this.#wake();
      while ((this.#events[0]?.at ?? NEVER) <= this.#now) this.#events.shift()?.does();
      this.#checkCopies();
    }
  }

  judge(): string | null {
    const open = this.#issued.find(({ answer }) => answer === null);
    if (open !== undefined) return `no answer: ${open.access.kind} by ${open.by}`;
    for (let line = 0; line < this.#given.size.lines; line++) {
      const wrong = judgeByte(this.#bytesOf(line));
      if (wrong !== null) return `line ${line}: ${wrong}`;
    }
    return null;
  }

  result(wrong: string | null): TimedResult {
    const ends = this.#issued.map(({ began, answer }) => (answer?.at ?? this.#now) - began);
    const fenced = this.#issued.filter(({ answer }) => answer?.answer.result === "fenced").length;
    const slowest = Math.max(0, ...ends);
    return { wrong, slowest, fenced, lost: this.#lost, sent: this.#sent };
  }

  // ── time ───────────────────────────────────────────────────────────────────────────────────────

  #later(delay: Time, does: () => void): void {
    const at = this.#now + delay;
    const index = this.#events.findIndex((event) => event.at > at);
    this.#events.splice(index < 0 ? this.#events.length : index, 0, { at, does });
  }

  *#wakes(): Generator<Time> {
    const { fars, home, outage } = this.#system;
    for (const [at, card] of fars.entries()) yield this.#trueTime(at, farNextAt(card));
    if (outage === null) yield homeNextAt(home);
  }

  /** When a far card's clock shows a time. */
  #trueTime(at: number, time: Time): Time {
    return time === NEVER ? NEVER : Math.ceil(time / (this.#rates[at] ?? 1));
  }

  #setClocks(): void {
    const { fars, home } = this.#system;
    for (const [at, card] of fars.entries()) {
      card.now = Math.ceil(this.#now * (this.#rates[at] ?? 1));
    }
    home.now = this.#now;
  }

  #wake(): void {
    const { fars, home, outage } = this.#system;
    for (const [at, card] of fars.entries()) {
      if (farNextAt(card) > card.now) continue;
      this.#does(at + 1, (out) => farWake(card, out));
    }
    if (outage === null && homeNextAt(home) <= home.now) {
      this.#does(0, (out) => homeWake(home, out));
    }
  }

  // ── messages ───────────────────────────────────────────────────────────────────────────────────

  #does(by: number, does: (out: Output) => void): void {
    this.#note(act(this.#system, by, does));
  }

  #note({ answers, lost }: Events): void {
    this.#lost += lost.length;
    for (const { answer } of answers) {
      const issued = this.#issued[answer.access.ticket];
      assert(
        issued !== undefined && issued.answer === null,
        "an answer to nothing, or a second one",
      );
      issued.answer = { answer, at: this.#now };
    }
    this.#send();
  }

  /** Each new message gets a time of arrival, behind what is before it in its queue. */
  #send(): void {
    const { wires, toHost, toHome } = this.#system;
    const { lease } = this.#given.times;
    for (const [at, { req, snp, up, down }] of wires.entries()) {
      for (const [from, queue] of Object.entries({ req, snp, up, down })) {
        for (const message of queue) this.#arrive(queue, message, lease / 20, from, at + 1);
      }
    }
    for (const message of toHost) this.#arrive(toHost, message, lease / 200, "toHost");
    for (const message of toHome) this.#arrive(toHome, message, lease / 200, "toHome");
  }

  #arrive(queue: object, message: object, delayMax: Time, from: string, agent?: number): void {
    if (this.#arrivals.has(message)) return;
    const before = this.#arrivals.get(queue) ?? 0;
    const at = Math.max(before, this.#now + 1 + this.#rng.below(delayMax));
    this.#arrivals.set(queue, at);
    this.#arrivals.set(message, at);
    this.#later(at - this.#now, () => this.#deliver({ from, agent, message }));
  }

  /** Delivers what has arrived, if it is still there; a request that finds no slot tries again. */
  #deliver(given: { from: string; agent: number | undefined; message: object }): void {
    const { from, agent } = given;
    const queue = this.#queueOf(from, agent);
    const index = queue.indexOf(given.message);
    if (index < 0) return;
    const delivery = {
      from: from as Delivery["from"],
      index,
      ...(agent !== undefined && { agent }),
    };
    const isNext = deliveries(this.#system).some((each) =>
      each.from === from && each.agent === agent && each.index === index
    );
    if (isNext) this.#note(deliver(this.#system, delivery));
    else this.#later(this.#given.times.lease / 100, () => this.#deliver(given));
  }

  #queueOf(from: string, agent: number | undefined): object[] {
    const { wires, toHost, toHome } = this.#system;
    if (from === "toHost") return toHost;
    if (from === "toHome") return toHome;
    return wires[(agent ?? 0) - 1]?.[from as "req"] ?? [];
  }

  #count(kind: string): void {
    this.#sent.set(kind, (this.#sent.get(kind) ?? 0) + 1);
  }

  // ── what happens ───────────────────────────────────────────────────────────────────────────────

  #act(): void {
    if (this.#left-- <= 0) return;
    const { lease } = this.#given.times;
    const isFault = this.#given.faults && this.#rng.below(20) === 0;
    if (isFault) this.#fail();
    else if (this.#rng.below(8) === 0) this.#evict();
    else this.#issue();
    // Mostly close together, and sometimes longer than a lease.
    const gap = this.#rng.below(16) === 0 ? 2 * lease : lease / 10;
    this.#later(1 + this.#rng.below(gap), () => this.#act());
  }

  #issue(): void {
    const { fars, host, outage } = this.#system;
    const by = [HOST, ...fars.map(({ agent }) => agent)][this.#rng.below(fars.length + 1)] ?? HOST;
    const access = this.#newAccess();
    const open = this.#issued.filter((issued) => issued.by === by && issued.answer === null);
    if (open.length >= 2 || outage === "host") return;
    this.#issued.push({ access, by, began: this.#now, answer: null });
    const card = fars[by - 1];
    this.#does(by, (out) => {
      if (card !== undefined) farAccess(card, access, out);
      else hostAccess(host, access as Access & { kind: "load" }, out);
    });
  }

  #newAccess(): Access {
    const line = this.#rng.below(this.#given.size.lines), ticket = this.#issued.length;
    const kind = (["load", "load", "store", "store", "flush"] as const)[this.#rng.below(5)] ??
      "load";
    if (kind !== "store" || this.#stores >= STORES_MAX) {
      return { kind: kind === "store" ? "load" : kind, line, ticket };
    }
    const mask = this.#rng.below(2) === 0 ? WHOLE_LINE : 1n;
    const bytes = new Uint8Array(LINE).fill(++this.#stores);
    return { kind, line, ticket, change: { kind: "write", mask, bytes } };
  }

  #evict(): void {
    const { fars, size } = this.#system;
    const card = fars[this.#rng.below(fars.length)], line = this.#rng.below(size.lines);
    if (card === undefined || !canEvict(card, line)) return;
    this.#does(card.agent, (out) => evict(card, line, out));
  }

  #fail(): void {
    const { fars, outage } = this.#system;
    const card = fars[this.#rng.below(fars.length)];
    if (card === undefined) return;
    if (this.#rng.below(4) === 0 && outage === null) this.#homeDies();
    else if (this.#rng.below(3) === 0) this.#startAgain(card);
    else this.#cut(card);
  }

  /** The far card loses its power, and starts again: it has said nothing before. */
  #startAgain(card: FarCard): void {
    this.#lose(card);
    this.#does(card.agent, (out) => fence(card, out));
  }

  /** Messages are lost, and each side hears of it when its queue pair fails, or has stopped before. */
  #cut(card: FarCard): void {
    const wire = this.#system.wires[card.agent - 1];
    if (wire === undefined || wire.isCut) return;
    this.#lose(card);
    Object.assign(wire, { isCut: true });
    const { lease } = this.#given.times;
    const { life } = card;
    const mend = 1 + this.#rng.below(4 * lease);
    // A queue pair fails at last when it sends its next message on a cable that has healed: its numbers are gone.
    this.#later(1 + this.#rng.below(mend), () => {
      if (card.life === life) this.#does(card.agent, (out) => fence(card, out));
    });
    this.#later(1 + this.#rng.below(mend), () => {
      const { home, outage } = this.#system;
      if (outage === null && home.lives.get(card.agent) === life) stopRenewing(home, card.agent);
    });
    this.#later(mend, () => Object.assign(wire, { isCut: false }));
  }

  #lose({ agent }: FarCard): void {
    const wire = this.#system.wires[agent - 1];
    if (wire === undefined) return;
    for (const queue of [wire.req, wire.snp, wire.up, wire.down]) queue.length = 0;
  }

  /** Decision 14: its host notices, waits until all leases are over, and starts it again. */
  #homeDies(): void {
    const system = this.#system;
    system.outage = "card";
    system.toHome.length = system.toHost.length = 0;
    for (const card of system.fars) this.#lose(card);
    const times = this.#given.homeTimes ?? this.#given.times;
    const at = cardLostAt(this.#now, times);
    this.#later(at - this.#now, () => {
      renewHome(system, times);
      system.outage = null;
      this.#setClocks();
      this.#does(HOST, (out) => cardLost(system.host, out));
    });
  }

  // ── judges ─────────────────────────────────────────────────────────────────────────────────────

  #bytesOf(line: number): ByteAccess[] {
    return this.#issued.flatMap(({ access, began, answer }): ByteAccess[] => {
      if (access.line !== line || answer === null || access.kind === "flush") return [];
      const { result, data } = answer.answer;
      if (access.kind !== "store") {
        if (result !== "done" || !(data instanceof Uint8Array)) return [];
        return [{ kind: "load", value: data[0] ?? 0, began, ended: answer.at }];
      }
      if (result === "lost") return [];
      const { bytes } = access.change as LineChange & { kind: "write" };
      const ended = result === "fenced" ? Infinity : answer.at;
      return [{ kind: "store", value: bytes[0] ?? 0, began, ended }];
    });
  }

  /** C-09 at each instant: copies that can be read are equal, and one that can be written is alone. */
  #checkCopies(): void {
    const { host, fars, size } = this.#system;
    for (let line = 0; line < size.lines; line++) {
      const { llc, cached } = hostLine(host, line);
      const copies: { state: string; data: Data | undefined }[] = [{ state: llc, data: cached }];
      for (const card of fars) {
        if (card.isUp && card.now < expiresAt(card)) copies.push(farLine(card, line));
      }
      const readable = copies.filter(({ state }) => /^[SEM]$/.test(state));
      const said = readable.map(({ state }) => state).join(" ");
      const isWritable = readable.some(({ state }) => state !== "S");
      if (isWritable && readable.length > 1) {
        throw new Error(`line ${line} may be written: ${said}`);
      }
    }
  }
}
