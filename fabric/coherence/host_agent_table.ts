/**
 * HA, one line at the home agent beside home's memory controller: the one ordering point (decision 2). After
 * `coherence_protocol.md`, "Tables", **HA**; the quotation above a group of rows is its line.
 *
 * Its state is `hd`, what the home card has (none, S, X), and whether a core waits for a snoop (busy); beside
 * them the LLC's state of the line (C-05: in the CPU's cache, too), memory's content, and the home card's
 * request that waits.
 */
import type { BusKind, BusMessage } from "../wire/host_bus/region_messages.ts";
import type { Data } from "../wire/roce/coherence_messages.ts";
import type { Table } from "./table.ts";

/** The home card's right to a line: none, S or X; and whether a core waits for a snoop. */
export type HostPhase = `${"" | "busy "}${"none" | "S" | "X"}`;
export const HOST_EVENTS = [
  "load",
  "store",
  "flush",
  "evict",
  "cardLost",
  "RdData",
  "RdInvOwn",
  "WbMtoI",
  "WbMtoS",
  "WbMtoE",
  "BusFlush",
  "RspI",
  "RspS",
] as const;
/** Events at the home agent: a core's access, an eviction of the LLC, a message of home's card. */
export type HostEvent = typeof HOST_EVENTS[number];

/** The home agent's state of a line. */
export interface HostLine {
  /** The home card's right, and whether a core waits for a snoop. */
  readonly phase: HostPhase;
  /** The LLC's state of it. */
  readonly llc: "I" | "S" | "E" | "M";
  /** The LLC's content, if it has the line. */
  readonly cached: Data;
  /**
   * The content that the memory controller has accepted: in SCM durable under ADR (decision 12).
   */
  readonly memory: Data;
  /** The home card's request that came while a core waited. */
  readonly queued: "RdData" | "RdInvOwn" | "BusFlush" | null;
}

/** A row's effect. */
export interface HostMove {
  /** The new line. */
  readonly line: HostLine;
  /** To home's card. */
  readonly send?: BusKind;
  /** The core's access is done on the new line. */
  readonly serves?: true;
  /** The core's waiting access meets the new line, then the card's queued request does. */
  readonly resumes?: true;
}

/** The home agent's reaction to an event, a function of line and message alone. */
export type HostRow = (line: HostLine, message: Pick<BusMessage, "data">) => HostMove;
/** Rows of the home agent, by state and event. */
export type HostTable = Table<HostPhase, HostEvent, HostRow>;

export function newHostLine(memory: Data): HostLine {
  return { phase: "none", llc: "I", cached: memory, memory, queued: null };
}

/** "LLC's dirty line → memory", and the LLC's state after it. */
function cleaned(line: HostLine, llc: HostLine["llc"]): HostLine {
  return { ...line, memory: line.llc === "M" ? line.cached : line.memory, llc };
}

function filled(line: HostLine, llc: HostLine["llc"]): HostLine {
  return { ...line, llc, cached: line.llc === "I" ? line.memory : line.cached };
}

// ── rows ─────────────────────────────────────────────────────────────────────────────────────────

/** "`hd` none: at once." The core writes {@link HostLine.cached} of a line that is then M. */
const loadAlone: HostRow = (line) => ({
  line: filled(line, line.llc === "I" ? "E" : line.llc),
  serves: true,
});
const storeAlone: HostRow = (line) => ({ line: filled(line, "M"), serves: true });
/** "Load at S: S." */
const loadShared: HostRow = (line) => ({ line: filled(line, "S"), serves: true });
/** "Load at X: SnpData, busy. Store at S or X: SnpInv, busy." `clwb` recalls as a load does (decision 12). */
const snoopFor = (send: "SnpData" | "SnpInv"): HostRow => (line) => ({
  line: { ...line, phase: `busy ${line.phase}` as HostPhase },
  send,
});
const flushed: HostRow = (line) => ({
  line: cleaned(line, line.llc === "M" ? "E" : line.llc),
  serves: true,
});
const evicted: HostRow = (line) => ({ line: cleaned(line, "I") });

