import { createRoute, z } from "@hono/zod-openapi";
import { Refusal } from "../../../fabric/rack/plan/problem.ts";
import { name } from "../../api/common.ts";
import * as api from "../../api/scenarios.ts";
import { readRunFile } from "../../rack/run_directory.ts";
import { scenarioOfRun } from "../../scenarios/kept_scenario.ts";
import { catalogueRows } from "../../scenarios/catalogue.ts";
import { SCHEMA_FILE, SHIPPED_FOLDER, shippedScenarios } from "../../scenarios/shipped.ts";
import { readScenario } from "../../scenarios/scenario_source.ts";
import { newScenario } from "../../scenarios/new_scenario.ts";
import { validateScenario } from "../../scenarios/validate.ts";
import type { Console } from "../context.ts";
import { givenScenario, shippedNamed } from "../given_scenario.ts";
import { ApiFailure } from "../doors/errors.ts";
import { answers, newRoutes, runNamed, runParams, takes } from "./route.ts";
import { variantFolder } from "../../reports/run_summary.ts";

const list = createRoute({
  method: "get",
  path: "/scenarios",
  summary: "Shipped scenarios",
  responses: answers(api.scenarios, "By name, each with one sentence"),
});

const NEW = "new";

const one = createRoute({
  method: "get",
  path: "/scenarios/{name}",
  summary: "The text of a shipped scenario; of `new`, one to begin with",
  request: { params: z.object({ name }) },
  responses: answers(api.scenarioText, "YAML"),
});

const schema = createRoute({
  method: "get",
  path: "/scenario-schema",
  summary: "The JSON schema of scenario files, for editors",
  responses: answers(z.record(z.string(), z.unknown()), "A JSON schema"),
});

const validate = createRoute({
  method: "post",
  path: "/scenarios/validate",
  summary: "All that is wrong with a scenario; starts nothing",
  request: { body: takes(api.validateOrder) },
  responses: answers(api.valid, "Its problems, or what it stands for"),
});

const ofRun = createRoute({
  method: "get",
  path: "/runs/{run}/scenario",
  summary: "The scenario of a run, with what was done to its rack by hand as `faults:`",
  request: { params: runParams, query: z.object({ variant: name.optional() }) },
  responses: answers(api.runScenario, "A run of this text does the same again"),
});

/** @throws Refusal, ApiFailure */
async function readGiven(
  given: z.output<typeof api.validateOrder>,
  console: Console,
  onRead?: (file: string) => void,
) {
  const { path, reach } = await givenScenario(given, console);
  return await readScenario(path, { ...reach, onRead });
}

/** Without the file's name, which means nothing to the user who typed the text. */
function problemsOf(error: unknown) {
  if (!(error instanceof Refusal)) throw error;
  return error.problems.map(({ file: _, ...problem }) => problem);
}

export function scenarioRoutes(console: Console) {
  return newRoutes()
    .openapi(ofRun, async (c) => {
      const row = await runNamed(c.req.valid("param").run), { id } = row;
      const { signal } = c.req.raw;
      const directory = variantFolder(row, c.req.valid("query").variant);
      const runFile = readRunFile(directory);
      if (runFile === undefined) throw new ApiFailure("not-found", `${id} has no run file`);
      const { plan, partitions } = runFile;
      const found = scenarioOfRun({ run: id, directory, plan, partitions });
      const { projects, allowRead } = console, project = projects.namedIn(found.text);
      const named = project === undefined ? {} : { project };
      // Each is found again below those that a scenario may read.
      const own = project === undefined ? [] : [`${projects.place}/${project}`];
      const text = [...own, SHIPPED_FOLDER, ...allowRead]
        .reduce((left, folder) => left.replaceAll(`${folder}/`, "./"), found.text);
      const problems = await readGiven({ text, ...named }, console)
        .then((source) => validateScenario(source, { signal }))
        .then(() => [], problemsOf);
      return c.json({
        ...found,
        ...named,
        text,
        notes: [...found.notes],
        name: plan.scenario,
        problems,
      }, 200);
    })
    .openapi(list, async (c) => {
      const scenarios = (await shippedScenarios()).map(({ name, about }) => ({ name, about }));
      const protocols = catalogueRows().map(({ name, verdict, why, source }) => ({
        ...{ name, verdict, about: why },
        ...(source !== undefined && { source }),
      }));
      return c.json({ scenarios, protocols }, 200);
    })
    .openapi(one, async (c) => {
      const { name } = c.req.valid("param");
      if (name === NEW) {
        return c.json({ name, text: newScenario({ name: "my-rack", schema: SCHEMA_FILE }) }, 200);
      }
      const { text } = await shippedNamed(name);
      return c.json({ name, text }, 200);
    })
    .openapi(schema, async (c) => c.json(JSON.parse(await Deno.readTextFile(SCHEMA_FILE)), 200))
    .openapi(validate, async (c) => {
      const order = c.req.valid("json"), { text, ...where } = order, read = new Set<string>();
      const tell = () => c.set("detail", { letters: text.length, ...where, read: [...read] });
      tell();
      try {
        const source = await readGiven(order, console, (file) => {
          read.add(file);
          tell();
        });
        const { signal } = c.req.raw;
        const { file: _, ...scenario } = await validateScenario(source, { signal });
        const { runs, programs, needsInput } = scenario;
        const document = {
          ...scenario,
          runs: [...runs],
          programs: [...programs],
          needsInput: [...needsInput],
        };
        return c.json({ problems: [], scenario: document }, 200);
      } catch (error) {
        return c.json({ problems: problemsOf(error), scenario: null }, 200);
      }
    });
}
