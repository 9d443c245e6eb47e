/**
 * The writes to SCM of a run on a rack with strict persistency: each becomes persistent as a whole,
 * at one moment after its begin, and those of one host in the order in which it began them; nothing
 * waits in an RNIC, an IIO, a cache or a write queue.
 *
 * Write A is before B where one host began both, A first, or where A was visible to the cores of
 * its host before another host began B. Begin is the post of the work request, or the store. The
 * order of begins contains both relations, so they have no cycle.
 */
import type { TraceStep } from "../../../fabric/node.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { cardsKeepWrites } from "../../../fabric/rack/plan/persistence_domain.ts";
import { machineOf } from "../../../fabric/rack/plan/names.ts";
import { endsOf, hostsByAddress, readTrace, type TraceLine } from "../../../fabric/trace/trace.ts";
import { SCM_BASE } from "../../../nodes/host/memory/address_map.ts";
import { WORD_BYTES, wordsAround } from "../choices.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { edgeOf, type Entry, Pages } from "../history.ts";
import { lifeAt } from "../../checks/lives.ts";
import { writesOf } from "../cards.ts";
import type { HeldWrite } from "../held_history.ts";
import { victimOf } from "../post_crash_run.ts";
import type { BusWrite, Placed, RackRun } from "../rerun.ts";

/** A work request that writes to SCM, or a store of a core (a word of it: a core stores them in turn). */
export interface StrictWrite {
  /** A host, or the RNIC that wrote if no work request is known. */
  readonly initiator: string;
  readonly beganAt: Time;
  order: number;
  /** Bytes [`from`, `to`) have arrived so far. */
  readonly host: string;
  from: number;
  to: number;
  /** When the last of its bytes is visible to cores. */
  visibleAt: Time;
  /** `wqe`: position in the send queue. Undefined for a store of a core. */
  readonly request: { readonly qpn: number; readonly wqe: number } | undefined;
  readonly by: "core" | "card";
}

/** The first version of a word is the content before all writes. */
export interface Version {
  readonly value: bigint;
  readonly write: StrictWrite | undefined;
  /** A power failure before this time does not leave the bytes. */
  readonly at: Time;
}

/** True for lines that {@link StrictHistory} needs: posts, and a card's steps for a packet. */
export function isOfWrites({ step, psn, wqe }: TraceStep): boolean {
  return step === "wqe" || psn !== undefined || wqe !== undefined;
}

interface Era {
  readonly from: Time;
  readonly words: Map<number, Version[]>;
}

interface Effect {
  readonly at: Time;
  readonly leftFrom: Time;
  readonly write: StrictWrite;
  readonly offset: number;
  readonly bytes: Uint8Array;
}

export class StrictHistory {
  readonly #eras = new Map<string, Era[]>();
  /** By initiator: times at which writes become visible, each with the highest order so far. */
  readonly #visible = new Map<string, { readonly at: Time; readonly order: number }[]>();

  /** @param lines of the run's trace, at least those of {@link isOfWrites}. */
  constructor(run: RackRun, lines: readonly TraceLine[]) {
    const posts = new Posts(run, lines);
    const writes = new Set<StrictWrite>();
    const found: { era: Era; before: Before; effects: Effect[] }[] = [];
    for (const [host, { entries }] of run.histories) {
      const eras = effectsOf(run, host, { entries, posts });
      this.#eras.set(host, eras.map(({ era }) => era));
      for (const { effects } of eras) for (const { write } of effects) writes.add(write);
      found.push(...eras);
    }
    this.#number([...writes]);
    for (const { era, before, effects } of found) addVersions(era, before, effects);
  }

  /** In the order of their begins; undefined where nothing was written to the word. */
  versions(host: string, word: number, at: Time): readonly Version[] | undefined {
    return this.#eras.get(host)?.findLast(({ from }) => from <= at)?.words.get(word);
  }

