/**
 * The time of an access to a shared region by module: from the waiting core back to its begin, each
 * message to its cause. Every device's line has its own time for a message by the message's
 * departure (`TraceStep.spent`); the time between a departure and the receiver's action is the way.
 * So the parts add up to the access's whole time, without gap or overlap.
 */
import type { Time } from "../base/time.ts";
import { ACCESS_MODULES, type AccessModule, type ModuleCost } from "./access_modules.ts";
import type { Line, Trace } from "./trace.ts";

/** Lines of one shared line, the last of which is the access's end. */
export interface AccessLines {
  readonly begin: Line;
  readonly end: Line;
  /** Lines between them about the same line of the region, in order. */
  readonly between: readonly Line[];
}

/** The receiving device of a line's message; undefined for a line without one. */
export function destinationOf(
  { cards }: Trace,
  { step, host, node, peer }: Line,
): string | undefined {
  if (/^wire-/.test(step)) return cards.get(peer ?? "");
  if (!/^(?:bus|core)-/.test(step) || step === "core-end") return undefined;
  const isCard = host !== undefined && node !== host;
  return isCard ? host : cards.get(host ?? "");
}

/** The access's time by module; the parts add up to the time from its begin to its end. */
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
