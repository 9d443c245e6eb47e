/** A page can leave a job and find it again. */
import { createRoute, z } from "@hono/zod-openapi";
import { done, name } from "../../api/common.ts";
import * as api from "../../api/jobs.ts";
import type { Console } from "../context.ts";
import { givenScenario } from "../given_scenario.ts";
import { ApiFailure } from "../doors/errors.ts";
import { RUNNING_MAX, RUNNING_OF_USER_MAX } from "../jobs/jobs.ts";
import type { JobWork } from "../jobs/protocol.ts";
import { answers, newRoutes, runNamed, takes } from "./route.ts";

const list = createRoute({
  method: "get",
  path: "/jobs",
  summary: "Jobs of this console",
  responses: answers(api.jobs, "Newest first"),
});

const post = createRoute({
  method: "post",
  path: "/jobs",
  summary:
    "Starts a run, a rack (also at an instant of a run), an exploration, a campaign, a perftest, a sweep",
  request: { body: takes(api.jobOrder) },
  responses: answers(api.job, "It has begun"),
});

const jobParams = z.object({ job: name });

const one = createRoute({
  method: "get",
  path: "/jobs/{job}",
  summary: "A job, with what it has found so far",
  request: { params: jobParams },
  responses: answers(api.jobDetail, "The job"),
});

const cancel = createRoute({
  method: "delete",
  path: "/jobs/{job}",
  summary: "Asks a job to end: what it has started goes down, and what it knows is kept",
  request: { params: jobParams },
  responses: answers(done, "It is ending"),
});

export function jobRoutes(console: Console) {
  const { jobs } = console;
  return newRoutes()
    .openapi(list, (c) => c.json({ jobs: jobs.list() }, 200))
    .openapi(post, async (c) => {
      const order = c.req.valid("json"), caller = c.get("caller");
      const isText = "scenario" in order && "text" in order.scenario;
      c.set("detail", isText ? { ...order, scenario: "a text" } : order);
      if (jobs.running >= RUNNING_MAX) {
        throw new ApiFailure("too-many", `${RUNNING_MAX} jobs run already: end one, or wait`);
      }
      if (caller !== undefined && jobs.runningOf(caller.session) >= RUNNING_OF_USER_MAX) {
        const found = `${RUNNING_OF_USER_MAX} jobs of yours run already, the most of one user`;
        throw new ApiFailure("too-many", `${found}: end one, or wait`);
      }
      if (!("scenario" in order)) {
        if ("run" in order) await runNamed(order.run);
        const title = "run" in order ? order.run : "every method";
        return c.json(jobs.start({ order }, title, caller), 200);
      }
      const { path, reach, title } = await givenScenario(order.scenario, console);
      const replay = order.kind === "run" ? replayOf(jobs, order) : undefined;
      const work = { order, scenario: { path, reach }, ...(replay && { replay }) };
      return c.json(jobs.start(work, title, caller), 200);
    })
    .openapi(one, (c) => {
      const found = jobs.find(c.req.valid("param").job);
      if (found === undefined) throw new ApiFailure("not-found", "There is no such job");
      return c.json(found, 200);
    })
    .openapi(cancel, (c) => {
      const { job } = c.req.valid("param");
      if (jobs.find(job) === undefined) throw new ApiFailure("not-found", "There is no such job");
      jobs.cancel(job);
      return c.json({ done: true as const }, 200);
    });
}

function replayOf(
  jobs: Console["jobs"],
  { counterexample }: Extract<api.JobOrder, { kind: "run" }>,
): JobWork["replay"] {
  if (counterexample === undefined) return undefined;
  const { job, variant } = counterexample;
  const result = jobs.find(job)?.result;
  const explored = result?.kind === "explore" ? result.explored : undefined;
  const found = explored?.runs.find((each) => each.variant === variant);
  if (explored === undefined || found === undefined || found.faults === null) {
    throw new ApiFailure("not-found", `${job} has no counterexample of ${variant}`);
  }
  return { faults: found.faults, input: explored.input };
}
