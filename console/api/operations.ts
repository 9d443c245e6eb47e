/**
 * Operations as ladders: `GET /api/v1/operations` lists those of a run, `…/operations/{number}` is one with the
 * bytes of its frames, `POST …/operations/compare` runs a scenario by two methods and gives one ladder of each.
 */
import { z } from "zod";
import { name, seed, time } from "./common.ts";
import { scenarioSource } from "./jobs.ts";

/** Where a step leaves the bytes, as the page's four colours say it; `none`: it says nothing of them. */
export const PLACES = ["in flight", "volatile", "durable", "lost", "none"] as const;

export const operationSummary = z.object({
  number: z.number().int().describe("in the order of their begin, from 0"),
  node: name.describe("the requester's host"),
  connection: z.string().describe("`a:17-b:18`: hosts and queue pairs"),
  own: z.number().int().describe("the program's number of it, or that of the work request"),
  startPs: time,
  text: z.string().describe("what the program did first"),
}).meta({ id: "OperationSummary" });
export type OperationSummary = z.infer<typeof operationSummary>;

export const operations = z.object({
  scenario: z.string(),
  seed,
  variant: z.string(),
  operations: z.array(operationSummary),
}).meta({ id: "Operations" });
export type Operations = z.infer<typeof operations>;

export const ladderRow = z.object({
  time,
  sincePs: z.number().int().describe("from the operation's begin; negative before it"),
  node: name,
  to: name.optional().describe("the device that its arrow ends at"),
  step: z.string().describe("the document's number, else a verb"),
  document: z.string().nullable().describe("the document's words for the step"),
  text: z.string(),
  place: z.enum(PLACES),
  frame: z.number().int().optional().describe("among the document's frames"),
}).meta({ id: "LadderRow" });
export type LadderRow = z.infer<typeof ladderRow>;

export const frameField = z.object({
  header: z.string(),
  name: z.string().describe("empty: reserved bits"),
  bit: z.number().int().describe("its first bit, from the first of the frame"),
  bits: z.number().int(),
  value: z.string(),
  meaning: z.string(),
}).meta({ id: "FrameField" });
export type FrameField = z.infer<typeof frameField>;

export const ladderFrame = z.object({
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
  number: z.number().int(),
  count: z.number().int().describe("operations of the run"),
  operation: z.object({ node: name, connection: z.string(), number: z.number(), startPs: time }),
  figure: z.number().nullable().describe("of the documents"),
  columns: z.array(name).describe("devices from the requester's host to the responder's"),
  rows: z.array(ladderRow),
  conclusion: ladderRow.describe("what the requester's program knows at the end"),
  promise: z.string().describe("what that promises, in one sentence"),
  frames: z.array(ladderFrame),
}).meta({ id: "LadderDocument" });
export type LadderDocument = z.infer<typeof ladderDocument>;

const side = z.strictObject({
  method: z.string().max(40).optional(),
  ddio: z.enum(["on", "off"]).optional(),
});
export const compareOrder = z.strictObject({
  scenario: scenarioSource,
  number: z.number().int().min(0).default(0).describe("which operation of each"),
  size: z.number().int().min(64).max(2 ** 20).optional(),
  seed: seed.optional(),
  sides: z.tuple([side, side]),
}).meta({ id: "CompareOrder" });
export type CompareOrder = z.infer<typeof compareOrder>;

export const compared = z.object({
  ladders: z.tuple([ladderDocument, ladderDocument]),
}).meta({ id: "Compared" });
export type Compared = z.infer<typeof compared>;
