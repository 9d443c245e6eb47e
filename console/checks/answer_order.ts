/**
 * Checks the order of an RC responder's answers by the frames at its network port alone
 * (`rocev2.md` §3.4 to §3.6): each answer needs a request that has arrived; no request that arrived
 * later was answered before; MSNs do not run back; no NAK asks for confirmed packets. A frame does
 * not contain its sender's QPN, so the requests of an answer are found by PSN and path: the UDP
 * source port, or RoCEv1's flow label.
 *
 * No frame shows the PSN that a responder expects first, or a connection made anew. An answer that
 * is right only if a program did so is a {@link Wrong} with that condition, which the program's
 * notes settle.
 */
import { parseSyndrome } from "../../fabric/wire/roce/aeth.ts";
import { GSI_QPN } from "../../fabric/wire/roce/bth.ts";
import {
  ANSWERS,
  OPCODE_ROWS,
  type OpcodeRow,
  opcodeRow,
  type Operation,
} from "../../fabric/wire/roce/opcode.ts";
import type { Time } from "../../fabric/base/time.ts";
import { decodePacket, isRefusal, type RocePacket } from "../../fabric/wire/roce/packet.ts";
import { psnAdd, psnDistance } from "../../nodes/rnic/state/psn.ts";

interface Arrival {
  readonly psn: number;
  readonly operation: Operation;
  readonly isLast: boolean;
  readonly length: number;
  readonly isFirst: boolean;
}

interface Psns {
  readonly start: number;
  /** The latest PSN that has arrived, or that a READ takes. */
  newest: number;
}

interface Requests {
  readonly qpn: number;
  number: number;
  path: number;
  arrivals: Arrival[];
  first: number;
  /** Arrivals before this number are duplicates, whatever their opcode. */
  duplicatesTo: number;
  /** Of the latest packet's connection, and of its neighbour: packets may arrive late. */
  psns: Psns;
  otherPsns: Psns | undefined;
  owner: Answers | undefined;
}

interface Answers {
  requests: Requests | undefined;
  /** Connections from this number on were detected after `requests`. */
  newer: number;
  /** Arrivals before this number are answered, or cannot be answered any more. */
  position: number;
  msn: number | undefined;
  confirmed: number | undefined;
  /** `confirmed` before a possible new connection; it holds if the connection is the old one. */
  forgotten: number | undefined;
  reading: number | undefined;
  since: Time | undefined;
}

/** A program brought the queue pair to RTR after `since`, with this rq_psn where one is named. */
export interface Connects {
  readonly qpn: number;
  readonly rqPsn: number | undefined;
  readonly since: Time;
}

/** `unless`: no error if a program met this condition before. */
export interface Wrong {
  readonly text: string;
  readonly unless?: Connects;
}

interface Peer {
  connections: number;
  readonly requests: Map<number, Requests>;
  readonly answers: Map<number, Answers>;
}

type Step = Pick<Answers, "position" | "reading"> & { readonly confirmed: number | undefined };

/** No window is as wide: PSNs farther apart are of different connections. */
const CONNECTION_PSNS = 2 ** 16;
const ARRIVALS_MAX = 16_384;

/** For an operation with an answer of its own, its packets up to the last. */
const ACKNOWLEDGED: ReadonlySet<Operation> = new Set(
  OPCODE_ROWS.filter(({ operation, position, direction }) =>
    direction === "request" && (ANSWERS[operation] === "acknowledge" || position === "first")
  ).map(({ operation }) => operation),
);

export class AnswerOrder {
  answers = 0;
  readonly #peers = new Map<number, Peer>();

  received(frame: Uint8Array<ArrayBuffer>): void {
    const seen = decode(frame);
    if (seen === undefined) return;
    const peer = this.#peer(seen.sourceAddress);
    if (seen.bth.destQpn === GSI_QPN) return forgetConnections(peer);
    const { direction, service, operation } = seen.row;
    // Hints have PSNs of their own, and no answer among the transport's (H-22).
    if (direction !== "request" || service !== "rc" || operation === "hint") return;
    arrive(peer, seen);
  }

  /** The error in a frame that leaves at `time`. */
  sent(frame: Uint8Array<ArrayBuffer>, time: Time): Wrong | undefined {
    const seen = decode(frame);
    if (seen === undefined) return undefined;
    const peer = this.#peer(seen.destinationAddress);
    if (seen.bth.destQpn === GSI_QPN) {
      forgetConnections(peer);
      return undefined;
    }
    if (seen.row.direction !== "response" || seen.row.service !== "rc") return undefined;
    this.answers++;
    return judge(peer, { ...seen, time });
  }

