/**
 * Entries of the default rule's store, in areas, as host and RNIC write them: what tests look into, and make.
 * The product goes by each host's own layout (`queue_placement.ts`).
 */
import type { StampedPointer } from "./queue_information.ts";
import {
  decodeEntry,
  encodeEntry,
  layOut,
  PLACEMENTS,
  type QueueFields,
  type StoreLayout,
} from "./queue_placement.ts";

/** The default rule's store. */
export const DEFAULT_STORE: StoreLayout = layOut(PLACEMENTS.default, "areas");
export const SPACE1_BYTES = DEFAULT_STORE.bytes[1];
export const SPACE2_BYTES = DEFAULT_STORE.bytes[2];
export const SPACE3_BYTES = DEFAULT_STORE.bytes[3];

export interface Space1
  extends Pick<QueueFields, "wqeAddress" | "indexAddress" | "kind" | "state" | "valid" | "owner"> {
  /** The RNIC's own pointer. */
  readonly pointer: number;
}

export type Space2 = Pick<QueueFields, "depth" | "unitBytes">;

export function encodeSpace1({ pointer, ...info }: Space1): Uint8Array<ArrayBuffer> {
  return encodeEntry(DEFAULT_STORE, 1, { ...info, rnicPointer: pointer });
}

export function decodeSpace1(bytes: Uint8Array): Space1 {
  const { rnicPointer, ...info } = decodeEntry(DEFAULT_STORE, 1, bytes) as QueueFields;
  return { ...info, pointer: rnicPointer };
}

export function encodeSpace2(info: Space2): Uint8Array<ArrayBuffer> {
  return encodeEntry(DEFAULT_STORE, 2, info);
}

export function decodeSpace2(bytes: Uint8Array): Space2 {
  return decodeEntry(DEFAULT_STORE, 2, bytes) as Space2;
}

export function encodeSpace3({ pointer, stamp }: StampedPointer): Uint8Array<ArrayBuffer> {
  return encodeEntry(DEFAULT_STORE, 3, { hostPointer: pointer, stamp });
}

export function decodeSpace3(bytes: Uint8Array): StampedPointer {
  const { hostPointer, stamp } = decodeEntry(DEFAULT_STORE, 3, bytes) as QueueFields;
  return { pointer: hostPointer, stamp };
}
