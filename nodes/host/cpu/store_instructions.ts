/**
 * How a core makes its stores persistent (P-04): `clwb`, non-temporal stores, `sfence`, and two
 * combinations of them. Only an `sfence` that has returned gives a guarantee; before, a power
 * failure may find any part of the stores in memory.
 */
import { type Time, transferTime } from "../../../fabric/base/time.ts";
import { copyOf } from "../../../fabric/base/slab.ts";
import type { HostTiming } from "../../../fabric/rack/plan/plan.ts";
import type { AddressMap } from "../memory/address_map.ts";
import type { MemorySystem } from "../memory/memory_system.ts";
import { LINE_BYTES } from "../memory/llc.ts";
import type { Account } from "./processor.ts";
import type { Steps, Wait } from "./program.ts";
import { storedBytes } from "../memory/write_combining.ts";

/** Lets the owed time pass, and no more. */
export const PAY: Wait = { kind: "time", at: 0 };

/** The part of a host that these instructions use. */
export interface StoreTarget {
  readonly now: Time;
  readonly memory: MemorySystem;
  readonly map: AddressMap;
  readonly timing: HostTiming;
}

/** A range of virtual memory. */
interface Range {
  readonly address: number;
  readonly length: number;
}

export class CoreWrites {
  readonly #machine: StoreTarget;
  readonly #account: Account;
  /**
   * Bytes after which a flush or stream lets time pass, so that a power failure can fall in
   * between.
   */
  readonly #chunkBytes: number;
  /** Lines with a pending `clwb` since the last fence. */
  #pending: Range[] = [];

  constructor(machine: StoreTarget, account: Account) {
    this.#machine = machine;
    this.#account = account;
    this.#chunkBytes = Math.ceil(machine.timing.iioDrainBytes / LINE_BYTES) * LINE_BYTES;
  }

  /** `clwb` of every line of the range. */
  clwb(address: number, length: number): void {
    const lines = linesOf(address, length);
    this.#account.owed += lines.length / LINE_BYTES * this.#machine.timing.flushIssuePs;
    if (lines.length > 0) this.#pending.push(lines);
  }

  /** Non-temporal stores of the bytes into this core's write-combining buffers. */
  ntstore(address: number, bytes: Uint8Array): void {
    const { map, memory, timing } = this.#machine;
    let done = 0;
    while (done < bytes.length) {
      const at = address + done;
      const part = Math.min(map.run(at), bytes.length - done);
      const left = memory.combining.store(
        this,
        map.physical(at),
        bytes.subarray(done, done + part),
      );
      const lines = Math.ceil((at % LINE_BYTES + part) / LINE_BYTES);
      this.#account.owed += lines * timing.storePs + this.#streamPs(left);
      done += part;
    }
  }

  /** Returns when the iMC has accepted all earlier write-backs and non-temporal stores. */
  *sfence(): Steps<void> {
    yield* this.settle();
    yield* this.#finish();
    this.#account.owed += this.#machine.timing.fencePs;
    yield* this.settle();
  }

  /** {@link clwb}, then {@link sfence}. */
  *flush(address: number, length: number): Steps<void> {
    yield* this.settle();
    yield* this.#writeBack(linesOf(address, length), "unpaid");
    yield* this.#finish();
    this.#account.owed += this.#machine.timing.fencePs;
    yield* this.settle();
  }

  /** A non-temporal store at the rate of the memory, then {@link sfence}. */
  *ntStore(address: number, bytes: Uint8Array): Steps<void> {
    const { map, memory, timing } = this.#machine;
    // A copy: it becomes part of the durable record, and the program may change its bytes while
    // time passes.
    const data = copyOf(bytes);
    yield* this.settle();
    let done = 0;
    while (done < data.length) {
      const at = address + done;
      const physical = map.physical(at);
      const part = Math.min(this.#toChunkEnd(at), map.run(at), data.length - done);
      const lines = Math.ceil((at % LINE_BYTES + part) / LINE_BYTES);
      this.#account.owed += Math.max(
        lines * timing.storePs,
        transferTime(part, timing.coreFlushBitsPerSecond),
      );
      const chunk = data.subarray(done, done + part);
      memory.streams.set(this, { offset: physical, data: chunk });
      yield* this.#reserve(physical, part);
      memory.streams.delete(this);
      memory.writeThrough(physical, chunk);
      done += part;
    }
    yield* this.#finish();
    this.#account.owed += timing.fencePs;
    yield* this.settle();
  }

  /** Lets the owed time pass. */
  *settle(): Steps<void> {
    if (this.#account.owed > 0) yield PAY;
  }

  /** Completes the write-backs and streams since the last fence. */
  *#finish(): Steps<void> {
    const pending = this.#pending;
    this.#pending = [];
    for (const lines of pending) yield* this.#writeBack(lines, "paid");
    const { memory } = this.#machine;
    for (;;) {
      const buffer = memory.combining.oldestOf(this);
      if (buffer === undefined) return;
      this.#account.owed += this.#streamPs(storedBytes(buffer));
      yield* this.#reserve(buffer.address, LINE_BYTES);
      memory.combining.release(buffer);
    }
  }

  /**
   * Writes dirty lines of the range to the iMC. @param issue whether each line's `clwb` was paid
   * for.
   */
  *#writeBack(lines: Range, issue: "paid" | "unpaid"): Steps<void> {
    const { map, memory, timing } = this.#machine;
    const end = lines.address + lines.length;
    let at = lines.address;
    while (at < end) {
      const physical = map.physical(at);
      const part = Math.min(this.#toChunkEnd(at), map.run(at), end - at);
      const dirty = memory.dirtyLines(physical, part);
      const issuePs = part / LINE_BYTES * timing.flushIssuePs;
      const wholePs = Math.max(
        issuePs,
        transferTime(dirty * LINE_BYTES, timing.coreFlushBitsPerSecond),
      );
      this.#account.owed += issue === "paid" ? wholePs - issuePs : wholePs;
      if (dirty > 0) {
        yield* this.#reserve(physical, part);
        memory.writeBackRange(physical, part);
      }
      at += part;
    }
  }

  /** The cost of draining bytes of a write-combining buffer, beyond their stores. */
  #streamPs(bytes: number): Time {
    if (bytes === 0) return 0;
    const { storePs, coreFlushBitsPerSecond } = this.#machine.timing;
    const stores = Math.ceil(bytes / LINE_BYTES) * storePs;
    return Math.max(0, transferTime(bytes, coreFlushBitsPerSecond) - stores);
  }

  #toChunkEnd(address: number): number {
    return this.#chunkBytes - address % this.#chunkBytes;
  }

  /** Pays the owed time, then waits until the iMC has room for the range's lines. */
  *#reserve(physical: number, length: number): Steps<void> {
    yield* this.settle();
    for (;;) {
      const freeAt = this.#machine.memory.freeAt(physical, length);
      if (freeAt <= this.#machine.now) return;
      this.#account.owed += freeAt - this.#machine.now;
      yield PAY;
    }
  }
}

/** The lines of a range, as a range. */
function linesOf(address: number, length: number): Range {
  const first = address - address % LINE_BYTES;
  const lines = Math.ceil((address + length - first) / LINE_BYTES);
  return { address: first, length: length > 0 ? lines * LINE_BYTES : 0 };
}
