/** A grant's content, the messages that an answer confirms, a missing answer's consequences. */
import type { Grant, Report } from "./clock.ts";
import type { ClockOutputs, ClockParts } from "./membership.ts";
import { dueOrders, granted, type Member, noteTaken, reported, type Taken } from "./member.ts";
import type { Time } from "../base/time.ts";

const LOST_AFTER_MS = 2_000;

interface GrantsParts extends Pick<ClockParts, "byName" | "term" | "wallMs"> {
  readonly out: Pick<ClockOutputs, "grant" | "inexact">;
}

export interface Allowance {
  readonly next: Time;
  readonly horizon: Time;
  readonly breaks: Grant["breaks"];
}

export class Grants {
  readonly #parts: GrantsParts;
  #total = 0;

  constructor(parts: GrantsParts) {
    this.#parts = parts;
  }

  get total(): number {
    return this.#total;
  }

  give(member: Member, { next, horizon, breaks }: Allowance): void {
    const { incarnation, inbound, toConfirm, links, cables } = member;
    const grant: Grant = {
      term: this.#parts.term,
      incarnation,
      id: member.grants + 1,
      horizon,
      expect: inbound.map((each) => [each.from, each.incarnation, each.count] as const),
      confirmed: [...toConfirm],
      links,
      runs: dueOrders(member),
      cables,
      lost: [],
      breaks,
    };
    this.#total++;
    granted(member, grant, { next, atMs: this.#parts.wallMs() });
    this.#parts.out.grant(member.name, grant);
  }

  /**
   * An answer confirms the grant's messages to their senders; after a restart, which leaves no
   * grant, the report's.
   */
  answer(member: Member, report: Report): void {
    if (member.status === "unknown") {
      const taken = report.taken ?? [];
      this.#confirm(member, taken);
      noteTaken(member, taken);
    } else {
      this.#confirm(member, member.grant?.expect ?? []);
    }
    reported(member, report, this.#parts.wallMs());
  }

  /** Messages of a sender's earlier life are not kept. */
  #confirm(member: Member, taken: readonly Taken[]): void {
    for (const [peer, incarnation, count] of taken) {
      const sender = this.#parts.byName.get(peer);
      if (sender?.incarnation === incarnation) sender.toConfirm.set(member.name, count);
    }
  }

  repeat(member: Member): void {
    if (member.status !== "running" || member.grant === undefined) return;
    const waitedMs = this.#parts.wallMs() - member.sinceMs;
    if (waitedMs > LOST_AFTER_MS) this.#giveUpLost(member, member.grant);
    this.#parts.out.grant(member.name, member.grant);
  }

  /** Messages of an ended process are lost by now: the run is no longer exact. */
  #giveUpLost(member: Member, grant: Grant): void {
    const lost = grant.expect.filter(([peer, incarnation]) => {
      const sender = this.#parts.byName.get(peer);
      const isGone = sender?.status === "dead" || sender?.status === "dying";
      return isGone || sender?.incarnation !== incarnation;
    }).map(([peer, incarnation]) => [peer, incarnation] as const);
    if (lost.length === 0) return;
    const senders = lost.map(([peer]) => peer).join(", ");
    this.#parts.out.inexact(`${member.name} lost messages with the process of ${senders}`);
    member.grant = { ...grant, lost };
  }
}
