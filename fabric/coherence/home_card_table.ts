/**
 * HC, one line of the home card's directory, which is also a caching agent on home's bus (decision 2). After
 * `coherence_protocol.md`, "Tables", **HC**: a row for each event, a column for `d` = I or S (*free*) and one for
 * `d` = X(o) (*owned*), for each phase; the quotation above a group of rows is its line.
 *
 * One transaction per line at a time (decision 3): `serving`. Its phases: P0 waits for the bus's grant, P1 for
 * far cards' answers, P2 for the bus's completion of a write-back, P3 for the requester's `Complete`. `snoop` is
 * the bus's snoop: it waits for the end of the transaction, or is served in idle or P0; its phase is then
 * `snooped`.
 */
import type { Agent, Data, WireKind, WireMessage } from "../wire/roce/coherence_messages.ts";
import type { BusKind, BusMessage } from "../wire/host_bus/region_messages.ts";
import type { Table } from "./table.ts";

/** Of a line's transaction. */
export type HomePhase = "idle" | "P0" | "P1" | "P2" | "P3";
export const DEMANDS = ["GetS", "GetM", "Put", "Flush", "Purge"] as const;
/**
 * A request with a transaction of its own; `Purge` is the card's own, for a migration or a
 * directory entry.
 */
export type Demand = typeof DEMANDS[number];
export const HOME_EVENTS = [
  ...DEMANDS,
  "InvAck",
  "RecIData",
  "RecSData",
  "Complete",
  "Dirty",
  "GrantS",
  "GrantE",
  "Cmp",
  "SnpInv",
  "SnpData",
] as const;
/** Events at home's card: requests, far cards' answers, messages of the bus. */
export type HomeEvent = typeof HOME_EVENTS[number];

/** The directory's owner if no agent has the line exclusively. */
export const NONE: Agent = -1;

/** Home's card's state of a line. */
export interface HomeLine {
  /** `b`: the card's right on the bus, at least as strong as all rights that it has lent. */
  readonly right: "I" | "S" | "X";
  /** `d` = S(set): a bit for each agent. */
  readonly sharers: number;
  /** `d` = X(o), else {@link NONE}. */
  readonly owner: Agent;
  /** For X(o): o has reported a write; E counts as perhaps M until then (decision 10). */
  readonly dirty: boolean;
  /** The transaction's phase. */
  readonly phase: HomePhase;
  /** The transaction in service: the request, its agent and that agent's life. */
  readonly serving: { readonly kind: Demand; readonly agent: Agent; readonly life: number } | null;
  /** Agents that have not yet answered, in P1 or to a snoop: a bit for each. */
  readonly waiting: number;
  /** The bus's snoop: served now, or at the transaction's end. */
  readonly snoop: { readonly kind: "SnpInv" | "SnpData"; readonly isServed: boolean } | null;
  /** Data on its way from the bus to the requester, or back. */
  readonly data: Data | undefined;
}

export const NEW_HOME_LINE: HomeLine = {
  right: "I",
  sharers: 0,
  owner: NONE,
  dirty: false,
  phase: "idle",
  serving: null,
  waiting: 0,
  snoop: null,
  data: undefined,
};

/** A message to the bus, or to an agent. */
export type HomeSend =
  | { readonly to: "bus"; readonly kind: BusKind; readonly data?: Data | undefined }
  | {
    readonly to: Agent;
    readonly kind: WireKind;
    readonly data?: Data | undefined;
    /** The agent's life at its request; absent: the message is for any life. */
    readonly life?: number;
  };

/** A row's effect. */
export interface HomeMove {
  /** The new line. */
  readonly line: HomeLine;
  /** Messages, in order. */
  readonly send?: readonly HomeSend[];
}

/** The message's sender, its life, and content. */
export type HomeInput = Partial<Pick<WireMessage, "agent" | "life">> & Pick<BusMessage, "data">;
/** Home's card's reaction to an event, a function of line and message alone. */
export type HomeRow = (line: HomeLine, message: HomeInput) => HomeMove;
/** A phase, or a served snoop; whether the line is lent to one agent exclusively. */
export type HomeState = `${HomePhase | "snooped"} ${"free" | "owned"}`;
/** Rows of home's card, by state and event. */
export type HomeTable = Table<HomeState, HomeEvent, HomeRow>;

