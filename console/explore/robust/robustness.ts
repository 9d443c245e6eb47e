/**
 * Robustness, the oracle that needs no check (as in PSan, PLDI'22): the content that recovery reads
 * after a power failure must also be readable after one of a rack with strict persistency
 * (`strict_history.ts`).
 *
 * Each word that recovery reads says that a write has happened, with all that come before it, and
 * that the word's next one has not. Where no set of writes fits all words, two of them tell why:
 * one is found, and one that comes before it is not.
 *
 * So a recovery that reads a tail or a flag before the data it governs is robust where the two are
 * ordered, and one that reads all bytes finds any two unordered writes. Not judged: words that
 * recovery has written before it reads them, reads of a second recovery, and bytes that an earlier
 * power failure of the scenario has lost.
 */
import { assert } from "../../../fabric/base/assert.ts";
import { formatTime, type Time } from "../../../fabric/base/time.ts";
import { VIRTUAL_SCM_BASE } from "../../../nodes/host/memory/address_map.ts";
import type { MakeProgram } from "../../../nodes/host/own_programs.ts";
import type { Recover, RecoveryCpu } from "../../../nodes/host/recovery/protocol.ts";
import { WORD_BYTES, wordsAround } from "../choices.ts";
import { type StrictHistory, type StrictWrite, valueOf, type Version } from "./strict_history.ts";

export const ROBUSTNESS = "robustness";

export interface UnorderedPair {
  readonly missing: StrictWrite;
  /** Equal to `missing` where a write is torn. */
  readonly found: StrictWrite;
  /** Offset of a word that lacks the content of `missing`. */
  readonly word: number;
}

export interface NotRobust {
  readonly found: string;
  readonly pair: UnorderedPair;
}

/** Programs that it judges: those that recover, and have no check of their own, or all with `--robust`. */
export function judgedByRobustness(
  own: Readonly<Record<string, MakeProgram>>,
  { robust = false }: { readonly robust?: boolean },
): ReadonlySet<string> {
  return new Set(
    Object.entries(own).flatMap(([name, make]) => {
      const { recover, check } = make();
      return recover !== undefined && (robust || check === undefined) ? [name] : [];
    }),
  );
}

export class Robustness {
  readonly #history: StrictHistory;
  readonly #judged: ReadonlySet<string>;
  readonly #reads = new Map<string, Map<number, bigint>>();
  readonly #written = new Map<string, Set<number>>();
  words = 0;
  unexplained = 0;

  constructor(history: StrictHistory, judged: ReadonlySet<string>) {
    this.#history = history;
    this.#judged = judged;
  }

