/**
 * Native programs without processes, for tests: messages as the library makes and reads them, and a
 * process whose main thread is a script.
 */
import { assert } from "../../../fabric/base/assert.ts";
import type { NativePort, NativeProcess, NativeStart } from "../native/port.ts";
import {
  HEAD,
  REPLY,
  REQUEST_NAMES,
  type RequestName,
  type RequestRow,
  REQUESTS,
  SGE,
} from "../native/requests.ts";

const WORD_BYTES = 8;

/** Words by their names; those that are not named are 0. */
export type Named = Readonly<Record<string, number | bigint>>;

export interface RequestParts {
  readonly head?: Named;
  readonly args?: Named;
  /** With the elements that `sges` counts. */
  readonly rows?: readonly (Named | { readonly elements: readonly Named[] })[];
  /** Bytes by their offsets: of `scm_store`. */
  readonly spans?: readonly { readonly offset: number; readonly bytes: Uint8Array }[];
  readonly bytes?: Uint8Array;
}

/** A request as the library writes it. */
export function encodeRequest(
  name: RequestName,
  { head = {}, args = {}, rows = [], spans = [], bytes = NO_BYTES }: RequestParts = {},
): Uint8Array<ArrayBuffer> {
  const row: RequestRow = REQUESTS[name];
  const words: (number | bigint)[] = [];
  const put = (names: readonly string[], values: Named) => {
    for (const each of Object.keys(values)) assert(names.includes(each), `${name} has no ${each}`);
    for (const each of names) words.push(values[each] ?? 0);
  };
  put(HEAD, { request: REQUEST_NAMES.indexOf(name), ...head });
  put(row.args, spans.length > 0 ? { ...args, spans: spans.length } : args);
  for (const each of rows) {
    const { elements = [], ...own } = each as Named & { elements?: readonly Named[] };
    put(row.rows ?? [], row.rows?.includes("sges") ? { sges: elements.length, ...own } : own);
    for (const element of elements) put(SGE, element);
  }
  for (const { offset, bytes: { length } } of spans) words.push(offset, length);
  const tail = [...spans.map((each) => each.bytes), bytes];
  const message = new Uint8Array(
    words.length * WORD_BYTES + tail.reduce((sum, { length }) => sum + length, 0),
  );
  words[0] = message.length;
  const view = new DataView(message.buffer);
  let at = 0;
  for (const word of words) {
    view.setBigUint64(at, BigInt.asUintN(64, BigInt(word)), true);
    at += WORD_BYTES;
  }
  for (const each of tail) {
    message.set(each, at);
    at += each.length;
  }
  return message;
}

/** A reply as the library reads it: all words as they are. */
export interface Answer {
  readonly error: number;
  readonly nowPs: number;
  readonly leasePs: bigint;
  readonly unwrittenPs: number;
  readonly alone: number;
  readonly ask: number;
  readonly words: Readonly<Record<string, bigint>>;
  readonly rows: readonly Readonly<Record<string, bigint>>[];
  readonly bytes: Uint8Array;
}

/** @param rows how many there are; else as many as there is room for, and no bytes where the request has rows. */
export function decodeReply(name: RequestName, reply: Uint8Array, rows?: number): Answer {
  const { answer = [], answerRows = [] }: RequestRow = REQUESTS[name];
  const view = new DataView(reply.buffer, reply.byteOffset, reply.byteLength);
  let at = 0;
  const take = (names: readonly string[]) => {
    const words: Record<string, bigint> = {};
    for (const each of names) {
      words[each] = view.getBigUint64(at, true);
      at += WORD_BYTES;
    }
    return words;
  };
  const head = take(REPLY), words = take(answer);
  const room = answerRows.length === 0
    ? 0
    : Math.floor((reply.length - at) / (answerRows.length * WORD_BYTES));
  const found = Array.from({ length: rows ?? room }, () => take(answerRows));
  return {
    error: Number(head["error"]),
    nowPs: Number(head["nowPs"]),
    leasePs: head["leasePs"]!,
    unwrittenPs: Number(head["unwrittenPs"]),
    alone: Number(head["alone"]),
    ask: Number(head["ask"]),
    words,
    rows: found,
    bytes: reply.slice(at),
  };
}