  #peer(address: number): Peer {
    const known = this.#peers.get(address);
    if (known !== undefined) return known;
    const peer: Peer = { connections: 0, requests: new Map(), answers: new Map() };
    this.#peers.set(address, peer);
    return peer;
  }
}

function forgetConnections({ answers }: Peer): void {
  for (const each of answers.values()) doubtConnection(each);
}

function doubtConnection(answers: Answers): void {
  const { confirmed, forgotten } = answers;
  if (confirmed !== undefined) {
    const isKept = forgotten !== undefined && isNear(forgotten, confirmed);
    answers.forgotten = laterOf(isKept ? forgotten : undefined, confirmed);
  }
  forgetConnection(answers);
}

function forgetConnection(answers: Answers): void {
  answers.msn = undefined;
  answers.confirmed = undefined;
  answers.since = undefined;
}

function arrive(peer: Peer, seen: Seen): void {
  const { bth, row, reth } = seen;
  const path = pathOf(seen);
  const { requests } = peer;
  const { destQpn, psn } = bth;
  let own = requests.get(destQpn);
  if (own === undefined) {
    own = {
      qpn: destQpn,
      number: peer.connections++,
      path,
      arrivals: [],
      first: 0,
      duplicatesTo: 0,
      psns: psnsFrom(psn),
      otherPsns: undefined,
      owner: undefined,
    };
    requests.set(destQpn, own);
  }
  own.path = path;
  if (!isNear(own.psns.newest, psn)) changeConnection(peer, own, psn);
  const { psns } = own;
  // Either a duplicate, or the queue pair was connected anew without the CM and begins with the same PSN.
  if (psn === psns.start && own.owner !== undefined) doubtConnection(own.owner);
  const isFirst = psnDistance(psns.newest, psn) > 0;
  if (isFirst) psns.newest = psn;
  const isLast = row.position === "last" || row.position === "only";
  own.arrivals.push({ psn, operation: row.operation, isLast, length: reth?.length ?? 0, isFirst });
  if (own.arrivals.length > ARRIVALS_MAX) forgetArrivals(own, ARRIVALS_MAX / 2);
}

function changeConnection(peer: Peer, own: Requests, psn: number): void {
  const { psns, otherPsns } = own;
  own.otherPsns = psns;
  if (otherPsns !== undefined && isNear(otherPsns.newest, psn)) {
    own.psns = otherPsns;
    return;
  }
  own.psns = psnsFrom(psn);
  own.number = peer.connections++;
  if (own.owner !== undefined) forgetConnection(own.owner);
  own.owner = undefined;
}

function pathOf({ grh, udpSourcePort }: Seen): number {
  return grh === undefined ? udpSourcePort : grh.flowLabel;
}

function psnsFrom(start: number): Psns {
  return { start, newest: psnAdd(start, -1) };
}

function isNear(psn: number, other: number): boolean {
  return Math.abs(psnDistance(psn, other)) <= CONNECTION_PSNS;
}

function isAhead({ psns: { newest } }: Requests, psn: number): boolean {
  return psnDistance(newest, psn) > 0 && isNear(newest, psn);
}

function forgetArrivals(requests: Requests, count: number): void {
  requests.arrivals.splice(0, count);
  requests.first += count;
}

const UNBOUND: Answers = {
  requests: undefined,
  newer: 0,
  position: 0,
  msn: undefined,
  confirmed: undefined,
  forgotten: undefined,
  reading: undefined,
  since: undefined,
};

function judge(peer: Peer, seen: SeenAnswer): Wrong | undefined {
  let own = peer.answers.get(seen.bth.destQpn);
  if (own === undefined) {
    own = { ...UNBOUND };
    peer.answers.set(seen.bth.destQpn, own);
  }
  const { requests } = own;
  let step = requests === undefined ? "answers what was not asked" : stepOf(own, requests, seen);
  if (typeof step === "string") {
    // It may be the first answer on another connection of the peer's queue pair.
    const other = otherRequests(peer, own, seen);
    if (other === undefined) {
      const unless = connectAnew(peer, own, seen);
      return unless === undefined ? { text: step } : { text: step, unless };
    }
    bind(own, other);
    own.newer = peer.connections;
    step = stepOf(own, other, seen);
    if (typeof step === "string") return { text: step };
  }
  take(own, step, seen);
  return undefined;
}

/**
 * The answer may be right if the responder's queue pair was connected anew, perhaps with an rq_psn
 * above all PSNs that have arrived: then these are duplicates. Later answers are judged as if this
 * had happened.
 */
