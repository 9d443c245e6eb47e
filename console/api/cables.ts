/** Queries on one cable of a run: its history, and a capture of its frames. */
import { z } from "zod";
import { maybe, name, type Plain, time } from "./common.ts";
import { CAPTURED_MAX, HISTORY_POINTS } from "./replay_terms.ts";

const number = z.number();

const target = name.describe("the cable: `a-rnic/tor`");
const variant = name.optional().describe(
  "of a run with several: name or number from 1; default: the first",
);

export const cableHistoryQuery = z.object({ cable: target, variant });

export const cableHistory = z.object({
  at: z.array(time).describe(`the instants of its points, at most ${HISTORY_POINTS}`),
  bitsPerSecond: number,
  directions: z.array(z.object({
    from: name.describe("the end that sends"),
    sentBytes: z.array(number.nullable())
      .describe("since the point before; null: without power"),
    queuedBytes: maybe(z.array(number.nullable()))
      .describe("of a switch: what waited there at the point"),
  })),
}).meta({ id: "CableHistory" });
export type CableHistory = Plain<typeof cableHistory>;

export const captureQuery = z.object({
  cable: target,
  variant,
  from: z.coerce.number().int().min(0).optional()
    .describe("ps: frames whose first bit passes at it or later; default: all"),
  to: z.coerce.number().int().min(0).optional()
    .describe("ps, exclusive; default: the end, of a rack that is up now"),
  last: z.coerce.number().int().min(1).max(CAPTURED_MAX).optional()
    .describe("only so many, the latest"),
});

/** Of an engine: instants are known. */
export interface CaptureOrder {
  readonly cable: string;
  readonly from: number;
  readonly to: number;
  readonly last?: number | undefined;
}
