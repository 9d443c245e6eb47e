/**
 * For tests only: a rack of the protocol's code that does what a list of numbers says: which of all that may
 * happen is next. So a list that fails is shrunk by leaving numbers out. Many agents, few lines, stores to single
 * bytes of the same lines (false sharing), atomics, evictions, moves, and lost cards.
 *
 * Its judges stand outside of the tables: {@link judgeByte} for values, {@link checkCopies} for copies at each
 * instant, and the count of answers.
 */
import { viewOf } from "../base/slab.ts";
import { canEvict, evict, farAccess, farLine } from "./far_card.ts";
import { faultsOf } from "./faults.ts";
import { type ByteAccess, judgeByte } from "./history_testing.ts";
import { canEvictLocal, evictLocal, homeAccess, move, recallRegion } from "./home_card.ts";
import { homePlacement } from "./home_card_state.ts";
import { canEvictFromLlc, evictFromLlc, hostAccess, hostLine } from "./host_agent.ts";
import { BYTE_CONTENTS } from "./line_bytes.ts";
import { type LineChange, WHOLE_LINE } from "../wire/host_bus/line_change.ts";
import type { Access, Answer } from "./access.ts";
import { type Data, LOST } from "../wire/roce/coherence_messages.ts";
import {
  act,
  deliver,
  deliveries,
  type Delivery,
  type Events,
  HOST,
  isQuiet,
  type Links,
  newSystem,
  type System,
  type SystemSize,
} from "./system.ts";
import type { Tables } from "./tables.ts";

export interface RandomRun {
  readonly size: SystemSize;
  /** Which of all that may happen is next, one number for each step. */
  readonly choices: readonly number[];
  readonly losses: boolean;
  /** A queue, of the first far card, that delivers one time in sixteen: what is on them meets much that was sent later. */
  readonly slow?: Delivery["from"];
  readonly tables?: Tables;
  readonly links?: Links;
}

/** Bytes of a line that single stores write; they differ in value, so a run has at most 255 of them. */
const BYTES = 4, STORES_MAX = 255;
/** The word of a line that atomics count in. */
const COUNTER = 8;
const LINE = 64;
/** Accesses of one computer that are under way at a time. */
const CORES = 2;
/** Deliveries after the last choice, far more than a run needs: beyond, it goes round in circles. */
const DRAIN_MAX = 10_000;

interface Issued {
  readonly access: Access;
  readonly by: number;
  readonly began: number;
  answer: { readonly answer: Answer; readonly at: number } | null;
}

/** Time between two power failures of home: what memory had then is what was written last. */
interface Epoch {
  readonly from: number;
  readonly memory: readonly Data[];
}

/** What was seen of a run; `wrong` is the first promise that it broke. */
export interface RandomResult {
  readonly wrong: string | null;
  readonly actions: number;
}

/** Runs to the end of the choices, then lets all that is under way end, and judges. */
export function runRandomly(given: RandomRun): RandomResult {
  const run = new Run(given);
  try {
    for (const choice of given.choices) run.step(choice);
    run.drain();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return { wrong: error.message, actions: run.now };
  }
  return { wrong: run.judge(), actions: run.now };
}

class Run {
  now = 0;
  readonly #system: System;
  readonly #issued: Issued[] = [];
  readonly #losses: boolean;
  readonly #slow: Delivery["from"] | undefined;
  readonly #epochs: Epoch[] = [];
  #stores = 0;

  constructor({ size, losses, slow, ...rest }: RandomRun) {
    const initial = () => new Uint8Array(LINE);
    this.#system = newSystem({ size, contents: BYTE_CONTENTS, initial, ...rest });
    this.#losses = losses;
    this.#slow = slow;
    this.#beginEpoch();
  }

