/**
 * Messages of fio's engines: librpma's workspace in the private data of the response
 * (`librpma_fio.h`), the flush messages of gpspm (`librpma_gpspm_flush.proto`), and the information
 * block of the rdma engine (`rdma.c`).
 */
import { RDMA_IODEPTH_MAX, type Verb, VERBS } from "./job.ts";

export interface RemoteMemory {
  readonly va: number;
  readonly rkey: number;
  readonly bytes: number;
}

export interface Workspace extends RemoteMemory {
  /** Receives posted by the server; 0 for apm. */
  readonly messages: number;
  readonly directWriteToPmem: boolean;
  readonly isPersistent: boolean;
}

const WORKSPACE_BYTES = 28;
const DESCRIPTOR_BYTES = 21;
const USAGE_PERSISTENT = 1 << 5, USAGE_VISIBILITY = 1 << 4;

export function encodeWorkspace(workspace: Workspace): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(WORKSPACE_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, workspace.messages);
  view.setUint8(2, workspace.directWriteToPmem ? 1 : 0);
  view.setUint8(3, DESCRIPTOR_BYTES);
  view.setBigUint64(4, BigInt(workspace.va));
  view.setBigUint64(12, BigInt(workspace.bytes));
  view.setUint32(20, workspace.rkey);
  view.setUint8(24, workspace.isPersistent ? USAGE_PERSISTENT : USAGE_VISIBILITY);
  return bytes;
}

/** @returns undefined for other bytes. */
export function decodeWorkspace(bytes: Uint8Array): Workspace | undefined {
  if (bytes.length < WORKSPACE_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getUint8(3) !== DESCRIPTOR_BYTES) return undefined;
  return {
    messages: view.getUint16(0),
    directWriteToPmem: view.getUint8(2) === 1,
    va: Number(view.getBigUint64(4)),
    bytes: Number(view.getBigUint64(12)),
    rkey: view.getUint32(20),
    isPersistent: (view.getUint8(24) & USAGE_PERSISTENT) !== 0,
  };
}

/** The range to be made persistent; all zero means that the client is done. */
export interface FlushRequest {
  readonly offset: number;
  readonly length: number;
  readonly context: number;
}

/** Room for a message at either end (MAX_MSG_SIZE). */
export const MESSAGE_BYTES = 512;

/** `fixed64`: a byte of tag, eight of value. */
const FIELD_BYTES = 9;
const FIXED64 = 1;

function encodeFields(values: readonly number[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(FIELD_BYTES * values.length);
  const view = new DataView(bytes.buffer);
  for (const [i, value] of values.entries()) {
    view.setUint8(FIELD_BYTES * i, ((i + 1) << 3) | FIXED64);
    view.setBigUint64(FIELD_BYTES * i + 1, BigInt(value), true);
  }
  return bytes;
}

function decodeFields(bytes: Uint8Array, count: number): number[] | undefined {
  if (bytes.length !== FIELD_BYTES * count) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const values: number[] = [];
  for (let i = 0; i < count; i++) {
    if (view.getUint8(FIELD_BYTES * i) !== (((i + 1) << 3) | FIXED64)) return undefined;
    values.push(Number(view.getBigUint64(FIELD_BYTES * i + 1, true)));
  }
  return values;
}

export function encodeFlushRequest(request: FlushRequest): Uint8Array<ArrayBuffer> {
  return encodeFields([request.offset, request.length, request.context]);
}

export function decodeFlushRequest(bytes: Uint8Array): FlushRequest | undefined {
  const [offset, length, context] = decodeFields(bytes, 3) ?? [];
  return context === undefined ? undefined : { offset: offset!, length: length!, context };
}

export function encodeFlushResponse(context: number): Uint8Array<ArrayBuffer> {
  return encodeFields([context]);
}

/** @returns the flushed I/O; undefined for other bytes. */
export function decodeFlushResponse(bytes: Uint8Array): number | undefined {
  return decodeFields(bytes, 1)?.[0];
}

export interface InfoBlock {
  readonly verb: Verb;
  readonly blockBytes: number;
  readonly buffers: readonly RemoteMemory[];
  /** A client's depth; a server's buffers. */
  readonly count: number;
}

const HEAD_BYTES = 12, BUFFER_BYTES = 16;
export const INFO_BYTES = HEAD_BYTES + BUFFER_BYTES * RDMA_IODEPTH_MAX;

export function encodeInfo(
  { verb, blockBytes, buffers, count }: InfoBlock,
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(INFO_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, VERBS.indexOf(verb) + 1);
  view.setUint32(4, count);
  view.setUint32(8, blockBytes);
  for (const [i, { va, rkey, bytes: size }] of buffers.entries()) {
    const at = HEAD_BYTES + BUFFER_BYTES * i;
    view.setBigUint64(at, BigInt(va));
    view.setUint32(at + 8, rkey);
    view.setUint32(at + 12, size);
  }
  return bytes;
}

export function decodeInfo(bytes: Uint8Array): InfoBlock | undefined {
  if (bytes.length !== INFO_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const verb = VERBS[view.getUint32(0) - 1];
  const count = view.getUint32(4);
  if (verb === undefined || count > RDMA_IODEPTH_MAX) return undefined;
  const buffers = Array.from({ length: count }, (_, i) => {
    const at = HEAD_BYTES + BUFFER_BYTES * i;
    const va = Number(view.getBigUint64(at));
    return { va, rkey: view.getUint32(at + 8), bytes: view.getUint32(at + 12) };
  }).filter(({ rkey }) => rkey !== 0);
  return { verb, blockBytes: view.getUint32(8), buffers, count };
}
