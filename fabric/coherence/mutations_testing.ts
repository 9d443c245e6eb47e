/**
 * For tests only: breaks of the protocol, one at a time, each of which the exploration has to find (C-12). A
 * mutation that is not found says that a rule is not needed, or that nothing looks.
 */
import { type Exploration, type Explored, exploring } from "./explore.ts";
import type { FarEvent, FarRow, FarState } from "./far_card_table.ts";
import {
  HOME_TABLE,
  type HomeEvent,
  type HomeRow,
  type HomeSend,
  type HomeState,
  NONE,
} from "./home_card_table.ts";
import { HOST_TABLE, type HostEvent, type HostPhase, type HostRow } from "./host_agent_table.ts";
import { isOwn, type Request, type ServiceOrder } from "./home_card_state.ts";
import { LOST } from "../wire/roce/coherence_messages.ts";
import { COHERENCE_CODES } from "../wire/roce/coherence_eth.ts";
import type { Links, SystemSize } from "./system.ts";
import { TABLES, type Tables } from "./tables.ts";

export interface Mutation {
  /** What is broken. */
  readonly name: string;
  readonly exploration: Exploration;
}

/** Explores to the end. */
export function explore(given: Exploration): Explored {
  const search = exploring(given);
  for (;;) {
    const { done, value } = search.next();
    if (done) return value;
  }
}

/** The smallest of each kind: one place in each cache, one entry, one slot, one buffer. */
export function smallest(fars: number, lines = 1): SystemSize {
  const one = { lines: 1, writeBacks: 1 };
  return { fars, lines, remoteCache: one, home: { slots: 1, entries: 1, localCache: one } };
}

type Broken = Omit<Exploration, "size" | "tables" | "links">;

function far(state: FarState, event: FarEvent, row: FarRow | undefined): Tables {
  const rows = { ...TABLES.far[state], [event]: row };
  return { ...TABLES, far: { ...TABLES.far, [state]: rows } };
}

function home(rows: Partial<Record<HomeState, Partial<Record<HomeEvent, HomeRow>>>>): Tables {
  const broken = { ...TABLES.home };
  for (const [state, each] of Object.entries(rows)) {
    broken[state as HomeState] = { ...broken[state as HomeState], ...each };
  }
  return { ...TABLES, home: broken };
}

function host(phase: HostPhase, event: HostEvent, row: HostRow | undefined): Tables {
  const rows = { ...TABLES.host[phase], [event]: row };
  return { ...TABLES, host: { ...TABLES.host, [phase]: rows } };
}

function withTables(name: string, tables: Tables, also: Broken & { fars?: number } = {}): Mutation {
  const { fars = 1, ...given } = also;
  return { name, exploration: { size: smallest(fars), tables, ...given } };
}

function withLinks(name: string, links: Links, also: Broken & { fars?: number } = {}): Mutation {
  const { fars = 1, ...given } = also;
  return { name, exploration: { size: smallest(fars), links, ...given } };
}

/** The real code, and an order of service that is not fair. */
function withOrder(
  name: string,
  order: ServiceOrder,
  { size, ...given }: Broken & { readonly size: SystemSize },
): Mutation {
  return { name, exploration: { size, order, ...given } };
}

/** Requests of which this holds go ahead of all others. */
const first = (goes: (request: Request) => boolean): ServiceOrder => (requests) => [
  ...requests.filter(goes),
  ...requests.filter((each) => !goes(each)),
];

// ── parts of broken rows ─────────────────────────────────────────────────────────────────────────

/** The row of the real table. */
function real(state: HomeState, event: HomeEvent): HomeRow {
  const row = HOME_TABLE[state][event];
  if (row === undefined) throw new Error(`${state} has no ${event}`);
  return row;
}

function realHost(phase: HostPhase, event: HostEvent): HostRow {
  const row = HOST_TABLE[phase][event];
  if (row === undefined) throw new Error(`${phase} has no ${event}`);
  return row;
}

