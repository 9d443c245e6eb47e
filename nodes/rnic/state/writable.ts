import type { Fifo, ReadonlyFifo } from "../../../fabric/base/fifo.ts";

/**
 * Write access to read-only state, for the functions of this folder alone
 * (`scripts/check/layers.ts`).
 */
export type Writable<T> = {
  -readonly [Name in keyof T]: T[Name] extends ReadonlyFifo<infer Item> ? Fifo<Item>
    : T[Name] extends ReadonlyMap<infer Key, infer Value> ? Map<Key, Value>
    : T[Name] extends readonly (infer Item)[] ? Item[]
    : T[Name];
};
