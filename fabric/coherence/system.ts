/**
 * One home with its cores, its card, and far cards, joined by links that deliver on request. Explorer
 * and random tester drive it; it is the real code, and only the links are models (decision 8):
 *
 * - for each far card queue pairs REQ, SNP and RSP (one each way), each in order, with no order between
 *   them;
 * - on the bus a grant goes before a later snoop of its line; messages of a class and a line keep their
 *   order, and no others do.
 */
import { type CacheSize, type FarCard, farReceive, newFarCard } from "./far_card.ts";
import { type HomeCard, type HomeSize, newHomeCard, type ServiceOrder } from "./home_card_state.ts";
import { canTake, homeBus, homeReceive } from "./home_card.ts";
import { type HostAgent, hostReceive, newHostAgent } from "./host_agent.ts";
import type { LeaseTimes } from "./lease.ts";
import type { Answer, Contents } from "./access.ts";
import { BUS_MESSAGES, type BusMessage } from "../wire/host_bus/region_messages.ts";
import type { Data, WireMessage } from "../wire/roce/coherence_messages.ts";
import { COHERENCE_CODES } from "../wire/roce/coherence_eth.ts";
import { newOutput, type Output, type Turn } from "./output.ts";
import { TABLES, type Tables } from "./tables.ts";

/** Behaviour of links; mutations change it. */
export interface Links {
  /** On the bus: whether a snoop may go ahead of an earlier grant of its line. */
  readonly snoopPassesGrant?: boolean;
  /** True if RSP of far cards is out of order. */
  readonly unorderedAnswers?: boolean;
  /** Changes or removes a message on its way between cards. */
  readonly wire?: (message: WireMessage, system: System) => WireMessage | null;
  /** Changes or removes a message on the bus. */
  readonly bus?: (message: BusMessage, system: System) => BusMessage | null;
  /** Changes a message between cards when it arrives. */
  readonly arriving?: (message: WireMessage, system: System) => WireMessage;
}

export interface SystemSize {
  readonly fars: number;
  readonly lines: number;
  readonly home: HomeSize;
  readonly remoteCache: CacheSize;
}

/** Queues between home's card and one far card; the first message of each is next. */
export interface Wire {
  readonly req: WireMessage[];
  readonly snp: WireMessage[];
  readonly up: WireMessage[];
  readonly down: WireMessage[];
  /** Messages are lost. */
  readonly isCut: boolean;
  /** Messages were lost, so the far card's life has to end (`faults.ts`). */
  readonly isDoomed: boolean;
  /** The far card has no power. */
  readonly isOff: boolean;
}

export interface System {
  readonly size: SystemSize;
  readonly links: Links;
  readonly host: HostAgent;
  readonly home: HomeCard;
  /** Agent 1 first. */
  readonly fars: FarCard[];
  readonly wires: Wire[];
  /** In the order of sending. */
  readonly toHost: BusMessage[];
  readonly toHome: BusMessage[];
  /** The failed part of home that has not started again. */
  outage: null | "card" | "host";
}

/** Results of a step besides messages. */
export interface Events {
  /** `by`: 0 for a verb at home's card, a far card's number, or -1 for home's core. */
  readonly answers: { readonly by: number; readonly answer: Answer }[];
  readonly lost: number[];
  /** Home's card's. */
  readonly turns?: readonly Turn[];
}

export const HOST = -1;

/** All lines are in one region, so they move together. */
const ONE_REGION = () => 0;

