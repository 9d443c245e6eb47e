/**
 * This card as a far card (C-07): accesses of its host's cores to regions of another host, which come as
 * non-coherent requests (decision 2), and messages of home's card. The protocol itself is `fabric/coherence`.
 */
import { PORTS } from "../../../fabric/node.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import {
  canEvict,
  evict,
  farAccess,
  type FarCard,
  farLine,
  farNextAt,
  farPlacement,
  farReceive,
  farWake,
  fence,
  newFarCard,
} from "../../../fabric/coherence/far_card.ts";
import type { FarTable } from "../../../fabric/coherence/far_card_table.ts";
import { BYTE_CONTENTS } from "../../../fabric/coherence/line_bytes.ts";
import type { ControlMessage, WireMessage } from "../../../fabric/wire/roce/coherence_messages.ts";
import { formatAddress } from "../../../fabric/trace/describe.ts";
import type { Answer } from "../../../fabric/coherence/access.ts";
import { COHERENCE_CODES } from "../../../fabric/wire/roce/coherence_eth.ts";
import { newOutput, type Output } from "../../../fabric/coherence/output.ts";
import { JUDGE_PLAN, type SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import { Fifo } from "../../../fabric/base/fifo.ts";
import type { FarAccess } from "../../../fabric/wire/host_bus/region_messages.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import {
  type CardLink,
  type Coherence,
  countOne,
  type FarEnd,
  forgetRequests,
  startingPlacement,
} from "./state/coherence_state.ts";
import { type Device, sendReply } from "../state/device.ts";
import {
  connect,
  disconnect,
  greet,
  GREETING_PS,
  GREETINGS,
  newLink,
  numbersOf,
  sendMessage,
} from "./link.ts";
import { auditLines } from "./audit.ts";
import { logRemoteCache } from "./kept_lines.ts";
import { firstLine, linesOf, regionAt, reportFenced, reportLost } from "./report.ts";
import { spendConversion, spendLookUp } from "./timing.ts";
import { showFar, showToHost } from "./trace.ts";

/** Requests that one message answers, which gives their credit back. */
const ANSWERS: ReadonlySet<string> = new Set([
  "DataS",
  "DataE",
  "WbAck",
  "FlushAck",
  "Retry",
  "Value",
]);

/** The end of a home's regions. @param life greater than all earlier ones of this card. */
export function newFarEnd(
  { home, regions, agent, life, table }: {
    readonly home: number;
    readonly regions: readonly SharedRegion[];
    readonly agent: number;
    readonly life: number;
    readonly table: FarTable;
  },
): FarEnd {
  const sum = (size: (region: SharedRegion) => number) =>
    regions.reduce((total, region) => total + size(region), 0);
  // The shortest lease: home's card waits for the longest.
  const lease = Math.min(...regions.map(({ leasePs }) => leasePs));
  const grace = Math.min(...regions.map(({ leaseMarginPs }) => leaseMarginPs));
  const card = newFarCard({
    agent,
    table,
    contents: BYTE_CONTENTS,
    size: { lines: sum((each) => each.remoteCache), writeBacks: sum((each) => each.writeBacks) },
    regionOf: (line) => regionAt(regions, line)?.id ?? -1,
    lease: { lease, grace },
    life,
    window: windowOf(regions),
  });
  return {
    home,
    card,
    regions,
    slots: sum((each) => each.slots),
    link: undefined,
    registered: new Map(),
    asked: new Map(),
    left: new Set(),
    recalled: new Set(),
    accesses: new Map(),
    nextTicket: 1,
    outbox: new Fifo(),
    credits: 0,
    greeting: undefined,
    renewAt: NEVER,
    readable: new Set(),
  };
}

/**
 * The window in which the card counts accesses for home's judge, the same for all regions that it judges: none
 * where the scenario fixes the place.
 */
function windowOf(regions: readonly SharedRegion[]): Time {
  const judged = regions.find(({ placement }) => placement === "auto");
  return judged === undefined ? NEVER : (judged.judge ?? JUDGE_PLAN).windowPs;
}

