/**
 * The shape of what a scenario says under `faults`: power failures and returns, cuts and heals of
 * cables, and what a cable does to frames. See `schema.ts` for what a message of these schemas is.
 */
import { z } from "zod";
import { parseDuration } from "../plan/units.ts";
import { IMPAIRMENTS, opcodesOf, PACKET_CLASSES } from "../plan/link_plan.ts";
import { listOf, nearest } from "../plan/problem.ts";
import { FLIP_PLACES } from "../plan/plan.ts";
import { integer, leaf, mapping, oneOf, parsePositiveDuration, size, text } from "./schema.ts";
import { OPCODE_ROWS } from "../../wire/roce/opcode.ts";

const instant = leaf("a time > 0 with its unit, like 40us", parsePositiveDuration);
const duration = leaf("a time with its unit, like 300ns", parseDuration);

export const powerFaultSchema = mapping({
  at: instant,
  kill: text.optional(),
  start: text.optional(),
});

export const cutSchema = mapping({ at: instant, cut: text.optional(), heal: text.optional() });

/** `1%`, `0.01`, or `all`. @returns a share > 0 and ≤ 1, or undefined. */
function parseShare(value: unknown): number | undefined {
  if (value === "all") return 1;
  const match = typeof value === "string" ? /^(\d+(?:\.\d+)?) ?%$/.exec(value.trim()) : null;
  const share = match === null ? Number(value === "" ? NaN : value) : Number(match[1]) / 100;
  if (typeof value !== "string" && typeof value !== "number") return undefined;
  return share > 0 && share <= 1 ? share : undefined;
}

const share = leaf("a share of the frames, like 1%, or all", parseShare);

const packets = z.unknown().transform((value, context): string => {
  if (typeof value === "string" && opcodesOf(value).length > 0) return value;
  const names: string[] = OPCODE_ROWS.map(({ name }) => name);
  const near = typeof value === "string" ? nearest(value, names) : undefined;
  const classes = listOf([...PACKET_CLASSES, "how several opcodes' names begin"]);
  const message = near ?? `the name of an opcode, like "RC ACKNOWLEDGE", ${classes}`;
  context.addIssue({ code: "custom", message });
  return z.NEVER;
});

const MANY = Number.MAX_SAFE_INTEGER;

export const linkFaultSchema = mapping({
  link: text,
  loss: share.optional(),
  corrupt: share.optional(),
  duplicate: share.optional(),
  reorder: share.optional(),
  delay: latencyOf("a delay > 0 with its unit, like 5us").optional(),
  from: duration.optional(),
  until: instant.optional(),
  share: share.optional(),
  count: integer(1, MANY).optional(),
  nth: integer(1, MANY).optional(),
  only: packets.optional(),
  jitter: latencyOf("a time > 0 with its unit, like 1us").optional(),
  by: integer(1, 1_000).optional(),
  hold: latencyOf("a time > 0 with its unit, like 10us").optional(),
  past: oneOf(["icrc"]).optional(),
});
export type LinkFaultSection = z.infer<typeof linkFaultSchema>;

/** V-08: inside a card, on a write's data. */
export const flipSchema = mapping({
  rnic: text,
  flip: share,
  where: oneOf(FLIP_PLACES).optional(),
  from: duration.optional(),
  until: instant.optional(),
  count: integer(1, MANY).optional(),
  nth: integer(1, MANY).optional(),
});
export type FlipSection = z.infer<typeof flipSchema>;

/** V-08: a cell of SCM. */
export const stuckSchema = mapping({
  scm: text,
  stuck: size(0, MANY),
  bit: integer(0, 7).optional(),
  value: integer(0, 1).optional(),
});
export type StuckSection = z.infer<typeof stuckSchema>;

function latencyOf(expected: string) {
  return leaf(expected, parsePositiveDuration);
}

/** Keys that make an item of `faults` one about the inside of a card, or of memory. */
export const FLIP_KEYS = ["rnic", "flip"] as const;
export const STUCK_KEYS = ["scm", "stuck"] as const;

/** Keys that make an item of `faults` one about frames of a cable. */
export const LINK_KEYS = ["link", ...IMPAIRMENTS] as const;