function connectAnew(peer: Peer, own: Answers, seen: SeenAnswer): Connects | undefined {
  const { requests: bound, position } = own;
  const since = own.since ?? -1;
  for (const requests of bound === undefined ? candidates(peer, own, seen) : [bound]) {
    const fresh = { ...UNBOUND, position: bound === undefined ? requests.first : position };
    for (const rqPsn of bound === undefined ? [rqPsnOf(seen)] : [undefined, rqPsnOf(seen)]) {
      const expecting = rqPsn === undefined ? requests : expectFrom(requests, rqPsn);
      const step = stepOf(fresh, expecting, seen);
      if (typeof step === "string") continue;
      Object.assign(requests, expecting);
      if (bound === undefined) {
        bind(own, requests);
        own.newer = peer.connections;
      } else forgetConnection(own);
      take(own, step, seen);
      return { qpn: requests.qpn, rqPsn, since };
    }
  }
  return undefined;
}

function candidates(peer: Peer, own: Answers, seen: Seen): Requests[] {
  const answered = pathOf(seen);
  const rank = ({ owner, path }: Requests) =>
    (owner === undefined ? 0 : 2) + (path === answered ? 0 : 1);
  return peer.requests.values().filter(({ number }) => number >= own.newer).toArray()
    .sort((one, other) => rank(one) - rank(other));
}

/**
 * The PSN expected by a responder that has executed nothing (MSN 0) and acknowledges a duplicate.
 */
function rqPsnOf({ bth: { psn }, row, aeth }: Seen): number | undefined {
  if (row.operation !== "acknowledge" || aeth!.msn !== 0) return undefined;
  return parseSyndrome(aeth!.syndrome).kind === "ack" ? psnAdd(psn, 1) : undefined;
}

function expectFrom(requests: Requests, psn: number): Requests {
  const { first, arrivals } = requests;
  return { ...requests, duplicatesTo: first + arrivals.length, psns: psnsFrom(psn) };
}

/**
 * Preferably on the same path and without answers. An answering queue pair with a connection takes
 * only requests of a later one.
 */
function otherRequests(peer: Peer, own: Answers, seen: Seen): Requests | undefined {
  // There may be tens of thousands of queue pairs, all examined for each answer: cheap conditions
  // come first.
  const firstFitting = (isWanted: (requests: Requests) => boolean) =>
    peer.requests.values().find((requests) =>
      requests.number >= own.newer &&
      (own.requests === undefined || requests.owner === undefined) && isWanted(requests) &&
      typeof stepOf(UNBOUND, requests, seen) !== "string"
    );
  const isFree = ({ owner }: Requests) => owner === undefined;
  const answered = pathOf(seen);
  const isSamePath = ({ path }: Requests) => path === answered;
  return firstFitting((each) => isFree(each) && isSamePath(each)) ?? firstFitting(isFree) ??
    firstFitting(isSamePath) ?? firstFitting(() => true);
}

function bind(own: Answers, requests: Requests): void {
  if (own.requests?.owner === own) own.requests.owner = undefined;
  if (requests.owner !== undefined) {
    Object.assign(requests.owner, { requests: undefined, newer: 0 });
  }
  requests.owner = own;
  own.requests = requests;
  own.position = requests.first;
  own.reading = undefined;
  own.forgotten = undefined;
  forgetConnection(own);
}

function take(own: Answers, step: Step, { aeth, time }: SeenAnswer): void {
  const requests = own.requests!;
  requests.owner ??= own;
  Object.assign(own, step);
  own.msn = aeth?.msn ?? own.msn;
  own.since ??= time;
  // Answered packets matter only to duplicates, which are new arrivals.
  const done = own.position - requests.first;
  if (done > 256) forgetArrivals(requests, done);
}

function stepOf(own: Answers, requests: Requests, seen: Seen): Step | string {
  const { row, aeth } = seen;
  const msn = aeth?.msn;
  if (msn !== undefined && own.msn !== undefined && psnDistance(own.msn, msn) < 0) {
    return `takes its MSN back from ${own.msn} to ${msn}`;
  }
  switch (row.operation) {
    case "persistence-acknowledge":
      return stepOfPersistence(own, requests, seen);
    case "acknowledge":
      return stepOfAcknowledge(own, requests, seen);
    default:
      return row.position === "first" || row.position === "only"
        ? stepOfAnswer(own, requests, seen)
        : stepOfReading(own, requests, seen);
  }
}

/**
 * P-28: a second ACK follows the first one with its PSN, and has no other place among the answers.
 */
function stepOfPersistence(own: Answers, requests: Requests, { bth }: Seen): Step | string {
  const { position, reading, confirmed, forgotten } = own;
  if (isAhead(requests, bth.psn)) return "confirms what has not come";
  const isWithin = (newest: number | undefined) =>
    newest !== undefined && psnDistance(bth.psn, newest) >= 0;
  if (!isWithin(confirmed) && !isWithin(forgotten)) {
    return "comes before the reception ACK of its PSN";
  }
  return { position, reading, confirmed };
}