function act(
  device: Device,
  { coherence, far, from }: {
    readonly coherence: Coherence;
    readonly far: FarEnd;
    readonly from: "bus" | "wire" | "card";
  },
  does: (card: FarCard, out: Output) => void,
): void {
  const { card } = far;
  const { isUp: wasUp, life } = card;
  card.now = device.now;
  const out = newOutput();
  does(card, out);
  if (far.asked.size > 0) evictLeaving(far, out);
  if (from === "bus" && out.wire.length > 0) spendConversion(device);
  if (from === "wire" && out.answers.length > 0) spendConversion(device);
  if (device.out.auditing) {
    auditLines(device, coherence, {
      cache: "remote",
      regions: far.regions,
      states: out.states,
    });
  }
  if (device.out.tracing) showFar(device, { coherence, far, changed: out.changed });
  for (const message of out.wire) send(device, { coherence, far }, message);
  sendRequests(device, coherence, far);
  for (const answer of out.answers) answerCore(device, far, answer);
  tellGone(device, far, out);
  reportLost(device, coherence, { regions: far.regions, lost: out.lost });
  if (wasUp && card.life !== life) {
    reportFenced(device, coherence, { regions: far.regions, agent: card.agent });
  }
  if (far.asked.size > 0) tellLeft(device, coherence, far);
  const { counters } = coherence;
  counters.remoteLinesMost = Math.max(counters.remoteLinesMost, card.lines.size);
  logRemoteCache(device, far);
}

/** A core's access (C-06, C-07). */
export function takeFarAccess(device: Device, coherence: Coherence, access: FarAccess): void {
  spendLookUp(device);
  const { tag, region, line: index, op, change, lines = 1 } = access;
  let far: FarEnd | undefined;
  for (const each of coherence.fars.values()) if (each.registered.has(region)) far ??= each;
  const shared = far?.regions.find(({ id }) => id === region);
  if (
    far === undefined || shared === undefined || index + lines > linesOf(shared) ||
    far.asked.has(region)
  ) {
    answerTo(device, tag, { result: "refused" });
    return;
  }
  const line = far.registered.get(region)! + index;
  const ticket = far.nextTicket++;
  far.accesses.set(ticket, { tag, region });
  const { state } = farLine(far.card, line);
  const isHit = state === "E" || state === "M" || (state === "S" && op === "load");
  if (isHit) coherence.counters.remoteHits++;
  else if (op !== "flush") coherence.counters.remoteMisses++;
  act(
    device,
    { coherence, far, from: "bus" },
    (card, out) => farAccess(card, { kind: op, line, change, ticket, lines }, out),
  );
}

/** A message of home's card. */
export function takeOfHome(
  device: Device,
  { coherence, far }: { readonly coherence: Coherence; readonly far: FarEnd },
  message: WireMessage,
): void {
  spendLookUp(device);
  if (ANSWERS.has(message.kind) && message.life === far.card.life) far.credits--;
  act(device, { coherence, far, from: "wire" }, (card, out) => farReceive(card, message, out));
}

function send(
  device: Device,
  { coherence, far }: { readonly coherence: Coherence; readonly far: FarEnd },
  message: WireMessage,
): void {
  if (message.kind === "Hello") return beginGreeting(device, { coherence, far }, message);
  if (message.kind === "Put") coherence.counters.evictions++;
  if (COHERENCE_CODES[message.kind].operation === "coherence-request") far.outbox.push(message);
  else sendTo(device, { coherence, link: far.link }, message);
}

function sendTo(
  device: Device,
  { coherence, link }: { readonly coherence: Coherence; readonly link: CardLink | undefined },
  message: WireMessage,
): void {
  if (link === undefined) return;
  countOne(coherence.counters.sent, message.kind);
  const region = message.region ?? regionAt(coherence.regions, message.line)?.id ?? 0;
  sendMessage(device, link, { message, region });
}

/** Sends requests while home has a slot for each (decision 9). */
function sendRequests(device: Device, coherence: Coherence, far: FarEnd): void {
  while (far.credits < far.slots && far.outbox.length > 0) {
    far.credits++;
    sendTo(device, { coherence, link: far.link }, far.outbox.shift()!);
  }
}

function answerCore(device: Device, far: FarEnd, { access, result, data }: Answer): void {
  const asked = far.accesses.get(access.ticket);
  if (asked === undefined) return;
  far.accesses.delete(access.ticket);
  const bytes = result === "done" && data instanceof Uint8Array
    ? data as Uint8Array<ArrayBuffer>
    : undefined;
  if (device.out.tracing) {
    const text = `answers its core: ${access.kind} ${result}`;
    showToHost(device, far.regions, { step: "core-answer", text, line: access.line, data: bytes });
  }
  const isAway = bytes !== undefined && access.kind === "load" && isMovedHome(far, access.line);
  if (bytes === undefined) answerTo(device, asked.tag, { result });
  else {answerTo(
      device,
      asked.tag,
      isAway ? { result, data: bytes, away: true } : { result, data: bytes },
    );}
}

