/** A test calls `app.request()`. */
import { createMiddleware } from "hono/factory";
import { PROJECT_LIMITS } from "../api/page_terms.ts";
import type { Console, Env } from "./context.ts";
import { ApiFailure, failureResponse } from "./doors/errors.ts";
import { folderGuard } from "./doors/folders.ts";
import * as doors from "./doors/guards.ts";
import { completed, documentHead } from "./openapi.ts";
import { metricsText } from "./metrics.ts";
import { pageResponse } from "./page.ts";
import { cableRoutes } from "./routes/cables.ts";
import { feedRoutes } from "./routes/feed.ts";
import { jobRoutes } from "./routes/jobs.ts";
import { objectRoutes } from "./routes/objects.ts";
import { rackRoutes } from "./routes/racks.ts";
import { projectRoutes } from "./routes/projects.ts";
import { replayRoutes } from "./routes/replay.ts";
import { newRoutes } from "./routes/route.ts";
import { runRoutes } from "./routes/runs.ts";
import { scenarioRoutes } from "./routes/scenarios.ts";
import { sessionRoutes } from "./routes/session.ts";

const API = "/api/v1";

function apiRoutes(console: Console, feeds: Set<() => void>) {
  return newRoutes()
    .route("/", sessionRoutes(console))
    .route("/", runRoutes(console))
    .route("/", rackRoutes())
    .route("/", objectRoutes())
    .route("/", replayRoutes(console))
    .route("/", cableRoutes(console))
    .route("/", jobRoutes(console))
    .route("/", scenarioRoutes(console))
    .route("/", projectRoutes(console))
    .route("/", feedRoutes(console, feeds));
}

export interface App {
  readonly fetch: (request: Request, env?: Env["Bindings"]) => Response | Promise<Response>;
  readonly request: (
    input: string | Request,
    init?: RequestInit,
    env?: Env["Bindings"],
  ) => Response | Promise<Response>;
  readonly endFeeds: () => void;
}

export interface AppOptions extends Console {
  readonly onError?: (error: unknown) => void;
}

export function createApp({ onError, ...console }: AppOptions): App {
  const feeds = new Set<() => void>();
  const app = newRoutes();
  app.onError((error, c) => {
    const response = failureResponse(error, c);
    if (response.status === 500) onError?.(error);
    return response;
  });
  app.notFound((c) => failureResponse(new ApiFailure("not-found", "There is no such page"), c));
  app.use(doors.ownHeaders, doors.hostGuard(console), doors.originGuard(console));
  app.get("/healthz", (c) => c.json({ ok: true }));
  app.use("/metrics", doors.callerGuard(console), doors.rateGuard(console), doors.roleGuard);
  app.get("/metrics", async (c) => {
    const { type, text } = await metricsText(console);
    return c.body(text, 200, { "Content-Type": type, "Cache-Control": "no-store" });
  });
  const api = apiRoutes(console, feeds);
  app.use(
    `${API}/*`,
    doors.noStore,
    folderGuard(console),
    doors.callerGuard(console),
    doors.rateGuard(console),
    doors.auditGuard(console),
    doors.roleGuard,
    doors.lockGuard(console),
    bodies,
  );
  app.route(API, api);
  // Behind the routes' doors as all of the API is.
  app.get(
    `${API}/openapi.json`,
    (c) => c.json(completed(api.getOpenAPI31Document(documentHead(console.version, API)))),
  );
  app.get("*", (c) => {
    const { path } = c.req, encodings = c.req.header("accept-encoding");
    const file = pageResponse(console.page, { path, encodings });
    if (file === undefined) throw new ApiFailure("not-found", "There is no such page");
    return file;
  });
  return {
    fetch: (request, env) => app.fetch(request, env ?? {}),
    request: (input, init, env) => app.request(input, init, env ?? {}),
    endFeeds: () => {
      for (const end of feeds) end();
    },
  };
}

const bodies = createMiddleware<Env>(async (c, next) => {
  const { method, path } = c.req;
  const most = doors.isSignIn(c.req)
    ? doors.SIGN_IN_BYTES_MAX
    : method !== "PUT"
    ? doors.BODY_BYTES_MAX
    : path.startsWith(`${API}/projects/`)
    ? PROJECT_LIMITS.fileBytes
    : doors.OBJECT_BYTES_MAX;
  return await doors.bodyGuard(most)(c, next);
});
