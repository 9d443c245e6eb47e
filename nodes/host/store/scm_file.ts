/**
 * An SCM's content between the lives of its host, and output commit (DESIGN §3): the durable bytes of a span of virtual
 * time are committed as a whole if the span was reported, and discarded otherwise. `<path>` holds the content, sparse
 * where nothing was written; `<path>.log` the record of the last span, until it is merged. The only file here with I/O.
 *
 * A span's record goes into the log; the next record implies that the span was reported, so the earlier record is first
 * merged into the content. Whenever the process dies, content and log together have every reported span (not where the
 * machine dies: nothing is synced to the disk). The next opening detects damage by `<path>.sums` (`scm_sums.ts`). With
 * the file `<path>.accept`, which that opening removes, the user accepts a damaged content.
 */
import { assert } from "../../../fabric/base/assert.ts";
import type { DurableWrite } from "../../../fabric/node.ts";
import { overlay } from "../memory/sparse_bytes.ts";
import {
  decodeRecord,
  encodeRecord,
  fateOf,
  mayBeTorn,
  type ScmRecord,
  type Settled,
} from "./scm_record.ts";
import { type ByteStore, ScmSums } from "./scm_sums.ts";

export class ScmFileError extends Error {
  override readonly name = "ScmFileError";
}

/** The file does not hold what its host has written. */
export class ScmDamageError extends ScmFileError {}

export class ScmFileBusy extends ScmFileError {}

/** The SCM's host and size, for messages: "host b's scm.size". */
export interface ScmFilePlan {
  readonly host: string;
  readonly bytes: number;
  readonly onSettled?: (fate: Settled) => void;
}

export class ScmFile {
  readonly path: string;
  readonly bytes: number;
  readonly #main: Deno.FsFile;
  readonly #log: Deno.FsFile;
  readonly #sumsFile: Deno.FsFile;
  readonly #sums: ScmSums;
  readonly #host: string;
  readonly #onSettled: ScmFilePlan["onSettled"];
  #pending: ScmRecord | undefined;
  #settled = false;
  #lastSpan = -1;

  private constructor(
    path: string,
    { host, bytes, onSettled }: ScmFilePlan,
    files: { main: Deno.FsFile; log: Deno.FsFile; sums: Deno.FsFile },
  ) {
    this.#host = host;
    this.#sumsFile = files.sums;
    this.#sums = new ScmSums(bytesOf(files.sums), bytes);
    this.path = path;
    this.bytes = bytes;
    this.#onSettled = onSettled;
    this.#main = files.main;
    this.#log = files.log;
  }

  /**
   * Opens the SCM's file, or creates it with zeros. {@link settle} must follow.
   * @throws ScmFileError where the file has another size, is in use, or cannot be read and written;
   * ScmDamageError where it does not hold what was written, unless `<path>.accept` is there.
   */
  static open(path: string, plan: ScmFilePlan): ScmFile {
    const accepts = statIfAny(`${path}.accept`) !== undefined;
    const isKnown = (statIfAny(`${path}.sums`)?.size ?? 0) > 0;
    if (isKnown && !accepts) {
      const before = attempt(`look at ${path}`, () => statIfAny(path));
      if (before === undefined) throw damaged(path, plan.host, "it is missing");
      if (before.size === 0 && plan.bytes > 0) throw damaged(path, plan.host, "it is empty");
    }
    const files = [openMain(path, plan)];
    try {
      for (const name of [`${path}.log`, `${path}.sums`]) {
        files.push(attempt(`open ${name}`, () => openFile(name)));
      }
      const [main, log, sums] = files as [Deno.FsFile, Deno.FsFile, Deno.FsFile];
      const file = new ScmFile(path, plan, { main, log, sums });
      file.#check({ isKnown, accepts });
      return file;
    } catch (error) {
      for (const file of files) file.close();
      throw error;
    }
  }

