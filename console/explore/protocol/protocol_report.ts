import type { Lane } from "../../../fabric/coherence/explore.ts";
import { readStable, STABLE_BEGIN } from "../../../fabric/coherence/invariants.ts";
import { stepsText } from "../../../fabric/trace/trace_text.ts";
import { EXIT } from "../../../fabric/base/exit.ts";
import { countOf } from "../../checks/finding.ts";
import type { JunitProblem, JunitSuite } from "../../reports/junit/xml.ts";
import type { ProtocolCounterexample, ProtocolExplored, RackFound } from "./racks.ts";

/** A line for each rack, then a ladder for each thing that is broken. */
export function protocolText({ racks, rows, unmet, verdict }: ProtocolExplored): string {
  const lines = racks.map((rack) => {
    const { states, transitions, counterexample } = rack;
    const counts = rack.verdict === "partial"
      ? `the first ${countOf(states, "state")}`
      : `${countOf(states, "state")}, ${countOf(transitions, "step")}`;
    const found = counterexample === null
      ? ""
      : `; after ${countOf(counterexample.steps.length, "step")}: ${counterexample.found}`;
    return `${rack.verdict.padEnd(9)} ${rackText(rack)}: ${counts}${found}`;
  });
  // A common finding is reported by its way in the smallest rack, which comes first.
  const told = new Set<string>();
  const ladders = racks.flatMap((rack) => {
    const { counterexample } = rack;
    if (counterexample === null || told.has(counterexample.found)) return [];
    told.add(counterexample.found);
    return [`${rackText(rack)}:\n${counterexampleText(rack, counterexample)}`];
  });
  const note = unmet.length === 0 ? [] : [
    verdict === "unchecked"
      ? `unchecked: no rack has met any of ${countOf(rows.length, "row")} (${unmet.join("; ")})`
      : `note: no rack has met ${unmet.join("; ")}`,
  ];
  return [[...lines, ...note].join("\n"), ...ladders].join("\n\n");
}

export function exitOfProtocol({ verdict }: ProtocolExplored): number {
  if (verdict === "broken") return EXIT.failed;
  return verdict === "holds" ? EXIT.done : EXIT.unclear;
}

/** One suite, with a case for each rack. */
export function protocolSuites(explored: ProtocolExplored): JunitSuite[] {
  const { protocol, racks, unmet, verdict } = explored;
  const message = `no rack has met any row: ${unmet.join("; ")}`;
  const unchecked: JunitProblem = { kind: "error", type: "unchecked", message };
  return [{
    name: protocol,
    classname: protocol,
    cases: [
      ...racks.map((rack) => {
        const problem = problemOf(rack);
        return { name: rackText(rack), ...(problem !== undefined && { problem }) };
      }),
      ...(verdict === "unchecked" ? [{ name: "rows are met", problem: unchecked }] : []),
    ],
  }];
}

function problemOf(rack: RackFound): JunitProblem | undefined {
  const { verdict, states, counterexample } = rack;
  if (counterexample !== null) {
    const text = counterexampleText(rack, counterexample);
    return { kind: "failure", type: verdict, message: counterexample.found, text };
  }
  if (verdict === "holds") return undefined;
  return { kind: "error", type: verdict, message: `the first ${countOf(states, "state")} alone` };
}

function rackText({ computers, lines, what }: RackFound): string {
  return `${countOf(computers, "computer")}, ${countOf(lines, "line")}, ${what}`;
}

function counterexampleText(
  { computers }: RackFound,
  { steps, found }: ProtocolCounterexample,
): string {
  const cards = Array.from({ length: computers - 1 }, (_, at): Lane => `card ${at + 1}`);
  const columns: readonly Lane[] = ["home", "home card", ...cards];
  const rows = steps.map(({ name, at, to, state }, i) => {
    const changes = state === null ? [] : changesOf(steps[i - 1]?.state ?? null, state);
    const text = changes.length === 0 ? name : `${name}  [${changes.join(", ")}]`;
    return { node: at, text, ...(to !== undefined && { to }) };
  });
  return `${stepsText(columns, rows)}\n${found}`;
}

function changesOf(before: string | null, after: string): string[] {
  const lines = after.split("; "), was = before?.split("; ") ?? [];
  return lines.flatMap((line, number) => {
    const now = fieldsOf(line), earlier = fieldsOf(was[number] ?? STABLE_BEGIN);
    return [...now].flatMap(([key, value]) => {
      const from = earlier.get(key) ?? "I";
      if (from === value) return [];
      const name = lines.length > 1 ? `${number}: ${key}` : key;
      return [`${name} ${from} → ${value}`];
    });
  });
}

function fieldsOf(line: string): Map<string, string> {
  const { phase, llc, memory, right, sharers, owner, local, fars } = readStable(line);
  return new Map([
    ["agent", phase],
    ["LLC", llc],
    ["memory", memory === "1" ? "current" : memory === "0" ? "old" : memory],
    ["right", right],
    ["lent to", lentTo(sharers, owner)],
    ["local cache", local],
    ...fars.map((state, at): [string, string] => [`card ${at + 1}`, state]),
  ]);
}

function lentTo(shared: number, owner: number): string {
  const name = (agent: number) => agent === 0 ? "the local cache" : `card ${agent}`;
  if (owner >= 0) return `${name(owner)} alone`;
  const agents = Array.from({ length: 31 }, (_, agent) => agent)
    .filter((agent) => (shared >> agent & 1) === 1);
  return agents.length === 0 ? "none" : agents.map(name).join(" and ");
}