const nothing: HomeRow = (line) => ({ line });
const IDLE = { phase: "idle", serving: null, waiting: 0, data: undefined } as const;

/** The row, with more messages. */
const andSend =
  (row: HomeRow, more: (...of: Parameters<HomeRow>) => HomeSend): HomeRow => (...of) => {
    const { line, send = [] } = row(...of);
    return { line, send: [...send, more(...of)] };
  };

/** The row, without its messages of a kind. */
const without = (row: HomeRow, kind: string): HomeRow => (...of) => {
  const { line, send = [] } = row(...of);
  return { line, send: send.filter((each) => each.kind !== kind) };
};

/** The row, but the line is idle at once. */
const atOnce = (row: HomeRow): HomeRow => (...of) => {
  const { line, send = [] } = row(...of);
  return { line: { ...line, ...IDLE }, send };
};

const acknowledges =
  (kind: "WbAck" | "FlushAck"): HomeRow => (line, { agent = NONE, life = 0 }) => ({
    line,
    send: [{ to: agent, kind, life }],
  });

const OWN: Broken = { with: ["own"] };
const FLUSH: Broken = { with: ["flush"] };
const MOVES: Broken = { with: ["moves"] };
const LOSSES: Broken = { with: ["losses"] };

// ── the list ─────────────────────────────────────────────────────────────────────────────────────

const FAR_MUTATIONS: readonly Mutation[] = [
  withTables(
    "an invalidation is acknowledged, and S stays",
    far("S", "Inv", { next: "S", send: "InvAck" }),
  ),
  withTables("an invalidation of S is not acknowledged", far("S", "Inv", { next: "I" })),
  withTables("a card without the line does not acknowledge", far("I", "Inv", undefined)),
  withTables(
    "a reader that waits does not acknowledge an invalidation",
    far("IS", "Inv", { next: "IS" }),
  ),
  withTables(
    "an upgrade that has lost against another store keeps its copy",
    far("SM", "Inv", { next: "SM", send: "InvAck" }),
  ),
  withTables(
    "an S line is written without ownership",
    far("S", "store", { next: "M", serves: true }),
  ),
  withTables("the requester does not complete", far("IS", "DataS", { next: "S" })),
  withTables("a store's requester does not complete", far("IM", "DataE", { next: "E" })),
  withTables("E becomes M without a message", far("E", "store", { next: "M", serves: true })),
  withTables("E is evicted in silence", far("E", "evict", { next: "I" }), OWN),
  withTables("M is evicted in silence", far("M", "evict", { next: "I" })),
  withTables("a new request goes out before WbAck", far("M", "evict", { next: "I", send: "Put" })),
  withTables(
    "a recall finds a write-back, and gets no data",
    far("MI", "RecI", { next: "II", send: "InvAck" }),
  ),
  withTables("a recall to share leaves M", far("M", "RecS", { next: "M", send: "RecSData" })),
  withTables("a recall leaves S", far("M", "RecI", { next: "S", send: "RecIData" })),
  withTables("a write-back that was acknowledged leaves a copy", far("MI", "WbAck", { next: "S" })),
  withTables("a read's data give E", far("IS", "DataS", { next: "E", send: "Complete" })),
  withTables("the end of the lease leaves S", far("S", "fence", { next: "S" }), LOSSES),
  withTables("the end of the lease leaves M", far("M", "fence", { next: "M" }), LOSSES),
  withTables("the end of the lease leaves E", far("E", "fence", { next: "E" }), {
    with: ["own", "losses"],
  }),
  withTables("M is dropped without a report", far("M", "fence", { next: "I" }), LOSSES),
  withTables(
    "a write-back that is not acknowledged is dropped without a report",
    far("MI", "fence", { next: "I" }),
    LOSSES,
  ),
];

