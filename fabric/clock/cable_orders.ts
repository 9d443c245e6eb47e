/**
 * Ordered faults of cables.
 *
 * A cut reaches both ends as late as a power failure would, by each partition's own queue, without
 * a message. Frames that reach an end after it has noticed are lost, and so are frames sent there.
 * A one-way cut loses frames and no end notices it.
 */
import {
  checkedLinkFault,
  type LinkFaultPlan,
  type LinkFaultRequest,
  refuseLinkFault,
} from "../rack/plan/link_plan.ts";
import { refuseInstant } from "./horizon.ts";
import { addCableFault, afterAllOf } from "./member.ts";
import type { ClockOutputs, ClockParts } from "./membership.ts";
import { type RecordedLinkFault, RecordError } from "./record.ts";
import { NEVER, type Time } from "../base/time.ts";

interface CableOrdersParts extends Pick<ClockParts, "plan" | "members" | "whenAtRest"> {
  readonly out: Pick<ClockOutputs, "record">;
}

export type OrderAnswer =
  | { readonly at: Time; readonly fault: number }
  | { readonly refusal: string }
  | { readonly waiting: true };

export class CableOrders {
  readonly #parts: CableOrdersParts;
  readonly #known: LinkFaultPlan[];
  readonly #answers = new Map<string, OrderAnswer>();

  constructor(parts: CableOrdersParts, recorded: readonly RecordedLinkFault[]) {
    this.#parts = parts;
    this.#known = [...parts.plan.linkFaults ?? []];
    for (const { token, fault } of recorded) {
      this.#answers.set(token, { at: fault.at, fault: fault.id });
      this.#notify(fault);
    }
  }

  /** An order that its sender repeats, with its `token`, is answered as before. */
  order(token: string, request: LinkFaultRequest): OrderAnswer {
    const known = this.#answers.get(token);
    if (known !== undefined) return known;
    const earliest = this.#earliest();
    if (request.at === undefined) {
      const refusal = earliest === NEVER
        ? undefined
        : this.#refuse(request, this.#free(request, earliest));
      if (refusal !== undefined) return { refusal };
      this.#answers.set(token, { waiting: true });
      this.#parts.whenAtRest((now) => this.#carryOut(token, request, this.#free(request, now)));
    } else {
      const refusal = refuseInstant(request.at, earliest) ?? this.#refuse(request, request.at);
      if (refusal !== undefined) return { refusal };
      this.#carryOut(token, request, request.at);
    }
    return this.#answers.get(token)!;
  }

  #earliest(): Time {
    return this.#parts.members.reduce(
      (most, member) =>
        Math.max(most, member.status === "running" ? member.grant!.horizon : afterAllOf(member)),
      1,
    );
  }

  /** An instant at which no other fault of the cable begins: in an idle rack time stands still. */
  #free({ cable }: LinkFaultRequest, from: Time): Time {
    const taken = new Set(this.#known.filter((each) => each.cable === cable).map(({ at }) => at));
    let at = from;
    while (taken.has(at)) at++;
    return at;
  }

  #refuse(request: LinkFaultRequest, at: Time): string | undefined {
    const fault = checkedLinkFault(request, { id: this.#nextId(), at });
    if (fault === undefined) return "its end is before its beginning";
    const refusal = refuseLinkFault(this.#known, fault);
    return refusal && `this is ${refusal.found}: expected ${refusal.expected}`;
  }

  #carryOut(token: string, request: LinkFaultRequest, at: Time): void {
    const refusal = this.#refuse(request, at);
    const fault = checkedLinkFault(request, { id: this.#nextId(), at });
    if (refusal !== undefined || fault === undefined) {
      this.#answers.set(token, { refusal: refusal ?? "it has no time" });
      return;
    }
    try {
      this.#parts.out.record({ at, action: "link", partition: "", nodes: [], token, fault });
    } catch (error) {
      if (!(error instanceof RecordError)) throw error;
      this.#answers.set(token, { refusal: error.message });
      return;
    }
    this.#answers.set(token, { at, fault: fault.id });
    this.#notify(fault);
  }

  #nextId(): number {
    return this.#known.reduce((most, { id }) => Math.max(most, id), -1) + 1;
  }

  #notify(fault: LinkFaultPlan): void {
    this.#known.push(fault);
    const { a, b } = this.#parts.plan.cables[fault.cable]!;
    for (const member of this.#parts.members) {
      const { nodes } = member;
      if (nodes.includes(a.node) || nodes.includes(b.node)) addCableFault(member, fault);
    }
  }
}
