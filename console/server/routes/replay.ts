import { createRoute, type z } from "@hono/zod-openapi";
import { parseGoal } from "../../../fabric/trace/predicate.ts";
import type { Plain } from "../../api/common.ts";
import * as api from "../../api/replay.ts";
import type { Replay } from "../../replay/client.ts";
import { compareRuns } from "../../replay/compare.ts";
import type { Console } from "../context.ts";
import type { Caller } from "../doors/keys.ts";
import { variantFolder } from "../../reports/run_summary.ts";
import { answers, newRoutes, runNamed, runParams } from "./route.ts";

/** A question about a run that its replay answers. */
export function ask<Path extends string, Query extends z.ZodObject, Schema extends z.ZodType>(
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
const replayState = ask("replay", {
  query: api.replayStateQuery,
  schema: api.replayState,
  summary: "How far the replay is that answers the other questions, or its place in the line",
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

export interface Asking {
  readonly get: (name: "caller") => Caller | undefined;
  readonly req: {
    readonly raw: { readonly signal: AbortSignal };
    readonly valid: (where: "param") => { readonly run: string };
  };
}

/** A variant has one replay under all of its names. */
async function targetOf(run: string, variant: string | undefined) {
  const row = await runNamed(run);
  return { run: row.id, variant: variantFolder(row, variant).slice(row.path.length + 1) };
}

/** Asks the replay of the run that a request names. */
export function askerOf({ replays }: Console) {
  return async function asked<T>(
    { get, req }: Asking,
    variant: string | undefined,
    question: (replay: Replay) => Promise<T>,
  ): Promise<T> {
    const target = await targetOf(req.valid("param").run, variant);
    const user = get("caller")?.session;
    return await replays.ask(target, question, { signal: req.raw.signal, user });
  };
}

export function replayRoutes(console: Console) {
  const { replays } = console, asked = askerOf(console);

  return newRoutes()
    .openapi(timeline, async (c) => {
      const { variant } = c.req.valid("query");
      return c.json(await asked(c, variant, (replay) => replay.advance()), 200);
    })
    .openapi(replayState, async (c) => {
      const { run } = c.req.valid("param"), { variant } = c.req.valid("query");
      return c.json(replays.stateOf(await targetOf(run, variant)), 200);
    })
    .openapi(density, async (c) => {
      const { variant, ...query } = c.req.valid("query");
      return c.json(await asked(c, variant, (replay) => replay.density(query)), 200);
    })
    .openapi(snapshot, async (c) => {
      const { variant, at, exact = false } = c.req.valid("query");
      return c.json(await asked(c, variant, (replay) => replay.snapshot(at, { exact })), 200);
    })
    .openapi(programs, async (c) => {
      const { variant, at, ...query } = c.req.valid("query");
      const found = await asked(
        c,
        variant,
        async (replay) => replay.programs(at ?? await present(replay), query),
      );
      return c.json(found, 200);
    })
    .openapi(verdicts, async (c) => {
      const { variant, at, ...query } = c.req.valid("query");
      const found = await asked(
        c,
        variant,
        async (replay) => replay.verdicts(at ?? await present(replay), query),
      );
      return c.json(found, 200);
    })
    .openapi(memory, async (c) => {
      const { variant, at, ...query } = c.req.valid("query");
      const view = await asked(
        c,
        variant,
        async (replay) => replay.memory(at ?? await present(replay), query),
      );
      return c.json(view, 200);
    })
    .openapi(memoryMap, async (c) => {
      const { variant, at, ...query } = c.req.valid("query");
      const map = await asked(
        c,
        variant,
        async (replay) => replay.memoryMap(at ?? await present(replay), query),
      );
      return c.json(map, 200);
    })
    .openapi(loss, async (c) => {
      const { variant, at, nodes } = c.req.valid("query");
      const found = await asked(
        c,
        variant,
        async (replay) => replay.loss(at ?? await present(replay), nodes.split(",")),
      );
      return c.json(found, 200);
    })
    .openapi(operations, async (c) => {
      const { variant, ...query } = c.req.valid("query");
      return c.json(await asked(c, variant, (replay) => replay.operations(query)), 200);
    })
    .openapi(ladder, async (c) => {
      const { variant, index } = c.req.valid("query");
      return c.json(await asked(c, variant, (replay) => replay.ladder(index)), 200);
    })
    .openapi(events, async (c) => {
      const { variant, ...query } = c.req.valid("query");
      return c.json(await asked(c, variant, (replay) => replay.events(query)), 200);
    })
    .openapi(find, async (c) => {
      const { variant, step, node, ...query } = c.req.valid("query");
      const [what] = parseGoal([step], { node }).breaks;
      const wanted = { ...what!, ...query };
      return c.json({ event: await asked(c, variant, (replay) => replay.find(wanted)) }, 200);
    })
    .openapi(compare, async (c) => {
      const { run } = c.req.valid("param");
      const { variant, with: other, withVariant } = c.req.valid("query");
      const targets = [await targetOf(run, variant), await targetOf(other, withVariant)];
      const found = await replays.askTogether(
        targets,
        ([here, there]) => compareRuns(here!, there!),
        { signal: c.req.raw.signal, user: c.get("caller")?.session },
      );
      return c.json(found, 200);
    });
}

/** The instant to which a replay has come, of a rack that is up now. */
export async function present(replay: Replay): Promise<number> {
  return (await replay.advance()).endPs;
}
