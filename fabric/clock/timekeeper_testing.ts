/** A timekeeper over three scripted partitions in a row, with its outputs. */
import { emptyDigest } from "../partition/digest.ts";
import type { Crossing } from "../rack/plan/lookahead.ts";
import { allDistances } from "../rack/plan/distances_testing.ts";
import type { NodePlan, RackPlan } from "../rack/plan/plan.ts";
import type { PartitionPlan } from "../rack/assembly/topology.ts";
import type { Grant, Report, Welcome } from "./clock.ts";
import { type Member, newCensus, newMember } from "./member.ts";
import {
  type OrdersBefore,
  type RecordedFault,
  type RecordedOrder,
  RecordError,
  type Summary,
} from "./record.ts";
import { NEVER, type Time } from "../base/time.ts";
import { Timekeeper } from "./timekeeper.ts";

export const NAMES = ["a", "b", "c"];
/** The delays of the cables between partitions, in a row a – b – c. */
export const CROSSINGS: readonly Crossing[] = [
  { from: 0, to: 1, delayPs: 100 },
  { from: 1, to: 0, delayPs: 100 },
  { from: 1, to: 2, delayPs: 150 },
  { from: 2, to: 1, delayPs: 150 },
];
/** What they add up to: the least delays between partitions. */
export const LOOKAHEAD = allDistances({ count: NAMES.length, crossings: CROSSINGS });

/** Three switches in a row, without anything to forward. */
export function planWith(options: Partial<RackPlan> = {}): RackPlan {
  const nodes = NAMES.map((name): NodePlan => ({
    name,
    kind: "switch",
    config: { ports: 2, mode: "store-and-forward", latencyPs: 10, queueBytes: 1, forwarding: [] },
  }));
  const cable = { kind: "network" as const, latencyPs: 80, bitsPerSecond: 100e12 };
  const cables = [
    { ...cable, a: { node: "a", port: 0 }, b: { node: "b", port: 0 } },
    { ...cable, a: { node: "b", port: 1 }, b: { node: "c", port: 0 } },
  ];
  return {
    scenario: "x",
    seed: 1,
    nodes,
    cables,
    faults: [],
    until: null,
    addresses: {},
    ...options,
  };
}

/** Partitions of one node each, up and idle, after their first grant. */
export function members(...names: string[]): Member[] {
  return names.map((name, index) => {
    const member = newMember({ name, nodes: [name] }, { index, faults: [], census: newCensus() });
    return Object.assign(member, { status: "idle", next: NEVER, instance: `${name}1`, grants: 1 });
  });
}

/** H(p) as it is written: the least of next(q) + distance(q, p) over all q but p. */
export function plainHorizon(
  p: number,
  of: { readonly next: readonly Time[]; readonly distance: readonly (readonly Time[])[] },
): Time {
  return Math.min(...of.next.map((at, q) => q === p ? NEVER : at + of.distance[q]![p]!));
}

/** A timekeeper and its outputs. */
export class Rig {
  readonly grants: [string, Grant][] = [];
  readonly welcomes = new Map<string, Welcome>();
  readonly kills: [string, Time][] = [];
  readonly starts: [string, Time][] = [];
  readonly records: RecordedFault[] = [];
  readonly ordered: RecordedOrder[] = [];
  readonly inexact: string[] = [];
  /** Whether orders are kept on record; `none`: they cannot be written. */
  hasRoom: boolean | "none" = true;
  /** What each order was told of earlier ones as it was accepted. */
  readonly before: OrdersBefore[] = [];
  /** What was written down and ordered, in order. */
  readonly deeds: string[] = [];
  asked = 0;
  wallMs = 0;
  finished: Summary | undefined;
  readonly keeper: Timekeeper;

  constructor(
    options: {
      plan?: RackPlan;
      term?: number;
      recorded?: RecordedFault[];
      orders?: readonly RecordedOrder[];
      inexact?: boolean;
      partitions?: readonly PartitionPlan[];
      crossings?: readonly Crossing[];
      stayUp?: boolean;
      ordersFrom?: number;
      holdAt?: Time;
    } = {},
  ) {
    this.keeper = new Timekeeper({
      ...options,
      plan: options.plan ?? planWith(),
      partitions: options.partitions ?? NAMES.map((name) => ({ name, nodes: [name] })),
      crossings: options.crossings ?? CROSSINGS,
      term: options.term ?? 0,
      recorded: options.recorded ?? [],
      orders: options.orders ?? [],
      inexact: options.inexact ?? false,
      stayUp: options.stayUp ?? false,
      wallMs: () => this.wallMs,
    }, {
      welcome: (partition, welcome) => this.welcomes.set(partition, welcome),
      grant: (partition, grant) => {
        this.grants.push([partition, grant]);
        for (const { counter } of grant.runs) this.deeds.push(`grant order ${counter}`);
      },
      ask: () => this.asked++,
      kill: (partition, instance, at) => {
        this.kills.push([partition, at]);
        this.deeds.push(`order kill ${instance}`);
      },
      start: (partition, at) => {
        this.starts.push([partition, at]);
        this.deeds.push(`order start ${partition}`);
      },
      record: (fault) => {
        if (fault.action === "link") return;
        this.records.push(fault);
        this.deeds.push(`record ${fault.action} ${fault.instance}`);
      },
      accepted: (_, before) => {
        this.before.push(before);
        if (this.hasRoom === "none") throw new RecordError("Cannot write");
        return this.hasRoom;
      },
      ordered: (order) => {
        this.ordered.push(order);
        this.deeds.push(`record order ${order.counter}`);
      },
      inexact: (why) => this.inexact.push(why),
      finished: (summary) => this.finished = summary,
    });
  }

  join(...names: string[]): void {
    for (const name of names) this.keeper.join({ partition: name, instance: `${name}1` });
  }

  /** The grants since the last call. */
  take(): [string, Grant][] {
    return this.grants.splice(0);
  }

  report(partition: string, report: Partial<Report>): void {
    this.keeper.report(reportOf(partition, { grant: 1, ...report }));
  }

  /** Each partition does what it was granted, and has nothing more to do. */
  answerAll(report: Partial<Report> = {}): void {
    for (let grants = this.take(); grants.length > 0; grants = this.take()) {
      for (const [name, { id, incarnation, horizon }] of grants) {
        this.report(name, { incarnation, grant: id, ran: Math.min(horizon, 9_000), ...report });
      }
    }
  }

  /** All three are here and have booted; each with its next event. */
  settle(next: Readonly<Record<string, Time>>): void {
    this.join(...NAMES);
    for (const name of NAMES) this.report(name, { next: next[name]! });
  }
}

/** How far each was granted. */
export const horizons = (grants: readonly [string, Grant][]) =>
  Object.fromEntries(grants.map(([name, { horizon }]) => [name, horizon]));

/** A report in which nothing has happened but what is named. */
export function reportOf(partition: string, report: Partial<Report>): Report {
  const { high, low } = emptyDigest();
  return {
    term: 0,
    partition,
    incarnation: 0,
    grant: 0,
    reached: 0,
    next: NEVER,
    now: 0,
    ran: 0,
    events: 0,
    sent: [],
    digests: [[partition, high, low, 0]],
    hits: [],
    taken: null,
    ...report,
  };
}
