/** A scenario's file, read once by the entry point of a command. */
import { Refusal, refusal } from "../../fabric/rack/plan/problem.ts";
import { formatSize } from "../../fabric/rack/plan/units.ts";
import { readScenarioOf } from "../../fabric/rack/scenario/parse_scenario.ts";
import type { Scenario } from "../../fabric/rack/scenario/scenario.ts";
import type { YamlSource } from "../../fabric/rack/scenario/yaml_source.ts";
import { SCENARIO_BYTES_MAX } from "../api/page_terms.ts";
import { ifThere, isThere, readInto } from "../base/files.ts";
import { catalogueFolder, catalogueRow, scenarioOf } from "./catalogue.ts";
import type { Reach } from "./read_door.ts";

export interface ScenarioSource extends Reach {
  /** As its user wrote it: for messages, and for commands that read it again. */
  readonly path: string;
  readonly text: string;
  readonly yaml: YamlSource;
  readonly scenario: Scenario;
}

/**
 * Reads and checks a scenario's file, or that of a protocol of the catalogue by its name.
 * @param how.base where its paths begin, of one that is a changed copy of another; default: the
 * file's folder, of a pipe the current one.
 * @param how.allowRead folders that it may read besides; default: none.
 * @throws Refusal where the file cannot be read, is too large or is no valid scenario; where there
 * is no such folder.
 */
export async function readScenario(
  path: string,
  { base, allowRead = [], isReadOnly, onRead }: {
    readonly base?: string | undefined;
    readonly allowRead?: readonly string[] | undefined;
    readonly isReadOnly?: boolean | undefined;
    readonly onRead?: Reach["onRead"] | undefined;
  } = {},
): Promise<ScenarioSource> {
  const row = isThere(path) ? undefined : catalogueRow(path);
  const { text, isFile } = row ? { text: scenarioOf(row), isFile: false } : await readText(path);
  return sourceOf(text, {
    path,
    base: base ?? (row ? catalogueFolder() : isFile ? await folderOf(path) : Deno.cwd()),
    allowRead: allowRead.map(allowedFolder),
    ...(isReadOnly === true && { isReadOnly }),
    ...(onRead && { onRead }),
  });
}

/** @throws Refusal where the scenario is not valid. */
export function sourceOf(
  text: string,
  { path, ...reach }: Pick<ScenarioSource, "path"> & Reach,
): ScenarioSource {
  return { path, ...reach, text, ...readScenarioOf(text, path) };
}

/** Without links. @throws Refusal */
export function allowedFolder(folder: string): string {
  const real = ifThere(() => Deno.realPathSync(folder));
  if (real !== undefined && Deno.statSync(real).isDirectory) return real;
  throw refusal("--allow-read", { found: `"${folder}"`, expected: "a folder that is there" });
}

/** A pipe can be read only once. */
async function readText(path: string): Promise<{ text: string; isFile: boolean }> {
  if (/\.[cm]?[jt]s$/.test(path)) {
    const name = path.slice(path.lastIndexOf("/") + 1);
    const expected = `a scenario that names it, by { on: a, program: ./${name} }`;
    throw refusal("", { found: `${path} is a program`, expected });
  }
  try {
    using file = await Deno.open(path);
    const bytes = new Uint8Array(SCENARIO_BYTES_MAX + 1);
    const length = readInto(file, bytes);
    if (length > SCENARIO_BYTES_MAX) {
      const found = `${path} has more than ${formatSize(SCENARIO_BYTES_MAX)}`;
      throw refusal("", { found, expected: "a scenario" });
    }
    const text = new TextDecoder().decode(bytes.subarray(0, length));
    return { text, isFile: (await file.stat()).isFile };
  } catch (cause) {
    if (cause instanceof Refusal) throw cause;
    const why = (cause as Error).message;
    throw refusal("", { found: `Cannot read the scenario ${path}: ${why}`, cause });
  }
}

async function folderOf(path: string): Promise<string> {
  return (await Deno.realPath(path)).replace(/\/[^/]*$/, "");
}