/** "Else LLC's dirty line → memory, LLC → S / I, `hd` → S / X, DataS / DataE." */
const grantShared: HostRow = (line) => {
  const clean = cleaned(line, line.llc === "I" ? "I" : "S");
  return { line: { ...clean, phase: "S" }, send: "GrantS" };
};
const grantOwned: HostRow = (line) => ({
  line: { ...cleaned(line, "I"), phase: "X" },
  send: "GrantE",
});
/** "RdData / RdInvOwn: busy: queue." */
const queue = (queued: "RdData" | "RdInvOwn" | "BusFlush"): HostRow => (line) => ({
  line: { ...line, queued },
});

/** "WbMtoI / S / E: absorbed even when busy: memory, `hd` none / S / X, Cmp." */
const absorb = (phase: HostPhase): HostRow => (line, { data }) => ({
  line: { ...line, memory: data ?? line.memory, phase },
  send: "Cmp",
});
/**
 * A flush of the far side (decision 12), absorbed like a write-back. The page has no message for
 * it. At `busy X` it has overtaken the snoop's answer, which has the content: it waits for that.
 */
const busFlush: HostRow = (line) => ({
  line: cleaned(line, line.llc === "M" ? "E" : line.llc),
  send: "Cmp",
});
/** "RspI / RspS (+ data): memory, `hd` none / S, finish the CPU's access, dequeue." */
const answered = (phase: HostPhase): HostRow => (line, { data }) => ({
  line: { ...line, memory: data ?? line.memory, phase },
  resumes: true,
});

/**
 * Decision 14: the record poisons exclusively lent lines; a waiting core goes on, and finds the
 * poison.
 */
const cardLost = (data: "kept" | "lost"): HostRow => (line) => {
  const memory = data === "lost" ? "lost" : line.memory;
  const left: HostLine = { ...line, memory, phase: "none", queued: null };
  return line.phase.startsWith("busy") ? { line: left, resumes: true } : { line: left };
};

// ── the table ────────────────────────────────────────────────────────────────────────────────────

const BUSY = { RdData: queue("RdData"), RdInvOwn: queue("RdInvOwn") } as const;

/** Every row of the home agent. */
export const HOST_TABLE: HostTable = {
  none: {
    load: loadAlone,
    store: storeAlone,
    flush: flushed,
    evict: evicted,
    RdData: grantShared,
    RdInvOwn: grantOwned,
    BusFlush: busFlush,
    cardLost: cardLost("kept"),
  },
  S: {
    load: loadShared,
    store: snoopFor("SnpInv"),
    flush: flushed,
    evict: evicted,
    // The card may have dropped its S silently: it asks again.
    RdData: grantShared,
    RdInvOwn: grantOwned,
    BusFlush: busFlush,
    cardLost: cardLost("kept"),
  },
  X: {
    load: snoopFor("SnpData"),
    store: snoopFor("SnpInv"),
    flush: snoopFor("SnpData"),
    WbMtoI: absorb("none"),
    WbMtoS: absorb("S"),
    WbMtoE: absorb("X"),
    cardLost: cardLost("lost"),
  },
  // A write-back was absorbed while the core waited.
  "busy none": {
    ...BUSY,
    BusFlush: busFlush,
    RspI: answered("none"),
    cardLost: cardLost("kept"),
  },
  "busy S": {
    ...BUSY,
    BusFlush: busFlush,
    RspI: answered("none"),
    RspS: answered("S"),
    cardLost: cardLost("kept"),
  },
  "busy X": {
    ...BUSY,
    WbMtoI: absorb("busy none"),
    WbMtoS: absorb("busy S"),
    WbMtoE: absorb("busy X"),
    BusFlush: queue("BusFlush"),
    RspI: answered("none"),
    RspS: answered("S"),
    cardLost: cardLost("lost"),
  },
};
