/**
 * A host after power-on, reduced to what a recovery needs: a core, a cache without evictions, SCM.
 * No device, no other host, no cost: a recovery's result does not depend on its duration. Its time
 * counts memory operations, so that a log of it orders power failures during the recovery.
 */
import { AddressFault, type Buffer, VIRTUAL_SCM_BASE } from "../memory/address_map.ts";
import { type PersistenceDomain, survives } from "../../../fabric/rack/plan/persistence_domain.ts";
import { wordsOf } from "../memory/durable_record.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { IN_ORDER, type MemoryLog } from "../memory/memory_log.ts";
import { type Steps, stepsOf, type Wait, type Wake } from "../cpu/program.ts";
import type { Recover, RecoveryCpu } from "./protocol.ts";
import { notPlain } from "../cpu/report_data.ts";
import { SCM_ATOMIC_BYTES } from "../memory/scm.ts";
import { overlay } from "../memory/sparse_bytes.ts";

/** Offsets are into SCM. */
export interface RecoveryImage {
  read(offset: number, length: number): Uint8Array;
  write(offset: number, bytes: Uint8Array): void;
}

export interface RecoveryMachine {
  readonly host: string;
  readonly domain: PersistenceDomain;
  readonly scm: Buffer;
  readonly image: RecoveryImage;
  /** It observes SCM, with the operation count as time. */
  readonly log?: MemoryLog;
}

/** With flushes. A recovery with more waits counts as endless. */
const WAITS_MAX = 4_000_000;
const WITHOUT_END = "waits without end";
const DONE: Wake = { kind: "done" };
const NOW: Wait = { kind: "time", at: 0 };

/** One boot: recoveries run in sequence, each on the last one's result. */
export class RecoveryBoot implements RecoveryCpu {
  readonly host: string;
  readonly scm: Buffer;
  readonly #machine: RecoveryMachine;
  readonly #dirty = new Map<number, Uint8Array>();
  readonly #llcSurvives: boolean;
  readonly #combiningSurvives: boolean;
  now = 0;

  constructor(machine: RecoveryMachine) {
    this.host = machine.host;
    this.scm = machine.scm;
    this.#machine = machine;
    this.#llcSurvives = survives("llc", machine.domain);
    this.#combiningSurvives = survives("wcb", machine.domain);
  }

  recover(recover: Recover, options: Readonly<Record<string, unknown>>): unknown {
    const steps = stepsOf(recover({ cpu: this, host: this.host, options }), "recover");
    for (let waits = 0; waits < WAITS_MAX; waits++) {
      const next = steps.next(DONE);
      if (!next.done) continue;
      const found = notPlain(next.value);
      if (found !== undefined) throw new TypeError(`It answers ${found}, expected plain data`);
      return next.value;
    }
    throw new Error(`The recovery of ${this.host} ${WITHOUT_END}`);
  }

  load(address: number, length: number): Uint8Array<ArrayBuffer> {
    return this.read(this.#offsetOf(address, length), length);
  }

  readonly read = (offset: number, length: number): Uint8Array<ArrayBuffer> => {
    const bytes = new Uint8Array(this.#machine.image.read(offset, length));
    if (this.#dirty.size === 0) return bytes;
    for (let line = lineOf(offset); line < offset + length; line += LINE_BYTES) {
      const data = this.#dirty.get(line);
      if (data !== undefined) overlay(bytes, offset, [{ offset: line, data }]);
    }
    return bytes;
  };

  store(address: number, bytes: Uint8Array): void {
    let offset = this.#offsetOf(address, bytes.length), done = 0;
    this.now++;
    while (done < bytes.length) {
      const line = lineOf(offset);
      const length = Math.min(line + LINE_BYTES - offset, bytes.length - done);
      const part = bytes.subarray(done, done + length);
      this.#storeInLine(line, offset - line, part);
      done += length;
      offset += length;
    }
  }

  #storeInLine(line: number, at: number, bytes: Uint8Array): void {
    if (this.#llcSurvives) return this.#persist(line + at, bytes, IN_ORDER);
    let dirty = this.#dirty.get(line);
    if (dirty === undefined) {
      dirty = new Uint8Array(this.#machine.image.read(line, LINE_BYTES));
      this.#dirty.set(line, dirty);
    }
    dirty.set(bytes, at);
    this.#machine.log?.dirty(this.now, line, dirty, wordsOf(at, at + bytes.length));
  }

  *flush(address: number, length: number): Steps<void> {
    const from = this.#offsetOf(address, length);
    for (let line = lineOf(from); line < from + length; line += LINE_BYTES) {
      const dirty = this.#dirty.get(line);
      if (dirty === undefined) continue;
      this.now++;
      this.#persist(line, dirty, LINE_BYTES);
      this.#dirty.delete(line);
      this.#machine.log?.clean(this.now, line);
    }
    this.now++;
    yield NOW;
  }

  *ntStore(address: number, bytes: Uint8Array): Steps<void> {
    const offset = this.#offsetOf(address, bytes.length);
    // A line leaves the cache as a whole, so a cached copy is flushed first.
    yield* this.flush(address, bytes.length);
    this.#persist(offset, bytes, this.#combiningSurvives ? IN_ORDER : SCM_ATOMIC_BYTES);
    this.now++;
  }

  charge(_ps: number): void {}

  *settle(): Steps<void> {
    yield NOW;
  }

  *sleep(_ps: number): Steps<void> {
    yield NOW;
  }

  #persist(offset: number, bytes: Uint8Array, unit: number): void {
    const kept = bytes.slice();
    this.#machine.image.write(offset, kept);
    this.#machine.log?.durable(this.now, offset, kept, unit);
  }

  #offsetOf(address: number, length: number): number {
    const offset = address - VIRTUAL_SCM_BASE;
    if (offset >= 0 && offset + length <= this.scm.length) return offset;
    const at = `0x${address.toString(16)}`;
    throw new AddressFault(`Cannot access ${length} B at ${at}: a recovery has SCM only`);
  }
}

function lineOf(offset: number): number {
  return offset - offset % LINE_BYTES;
}