  /** All committed writes: a node's image at power-on. Only after {@link settle}. */
  readImage(offset: number, length: number): Uint8Array<ArrayBuffer> {
    assert(this.#settled, "An SCM file is settled before it is read");
    assert(offset >= 0 && offset + length <= this.bytes, `No ${length} B at ${offset} of the SCM`);
    const image = attempt(`read ${this.path}`, () => readAt(this.#main, { offset, length }));
    if (this.#pending !== undefined) overlay(image, offset, this.#pending.writes);
    return image;
  }

  /**
   * Atomic; no cost without writes. Spans ascend, and a call implies that every earlier span was
   * reported.
   */
  commit(span: number, writes: readonly DurableWrite[]): void {
    assert(this.#settled, "An SCM file is settled before it is written");
    assert(span > this.#lastSpan, `Span ${span} is committed after span ${this.#lastSpan}`);
    this.#lastSpan = span;
    if (writes.length === 0) return;
    this.#apply();
    const record = encodeRecord({ span, writes });
    attempt(`write ${this.path}.log`, () => {
      writeAt(this.#log, 0, record.bytes);
      const logBytes = sizeOf(this.#log);
      this.#sums.mark({ pending: span, logBytes, merging: false });
    });
    this.#pending = { span, writes: record.writes };
  }

  /**
   * First after opening: keeps the last span if it was reported, else discards it.
   * @param lastReported `unknown` without a record of reports: a complete span is then kept.
   */
  settle(lastReported: number | "unknown"): Settled {
    assert(!this.#settled, "An SCM file is settled once, after it is opened");
    this.#settled = true;
    const log = this.#readLog();
    const record = decodeRecord(log);
    const whenNot = log.length === 0 ? "none" : "torn";
    const fate = record === undefined ? whenNot : fateOf(record.span, lastReported);
    if (record !== undefined && fate !== "undone") {
      this.#pending = record;
      this.#apply();
    }
    this.#emptyLog();
    this.#onSettled?.(fate);
    return fate;
  }

  close(): void {
    try {
      this.#apply();
      if (this.#settled) this.#emptyLog();
    } finally {
      this.#main.close();
      this.#log.close();
      this.#sumsFile.close();
    }
  }

  /**
   * Merges the record into the content. After a partial failure (no space) the record stays in the
   * log, and the next opening repeats the merge.
   */
  #apply(): void {
    const record = this.#pending;
    if (record === undefined) return;
    attempt(`write ${this.path}`, () => {
      const logBytes = sizeOf(this.#log);
      this.#sums.mark({ pending: record.span, logBytes, merging: true });
      for (const { offset, data } of record.writes) writeAt(this.#main, offset, data);
      this.#sums.update(bytesOf(this.#main), record.writes);
      this.#sums.markAtRest();
    });
    this.#pending = undefined;
  }

  #emptyLog(): void {
    attempt(`truncate ${this.path}.log`, () => {
      this.#sums.markAtRest();
      this.#log.truncateSync(0);
    });
  }

  #readLog(): Uint8Array<ArrayBuffer> {
    return attempt(`read ${this.path}.log`, () => {
      const length = sizeOf(this.#log);
      return readAt(this.#log, { offset: 0, length });
    });
  }

  #check({ isKnown, accepts }: { readonly isKnown: boolean; readonly accepts: boolean }): void {
    const content = bytesOf(this.#main);
    if (!accepts) {
      const found = isKnown ? this.#damage(content) : this.#damageOfNew();
      if (found !== undefined) throw damaged(this.path, this.#host, found);
      if (isKnown) return;
    }
    attempt(`write ${this.path}.sums`, () => {
      if (accepts) {
        this.#log.truncateSync(0);
        this.#sumsFile.truncateSync(0);
      }
      this.#sumsFile.truncateSync(ScmSums.size(this.bytes));
      if (accepts) this.#sums.takeAll(content);
      this.#sums.markAtRest();
      if (accepts) Deno.removeSync(`${this.path}.accept`);
    });
  }

  /** Sums are made before any write: a file without them must be as created. */
  #damageOfNew(): string | undefined {
    const isNew = this.#log.statSync().size === 0 && !this.#main.statSync().blocks;
    return isNew ? undefined : `${this.path}.sums is missing or empty`;
  }

  #damage(content: ByteStore): string | undefined {
    const sums = `${this.path}.sums`, size = ScmSums.size(this.bytes);
    const sumsBytes = this.#sumsFile.statSync().size;
    if (sumsBytes !== size) return `${sums} has ${sumsBytes} B, expected ${size} B`;
    if (!attempt(`read ${sums}`, () => this.#sums.open())) return `${sums} is none`;
    const log = this.#readLog(), record = decodeRecord(log);
    const { pending, logBytes, merging } = this.#sums.state;
    if (this.#sums.hasPending) {
      if (log.length !== logBytes) {
        return `${this.path}.log has ${log.length} B, expected ${logBytes} B`;
      }
      if (record?.span !== pending) return `${this.path}.log does not hold span ${pending} whole`;
    } else if (record === undefined && !mayBeTorn(log)) {
      return `${this.path}.log holds what is no record`;
    }
    const { blocks } = this.#main.statSync();
    const options = { blocks, merging: merging ? record?.writes ?? [] : [] };
    const at = attempt(`read ${this.path}`, () => this.#sums.firstDamage(content, options));
    return at === undefined ? undefined : `its page at ${at} is not what was written`;
  }
}

/** statSync would need a right that the process may have given up. */
function sizeOf(file: Deno.FsFile): number {
  return file.seekSync(0, Deno.SeekMode.End);
}

function damaged(path: string, host: string, found: string): ScmDamageError {
  return new ScmDamageError(
    `SCM file ${path} of host ${host} is damaged: ${found} ` +
      `(rack start ${host} --accept-damage goes on with what there is)`,
  );
}

function bytesOf(file: Deno.FsFile): ByteStore {
  return {
    read: (offset, length) => readAt(file, { offset, length }),
    write: (offset, bytes) => writeAt(file, offset, bytes),
  };
}

function openMain(path: string, { host, bytes }: ScmFilePlan): Deno.FsFile {
  const problem = `Cannot use SCM file ${path} as host ${host}'s scm.size is ${bytes} B`;
  const before = attempt(`look at ${path}`, () => statIfAny(path));
  if (before !== undefined && !before.isFile) {
    throw new ScmFileError(`Cannot use SCM file ${path}: it must be a regular file`);
  }
  if (before !== undefined && before.size !== bytes && before.size !== 0) {
    throw new ScmFileError(`${problem}: the file has ${before.size} B`);
  }
  const file = attempt(`open ${path}`, () => openFile(path));
  try {
    if (!file.tryLockSync(true)) {
      throw new ScmFileBusy(`Cannot use SCM file ${path}: another process has it open`);
    }
    // Empty: a process died right after creating it.
    if (file.statSync().size === 0) attempt(`size ${path}`, () => file.truncateSync(bytes));
  } catch (error) {
    file.close();
    throw error;
  }
  return file;
}

function openFile(path: string): Deno.FsFile {
  return Deno.openSync(path, { read: true, write: true, create: true, mode: 0o600 });
}

function statIfAny(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

function attempt<T>(action: string, operation: () => T): T {
  try {
    return operation();
  } catch (error) {
    if (!(error instanceof Error) || error instanceof ScmFileError) throw error;
    throw new ScmFileError(`Cannot ${action}: ${error.message}`, { cause: error });
  }
}

function readAt(
  file: Deno.FsFile,
  range: { offset: number; length: number },
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(range.length);
  file.seekSync(range.offset, Deno.SeekMode.Start);
  let done = 0;
  while (done < bytes.length) {
    const read = file.readSync(bytes.subarray(done));
    if (read === null) throw new Error(`it ends at ${range.offset + done} B`);
    done += read;
  }
  return bytes;
}

function writeAt(file: Deno.FsFile, offset: number, bytes: Uint8Array): void {
  file.seekSync(offset, Deno.SeekMode.Start);
  let done = 0;
  while (done < bytes.length) done += file.writeSync(bytes.subarray(done));
}
