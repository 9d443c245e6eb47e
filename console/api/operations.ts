/**
 * One operation as a ladder: steps of devices, each with the bytes of its frame, and the promise at
 * its end.
 */
import { z } from "zod";
import { name, seed, time } from "./common.ts";

/** Where a step leaves the bytes, as the page's four colours say it; `none`: it says nothing of them. */
export const ROW_PLACES = ["in flight", "volatile", "durable", "lost", "none"] as const;

const ladderRow = z.object({
  time,
  sincePs: z.number().int().describe("from the operation's begin; negative before it"),
  node: name,
  to: name.optional().describe("the device that its arrow ends at"),
  step: z.string().describe("the document's number, else a verb"),
  document: z.string().nullable().describe("the document's words for the step"),
  text: z.string(),
  place: z.enum(ROW_PLACES),
  frame: z.number().int().optional().describe("among the document's frames"),
}).meta({ id: "LadderRow" });
export type LadderRow = z.infer<typeof ladderRow>;

const frameField = z.object({
  header: z.string(),
  name: z.string().describe("empty: reserved bits"),
  bit: z.number().int().describe("its first bit, from the first of the frame"),
  bits: z.number().int(),
  value: z.string(),
  meaning: z.string(),
}).meta({ id: "FrameField" });
export type FrameField = z.infer<typeof frameField>;

const ladderFrame = z.object({
  number: z.number().int(),
  text: z.string().describe("in one line"),
  bytes: z.string().describe("in hex; the first 1024 of them"),
  length: z.number().int(),
  fields: z.array(frameField),
  passes: z.array(z.object({
    node: name,
    kind: z.enum(["sent", "received"]),
    startPs: time.describe("its first bit passes this port"),
    endPs: time.describe("its last bit passes this port"),
    effect: z.string().optional().describe("what the cable does to it from here on"),
  })),
}).meta({ id: "LadderFrame" });
export type LadderFrame = z.infer<typeof ladderFrame>;

export const ladderDocument = z.object({
  scenario: z.string(),
  seed,
  variant: z.string(),
  operation: z.object({ node: name, connection: z.string(), number: z.number(), startPs: time }),
  figure: z.number().nullable().describe("of the documents"),
  columns: z.array(name).describe("devices from the requester's host to the responder's"),
  rows: z.array(ladderRow),
  conclusion: ladderRow.describe("what the requester's program knows at the end"),
  promise: z.string().describe("what that promises, in one sentence"),
  frames: z.array(ladderFrame),
}).meta({ id: "LadderDocument" });
export type LadderDocument = z.infer<typeof ladderDocument>;
