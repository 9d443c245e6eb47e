import { OpenAPIHono, z } from "@hono/zod-openapi";
import { apiError, name, PROBLEM_TYPE } from "../../api/common.ts";
import { type RackLink, withRack } from "../../rack/live/racks.ts";
import { listRuns, type RunRow } from "../../rack/run_directory.ts";
import type { Env } from "../context.ts";
import { ApiFailure, invalidResponse } from "../doors/errors.ts";

/** For a topic; a request that does not fit its schema has an answer in the shape of all errors. */
export function newRoutes() {
  return new OpenAPIHono<Env>({
    defaultHook: (result, c) => result.success ? undefined : invalidResponse(result, c),
  });
}

/** `responses` of a route that answers with JSON. */
export function answers<Schema extends z.ZodType>(schema: Schema, description: string) {
  return {
    200: { description, content: { "application/json": { schema } } },
    ...failures,
  };
}

const failure = { content: { [PROBLEM_TYPE]: { schema: apiError } } };
export const failures = {
  "4XX": { description: "The request is refused: `kind` says how", ...failure },
  "5XX": { description: "The rack does not answer, or a bug of ours", ...failure },
} as const;

export const bytesContent = {
  "application/octet-stream": { schema: z.string().meta({ format: "binary" }) },
};

/** `responses` of a route that answers with a file. */
export const bytesAnswer = {
  200: { description: "Its bytes", content: bytesContent },
  ...failures,
} as const;

/** `request.body` of a route that takes JSON. */
export function takes<Schema extends z.ZodType>(schema: Schema) {
  return { required: true, content: { "application/json": { schema } } };
}

export const runParams = z.object({ run: name.meta({ description: "the whole name of a run" }) });

/** No path is made of a name that is not in the list. @throws ApiFailure */
export async function runNamed(id: string): Promise<RunRow> {
  const row = (await listRuns()).find((each) => each.id === id);
  if (row === undefined) throw new ApiFailure("not-found", `There is no run ${id}`);
  if (row.isForeign) throw new ApiFailure("not-found", `${id} is another user's`);
  return row;
}

/** Gives orders to the rack of exactly that name. @throws ApiFailure where it is not up. */
export async function onRack<T>(
  run: string,
  action: (link: RackLink) => Promise<T>,
): Promise<T> {
  // `lockGuard` knows who gives the order.
  return await withRack(await upNamed(run), action, { overrideLock: true });
}

/**
 * Looks at a rack with a credential that can give no order.
 * @throws ApiFailure where it is not up.
 */
export async function lookAtRack<T>(
  run: string,
  action: (link: RackLink) => Promise<T>,
): Promise<T> {
  return await withRack(await upNamed(run), action, { as: "viewer" });
}

async function upNamed(run: string): Promise<string> {
  const { id, up } = await runNamed(run);
  if (!up) throw new ApiFailure("not-found", `${id} is not up`);
  return id;
}
