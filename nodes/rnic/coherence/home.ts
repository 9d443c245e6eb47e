/**
 * This card as home (C-06, C-08): the directory of its host's regions, and an agent on the host's bus. The protocol
 * itself is `fabric/coherence`.
 */
import { Fifo } from "../../../fabric/base/fifo.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { farLine } from "../../../fabric/coherence/far_card.ts";
import {
  canTake,
  homeBus,
  homeNextAt,
  homeReceive,
  homeWake,
  recallRegion,
} from "../../../fabric/coherence/home_card.ts";
import {
  type HomeCard,
  homeLine,
  homePlacement,
  newHomeCard,
} from "../../../fabric/coherence/home_card_state.ts";
import { BYTE_CONTENTS } from "../../../fabric/coherence/line_bytes.ts";
import {
  type BusMessage,
  type LineMessage,
  lineOf,
} from "../../../fabric/wire/host_bus/region_messages.ts";
import type {
  ControlMessage,
  LOST,
  WireMessage,
} from "../../../fabric/wire/roce/coherence_messages.ts";
import { COHERENCE_CODES } from "../../../fabric/wire/roce/coherence_eth.ts";
import { newOutput, type Output } from "../../../fabric/coherence/output.ts";
import type { Tables } from "../../../fabric/coherence/tables.ts";
import { PORTS } from "../../../fabric/node.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import {
  type CardLink,
  type Coherence,
  countOne,
  type HomeEnd,
  startingPlacement,
} from "./state/coherence_state.ts";
import { type Device, raiseEvent, sendReply } from "../state/device.ts";
import { connect, disconnect, greet, newLink, numbersOf, sendMessage } from "./link.ts";
import { auditLines, auditTurns } from "./audit.ts";
import { logLocalCache, noteLine } from "./kept_lines.ts";
import { firstLine, regionAt, reportFenced, reportLost } from "./report.ts";
import { spendConversion, spendLookUp } from "./timing.ts";
import { showHome, showToHost } from "./trace.ts";
import { endAccesses, endWriteBacks } from "./verb_ends.ts";

/**
 * The end of the card's own regions. @param life of this start of the card, greater than all earlier ones.
 * @param startedAt 0 at the run's begin: no earlier life has lent anything then.
 */
export function newHomeEnd(
  { regions, life, startedAt, tables }: {
    readonly regions: readonly SharedRegion[];
    readonly life: number;
    readonly startedAt: Time;
    readonly tables: Tables;
  },
): HomeEnd {
  const sum = (size: (region: SharedRegion) => number) =>
    regions.reduce((total, region) => total + size(region), 0);
  const lease = Math.max(...regions.map(({ leasePs }) => leasePs));
  const grace = Math.max(...regions.map(({ leaseMarginPs }) => leaseMarginPs));
  const card = newHomeCard({
    tables,
    size: {
      slots: sum((each) => each.slots),
      entries: sum((each) => each.entries),
      localCache: {
        lines: sum((each) => each.localCache),
        writeBacks: sum((each) => each.writeBacks),
      },
    },
    contents: BYTE_CONTENTS,
    regionOf: (line) => regionAt(regions, line)?.id ?? -1,
    life,
    times: { lease, grace },
  });
  for (const region of regions) {
    card.placements.set(region.id, startingPlacement(region));
    card.local.placements.set(region.id, { place: "remote", version: 0 });
  }
  return {
    card,
    regions,
    exposed: new Map(),
    links: new Map(),
    welcomes: new Map(),
    inbox: new Fifo(),
    greetings: new Map(),
    opensAt: startedAt === 0 ? 0 : startedAt + lease + grace,
    withdrawn: new Set(),
    closing: new Map(),
  };
}

/** True if the host has exposed or withdrawn each region: only then far cards get answers. */
function isComplete({ exposed, withdrawn, regions }: HomeEnd): boolean {
  return exposed.size + withdrawn.size === regions.length;
}

interface Place {
  readonly coherence: Coherence;
  readonly home: HomeEnd;
  readonly from: "bus" | "wire" | "card";
}

