import type { z } from "zod";
import {
  IMPAIRMENT_ROWS,
  IMPAIRMENTS,
  opcodesOf,
  OVERTAKEN_MAX,
  PACKET_CLASSES,
} from "../plan/link_plan.ts";
import { listOf, nearest } from "../plan/problem.ts";
import { FLIP_PLACES } from "../plan/plan.ts";
import {
  duration,
  integer,
  leaf,
  mapping,
  oneOf,
  positiveTime,
  rate,
  size,
  text,
  textLike,
} from "./values.ts";
import { OPCODE_ROWS } from "../../wire/roce/opcode.ts";

const instant = positiveTime("a time > 0 with its unit, like 40us");

export const powerFaultSchema = mapping({
  at: instant,
  kill: text.optional().describe("whose power fails: a host, with its RNICs; an RNIC; or a switch"),
  start: text.optional().describe(
    "what gets its power back: a host with its RNICs, unless one has a start of its own; an RNIC; a switch",
  ),
  shutdown: text.optional().describe(
    "which host begins an orderly shutdown, after which its power goes off",
  ),
  within: positiveTime("a time > 0 with its unit, like 1ms").optional().describe(
    "of a shutdown: how long after its begin the power goes off; without it 1ms",
  ),
  card: oneOf(["off"]).optional().describe(
    "of the start of a host: its RNICs whose power has failed stay without",
  ),
});

export const cutSchema = mapping({
  at: instant,
  cut: text.optional().describe("the cable through which nothing gets any more, like a-rnic/tor"),
  heal: text.optional().describe("the cable whose faults end"),
});

/** `1%`, `0.01`, or `all`: a share > 0 and ≤ 1, or undefined. */
function parseShare(value: unknown): number | undefined {
  if (value === "all") return 1;
  const match = typeof value === "string" ? /^(\d+(?:\.\d+)?) ?%$/.exec(value.trim()) : null;
  const share = match === null ? Number(value === "" ? NaN : value) : Number(match[1]) / 100;
  if (typeof value !== "string" && typeof value !== "number") return undefined;
  return share > 0 && share <= 1 ? share : undefined;
}

const share = leaf(
  "a share of the frames, like 1%, or all",
  {
    anyOf: [
      { type: "number", exclusiveMinimum: 0, maximum: 1 },
      textLike(
        String.raw`(all|(?=[\d.]*[1-9])(100(\.0+)?|\d{1,2}(\.\d+)?) ?%|0?\.\d*[1-9]\d*|1)`,
      ),
    ],
  },
  parseShare,
);

const packets = leaf(
  (found) => {
    const names: string[] = OPCODE_ROWS.map(({ name }) => name);
    const near = typeof found === "string" ? nearest(found, names) : undefined;
    const classes = listOf([...PACKET_CLASSES, "how several opcodes' names begin"]);
    return near ?? `the name of an opcode, like "RC ACKNOWLEDGE", ${classes}`;
  },
  {
    description: "an opcode's name, what several opcodes' names begin with, or a class of packets",
    enum: packetWords(),
  },
  (value) => typeof value === "string" && opcodesOf(value).length > 0 ? value : undefined,
);

/** See `opcodesOf`. */
function packetWords(): string[] {
  const beginnings = OPCODE_ROWS.flatMap(({ name }) => {
    const words = name.split(" ");
    return words.map((_, i) => words.slice(0, i + 1).join(" "));
  });
  return [...new Set([...PACKET_CLASSES, ...beginnings])];
}

const MANY = Number.MAX_SAFE_INTEGER;

export const linkFaultSchema = mapping({
  link: text.describe(
    "a cable, like a-rnic/tor; one way of it, like a-rnic->tor; a host, or an RNIC",
  ),
  loss: share.optional().describe(IMPAIRMENT_ROWS.loss.what),
  corrupt: share.optional().describe(IMPAIRMENT_ROWS.corrupt.what),
  duplicate: share.optional().describe(IMPAIRMENT_ROWS.duplicate.what),
  reorder: share.optional().describe(IMPAIRMENT_ROWS.reorder.what),
  delay: positiveTime(`a delay > 0 with its unit, like ${IMPAIRMENT_ROWS.delay.like}`).optional(),
  rate: rate.optional().describe(IMPAIRMENT_ROWS.rate.what),
  from: duration.optional(),
  until: instant.optional(),
  share: share.optional(),
  count: integer(1, MANY).optional(),
  nth: integer(1, MANY).optional(),
  only: packets.optional(),
  jitter: positiveTime("a time > 0 with its unit, like 1us").optional(),
  by: integer(1, OVERTAKEN_MAX).optional(),
  hold: positiveTime("a time > 0 with its unit, like 10us").optional(),
  past: oneOf(["icrc"]).optional(),
});
export type LinkFaultSection = z.infer<typeof linkFaultSchema>;

/** V-08: a fault inside a card that damages a write's data. */
export const flipSchema = mapping({
  rnic: text.describe("the RNIC that it is in, or a host for its first one"),
  flip: share.describe("of a write's pieces of data, this share gets one bit turned over"),
  where: oneOf(FLIP_PLACES).optional(),
  from: duration.optional(),
  until: instant.optional(),
  count: integer(1, MANY).optional(),
  nth: integer(1, MANY).optional(),
});
export type FlipSection = z.infer<typeof flipSchema>;

/** V-08: a cell of SCM. */
export const stuckSchema = mapping({
  scm: text.describe("the host in whose SCM it is"),
  stuck: size(0, MANY).describe("the offset of the byte"),
  bit: integer(0, 7).optional(),
  value: integer(0, 1).optional(),
});
export type StuckSection = z.infer<typeof stuckSchema>;

export const FLIP_KEYS = ["rnic", "flip"] as const;
export const STUCK_KEYS = ["scm", "stuck"] as const;

export const LINK_KEYS = ["link", ...IMPAIRMENTS] as const;
