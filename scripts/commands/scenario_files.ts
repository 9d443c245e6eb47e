import type { Command } from "commander";
import { scenarioJsonSchema } from "../../fabric/rack/scenario/json_schema.ts";
import { Refusal, refusal } from "../../fabric/rack/plan/problem.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import { countOf } from "../../console/checks/finding.ts";
import {
  missingImports,
  type NewKind,
  writeNewProtocol,
} from "../../console/scenarios/new_protocol.ts";
import { writeNewNative } from "../../console/scenarios/new_native.ts";
import { writeNewScenario } from "../../console/scenarios/new_scenario.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";
import { shippedScenarios } from "../../console/scenarios/shipped.ts";
import { validateScenario, type ValidScenario } from "../../console/scenarios/validate.ts";
import { type Column, tableText } from "../../console/reports/table.ts";
import { painted } from "./colour.ts";
import { onInterrupt } from "./interrupt.ts";
import {
  addAllowRead,
  addCheckOption,
  type AllowReadFlag,
  checkedScenario,
  type CheckFlags,
  typesOf,
} from "./rack_options.ts";
import { print, printResult } from "./output.ts";

interface JsonFlag {
  readonly json?: boolean;
}

export function addScenarioFiles(program: Command): void {
  program.command("scenarios")
    .description("scenarios that come with rack, each with what it is about")
    .option("--json", "one JSON document on stdout")
    .addHelpText("after", "\nExample:\n  rack scenarios")
    .action(list);
  program.command("new <file>")
    .description("write a scenario to begin with, which runs as it is; never over a file")
    .option(
      "--protocol",
      "a folder with a protocol of your own: its name, or that of its file (x.ts)",
    )
    .option(
      "--coherence",
      "the same with rows of your own in the protocol of coherent cards",
    )
    .option("--native", "a folder with a program in C over verbs, its Makefile and its scenario")
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      "\nWith --protocol or --coherence the folder has the protocol, its scenario, and a deno.json by which editors find" +
        "\nits types. Files that are there already stay as they are." +
        "\n\nExample:\n  rack new my_rack.yaml && rack run my_rack.yaml" +
        "\n  rack new --protocol my_log && cd my_log && rack run my_log.yaml --pack all" +
        "\n  rack new --coherence my_rows && rack explore --protocol my_rows/my_rows.ts" +
        "\n  rack new --native my_verbs && make -C my_verbs && rack run my_verbs/my_verbs.yaml --pack all",
    )
    .action(newFile);
  addAllowRead(program.command("check <file>"))
    .description("check the types of your own programs: of a scenario's, or one by its file (x.ts)")
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      "\nA wrong type, an unknown field and a call without yield* are told with file and line. It goes by the" +
        "\ndeno.json above the program. Kept until a file changes; run, up, explore, chaos, sweep and trace do it first." +
        "\n\nExample:\n  rack check my_log.ts\n  rack check scripts/scenarios/my_protocol.yaml",
    )
    .action(check);
  addAllowRead(addCheckOption(program.command("validate <scenario>")))
    .description("check a scenario as run does, its programs included, and start nothing")
    .option("--json", "one JSON document on stdout")
    .addHelpText(
      "after",
      "\nAll mistakes are listed, each with its line, what was found and what was expected." +
        "\n\nExample:\n  rack validate scripts/scenarios/persist_pair.yaml",
    )
    .action(validate);
  program.command("schema")
    .description("the JSON schema of scenario files, by which editors check and complete them")
    .addHelpText(
      "after",
      `
An editor with yaml-language-server finds it by the first line of a file, as rack new writes it:
  # yaml-language-server: $schema=PATH

Example:
  rack schema > rackmesh.schema.json`,
    )
    .action(() => {
      print(JSON.stringify(scenarioJsonSchema(), null, 2));
    });
}

async function newFile(
  file: string,
  flags: JsonFlag & {
    readonly protocol?: boolean;
    readonly coherence?: boolean;
    readonly native?: boolean;
  },
): Promise<void> {
  const kinds = (["protocol", "coherence", "native"] as const).filter((kind) => flags[kind]);
  if (kinds.length > 1) {
    const found = `${kinds.map((kind) => `--${kind}`).join(" and ")} stand together`;
    throw refusal("", { found, expected: "one of them" });
  }
  if (flags.native) return await newNative(file, flags);
  if (flags.protocol) return await newProtocol(file, flags, "program");
  if (flags.coherence) return await newProtocol(file, flags, "coherence");
  const name = await writeNewScenario(file);
  printResult(flags, { file, name }, `${file} is written: rack run ${file} runs it`);
}

