/**
 * FC, one line of a remote cache (C-07), or of home's local cache, which is agent 0 of the same protocol
 * (decision 6). After `coherence_protocol.md`, "Tables", **FC**; the quotation above a group of rows is its
 * line.
 *
 * Stable: I S E M (C-05). Transient: IS, IM, SM (a miss or an upgrade), MI (evicted, its `Put` is not
 * answered), II (the same, and recalled meanwhile).
 */
import type { WireKind } from "../wire/roce/coherence_messages.ts";
import type { Table } from "./table.ts";

/** State of a line in a remote cache. */
export type FarState = "I" | "S" | "E" | "M" | "IS" | "IM" | "SM" | "MI" | "II";

/** `load`, `store`: of a core. `evict`: the cache needs the place. `fence`: the lease is over (decision 13). */
export const FAR_EVENTS = [
  "load",
  "store",
  "evict",
  "fence",
  "DataS",
  "DataE",
  "WbAck",
  "Retry",
  "Inv",
  "RecI",
  "RecS",
] as const;
/** Events of a remote cache's line: an access, an eviction or fence, a message of home's card. */
export type FarEvent = typeof FAR_EVENTS[number];

/** A cache's reaction to an event, as data, comparable with the page's table. */
export interface FarRow {
  /** The new state. */
  readonly next: FarState;
  /** To home's card. */
  readonly send?: WireKind;
  /** The core's access is done by it. */
  readonly serves?: true;
  /**
   * The line's last value may have been here alone and is lost: it is reported (decisions 13, 14).
   */
  readonly loses?: true;
}

/** Rows of remote caches, by state and event. */
export type FarTable = Table<FarState, FarEvent, FarRow>;

/** Decision 13: "stops serving"; 14: "drops all and reports its M lines". */
const DROPPED: FarRow = { next: "I" };
const REPORTED: FarRow = { next: "I", loses: true };

/** Every row of a remote cache. */
export const FAR_TABLE: FarTable = {
  I: {
    // "Load: I → IS, GetS. Store: I → IM … GetM."
    load: { next: "IS", send: "GetS" },
    store: { next: "IM", send: "GetM" },
    // "I, IS, IM stay; InvAck": S was evicted silently, and home cannot know.
    Inv: { next: "I", send: "InvAck" },
  },
  S: {
    load: { next: "S", serves: true },
    // "S → SM, GetM": an S line is written only after ownership.
    store: { next: "SM", send: "GetM" },
    // "Evict: S in silence."
    evict: { next: "I" },
    // "Inv: S → I."
    Inv: { next: "I", send: "InvAck" },
    fence: DROPPED,
  },
  E: {
    load: { next: "E", serves: true },
    // "E → M, Dirty": a named message, which the store does not wait for (decision 10).
    store: { next: "M", send: "Dirty", serves: true },
    // "E, M → MI, Put(data)."
    evict: { next: "MI", send: "Put" },
    // "RecI: E, M → I, … data. RecS: E, M → S, data."
    RecI: { next: "I", send: "RecIData" },
    RecS: { next: "S", send: "RecSData" },
    fence: DROPPED,
  },
  M: {
    load: { next: "M", serves: true },
    store: { next: "M", serves: true },
    evict: { next: "MI", send: "Put" },
    RecI: { next: "I", send: "RecIData" },
    RecS: { next: "S", send: "RecSData" },
    fence: REPORTED,
  },
  IS: {
    // "DataS: IS → S, Complete."
    DataS: { next: "S", send: "Complete" },
    Inv: { next: "IS", send: "InvAck" },
    // Decision 18: the placement has moved; the access asks again.
    Retry: { next: "I" },
    fence: DROPPED,
  },
  IM: {
    // "DataE: IM, SM → E, Complete": the store itself is row E, store.
    DataE: { next: "E", send: "Complete" },
    Inv: { next: "IM", send: "InvAck" },
    Retry: { next: "I" },
    fence: DROPPED,
  },
  SM: {
    // Decision 8: "an upgrade carries data always", so it does not matter whether S was lost meanwhile.
    DataE: { next: "E", send: "Complete" },
    // "SM → IM": the upgrade loses against another store (Races).
    Inv: { next: "IM", send: "InvAck" },
    Retry: { next: "S" },
    fence: DROPPED,
  },
  // "A line in MI is not readable and starts no new request": no rows for load, store, evict.
  MI: {
    // "WbAck: MI, II → I."
    WbAck: { next: "I" },
    // "RecI: MI → II; data. RecS: MI → II, answers as to RecI, with data."
    RecI: { next: "II", send: "RecIData" },
    RecS: { next: "II", send: "RecIData" },
    fence: REPORTED,
  },
  II: {
    WbAck: { next: "I" },
    fence: DROPPED,
  },
};
