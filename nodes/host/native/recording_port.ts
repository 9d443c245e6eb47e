/** A port that puts on record what passes through another one: see `record_format.ts`. */
import { formatSize } from "../../../fabric/rack/plan/units.ts";
import { KnownMemory } from "./known_memory.ts";
import { tableVersion } from "./header.ts";
import type { NativePort, NativeProcess, NativeStart, NativeThread } from "./port.ts";
import {
  childOf,
  OPERATIONS,
  RECORD_VERSION,
  RecordWriter,
  RequestCodec,
  toldOf,
  Written,
} from "./record_format.ts";

/** Where the record of a program in one life goes. */
export interface RecordSink {
  /** Whole operations. */
  append(operations: Uint8Array<ArrayBuffer>): void;
  /** What has been appended outlives this process from now on. */
  flush(): void;
  /** The record ends before the program does, so no replay is possible. */
  cut(why: string): void;
  /** Nothing follows. */
  close(): void;
}

export interface RecordingPort extends NativePort {
  /** What has passed so far outlives this process from now on. */
  flush(): void;
}

/** Bytes of a record's operations, beyond which it is cut. [choice] A replay holds them. */
const RECORD_BYTES_MOST = 1 << 28;
/** Of operations that are kept back, so that each is no call of the sink. */
const HELD_BYTES = 1 << 14;

/**
 * @param options.open called once for each program, before it starts.
 * @param options.most instead of {@link RECORD_BYTES_MOST}.
 */
export function recordingPort(
  port: NativePort,
  { open, most = RECORD_BYTES_MOST }: {
    readonly open: (start: NativeStart) => RecordSink;
    readonly most?: number;
  },
): RecordingPort {
  const records: Recorder[] = [];
  const recorderOf = (start: NativeStart) => {
    const recorder = new Recorder(open(start), most);
    records.push(recorder);
    return recorder;
  };
  return {
    start: (start) => new RecordedProcess(start, { begin: () => port.start(start), recorderOf }),
    flush() {
      for (const recorder of records) recorder.flush();
    },
  };
}

/** Operations on their way to a sink, until the record is cut or closed. */
class Recorder {
  readonly #sink: RecordSink;
  readonly #writer = new RecordWriter();
  readonly #most: number;
  #bytes = 0;
  #isOpen = true;

