import type { Fifo, ReadonlyFifo } from "../../../fabric/base/fifo.ts";

/**
 * The owner's view of state. Interfaces of protocol state are read-only, so that the compiler refuses a write to
 * their fields; only the functions of this folder that change it import this type (`scripts/check/layers.ts`).
 */
export type Writable<T> = {
  -readonly [Name in keyof T]: T[Name] extends ReadonlyFifo<infer Item> ? Fifo<Item>
    : T[Name] extends ReadonlyMap<infer Key, infer Value> ? Map<Key, Value>
    : T[Name] extends readonly (infer Item)[] ? Item[]
    : T[Name];
};