/** True if a program has moved the copies from here, where the scenario has them, to home's card (C-04). */
function isMovedHome(far: FarEnd, line: number): boolean {
  const region = regionAt(far.regions, line);
  return region?.placement === "remote" && far.card.placements.get(region.id)?.place === "local";
}

function answerTo(
  device: Device,
  tag: number,
  answer: {
    readonly result: Answer["result"] | "refused";
    readonly data?: Uint8Array<ArrayBuffer>;
    readonly away?: true;
  },
): void {
  device.out.send(PORTS.rnicBus, { kind: "far-answer", tag, ...answer }, device.stageAt);
}

const READABLE: ReadonlySet<string> = new Set(["S", "E", "M", "SM"]);

/** Decision 19: a core that waits for a change of a line looks again when its copy is gone. */
function tellGone(device: Device, far: FarEnd, { answers, changed }: Output): void {
  // A copy may leave its place at once, for the next line that is asked for: the core has seen it all the same.
  for (const { access: { kind, line }, result } of answers) {
    if (kind === "load" && result === "done" && changed.includes(line)) far.readable.add(line);
  }
  for (const line of changed) {
    if (READABLE.has(farLine(far.card, line).state)) far.readable.add(line);
    else if (far.readable.delete(line)) {
      const region = regionAt(far.regions, line)!;
      const index = line - firstLine(region);
      const message = { kind: "far-invalidate", region: region.id, line: index } as const;
      device.out.send(PORTS.rnicBus, message, device.stageAt);
    }
  }
}

// ── lives ────────────────────────────────────────────────────────────────────────────────────────

function beginGreeting(
  device: Device,
  { coherence, far }: { readonly coherence: Coherence; readonly far: FarEnd },
  message: WireMessage,
): void {
  if (far.link !== undefined) disconnect(device, coherence, far.link);
  forgetRequests(far);
  far.recalled.clear();
  // Home's card may be another one by now, whose regions have not moved.
  for (const region of far.regions) far.card.placements.set(region.id, startingPlacement(region));
  const { home: peer, card: { agent, life } } = far;
  far.link = newLink(device, coherence, { role: "far", peer, agent, life });
  far.greeting = { message, at: device.now, left: GREETINGS };
  repeatGreeting(device, coherence, far);
}

function repeatGreeting(device: Device, coherence: Coherence, far: FarEnd): void {
  const { greeting, link } = far;
  if (greeting === undefined || link === undefined) return;
  if (greeting.left-- === 0) {
    far.greeting = undefined;
    return refuseAsked(device, far);
  }
  greeting.at = device.now + GREETING_PS;
  const { message } = greeting;
  countOne(coherence.counters.sent, message.kind);
  greet(device, coherence, { link, message });
}

/** Home's card has welcomed this life: connects the link with the numbers of the welcome. */
export function takeWelcome(
  device: Device,
  { coherence, far, packet }: {
    readonly coherence: Coherence;
    readonly far: FarEnd;
    readonly packet: RocePacket;
  },
  message: WireMessage,
): void {
  const { link, card } = far;
  if (link === undefined || link.life !== message.life || card.isUp) return;
  far.greeting = undefined;
  connect(device, coherence, { link, peer: numbersOf(packet) });
  takeOfHome(device, { coherence, far }, message);
  for (const [region, { op }] of far.asked) {
    if (op === "register" || far.left.has(region)) askHome(device, far, { region, op });
  }
}

function refuseAsked(device: Device, { asked, left, home }: FarEnd): void {
  for (const [region, { id, op }] of asked) {
    if (id === undefined) continue;
    const where = formatAddress(home);
    sendReply(device, id, {
      status: "error",
      errno: "ENOENT",
      reason: `Cannot ${op} region ${region} as home's card at ${where} does not answer`,
    });
  }
  asked.clear();
  left.clear();
}

