/** Uploads: data, protocols and rules that scenarios of a project read. */
import { createRoute, z } from "@hono/zod-openapi";
import { done } from "../../api/common.ts";
import { PROJECT_LIMITS } from "../../api/page_terms.ts";
import * as api from "../../api/projects.ts";
import type { Console } from "../context.ts";
import { answers, bytesAnswer, bytesContent, newRoutes } from "./route.ts";

const projectParams = z.object({ project: api.projectName });
const fileParams = projectParams.extend({ file: api.fileName });

const list = createRoute({
  method: "get",
  path: "/projects",
  summary: "Projects, and how much may be uploaded",
  responses: answers(api.projects, "Those that have a file"),
});

const files = createRoute({
  method: "get",
  path: "/projects/{project}/files",
  summary: "The files of a project",
  request: { params: projectParams },
  responses: answers(api.projectFiles, "None, where there is no such project"),
});

const get = createRoute({
  method: "get",
  path: "/projects/{project}/files/{file}",
  summary: "A file of a project",
  request: { params: fileParams },
  responses: bytesAnswer,
});

const put = createRoute({
  method: "put",
  path: "/projects/{project}/files/{file}",
  summary: "Uploads a file, in the place of one of that name",
  request: { params: fileParams, body: { required: true, content: bytesContent } },
  responses: answers(api.projectFile, "The file"),
});

const remove = createRoute({
  method: "delete",
  path: "/projects/{project}/files/{file}",
  summary: "Deletes a file; with its last file a project is gone",
  request: { params: fileParams },
  responses: answers(done, "It is gone"),
});

export function projectRoutes({ projects }: Console) {
  return newRoutes()
    .openapi(list, (c) => c.json({ projects: projects.list(), limits: PROJECT_LIMITS }, 200))
    .openapi(files, (c) => c.json({ files: projects.files(c.req.valid("param").project) }, 200))
    .openapi(get, (c) => {
      const { project, file } = c.req.valid("param");
      c.set("isAudited", true);
      return c.body(projects.open(project, file), 200, {
        "Content-Type": "application/octet-stream",
        "Content-Disposition": `attachment; filename="${file}"`,
      });
    })
    .openapi(put, async (c) => {
      const { project, file } = c.req.valid("param");
      const put = await projects.put(project, file, c.req.raw.body);
      c.set("detail", put);
      return c.json(put, 200);
    })
    .openapi(remove, (c) => {
      const { project, file } = c.req.valid("param");
      projects.remove(project, file);
      return c.json({ done: true as const }, 200);
    });
}