/** Steps home's protocol, at this time, and sends its outputs. */
export function actAtHome(
  device: Device,
  place: Place,
  does: (card: HomeCard, out: Output) => void,
): void {
  const { home: { card, inbox } } = place;
  card.now = device.now;
  const out = newOutput();
  does(card, out);
  while (inbox.length > 0 && canTake(card, inbox.peek()!)) homeReceive(card, inbox.shift()!, out);
  passOn(device, place, out);
}

function passOn(device: Device, { coherence, home, from }: Place, out: Output): void {
  const { card } = home;
  const isConverted = (from === "wire" && out.bus.length > 0) ||
    (from !== "wire" && out.wire.length > 0);
  if (isConverted) spendConversion(device);
  if (device.out.auditing) {
    const { regions } = home;
    auditLines(device, coherence, {
      cache: "local",
      regions,
      states: out.states,
    });
    auditTurns(device, { regions, turns: out.turns });
  }
  if (device.out.tracing) showHome(device, { coherence, home, changed: out.changed });
  for (const message of out.wire) send(device, { coherence, home }, message);
  for (const message of out.bus) sendOnBus(device, coherence, message);
  endAccesses(device, out.answers);
  endWriteBacks(device, home);
  logLocalCache(device, home);
  reportLost(device, coherence, { regions: home.regions, lost: out.lost });
  for (const { agent, region, counts: { loads, stores } } of out.counts) {
    raiseEvent(device, { type: "REGION_COUNTS", region, agent, loads, stores });
  }
  if (home.closing.size > 0) finishClosing(device, home);
  const { counters } = coherence;
  counters.localLinesMost = Math.max(counters.localLinesMost, card.local.lines.size);
  counters.directoryMost = Math.max(counters.directoryMost, card.lines.size);
}

/** A message of the host agent (C-08). */
export function takeLineMessage(
  device: Device,
  coherence: Coherence,
  { op, address, data }: LineMessage,
): void {
  const { home } = coherence;
  if (home === undefined) return;
  spendLookUp(device);
  countOne(coherence.counters.busReceived, op);
  const message: BusMessage = { kind: op, line: lineOf(address), data };
  actAtHome(device, { coherence, home, from: "bus" }, (card, out) => homeBus(card, message, out));
}

/** A message of a far card by its link. Requests wait for a slot; all others sink. */
export function takeOfFar(
  device: Device,
  { coherence, home }: { readonly coherence: Coherence; readonly home: HomeEnd },
  message: WireMessage,
): void {
  const region = regionAt(home.regions, message.line);
  const isOfLine = COHERENCE_CODES[message.kind].operation === "coherence-request";
  const isInside = region === regionAt(home.regions, message.line + (message.lines ?? 1) - 1);
  // A card without a part in the region may not access its lines.
  if (
    isOfLine &&
    (!isInside || region?.far.every(({ agent }) => agent !== message.agent) !== false)
  ) {
    coherence.counters.malformed++;
    return;
  }
  spendLookUp(device);
  if (message.kind === "Read" || message.kind === "Write") countLocal(coherence, home, message);
  actAtHome(device, { coherence, home, from: "wire" }, (card, out) => {
    if (isOfLine) home.inbox.push(message);
    else homeReceive(card, message, out);
  });
}

/** Counts whether the local cache has what an access needs, as it comes (C-06). */
function countLocal(
  { counters }: Coherence,
  { card }: HomeEnd,
  { kind, line }: WireMessage,
): void {
  const { state } = farLine(card.local, line);
  const isHit = state === "E" || state === "M" || (state === "S" && kind === "Read");
  if (isHit) counters.localHits++;
  else counters.localMisses++;
}

function send(
  device: Device,
  { coherence, home }: { readonly coherence: Coherence; readonly home: HomeEnd },
  message: WireMessage,
): void {
  const link = home.links.get(message.agent);
  if (link === undefined || link.life !== message.life) return;
  const { counters } = coherence;
  countOne(counters.sent, message.kind);
  if (message.kind === "RecI" || message.kind === "RecS") counters.recalls++;
  const region = message.region ?? regionAt(home.regions, message.line)?.id ?? 0;
  sendMessage(device, link, { message, region });
}

