/** One stream for the rack that a page looks at, jobs, and the list of runs. */
import { createRoute, z } from "@hono/zod-openapi";
import { stream } from "hono/streaming";
import { batch, feedQuery } from "../../api/feed.ts";
import type { Console } from "../context.ts";
import { ApiFailure } from "../doors/errors.ts";
import { withoutFolders } from "../doors/folders.ts";
import { feed } from "../feed/stream.ts";
import { failures, newRoutes, runNamed } from "./route.ts";

const LINES = {
  description: "each line is a Batch",
  contentMediaType: "application/x-ndjson",
  contentSchema: { $ref: "#/components/schemas/Batch" },
};

const get = createRoute({
  method: "get",
  path: "/feed",
  summary: "What happens: the rack's state first, then changes, a JSON document a line",
  request: { query: feedQuery },
  responses: {
    200: {
      description: "Lines, until the reader goes",
      content: { "application/x-ndjson": { schema: z.string().meta(LINES) } },
    },
    ...failures,
  },
});

const FEEDS_MAX = 100;

export function feedRoutes(console: Console, feeds: Set<() => void>) {
  const routes = newRoutes();
  // The type of a line is in the document, though it is no answer.
  routes.openAPIRegistry.register("Batch", batch);
  return routes.openapi(get, async (c) => {
    if (feeds.size >= FEEDS_MAX) {
      throw new ApiFailure("too-many", `${FEEDS_MAX} pages are open already: close one`);
    }
    const { run, after } = c.req.valid("query");
    if (run !== undefined) await untilSeen(console, run);
    const { body } = stream(c, async (out) => {
      let end = () => {};
      out.onAbort(() => end());
      try {
        await feed({
          watchers: console.watchers,
          jobs: console.jobs,
          run,
          after,
          isAborted: () => out.aborted,
          write: (line) => out.write(withoutFolders(line, console.projects.place)),
          onEnd: (stop) => {
            end = stop;
            feeds.add(stop);
          },
        });
      } finally {
        feeds.delete(end);
      }
    });
    const headers = { "Content-Type": "application/x-ndjson", "X-Accel-Buffering": "no" };
    // The library takes every type that ends in json for one document.
    return c.body(body!, 200, headers) as never;
  });
}

async function untilSeen({ watchers }: Console, run: string): Promise<void> {
  const { id, up } = await runNamed(run);
  if (!up) throw new ApiFailure("not-found", `${id} is not up`);
  const { watcher, leave } = watchers.join(id, () => {});
  try {
    await watcher.state();
  } finally {
    leave();
  }
}
