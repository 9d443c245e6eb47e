/**
 * Orders that start programs, shut hosts down, or add power failures to the plan: README. A host
 * does each once (`Runner`), so a restarted timekeeper repeats orders that it may have missed.
 */
import { assert } from "../base/assert.ts";
import { formatTime, type Time } from "../base/time.ts";
import type { FaultPlan, ProgramPlan } from "../rack/plan/plan.ts";
import { SHUTDOWN } from "../rack/plan/vocabulary.ts";
import type { RunOrder } from "./clock.ts";
import { refuseInstant } from "./horizon.ts";
import { addFault, addPowerOff, type Member } from "./member.ts";
import type { ClockParts } from "./membership.ts";
import { powerOffAt, type RecordedOrder, RecordError, shutdownProgram } from "./record.ts";

type OrdersParts = Pick<ClockParts, "members" | "horizons" | "out" | "whenAtRest">;

export class Orders {
  readonly #parts: OrdersParts;
  readonly #isExact: () => boolean;
  readonly #waiting: Omit<RunOrder, "at">[] = [];
  #counter: number;

  constructor(
    parts: OrdersParts,
    { from, recorded, isExact }: {
      readonly from: number;
      readonly recorded: readonly RecordedOrder[];
      readonly isExact: () => boolean;
    },
  ) {
    this.#parts = parts;
    this.#isExact = isExact;
    this.#counter = from;
    for (const order of recorded) this.#recall(order);
  }

  /**
   * Takes effect as soon as "now" is defined. @returns its number. @throws RecordError if the
   * record has no room for it.
   */
  run(host: string, program: ProgramPlan): number {
    const { members } = this.#parts;
    const member = members.find(({ nodes }) => nodes.includes(host));
    assert(member !== undefined, `Cannot run ${program.run} as there is no host ${host}`);
    return this.#order(member, host, program);
  }

  /**
   * As soon as "now" is defined; the power goes off `withinPs` later, unless it fails before.
   * @returns the order's number, or the reason of its refusal.
   * @throws RecordError as {@link run}.
   */
  shutDown(
    host: string,
    { withinPs, now }: { readonly withinPs: Time; readonly now: Time },
  ): { readonly order: number } | { readonly refusal: string } {
    const member = this.#parts.members.find(({ nodes }) => nodes.includes(host));
    if (member === undefined) return { refusal: `there is no device ${host}` };
    const refusal = refusePower(member, host) ?? this.#refuseSecond(host) ??
      // Twice that time, as the order takes effect later than now.
      (Number.isSafeInteger(2 * (now + withinPs))
        ? undefined
        : "virtual time ends before its power would go off");
    if (refusal !== undefined) return { refusal };
    return { order: this.#order(member, host, shutdownProgram(withinPs)) };
  }

  #refuseSecond(host: string): string | undefined {
    const isWaiting = this.#waiting.some((order) =>
      order.host === host && order.program.run === SHUTDOWN
    );
    return isWaiting ? `${host} is to be shut down already` : undefined;
  }

  #order(member: Member, host: string, program: ProgramPlan): number {
    const { out } = this.#parts;
    const counter = this.#counter;
    const order = { host, counter, program: { ...program, order: counter } };
    const accepted = { at: 0, ...order, incarnation: lifeForOrders(member) };
    const isKept = out.accepted?.(accepted, this.#areOrdersDone ? "done" : "open");
    this.#counter++;
    if (isKept === false && this.#isExact()) {
      out.inexact("more content was ordered than a run keeps on record");
    }
    this.#waiting.push(order);
    this.#parts.whenAtRest((at) => {
      this.#waiting.splice(this.#waiting.indexOf(order), 1);
      const offAt = powerOffAt({ at, program });
      // A host that has lost its power meanwhile is not shut down in its next life.
      if (offAt !== undefined && isOff(member)) return;
      out.ordered?.({ at, ...order, incarnation: lifeForOrders(member) });
      member.runs.push({ at, ...order });
      if (offAt !== undefined) addPowerOff(member, offAt);
    });
    return counter;
  }

  get #areOrdersDone(): boolean {
    return this.#waiting.length === 0 &&
      this.#parts.members.every(({ runs, later, recalled, grant, powerOff }) =>
        runs.length + later.length + recalled.length + (grant?.runs.length ?? 0) === 0 &&
        powerOff === undefined
      );
  }

  #recall(order: RecordedOrder): void {
    const member = this.#parts.members.find(({ nodes }) => nodes.includes(order.host));
    if (member === undefined || order.incarnation < lifeForOrders(member)) return;
    if (order.incarnation > lifeForOrders(member)) {
      member.later.push(order);
      return;
    }
    (member.status === "dead" ? member.runs : member.recalled).push(order);
    if (order.powerOffAt !== undefined) addPowerOff(member, order.powerOffAt);
  }

  get recalled(): number[] {
    return this.#parts.members.flatMap(({ recalled, runs, grant }) =>
      [...recalled, ...runs, ...grant?.runs ?? []].map(({ counter }) => counter)
    );
  }

  get ordered(): readonly ProgramPlan[] {
    const waiting = this.#parts.members.flatMap(({ recalled, runs }) => [...recalled, ...runs]);
    return [...this.#waiting, ...waiting].map(({ program }) => program);
  }

  addPowerFailure(
    node: string,
    at: Time,
  ): { readonly added: FaultPlan } | { readonly refusal: string } {
    const member = this.#parts.members.find(({ nodes }) => nodes.includes(node));
    if (member === undefined) return { refusal: `there is no device ${node}` };
    const earliest = this.#parts.horizons.earliestChange(member);
    const refusal = refusePowerFailure(member, { node, at, earliest }) ?? this.#refuseSecond(node);
    if (refusal !== undefined) return { refusal };
    try {
      this.#parts.out.planned?.({ at, action: "kill", node: member.nodes[0]! });
    } catch (error) {
      if (!(error instanceof RecordError)) throw error;
      return { refusal: error.message };
    }
    return { added: addFault(member, at) };
  }
}

function lifeForOrders({ status, incarnation }: Member): number {
  return status === "dead" ? incarnation + 1 : incarnation;
}

function refusePowerFailure(
  member: Member,
  fault: { readonly node: string; readonly at: Time; readonly earliest: Time },
): string | undefined {
  const { node, at, earliest } = fault;
  return refusePower(member, node) ?? refuseInstant(at, earliest);
}

function isOff({ status }: Member): boolean {
  return status === "dead" || status === "dying";
}

function refusePower(member: Member, node: string): string | undefined {
  const { nodes, status } = member;
  if (nodes.length > 1) {
    const others = nodes.filter((other) => other !== node).join(", ");
    return `${node} shares its process with ${others}: expected a device that has one of its own`;
  }
  if (isOff(member)) return `${node} has no power`;
  if (status === "unknown") return `${node} has not yet answered a new timekeeper`;
  const pending = member.faults.find(({ action }) => action === "kill");
  return pending && `${node} is to be killed at ${formatTime(pending.at)} already`;
}