export function newSystem(
  { size, tables = TABLES, links = {}, contents, initial, directory = "card", times, order }: {
    readonly size: SystemSize;
    readonly tables?: Tables;
    readonly links?: Links;
    readonly contents: Contents;
    readonly initial: (line: number) => Data;
    readonly directory?: "card" | "memory";
    /** Times of leases; without them their ends are events. */
    readonly times?: LeaseTimes;
    readonly order?: ServiceOrder;
  },
): System {
  const agents = Array.from({ length: size.fars }, (_, index) => index + 1);
  const home = newHomeCard({
    tables,
    size: size.home,
    contents,
    regionOf: ONE_REGION,
    times: times ?? null,
    ...(order !== undefined && { order }),
  });
  for (const agent of agents) {
    home.lives.set(agent, 0);
    home.lastLives.set(agent, 0);
  }
  return {
    size,
    links,
    host: newHostAgent({
      table: tables.host,
      contents,
      initial,
      directoryOf: () => directory,
    }),
    home,
    fars: agents.map((agent) => ({
      ...newFarCard({
        agent,
        table: tables.far,
        contents,
        size: size.remoteCache,
        regionOf: ONE_REGION,
        ...(times !== undefined && { lease: times }),
      }),
      homeLife: home.life,
      isUp: true,
    })),
    wires: agents.map(() => ({
      req: [],
      snp: [],
      up: [],
      down: [],
      isCut: false,
      isDoomed: false,
      isOff: false,
    })),
    toHost: [],
    toHome: [],
    outage: null,
  };
}

function forkCard(card: FarCard): FarCard {
  return {
    ...card,
    lines: new Map(card.lines),
    waiting: [...card.waiting],
    active: new Map(card.active),
    placements: new Map(card.placements),
  };
}

/** A copy that shares only immutable parts. */
export function fork(system: System): System {
  const { host, home } = system;
  return {
    size: system.size,
    links: system.links,
    host: {
      ...host,
      lines: new Map(host.lines),
      waiting: [...host.waiting],
      counts: { ...host.counts },
    },
    home: {
      ...home,
      lines: new Map(home.lines),
      local: forkCard(home.local),
      requests: [...home.requests],
      placements: new Map(home.placements),
      purges: new Set(home.purges),
      lives: new Map(home.lives),
      lastLives: new Map(home.lastLives),
    },
    fars: system.fars.map(forkCard),
    wires: system.wires.map(({ req, snp, up, down, ...its }) => ({
      ...its,
      req: [...req],
      snp: [...snp],
      up: [...up],
      down: [...down],
    })),
    toHost: [...system.toHost],
    toHome: [...system.toHome],
    outage: system.outage,
  };
}

/** A message that can be delivered now. */
export interface Delivery {
  readonly from: "req" | "snp" | "up" | "down" | "toHost" | "toHome";
  /** For a far card's queues. */
  readonly agent?: number;
  readonly index: number;
}

/** All possible next messages, each in the order that its link keeps. */
export function deliveries(system: System): Delivery[] {
  const found: Delivery[] = [];
  for (const [at, wire] of system.wires.entries()) {
    const agent = at + 1;
    const request = wire.req[0];
    const isTaken = request !== undefined && system.outage === null;
    if (isTaken && canTake(system.home, request)) {
      found.push({ from: "req", agent, index: 0 });
    }
    if (wire.snp.length > 0) found.push({ from: "snp", agent, index: 0 });
    if (wire.down.length > 0) found.push({ from: "down", agent, index: 0 });
    const answers = system.links.unorderedAnswers ? wire.up.length : Math.min(1, wire.up.length);
    for (let index = 0; index < answers; index++) found.push({ from: "up", agent, index });
  }
  for (const [index, message] of system.toHost.entries()) {
    if (isNext(system.toHost, index, (other) => isSameClass(other, message))) {
      found.push({ from: "toHost", index });
    }
  }
  for (const [index, message] of system.toHome.entries()) {
    const isSnoop = BUS_MESSAGES[message.kind].class === "snoop";
    const keeps = (other: BusMessage) =>
      isSameClass(other, message) || (isSnoop && !system.links.snoopPassesGrant);
    if (isNext(system.toHome, index, keeps)) found.push({ from: "toHome", index });
  }
  return found;
}

function isSameClass(a: BusMessage, b: BusMessage): boolean {
  return BUS_MESSAGES[a.kind].class === BUS_MESSAGES[b.kind].class;
}

