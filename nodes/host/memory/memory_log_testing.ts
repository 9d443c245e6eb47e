/** A {@link MemoryLog} that keeps everything, and what follows from it, for tests. */
import { assert } from "../../../fabric/base/assert.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { MemoryLog } from "./memory_log.ts";

export interface Version {
  readonly at: Time;
  readonly bytes: Uint8Array;
  readonly words: number;
}

export class LogBook implements MemoryLog {
  readonly calls: (readonly [at: Time, kind: string, ...rest: number[]])[] = [];
  readonly durables: { at: Time; offset: number; bytes: Uint8Array }[] = [];
  /** What a power failure now would leave if no line had been written back. */
  readonly image: Uint8Array<ArrayBuffer>;
  /** Contents of each dirty line since it was clean, oldest first. */
  readonly dirtyLines = new Map<number, Version[]>();
  #last: Time = 0;

  constructor(scmBytes: number) {
    this.image = new Uint8Array(scmBytes);
  }

  durable(at: Time, offset: number, bytes: Uint8Array, unit: number): void {
    this.#follow(at);
    this.calls.push([at, "durable", offset, bytes.length, unit]);
    this.durables.push({ at, offset, bytes });
    this.image.set(bytes, offset);
  }

  dirty(at: Time, line: number, bytes: Uint8Array, words: number): void {
    this.#follow(at);
    assert(line % 64 === 0 && bytes.length === 64, `${bytes.length} B at ${line} are no line`);
    this.calls.push([at, "dirty", line, words]);
    const versions = this.dirtyLines.get(line) ?? [];
    versions.push({ at, bytes: bytes.slice(), words });
    this.dirtyLines.set(line, versions);
  }

  clean(at: Time, line: number): void {
    this.#follow(at);
    this.calls.push([at, "clean", line]);
    this.dirtyLines.delete(line);
  }

  /** All of SCM with every line's newest content. */
  newest(): Uint8Array<ArrayBuffer> {
    const bytes = this.image.slice();
    for (const [line, versions] of this.dirtyLines) bytes.set(versions.at(-1)!.bytes, line);
    return bytes;
  }

  #follow(at: Time): void {
    assert(at >= this.#last, `Told of ${at} ps after ${this.#last} ps`);
    this.#last = at;
  }
}