function sendOnBus(
  device: Device,
  { counters, regions }: Coherence,
  { kind, line, data }: BusMessage,
): void {
  countOne(counters.busSent, kind);
  if (device.out.tracing) {
    showToHost(device, regions, { step: `bus-${kind}`, text: `sends ${kind}`, line, data });
  }
  const message: LineMessage = { kind: "line", op: kind, address: line * LINE_BYTES };
  const content = data as typeof LOST | Uint8Array<ArrayBuffer> | undefined;
  const whole = content === undefined ? message : { ...message, data: content };
  noteLine(device, whole, device.out.send(PORTS.rnicBus, whole, device.stageAt));
}

// ── lives of far cards ───────────────────────────────────────────────────────────────────────────

/** A far card's greeting: a life begins, or its welcome was lost. */
export function takeHello(
  device: Device,
  { coherence, home, packet }: {
    readonly coherence: Coherence;
    readonly home: HomeEnd;
    readonly packet: RocePacket;
  },
  message: WireMessage,
): void {
  const { agent, life } = message;
  const isKnown = home.regions.some(({ far }) =>
    far.some((each) => each.agent === agent && each.address === packet.sourceAddress)
  );
  if (!isKnown) {
    coherence.counters.malformed++;
    return;
  }
  // Far cards may still serve lines that an earlier life of this card has lent, and the host's regions may not be
  // exposed yet.
  if (device.now < home.opensAt || !isComplete(home)) {
    home.greetings.set(agent, packet);
    return;
  }
  const known = home.links.get(agent), welcome = home.welcomes.get(agent);
  if (known?.life === life && welcome !== undefined) {
    return greet(device, coherence, { link: known, message: welcome });
  }
  spendLookUp(device);
  actAtHome(device, { coherence, home, from: "wire" }, (card, out) => {
    homeReceive(card, message, out);
    const at = out.wire.findIndex((each) => each.kind === "Welcome" && each.agent === agent);
    if (at < 0) return;
    const [taken] = out.wire.splice(at, 1);
    // A greeting names no line, so no region's placement.
    const { placement: _, region: __, ...answer } = taken!;
    leave(device, coherence, home);
    const peer = packet.sourceAddress;
    const link = newLink(device, coherence, { role: "home", peer, agent, life });
    connect(device, coherence, { link, peer: numbersOf(packet) });
    home.links.set(agent, link);
    home.welcomes.set(agent, answer);
    countOne(coherence.counters.sent, "Welcome");
    greet(device, coherence, { link, message: answer });
    // Accesses that its cores wait for are served first.
    for (const region of home.withdrawn) askToLeave(device, home, { link, region });
  });
}

function leave(device: Device, coherence: Coherence, home: HomeEnd): void {
  for (const [agent, link] of [...home.links]) {
    if (home.card.lives.get(agent) === link.life) continue;
    disconnect(device, coherence, link);
    home.links.delete(agent);
    home.welcomes.delete(agent);
    const regions = home.regions.filter(({ far }) => far.some((each) => each.agent === agent));
    reportFenced(device, coherence, { regions, agent });
  }
}

/** A far card registers a region, or leaves it (C-03, decision 21). */
export function takeRegistration(
  device: Device,
  { home, link, region }: {
    readonly home: HomeEnd;
    readonly link: CardLink;
    readonly region: number;
  },
  message: ControlMessage,
): void {
  const { agent, life } = link;
  const pair = { agent, life, homeLife: home.card.life };
  if (message.kind === "Deregister") {
    sendMessage(device, link, { message: { kind: "Deregistered", ...pair }, region });
    for (const each of home.closing.values()) if (each.region === region) each.waits.delete(agent);
    return finishClosing(device, home);
  }
  if (message.kind !== "Register") return;
  const shared = home.exposed.get(region);
  const isGood = shared?.far.some((each) => each.agent === agent) === true &&
    shared.bytes === message.bytes;
  const line = isGood ? firstLine(shared) : 0;
  sendMessage(device, link, {
    message: {
      kind: "Registered",
      ...pair,
      result: isGood ? "done" : "refused",
      line,
      bytes: shared?.bytes ?? 0,
      placement: homePlacement(home.card, line),
    },
    region,
  });
}

