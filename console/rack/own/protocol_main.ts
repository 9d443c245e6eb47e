/**
 * Explores the states of a rack with a user's protocol, for
 * `console/explore/protocol/explore_protocol.ts`.
 */
import { newCoverage } from "../../../fabric/coherence/coverage.ts";
import { exploring, stepsOf } from "../../../fabric/coherence/explore.ts";
import { rowNames, tablesWith } from "../../../fabric/coherence/own_rows.ts";
import { loadOwnPrograms } from "../../../nodes/load_own_programs.ts";
import { explorationOf, type ProtocolRack, type RackFound } from "../../explore/protocol/racks.ts";
import { RackError } from "../../base/rack_error.ts";
import { answerConfined, type Asker } from "./answer.ts";

export interface StatesJob {
  readonly text: string;
  readonly rack: ProtocolRack;
  readonly statesMax: number;
}

/** `unmet`: rows that have not been met, removed ones included. */
export interface StatesAnswer {
  readonly found: RackFound;
  readonly rows: readonly string[];
  readonly unmet: readonly string[];
}

async function work(
  { text, rack, statesMax }: StatesJob,
  asker: Asker<number>,
): Promise<StatesAnswer> {
  const { protocol } = await loadOwnPrograms({ programs: { protocol: text } });
  const rows = protocol?.().rows;
  if (rows === undefined) throw new RackError("Found a file without rows of a protocol");
  const coverage = newCoverage(tablesWith(rows));
  const given = { ...explorationOf(rack), tables: coverage.tables, statesMax };
  const search = exploring(given);
  let step = search.next();
  while (!step.done) {
    asker.tell(step.value);
    await new Promise((resolve) => setTimeout(resolve));
    if (asker.stopped()) break;
    step = search.next();
  }
  const { computers, lines, what } = rack;
  const all = rowNames(rows), unused = new Set(coverage.unused());
  // A row that is taken out cannot be met.
  const taken = new Set(all.filter((name) => !has(coverage.tables, name)));
  const unmet = all.filter((name) => unused.has(name) || taken.has(name));
  if (!step.done) {
    const states = step.value;
    const found = { computers, lines, what, states, transitions: 0 };
    return { found: { ...found, verdict: "partial", counterexample: null }, rows: all, unmet };
  }
  const { states, transitions, isWhole, violation } = step.value;
  const found: RackFound = {
    computers,
    lines,
    what,
    verdict: violation !== null ? "broken" : isWhole ? "holds" : "partial",
    states,
    transitions,
    counterexample: violation &&
      { found: violation.message, steps: stepsOf(given, violation.path) },
  };
  return { found, rows: all, unmet };
}

function has(tables: object, name: string): boolean {
  const [, table = "", state = "", event = ""] = /^(\w+) (.*): (\w+)$/.exec(name) ?? [];
  const rows = (tables as Record<string, Record<string, object>>)[table]?.[state] ?? {};
  return event in rows;
}

if (import.meta.main) await answerConfined(work);