const HOME_MUTATIONS: readonly Mutation[] = [
  withTables(
    "WbAck before Cmp",
    home({
      "idle owned": {
        Put: andSend(
          real("idle owned", "Put"),
          (_, { agent = NONE, life = 0 }) => ({ to: agent, kind: "WbAck", life }),
        ),
      },
      "P2 free": { Cmp: without(real("P2 free", "Cmp"), "WbAck") },
    }),
  ),
  withTables(
    "a late write-back is acknowledged while the snoop's answer is on its way (the page's row)",
    home({ "idle free": { Put: acknowledges("WbAck") } }),
  ),
  withTables(
    "a flush is answered without asking the host agent",
    home({ "idle free": { Flush: acknowledges("FlushAck") } }),
    FLUSH,
  ),
  withTables(
    "a flush is answered before Cmp",
    home({
      "P1 owned": {
        RecSData: andSend(real("P1 owned", "RecSData"), ({ serving }) => ({
          to: serving?.agent ?? NONE,
          kind: "FlushAck",
        })),
      },
    }),
    FLUSH,
  ),
  withTables(
    "a write-back that passed a recall is taken for the owner's",
    home({
      "idle owned": {
        Put: (line, message) =>
          real("idle owned", "Put")({ ...line, owner: message.agent ?? NONE }, message),
      },
    }),
    { fars: 2 },
  ),
  withTables(
    "other sharers are not invalidated",
    home({
      "P0 free": {
        GrantE: (line, message) => real("P0 free", "GrantE")({ ...line, sharers: 0 }, message),
      },
    }),
    { fars: 2 },
  ),
  withTables(
    "ownership is granted at the first acknowledgement",
    home({
      "P0 free": { SnpInv: real("P0 free", "SnpInv") },
      "snooped free": {
        InvAck: (line, message) =>
          real("snooped free", "InvAck")({ ...line, waiting: 1 << (message.agent ?? 0) }, message),
      },
    }),
    { fars: 2 },
  ),
  withTables(
    "data are sent without waiting for Complete",
    home({
      "P0 free": { GrantS: atOnce(real("P0 free", "GrantS")) },
      "idle free": { Complete: nothing },
      "idle owned": { Complete: nothing },
    }),
  ),
  withTables(
    "ownership is sent without waiting for Complete",
    home({
      "P0 free": { GrantE: atOnce(real("P0 free", "GrantE")) },
      "idle free": { Complete: nothing },
      "idle owned": { Complete: nothing },
    }),
  ),
  withTables(
    "the bus's snoop waits in P0",
    home({ "P0 free": { SnpInv: real("P1 free", "SnpInv"), SnpData: real("P1 free", "SnpData") } }),
  ),
  withTables(
    "the bus's snoop is served in P3",
    home({ "P3 owned": { SnpInv: real("idle owned", "SnpInv") } }),
  ),
  withTables(
    "the bus's snoop is served in P1",
    home({ "P1 owned": { SnpInv: real("idle owned", "SnpInv") } }),
    { fars: 2 },
  ),
  withTables(
    "the bus's snoop of an owned line is answered without a recall",
    home({ "idle owned": { SnpData: (line) => ({ line, send: [{ to: "bus", kind: "RspS" }] }) } }),
  ),
  withTables(
    "the bus's snoop of a shared line is answered without invalidations",
    home({ "idle free": { SnpInv: (line) => ({ line, send: [{ to: "bus", kind: "RspI" }] }) } }),
  ),
  withTables(
    "the answer to the bus's snoop has no data",
    home({
      "snooped owned": {
        RecIData: (line) => real("snooped owned", "RecIData")(line, { data: undefined }),
      },
    }),
  ),
  withTables(
    "a late Dirty counts in P3",
    home({
      "P3 owned": { Dirty: (line) => ({ line: { ...line, dirty: true } }) },
    }),
    OWN,
  ),
  withTables("Dirty is ignored", home({ "idle owned": { Dirty: nothing } })),
  withTables(
    "who was recalled to share is forgotten",
    home({
      "P1 owned": {
        RecSData: (line, message) => {
          const move = real("P1 owned", "RecSData")(line, message);
          return { ...move, line: { ...move.line, sharers: 0 } };
        },
      },
    }),
    { fars: 2 },
  ),
  withTables(
    "data go from the owner to the reader before they are in memory",
    home({
      "P1 owned": {
        RecSData: (line, message) => {
          const moved = real("P1 owned", "RecSData")(line, message);
          const lent = real("P2 free", "Cmp")({ ...moved.line, phase: "P2" }, message);
          return { line: lent.line, send: [...moved.send ?? [], ...lent.send ?? []] };
        },
      },
      "P3 free": { Cmp: nothing },
      "idle free": { Cmp: nothing },
    }),
    { fars: 2 },
  ),
  withTables(
    "a purge does not wait for acknowledgements",
    home({
      "idle free": {
        Purge: (line, message) => {
          const { line: purged, send = [] } = real("idle free", "Purge")(line, message);
          return { line: { ...purged, ...IDLE, sharers: 0, right: "I" }, send };
        },
        InvAck: nothing,
      },
      "P0 free": { InvAck: nothing },
      "P3 free": { InvAck: nothing },
    }),
    MOVES,
  ),
  withTables(
    "the copy moves without a purge",
    home({ "idle free": { Purge: nothing }, "idle owned": { Purge: nothing } }),
    MOVES,
  ),
];

