/**
 * Storage of an SCM's content between the lives of its host, and output commit (DESIGN §3): the
 * durable bytes of a span of virtual time are committed as a whole if the span was reported, and
 * discarded otherwise. `<path>` holds the content, sparse where nothing was written; `<path>.log`
 * holds the record of the last span. The only file here with I/O.
 *
 * A span is written in two steps: its record goes into the log; the next record implies that the
 * span was reported, so the earlier record is first merged into the content. Whenever the process
 * dies, content and log together have every reported span (not where the machine dies: nothing is
 * synced to the disk).
 */
import { assert } from "../../../fabric/base/assert.ts";
import type { DurableWrite } from "../../../fabric/node.ts";
import { overlay } from "../memory/sparse_bytes.ts";
import { decodeRecord, encodeRecord, fateOf, type ScmRecord, type Settled } from "./scm_record.ts";

/** A failed file operation. `cause` is the file system's error, if there was one. */
export class ScmFileError extends Error {
  override readonly name = "ScmFileError";
}

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
  readonly #onSettled: ScmFilePlan["onSettled"];
  /** The record in the log that is not in the content yet. */
  #pending: ScmRecord | undefined;
  #settled = false;
  #lastSpan = -1;

  private constructor(
    path: string,
    { bytes, onSettled }: ScmFilePlan,
    files: { main: Deno.FsFile; log: Deno.FsFile },
  ) {
    this.path = path;
    this.bytes = bytes;
    this.#onSettled = onSettled;
    this.#main = files.main;
    this.#log = files.log;
  }

  /**
   * Opens the SCM's file, or creates it with zeros. The caller must call {@link settle} next.
   * @throws ScmFileError where the file has another size, is in use, or cannot be read and written.
   */
  static open(path: string, plan: ScmFilePlan): ScmFile {
    const main = openMain(path, plan);
    try {
      const log = attempt(`open ${path}.log`, () => openFile(`${path}.log`));
      return new ScmFile(path, plan, { main, log });
    } catch (error) {
      main.close();
      throw error;
    }
  }

  /**
   * The content with all committed writes: the image of a node at power-on, at the start of its
   * process or, where a host returns within the process, later. Only after {@link settle}.
   */
  readImage(offset: number, length: number): Uint8Array<ArrayBuffer> {
    assert(this.#settled, "An SCM file is settled before it is read");
    assert(offset >= 0 && offset + length <= this.bytes, `No ${length} B at ${offset} of the SCM`);
    const image = attempt(`read ${this.path}`, () => readAt(this.#main, { offset, length }));
    if (this.#pending !== undefined) overlay(image, offset, this.#pending.writes);
    return image;
  }

  /**
   * Commits the writes of a span atomically. No cost without writes. Spans are in ascending order,
   * and a call implies that every earlier span was reported.
   */
  commit(span: number, writes: readonly DurableWrite[]): void {
    assert(this.#settled, "An SCM file is settled before it is written");
    assert(span > this.#lastSpan, `Span ${span} is committed after span ${this.#lastSpan}`);
    this.#lastSpan = span;
    if (writes.length === 0) return;
    this.#apply();
    const record = encodeRecord({ span, writes });
    attempt(`write ${this.path}.log`, () => writeAt(this.#log, 0, record.bytes));
    this.#pending = { span, writes: record.writes };
  }

  /**
   * To be called first after opening: keeps the last span if it was reported, discards it otherwise.
   * @param lastReported `unknown` without a record of reports: a complete span is then kept.
   */
  settle(lastReported: number | "unknown"): Settled {
    assert(!this.#settled, "An SCM file is settled once, after it is opened");
    this.#settled = true;
    const log = attempt(`read ${this.path}.log`, () => {
      // Not statSync: the process may have given up its right to read files that are not open.
      const length = this.#log.seekSync(0, Deno.SeekMode.End);
      return readAt(this.#log, { offset: 0, length });
    });
    const record = decodeRecord(log);
    const whenNot = log.length === 0 ? "none" : "torn";
    const fate = record === undefined ? whenNot : fateOf(record.span, lastReported);
    if (record !== undefined && fate !== "undone") {
      this.#pending = record;
      this.#apply();
    }
    this.#truncateLog();
    this.#onSettled?.(fate);
    return fate;
  }

  /** Closes the files; the last span is kept. */
  close(): void {
    try {
      this.#apply();
      if (this.#settled) this.#truncateLog();
    } finally {
      this.#main.close();
      this.#log.close();
    }
  }

  /**
   * Merges the last span's record into the content. After a partial failure (no space) the record
   * stays in the log, and the next opening repeats the merge.
   */
  #apply(): void {
    const record = this.#pending;
    if (record === undefined) return;
    attempt(`write ${this.path}`, () => {
      for (const { offset, data } of record.writes) writeAt(this.#main, offset, data);
    });
    this.#pending = undefined;
  }

  #truncateLog(): void {
    attempt(`truncate ${this.path}.log`, () => this.#log.truncateSync(0));
  }
}

/** Opens a file of exactly the planned size, with an exclusive lock. */
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
      throw new ScmFileError(`Cannot use SCM file ${path}: another process has it open`);
    }
    // An empty file belongs to a process that died right after creating it.
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

/** Runs `operation`; converts errors of the file system to {@link ScmFileError}. */
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