  constructor(sink: RecordSink, most: number) {
    this.#sink = sink;
    this.#most = most;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Appends an operation, with what `write` puts behind it. */
  put(operation: number, write?: (writer: RecordWriter) => void): void {
    if (!this.#isOpen) return;
    this.#writer.byte(operation);
    write?.(this.#writer);
    if (this.#writer.length >= HELD_BYTES) this.#append();
  }

  flush(): void {
    if (!this.#isOpen) return;
    this.#append();
    if (this.#isOpen) this.#sink.flush();
  }

  cut(why: string): void {
    if (!this.#isOpen) return;
    this.#sink.cut(why);
    this.close();
  }

  close(): void {
    if (!this.#isOpen) return;
    this.#append();
    // Its last bytes may have been too many.
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#sink.close();
  }

  #append(): void {
    const { length } = this.#writer;
    if (length === 0) return;
    const bytes = this.#writer.take();
    this.#bytes += length;
    if (this.#bytes > this.#most) {
      this.#isOpen = false;
      this.#sink.cut(`it was longer than ${formatSize(this.#most)}`);
      return this.#sink.close();
    }
    this.#sink.append(bytes);
  }
}

class RecordedProcess implements NativeProcess, NativeThread {
  readonly fork?: (pid: number) => NativeProcess;
  readonly first: Uint8Array<ArrayBuffer> | undefined;
  readonly #process: NativeProcess;
  readonly #recorder: Recorder;
  readonly #codec = new RequestCodec();
  readonly #known = new KnownMemory();
  readonly #written = new Written();
  readonly #children: NativeProcess[] = [];
  /** The last reply's time, and where the last read ended. */
  #nowPs = 0;
  #readEnd = 0;
  #isEnded = false;

  constructor(
    start: NativeStart,
    { begin, recorderOf }: {
      readonly begin: () => NativeProcess;
      readonly recorderOf: (start: NativeStart) => Recorder;
    },
  ) {
    const recorder = this.#recorder = recorderOf(start);
    recorder.put(OPERATIONS.started, (writer) => {
      writer.number(RECORD_VERSION);
      writer.number(tableVersion());
      writer.number(start.argv.length);
      for (const word of start.argv) writer.text(word);
    });
    try {
      this.#process = begin();
    } catch (error) {
      recorder.cut(`its process could not be started: ${(error as Error).message}`);
      throw error;
    }
    const process = this.#process, { first } = process;
    this.first = first;
    if (process.fork !== undefined) {
      this.fork = (pid) => {
        const begin = () => process.fork!(pid);
        const child = new RecordedProcess(childOf(start, pid), { begin, recorderOf });
        this.#children.push(child);
        return child;
      };
    }
    if (first === undefined) recorder.put(OPERATIONS.none);
    else recorder.put(OPERATIONS.first, (writer) => this.#codec.encode(writer, first));
  }

  get main(): NativeThread {
    return this;
  }

  resume(reply: Uint8Array, thread = 0): Uint8Array<ArrayBuffer> | undefined {
    const request = this.#process.main.resume(reply, thread);
    if (!this.#recorder.isOpen) return request;
    this.#putWritten();
    const { error, nowPs, hash } = toldOf(reply, thread);
    const operation = request === undefined ? OPERATIONS.gone : OPERATIONS.replied;
    this.#recorder.put(operation, (writer) => {
      writer.number(thread);
      writer.number(error);
      writer.difference(nowPs - this.#nowPs);
      writer.hash(hash);
      if (request !== undefined) this.#codec.encode(writer, request);
    });
    this.#nowPs = nowPs;
    return request;
  }

  read(address: number, length: number): Uint8Array<ArrayBuffer> | undefined {
    const bytes = this.#process.main.read(address, length);
    if (!this.#recorder.isOpen) return bytes;
    const isKnown = bytes !== undefined && this.#known.has(address, bytes);
    const operation = bytes === undefined
      ? OPERATIONS.readNone
      : isKnown
      ? OPERATIONS.readKnown
      : OPERATIONS.read;
    this.#recorder.put(operation, (writer) => {
      writer.difference(address - this.#readEnd);
      writer.number(length);
      if (bytes !== undefined && !isKnown) writer.bytes(bytes);
    });
    if (bytes !== undefined && !isKnown) this.#known.set(address, bytes);
    this.#readEnd = address + length;
    return bytes;
  }

  write(address: number, bytes: Uint8Array): void {
    this.#process.main.write(address, bytes);
    if (!this.#recorder.isOpen) return;
    this.#written.add(address, bytes);
    this.#known.set(address, bytes);
  }

  /** Of the machine alone. */
  awaitEnd(real: number): void {
    this.#process.main.awaitEnd(real);
  }

  output(stream: "stdout" | "stderr", upTo?: number): Uint8Array<ArrayBuffer> {
    const bytes = this.#process.output(stream, upTo);
    if (bytes.length > 0) {
      this.#recorder.put(OPERATIONS[stream], (writer) => writer.bytes(bytes));
    }
    return bytes;
  }

  end(): number {
    const code = this.#process.end();
    if (!this.#isEnded) {
      this.#isEnded = true;
      this.#recorder.put(OPERATIONS.ended, (writer) => writer.number(code));
      this.#recorder.close();
    }
    return code;
  }

  /** A program whose host has lost its power has no end. */
  kill(): void {
    this.#process.kill();
    this.#recorder.close();
    for (const child of this.#children) child.kill();
  }

  #putWritten(): void {
    if (this.#written.isEmpty) return;
    const { bytes, hash } = this.#written.take();
    this.#recorder.put(OPERATIONS.written, (writer) => {
      writer.number(bytes);
      writer.hash(hash);
    });
  }
}
