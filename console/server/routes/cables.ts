/** One cable of a run: its history, and a capture of its frames. */
import { createRoute } from "@hono/zod-openapi";
import * as api from "../../api/cables.ts";
import type { Console } from "../context.ts";
import { ask, askerOf, present } from "./replay.ts";
import { failures, newRoutes, runParams } from "./route.ts";
import { z } from "@hono/zod-openapi";

const history = ask("cable-history", {
  query: api.cableHistoryQuery,
  schema: api.cableHistory,
  summary: "How much of a cable's rate was used, and what waited to leave over it",
});

const capture = createRoute({
  method: "get",
  path: "/runs/{run}/cable-capture",
  summary: "Frames of one cable as a pcapng file",
  request: { params: runParams, query: api.captureQuery },
  responses: {
    200: {
      description: "The file; `X-Frames` says how many frames it has",
      headers: z.object({ "X-Frames": z.string() }),
      content: {
        "application/x-pcapng": { schema: z.string().meta({ format: "binary" }) },
      },
    },
    ...failures,
  },
});

export function cableRoutes(console: Console) {
  const asked = askerOf(console);
  return newRoutes()
    .openapi(history, async (c) => {
      const { variant, cable } = c.req.valid("query");
      const found = await asked(c, variant, async (replay) => {
        await present(replay);
        return await replay.cableHistory(cable);
      });
      return c.json(found, 200);
    })
    .openapi(capture, async (c) => {
      const { variant, cable, from = 0, to, last } = c.req.valid("query");
      const { bytes, frames } = await asked(
        c,
        variant,
        async (replay) =>
          await replay.cableCapture({ cable, from, to: to ?? await present(replay), last }),
      );
      return c.body(bytes, 200, {
        "Content-Type": "application/x-pcapng",
        "X-Frames": String(frames),
      });
    });
}
