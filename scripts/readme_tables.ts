/**
 * `deno task tables`: tables in pages that are made from rows of the program, between `<!-- table:
 * NAME -->` and `<!-- end of table -->`. With `--check` it only says which pages differ.
 */
import { helpOf, type OptionTable, orderName } from "../fabric/rack/plan/option_rows.ts";
import { WORK, WORK_PIECES, WORK_PLACES } from "../fabric/rack/plan/hint_work.ts";
import { CHOICES, type MethodName } from "../fabric/rack/plan/vocabulary.ts";
import { ABSENT } from "../nodes/host/calls/absent.ts";
import { METHOD_ROWS, promiseText } from "../nodes/host/programs/persist/put_methods.ts";
import {
  CALLS_AS_THERE,
  CALLS_LEFT_OUT,
  CALLS_OF_OWN,
  CALLS_THAT_DIFFER,
  type CallsThere,
  ENUMERATIONS_THERE,
  FIELDS_THERE,
  functionsOf,
  namesOf,
} from "../nodes/host/calls/names_there.ts";
import { CHAOS_OPTIONS, EXPLORE_OPTIONS } from "../console/api/options.ts";
import { projectFile } from "../console/base/paths.ts";

type Cells = readonly (readonly string[])[];

const TABLES: Readonly<Record<string, Readonly<Record<string, () => string>>>> = {
  "scripts/scenarios/SCENARIO.md": { choices: () => optionTable(CHOICES) },
  "scripts/scenarios/HINTS.md": { "work of hints": () => hintWorkTable() },
  "console/explore/README.md": { explore: () => optionTable(EXPLORE_OPTIONS) },
  "console/chaos/README.md": { chaos: () => optionTable(CHAOS_OPTIONS) },
  "scripts/scenarios/NATIVE.md": {
    "verbs that the cards do not have": () =>
      tableOf([
        ["verbs that the cards do not have, by EOPNOTSUPP", "because"],
        ...Object.values(ABSENT).map(({ what, why }) => [what, why]),
      ]),
  },
  "nodes/host/programs/README.md": { methods: () => methodTable() },
  "scripts/scenarios/FROM_LIBIBVERBS.md": {
    "as in rdma-core": () => callTable("note", CALLS_AS_THERE),
    "differs": () => callTable("because", CALLS_THAT_DIFFER),
    "left out": () => leftOutTable(),
    "of its own": () =>
      tableOf([["here", "what it is"], ...CALLS_OF_OWN.map((row) => [code(row.here), row.note])]),
    "fields": () =>
      tableOf([
        ["of rdma-core", "here", "note"],
        ...FIELDS_THERE.map(({ type, field, there, note }) => [
          code(there),
          code([`${type}.${field}`]),
          note ?? "",
        ]),
      ]),
    "constants": () =>
      tableOf([
        ["of rdma-core", "here"],
        ...ENUMERATIONS_THERE.flatMap(({ of, values }) => [
          [`**${of}**`, ""],
          ...Object.entries(values).map(([name, value]) => [
            code([name]),
            code([JSON.stringify(value)]),
          ]),
        ]),
      ]),
  },
};

const code = (names: readonly string[]) => names.map((name) => `\`${name}\``).join(", ");

function callTable(note: string, table: Readonly<Record<string, readonly CallsThere[]>>): string {
  return tableOf([
    ["call", "here", note],
    ...Object.entries(table).flatMap(([subject, rows]) => [
      [`**${subject}**`, "", ""],
      ...rows.map((calls) => [code(namesOf(calls)), code(functionsOf(calls)), calls.note ?? ""]),
    ]),
  ]);
}

function leftOutTable(): string {
  return tableOf([
    ["call", "because"],
    ...Object.entries(CALLS_LEFT_OUT).flatMap(([subject, rows]) => [
      [`**${subject}**`, ""],
      ...rows.map((calls) => [code(namesOf(calls)), calls.note ?? ""]),
    ]),
  ]);
}

function optionTable(options: OptionTable): string {
  return tableOf([
    ["option", "in an order", "what it says"],
    ...Object.entries(options).map(([name, row]) => [
      `\`--${name}\``,
      `\`${orderName(name, row)}\``,
      helpOf(row),
    ]),
  ]);
}

function methodTable(): string {
  return tableOf([
    ["method", "a message", "promises persistence", "source"],
    ...Object.entries(METHOD_ROWS).map(([method, { message, source }]) => [
      code([method]),
      message,
      promiseText(method as MethodName),
      source,
    ]),
  ]);
}

function hintWorkTable(): string {
  return tableOf([
    ["piece", ...WORK_PLACES],
    ...WORK_PIECES.map((piece) => [
      code([piece]),
      ...WORK_PLACES.map((place) => {
        const cost = WORK[piece][place];
        return typeof cost === "string" ? "" : `${cost.oncePs / 1e3} + ${cost.elementPs / 1e3}`;
      }),
    ]),
  ]);
}

/** Without blanks up to the longest note, of which `deno fmt` would write several pages. */
function tableOf([head, ...others]: Cells): string {
  const lines = [head!, head!.map(() => "---"), ...others].map(lineOf);
  return ["<!-- deno-fmt-ignore-start -->", ...lines, "<!-- deno-fmt-ignore-end -->"].join("\n");
}

const lineOf = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;

function withTables(path: string, text: string): string {
  return Object.entries(TABLES[path]!).reduce((page, [name, table]) => {
    const begin = `<!-- table: ${name} -->\n`, end = "\n<!-- end of table -->";
    const [before, rest] = page.split(begin), [old, ...after] = rest?.split(end) ?? [];
    if (old === undefined || after.length === 0) {
      throw new Error(`Cannot find the table ${name} in ${path}`);
    }
    return `${before}${begin}\n${table()}\n${end}${after.join(end)}`;
  }, text);
}

if (import.meta.main) {
  for (const path of Object.keys(TABLES)) {
    const text = Deno.readTextFileSync(projectFile(path)), wanted = withTables(path, text);
    if (text === wanted) continue;
    if (!Deno.args.includes("--check")) Deno.writeTextFileSync(projectFile(path), wanted);
    console.log(path);
  }
}
