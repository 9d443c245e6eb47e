/**
 * What partitions are granted, what of it they have done, and what to do where an answer does not
 * come. When somebody may be granted something at all is the timekeeper's to say.
 */
import type { Grant, Report } from "./clock.ts";
import { type Member, noteTaken, setStatus } from "./member.ts";
import { NEVER, type Time } from "../base/time.ts";

/** How long a partition waits for messages of a dead one before they are given up, in wall ms. */
const LOST_AFTER_MS = 2_000;

export interface GrantsOptions {
  readonly byName: ReadonlyMap<string, Member>;
  readonly term: number;
  readonly send: (partition: string, grant: Grant) => void;
  /** Messages that a partition was to have are gone for good: the run cannot be replayed. */
  readonly onLost: (why: string) => void;
}

/** How far a partition may run, from where on it has something to do, and where it is to stop. */
export interface Allowance {
  readonly next: Time;
  readonly horizon: Time;
  readonly stopOn: string;
  readonly wallMs: number;
}

export class Grants {
  readonly #options: GrantsOptions;
  #total = 0;

  constructor(options: GrantsOptions) {
    this.#options = options;
  }

  /** Grants given by this timekeeper. */
  get total(): number {
    return this.#total;
  }

  /** Grants a partition what it may do, if there is anything. */
  give(member: Member, { next, horizon, stopOn, wallMs }: Allowance): void {
    if (next === NEVER || next >= horizon) return;
    const grant: Grant = {
      term: this.#options.term,
      incarnation: member.incarnation,
      id: ++member.grants,
      horizon,
      expect: member.inbound.map(({ from, incarnation, count }) =>
        [from, incarnation, count] as const
      ),
      confirmed: [...member.toConfirm],
      links: member.links,
      runs: member.runs,
      cables: member.cables,
      lost: [],
      stopOn,
    };
    this.#total++;
    member.toConfirm.clear();
    member.grant = grant;
    // Until it reports, its next is what it was at the grant: nothing it sends can come sooner.
    member.next = next;
    member.inbound = [];
    member.links = [];
    member.runs = [];
    member.cables = [];
    setStatus(member, { status: "running", atMs: wallMs });
    this.#options.send(member.name, grant);
  }

  /** What the grant named was taken: tell the senders, some day. */
  settle(member: Member): void {
    for (const [peer, incarnation, count] of member.grant?.expect ?? []) {
      const sender = this.#options.byName.get(peer);
      if (sender?.incarnation === incarnation) sender.toConfirm.set(member.name, count);
    }
    member.grant = undefined;
  }

  /** After a restart: what a partition says of itself replaces what is known. */
  learn(member: Member, report: Report): void {
    member.grants = report.grant;
    member.grant = undefined;
    const taken = report.taken ?? [];
    for (const [peer, incarnation, count] of taken) {
      const sender = this.#options.byName.get(peer);
      if (sender?.incarnation === incarnation) sender.toConfirm.set(member.name, count);
    }
    noteTaken(member, taken);
  }

  /** Says a grant once more that has not been answered since `member.sinceMs`. */
  repeat(member: Member, wallMs: number): void {
    if (member.status !== "running" || member.grant === undefined) return;
    if (wallMs - member.sinceMs > LOST_AFTER_MS) this.#giveUpLost(member, member.grant);
    this.#options.send(member.name, member.grant);
  }

  /**
   * A partition has waited for long, and some of what it waits for was sent by a process that is gone:
   * if it is not there by now it was lost with that process, and the run is no longer exact.
   */
  #giveUpLost(member: Member, grant: Grant): void {
    const lost = grant.expect.filter(([peer, incarnation]) => {
      const sender = this.#options.byName.get(peer);
      const isGone = sender?.status === "dead" || sender?.status === "dying";
      return isGone || sender?.incarnation !== incarnation;
    }).map(([peer, incarnation]) => [peer, incarnation] as const);
    if (lost.length === 0) return;
    const whose = lost.map(([peer]) => peer).join(", ");
    this.#options.onLost(`${member.name} did not get all that was sent before it died by ${whose}`);
    member.grant = { ...grant, lost };
  }
}