/** Where the memory of a scripted process begins; its first page, and what is behind it, is not there. */
export const MEMORY_BASE = 0x10_0000;
const MEMORY_BYTES = 1 << 18;

/** What a script is given: it asks as a program's thread does, and has the memory of its process. */
export class ScriptedProcess {
  readonly memory = new Uint8Array(MEMORY_BYTES);
  /** What it has printed to its standard output. */
  printed = "";
  readonly #kept: Uint8Array[] = [];

  /** @throws where the host refuses it, unless the test asks for the errno by `refused`. */
  *ask(name: RequestName, parts: RequestParts = {}): Asking {
    const stdout = new TextEncoder().encode(this.printed).length;
    const answer = decodeReply(
      name,
      yield encodeRequest(name, { ...parts, head: { stdout, ...parts.head } }),
    );
    return answer;
  }

  /** Asks, and demands that it is done. @returns the words of the answer, as numbers. */
  *must(name: RequestName, parts: RequestParts = {}): Script<Record<string, number>> {
    const { error, words } = yield* this.ask(name, parts);
    assert(error === 0, `${name}: errno ${error}`);
    return Object.fromEntries(Object.entries(words).map(([key, word]) => [key, Number(word)]));
  }

  /** A part of its memory. */
  at(address: number, length: number): Uint8Array {
    const from = address - MEMORY_BASE;
    return this.memory.subarray(from, from + length);
  }

  /** Bytes that nothing else has been given. @returns their address. */
  put(bytes: Uint8Array): number {
    const from = this.#kept.reduce((sum, { length }) => sum + length + 64, 0);
    this.#kept.push(bytes);
    this.memory.set(bytes, from);
    return MEMORY_BASE + from;
  }
}

export type Script<T> = Generator<Uint8Array<ArrayBuffer>, T, Uint8Array>;
type Asking = Script<Answer>;

/** Runs in the place of a program's main thread. @returns its exit code; 0 where it returns nothing. */
export type ScriptedMain = (process: ScriptedProcess) => Script<number | void>;

/**
 * A port whose programs are scripts.
 * @param scripts by the first word of the program's command line.
 */
export function scriptedPort(scripts: Readonly<Record<string, ScriptedMain>>): NativePort {
  return { start: ({ argv }: NativeStart) => started(scripts[argv[0]!]!) };
}

function started(main: ScriptedMain): NativeProcess {
  const process = new ScriptedProcess();
  const script = main(process);
  const { memory } = process;
  let code = 0, shown = 0, isEnded = false;
  const next = (reply?: Uint8Array) => {
    if (isEnded) return undefined;
    const step = reply === undefined ? script.next(NO_BYTES) : script.next(reply);
    if (!step.done) return step.value;
    isEnded = true;
    code = step.value ?? 0;
    return undefined;
  };
  const isThere = (at: number, length: number) => at >= 0 && at + length <= memory.length;
  return {
    first: next(),
    main: {
      resume: (reply) => next(reply),
      read(address, length) {
        const at = address - MEMORY_BASE;
        return isThere(at, length) ? memory.slice(at, at + length) : undefined;
      },
      write(address, bytes) {
        const at = address - MEMORY_BASE;
        if (isThere(at, bytes.length)) memory.set(bytes, at);
      },
      awaitEnd() {},
    },
    output(stream, bytes) {
      if (stream === "stderr") return NO_BYTES;
      const all = new TextEncoder().encode(process.printed);
      const from = shown;
      shown = Math.max(shown, Math.min(bytes ?? all.length, all.length));
      return all.slice(from, shown);
    },
    end: () => code,
    kill() {
      isEnded = true;
    },
  };
}

const NO_BYTES = new Uint8Array(0);