export function isClosing({ closing }: HomeEnd, id: number): boolean {
  return [...closing.values()].some(({ region }) => region === id);
}

/**
 * The host has deregistered a region: far cards are asked to leave it, and its lines come home. Requests that far
 * cards have sent by then are served, so each of them ends; later ones are refused.
 */
export function closeRegion(
  device: Device,
  { coherence, home, region }: {
    readonly coherence: Coherence;
    readonly home: HomeEnd;
    readonly region: number;
  },
  command: number,
): void {
  home.withdrawn.add(region);
  const waits = new Set<number>();
  for (const link of home.links.values()) {
    if (askToLeave(device, home, { link, region })) waits.add(link.agent);
  }
  const { lease, grace } = home.card.times ?? { lease: 0, grace: 0 };
  home.closing.set(command, { region, waits, endsAt: device.now + lease + grace });
  actAtHome(device, { coherence, home, from: "bus" }, (card, out) => {
    recallRegion(card, region, out);
  });
  finishClosing(device, home);
}

/** @returns whether the far card has a part in the region, and a link to be told by. */
function askToLeave(
  device: Device,
  { card, regions }: HomeEnd,
  { link, region }: { readonly link: CardLink; readonly region: number },
): boolean {
  const { agent, life, isFailed } = link;
  const shared = regions.find(({ id }) => id === region);
  if (isFailed || !shared?.far.some((each) => each.agent === agent)) return false;
  const message = { kind: "Deregister", agent, life, homeLife: card.life } as const;
  sendMessage(device, link, { message, region });
  return true;
}

/** Answers deregistrations whose last line is home, and which all far cards have left. */
export function finishClosing(device: Device, home: HomeEnd): void {
  const { card, closing, links } = home;
  for (const [id, { region, waits, endsAt }] of closing) {
    if (device.now >= endsAt) waits.clear();
    for (const agent of waits) if (links.get(agent)?.isFailed !== false) waits.delete(agent);
    if (waits.size > 0) continue;
    const isOfRegion = (line: number) => card.regionOf(line) === region;
    // Lines that were lent while the last far cards left come home, too.
    const left = [...card.lines.keys()].filter(isOfRegion);
    if (left.some((line) => !card.purges.has(line) && homeLine(card, line).phase === "idle")) {
      const { coherence } = device;
      if (coherence === undefined) continue;
      actAtHome(device, { coherence, home, from: "card" }, (its, out) => {
        recallRegion(its, region, out);
      });
      // The calls above have called this function again.
      return;
    }
    if (left.length > 0 || [...card.local.lines.keys()].some(isOfRegion)) continue;
    closing.delete(id);
    sendReply(device, id, { status: "ok", op: "done" });
  }
}

// ── time ─────────────────────────────────────────────────────────────────────────────────────────

export function homeWakeAt(home: HomeEnd): Time {
  const { card, greetings, opensAt } = home;
  const isShut = greetings.size > 0 && isComplete(home);
  let next = Math.min(homeNextAt(card), isShut ? opensAt : NEVER);
  for (const { waits, endsAt } of home.closing.values()) {
    if (waits.size > 0) next = Math.min(next, endsAt);
  }
  return next;
}

/** Does the work that is due: renewals, leases that end, greetings that have waited. */
export function wakeHome(device: Device, coherence: Coherence, home: HomeEnd): void {
  if (device.now >= homeNextAt(home.card)) {
    actAtHome(device, { coherence, home, from: "card" }, homeWake);
    leave(device, coherence, home);
  }
  if (device.now >= home.opensAt) openHome(device, home);
  if (home.closing.size > 0) finishClosing(device, home);
}

/** Takes greetings that have waited, once nothing more holds them up. */
export function openHome(device: Device, home: HomeEnd): void {
  if (home.greetings.size === 0 || !isComplete(home)) return;
  const waiting = [...home.greetings.values()];
  home.greetings.clear();
  for (const packet of waiting) device.up.takeGreeting(device, packet);
}
