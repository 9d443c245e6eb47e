/** Cables of a rack that is up: lets them do wrong, and tells what they have done. */
import { sleep } from "../../../fabric/bus/wall_time.ts";
import { parseTarget } from "../../../fabric/rack/plan/cable_names.ts";
import type { LinkFaultPlan, LinkFaultRequest } from "../../../fabric/rack/plan/link_plan.ts";
import type { RackPlan } from "../../../fabric/rack/plan/plan.ts";
import { refusal, showFound } from "../../../fabric/rack/plan/problem.ts";
import { linkFaultSchema } from "../../../fabric/rack/scenario/fault_schema.ts";
import { readLinkFault } from "../../../fabric/rack/build/link_faults.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { type FaultRow, faultRows } from "../../reports/fault_report.ts";
import { recordedIn } from "../fault_lines.ts";
import type { Answer } from "./control.ts";
import type { RackLink } from "./racks.ts";

/** A fault of a cable that is to begin now, or at a time to come. */
export interface LinkOrder {
  /** `a-rnic/tor`, `a-rnic->tor`, or a host for the cable of its RNIC. */
  readonly target: string;
  readonly action: LinkFaultPlan["action"];
  /** What else a scenario says of it under `faults`, by its words: `loss`, `until`, `only` … */
  readonly terms: Readonly<Record<string, unknown>>;
  readonly at?: Time;
  /** For so long; or, among the terms, `until` a time. */
  readonly forPs?: Time;
}

/** Checks an order as a scenario would be. @throws Refusal */
export function linkFaultRequest(plan: RackPlan, order: LinkOrder): LinkFaultRequest {
  const { target, action, terms, at, forPs } = order;
  const found = parseTarget(plan, target);
  if ("expected" in found) {
    throw refusal("The target", { found: showFound(target), expected: found.expected });
  }
  const when = at === undefined ? {} : { at };
  if (action === "cut" || action === "heal") return { action, ...found, ...when };
  if (forPs !== undefined && terms["until"] !== undefined) {
    throw refusal("", { found: "--for and --until stand together", expected: "one of them" });
  }
  const { target: _, at: __, ...fault } = readTerms(order);
  return { ...fault, ...found, ...when, ...(forPs !== undefined && { forPs }) };
}

function readTerms({ target, action, terms }: LinkOrder) {
  // It begins when it is ordered, so it is bounded in time.
  const section: Readonly<Record<string, unknown>> = { link: target, from: 0, ...terms };
  const parsed = linkFaultSchema.safeParse(section);
  if (!parsed.success) {
    const { path: [key], message } = parsed.error.issues[0]!;
    const name = key === action ? `The ${action}` : `--${String(key)}`;
    throw refusal(name, { found: showFound(section[String(key)]), expected: message });
  }
  const fault = readLinkFault(parsed.data);
  if (!("found" in fault)) return fault;
  throw refusal("", { found: `Found ${fault.found}`, expected: fault.expected });
}

/** One way to ask for `control.<verb>`; undefined without an answer. */
export type Ask = (verb: string, body: unknown) => Promise<Answer | undefined>;

/** When a fault takes effect, and its number. */
export interface OrderedFault {
  readonly at: Time;
  readonly fault: number;
}

const AGAIN_MS = 20;

/**
 * Orders a fault of a cable, or its end, until the timekeeper answers when it takes effect; a new one knows
 * by the order's token what the old one wrote down.
 * @param goesOn asked before each attempt.
 * @returns undefined where `goesOn` ended it without an answer.
 */
export async function orderLinkFault(
  ask: Ask,
  fault: LinkFaultRequest,
  goesOn: () => boolean = () => true,
): Promise<Answer<OrderedFault> | undefined> {
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

const FINAL_ATTEMPTS = 2;

/** What was planned or ordered of cables, and how many frames it took so far. */
export async function linkFaultsOf({ rack, control }: RackLink): Promise<FaultRow[]> {
  const { file: { partitions, plan }, directory } = rack;
  const finals = await Promise.all(
    partitions.map(({ name }) => control.final(name, { attempts: FINAL_ATTEMPTS })),
  );
  const linkFaults = [...plan.linkFaults ?? [], ...recordedIn(directory).linkFaults];
  return faultRows(plan.scenario, {
    plan: { ...plan, linkFaults },
    // A device without power has no counts.
    finals: finals.filter((final) => final !== undefined),
  });
}
