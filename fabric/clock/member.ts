/** The timekeeper's state of one partition, written by files of this folder only. */
import type { LinkFaultPlan } from "../rack/plan/link_plan.ts";
import type { FaultPlan } from "../rack/plan/plan.ts";
import { type Grant, type LinkChange, type Report, type RunOrder, spanNumber } from "./clock.ts";
import { NEVER, type Time } from "../base/time.ts";

/**
 * `absent`: no process has joined yet. `unknown`: not heard of since this timekeeper began.
 * `joining`: a process joined a timekeeper that does not know the partition's progress. `dying`:
 * the process is gone; the time of its failure is known as soon as no partition runs.
 */
export type Status = "unknown" | "joining" | "absent" | "idle" | "running" | "dying" | "dead";

export type Census = Record<Status, number>;

export function newCensus(): Census {
  return { unknown: 0, joining: 0, absent: 0, idle: 0, running: 0, dying: 0, dead: 0 };
}

export interface Inbound {
  readonly from: string;
  readonly incarnation: number;
  readonly count: number;
  readonly earliest: Time;
}

type LifeOrder = RunOrder & { readonly incarnation: number; readonly powerOffAt?: Time };

export type Taken = readonly [peer: string, incarnation: number, count: number];

export type Member = ReturnType<typeof newMember>;

/**
 * Without a process. The timekeeper carries out scripted faults only where the process is one node;
 * several nodes in one process lose power one by one inside it.
 */
export function newMember(
  { name, nodes }: { readonly name: string; readonly nodes: readonly string[] },
  of: { index: number; faults: readonly FaultPlan[]; census: Census },
) {
  const { index, faults, census } = of;
  census.absent++;
  return {
    name,
    index,
    nodes,
    /** Written only by {@link setStatus}, which keeps the census. */
    status: "absent" as Status,
    census,
    /** Or time of the last grant, in wall ms. */
    sinceMs: 0,
    instance: "",
    incarnation: 0,
    next: 0 as Time,
    /** `ran`: also events that did not happen, for nodes without power. */
    now: 0 as Time,
    ran: 0 as Time,
    reached: 0 as Time,
    events: 0,
    grants: 0,
    grant: undefined as Grant | undefined,
    settledSpan: 0,
    sent: new Map<string, number>(),
    inbound: [] as Inbound[],
    /** By the last report to this timekeeper, by {@link lifeKey} of the sender. */
    taken: new Map<string, number>(),
    /** Peers have taken them: part of its next grant. */
    toConfirm: new Map<string, number>(),
    links: [] as LinkChange[],
    runs: [] as RunOrder[],
    /** For later lives, in a rack that replays another run up to an instant. */
    later: [] as LifeOrder[],
    cables: [] as LinkFaultPlan[],
    cableHistory: [] as LinkFaultPlan[],
    recalled: [] as RunOrder[],
    bootAt: 0 as Time,
    /** Over all partitions; 0 if it has been up from the start. */
    bootOrder: 0,
    failedAt: 0 as Time,
    startAt: NEVER,
    /** The entry of `faults` that ends this life's orderly shutdown. */
    powerOff: undefined as FaultPlan | undefined,
    faults: nodes.length === 1 ? faults.filter(({ node }) => node === nodes[0]) : [],
  };
}

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
    // Earlier ones are repetitions by a new timekeeper.
    if (at > member.ran) next = Math.min(next, Math.max(at, member.bootAt));
  }
  return next;
}

/** Known to be done in this life; before the first it has not even got power. */
export function spansDone({ grants, grant }: Member): number {
  return grant === undefined ? grants : grants - 1;
}

/** All spans count of a process that no timekeeper has heard of. */
export const ALL_SPANS = Number.MAX_SAFE_INTEGER;

/**
 * The last reported span. If this timekeeper never heard of the process, all that it wrote counts,
 * so that no reported byte is lost (P-41).
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

export function openFrom(member: Member): Time {
  return spansDone(member) === 0 ? member.bootAt : member.ran + 1;
}

/**
 * The partition can still take in its news; it must not be running. A life without a span has seen
 * no more than its earlier life, whose end the record has.
 */
export function unseenBy(member: Member): Time {
  const isOff = member.status === "dead" || spansDone(member) === 0;
  return isOff ? member.failedAt : member.ran + 1;
}

export function afterAllOf(member: Member): Time {
  return Math.max(1, unseenBy(member), member.status === "dead" ? 0 : openFrom(member));
}

function lifeKey(partition: string, incarnation: number): string {
  return `${partition}/${incarnation}`;
}

export function setStatus(member: Member, to: { status: Status; atMs: number }): void {
  member.census[member.status]--;
  member.census[to.status]++;
  member.status = to.status;
  member.sinceMs = to.atMs;
}

export function welcomed(member: Member, atMs: number): void {
  member.next = member.bootAt;
  member.grants = 0;
  member.grant = undefined;
  setStatus(member, { status: "idle", atMs });
}

