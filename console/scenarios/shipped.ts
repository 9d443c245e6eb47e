import { fromFileUrl, projectFile } from "../base/paths.ts";

export interface ShippedScenario {
  readonly name: string;
  readonly file: string;
  /** The first sentence of its file. */
  readonly about: string;
}

const FOLDER = "scripts/scenarios";

/** Without links, as its scenarios' paths begin there. */
export const SHIPPED_FOLDER = Deno.realPathSync(fromFileUrl(projectFile(FOLDER)));

/** `json_schema.ts` as a file, for editors. */
export const SCHEMA_FILE = fromFileUrl(projectFile(`${FOLDER}/schema.json`));

export async function shippedScenarios(): Promise<ShippedScenario[]> {
  const found: ShippedScenario[] = [];
  for await (const { name } of Deno.readDir(projectFile(FOLDER))) {
    if (!name.endsWith(".yaml")) continue;
    const file = fromFileUrl(projectFile(`${FOLDER}/${name}`));
    const about = aboutOf(await Deno.readTextFile(file));
    found.push({ name: name.replace(/\.yaml$/, ""), file, about });
  }
  return found.sort((x, y) => x.name < y.name ? -1 : 1);
}

/** Editors find a file's schema by it. */
export const SCHEMA_COMMENT = "# yaml-language-server: $schema=";

/** The first sentence of the comment at the head of a scenario file. */
export function aboutOf(text: string): string {
  const lines = text.split("\n").filter((line) => !line.startsWith(SCHEMA_COMMENT));
  const end = lines.findIndex((line) => !line.startsWith("#"));
  const comment = lines.slice(0, end < 0 ? lines.length : end)
    .map((line) => line.replace(/^#+ ?/, "")).join(" ");
  return comment.split(/[.:;](?:\s|$)/)[0]!.trim();
}