const HOST_MUTATIONS: readonly Mutation[] = [
  withTables(
    "a grant leaves the LLC's dirty line out",
    host("none", "RdData", (line) => ({
      line: { ...line, phase: "S", llc: line.llc === "I" ? "I" : "S" },
      send: "GrantS",
    })),
  ),
  withTables(
    "ownership leaves a copy in the LLC",
    host("none", "RdInvOwn", (line) => {
      const { line: granted } = realHost("none", "RdInvOwn")(line, {});
      return { line: { ...granted, llc: line.llc === "I" ? "I" : "S" }, send: "GrantE" };
    }),
  ),
  withTables(
    "home stores to a shared line without a snoop",
    host("S", "store", realHost("none", "store")),
  ),
  withTables("home reads a line that the card owns", host("X", "load", realHost("S", "load"))),
  withTables("home's load takes an owned line with a snoop that shares, and keeps E", {
    ...host("busy X", "RspS", realHost("busy X", "RspI")),
  }),
  withTables(
    "a write-back is not absorbed while a core waits",
    host("busy X", "WbMtoI", (line) => ({ line })),
  ),
  withTables(
    "Cmp before memory has the data",
    host("X", "WbMtoI", (line) => ({ line: { ...line, phase: "none" }, send: "Cmp" })),
  ),
  withTables(
    "the card's read is granted while a core waits",
    host("busy S", "RdData", realHost("S", "RdData")),
  ),
  withTables(
    "the card's read that waited is forgotten",
    host("busy S", "RdData", (line) => ({ line })),
  ),
  withTables(
    "the snoop's data are dropped",
    host("busy X", "RspI", (line) => realHost("busy X", "RspI")(line, {})),
  ),
  withTables(
    "a flush passes the snoop's answer",
    host("busy X", "BusFlush", (line) => ({ line, send: "Cmp" })),
  ),
  withTables(
    "a flush leaves the LLC dirty",
    host("none", "BusFlush", (line) => ({ line, send: "Cmp" })),
    FLUSH,
  ),
  withTables(
    "home's clwb does not recall",
    host("X", "flush", (line) => ({ line, serves: true })),
    FLUSH,
  ),
  withTables(
    "a core that waits for a card that has died is not answered",
    host("busy S", "cardLost", (line) => ({ line: { ...line, phase: "none", queued: null } })),
    LOSSES,
  ),
  withTables(
    "what a dead card had alone is not poisoned for a core that waits",
    host("busy X", "cardLost", realHost("busy S", "cardLost")),
    LOSSES,
  ),
  withTables(
    "what a dead card had alone is not poisoned",
    host("X", "cardLost", realHost("S", "cardLost")),
    LOSSES,
  ),
];

