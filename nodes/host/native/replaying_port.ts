/** A port that serves native programs from their records, without a process: see `record_format.ts`. */
import { ReplayError } from "../../../fabric/base/run_ending_error.ts";
import { formatTime } from "../../../fabric/base/time.ts";
import { KnownMemory } from "./known_memory.ts";
import { tableVersion } from "./header.ts";
import type { NativePort, NativeProcess, NativeStart, NativeThread } from "./port.ts";
import {
  childOf,
  OPERATIONS,
  RECORD_VERSION,
  RecordReader,
  RequestCodec,
  type Told,
  toldOf,
  Written,
  type WrittenBytes,
} from "./record_format.ts";
import { Request } from "./words.ts";

/** A record on its way from its first operation to its last. */
export interface RecordSource {
  /** The next whole operations; undefined where there are none yet. */
  readonly next: () => Uint8Array | undefined;
  /** What its end lacks, for people; "" where it is whole. */
  readonly lacks: () => string;
}

/** @param open of the program that starts. @throws ReplayError where there is no record that can be used. */
export function replayingPort(
  host: string,
  open: (start: NativeStart) => RecordSource,
): NativePort {
  return {
    start: (start) => new ReplayedProcess(start, { host, open }),
  };
}

/** For people: the program as the scenario has it, its number on its host, and the host. */
export function nativeNamed({ name, argv }: NativeStart, host: string): string {
  const [, number = "", child] = /(#\d+)?(?:~(\d+))?$/.exec(name)!;
  return `${argv[0]}${number}${child === undefined ? "" : `'s child ${child}`} on ${host}`;
}

class ReplayedProcess implements NativeProcess, NativeThread {
  readonly first: Uint8Array<ArrayBuffer> | undefined;
  readonly #who: string;
  readonly #lacks: () => string;
  readonly #reader: RecordReader;
  readonly #codec = new RequestCodec();
  readonly #known = new KnownMemory();
  readonly #written = new Written();
  readonly #asked = new Map<number, Asked>();
  readonly #shown = { stdout: 0, stderr: 0 };
  #nowPs = 0;
  #readEnd = 0;
  #isKilled = false;
  #code: number | undefined;

  readonly fork: (pid: number) => NativeProcess;

  constructor(
    start: NativeStart,
    { host, open }: {
      readonly host: string;
      readonly open: (start: NativeStart) => RecordSource;
    },
  ) {
    const { argv } = start, { next, lacks } = open(start);
    this.#who = nativeNamed(start, host);
    this.fork = (pid) => new ReplayedProcess(childOf(start, pid), { host, open });
    this.#lacks = lacks;
    const reader = this.#reader = new RecordReader(next);
    this.#checkStart(argv);
    const operation = this.#take("its start");
    if (operation === OPERATIONS.none) return;
    if (operation !== OPERATIONS.first) throw this.#otherwise("its start", "no first request");
    const request = this.#codec.decode(reader);
    this.first = request;
    this.#note(0, request);
  }

  get main(): NativeThread {
    return this;
  }

  resume(reply: Uint8Array, thread = 0): Uint8Array<ArrayBuffer> | undefined {
    if (this.#isKilled) return undefined;
    const told: Passed = { ...toldOf(reply, thread), written: this.#written.take() };
    const where = () => this.#where(told);
    const written = this.#reader.operation === OPERATIONS.written
      ? this.#takeWritten()
      : { bytes: 0, hash: 0 };
    const operation = this.#take(where);
    if (operation !== OPERATIONS.replied && operation !== OPERATIONS.gone) {
      throw this.#otherwise(where(), `recorded is ${nameOf(operation)}, found a reply`);
    }
    const reader = this.#reader;
    const recorded: Passed = {
      thread: reader.number(),
      error: reader.number(),
      nowPs: this.#nowPs + reader.difference(),
      hash: reader.hash(),
      written,
    };
    const [expected, found] = [textOf(recorded, told), textOf(told, recorded)];
    if (expected !== found) {
      throw this.#otherwise(where(), `recorded is ${expected}, found ${found}`);
    }
    this.#nowPs = recorded.nowPs;
    if (operation === OPERATIONS.gone) return undefined;
    const request = this.#codec.decode(reader);
    this.#note(thread, request);
    return request;
  }

  read(address: number, length: number): Uint8Array<ArrayBuffer> | undefined {
    if (this.#isKilled) return undefined;
    const what = `a read of ${length} B at 0x${address.toString(16)}`;
    const operation = this.#take(what);
    if (!READS.has(operation)) {
      throw this.#otherwise(this.#since(), `recorded is ${nameOf(operation)}, found ${what}`);
    }
    const recorded = this.#readEnd + this.#reader.difference();
    const recordedLength = this.#reader.number();
    if (recorded !== address || recordedLength !== length) {
      const expected = `a read of ${recordedLength} B at 0x${recorded.toString(16)}`;
      throw this.#otherwise(this.#since(), `recorded is ${expected}, found ${what}`);
    }
    this.#readEnd = address + length;
    if (operation === OPERATIONS.readNone) return undefined;
    if (operation === OPERATIONS.readKnown) return this.#known.get(address, length);
    const bytes = this.#reader.bytes();
    this.#known.set(address, bytes);
    return bytes;
  }

  write(address: number, bytes: Uint8Array): void {
    if (this.#isKilled) return;
    this.#written.add(address, bytes);
    this.#known.set(address, bytes);
  }

  awaitEnd(): void {}

  /**
   * As much as was shown there; a stream that had nothing new is on no record, and what comes next there may
   * be of a child, which has printed more.
   */
  output(stream: "stdout" | "stderr", upTo = Infinity): Uint8Array<ArrayBuffer> {
    if (this.#isKilled || this.#shown[stream] >= upTo) return NO_BYTES;
    if (this.#reader.operation !== OPERATIONS[stream]) return NO_BYTES;
    this.#reader.byte();
    const bytes = this.#reader.bytes();
    this.#shown[stream] += bytes.length;
    return bytes;
  }

  end(): number {
    if (this.#code !== undefined) return this.#code;
    const operation = this.#take("its end");
    if (operation !== OPERATIONS.ended) {
      throw this.#otherwise(this.#since(), `recorded is ${nameOf(operation)}, found its end`);
    }
    return this.#code = this.#reader.number();
  }

  /** Of a killed host's program the record may go on: its process was a step ahead. */
  kill(): void {
    this.#isKilled = true;
  }

  #checkStart(argv: readonly string[]): void {
    const reader = this.#reader;
    if (this.#take("its start") !== OPERATIONS.started) {
      throw new ReplayError(`The record of native program ${this.#who} has no begin`);
    }
    const version = reader.number(), table = reader.number();
    if (version !== RECORD_VERSION || table !== tableVersion()) {
      throw new ReplayError(
        `The record of native program ${this.#who} is of another version of Rackmesh ` +
          `(format ${version}, requests ${table}): expected ${RECORD_VERSION}, ${tableVersion()}. ` +
          AGAIN,
      );
    }
    const words = Array.from({ length: reader.number() }, () => reader.text());
    if (words.length === argv.length && words.every((word, i) => word === argv[i])) return;
    const recorded = `recorded is "${words.join(" ")}", found "${argv.join(" ")}"`;
    throw this.#otherwise("its start", recorded);
  }

  #takeWritten(): WrittenBytes {
    this.#reader.byte();
    return { bytes: this.#reader.number(), hash: this.#reader.hash() };
  }

  #take(where: string | (() => string)): number {
    const { operation } = this.#reader;
    if (operation !== undefined) return this.#reader.byte();
    const text = typeof where === "string" ? where : where();
    const found = this.#lacks(), lacks = found === "" ? "" : ` (${found})`;
    throw new ReplayError(
      `The record of native program ${this.#who} ends before ${text}${lacks}: how the program ` +
        `went on is not known. ${AGAIN}`,
    );
  }

  #note(thread: number, request: Uint8Array<ArrayBuffer>): void {
    const number = (this.#asked.get(thread)?.number ?? 0) + 1;
    this.#asked.set(thread, { number, name: new Request(request).name ?? "unknown" });
  }

  #where({ thread, nowPs }: Told): string {
    const { number, name } = this.#asked.get(thread) ?? { number: 0, name: "its begin" };
    return `the reply at ${formatTime(nowPs)} to request ${number} of thread ${thread} (${name})`;
  }

  #since(): string {
    return `what follows the reply of ${formatTime(this.#nowPs)}`;
  }

  #otherwise(where: string, difference: string): ReplayError {
    return new ReplayError(
      `Native program ${this.#who} would have gone another way at ${where}: ${difference}. ${AGAIN}`,
    );
  }
}

export const AGAIN = "It needs to be run again.";

interface Asked {
  /** From 1 on, in its thread. */
  readonly number: number;
  readonly name: string;
}

const READS: ReadonlySet<number> = new Set([
  OPERATIONS.readKnown,
  OPERATIONS.read,
  OPERATIONS.readNone,
]);
const NO_BYTES = new Uint8Array(0);
const NAMES: Readonly<Record<number, string>> = {
  [OPERATIONS.written]: "a write of the card into its memory",
  [OPERATIONS.replied]: "a reply",
  [OPERATIONS.gone]: "a reply and the program's end",
  [OPERATIONS.readKnown]: "a read of its memory",
  [OPERATIONS.read]: "a read of its memory",
  [OPERATIONS.readNone]: "a read of its memory",
  [OPERATIONS.stdout]: "output",
  [OPERATIONS.stderr]: "output",
  [OPERATIONS.ended]: "its end",
};

function nameOf(operation: number): string {
  return NAMES[operation] ?? `operation ${operation}`;
}

/** A reply, and what was in the process's memory by then. */
interface Passed extends Told {
  readonly written: WrittenBytes;
}

/** As far as the two differ; of equal ones, the same. */
function textOf(told: Passed, other: Passed): string {
  const { thread, nowPs, error, hash, written } = told;
  const isWritten = written.bytes === other.written.bytes && written.hash === other.written.hash;
  return [
    ...(thread === other.thread ? [] : [`one to thread ${thread}`]),
    ...(nowPs === other.nowPs ? [] : [formatTime(nowPs)]),
    ...(error === other.error ? [] : [`errno ${error}`]),
    ...(hash === other.hash ? [] : [`an answer with hash ${hexOf(hash)}`]),
    ...(isWritten ? [] : [
      `${written.bytes} B that the card has written to its memory, with hash ${
        hexOf(written.hash)
      }`,
    ]),
  ].join(", ");
}

function hexOf(hash: number): string {
  return hash.toString(16).padStart(8, "0");
}
