/** What the timekeeper knows of one partition. */
import type { LinkFaultPlan } from "../rack/plan/link_plan.ts";
import type { FaultPlan } from "../rack/plan/plan.ts";
import { type Grant, type LinkChange, type RunOrder, spanNumber } from "./clock.ts";
import { formatTime, NEVER, type Time } from "../base/time.ts";

/**
 * `unknown`: not heard of since this timekeeper began. `joining`: a process that knows nothing is here.
 * `dying`: the process is gone, and when its power failed will be known as soon as nobody runs.
 */
export type Status = "unknown" | "joining" | "absent" | "idle" | "running" | "dying" | "dead";

/** What was sent to a partition and not yet covered by a grant. */
export interface Inbound {
  readonly from: string;
  readonly incarnation: number;
  readonly count: number;
  readonly earliest: Time;
}

/** What the timekeeper knows of one partition. */
export interface Member {
  readonly name: string;
  readonly index: number;
  readonly nodes: readonly string[];
  status: Status;
  sinceMs: number;
  instance: string;
  incarnation: number;
  next: Time;
  /** Times of the last event that happened, and of the last that was looked at. */
  now: Time;
  ran: Time;
  reached: Time;
  grants: number;
  /** The last span of an earlier process that counts (see {@link spanNumber}). */
  settledSpan: number;
  grant: Grant | undefined;
  sent: Map<string, number>;
  inbound: Inbound[];
  /** What it had taken when it answered this timekeeper, by {@link lifeKey} of the sender. */
  taken: Map<string, number>;
  links: LinkChange[];
  runs: RunOrder[];
  /** Ordered faults of its cables that its process has not been told of, and all there are. */
  cables: LinkFaultPlan[];
  cableHistory: LinkFaultPlan[];
  toConfirm: Map<string, number>;
  events: number;
  /** When this incarnation's power came on. */
  bootAt: Time;
  /** Counts the boots of all partitions; 0 where it has been up from the first. */
  bootOrder: number;
  /** When its earlier incarnation's power failed. */
  failedAt: Time;
  /** Power returns at this time by the plan, NEVER where it does not; the process may not be here. */
  startAt: Time;
  /** Plan's faults still to come for this partition, where they are the timekeeper's to carry out. */
  faults: FaultPlan[];
}

/**
 * A partition nobody has joined for yet. Scripted faults are the timekeeper's to carry out only where
 * the process is one node; several nodes in one process lose power one by one inside it.
 */
export function newMember(
  partition: { readonly name: string; readonly nodes: readonly string[] },
  options: { index: number; faults: readonly FaultPlan[] },
): Member {
  const { name, nodes } = partition;
  const alone = nodes.length === 1;
  return {
    name,
    index: options.index,
    nodes,
    status: "absent",
    sinceMs: 0,
    instance: "",
    incarnation: 0,
    next: 0,
    now: 0,
    ran: 0,
    reached: 0,
    grants: 0,
    settledSpan: 0,
    grant: undefined,
    sent: new Map(),
    inbound: [],
    taken: new Map(),
    links: [],
    runs: [],
    cables: [],
    cableHistory: [],
    toConfirm: new Map(),
    events: 0,
    bootAt: 0,
    bootOrder: 0,
    failedAt: 0,
    startAt: NEVER,
    faults: alone ? options.faults.filter(({ node }) => node === nodes[0]) : [],
  };
}

/** Notes what a partition is about from now on, `atMs` of wall time. */
export function setStatus(member: Member, to: { status: Status; atMs: number }): void {
  member.status = to.status;
  member.sinceMs = to.atMs;
}

/** The earliest thing that can happen in the partition: its own events, and what it has not taken. */
export function effectiveNext(member: Member): Time {
  switch (member.status) {
    case "unknown":
    case "joining":
    case "absent":
      return member.bootAt;
    case "dead":
      return member.startAt;
  }
  let next = Math.min(member.next, member.faults[0]?.at ?? NEVER);
  for (const { earliest } of member.inbound) next = Math.min(next, earliest);
  for (const { at } of member.links) next = Math.min(next, at);
  for (const { at } of member.runs) next = Math.min(next, at);
  for (const { at } of member.cables) {
    // What was ordered before that, it can only have been told.
    if (at > member.ran) next = Math.min(next, Math.max(at, member.bootAt));
  }
  return next;
}