async function newProtocol(target: string, flags: JsonFlag, kind: NewKind): Promise<void> {
  const made = await writeNewProtocol(target, kind);
  const { folder, written, kept, scenario } = made;
  const missing = kept.includes("deno.json") ? await missingImports(folder) : undefined;
  const path = pathFromHere(`${folder}/${scenario}`);
  const text = [
    `${folder}: ${written.join(", ")} written` +
    (kept.length === 0 ? "" : `; ${kept.join(", ")} there already, and not changed`),
    ...(missing === undefined ? [] : [missing]),
    `rack run ${path} --pack all runs it`,
    ...(kind === "coherence"
      ? [`rack explore --protocol ${pathFromHere(`${folder}/${made.protocol}`)} explores it`]
      : []),
  ].join("\n");
  printResult(flags, { ...made, ...(missing !== undefined && { missing }) }, text);
}

async function newNative(target: string, flags: JsonFlag): Promise<void> {
  const made = await writeNewNative(target);
  const { folder, written, kept, scenario } = made;
  const text = `${folder}: ${written.join(", ")} written` +
    (kept.length === 0 ? "" : `; ${kept.join(", ")} there already, and not changed`) +
    `\nmake -C ${pathFromHere(folder)} builds it, rack run ${
      pathFromHere(`${folder}/${scenario}`)
    } --pack all runs it`;
  printResult(flags, made, text);
}

async function list(flags: JsonFlag): Promise<void> {
  const scenarios = await shippedScenarios();
  const columns: readonly Column<typeof scenarios[number]>[] = [
    { title: "scenario", value: ({ file }) => pathFromHere(file) },
    { title: "what it is about", value: ({ about }) => about },
  ];
  print(flags.json ? JSON.stringify(scenarios) : tableText(columns, scenarios));
}

function pathFromHere(file: string): string {
  const here = `${Deno.cwd()}/`;
  return file.startsWith(here) ? file.slice(here.length) : file;
}

const PROGRAM = /\.[jt]s$/;

async function check(file: string, flags: JsonFlag & AllowReadFlag): Promise<void> {
  try {
    const types = await typesOf(PROGRAM.test(file) ? file : await readScenario(file, flags), flags);
    const { files = [], isKept = false } = types ?? {};
    const typed = files.filter((path) => !path.endsWith(".js"));
    const what = files.length === 0
      ? "no program of your own, no types to check"
      : typed.length === 0
      ? "JavaScript, which has no types to check"
      : `types of ${countOf(typed.length, "file")} hold${isKept ? ", as before" : ""}`;
    const text = painted(`ok   ${file}: ${what}`);
    printResult(flags, { ok: true, file, files, kept: isKept }, text);
  } catch (error) {
    refuseAsJson(error, file, flags);
  }
}

async function validate(file: string, flags: JsonFlag & CheckFlags & AllowReadFlag): Promise<void> {
  try {
    const scenario = await checkedScenario(file, flags);
    const valid = await validateScenario(scenario, { signal: onInterrupt("ending the check") });
    print(flags.json ? JSON.stringify({ ok: true, ...valid }) : painted(validText(valid)));
  } catch (error) {
    refuseAsJson(error, file, flags);
  }
}

function refuseAsJson(error: unknown, file: string, flags: JsonFlag): void {
  if (!(error instanceof Refusal) || !flags.json) throw error;
  print(JSON.stringify({ ok: false, file, problems: error.problems }));
  Deno.exitCode = EXIT.usage;
}

function validText(valid: ValidScenario): string {
  const { file, name, hosts, nodes, runs, programs, faults, needsInput, warnings } = valid;
  const line = [
    `ok   ${file}: ${name}`,
    `${countOf(hosts, "host")} (${countOf(nodes, "node")})`,
    programs.length === 0 ? "no program" : programs.join(" and "),
    ...(faults > 0 ? [countOf(faults, "fault")] : []),
    countOf(runs.length, "run"),
    ...(needsInput.length > 0 ? [`put on ${needsInput.join(", ")} needs --input FILE`] : []),
  ].join(", ");
  return [line, ...warnings.map(({ node, text }) => `note ${node}: ${text}`)].join("\n");
}
