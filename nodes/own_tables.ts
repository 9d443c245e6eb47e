/** The user's own rows for coherent cards: tables of the nodes, and refusals of wrong rows. */
import { tablesWith } from "../fabric/coherence/own_rows.ts";
import type { Tables } from "../fabric/coherence/tables.ts";
import { formatTime } from "../fabric/base/time.ts";
import type { Node } from "../fabric/node.ts";
import { Refusal, refusal } from "../fabric/rack/plan/problem.ts";
import type { RackPlan } from "../fabric/rack/plan/plan.ts";
import type { MakeProgram } from "./host/own_programs.ts";

/**
 * Each life of a node has its own instance of the file. @returns undefined where the rack has no
 * such file. @throws Error where the file has not been loaded.
 */
export function ownTables(
  { coherence }: Pick<RackPlan, "coherence">,
  own: Readonly<Record<string, MakeProgram>>,
): Tables | undefined {
  if (coherence === undefined) return undefined;
  const rows = own[coherence]?.().rows;
  if (rows === undefined) {
    throw new Error(`${coherence} has no rows of the coherent cards' protocol`);
  }
  return tablesWith(rows);
}

/**
 * A wrong step is then the file's fault (a message without a row, a forbidden answer): it ends with
 * a refusal that has node and time.
 */
export function withOwnRows(node: Node, { coherence }: Pick<RackPlan, "coherence">): Node {
  if (coherence === undefined) return node;
  const step = node.step.bind(node);
  return Object.assign(node, {
    step(...given: Parameters<Node["step"]>): void {
      try {
        step(...given);
      } catch (cause) {
        if (!(cause instanceof Error) || cause instanceof Refusal) throw cause;
        const [now] = given;
        throw refusal("", {
          found: `${node.name} at ${formatTime(now)}, with rows of ${coherence}: ${cause.message}`,
          expected: `a protocol that holds: rack explore --protocol ${coherence}`,
          cause,
        });
      }
    },
  });
}