/** Spans that this life is known to have done; while there are none it has not even got power. */
export function spansDone({ grants, grant }: Member): number {
  return grant === undefined ? grants : grants - 1;
}

/** Of a process that nobody can say anything of, all spans count. */
export const ALL_SPANS = Number.MAX_SAFE_INTEGER;

/**
 * The last span of a process that counts as done: what it reported. A timekeeper that never heard of
 * the process cannot say; then all of what it wrote down counts, so that nothing is lost that somebody
 * was told of (P-41).
 */
export function settledSpanOf(member: Member): number {
  switch (member.status) {
    case "idle":
    case "running":
    case "dying":
      return spanNumber(member.incarnation, spansDone(member));
  }
  return ALL_SPANS;
}

/** The first instant that is still open to the partition: before it, all has happened. */
export function openFrom(member: Member): Time {
  return spansDone(member) === 0 ? member.bootAt : member.ran + 1;
}

/**
 * The first instant whose news the partition can still take in; it must not be running. With power
 * that it has done nothing with, it has seen what its earlier life had, whose end the record knows.
 */
export function unseenBy(member: Member): Time {
  const isOff = member.status === "dead" || spansDone(member) === 0;
  return isOff ? member.failedAt : member.ran + 1;
}

/** The first instant that is after all that has happened to the partition; it must not be running. */
export function afterAllOf(member: Member): Time {
  return Math.max(1, unseenBy(member), member.status === "dead" ? 0 : openFrom(member));
}

/** Names one life of one partition. */
export function lifeKey(partition: string, incarnation: number): string {
  return `${partition}/${incarnation}`;
}

/** Takes in that `from` has sent `count` messages in all, the first not yet taken arriving at `earliest`. */
export function noteInbound(member: Member, inbound: Inbound): void {
  const { from, incarnation, count } = inbound;
  if (count <= (member.taken.get(lifeKey(from, incarnation)) ?? 0)) return;
  const at = member.inbound.findIndex((known) =>
    known.from === from && known.incarnation === incarnation
  );
  if (at < 0) {
    member.inbound.push(inbound);
  } else {
    const earliest = Math.min(member.inbound[at]!.earliest, inbound.earliest);
    member.inbound[at] = { ...inbound, earliest };
  }
}

/** Takes in what the partition says it has taken: of that nothing is inbound any more. */
export function noteTaken(
  member: Member,
  taken: ReadonlyArray<readonly [peer: string, incarnation: number, count: number]>,
): void {
  for (const [peer, incarnation, count] of taken) {
    member.taken.set(lifeKey(peer, incarnation), count);
  }
  const inbound = member.inbound;
  member.inbound = [];
  for (const each of inbound) noteInbound(member, each);
}

/** Adds a power failure at `at` to what is planned for the one node of a partition. */
export function addFault(member: Member, at: Time): FaultPlan {
  const fault: FaultPlan = { at, action: "kill", node: member.nodes[0]! };
  member.faults = [...member.faults, fault].sort((x, y) => x.at - y.at);
  return fault;
}

/**
 * The partition has power again at `at`: what was planned for before that, and a return of power
 * that it no longer needs, will not happen.
 */
export function dropPastFaults(member: Member, at: Time): void {
  const { faults } = member;
  while (faults.length > 0 && (faults[0]!.action === "start" || faults[0]!.at <= at)) {
    faults.shift();
  }
}

/** Why a power failure of `node` at `at` cannot be planned, undefined where it can. */
export function refusePowerFailure(
  member: Member,
  fault: { readonly node: string; readonly at: Time; readonly earliest: Time },
): string | undefined {
  const { node, at, earliest } = fault;
  const { nodes, status } = member;
  if (nodes.length > 1) {
    const others = nodes.filter((other) => other !== node).join(", ");
    return `${node} shares its process with ${others}: expected a device that has one of its own`;
  }
  if (status === "dead" || status === "dying") return `${node} has no power`;
  if (status === "unknown") return `${node} has not yet answered a new timekeeper`;
  if (earliest === NEVER) return `nobody knows how far the rack has run: pause it first`;
  if (at < earliest) {
    return `${formatTime(at)} is past: expected ${formatTime(earliest)} or later`;
  }
  const pending = member.faults.find(({ action }) => action === "kill");
  return pending && `${node} is to be killed at ${formatTime(pending.at)} already`;
}
