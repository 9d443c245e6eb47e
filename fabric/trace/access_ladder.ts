/**
 * Ladders of accesses to shared regions: from the core's request to its end, with all lines of the
 * two hosts and cards about that line meanwhile, and of its consequences, until the next access
 * begins and at most as long as the access took.
 */
import { accessCosts, destinationOf } from "./access_costs.ts";
import type { ModuleCost } from "./access_modules.ts";
import { type AccessFigure, accessStep } from "./access_steps.ts";
import type { Ladder, LadderRow, Line, Operation, Trace } from "./trace.ts";

/** `core-`: of a far host's core, by its card; `home-`: by the home agent. */
const BEGIN = /^(?:core|home)-(?:load|own|store|flush)$/;

export function accessesOf({ lines }: Trace): Operation[] {
  const counts = new Map<string, number>();
  return lines.flatMap((line, from): Operation[] => {
    const { step, node, time, shared, access } = line;
    if (!BEGIN.test(step) || shared === undefined || access === undefined) return [];
    const number = counts.get(node) ?? 0;
    counts.set(node, number + 1);
    const connection = `region ${shared[0]} line ${shared[1]}`;
    return [{ node, connection, number, startPs: time, from, until: lines.length, shared }];
  });
}

export function accessLadderOf(trace: Trace, operation: Operation): Ladder {
  const picked = pick(trace, operation);
  const wire = picked.filter(({ step }) => step.startsWith("wire-"));
  const isLocal = wire.length === 0 ||
    wire.some(({ step }) => /^wire-(?:Read|Write|Value)$/.test(step));
  const figure: AccessFigure = isLocal ? "local" : "remote";
  const rows = picked.flatMap((line) => rowOf(trace, line, figure));
  const { lines } = trace;
  const begin = lines[operation.from]!;
  const ended = rows.find((_, i) => isEndOf(picked[i]!, begin));
  return {
    operation,
    figure: undefined,
    columns: columnsOf(trace, { operation, picked }),
    rows,
    conclusion: ended ?? rows.at(-1)!,
    ...(ended && { costs: costsOf(trace, { begin, picked }) }),
  };
}

function costsOf(
  trace: Trace,
  { begin, picked }: { readonly begin: Line; readonly picked: readonly Line[] },
): ModuleCost[] {
  const at = picked.findIndex((line) => isEndOf(line, begin));
  return accessCosts(trace, { begin, end: picked[at]!, between: picked.slice(1, at) });
}

function isEndOf(line: Line, begin: Line): boolean {
  return line.step === "core-end" && isOf(line, begin);
}

function isOf({ node, access }: Line, begin: Line): boolean {
  return node === begin.node && access === begin.access;
}

function pick({ lines }: Trace, { from, shared }: Operation): Line[] {
  const begin = lines[from]!, picked: Line[] = [];
  const [region, index] = shared!;
  let lastPs = Infinity;
  for (let i = from; i < lines.length; i++) {
    const line = lines[i]!;
    // A later life of the host numbers its accesses anew.
    if (i > from && BEGIN.test(line.step) && isOf(line, begin)) break;
    const isEnd = isEndOf(line, begin);
    if (isEnd) lastPs = line.time + (line.time - begin.time);
    if (line.time > lastPs) break;
    const isIts = line.shared?.[0] === region && line.shared[1] === index;
    if (lastPs < Infinity && isIts && BEGIN.test(line.step)) break;
    // Decisions of home's judge meanwhile move this line, too.
    if (isIts || isEnd || line.judged?.region === region) picked.push(line);
  }
  return picked;
}

function rowOf(trace: Trace, line: Line, figure: AccessFigure): LadderRow {
  const { time, node, text, frame, cached } = line;
  // A copy comes: the line was requested, and can be read now. Other changes of states have no
  // number.
  const isKept = cached !== undefined && /^(?:IS|IM|SM)$/.test(cached.before ?? "") &&
    /^[SEM]$/.test(cached.state);
  const named = isKept ? accessStep(cached.cache, figure) : accessStep(line.step, figure);
  const to = destinationOf(trace, line);
  return {
    ...{ time, node, step: named ?? line.step, text },
    ...(to !== undefined && to !== node && { to }),
    ...(frame !== undefined && { frame }),
  };
}

function columnsOf(
  { cards, switches }: Trace,
  { operation: { node }, picked }: {
    readonly operation: Operation;
    readonly picked: readonly Line[];
  },
): string[] {
  const near = [node, cards.get(node)];
  const others = [...new Set(picked.map(({ host }) => host))]
    .filter((host) => host !== undefined && host !== node);
  const between = switches.length === 1 && others.length > 0 ? switches : [];
  const far = others.flatMap((host) => [cards.get(host!), host]);
  return [...near, ...between, ...far].filter((name) => name !== undefined);
}
