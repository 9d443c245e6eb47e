/** A rack whose coherent cards have rows of the user's: the tables that its nodes run, and what a wrong row is told as. */
import { tablesWith } from "../fabric/coherence/own_rows.ts";
import type { Tables } from "../fabric/coherence/tables.ts";
import { formatTime } from "../fabric/base/time.ts";
import type { Node } from "../fabric/node.ts";
import { Refusal, refusal } from "../fabric/rack/plan/problem.ts";
import type { RackPlan } from "../fabric/rack/plan/plan.ts";
import type { MakeProgram } from "./host/own_programs.ts";

/**
 * For one life of one node, which has an instance of the file of its own. @returns undefined where the rack has no such
 * file. @throws Error where the file has not been loaded.
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
 * The same node. With rows of the user's, what goes wrong in a step is the file's: a message without a row, or what
 * a row may not answer. It is a refusal, with the node and the time.
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
