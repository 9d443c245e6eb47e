/** Racks to be explored, made from the text of a scenario. */
import { makePlan } from "../../fabric/rack/build/topology.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import type { Check, Recover } from "../../nodes/host/recovery/protocol.ts";
import type { ExploredRack } from "../../console/explore/types.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import type { Program } from "../../nodes/host/program_context.ts";

/** The scenario's first variant. */
export function rackOf(
  scenario: string,
  own: Partial<Omit<ExploredRack, "plan" | "inputs">> = {},
): ExploredRack {
  const [variant] = variants(parseScenario(scenario, "test.yaml"));
  return {
    plan: makePlan(variant!),
    inputs: {},
    programs: {},
    recoveries: {},
    checks: {},
    ...own,
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

/** Two hosts, and one write of 200 B, or as many as are wanted. */
export function putRack(of: PutOf): ExploredRack {
  const { method, ddio, bytes = 200, size = 200, depth = 1, hostB = "", faults = "[]" } = of;
  return rackOf(`
name: one-write
seed: 11
hosts: { a: {}, b: { ddio: ${ddio}, scm: { size: 1MiB } ${hostB} } }
programs:
  - { on: a, run: put, to: b, bytes: ${bytes}, method: ${method}, size: ${size}, depth: ${depth} }
faults: ${faults}
`);
}

/** A protocol in one file, on host `b` alone. */
export function ownRack(
  own: { readonly program: Program; readonly recover?: Recover; readonly check?: Check },
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
      programs: { [name]: own.program },
      recoveries: own.recover === undefined ? {} : { [name]: own.recover },
      checks: own.check === undefined ? {} : { [name]: afterCut(own.check) },
    },
  );
}

/** The check, which has nothing to say of a run in which no power fails: `rack run` asks it then, too. */
export function afterCut(check: Check): Check {
  return (view) => view.cut.length === 0 ? undefined : check(view);
}
