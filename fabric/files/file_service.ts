/**
 * Files over the bus, in pieces that a message can carry. The reader asks for each piece, so a lost
 * one is asked for again, a broken transfer goes on where it was, and nothing is sent that is not
 * wanted. Zeros are skipped: an SCM file is mostly holes. The reader compares length and SHA-256 of
 * what it has with those of the file. Requests, as CBOR, to `control.files-<user>` or
 * `control.plan-<user>` (`bus/access.ts`):
 *
 *     { list: true, after?: name }       → { files: [[name, bytes, changedMs] …], more }
 *     { read: name, at }                 → { at, bytes, next, size }, from the first byte that is not 0
 *     { hash: name, bytes }              → { sha256 } of so many bytes; null: it has become shorter
 */
import type { Bus, Subscription } from "../bus/bus.ts";
import { decode, encode } from "../bus/codec.ts";
import { patternOf } from "../bus/subjects.ts";
import { type FileSet, hashOf, type ServedFile } from "./served_files.ts";

export type FileRequest =
  | { readonly list: true; readonly after?: string }
  | { readonly read: string; readonly at: number }
  | { readonly hash: string; readonly bytes: number };

export interface ListAnswer {
  readonly files: ReadonlyArray<readonly [name: string, bytes: number, changedMs: number]>;
  readonly more: boolean;
}

/** `at` is the first byte's place, `next` the place to ask for next; both `size` at the end. */
export interface ReadAnswer {
  readonly at: number;
  readonly bytes: Uint8Array;
  readonly next: number;
  readonly size: number;
}

export interface HashAnswer {
  /** Null: the file does not have so many bytes any more. */
  readonly sha256: string | null;
}

/** Small enough that a process of the rack hardly waits for it. */
const PIECE_BYTES = 512 * 1024, OVERHEAD_BYTES = 4 * 1024;
/** Of zeros, in one request. */
const SKIP_BYTES = 32 * 1024 * 1024;
const BLOCK_BYTES = 64 * 1024;
const LISTED = 256;

/** Answers requests for a set of files, which is looked at anew for each. */
export function serveFiles(
  bus: Bus,
  { run, verb, files }: {
    readonly run: string;
    readonly verb: string;
    readonly files: () => FileSet;
  },
): Subscription {
  return bus.subscribe(patternOf({ kind: "control", run, verb }), (payload, _, reply) => {
    if (reply === undefined) return;
    const say = (answer: object) => reply(encode(answer));
    const request = requestIn(decode(payload));
    if (request === undefined) return say({ error: "malformed request" });
    if ("list" in request) return say(list(files().list(), request.after));
    const name = "read" in request ? request.read : request.hash;
    const fail = (error: unknown) => say({ error: `${name}: ${(error as Error).message}` });
    try {
      const file = files().open(name);
      if (file === undefined) return say({ error: `there is no ${name}` });
      if ("read" in request) {
        using open = file;
        const most = Math.min(PIECE_BYTES, bus.maxPayload - OVERHEAD_BYTES);
        return say(pieceOf(open, request.at, most));
      }
      hashOf(file, request.bytes).then((sha256) => {
        say({ sha256: sha256 ?? null } satisfies HashAnswer);
      }).catch(fail).finally(() => file[Symbol.dispose]());
    } catch (error) {
      fail(error);
    }
  });
}

function requestIn(value: unknown): FileRequest | undefined {
  const { list, after, read, at, hash, bytes } = Object(value) as Readonly<Record<string, unknown>>;
  if (list === true && (after === undefined || typeof after === "string")) {
    return { list, ...(after !== undefined && { after }) };
  }
  if (typeof read === "string" && isPlace(at)) return { read, at };
  if (typeof hash === "string" && isPlace(bytes)) return { hash, bytes };
  return undefined;
}

function isPlace(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function list(all: readonly ServedFile[], after: string | undefined): ListAnswer {
  const from = after === undefined ? 0 : all.findIndex(({ name }) => name > after);
  const rest = from < 0 ? [] : all.slice(from);
  return {
    files: rest.slice(0, LISTED).map(({ name, bytes, changedMs }) => [name, bytes, changedMs]),
    more: rest.length > LISTED,
  };
}

function pieceOf(
  file: { readonly bytes: number; readAt(at: number, buffer: Uint8Array): number },
  from: number,
  most: number,
): ReadAnswer {
  const { bytes: size } = file;
  const block = new Uint8Array(BLOCK_BYTES);
  const last = Math.min(size, from + SKIP_BYTES);
  let at = Math.min(from, size);
  while (at < last) {
    const length = file.readAt(at, block);
    if (length === 0 || !isZero(block.subarray(0, length))) break;
    at += length;
  }
  if (at >= last) return { at, bytes: new Uint8Array(), next: at, size };
  const bytes = new Uint8Array(Math.min(most, size - at));
  const length = file.readAt(at, bytes);
  return { at, bytes: bytes.subarray(0, length), next: at + length, size };
}

function isZero(bytes: Uint8Array): boolean {
  const whole = bytes.byteLength & ~3;
  const words = new Int32Array(bytes.buffer, bytes.byteOffset, whole / 4);
  for (let i = 0; i < words.length; i++) if (words[i] !== 0) return false;
  for (let i = whole; i < bytes.length; i++) if (bytes[i] !== 0) return false;
  return true;
}