/** Phase and column of the page's table. */
export function homeState(line: HomeLine): HomeState {
  const phase = line.snoop?.isServed ? "snooped" : line.phase;
  return `${phase} ${line.owner === NONE ? "free" : "owned"}`;
}

/** Agents of a set, in order. */
export function agentsOf(set: number): Agent[] {
  const agents: Agent[] = [];
  for (let agent = 0; set >> agent !== 0; agent++) if (set >> agent & 1) agents.push(agent);
  return agents;
}

// ── parts of rows ────────────────────────────────────────────────────────────────────────────────

/** `d` = I. */
const UNLENT = { sharers: 0, owner: NONE, dirty: false } as const;
const IDLE = { phase: "idle", serving: null, waiting: 0, data: undefined } as const;

function begun(line: HomeLine, kind: Demand, { agent = NONE, life = 0 }: HomeInput): HomeLine {
  return { ...line, serving: { kind, agent, life } };
}

function toAll(set: number, kind: WireKind): HomeSend[] {
  return agentsOf(set).map((to) => ({ to, kind }));
}

function toRequester(line: HomeLine, kind: WireKind, data?: Data): HomeSend[] {
  const { agent = NONE, life = 0 } = line.serving ?? {};
  return [{ to: agent, kind, data, life }];
}

function requester(line: HomeLine): Agent {
  return line.serving?.agent ?? NONE;
}

// ── idle ─────────────────────────────────────────────────────────────────────────────────────────

/** "RdData, P0" and "RdInvOwn, P0". */
const askBus =
  (kind: "GetS" | "GetM", send: "RdData" | "RdInvOwn"): HomeRow => (line, message) => ({
    line: { ...begun(line, kind, message), phase: "P0" },
    send: [{ to: "bus", kind: send }],
  });

/**
 * "RecS to o, P1" and "RecI to o, P1". The owner never asks (Races: "new request before WbAck").
 */
const recall = (kind: Demand, send: "RecS" | "RecI"): HomeRow => (line, message) => ({
  line: { ...begun(line, kind, message), phase: "P1", waiting: 1 << line.owner },
  send: [{ to: line.owner, kind: send }],
});

/** "Drop the data, WbAck": the line was recalled, and lent again behind the recall's write-back. */
const dropPut: HomeRow = (line, { agent = NONE, life = 0 }) => ({
  line,
  send: [{ to: agent, kind: "WbAck", life }],
});

/**
 * A Put of a line that is not lent exclusively. The page answers at once; but after a recall for a
 * snoop, `RspI` with the content may still be on the bus, and an acknowledged write-back is
 * promised persistent (decision 12). So the card asks the bus first.
 */
const dropPutLate: HomeRow = (line, message) => ({
  line: { ...begun(line, "Put", message), phase: "P2" },
  send: [{ to: "bus", kind: "BusFlush" }],
});

/** "o = f: `d` = I, WbMtoI, P2 … o ≠ f: drop, WbAck." */
const takePut: HomeRow = (line, message) =>
  line.owner !== message.agent ? dropPut(line, message) : {
    line: { ...begun(line, "Put", message), ...UNLENT, right: "I", phase: "P2" },
    send: [{ to: "bus", kind: "WbMtoI", data: message.data }],
  };

/**
 * Decision 12: at most home's own copy is dirty; the host agent cleans it and reports when memory
 * has it.
 */
const flushHome: HomeRow = (line, message) => ({
  line: { ...begun(line, "Flush", message), phase: "P2" },
  send: [{ to: "bus", kind: "BusFlush" }],
});

/** Decisions 9 and 18: a line is purged by an ordinary transaction. */
const purgeShared: HomeRow = (line, message) =>
  line.sharers === 0 ? { line: { ...line, right: "I" } } : {
    line: { ...begun(line, "Purge", message), phase: "P1", waiting: line.sharers },
    send: toAll(line.sharers, "Inv"),
  };

// ── the bus's snoops ─────────────────────────────────────────────────────────────────────────────