/** True if no earlier message of its line has to go before it. */
function isNext(
  queue: readonly BusMessage[],
  index: number,
  keepsOrder: (other: BusMessage) => boolean,
): boolean {
  for (let at = 0; at < index; at++) {
    const other = queue[at];
    if (other?.line === queue[index]?.line && other !== undefined && keepsOrder(other)) {
      return false;
    }
  }
  return true;
}

/** Takes a message from its link and gives it to its receiver. */
export function deliver(system: System, { from, agent = 0, index }: Delivery): Events {
  if (from === "toHost" || from === "toHome") {
    const [message] = system[from].splice(index, 1);
    if (message === undefined) return { answers: [], lost: [] };
    return from === "toHost"
      ? act(system, HOST, (out) => hostReceive(system.host, message, out))
      : act(system, 0, (out) => homeBus(system.home, message, out));
  }
  const wire = system.wires[agent - 1], card = system.fars[agent - 1];
  const [sent] = wire?.[from].splice(index, 1) ?? [];
  if (sent === undefined || card === undefined) return { answers: [], lost: [] };
  const message = system.links.arriving?.(sent, system) ?? sent;
  return from === "req" || from === "up"
    ? act(system, 0, (out) => homeReceive(system.home, message, out))
    : act(system, agent, (out) => farReceive(card, message, out));
}

/** Lets one device act, and puts its messages on their links. */
export function act(system: System, by: number, does: (out: Output) => void): Events {
  const out = newOutput();
  does(out);
  const { links, outage } = system;
  for (const sent of outage === null ? out.bus : []) {
    const message = links.bus === undefined ? sent : links.bus(sent, system);
    if (message === null) continue;
    // The notice changes no state, so its order does not matter.
    if (message.kind === "BusDirty") hostReceive(system.host, message, newOutput());
    else (by === HOST ? system.toHome : system.toHost).push(message);
  }
  for (const sent of out.wire) {
    const message = links.wire === undefined ? sent : links.wire(sent, system);
    if (message !== null && arrives(system, message)) queueOf(system, by, message)?.push(message);
  }
  const { lost, turns } = out;
  return { answers: out.answers.map((answer) => ({ by, answer })), lost, turns };
}

function arrives({ wires, outage }: System, { agent, kind }: WireMessage): boolean {
  const wire = wires[agent - 1];
  if (wire === undefined || wire.isCut || wire.isOff) return false;
  return outage === null || kind === "Hello";
}

function queueOf(system: System, by: number, message: WireMessage): WireMessage[] | undefined {
  const wire = system.wires[message.agent - 1];
  const { operation } = COHERENCE_CODES[message.kind];
  if (operation === "coherence-request") return wire?.req;
  if (operation === "coherence-snoop") return wire?.snp;
  return by === 0 ? wire?.down : wire?.up;
}

/** No message is on its way, and no access waits. */
export function isQuiet({ host, home, fars, wires, toHost, toHome, outage }: System): boolean {
  if (outage !== null) return false;
  if (toHost.length + toHome.length + host.waiting.length + home.requests.length > 0) return false;
  if (home.purges.size > 0) return false;
  for (const [at, { req, snp, up, down, isDoomed }] of wires.entries()) {
    if (req.length + snp.length + up.length + down.length > 0) return false;
    if (isDoomed && fars[at]?.isUp) return false;
  }
  for (const { phase, snoop } of home.lines.values()) {
    if (phase !== "idle" || snoop !== null) return false;
  }
  for (const { agent, waiting, active, lines, isUp } of [home.local, ...fars]) {
    // A card that cannot be reached, and that home has given up.
    const { isCut = false, isOff = false } = wires[agent - 1] ?? {};
    if (isOff && waiting.length > 0) return false;
    if (!isUp && !home.lives.has(agent) && (isCut || isOff)) continue;
    if (waiting.length + active.size > 0 || !isUp) return false;
    for (const { state } of lines.values()) if (!/^[SEM]$/.test(state)) return false;
  }
  return true;
}
