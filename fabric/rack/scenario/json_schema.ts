/**
 * For editors, from the schemas that read a scenario. Conditions on several values (`checks.ts`)
 * are not in it.
 */
import { z } from "zod";
import { IMPAIRMENTS } from "../plan/link_plan.ts";
import { PROGRAMS } from "../plan/vocabulary.ts";
import { OWNERS } from "../assembly/link_faults.ts";
import {
  cutSchema,
  FLIP_KEYS,
  flipSchema,
  LINK_KEYS,
  linkFaultSchema,
  powerFaultSchema,
  STUCK_KEYS,
  stuckSchema,
} from "./fault_schema.ts";
import { cablesShape } from "./cables_schema.ts";
import {
  CABLES_DESCRIBED,
  fabricSchema,
  hostSchema,
  NAME_PATTERN,
  nativeSchema,
  OPTION_SCHEMAS,
  programSchema,
  SECTIONS,
} from "./schema.ts";
import { sharedSchema } from "./shared_regions.ts";
import { type JsonShape, SHORT, textLike, WORDS } from "./values.ts";

/** Draft 7, which every editor's YAML support knows. */
export function scenarioJsonSchema(): JsonShape {
  const { $schema, ...shape } = jsonSchemaOf(scenarioShape());
  return { $schema, title: "A scenario of rackmesh", ...shape };
}

/** Sections are read one by one, so that all problems are found at once; here they are together. */
function scenarioShape() {
  const host = hostSchema.meta({ id: "host" }).nullish();
  const name = NAME_PATTERN.source.slice(1, -1);
  const hostKey = textLike(name, String.raw`(\.\.`, name, ")?");
  return z.strictObject({
    ...SECTIONS,
    fabric: fabricSchema.extend({ cables: cablesShape.optional().describe(CABLES_DESCRIBED) })
      .nullish().describe(SECTIONS.fabric.description!),
    defaults: host.describe("options of all hosts"),
    hosts: z.record(z.string(), host).meta({
      description: "each host's options by its name; h1..h8 names eight",
      minProperties: 1,
      propertyNames: hostKey,
    }),
    programs: z.array(z.unknown().meta(programItem())).nullish()
      .describe("what runs on the hosts"),
    faults: z.array(z.unknown().meta(faultItem())).nullish()
      .describe("power failures and returns, what cables do, and damage inside machines"),
    shared: z.array(sharedSchema).nullish()
      .describe("regions of one host's memory that coherent cards keep copies of for others"),
  });
}

function jsonSchemaOf(schema: z.ZodType): JsonShape & { readonly $schema?: string } {
  const shape = z.toJSONSchema(schema, {
    io: "input",
    target: "draft-7",
    unrepresentable: "any",
    override: ({ jsonSchema }) => {
      allowWords(jsonSchema as Record<string, unknown>);
      allowShort(jsonSchema as Record<string, unknown>);
    },
  });
  return JSON.parse(JSON.stringify(shape));
}

function allowWords(shape: Record<string, unknown>): void {
  const words = shape[WORDS];
  if (words === undefined) return;
  delete shape[WORDS];
  shape["anyOf"] = [{ enum: words }, ...shape["anyOf"] as unknown[]];
}

function allowShort(shape: Record<string, unknown>): void {
  const { [SHORT]: short, description, ...mapping } = shape;
  if (short === undefined) return;
  for (const key of Object.keys(shape)) delete shape[key];
  Object.assign(shape, { ...(description !== undefined && { description }) });
  shape["anyOf"] = [short, mapping];
}

function partOf(schema: z.ZodType): JsonShape {
  const { $schema: _, ...shape } = jsonSchemaOf(schema);
  return shape;
}

function programItem(): JsonShape {
  const { properties } = partOf(programSchema) as {
    readonly properties: Readonly<Record<string, JsonShape>>;
  };
  const own = textLike(String.raw`\.{0,2}/.*\.[jt]s`);
  const run = { ...properties["run"], anyOf: [{ enum: Object.keys(PROGRAMS) }, own] };
  const native = partOf(nativeSchema);
  const { description } = (native["properties"] as Record<"native", JsonShape>).native;
  return {
    type: "object",
    // An option of a user's own program may have its name.
    properties: { ...properties, run, program: run, native: { description } },
    required: ["on"],
    anyOf: ["run", "program", "native"].map(having),
    if: { not: { anyOf: ["run", "program"].map(having) } },
    then: native,
    allOf: Object.keys(PROGRAMS).map((name) => ({
      if: { anyOf: [named("run", name), named("program", name)] },
      then: programOptions(name, Object.keys(properties)),
    })),
  };
}

function named(key: string, name: string): JsonShape {
  return { properties: { [key]: { const: name } }, required: [key] };
}

function programOptions(name: string, common: readonly string[]): JsonShape {
  const words = Object.entries(PROGRAMS[name]!);
  return {
    properties: {
      ...Object.fromEntries([...common, "program"].map((key) => [key, true])),
      ...Object.fromEntries(words.map(([key, { kind }]) => [key, partOf(OPTION_SCHEMAS[kind])])),
    },
    required: words.filter(([, { required }]) => required === true).map(([key]) => key),
    additionalProperties: false,
    not: { required: ["run", "program"] },
  };
}

/** The keys determine the kind, in the order of `fault_reading.ts`. */
function faultItem(): JsonShape {
  const impairment = {
    ...partOf(linkFaultSchema),
    oneOf: IMPAIRMENTS.map(having),
    dependencies: Object.fromEntries(OWNERS.map(([key, owner]) => [key, [owner]])),
  };
  const cut = { ...partOf(cutSchema), oneOf: ["cut", "heal"].map(having) };
  const power = {
    ...partOf(powerFaultSchema),
    oneOf: ["kill", "start", "shutdown"].map(having),
    dependencies: { within: ["shutdown"] },
  };
  return {
    type: "object",
    ...choice([
      [LINK_KEYS, impairment],
      [["cut", "heal"], cut],
      [FLIP_KEYS, partOf(flipSchema)],
      [STUCK_KEYS, partOf(stuckSchema)],
    ], power),
  };
}

function having(key: string): JsonShape {
  return { required: [key] };
}

/** The shape of the first row of which a key is there; else `otherwise`. */
function choice(
  rows: readonly (readonly [keys: readonly string[], shape: JsonShape])[],
  otherwise: JsonShape,
): JsonShape {
  const [first, ...rest] = rows;
  if (first === undefined) return otherwise;
  const [keys, then] = first;
  return { if: { anyOf: keys.map(having) }, then, else: choice(rest, otherwise) };
}
