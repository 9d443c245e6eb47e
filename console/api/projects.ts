import { z } from "zod";
import { FILE_EXPECTED, FILE_NAME, PROJECT_EXPECTED, PROJECT_NAME } from "./page_terms.ts";

export const projectName = z.string().regex(PROJECT_NAME, `expected ${PROJECT_EXPECTED}`);
export const fileName = z.string().regex(FILE_NAME, `expected ${FILE_EXPECTED}`);

export const project = z.object({
  name: z.string(),
  files: z.number().int(),
  bytes: z.number().int(),
}).meta({ id: "Project" });

export const projects = z.object({
  projects: z.array(project).describe("by name"),
  limits: z.object({
    projects: z.number().int(),
    files: z.number().int().describe("of a project"),
    fileBytes: z.number().int(),
    projectBytes: z.number().int(),
  }),
}).meta({ id: "Projects" });
export type Projects = z.infer<typeof projects>;

export const projectFile = z.object({
  name: z.string().describe("as a scenario of the project names it"),
  bytes: z.number().int(),
  changed: z.string().describe("wall time, ISO 8601"),
}).meta({ id: "ProjectFile" });
export type ProjectFile = z.infer<typeof projectFile>;

export const projectFiles = z.object({ files: z.array(projectFile).describe("by name") })
  .meta({ id: "ProjectFiles" });
