/**
 * Files of the records of a run's native programs (`host/native/record_format.ts`): `recorded/HOST/PROGRAM`
 * in the run's directory, for a later life `recorded/HOST.LIFE/PROGRAM`. One of the few files of `nodes/`
 * with I/O.
 *
 * A file is {@link MAGIC}, and blocks: {@link HEAD_BYTES} and a piece of the record, deflated. What has no
 * whole block yet lies as it is in a second file, `PROGRAM.tail`, written before anybody else may know of
 * it: it is there also where the host's process is killed.
 */
import { deflateRawSync, inflateRawSync } from "node:zlib";
import { hashBytes } from "../fabric/base/hash.ts";
import { OutputError, ReplayError } from "../fabric/base/run_ending_error.ts";
import { joined, viewOf } from "../fabric/base/slab.ts";
import { ifThere } from "../fabric/files/reading.ts";
import type { NativePort } from "./host/native/port.ts";
import type { RecordSink } from "./host/native/recording_port.ts";
import { AGAIN, nativeNamed, replayingPort } from "./host/native/replaying_port.ts";

/** In a run's directory. */
export const RECORDED_FOLDER = "recorded";
const TAIL = ".tail";

const MAGIC = new TextEncoder().encode("rackrec1");
/** Bytes of the block in the file, and of the record in it; its kind; a hash of the bytes in the file. */
const HEAD_BYTES = 16;
const KINDS = { raw: 0, deflated: 1, cut: 2 } as const;
/** Bytes of a record in a block. */
const BLOCK_BYTES = 1 << 18;
/** [choice] Level 1 takes a third of the time of 6, and a record some 10 % more room. */
const LEVEL = 1;

function folderOf(host: string, life: number): string {
  return life === 0 ? host : `${host}.${life}`;
}

/**
 * The file of a program's record. Its folder is made.
 * @param directory of the run.
 * @throws OutputError where the disk is full, as each call of the sink.
 */
export function openRecord(
  directory: string,
  { host, life, name }: { readonly host: string; readonly life: number; readonly name: string },
): RecordSink {
  const folder = `${directory}/${RECORDED_FOLDER}/${folderOf(host, life)}`;
  Deno.mkdirSync(folder, { recursive: true, mode: 0o700 });
  return new RecordFile(`${folder}/${name}`);
}

class RecordFile implements RecordSink {
  readonly #path: string;
  readonly #file: Deno.FsFile;
  #tail: Deno.FsFile | undefined;
  /** Of no block yet, and of that what is in no file. */
  #pending: Uint8Array<ArrayBuffer>[] = [];
  #unwritten: Uint8Array<ArrayBuffer>[] = [];
  #pendingBytes = 0;
  /** Bytes of the record in blocks. */
  #blockedBytes = 0;
  #isBroken = false;

  constructor(path: string) {
    this.#path = path;
    this.#file = Deno.openSync(path, { create: true, write: true, truncate: true, mode: 0o600 });
    this.#try(() => writeAll(this.#file, [MAGIC]));
  }

