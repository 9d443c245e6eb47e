/**
 * The time of an access to a shared region by module: from the waiting core back to its begin, each
 * message to its cause. A line has its device's own time by the message's departure
 * (`TraceStep.spent`); the rest up to the receiver's action is the way.
 */
import type { Time } from "../base/time.ts";
import { ACCESS_MODULES, type AccessModule, type ModuleCost } from "./access_modules.ts";
import type { Line, Trace } from "./trace.ts";

export interface AccessLines {
  readonly begin: Line;
  readonly end: Line;
  /** In order. */
  readonly between: readonly Line[];
}

export function destinationOf(
  { cards }: Trace,
  { step, host, node, peer }: Line,
): string | undefined {
  if (/^wire-/.test(step)) return cards.get(peer ?? "");
  if (!/^(?:bus|core)-/.test(step) || step === "core-end") return undefined;
  const isCard = host !== undefined && node !== host;
  return isCard ? host : cards.get(host ?? "");
}

export function accessCosts(trace: Trace, { begin, end, between }: AccessLines): ModuleCost[] {
  const parts = new Map<AccessModule, Time>();
  let cursor = end.spent?.untilPs ?? end.time;
  const spend = (module: AccessModule, ps: Time) => {
    const inside = Math.min(ps, cursor - begin.time);
    if (inside <= 0) return;
    parts.set(module, (parts.get(module) ?? 0) + inside);
    cursor -= inside;
  };
  const spendAll = ({ spent }: Line) => {
    for (const [module, ps = 0] of Object.entries(spent?.by ?? {})) {
      spend(module as AccessModule, ps);
    }
  };
  spendAll(end);
  let { node } = end;
  const causes = [begin, ...between].filter(({ spent }) => spent !== undefined);
  while (cursor > begin.time) {
    const at = causes.findLastIndex((line) =>
      line.spent!.untilPs < cursor && destinationOf(trace, line) === node
    );
    const cause = causes[at];
    if (cause === undefined) {
      spend("waits", cursor - begin.time);
      break;
    }
    causes.length = at;
    spend(/^wire-/.test(cause.step) ? "network" : "bus", cursor - cause.spent!.untilPs);
    spendAll(cause);
    node = cause.node;
  }
  return ACCESS_MODULES.flatMap((module) => {
    const ps = parts.get(module);
    return ps === undefined ? [] : [{ module, ps }];
  });
}
