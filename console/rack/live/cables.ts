import { sleep } from "../../../fabric/bus/wall_time.ts";
import { parseTarget } from "../../../fabric/rack/plan/cable_names.ts";
import type { LinkFaultPlan, LinkFaultRequest } from "../../../fabric/rack/plan/link_plan.ts";
import type { RackPlan } from "../../../fabric/rack/plan/plan.ts";
import { optionRefusal, refusal, showFound } from "../../../fabric/rack/plan/problem.ts";
import { linkFaultSchema } from "../../../fabric/rack/scenario/fault_schema.ts";
import { readLinkFault } from "../../../fabric/rack/assembly/link_faults.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { type FaultRow, faultRows } from "../../reports/fault_report.ts";
import type { Answer, ControlClient } from "./control.ts";
import type { RackLink } from "./racks.ts";

const TIME = { type: "time" };

export interface LinkOrder {
  /** `a-rnic/tor`, `a-rnic->tor`, or a host for the cable of its RNIC. */
  readonly target: string;
  readonly action: LinkFaultPlan["action"];
  /** In the words of the scenario's `faults`: `loss`, `until`, `only` … */
  readonly terms: Readonly<Record<string, unknown>>;
  readonly at?: Time;
  /** Duration; or `until` among the terms. */
  readonly forPs?: Time;
}

/** Checks an order with the rules of a scenario. @throws Refusal */
export function linkFaultRequest(plan: RackPlan, order: LinkOrder): LinkFaultRequest {
  const { target, action, terms, at, forPs } = order;
  const found = parseTarget(plan, target);
  if ("expected" in found) {
    throw refusal("The target", { found: showFound(target), expected: found.expected });
  }
  const when = at === undefined ? {} : { at };
  if (action === "cut" || action === "heal") return { action, ...found, ...when };
  if (forPs !== undefined && terms["until"] !== undefined) {
    throw optionRefusal((named) => ({
      path: "",
      found: `${named("for", TIME)} and ${named("until", TIME)} stand together`,
      expected: "one of them",
    }));
  }
  const { target: _, at: __, ...fault } = readTerms(order);
  return { ...fault, ...found, ...when, ...(forPs !== undefined && { forPs }) };
}

function readTerms({ target, action, terms }: LinkOrder) {
  // The fault begins when the order is taken, so it needs an end.
  const section: Readonly<Record<string, unknown>> = { link: target, from: 0, ...terms };
  const parsed = linkFaultSchema.safeParse(section);
  if (!parsed.success) {
    const { path: [key], message } = parsed.error.issues[0]!;
    const term = String(key), found = showFound(section[term]);
    if (term === action) throw refusal(`The ${action}`, { found, expected: message });
    throw refusal((named) => term === "until" ? named(term, TIME) : named(term), {
      found,
      expected: message,
    });
  }
  const fault = readLinkFault(parsed.data);
  if (!("found" in fault)) return fault;
  throw refusal("", { found: `Found ${fault.found}`, expected: fault.expected });
}

/** Undefined without an answer. */
export type Ask = (verb: string, body: unknown) => Promise<Answer | undefined>;

const AGAIN_MS = 20;

/**
 * Repeats the order until the timekeeper answers with its time and number; a restarted timekeeper
 * finds the order's token in the record.
 * @param goesOn called before each attempt; false ends the attempts.
 * @returns undefined where `goesOn` ended them.
 */
export async function orderLinkFault(
  ask: Ask,
  fault: LinkFaultRequest,
  goesOn: () => boolean = () => true,
): Promise<Answer<{ readonly at: Time; readonly fault: number }> | undefined> {
  const token = crypto.randomUUID();
  while (goesOn()) {
    const answer = await ask("link", { token, fault });
    if (answer !== undefined && "refused" in answer) return answer;
    const { at, fault: id } = answer?.ok ?? {};
    if (typeof at === "number" && typeof id === "number") return { ok: { at, fault: id } };
    await sleep(AGAIN_MS);
  }
  return undefined;
}

/** Those on record, which the plan does not have. */
export async function orderedLinkFaults(control: ControlClient): Promise<LinkFaultPlan[]> {
  const body = { from: Number.MAX_SAFE_INTEGER, links: true };
  return (await control.demand<{ links: LinkFaultPlan[] }>("faults", body, { repeats: true }))
    .links;
}

/**
 * Planned and ordered cable faults, with the number of frames that each has affected so far.
 * @throws RackError where a process with power does not answer: its counts are not known.
 */
export async function linkFaultsOf({ rack, control }: RackLink): Promise<FaultRow[]> {
  const { partitions, plan } = rack.file;
  const finals = await Promise.all(partitions.map(({ name }) => control.finalIfPowered(name)));
  const linkFaults = [...plan.linkFaults ?? [], ...await orderedLinkFaults(control)];
  return faultRows(plan.scenario, {
    plan: { ...plan, linkFaults },
    finals: finals.filter((final) => final !== undefined),
  });
}