  append(operations: Uint8Array<ArrayBuffer>): void {
    this.#pending.push(operations);
    this.#unwritten.push(operations);
    this.#pendingBytes += operations.length;
    if (this.#pendingBytes >= BLOCK_BYTES) this.#block();
  }

  flush(): void {
    if (this.#unwritten.length === 0) return;
    const bytes = joined(this.#unwritten);
    this.#unwritten = [];
    this.#try(() => {
      if (this.#tail === undefined) {
        const path = `${this.#path}${TAIL}`;
        this.#tail = Deno.openSync(path, { createNew: true, append: true, mode: 0o600 });
      }
      writeAll(this.#tail, [blockHead(bytes, KINDS.raw, this.#blockedBytes), bytes]);
    });
  }

  cut(why: string): void {
    this.#block();
    const text = new TextEncoder().encode(why);
    this.#try(() => writeAll(this.#file, [blockHead(text, KINDS.cut, 0), text]));
  }

  close(): void {
    this.#block();
    this.#try(() => {
      this.#tail?.close();
      if (this.#tail !== undefined) Deno.removeSync(`${this.#path}${TAIL}`);
    });
    this.#tail = undefined;
    this.#file.close();
  }

  /** Makes a block of what is pending; only then the tail is emptied. */
  #block(): void {
    if (this.#pending.length === 0) return;
    const bytes = joined(this.#pending);
    this.#pending = [];
    this.#unwritten = [];
    this.#pendingBytes = 0;
    this.#blockedBytes += bytes.length;
    this.#try(() => {
      const deflated = new Uint8Array(deflateRawSync(bytes, { level: LEVEL }));
      writeAll(this.#file, [blockHead(deflated, KINDS.deflated, bytes.length), deflated]);
      this.#tail?.truncateSync();
    });
  }

  /** A record that lacks something is none: its files are removed. @throws OutputError the first time. */
  #try(write: () => void): void {
    if (this.#isBroken) return;
    try {
      write();
    } catch (error) {
      this.#isBroken = true;
      for (const path of [this.#path, `${this.#path}${TAIL}`]) remove(path);
      throw new OutputError(this.#path, error);
    }
  }
}

/** @param of raw bytes in a block; of a raw one, in the blocks before it. */
function blockHead(stored: Uint8Array, kind: number, of: number): Uint8Array {
  const head = new Uint8Array(HEAD_BYTES), view = viewOf(head);
  view.setUint32(0, stored.length, true);
  view.setUint32(4, of, true);
  view.setUint32(8, kind, true);
  view.setUint32(12, hashBytes(stored, kind), true);
  return head;
}

/** In one call, as far as the system takes it: a killed process leaves all of it or a part at the end. */
function writeAll(file: Deno.FsFile, parts: readonly Uint8Array[]): void {
  const bytes = joined(parts);
  for (let at = 0; at < bytes.length;) at += file.writeSync(bytes.subarray(at));
}

function remove(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** The two files of a record, as they are now. */
export interface RecordBytes {
  /** `HOST/PROGRAM`, or `HOST.LIFE/PROGRAM`. */
  readonly name: string;
  readonly file: Uint8Array;
  readonly tail: Uint8Array;
}

/** All records of a run. @param directory of the run. */
export function readRecords(directory: string): RecordBytes[] {
  const root = `${directory}/${RECORDED_FOLDER}`;
  return namesIn(root).flatMap((folder) =>
    namesIn(`${root}/${folder}`).filter((name) => !name.endsWith(TAIL)).map((each) => {
      const name = `${folder}/${each}`;
      // The tail first: what it loses meanwhile is in the file by then.
      const tail = bytesIfThere(`${root}/${name}${TAIL}`);
      return { name, tail, file: bytesIfThere(`${root}/${name}`) };
    })
  );
}

/** Which records of a run are not whole, and why; of each the heads of its blocks are read. */
export function cutRecords(directory: string): string[] {
  const root = `${directory}/${RECORDED_FOLDER}`;
  return namesIn(root).flatMap((folder) =>
    namesIn(`${root}/${folder}`).filter((name) => !name.endsWith(TAIL)).flatMap((name) => {
      const why = whyCut(`${root}/${folder}/${name}`);
      return why === undefined ? [] : [cutText(`${name} on ${folder}`, why)];
    })
  );
}

function cutText(who: string, why: string): string {
  return `record of native program ${who} is not whole: ${why}`;
}

function whyCut(path: string): string | undefined {
  const file = ifThere(() => Deno.openSync(path));
  if (file === undefined) return undefined;
  try {
    const head = new Uint8Array(HEAD_BYTES), view = viewOf(head);
    file.seekSync(MAGIC.length, Deno.SeekMode.Start);
    while (file.readSync(head) === HEAD_BYTES) {
      const length = view.getUint32(0, true);
      if (view.getUint32(8, true) !== KINDS.cut) {
        file.seekSync(length, Deno.SeekMode.Current);
        continue;
      }
      const text = new Uint8Array(length);
      file.readSync(text);
      return new TextDecoder().decode(text);
    }
    return undefined;
  } finally {
    file.close();
  }
}

/** The run's records serve its native programs. */
export class Records {
  readonly #texts = new Map<string, RecordText>();

  constructor(records: readonly RecordBytes[] = []) {
    this.take(records);
  }

  /** Replaces records by what they have grown to. */
  take(records: readonly RecordBytes[]): void {
    for (const record of records) this.#texts.set(record.name, textOf(record));
  }

  /** What serves the native programs of a host in one of its lives. */
  port(host: string, life: number): NativePort {
    return replayingPort(host, (start) => {
      const key = `${folderOf(host, life)}/${start.name}`, who = nativeNamed(start, host);
      const text = this.#texts.get(key);
      if (text === undefined) {
        throw new ReplayError(
          `There is no record of native program ${who} in life ${life} of its host. ${AGAIN}`,
        );
      }
      if (text.cut !== undefined) {
        throw new ReplayError(`The ${cutText(who, text.cut)}. ${AGAIN}`);
      }
      return { next: this.#piecesOf(key), lacks: () => lacksOf(this.#texts.get(key)!) };
    });
  }

  /** Of a rack that is up the record grows, and what was its tail becomes a block. */
  #piecesOf(key: string): () => Uint8Array | undefined {
    let at = 0;
    return () => {
      const block = this.#texts.get(key)!.blocks.find(({ from, to }) => from <= at && at < to);
      if (block === undefined) return undefined;
      const bytes = block.kind === KINDS.raw ? block.stored : inflateRawSync(block.stored);
      const piece = bytes.subarray(at - block.from);
      at = block.to;
      return piece;
    };
  }
}

interface RecordText {
  readonly blocks: readonly Placed[];
  /** Bytes behind the last whole block. */
  readonly dropped: number;
  /** Why it was cut; undefined where it was not. */
  readonly cut: string | undefined;
}

interface StoredBlock {
  readonly kind: number;
  readonly of: number;
  readonly stored: Uint8Array;
}

/** A block, and which bytes of the record it has. */
interface Placed extends StoredBlock {
  readonly from: number;
  readonly to: number;
}

function textOf({ file, tail }: RecordBytes): RecordText {
  const main = blocksIn(file, MAGIC.length), raw = blocksIn(tail, 0), blocks: Placed[] = [];
  let end = 0;
  const place = (block: StoredBlock, length: number) => {
    blocks.push({ ...block, from: end, to: end + length });
    end += length;
  };
  for (const block of main.blocks) if (block.kind === KINDS.deflated) place(block, block.of);
  // The process may have been killed between a block and the end of its tail, which is in it.
  const blocked = end;
  for (const block of raw.blocks) if (block.of === blocked) place(block, block.stored.length);
  const cut = main.blocks.find(({ kind }) => kind === KINDS.cut);
  return {
    blocks,
    dropped: main.dropped + raw.dropped,
    cut: cut && new TextDecoder().decode(cut.stored),
  };
}

/** Up to the first block that is not whole. */
function blocksIn(bytes: Uint8Array, from: number) {
  const blocks: StoredBlock[] = [], view = viewOf(bytes);
  let at = Math.min(from, bytes.length);
  while (at + HEAD_BYTES <= bytes.length) {
    const length = view.getUint32(at, true), kind = view.getUint32(at + 8, true);
    const end = at + HEAD_BYTES + length, stored = bytes.subarray(at + HEAD_BYTES, end);
    if (end > bytes.length || hashBytes(stored, kind) !== view.getUint32(at + 12, true)) break;
    blocks.push({ kind, of: view.getUint32(at + 4, true), stored });
    at = end;
  }
  return { blocks, dropped: bytes.length - at };
}

function lacksOf({ dropped }: RecordText): string {
  if (dropped === 0) return "";
  return `${dropped} B behind its last whole block are dropped: its host was killed as it wrote them`;
}

function bytesIfThere(path: string): Uint8Array<ArrayBuffer> {
  try {
    return Deno.readFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return new Uint8Array(0);
    throw error;
  }
}

function namesIn(folder: string): string[] {
  try {
    return [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}
