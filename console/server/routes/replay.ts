import { createRoute, type z } from "@hono/zod-openapi";
import { parseGoal } from "../../../fabric/trace/predicate.ts";
import type { Plain } from "../../api/common.ts";
import * as api from "../../api/replay.ts";
import type { Replay } from "../../replay/client.ts";
import { compareRuns } from "../../replay/compare.ts";
import type { Console } from "../context.ts";
import { variantFolder } from "../../reports/run_summary.ts";
import { answers, newRoutes, runNamed, runParams } from "./route.ts";

function ask<Path extends string, Query extends z.ZodObject, Schema extends z.ZodType>(
  path: Path,
  { query, schema, summary }: { query: Query; schema: Schema; summary: string },
) {
  return createRoute({
    method: "get",
    path: `/runs/{run}/${path}`,
    summary,
    request: { params: runParams, query },
    // Answers of a replay are read-only, which types of schemas are not.
    responses: answers(schema as unknown as z.ZodType<Plain<Schema>>, summary),
  });
}

const timeline = ask("timeline", {
  query: api.timelineQuery,
  schema: api.timeline,
  summary: "The whole run: power, promises, faults, orders; of a rack that is up, until now",
});
const density = ask("density", {
  query: api.densityQuery,
  schema: api.density,
  summary: "Events in equal spans of virtual time",
});
const snapshot = ask("snapshot", {
  query: api.snapshotQuery,
  schema: api.snapshot,
  summary: "The rack at an instant",
});
const programs = ask("programs", {
  query: api.programsQuery,
  schema: api.programs,
  summary: "What programs have come to by an instant: state, reports, log",
});
const verdicts = ask("verdicts", {
  query: api.verdictsQuery,
  schema: api.verdicts,
  summary: "The checks' verdicts on what happened before an instant, as far as they can be told",
});
const memory = ask("memory", {
  query: api.memoryQuery,
  schema: api.memory,
  summary: "A host's SCM at an instant: where the newest copy of each byte is",
});
const memoryMap = ask("memory-map", {
  query: api.memoryMapQuery,
  schema: api.memoryMap,
  summary: "A range of a host's SCM at an instant in parts: how many lines are where",
});
const loss = ask("loss", {
  query: api.lossQuery,
  schema: api.loss,
  summary: "What a power cut of these devices at an instant would lose",
});
const operations = ask("operations", {
  query: api.operationsQuery,
  schema: api.operations,
  summary: "Operations of programs",
});
const ladder = ask("ladder", {
  query: api.ladderQuery,
  schema: api.ladder,
  summary: "One operation, step by step",
});
const events = ask("events", {
  query: api.eventsQuery,
  schema: api.events,
  summary: "What happened before and behind an instant",
});
const find = ask("find", {
  query: api.findQuery,
  schema: api.found,
  summary: "The step that fits: what `until` stops at, looked for in the past",
});

const compare = ask("compare", {
  query: api.compareQuery,
  schema: api.comparison,
  summary: "What differs between two runs, and the first event at which they part",
});

export function replayRoutes(console: Console) {
  const { replays } = console;

  async function asked<T>(
    run: string,
    variant: string | undefined,
    question: (replay: Replay) => Promise<T>,
  ): Promise<T> {
    const row = await runNamed(run);
    // A variant has one replay under all of its names.
    const folder = variantFolder(row, variant).slice(row.path.length + 1);
    return await replays.ask({ run: row.id, variant: folder }, question);
  }

  return newRoutes()
    .openapi(timeline, async (c) => {
      const { run } = c.req.valid("param"), { variant } = c.req.valid("query");
      return c.json(await asked(run, variant, (replay) => replay.advance()), 200);
    })
    .openapi(density, async (c) => {
      const { run } = c.req.valid("param"), { variant, ...query } = c.req.valid("query");
      return c.json(await asked(run, variant, (replay) => replay.density(query)), 200);
    })
    .openapi(snapshot, async (c) => {
      const { run } = c.req.valid("param"), { variant, at, exact = false } = c.req.valid("query");
      return c.json(await asked(run, variant, (replay) => replay.snapshot(at, { exact })), 200);
    })
    .openapi(programs, async (c) => {
      const { run } = c.req.valid("param"), { variant, at, ...query } = c.req.valid("query");
      const found = await asked(
        run,
        variant,
        async (replay) => replay.programs(at ?? await present(replay), query),
      );
      return c.json(found, 200);
    })
    .openapi(verdicts, async (c) => {
      const { run } = c.req.valid("param"), { variant, at, ...query } = c.req.valid("query");
      const found = await asked(
        run,
        variant,
        async (replay) => replay.verdicts(at ?? await present(replay), query),
      );
      return c.json(found, 200);
    })
    .openapi(memory, async (c) => {
      const { run } = c.req.valid("param"), { variant, at, ...query } = c.req.valid("query");
      const view = await asked(
        run,
        variant,
        async (replay) => replay.memory(at ?? await present(replay), query),
      );
      return c.json(view, 200);
    })
    .openapi(memoryMap, async (c) => {
      const { run } = c.req.valid("param"), { variant, at, ...query } = c.req.valid("query");
      const map = await asked(
        run,
        variant,
        async (replay) => replay.memoryMap(at ?? await present(replay), query),
      );
      return c.json(map, 200);
    })
    .openapi(loss, async (c) => {
      const { run } = c.req.valid("param"), { variant, at, nodes } = c.req.valid("query");
      const found = await asked(
        run,
        variant,
        async (replay) => replay.loss(at ?? await present(replay), nodes.split(",")),
      );
      return c.json(found, 200);
    })
    .openapi(operations, async (c) => {
      const { run } = c.req.valid("param"), { variant, ...query } = c.req.valid("query");
      return c.json(await asked(run, variant, (replay) => replay.operations(query)), 200);
    })
    .openapi(ladder, async (c) => {
      const { run } = c.req.valid("param"), { variant, index } = c.req.valid("query");
      return c.json(await asked(run, variant, (replay) => replay.ladder(index)), 200);
    })
    .openapi(events, async (c) => {
      const { run } = c.req.valid("param"), { variant, ...query } = c.req.valid("query");
      return c.json(await asked(run, variant, (replay) => replay.events(query)), 200);
    })
    .openapi(find, async (c) => {
      const { run } = c.req.valid("param");
      const { variant, step, node, ...query } = c.req.valid("query");
      const [what] = parseGoal([step], { node }).breaks;
      const wanted = { ...what!, ...query };
      return c.json({ event: await asked(run, variant, (replay) => replay.find(wanted)) }, 200);
    })
    .openapi(compare, async (c) => {
      const { run } = c.req.valid("param");
      const { variant, with: other, withVariant } = c.req.valid("query");
      const found = await asked(
        run,
        variant,
        (here) => asked(other, withVariant, (there) => compareRuns(here, there)),
      );
      return c.json(found, 200);
    });
}

async function present(replay: Replay): Promise<number> {
  return (await replay.advance()).endPs;
}