  step(choice: number): void {
    const may = [...this.#mayHappen(choice)];
    // Deliveries as often as all else together, or queues would only grow.
    const isSlow = (choice >>> 24) % 16 !== 0;
    const next = deliveries(this.#system).filter(({ from, agent = 1 }) =>
      !(isSlow && from === this.#slow && agent === 1)
    );
    const isDelivery = next.length > 0 && (choice & 1) === 0;
    const index = choice >>> 1;
    const delivery = next[index % next.length];
    if (isDelivery && delivery !== undefined) this.#does(() => deliver(this.#system, delivery));
    else this.#does(() => may[index % may.length]?.() ?? { answers: [], lost: [] });
  }

  drain(): void {
    for (let left = DRAIN_MAX; left > 0; left--) {
      const [next] = deliveries(this.#system);
      if (next !== undefined) {
        this.#does(() => deliver(this.#system, next));
        continue;
      }
      const due = faultsOf(this.#system, { mayFail: false })
        .find(({ isProgress }) => isProgress);
      if (due === undefined) return;
      this.#does(() => due.act(this.#system));
    }
    throw new Error(`${DRAIN_MAX} deliveries, and it is not quiet`);
  }

  judge(): string | null {
    const open = this.#issued.find(({ answer }) => answer === null);
    if (open !== undefined) {
      return `no answer: ${open.access.kind} ${open.access.line} by ${open.by}`;
    }
    if (!isQuiet(this.#system)) return "all is delivered, and it is not quiet";
    for (let line = 0; line < this.#system.size.lines; line++) {
      for (let byte = 0; byte < BYTES; byte++) {
        const wrong = this.#judgeEpochs(line, byte);
        if (wrong !== null) return `line ${line}, byte ${byte}: ${wrong}`;
      }
      const wrong = this.#losses ? null : this.#judgeCounter(line) ?? this.#judgeShutdown(line);
      if (wrong !== null) return `line ${line}: ${wrong}`;
    }
    return null;
  }

  #does(step: () => Events): void {
    const { outage } = this.#system;
    this.#note(step());
    if (outage === null && this.#system.outage !== null) this.#abandon();
    if (outage === "host" && this.#system.outage === null) this.#beginEpoch();
  }

  /** Accesses of a card or a host that has died are over, done or not. */
  #abandon(): void {
    for (const issued of this.#issued) {
      const { by, access } = issued;
      const isDead = by === 0 || (by === HOST && this.#system.outage === "host");
      if (!isDead || issued.answer !== null) continue;
      issued.answer = { answer: { access, result: "fenced" }, at: this.now };
    }
  }

  #beginEpoch(): void {
    const { host, size } = this.#system;
    const memory = Array.from({ length: size.lines }, (_, line) => hostLine(host, line).memory);
    this.#epochs.push({ from: this.now, memory });
  }

  #note({ answers }: Events): void {
    this.now++;
    for (const { answer } of answers) {
      const issued = this.#issued[answer.access.ticket];
      if (issued === undefined) throw new Error(`an answer to nothing: ${answer.access.ticket}`);
      if (issued.answer !== null) throw new Error(`two answers: ${answer.access.ticket}`);
      issued.answer = { answer, at: this.now };
    }
    checkCopies(this.#system);
  }

  #issue(by: number, choice: number): Events {
    const access = this.#accessOf(by, choice);
    this.#issued.push({ access, by, began: this.now, answer: null });
    const { host, home, fars } = this.#system;
    return act(this.#system, by, (out) => {
      const card = fars[by - 1];
      if (by === HOST) hostAccess(host, { ...access, kind: hostKind(access.kind) }, out);
      else if (by === 0) homeAccess(home, access, out);
      else if (card !== undefined) farAccess(card, access, out);
    });
  }

  #accessOf(by: number, choice: number): Access {
    const ticket = this.#issued.length;
    const line = (choice >>> 8) % this.#system.size.lines;
    const kinds = ["load", "store", "store", "load", "add", "own", "flush", "whole"] as const;
    let kind = kinds[(choice >>> 11) % kinds.length] ?? "load";
    if (kind === "store" || kind === "whole") {
      if (this.#stores >= STORES_MAX) kind = "load";
      else this.#stores++;
    }
    // A store to the whole line would set the counter back; without losses nothing needs it.
    if (kind === "whole" && !this.#losses) kind = "store";
    const value = new Uint8Array(LINE).fill(this.#stores);
    const mask = BigInt((choice >>> 14) % ((1 << BYTES) - 1) + 1);
    switch (kind) {
      case "store":
        return { kind, line, ticket, change: { kind: "write", mask, bytes: value } };
      case "whole":
        return {
          kind: "store",
          line,
          ticket,
          change: { kind: "write", mask: WHOLE_LINE, bytes: value },
        };
      case "add":
        return { kind: "store", line, ticket, change: { kind, offset: COUNTER, operand: 1n } };
      case "flush": {
        // From this line to the last one, where a far card does it; others do one line at a time.
        const isRange = by > 0 && (choice >>> 14) % 2 === 0;
        return { kind, line, ticket, ...(isRange && { lines: this.#system.size.lines - line }) };
      }
      default:
        return { kind, line, ticket };
    }
  }

  *#mayHappen(choice: number): Generator<() => Events> {
    const system = this.#system;
    const { host, home, fars, size, outage } = system;
    const underWay = (by: number) =>
      this.#issued.filter((issued) => issued.by === by && issued.answer === null).length;
    for (const by of [HOST, 0, ...fars.map(({ agent }) => agent)]) {
      const isUp = outage === null || by > 0 || (by === HOST && outage === "card");
      if (isUp && underWay(by) < CORES) yield () => this.#issue(by, choice);
    }
    for (let line = 0; line < size.lines; line++) {
      if (outage !== "host" && canEvictFromLlc(host, line)) {
        yield () => act(system, HOST, (out) => evictFromLlc(host, line, out));
      }
      if (outage === null && canEvictLocal(home, line)) {
        yield () => act(system, 0, (out) => evictLocal(home, line, out));
      }
      for (const card of fars) {
        if (!canEvict(card, line)) continue;
        yield () => act(system, card.agent, (out) => evict(card, line, out));
      }
    }
    if (choice % 5 === 0 && outage === null) {
      const place = homePlacement(home, 0).place === "local" ? "remote" : "local";
      yield () => act(system, 0, (out) => move(home, { region: 0, place }, out));
    }
    if (!this.#losses || choice % 3 !== 0) return;
    // Seldom enough that much is done between two faults.
    const mayFail = (choice >>> 16) % 8 === 0;
    for (const { act: fails } of faultsOf(system, { mayFail })) {
      yield () => fails(system);
    }
  }

  #judgeEpochs(line: number, byte: number): string | null {
    for (const [index, { from, memory }] of this.#epochs.entries()) {
      const to = this.#epochs[index + 1]?.from ?? Infinity;
      const content = memory[line];
      const initial = content instanceof Uint8Array ? content[byte] : undefined;
      const wrong = judgeByte(this.#bytesOf(line, byte, { from, to }), initial ?? 0);
      if (wrong !== null) return wrong;
    }
    return null;
  }

  #bytesOf(line: number, byte: number, { from, to }: { from: number; to: number }): ByteAccess[] {
    return this.#issued.flatMap(({ access, began: issued, answer }): ByteAccess[] => {
      if (access.line !== line || answer === null || access.kind === "flush") return [];
      if (answer.at <= from || answer.at > to) return [];
      const began = Math.max(issued, from);
      const { result, data } = answer.answer;
      if (access.kind !== "store") {
        if (result !== "done" || !(data instanceof Uint8Array)) return [];
        return [{ kind: "load", value: data[byte] ?? 0, began, ended: answer.at }];
      }
      const change = access.change as LineChange;
      const isHere = change.kind === "write" && (change.mask >> BigInt(byte) & 1n) === 1n;
      if (!isHere || result === "lost") return [];
      const ended = result === "fenced" ? Infinity : answer.at;
      return [{ kind: "store", value: change.bytes[byte] ?? 0, began, ended }];
    });
  }

  /** Decision 15: no two atomics have found the same count, and none has skipped one. */
  #judgeCounter(line: number): string | null {
    const counts = this.#issued.flatMap(({ access, answer }) => {
      const data = answer?.answer.data;
      const isAdd = (access.change as LineChange | undefined)?.kind === "add";
      return access.line === line && isAdd && data instanceof Uint8Array
        ? [viewOf(data).getBigUint64(COUNTER, true)]
        : [];
    }).sort((a, b) => Number(a - b));
    const wrong = counts.findIndex((count, index) => count !== BigInt(index));
    return wrong < 0 ? null : `atomics have counted ${counts.join(" ")}`;
  }

  /** C-09: an orderly shutdown brings all home; no copy is left, and memory has the last write. */
  #judgeShutdown(line: number): string | null {
    const { host, home, fars } = this.#system;
    const before = readable(this.#system, line)[0]?.data ?? hostLine(host, line).memory;
    this.#note(act(this.#system, 0, (out) => recallRegion(home, 0, out)));
    this.drain();
    if (canEvictFromLlc(host, line)) {
      this.#note(act(this.#system, HOST, (out) => evictFromLlc(host, line, out)));
    }
    if ([home.local, ...fars].some((card) => farLine(card, line).state !== "I")) {
      return "a copy is left";
    }
    return isSame(before, hostLine(host, line).memory) ? null : "memory has not the last write";
  }
}

/** Home's cores own a line by storing to it. */
function hostKind(kind: Access["kind"]): Exclude<Access["kind"], "own"> {
  return kind === "own" ? "load" : kind;
}

interface Copy {
  readonly who: number;
  readonly state: string;
  readonly data: Data | undefined;
}

/** Copies that a core could read now. */
function readable({ host, home, fars }: System, line: number): Copy[] {
  const { llc, cached } = hostLine(host, line);
  const copies: Copy[] = [{ who: HOST, state: llc, data: cached }];
  for (const card of [home.local, ...fars]) {
    copies.push({ who: card.agent, ...farLine(card, line) });
  }
  return copies.filter(({ state }) => /^[SEM]$/.test(state));
}

function isSame(a: Data | undefined, b: Data | undefined): boolean {
  if (!(a instanceof Uint8Array) || !(b instanceof Uint8Array)) return a === b;
  return a.every((byte, at) => byte === b[at]);
}

/** C-09: a single writer, or many readers of the same bytes. */
function checkCopies(system: System): void {
  for (let line = 0; line < system.size.lines; line++) {
    const copies = readable(system, line);
    const said = copies.map(({ who, state }) => `${who}:${state}`).join(" ");
    const isWritable = copies.some(({ state }) => state !== "S");
    if (isWritable && copies.length > 1) throw new Error(`line ${line} may be written: ${said}`);
    if (copies.some(({ data }) => !isSame(data, copies[0]?.data))) {
      throw new Error(`line ${line} has different copies: ${said}`);
    }
    const [only] = copies;
    if (only?.state !== "E" || only.data === LOST) continue;
    if (!isSame(only.data, hostLine(system.host, line).memory)) {
      throw new Error(`line ${line} is E, and differs from memory: ${said}`);
    }
  }
}
