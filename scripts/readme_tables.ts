/**
 * `deno task tables`: tables of options in READMEs, between `<!-- options: NAME -->` and `<!-- end
 * of options -->`. With `--check` it only says which differ.
 */
import { helpOf, type OptionTable, orderName } from "../fabric/rack/plan/option_rows.ts";
import { CHOICES } from "../fabric/rack/plan/vocabulary.ts";
import { CHAOS_OPTIONS, EXPLORE_OPTIONS } from "../console/api/options.ts";
import { projectFile } from "../console/base/paths.ts";

const TABLES: Readonly<Record<string, readonly [name: string, table: OptionTable]>> = {
  "scripts/scenarios/SCENARIO.md": ["choices", CHOICES],
  "console/explore/README.md": ["explore", EXPLORE_OPTIONS],
  "console/chaos/README.md": ["chaos", CHAOS_OPTIONS],
};

/** As `deno fmt` has it: columns of one width. */
function tableOf(options: OptionTable): string {
  const rows = [
    ["option", "in an order", "what it says"],
    ...Object.entries(options).map(([name, row]) => [
      `\`--${name}\``,
      `\`${orderName(name, row)}\``,
      helpOf(row),
    ]),
  ];
  const widths = rows[0]!.map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
  const lineOf = (cells: readonly string[]) =>
    `| ${cells.map((cell, i) => cell.padEnd(widths[i]!)).join(" | ")} |`;
  const [head, ...others] = rows.map(lineOf);
  return [head, lineOf(widths.map((width) => "-".repeat(width))), ...others].join("\n");
}

function documentsWithTables(): { path: string; text: string; wanted: string }[] {
  return Object.entries(TABLES).map(([path, [name, table]]) => {
    const text = Deno.readTextFileSync(projectFile(path));
    const begin = `<!-- options: ${name} -->\n`, end = "\n<!-- end of options -->";
    const [before, rest] = text.split(begin), after = rest?.split(end)[1];
    if (after === undefined) throw new Error(`Cannot find the table ${name} in ${path}`);
    return { path, text, wanted: `${before}${begin}\n${tableOf(table)}\n${end}${after}` };
  });
}

if (import.meta.main) {
  const old = documentsWithTables().filter(({ text, wanted }) => text !== wanted);
  for (const { path, wanted } of old) {
    if (!Deno.args.includes("--check")) Deno.writeTextFileSync(projectFile(path), wanted);
    console.log(path);
  }
}
