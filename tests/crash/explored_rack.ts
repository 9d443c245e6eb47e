/** Racks to be explored, made from the text of a scenario. */
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import type { OwnProgram } from "../../nodes/host/own_programs.ts";
import type { Check } from "../../nodes/host/recovery/protocol.ts";
import type { ExploredRack } from "../../console/explore/types.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";

/** The scenario's first variant. */
export function rackOf(
  scenario: string,
  own: Readonly<Record<string, OwnProgram>> = {},
): ExploredRack {
  const [variant] = variants(parseScenario(scenario, "test.yaml"));
  return {
    plan: makePlan(variant!),
    inputs: {},
    own: Object.fromEntries(Object.entries(own).map(([name, each]) => [name, () => each])),
  };
}

/** Which way of the document is tried. */
export interface PutOf {
  readonly method: string;
  readonly ddio: "on" | "off";
  readonly bytes?: number;
  readonly size?: number;
  readonly depth?: number;
  /** More of host b, like `, domain: eadr`; more faults. */
  readonly hostB?: string;
  readonly faults?: string;
}

/** Two hosts, and one write of 200 B, or as many as are wanted: the text of the scenario. */
export function putScenario(of: PutOf): string {
  const { method, ddio, bytes = 200, size = 200, depth = 1, hostB = "", faults = "[]" } = of;
  return `
name: one-write
seed: 11
hosts: { a: {}, b: { ddio: ${ddio}, scm: { size: 1MiB } ${hostB} } }
programs:
  - { on: a, run: put, to: b, bytes: ${bytes}, method: ${method}, size: ${size}, depth: ${depth} }
faults: ${faults}
`;
}

/** The rack of {@link putScenario}. */
export function putRack(of: PutOf): ExploredRack {
  return rackOf(putScenario(of));
}

/** A protocol in one file, on host `b` alone. */
export function ownRack(
  { program, recover, check }: OwnProgram,
  hostB = "",
): ExploredRack {
  const name = "./own.ts";
  return rackOf(
    `
name: own
seed: 3
hosts: { a: { services: none }, b: { services: none, scm: { size: 64KiB } ${hostB} } }
programs:
  - { on: b, program: ${name} }
`,
    {
      [name]: { program, ...(recover && { recover }), ...(check && { check: afterCut(check) }) },
    },
  );
}

/** The check, which has nothing to say of a run in which no power fails: `rack run` asks it then, too. */
export function afterCut(check: Check): Check {
  return (view) => view.cut.length === 0 ? undefined : check(view);
}