/** `settledSpan`: of its process. */
export function failed(
  member: Member,
  by: { at: Time; settledSpan: number; atMs: number },
): void {
  setStatus(member, { status: "dead", atMs: by.atMs });
  member.instance = "";
  member.inbound = [];
  member.taken.clear();
  member.links = [];
  member.runs = [];
  member.recalled = [];
  member.cables = [];
  member.grant = undefined;
  member.next = NEVER;
  member.failedAt = by.at;
  member.settledSpan = by.settledSpan;
  if (member.faults[0]?.action === "kill" && member.faults[0].at <= by.at) member.faults.shift();
  dropPowerOff(member);
  const start = member.faults[0];
  member.startAt = start?.action === "start" ? start.at : NEVER;
}

/** The next life begins, with news of its cables. */
export function booted(
  member: Member,
  by: { at: Time; bootOrder: number; links: readonly LinkChange[] },
): void {
  member.incarnation++;
  member.bootAt = by.at;
  member.bootOrder = by.bootOrder;
  member.startAt = NEVER;
  member.sent.clear();
  member.toConfirm.clear();
  dropPastFaults(member, by.at);
  // One by one: reading a program reads its content.
  for (const order of member.later) {
    if (!isOfLife(order, member)) continue;
    member.runs.push(order);
    if (order.powerOffAt !== undefined) addPowerOff(member, order.powerOffAt);
  }
  member.later = member.later.filter((order) => !isOfLife(order, member));
  member.links = [...by.links];
  member.cables = [...member.cableHistory];
}

export function addFault(member: Member, at: Time): FaultPlan {
  const fault: FaultPlan = { at, action: "kill", node: member.nodes[0]! };
  member.faults = [...member.faults, fault].sort((x, y) => x.at - y.at);
  return fault;
}

export function addPowerOff(member: Member, at: Time): void {
  // The plan of a run that repeats another one may already have it.
  const known = member.faults.find((fault) => fault.action === "kill" && fault.at === at);
  member.powerOff = known ?? addFault(member, at);
}

function dropPowerOff(member: Member): void {
  member.faults = member.faults.filter((fault) => fault !== member.powerOff);
  member.powerOff = undefined;
}

function isOfLife({ incarnation }: LifeOrder, member: Member): boolean {
  return incarnation === member.incarnation;
}

/**
 * Those before the partition had power again, and returns of power. A failure at the same instant
 * stays: a life that does nothing ends as it begins.
 */
export function dropPastFaults(member: Member, at: Time): void {
  const { faults } = member;
  while (faults.length > 0 && (faults[0]!.action === "start" || faults[0]!.at < at)) {
    faults.shift();
  }
}

/** Of one instant, which one grant carries: their content may fill a message of the bus. */
export function dueOrders({ runs }: Member): RunOrder[] {
  return runs.filter(({ at }) => at === runs[0]!.at);
}

/** The partition must have them before it runs past. */
export function followingOrderAt({ runs }: Member): Time {
  return runs.find(({ at }) => at > runs[0]!.at)?.at ?? NEVER;
}

/** It carries all the partition's news; its work begins at `next`. */
export function granted(member: Member, grant: Grant, at: { next: Time; atMs: number }): void {
  member.grants = grant.id;
  member.grant = grant;
  // Until it reports, its next is what it was at the grant: nothing it sends can come sooner.
  member.next = at.next;
  member.toConfirm.clear();
  member.inbound = [];
  member.links = [];
  member.runs = member.runs.slice(grant.runs.length);
  member.cables = [];
  setStatus(member, { status: "running", atMs: at.atMs });
}

export function reported(member: Member, report: Report, atMs: number): void {
  member.grants = report.grant;
  member.grant = undefined;
  member.next = report.next;
  member.reached = report.reached;
  member.now = report.now;
  member.ran = report.ran;
  member.events = report.events;
  setStatus(member, { status: "idle", atMs });
}

/** When the partition has reported or is to begin. */
export function resumeOrders(member: Member): void {
  member.runs.unshift(...member.recalled.filter(({ at }) => at > member.ran));
  member.recalled = [];
}

/** In all; the first not yet taken arrives at `earliest`. */
export function noteInbound(member: Member, inbound: Inbound): void {
  const { from, incarnation, count } = inbound;
  if (count <= (member.taken.get(lifeKey(from, incarnation)) ?? 0)) return;
  const known = member.inbound;
  const at = known.findIndex((each) => each.from === from && each.incarnation === incarnation);
  if (at < 0) known.push(inbound);
  else known[at] = { ...inbound, earliest: Math.min(known[at]!.earliest, inbound.earliest) };
}

export function noteTaken(member: Member, taken: readonly Taken[]): void {
  for (const [peer, incarnation, count] of taken) {
    member.taken.set(lifeKey(peer, incarnation), count);
  }
  const inbound = member.inbound;
  member.inbound = [];
  for (const each of inbound) noteInbound(member, each);
}

export function addCableFault(member: Member, fault: LinkFaultPlan): void {
  member.cableHistory.push(fault);
  if (member.status !== "dead") member.cables.push(fault);
}