function stepOfAcknowledge(own: Answers, requests: Requests, seen: Seen): Step | string {
  const { bth: { psn }, aeth } = seen;
  const syndrome = parseSyndrome(aeth!.syndrome);
  if (syndrome.kind === "ack") return stepOfAck(own, requests, psn);
  if (isAhead(requests, psnAdd(psn, -1))) return "refuses what has not come";
  const { position, confirmed } = own;
  // A READ may fail at its repetition.
  const isFatal = syndrome.kind === "nak" && syndrome.code !== "psn-sequence-error";
  if (!isFatal && confirmed !== undefined && psnDistance(psn, confirmed) >= 0) {
    return "asks for what it has confirmed";
  }
  const before = psnAdd(psn, -1);
  return {
    position: Math.max(position, behindFirst(requests, { position, psn: before })),
    reading: undefined,
    confirmed: laterOf(confirmed, before),
  };
}

/**
 * An ACK takes the place of its packet's first arrival; that of a duplicate takes the duplicate's,
 * and may confirm other packets.
 */
function stepOfAck(own: Answers, requests: Requests, psn: number): Step | string {
  const { position, confirmed } = own;
  if (isAhead(requests, psn)) return "confirms what has not come";
  const cause = find(
    requests,
    position,
    (arrival) => ACKNOWLEDGED.has(arrival.operation) && psnDistance(arrival.psn, psn) >= 0,
  );
  if (cause === undefined) return "is behind the answer of a later request";
  return {
    position: Math.max(cause + 1, behindFirst(requests, { position, psn })),
    reading: undefined,
    confirmed: laterOf(confirmed, psn),
  };
}

function stepOfAnswer(own: Answers, requests: Requests, seen: Seen): Step | string {
  const { bth: { psn }, row, payload } = seen;
  const number = find(
    requests,
    own.position,
    (arrival) =>
      arrival.psn === psn && ANSWERS[arrival.operation] === row.operation && arrival.isLast,
  );
  if (number === undefined) {
    return "is behind the answer of a later request, or of what has not come";
  }
  const goesOn = row.position === "first";
  if (goesOn) {
    const { length } = requests.arrivals[number - requests.first]!;
    const last = psnAdd(psn, Math.ceil(length / payload.length) - 1);
    const { psns } = requests;
    if (isNear(psns.newest, psn)) psns.newest = laterOf(psns.newest, last);
  }
  return {
    position: number + 1,
    reading: goesOn ? psn : undefined,
    confirmed: laterOf(own.confirmed, psn),
  };
}

/** The answer's first frames are not recorded where the far end had no power. */
function stepOfReading(
  own: Answers,
  requests: Requests,
  { bth: { psn }, row }: Seen,
): Step | string {
  const { reading } = own;
  let { position } = own;
  if (reading === undefined || psnDistance(reading, psn) <= 0) {
    const number = find(
      requests,
      position,
      (arrival) => arrival.operation === "read-request" && psnDistance(arrival.psn, psn) > 0,
    );
    if (number === undefined) return "goes on with a READ after something else";
    position = number + 1;
  }
  return {
    position,
    reading: row.position === "last" ? undefined : psn,
    confirmed: laterOf(own.confirmed, psn),
  };
}

function find(
  { arrivals, first }: Requests,
  from: number,
  isMeant: (arrival: Arrival) => boolean,
): number | undefined {
  for (let at = Math.max(0, from - first); at < arrivals.length; at++) {
    if (isMeant(arrivals[at]!)) return first + at;
  }
  return undefined;
}

function behindFirst(
  { arrivals, first, duplicatesTo }: Requests,
  at: { readonly position: number; readonly psn: number },
): number {
  let number = 0;
  const from = Math.max(at.position, duplicatesTo) - first;
  for (let i = Math.max(0, from); i < arrivals.length; i++) {
    const { isFirst, psn } = arrivals[i]!;
    if (!isFirst || !isNear(psn, at.psn)) continue;
    if (psnDistance(psn, at.psn) < 0) break;
    number = first + i + 1;
  }
  return number;
}

function laterOf(psn: number | undefined, other: number): number {
  return psn === undefined || psnDistance(psn, other) > 0 ? other : psn;
}

interface Seen extends RocePacket {
  readonly row: OpcodeRow;
}

interface SeenAnswer extends Seen {
  readonly time: Time;
}

/** Undefined for damaged frames too, which an RNIC drops. */
function decode(frame: Uint8Array<ArrayBuffer>): Seen | undefined {
  const packet = decodePacket(frame);
  return isRefusal(packet) ? undefined : { ...packet, row: opcodeRow(packet.bth.opcode)! };
}