  /** Of each other initiator: its last order that is visible before `at`. */
  *visibleBefore(at: Time, initiator: string): Generator<[initiator: string, order: number]> {
    for (const [other, visible] of this.#visible) {
      if (other === initiator) continue;
      let low = 0, high = visible.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (visible[middle]!.at < at) low = middle + 1;
        else high = middle;
      }
      if (low > 0) yield [other, visible[low - 1]!.order];
    }
  }

  #number(writes: StrictWrite[]): void {
    // A program's stores at one instant come before its posts: it usually posts what it has stored.
    const late = ({ by }: StrictWrite) => by === "card" ? 1 : 0;
    writes.sort((x, y) => x.beganAt - y.beganAt || late(x) - late(y) || x.order - y.order);
    const counts = new Map<string, number>();
    for (const write of writes) {
      const order = (counts.get(write.initiator) ?? 0) + 1;
      counts.set(write.initiator, order);
      write.order = order;
    }
    for (
      const { initiator, visibleAt, order } of writes.sort((x, y) => x.visibleAt - y.visibleAt)
    ) {
      let visible = this.#visible.get(initiator);
      if (visible === undefined) this.#visible.set(initiator, visible = []);
      visible.push({ at: visibleAt, order: Math.max(order, visible.at(-1)?.order ?? 0) });
    }
  }
}

type Before = ReadonlyMap<number, bigint>;

function effectsOf(
  run: RackRun,
  host: string,
  { entries, posts }: { readonly entries: readonly Entry[]; readonly posts: Posts },
): { readonly era: Era; readonly before: Before; readonly effects: Effect[] }[] {
  const { config: { rnics, domain }, noticePs } = victimOf(run.plan, host);
  const keeps = cardsKeepWrites(domain);
  const lives = run.lives.get(host) ?? [];
  const arriving = writesOf(run, rnics, "busWrites")
    .filter(({ arrivesAt }) => lives.some(({ from, to }) => arrivesAt >= from && arrivesAt < to))
    .sort((x, y) => x.arrivesAt - y.arrivesAt);
  const writer = new EraWriter(host);
  let next = 0, stores = 0;
  const arriveUntil = (at: Time) => {
    for (; next < arriving.length && arriving[next]!.arrivesAt <= at; next++) {
      const { rnic, at: sentAt, arrivesAt, offset, bytes } = arriving[next]!;
      const write = posts.writeOf(arriving[next]!, { host, rnic });
      // Such a card keeps what it sends until it has detected the failure (`holdJournal`).
      const leftFrom = keeps ? edgeOf(sentAt, noticePs) : arrivesAt;
      writer.add({ at: arrivesAt, leftFrom, write, offset, bytes });
    }
  };
  const store = (at: Time, offset: number, bytes: Uint8Array, heldSince?: Time) => {
    const beganAt = heldSince ?? at;
    writer.add({
      at,
      leftFrom: heldSince === undefined ? at : edgeOf(heldSince, noticePs),
      offset,
      bytes,
      write: {
        ...{ initiator: host, beganAt, order: stores++, host, by: "core", request: undefined },
        ...{ from: offset, to: offset + bytes.length, visibleAt: at },
      },
    });
  };
  for (const entry of entries) {
    arriveUntil(entry.at);
    switch (entry.kind) {
      case "dirty":
        for (let word = 0; word < LINE_BYTES / WORD_BYTES; word++) {
          if ((entry.words & (1 << word)) === 0) continue;
          const from = word * WORD_BYTES;
          store(entry.at, entry.line + from, entry.bytes.subarray(from, from + WORD_BYTES));
        }
        break;
      case "durable":
        // Bytes that no card has written, and that were in no cache, were stored by a core.
        for (const { offset, bytes } of writer.becomesDurable(entry.offset, entry.bytes)) {
          // Such a card keeps it from the time its local cache has it, in the order of arrival.
          const since = keeps ? keptSince(run, rnics, { entry, offset, bytes }) : undefined;
          store(entry.at, offset, bytes, since);
        }
        break;
      case "lost":
        writer.begin(entry.at);
        break;
      case "clean":
        break;
    }
  }
  arriveUntil(Infinity);
  return writer.eras;
}