/** Home's answer to {@link askHome}. */
export function takeAnswerOfHome(
  device: Device,
  far: FarEnd,
  { message, region }: { readonly message: ControlMessage; readonly region: number },
): void {
  if (message.life !== far.card.life) return;
  if (message.kind === "Deregister") return recalled(device, far, region);
  const command = far.asked.get(region);
  if (command === undefined) return;
  const { id, op } = command;
  if (message.kind === "Deregistered" && op === "deregister") {
    far.registered.delete(region);
    far.left.delete(region);
  } else if (message.kind !== "Registered" || op !== "register") {
    return;
  } else if (message.result === "refused") {
    far.asked.delete(region);
    const reason = `Cannot register region ${region} as home's card refuses it to far card ` +
      `${far.card.agent}, or it has another size there`;
    if (id !== undefined) sendReply(device, id, { status: "error", errno: "EPERM", reason });
    if (far.recalled.delete(region)) recalled(device, far, region);
    return;
  } else {
    far.registered.set(region, message.line);
    const { version } = farPlacement(far.card, message.line);
    if (message.placement.version > version) far.card.placements.set(region, message.placement);
  }
  far.asked.delete(region);
  if (id !== undefined) sendReply(device, id, { status: "ok", op: "done" });
  if (far.recalled.delete(region)) recalled(device, far, region);
}

/**
 * Home takes a region back: cores' new accesses are refused, those under way end, and home is told when the last
 * line is home, as by a command.
 */
function recalled(device: Device, far: FarEnd, region: number): void {
  const { coherence } = device;
  if (coherence === undefined || far.regions.every(({ id }) => id !== region)) return;
  const asked = far.asked.get(region);
  if (asked?.op === "register") far.recalled.add(region);
  // The leave that home has been told of may be an earlier one.
  else if (far.left.has(region)) askHome(device, far, { region, op: "deregister" });
  else if (asked === undefined) {
    far.asked.set(region, { id: undefined, op: "deregister" });
    leaveRegions(device, coherence, far);
  }
}

/** Begins a life, unless home knows one of this card or is being greeted. */
export function wantLife(device: Device, coherence: Coherence, far: FarEnd): void {
  if (!far.card.isUp && far.greeting === undefined) renewLife(device, coherence, far);
}

/** Begins a new life, and drops the card's lines: the caller knows that it holds none. */
function renewLife(device: Device, coherence: Coherence, far: FarEnd): void {
  far.renewAt = NEVER;
  act(device, { coherence, far, from: "card" }, fence);
}

/**
 * Gives up all lines of a region (decision 21): dirty ones are written back, as many at a time as there are
 * buffers. Accesses under way end first.
 */
export function leaveRegions(device: Device, coherence: Coherence, far: FarEnd): void {
  act(device, { coherence, far, from: "card" }, () => {});
}

function evictLeaving({ card, asked }: FarEnd, out: Output): void {
  for (const line of [...card.lines.keys()]) {
    const isLeaving = asked.get(card.regionOf(line))?.op === "deregister";
    if (isLeaving && canEvict(card, line)) evict(card, line, out);
  }
}

/** Tells home of left regions, when the last line is home. */
function tellLeft(device: Device, coherence: Coherence, far: FarEnd): void {
  const { card, asked, left } = far;
  const held = new Set([...card.lines.keys()].map(card.regionOf));
  for (const [region, { op }] of asked) {
    if (op !== "deregister" || left.has(region) || held.has(region)) continue;
    left.add(region);
    if (card.isUp) askHome(device, far, { region, op });
    else if (far.greeting === undefined) renewLife(device, coherence, far);
  }
}

/** Asks home for a region, or tells it that the card leaves it. */
export function askHome(
  device: Device,
  { card, link, regions }: FarEnd,
  { region, op }: { readonly region: number; readonly op: "register" | "deregister" },
): void {
  if (link === undefined || !card.isUp) return;
  const { agent, life, homeLife } = card;
  const pair = { agent, life, homeLife };
  const bytes = regions.find(({ id }) => id === region)?.bytes ?? 0;
  const message = op === "register"
    ? { kind: "Register", ...pair, bytes } as const
    : { kind: "Deregister", ...pair } as const;
  sendMessage(device, link, { message, region });
}

// ── time ─────────────────────────────────────────────────────────────────────────────────────────

export function farWakeAt({ card, greeting, renewAt }: FarEnd): Time {
  return Math.min(farNextAt(card), greeting?.at ?? NEVER, renewAt);
}

/** Does the work that is due. */
export function wakeFar(device: Device, coherence: Coherence, far: FarEnd): void {
  if (device.now >= far.renewAt) renewLife(device, coherence, far);
  if (device.now >= farNextAt(far.card)) {
    act(device, { coherence, far, from: "card" }, farWake);
  }
  if (device.now >= (far.greeting?.at ?? NEVER)) repeatGreeting(device, coherence, far);
}
