/**
 * A fabric's list of switches and cables (`topology: explicit`). `fabric_checks.ts` checks them.
 */
import { z } from "zod";
import { MAX_HOSTS, namesInRange } from "../plan/names.ts";
import type { ListedCable, ListedEnd } from "../assembly/network.ts";
import {
  differentNames,
  integer,
  type JsonShape,
  latency,
  leaf,
  mapping,
  NAMES_SHAPE,
  orShort,
  rate,
  within,
} from "./values.ts";

/** A choice: the widest Ethernet switches have 512 ports of 100 Gb/s (Tomahawk 5: 51.2 Tb/s). */
export const PORT_MOST = 511;

export const switchList = leaf(
  "a list of different switches' names, or a range like s1..s4",
  NAMES_SHAPE,
  differentNames,
);

type Ends = readonly (readonly [ListedEnd, ListedEnd])[];

/** `h1`, `h1..h8`, `s1:3`. */
const END = String.raw`[A-Za-z0-9][A-Za-z0-9.-]*(:\d{1,3})?`;
const ENDS_SHAPE: JsonShape = { type: "string", pattern: `^${END}/${END}$` };
const ENDS = new RegExp(ENDS_SHAPE["pattern"] as string);
const ENDS_EXPECTED = "two ends, like h1..h4/s1 or, with the ports of switches, s1:3/s2:0";
const CABLES_MOST = 2 * MAX_HOSTS;

function endsOf(text: string): ListedEnd[] | undefined {
  const [names, port] = text.split(":") as [string, string?];
  const all = namesInRange(names);
  if (port === undefined) return all.map((name) => ({ name }));
  const number = within(Number(port), 0, PORT_MOST);
  // A port belongs to one switch.
  return number === undefined || all.length > 1 ? undefined : [{ name: names, port: number }];
}

/** Each name on the left to each on the right. */
function readEnds(value: unknown): Ends | undefined {
  if (typeof value !== "string" || !ENDS.test(value)) return undefined;
  const [left, right] = value.split("/").map(endsOf);
  if (left === undefined || right === undefined) return undefined;
  if (left.length * right.length > CABLES_MOST) return undefined;
  return left.flatMap((one) => right.map((other) => [one, other] as const));
}

export type CableSection = readonly Omit<ListedCable, "item">[];

const cable = orShort(
  mapping({
    ends: leaf(ENDS_EXPECTED, ENDS_SHAPE, readEnds),
    count: integer(1, 64).optional().describe("so many between the same two"),
    rate: rate.optional().describe("else as the fabric says for hosts or uplinks"),
    latency: latency.optional().describe("else as the fabric says for hosts or uplinks"),
  }).transform(({ ends, count = 1, rate, latency }): CableSection =>
    ends.flatMap((its) =>
      Array.from({ length: count }, () => ({
        ends: its,
        ...(rate !== undefined && { bitsPerSecond: rate }),
        ...(latency !== undefined && { latencyPs: latency }),
      }))
    )
  ),
  {
    or: `${ENDS_EXPECTED}, `,
    schema: leaf(
      ENDS_EXPECTED,
      ENDS_SHAPE,
      (value) => readEnds(value) === undefined ? undefined : value as string,
    ),
    shape: ENDS_SHAPE,
    meaning: (ends) => ({ ends }),
  },
);

const cableList = z.array(cable, { error: "a list of cables" });
const cablesOfPairs = integer(1, 16);

/** A number between each leaf and each spine, or the list of all. */
export const cablesSchema = z.unknown().transform(
  (value, context): number | readonly CableSection[] => {
    const parsed = Array.isArray(value)
      ? cableList.safeParse(value)
      : cablesOfPairs.safeParse(value);
    if (parsed.success) return parsed.data;
    for (const issue of parsed.error.issues) {
      if (Array.isArray(value)) context.addIssue({ ...issue });
      else context.addIssue({ code: "custom", message: `a list of cables, or ${issue.message}` });
    }
    return z.NEVER;
  },
);

export const cablesShape = z.union([cablesOfPairs, cableList]);
