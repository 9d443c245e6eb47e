/**
 * What an access to a shared region costs, by the module in which its time passes: from the core that waits for it back
 * to its begin, each message to the one that has caused it. Every device says in its lines what it has spent on a message
 * by the time at which that leaves (`TraceStep.spent`); between a departure and what the receiver does is the way. So the
 * parts are the access's whole time, without a gap and without a part that is counted twice.
 */
import type { Time } from "../base/time.ts";
import { ACCESS_MODULES, type AccessModule, type ModuleCost } from "./access_modules.ts";
import type { Line, Trace } from "./trace.ts";

/** Lines of one shared line, of which the last is the access's end. */
export interface AccessLines {
  readonly begin: Line;
  readonly end: Line;
  /** Those between them about the same line of the region, in order. */
  readonly between: readonly Line[];
}

/** The device that a line's message goes to; undefined of a line without one. */
export function destinationOf(
  { cards }: Trace,
  { step, host, node, peer }: Line,
): string | undefined {
  if (/^wire-/.test(step)) return cards.get(peer ?? "");
  if (!/^(?:bus|core)-/.test(step) || step === "core-end") return undefined;
  const isCard = host !== undefined && node !== host;
  return isCard ? host : cards.get(host ?? "");
}

/** Modules in which the access has spent time; together they are from its begin to its end. */
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
