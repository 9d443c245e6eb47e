import type { Fifo, ReadonlyFifo } from "../../../fabric/base/fifo.ts";

/**
 * State as its owner has it. Interfaces of protocol state are read-only, so that the compiler refuses a write
 * to their fields; the functions of this folder that change it use this type, and it is
 * imported nowhere else (`scripts/check/layers.ts`).
 */
export type Writable<T> = {
  -readonly [Name in keyof T]: T[Name] extends ReadonlyFifo<infer Item> ? Fifo<Item>
    : T[Name] extends ReadonlyMap<infer Key, infer Value> ? Map<Key, Value>
    : T[Name] extends readonly (infer Item)[] ? Item[]
    : T[Name];
};
