/** Cables of a rack that is up: lets them do wrong, and tells what they have done. */
import { sleep } from "../../../fabric/bus/wall_time.ts";
import type { LinkFaultRequest } from "../../../fabric/rack/plan/link_plan.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { type FaultRow, faultRows } from "../../reports/fault_report.ts";
import { recordedIn } from "../fault_lines.ts";
import type { Answer } from "./control.ts";
import type { RackLink } from "./racks.ts";

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
