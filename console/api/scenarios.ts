import { z } from "zod";
import { DEFAULT_PROJECT } from "./page_terms.ts";
import { projectName } from "./projects.ts";
import { name, problem, scenarioYaml, seed } from "./common.ts";

export const shipped = z.object({
  name: z.string(),
  about: z.string().describe("one sentence"),
}).meta({ id: "ShippedScenario" });

export const protocol = shipped.extend({
  about: z.string().describe("one sentence: why its verdict is what it is"),
  verdict: z.enum(["safe", "unsafe"]).describe("that an exploration must come to"),
  source: z.string().optional().describe("where it was published"),
}).meta({ id: "CatalogueProtocol" });

export const scenarios = z.object({
  scenarios: z.array(shipped),
  protocols: z.array(protocol)
    .describe("the catalogue: a name of it stands for its scenario wherever a shipped one does"),
}).meta({ id: "Scenarios" });

export const scenarioText = z.object({ name: z.string(), text: z.string() }).meta({
  id: "ScenarioText",
});

/** Where the paths of a scenario's text begin. */
export const inProject = {
  like: name.optional().describe("a shipped scenario: paths in the text begin where its own do"),
  project: projectName.optional()
    .describe(`whose uploaded files it reads; default: ${DEFAULT_PROJECT}`),
};

export const validateOrder = z.strictObject({
  text: scenarioYaml,
  ...inProject,
}).meta({ id: "ValidateOrder" });

export const valid = z.object({
  problems: z.array(problem).describe("all of them, each with its line; empty: it can be run"),
  scenario: z.object({
    name: z.string(),
    seed,
    hosts: z.number(),
    nodes: z.number(),
    runs: z.array(z.string()),
    programs: z.array(z.string()),
    faults: z.number(),
    needsInput: z.array(z.string()),
  }).nullable().describe("null where there are problems"),
}).meta({ id: "Validation" });
export type Validation = z.infer<typeof valid>;

export const runScenario = z.object({
  name: z.string(),
  text: z.string().describe("its choices made, what was done as faults:"),
  project: projectName.optional().describe("whose uploaded files it reads"),
  faults: z.number().int().describe("done by hand"),
  notes: z.array(z.string()).describe("what of the run the text cannot say"),
  problems: z.array(problem).describe("why it cannot be run; empty: it can"),
}).meta({ id: "RunScenario" });
export type RunScenario = z.infer<typeof runScenario>;
