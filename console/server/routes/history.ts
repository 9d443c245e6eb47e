/**
 * A run at any instant of it, by its replay: `console/replay/types.ts` has the shape of each answer. None of these
 * touches the rack.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { name } from "../../api/common.ts";
import { ladderDocument } from "../../api/operations.ts";
import type { Replays } from "../replays.ts";
import { answers, newRoutes, runNamed, runParams } from "./route.ts";

/** A document of `console/replay/types.ts` by its name there. */
function documentNamed(id: string) {
  return z.record(z.string(), z.unknown()).meta({ id });
}

type Plain = Record<string, unknown>;

const instant = z.coerce.number().int().min(0);
const variant = name.optional().describe("of a run with several: which one");
const at = instant.optional().describe("picoseconds; without: the end, or now where it is up");
const offset = z.coerce.number().int().min(0);

const timeline = createRoute({
  method: "get",
  path: "/runs/{run}/timeline",
  summary: "The whole run: power, promises, faults, orders, and how dense its events are",
  request: { params: runParams, query: z.object({ variant }) },
  responses: answers(documentNamed("Timeline"), "The run"),
});

const snapshot = createRoute({
  method: "get",
  path: "/runs/{run}/snapshot",
  summary: "The rack at an instant",
  request: { params: runParams, query: z.object({ variant, at }) },
  responses: answers(documentNamed("Snapshot"), "Devices, cables and programs"),
});

const memory = createRoute({
  method: "get",
  path: "/runs/{run}/memory/{host}",
  summary: "Where each line of a host's SCM is at an instant, and what is promised of it",
  request: {
    params: runParams.extend({ host: name }),
    query: z.object({
      variant,
      at,
      from: offset.optional().describe("first byte; without: all of it"),
      to: offset.optional(),
      bytes: z.enum(["true", "false"]).default("false"),
    }),
  },
  responses: answers(documentNamed("MemoryView"), "At most 4096 lines"),
});

const loss = createRoute({
  method: "get",
  path: "/runs/{run}/loss",
  summary: "What a power cut of some devices at an instant would lose",
  request: {
    params: runParams,
    query: z.object({ variant, at, nodes: z.string().min(1).max(10_000).describe("by comma") }),
  },
  responses: answers(documentNamed("Loss"), "Bytes by place and by promise"),
});

const operations = createRoute({
  method: "get",
  path: "/runs/{run}/operations",
  summary: "The operations of a run, in the order of their begin",
  request: {
    params: runParams,
    query: z.object({
      variant,
      from: instant.optional().describe("those that end here or later"),
      to: instant.optional().describe("those that begin before"),
      on: name.optional().describe("those of this requester"),
      most: z.coerce.number().int().min(1).max(1_000).default(200),
    }),
  },
  responses: answers(documentNamed("Operations"), "With the number of each"),
});

const operation = createRoute({
  method: "get",
  path: "/runs/{run}/operations/{number}",
  summary: "An operation as a ladder, with the bytes of its frames and its promise",
  request: {
    params: runParams.extend({ number: z.coerce.number().int().min(0) }),
    query: z.object({ variant }),
  },
  responses: answers(ladderDocument, "Step by step"),
});

const events = createRoute({
  method: "get",
  path: "/runs/{run}/events",
  summary: "What happens around an instant",
  request: {
    params: runParams,
    query: z.object({
      variant,
      at,
      before: z.coerce.number().int().min(0).max(500).default(20),
      after: z.coerce.number().int().min(0).max(500).default(20),
      node: name.optional(),
    }),
  },
  responses: answers(documentNamed("Events"), "Rows by time"),
});

const found = z.object({ event: z.record(z.string(), z.unknown()).nullable() }).meta({
  id: "FoundEvent",
});
const find = createRoute({
  method: "get",
  path: "/runs/{run}/find",
  summary: "The next event that fits: a step's number, a verb, or `/` and a part of its text",
  request: {
    params: runParams,
    query: z.object({
      variant,
      after: instant,
      node: name.optional(),
      step: z.string().min(1).max(200),
    }),
  },
  responses: answers(found, "Null where there is none"),
});

export function historyRoutes(replays: Replays) {
  const replayOf = async (run: string, variant: string | undefined, at?: number) => {
    const { id } = await runNamed(run);
    return await replays.of({ run: id, variant }, at);
  };
  const given = <T extends object>(query: T) =>
    Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined)) as T;
  return newRoutes()
    .openapi(timeline, async (c) => {
      const { replay } = await replayOf(c.req.valid("param").run, c.req.valid("query").variant);
      return c.json(await replay.timeline() as unknown as Plain, 200);
    })
    .openapi(snapshot, async (c) => {
      const { variant, at } = c.req.valid("query");
      const { replay, at: there } = await replayOf(c.req.valid("param").run, variant, at);
      return c.json(await replay.snapshot(there) as unknown as Plain, 200);
    })
    .openapi(memory, async (c) => {
      const { run, host } = c.req.valid("param");
      const { variant, at, bytes, from = 0, to = Number.MAX_SAFE_INTEGER } = c.req.valid("query");
      const { replay, at: there } = await replayOf(run, variant, at);
      const query = { host, from, to, bytes: bytes === "true" };
      return c.json(await replay.memory(there, query) as unknown as Plain, 200);
    })
    .openapi(loss, async (c) => {
      const { variant, at, nodes } = c.req.valid("query");
      const { replay, at: there } = await replayOf(c.req.valid("param").run, variant, at);
      return c.json(await replay.loss(there, nodes.split(",")) as unknown as Plain, 200);
    })
    .openapi(operations, async (c) => {
      const { variant, ...query } = c.req.valid("query");
      const { replay } = await replayOf(c.req.valid("param").run, variant);
      return c.json(await replay.operations(given(query) as never) as unknown as Plain, 200);
    })
    .openapi(operation, async (c) => {
      const { run, number } = c.req.valid("param");
      const { replay } = await replayOf(run, c.req.valid("query").variant);
      return c.json(await replay.ladder(number), 200);
    })
    .openapi(events, async (c) => {
      const { variant, at, ...query } = c.req.valid("query");
      const { replay, at: there } = await replayOf(c.req.valid("param").run, variant, at);
      const document = await replay.events({ at: there, ...given(query) as { before: number } });
      return c.json(document as unknown as Plain, 200);
    })
    .openapi(find, async (c) => {
      const { variant, after, step, node } = c.req.valid("query");
      const { replay } = await replayOf(c.req.valid("param").run, variant);
      const event = await replay.find({ after, step, ...(node !== undefined && { node }) });
      return c.json({ event: event as unknown as Plain | null }, 200);
    });
}