  watch(own: Readonly<Record<string, MakeProgram>>): Record<string, MakeProgram> {
    return Object.fromEntries(
      Object.entries(own).map(([name, make]): [string, MakeProgram] => {
        if (!this.#judged.has(name)) return [name, make];
        return [name, () => {
          const made = make();
          return made.recover ? { ...made, recover: this.#watched(made.recover) } : made;
        }];
      }),
    );
  }

  begin(): void {
    this.#reads.clear();
    this.#written.clear();
  }

  finding(at: Time): NotRobust | undefined {
    const words = this.#found(at);
    const happened = new Happened(this.#history);
    for (let isStable = false; !isStable;) {
      isStable = true;
      for (const word of words) {
        const conflict = settle(word, happened);
        if (conflict !== undefined) return this.#notRobust(word, conflict, { words, at });
        const { write } = word.versions[word.fits[word.fit]!]!;
        if (write !== undefined && happened.add(write)) isStable = false;
      }
    }
    return undefined;
  }

  #found(at: Time): FoundWord[] {
    const found: FoundWord[] = [];
    for (const [host, reads] of this.#reads) {
      for (const [word, value] of reads) {
        const versions = this.#history.versions(host, word, at);
        if (versions === undefined) continue;
        this.words++;
        const fits = [...versions.keys()].filter((i) =>
          versions[i]!.value === value && versions[i]!.at <= at
        );
        if (fits.length === 0) this.unexplained++;
        else found.push({ word, versions, fits, fit: 0 });
      }
    }
    return found;
  }

  #notRobust(
    { word }: FoundWord,
    missing: StrictWrite,
    { words, at }: { readonly words: readonly FoundWord[]; readonly at: Time },
  ): NotRobust {
    const seen = words.flatMap(({ versions, fits, fit }) => versions[fits[fit]!]?.write ?? [])
      .filter((write) => {
        const happened = new Happened(this.#history);
        happened.add(write);
        return happened.has(missing);
      });
    // The nearest later one, a part of itself first.
    const [found] = seen.sort((x, y) =>
      Number(y === missing) - Number(x === missing) || x.beganAt - y.beganAt || x.order - y.order
    );
    assert(found !== undefined, "No write that recovery found demands the missing one");
    const pair = { missing, found, word };
    return { found: textOf(pair, at), pair };
  }

  #watched(recover: Recover): Recover {
    return (context) => {
      const { cpu, host } = context;
      const reads = mapAt(this.#reads, host, () => new Map<number, bigint>());
      const written = mapAt(this.#written, host, () => new Set<number>());
      const write = (address: number, length: number) => {
        for (const word of wordsIn(address, length)) written.add(word);
      };
      const watched: RecoveryCpu = {
        host: cpu.host,
        scm: cpu.scm,
        get now() {
          return cpu.now;
        },
        load(address, length) {
          const bytes = cpu.load(address, length);
          for (const word of wordsIn(address, length)) {
            if (reads.has(word) || written.has(word)) continue;
            const whole = Math.min(WORD_BYTES, cpu.scm.length - word);
            if (whole < WORD_BYTES) continue;
            reads.set(word, valueOf(cpu.load(VIRTUAL_SCM_BASE + word, WORD_BYTES)));
          }
          return bytes;
        },
        store(address, bytes) {
          cpu.store(address, bytes);
          write(address, bytes.length);
        },
        flush: (address, length) => cpu.flush(address, length),
        ntStore(address, bytes) {
          write(address, bytes.length);
          return cpu.ntStore(address, bytes);
        },
        charge: (ps) => cpu.charge(ps),
        settle: () => cpu.settle(),
        sleep: (ps) => cpu.sleep(ps),
      };
      return recover({ ...context, cpu: watched });
    };
  }
}

interface FoundWord {
  readonly word: number;
  readonly versions: readonly Version[];
  readonly fits: readonly number[];
  fit: number;
}

function settle(word: FoundWord, happened: Happened): StrictWrite | undefined {
  const { versions, fits } = word;
  const hasHappened = ({ write }: Version) => write !== undefined && happened.has(write);
  const last = versions.findLastIndex(hasHappened);
  if (last <= fits[word.fit]!) return undefined;
  const next = fits.findIndex((fit) => fit >= last);
  // The first missing one is the one that helps a reader.
  if (next < 0) {
    return versions.find((version, i) => i > fits.at(-1)! && hasHappened(version))!.write;
  }
  word.fit = next;
  return undefined;
}

class Happened {
  readonly #history: StrictHistory;
  readonly #until = new Map<string, number>();

  constructor(history: StrictHistory) {
    this.#history = history;
  }

  has({ initiator, order }: StrictWrite): boolean {
    return order <= (this.#until.get(initiator) ?? 0);
  }

  add(write: StrictWrite): boolean {
    if (this.has(write)) return false;
    const { initiator, order, beganAt } = write;
    this.#until.set(initiator, order);
    // All that its initiator began before was begun earlier, so nothing more comes before these.
    for (const [other, before] of this.#history.visibleBefore(beganAt, initiator)) {
      this.#until.set(other, Math.max(before, this.#until.get(other) ?? 0));
    }
    return true;
  }
}

function textOf({ missing, found, word }: UnorderedPair, at: Time): string {
  const where = `the word at 0x${word.toString(16)} of ${missing.host}`;
  if (missing === found) {
    return `recovery reads a part of ${written(found)}, and ${where} as it was before: the power ` +
      "failure has torn it, and nothing that was read before says whether it is whole";
  }
  return `recovery finds B, ${written(found)}, and not A, ${
    written(missing)
  }, which comes before it ` +
    `(${where} is as it was before A): ${missingStep({ missing, found }, at)}`;
}

function written({ initiator, beganAt, host, from, to, request, by }: StrictWrite): string {
  const bytes = `${to - from} B at 0x${from.toString(16)} of ${host}`;
  if (by === "core") return `${bytes}, which a core stored at ${formatTime(beganAt)}`;
  if (request === undefined) return `${bytes}, which ${initiator} wrote at ${formatTime(beganAt)}`;
  return `${bytes}, which ${initiator} posted at ${
    formatTime(beganAt)
  } on queue pair ${request.qpn}`;
}

function missingStep(
  { missing, found }: Pick<UnorderedPair, "missing" | "found">,
  at: Time,
): string {
  const { host, visibleAt, by } = missing;
  if (visibleAt >= at) {
    if (by === "core") {
      return `${host} stores A and B around the cache at one time, with no sfence between them (one ` +
        "cpu.ntStore has one behind all of its bytes)";
    }
    return `A is not yet at ${host}, as no completion of A was awaited before B`;
  }
  const step = by === "core" ? "no clwb (cpu.flush)" : "no FLUSH, READ or clwb";
  const between = found.beganAt <= visibleAt ? "before B" : "between them";
  return `${host} has A since ${
    formatTime(visibleAt)
  }, and ${step} of ${host} ${between} covers it`;
}

function* wordsIn(address: number, length: number): Generator<number> {
  const offset = address - VIRTUAL_SCM_BASE;
  const { from, to } = wordsAround({ from: offset, to: offset + length });
  for (let word = from; word < to; word += WORD_BYTES) yield word;
}

function mapAt<Value>(map: Map<string, Value>, key: string, make: () => Value): Value {
  let value = map.get(key);
  if (value === undefined) map.set(key, value = make());
  return value;
}
