/**
 * `fabric/trace/predicate.ts` as a schema: conditions at which a rack stops, or that are looked for
 * in its past.
 */
import { z } from "zod";
import {
  COUNT_MAX,
  parseGoal,
  type Predicate,
  STEP_LETTERS_MAX,
  stepProblem,
} from "../../fabric/trace/predicate.ts";
import { formatProblem, Refusal } from "../../fabric/rack/plan/problem.ts";
import { maybe, name } from "./common.ts";

const step = z.string().max(STEP_LETTERS_MAX).superRefine((text, context) => {
  const problem = stepProblem(text);
  if (problem === undefined) return;
  context.addIssue({ code: "custom", message: formatProblem({ path: "", ...problem }) });
}).describe("`S907`, `persistence-ack`, or `/psn 7`: a step of which the text has this part");

export const node = name.describe("the device; default: any");
const count = z.number().int().min(1).max(COUNT_MAX).describe(
  "which occurrence; default 1, the first",
);

export const predicate: z.ZodType<Predicate> = z.strictObject({
  step,
  node: maybe(node),
  count: maybe(count),
}).meta({ id: "Predicate" });

export const predicateText = z.string().max(2 * STEP_LETTERS_MAX).superRefine((text, context) => {
  try {
    if (parseGoal([text]).breaks.length > 0) return;
    context.addIssue({ code: "custom", message: `Found the time ${text}: expected a step` });
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    context.addIssue({ code: "custom", message: error.message });
  }
}).describe("`S907`, or `b-rnic:S907`");