/** "SnpInv in idle or P0: Inv to all, acks → RspI, `d` = `b` = I." */
const snoopInvalidate: HomeRow = (line) =>
  line.sharers === 0 ? { line: { ...line, right: "I" }, send: [{ to: "bus", kind: "RspI" }] } : {
    line: { ...line, snoop: { kind: "SnpInv", isServed: true }, waiting: line.sharers },
    send: toAll(line.sharers, "Inv"),
  };

/** "SnpData … S: RspS; I: RspI." */
const snoopShared: HomeRow = (line) =>
  line.sharers === 0
    ? { line: { ...line, right: "I" }, send: [{ to: "bus", kind: "RspI" }] }
    : { line, send: [{ to: "bus", kind: "RspS" }] };

/** "RecI → RspI + data" and "RecS → RspS + data". */
const snoopOwner = (kind: "SnpInv" | "SnpData", send: "RecI" | "RecS"): HomeRow => (line) => ({
  line: { ...line, snoop: { kind, isServed: true }, waiting: 1 << line.owner },
  send: [{ to: line.owner, kind: send }],
});

/** "Else deferred." */
const defer = (kind: "SnpInv" | "SnpData"): HomeRow => (line) => ({
  line: { ...line, snoop: { kind, isServed: false } },
});

/** "Inv to all, acks → RspI." */
const snoopAcked: HomeRow = (line, { agent = NONE }) => {
  const waiting = line.waiting & ~(1 << agent);
  return waiting !== 0 ? { line: { ...line, waiting } } : {
    line: { ...line, ...UNLENT, right: "I", waiting, snoop: null },
    send: [{ to: "bus", kind: "RspI" }],
  };
};

/** "RspI + data, `d` = `b` = I"; also to SnpData, "if o answers as to RecI". */
const snoopRecalled: HomeRow = (line, { data }) => ({
  line: { ...line, ...UNLENT, right: "I", waiting: 0, snoop: null },
  send: [{ to: "bus", kind: "RspI", data }],
});

/** "RspS + data, `d` = S{o}, `b` = S." */
const snoopLeftShared: HomeRow = (line, { data, agent = NONE }) => ({
  line: { ...line, ...UNLENT, sharers: 1 << agent, right: "S", waiting: 0, snoop: null },
  send: [{ to: "bus", kind: "RspS", data }],
});

// ── P0 to P3 ─────────────────────────────────────────────────────────────────────────────────────

/** "`d` = S + f, DataS to f, P3." */
function lendShared(line: HomeLine, data: Data | undefined): HomeMove {
  const sharers = line.sharers | 1 << requester(line);
  return {
    line: { ...line, sharers, right: "S", phase: "P3", data: undefined },
    send: toRequester(line, "DataS", data),
  };
}

/** "`d` = X(f), DataE, P3." */
function lendOwned(line: HomeLine, data: Data | undefined): HomeMove {
  const owner = requester(line);
  return {
    line: { ...line, ...UNLENT, owner, right: "X", phase: "P3", waiting: 0, data: undefined },
    send: toRequester(line, "DataE", data),
  };
}

const granted: HomeRow = (line, { data }) => lendShared(line, data);

/** "DataE → Inv to the others, P1." */
const grantedOwned: HomeRow = (line, { data }) => {
  const others = line.sharers & ~(1 << requester(line));
  return others === 0 ? lendOwned(line, data) : {
    line: { ...line, right: "X", phase: "P1", waiting: others, data },
    send: toAll(others, "Inv"),
  };
};

/** "Inv to the others, P1 → `d` = X(f), DataE, P3"; of a purge: no cache has the line. */
const invalidated: HomeRow = (line, { agent = NONE }) => {
  const waiting = line.waiting & ~(1 << agent);
  if (waiting !== 0) return { line: { ...line, waiting } };
  if (line.serving?.kind === "GetM") return lendOwned(line, line.data);
  return { line: { ...line, ...UNLENT, ...IDLE, right: "I" } };
};

/** "Data → WbMtoS, P2"; `d` = S{o}, as o has kept S. */
const leftShared: HomeRow = (line, { data, agent = NONE }) => ({
  line: { ...line, ...UNLENT, sharers: 1 << agent, right: "S", phase: "P2", waiting: 0, data },
  send: [{ to: "bus", kind: "WbMtoS", data }],
});