const LINK_MUTATIONS: readonly Mutation[] = [
  withLinks("a snoop passes a grant on the bus", { snoopPassesGrant: true }),
  withLinks("Complete and Dirty pass each other", { unorderedAnswers: true }),
  withLinks("an invalidation is lost on the wire", {
    wire: (message) => message.kind === "Inv" ? null : message,
  }),
  {
    name: "a flush of two lines ends with the first",
    exploration: {
      size: smallest(1, 2),
      links: {
        wire: (message) => message.kind === "FlushRange" ? { ...message, lines: 1 } : message,
      },
      with: ["range"],
    },
  },
  withLinks("an acknowledgement of a write-back is lost on the wire", {
    wire: (message) => message.kind === "WbAck" ? null : message,
  }),
  withLinks("a grant carries an old value", {
    wire: (message) => message.kind === "DataS" ? { ...message, data: 0 } : message,
  }),
  withLinks("a recall's answer carries an old value", {
    wire: (message) => message.kind === "RecIData" ? { ...message, data: 0 } : message,
  }),
  withLinks("a card does not say which placement it believes in", {
    wire: ({ placement, ...message }) =>
      message.agent === 1 || placement === undefined ? message : { ...message, placement },
  }, { ...MOVES, fars: 2 }),
  withLinks("a lost line keeps its old content", {
    bus: (message) => message.data === LOST ? { ...message, data: undefined } : message,
  }, LOSSES),
  withLinks("home's lease ends before the far card's", {}, { ...LOSSES, isEarly: "home's card" }),
  withLinks("home starts again before leases are over", {}, { ...LOSSES, isEarly: "home's host" }),
  withLinks("home welcomes a card that comes back, and keeps what it has lent to it", {
    arriving: (message, { home }) => {
      if (message.kind === "Hello") home.lives.delete(message.agent);
      return message;
    },
  }, LOSSES),
  withLinks("home's card takes messages of an earlier life", {
    arriving: (message, { home }) =>
      message.kind === "Hello"
        ? message
        : { ...message, life: home.lives.get(message.agent) ?? -1 },
  }, LOSSES),
  withLinks("a far card takes messages of an earlier life", {
    arriving: (message, { fars, home }) => {
      const card = fars[message.agent - 1];
      const isDown = COHERENCE_CODES[message.kind].operation === "coherence-snoop" ||
        /^(Data|Wb)/.test(message.kind);
      return isDown && card !== undefined
        ? { ...message, life: card.life, homeLife: home.life }
        : message;
    },
  }, LOSSES),
];

const TWO_SLOTS = { ...smallest(2).home, slots: 2 };

const ORDER_MUTATIONS: readonly Mutation[] = [
  withOrder("verbs go ahead of far cards", first(isOwn), { size: smallest(1), with: ["verbs"] }),
  withOrder("the last request is served first", (requests) => requests.toReversed(), {
    size: { ...smallest(2), home: TWO_SLOTS },
    with: ["verbs"],
  }),
];

/** More of them, which take some seconds each. */
export const SLOW_MUTATIONS: readonly Mutation[] = [
  withOrder("far cards go ahead of verbs", first((each) => !isOwn(each)), {
    size: { ...smallest(2), home: TWO_SLOTS },
    with: ["verbs"],
  }),
  withOrder("a far card goes ahead of another", first(({ message: { agent } }) => agent === 1), {
    size: { ...smallest(2), home: TWO_SLOTS },
  }),
  withOrder("readers go ahead of writers", first(({ message: { kind } }) => kind === "GetS"), {
    size: { ...smallest(2), home: TWO_SLOTS },
  }),
];

export const MUTATIONS: readonly Mutation[] = [
  ...FAR_MUTATIONS,
  ...HOME_MUTATIONS,
  ...HOST_MUTATIONS,
  ...LINK_MUTATIONS,
  ...ORDER_MUTATIONS,
];