function keptSince(
  run: RackRun,
  rnics: readonly string[],
  { entry: { at }, ...write }: HeldWrite & { readonly entry: { readonly at: Time } },
): Time | undefined {
  const times = rnics.flatMap((rnic) =>
    run.held.get(rnic)?.[lifeAt(run, rnic, at)]?.keptSince(write, at) ?? []
  );
  return times.length === 0 ? undefined : Math.min(...times);
}

class EraWriter {
  readonly eras: {
    readonly era: Era;
    readonly before: Map<number, bigint>;
    readonly effects: Effect[];
  }[] = [];
  readonly #durable = new Pages();
  #values = new Map<number, bigint[]>();

  constructor(readonly host: string) {
    this.begin(0);
  }

  begin(at: Time): void {
    this.eras.push({ era: { from: at, words: new Map() }, before: new Map(), effects: [] });
    this.#values = new Map();
  }

  add(effect: Effect): void {
    const { offset, bytes, write, at } = effect;
    this.eras.at(-1)!.effects.push(effect);
    write.from = Math.min(write.from, offset);
    write.to = Math.max(write.to, offset + bytes.length);
    write.visibleAt = Math.max(write.visibleAt, at);
    for (const { word, value } of wordsOf(offset, bytes, (at) => this.#valuesOf(at).at(-1)!)) {
      this.#valuesOf(word).push(value);
    }
  }

  becomesDurable(offset: number, bytes: Uint8Array): { offset: number; bytes: Uint8Array }[] {
    const found: { offset: number; bytes: Uint8Array }[] = [];
    for (const { word, value } of wordsOf(offset, bytes, (at) => this.#durableAt(at))) {
      if (this.#isExplained(word, value)) continue;
      const from = Math.max(word, offset), to = Math.min(word + WORD_BYTES, offset + bytes.length);
      found.push({ offset: from, bytes: bytes.subarray(from - offset, to - offset) });
    }
    // Recorded before the caller adds them: see `#valuesOf`.
    for (const { offset: at } of found) this.#valuesOf(at - at % WORD_BYTES);
    this.#durable.write(offset, bytes);
    return found;
  }

  /** Effects before the durable one are over, and a value may recur. */
  #isExplained(word: number, value: bigint): boolean {
    const values = this.#valuesOf(word);
    values.splice(0, values.indexOf(this.#durableAt(word)));
    return values.includes(value);
  }

  #valuesOf(word: number): bigint[] {
    let values = this.#values.get(word);
    if (values === undefined) {
      const before = this.#durableAt(word);
      this.eras.at(-1)!.before.set(word, before);
      this.#values.set(word, values = [before]);
    }
    return values;
  }

  #durableAt(word: number): bigint {
    return valueOf(this.#durable.read(word, word + WORD_BYTES));
  }
}

function* wordsOf(
  offset: number,
  bytes: Uint8Array,
  at: (word: number) => bigint,
): Generator<{ readonly word: number; readonly value: bigint }> {
  const { from, to } = wordsAround({ from: offset, to: offset + bytes.length });
  for (let word = from; word < to; word += WORD_BYTES) {
    const begin = Math.max(word, offset), end = Math.min(word + WORD_BYTES, offset + bytes.length);
    const content = new Uint8Array(WORD_BYTES);
    if (end - begin < WORD_BYTES) new DataView(content.buffer).setBigUint64(0, at(word), true);
    content.set(bytes.subarray(begin - offset, end - offset), begin - word);
    yield { word, value: valueOf(content) };
  }
}

export function valueOf(word: Uint8Array): bigint {
  return new DataView(word.buffer, word.byteOffset, WORD_BYTES).getBigUint64(0, true);
}

function addVersions({ words }: Era, before: Before, effects: readonly Effect[]): void {
  const inTurn = [...effects].sort((x, y) =>
    x.write.beganAt - y.write.beganAt || x.write.order - y.write.order || x.at - y.at
  );
  for (const { leftFrom: at, write, offset, bytes } of inTurn) {
    const valueAt = (word: number) => words.get(word)?.at(-1)?.value ?? before.get(word) ?? 0n;
    for (const { word, value } of wordsOf(offset, bytes, valueAt)) {
      let versions = words.get(word);
      if (versions === undefined) {
        words.set(word, versions = [{ value: before.get(word) ?? 0n, write: undefined, at: 0 }]);
      }
      // Bytes that are equal to the old ones prove nothing.
      if (versions.at(-1)!.value !== value) versions.push({ value, write, at });
    }
  }
}

interface Post {
  readonly host: string;
  readonly at: Time;
  readonly order: number;
  readonly qpn: number;
  readonly wqe: number;
  span: { readonly psn: number; readonly last: number } | undefined;
  readonly writes: Map<string, StrictWrite>;
}

const PSN_MASK = 0xff_ffff;

/**
 * Finds the work request of a card's write by the message whose payload it is, and by its
 * requester's trace.
 */
class Posts {
  readonly #names: ReadonlyMap<string, string>;
  readonly #begun = new Map<string, Post[]>();
  /** By card and time; `left` counts bytes that are not yet matched to a write. */
  readonly #placed = new Map<string, { readonly payload: Placed; left: number }[]>();

  constructor({ plan, sendings }: RackRun, lines: readonly TraceLine[]) {
    this.#names = hostsByAddress(plan);
    for (const [rnic, { placed }] of sendings) {
      for (const payload of placed) {
        const left = payload.to - payload.from;
        pushAt(this.#placed, `${rnic} ${payload.at}`, { payload, left });
      }
    }
    const posted = new Map<string, Post>();
    for (const [order, line] of readTrace(lines, plan).lines.entries()) {
      const { node, host, card, time: at, qpn, wqe, psn, lastPsn, connection, inbound, step } =
        line;
      if (host === undefined) continue;
      if (node === host) {
        if (step !== "wqe" || qpn === undefined || wqe === undefined) continue;
        const post = { host, at, order, qpn, wqe, span: undefined, writes: new Map() };
        posted.set(`${card} ${qpn} ${wqe}`, post);
      } else if (psn !== undefined && connection !== undefined && !inbound) {
        const post = posted.get(`${card} ${qpn} ${wqe}`);
        if (post === undefined || post.span !== undefined) continue;
        post.span = { psn, last: lastPsn ?? psn };
        pushAt(this.#begun, `${connection} ${host}`, post);
      }
    }
  }

  writeOf(
    bus: BusWrite,
    { host, rnic }: { readonly host: string; readonly rnic: string },
  ): StrictWrite {
    const { at, offset, bytes } = bus;
    const post = this.#postOf(bus, { host, rnic });
    const range = { from: offset, to: offset + bytes.length, visibleAt: at };
    const known = post?.writes.get(host);
    if (known !== undefined) return known;
    const write: StrictWrite = {
      ...range,
      host,
      initiator: post?.host ?? rnic,
      beganAt: post?.at ?? at,
      order: post?.order ?? offset,
      request: post && { qpn: post.qpn, wqe: post.wqe },
      by: "card",
    };
    post?.writes.set(host, write);
    return write;
  }

  #postOf(
    { at, offset, bytes }: BusWrite,
    { host, rnic }: { readonly host: string; readonly rnic: string },
  ): Post | undefined {
    const address = SCM_BASE + offset;
    const found = this.#placed.get(`${rnic} ${at}`)?.find(({ payload: { from, to }, left }) =>
      left > 0 && from <= address && address < to
    );
    if (found === undefined) return undefined;
    found.left -= bytes.length;
    const { connection, psn, inbound } = found.payload;
    if (connection === undefined) return undefined;
    const ends = endsOf(connection, this.#names);
    // A card's messages to itself have one host at both ends.
    const peer = ends.map((end) => machineOf(end.host)).find((end) => end !== host) ?? host;
    const name = ends.map((end) => `${end.host}:${end.qpn}`).join("-");
    return this.#begun.get(`${name} ${inbound ? peer : host}`)?.findLast(({ span, at: begun }) =>
      begun <= at && ((psn - span!.psn) & PSN_MASK) <= ((span!.last - span!.psn) & PSN_MASK)
    );
  }
}

function pushAt<Item>(lists: Map<string, Item[]>, key: string, item: Item): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [item]);
  else list.push(item);
}