/**
 * "Data → WbMtoE, P2"; WbMtoS for a reader whose owner answered as to RecI; WbMtoI if no agent gets
 * the line.
 */
const KEPT = {
  GetS: ["S", "WbMtoS"],
  GetM: ["X", "WbMtoE"],
  Put: ["I", "WbMtoI"],
  Flush: ["I", "WbMtoI"],
  Purge: ["I", "WbMtoI"],
} as const satisfies Record<Demand, readonly [HomeLine["right"], BusKind]>;
const recalled: HomeRow = (line, { data }) => {
  const [right, kind] = KEPT[line.serving?.kind ?? "Purge"];
  return {
    line: { ...line, ...UNLENT, right, phase: "P2", waiting: 0, data },
    send: [{ to: "bus", kind, data }],
  };
};

/** "Cmp → DataS, P3", "Cmp → DataE, P3", "Cmp → WbAck": memory has the promised data by now. */
const completed: HomeRow = (line, { data }) => {
  const done: HomeLine = { ...line, ...IDLE };
  switch (line.serving?.kind) {
    case "GetS":
      return lendShared(line, line.data);
    case "GetM":
      return lendOwned(line, line.data);
    case "Put":
      return { line: done, send: toRequester(line, "WbAck") };
    case "Flush":
      // Poison in memory is not the promised content: the flush reports it.
      return { line: done, send: toRequester(line, "FlushAck", data) };
    default:
      return { line: done };
  }
};

/** "Complete(f): P3 → idle." */
const finished: HomeRow = (line) => ({ line: { ...line, ...IDLE } });

/** "Dirty(f): mark dirty, tell the CPU", where o = f. */
const dirtied: HomeRow = (line, { agent }) =>
  line.owner !== agent
    ? { line }
    : { line: { ...line, dirty: true }, send: [{ to: "bus", kind: "BusDirty" }] };
/** "Ignored": it is late; another transaction has dealt with the line. */
const ignored: HomeRow = (line) => ({ line });

// ── the table ────────────────────────────────────────────────────────────────────────────────────

const DEFERRED = { SnpInv: defer("SnpInv"), SnpData: defer("SnpData") } as const;

/** Every row of home's card. */
export const HOME_TABLE: HomeTable = {
  "idle free": {
    GetS: askBus("GetS", "RdData"),
    GetM: askBus("GetM", "RdInvOwn"),
    Put: dropPutLate,
    Flush: flushHome,
    Purge: purgeShared,
    SnpInv: snoopInvalidate,
    SnpData: snoopShared,
    Dirty: ignored,
  },
  "idle owned": {
    GetS: recall("GetS", "RecS"),
    GetM: recall("GetM", "RecI"),
    Put: takePut,
    Flush: recall("Flush", "RecS"),
    Purge: recall("Purge", "RecI"),
    SnpInv: snoopOwner("SnpInv", "RecI"),
    SnpData: snoopOwner("SnpData", "RecS"),
    Dirty: dirtied,
  },
  // "In idle or P0": the snoop that crosses the card's own request (Races).
  "P0 free": {
    GrantS: granted,
    GrantE: grantedOwned,
    SnpInv: snoopInvalidate,
    SnpData: snoopShared,
    Dirty: ignored,
  },
  // The page's P0 has one column: a card that owns the line asks nothing of the bus.
  "P0 owned": {},
  "snooped free": { InvAck: snoopAcked, Dirty: ignored },
  "snooped owned": { RecIData: snoopRecalled, RecSData: snoopLeftShared, Dirty: dirtied },
  "P1 free": { InvAck: invalidated, Dirty: ignored, ...DEFERRED },
  "P1 owned": { RecIData: recalled, RecSData: leftShared, Dirty: dirtied, ...DEFERRED },
  "P2 free": { Cmp: completed, Dirty: ignored, ...DEFERRED },
  // `d` = X(o) ends before P2.
  "P2 owned": {},
  "P3 free": { Complete: finished, Dirty: ignored, ...DEFERRED },
  "P3 owned": { Complete: finished, Dirty: ignored, ...DEFERRED },
};
