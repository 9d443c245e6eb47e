/** A host's trace lines for shared regions: its cores' accesses, its home agent's messages, its LLC's states. */
import { LOST } from "../../../fabric/wire/roce/coherence_messages.ts";
import { formatTime } from "../../../fabric/base/time.ts";
import type { Outputs } from "../../../fabric/node.ts";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { FarResult, LineMessage } from "../../../fabric/wire/host_bus/region_messages.ts";
import type { Spent } from "../../../fabric/trace/access_modules.ts";
import type { FarRequest } from "./far_port.ts";
import type { Verdict } from "./placement_judge.ts";

export function traceBegin(
  out: Outputs,
  { region, isHome, request, ticket, spent }: {
    readonly region: SharedRegion;
    readonly isHome: boolean;
    /** Of a far host: up to the request's departure. */
    readonly spent: Spent | undefined;
    readonly request: Omit<FarRequest, "region">;
    readonly ticket: number;
  },
): void {
  const { op, line, change, lines = 1 } = request;
  const what = change === undefined || change.kind === "write" ? op : change.kind;
  const more = lines > 1 ? ` and ${lines - 1} more` : "";
  out.trace({
    step: `${isHome ? "home" : "core"}-${op}`,
    text: `${what} of ${region.name} line ${line}${more}`,
    shared: [region.id, line],
    access: ticket,
    ...(spent && { spent }),
  });
}

/** The access has ended, and its core has paid for it. */
export function traceEnd(
  out: Outputs,
  { ticket, result, spent }: {
    readonly ticket: number;
    readonly result: FarResult;
    readonly spent: Spent;
  },
): void {
  out.trace({ step: "core-end", text: `the access is ${result}`, access: ticket, spent });
}

export function traceLineMessage(
  out: Outputs,
  { region, line, op, data, spent }: Pick<LineMessage, "op"> & {
    readonly spent: Spent;
    readonly data: LineMessage["data"] | undefined;
    readonly region: SharedRegion;
    readonly line: number;
  },
): void {
  const content = data === LOST ? ", lost" : data === undefined ? "" : " with its data";
  out.trace({
    step: `bus-${op}`,
    text: `sends ${op} of ${region.name} line ${line}${content}`,
    shared: [region.id, line],
    spent,
  });
}

/** The LLC's state of a line has changed (C-05). */
export function traceState(
  out: Outputs,
  { region, line, state }: {
    readonly region: SharedRegion;
    readonly line: number;
    readonly state: string;
  },
): void {
  out.trace({
    step: "state",
    text: `LLC: ${region.name} line ${line}: ${state}`,
    shared: [region.id, line],
    cached: { cache: "LLC", state },
  });
}

/** Home's judge has judged a window [0026, 0075]: its counts and the decision. */
export function traceJudged(out: Outputs, { region, plan, counts, before, after }: Verdict): void {
  const { name } = region, { home, far } = counts, { place } = after;
  const what = `${home} accesses of home, ${far} of far in ${formatTime(plan.windowPs)}`;
  out.trace({
    step: "judge",
    text: `judges ${name} by ${plan.rule ?? "the rule"}: ${what}: ${
      decision({ plan, before, after })
    }`,
    judged: { region: region.id, name, home, far, place },
  });
}

function decision({ plan, before, after }: Pick<Verdict, "plan" | "before" | "after">): string {
  if (after.place !== before.place) {
    return `moves its copies from ${before.place} to ${after.place}`;
  }
  const { marginPercent, windows } = plan;
  const row = after.forMove === 0
    ? ""
    : `, for the other place by ${marginPercent} % in ${after.forMove} of ${windows} windows`;
  return `leaves its copies ${after.place}${row}`;
}

/** Home's card has carried out the judge's decision, or refused it. */
export function traceMoved(
  out: Outputs,
  { region, counts, after: { place } }: Verdict,
  refused: string | undefined,
): void {
  const text = refused === undefined
    ? `its card has moved the copies of ${region.name} to ${place}`
    : `its card does not move the copies of ${region.name}: ${refused}`;
  const { id, name } = region;
  out.trace({ step: "judge-moved", text, judged: { region: id, name, ...counts, place } });
}
